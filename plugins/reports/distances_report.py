"""The report of distances over all columns at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from marginalsyn.evaluation import page
from marginalsyn.evaluation.reports import (
    Block,
    Case,
    Fact,
    Options,
    RealData,
    Report,
    each_variant,
)
from marginalsyn.progress import Progress

_NAMES = {
    "wasserstein": "Wasserstein-1",
    "energy": "energy distance",
    "mmd": "MMD, squared",
    "two_sample": "classifier's AUC",
    "association": "difference of Cramér's V, mean",
}


class DistancesReport(Report):
    """Weighted Wasserstein-1, MMD, energy distance, a two-sample classifier, associations."""

    name = "distances"
    title = "Distances"
    summary = "weighted Wasserstein, MMD, energy, two-sample test, associations"
    place = 50
    beside = False

    def compute(self, case: Case, ground: RealData, options: Options, progress: Progress) -> Block:
        import numpy as np

        from marginalsyn.evaluation.table_distances import distances

        variants = []
        for number, (weights, table) in enumerate(case.variants()):
            progress.report("distances", fraction=number / (1 + len(case.weights)), text=case.name)
            rng = np.random.default_rng(options.seed)
            found = distances(table, ground.reference, rng=rng)
            variants.append({"weights": weights, **found})
        fresh = None
        if ground.fresh is not None and len(ground.fresh):
            if "distances" not in ground.cache:
                progress.report("distances", text="real rows against real rows")
                rng = np.random.default_rng(options.seed)
                ground.cache["distances"] = distances(ground.fresh, ground.reference, rng=rng)
            fresh = ground.cache["distances"]
        return {"variants": variants, "fresh": fresh}

    def facts(self, case: str, block: Block) -> Iterable[Fact]:
        for variant in block["variants"]:
            item = f"weights {variant['weights']}" if variant["weights"] else "rows"
            for metric in _NAMES:
                yield self.fact(case, item, metric, _value(metric, variant))

    def html(self, blocks: Mapping[str, Block], combined: Block | None = None) -> Iterable[str]:
        first = next(iter(blocks.values()))
        lines = list(each_variant(blocks))
        if first["fresh"]:
            lines.append(("held-out real rows", first["fresh"]))
        rows = [(name, *(_value(metric, found) for metric in _NAMES)) for name, found in lines]
        kind = first["variants"][0]["wasserstein"]["kind"]
        yield page.paragraph(
            "All columns at once, against the real rows. Smaller is closer; of the classifier that "
            "tells synthetic rows from real ones, an AUC of one half is perfect, and one well "
            "below means that rows were copied. Held-out rows are the mark to compare with, where "
            f"there are as many of them. Wasserstein is {kind}."
        )
        yield page.long_table("Distances of all tables", ["table", *_NAMES.values()], rows)


def _value(metric: str, found: Mapping[str, Any]) -> float | None:
    part = found[metric]
    return part.get("value", part.get("auc", part.get("mean")))

"""The report of marginal errors: how far small marginals are off, next to the error of sampling."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from marginalsyn.evaluation import page
from marginalsyn.evaluation.charts import heat
from marginalsyn.evaluation.column_charts import column_shares, draw_columns
from marginalsyn.evaluation.comparison import curves_by_eps, draw_by_eps
from marginalsyn.evaluation.reports import (
    Block,
    Blocks,
    Case,
    Fact,
    Options,
    RealData,
    Report,
    Verdict,
    called,
    each_variant,
)
from marginalsyn.evaluation.verdict import compare_marginals, judge_marginals
from marginalsyn.progress import Progress

if TYPE_CHECKING:
    from marginalsyn.release.folder import Release

Columns = tuple[str, ...]

# More marginals than that say nothing new and make files large: the degree is lowered.
MOST_MARGINALS = 50_000
FEW_MARGINALS = 3_000
# Columns whose values are drawn: the worst ones where there are more.
MOST_OVERLAYS = 24
MOST_SERIES = 4


class MarginalsReport(Report):
    """Normalised l1 errors of all marginals up to a degree; total variation is half of them."""

    name = "marginals"
    title = "Marginals"
    summary = "errors of all small marginals, beside those of sampling alone"
    place = 20

    def compute(self, case: Case, ground: RealData, options: Options, progress: Progress) -> Block:
        from marginalsyn.evaluation.groups import rare_groups
        from marginalsyn.evaluation.marginals import marginal_errors
        from marginalsyn.table.spread import wasted

        domain = ground.schema.domain
        degree = affordable_degree(len(domain), options.degree)
        wanted: dict[str, Any] = {"degree": degree, "workload": options.workload}
        variants = []
        for number, (weights, table) in enumerate(case.variants()):
            progress.report("marginals", fraction=number / (1 + len(case.weights)), text=case.name)
            errors = marginal_errors(
                ground.reference.codes,
                table.codes,
                domain,
                second_weights=table.weights,
                **wanted,
            )
            variants.append({"weights": weights, **_spread(errors)})
        progress.report("marginals", text="a fresh sample")
        # Few marginals are measured from more splits; many of them average the noise out.
        draws = 8 if len(errors) <= FEW_MARGINALS else 2
        floor = _floor(ground, len(case.synthetic), options.seed, draws, wanted)
        blind = _shuffled(ground, len(case.synthetic), options.seed, wanted)
        shown = _worst_columns(variants[0], list(domain))
        return {
            "degree": degree,
            "degree_asked": options.degree,
            "reference_rows": len(ground.reference),
            "synthetic_rows": len(case.synthetic),
            "columns": list(domain),
            "variants": variants,
            "sampling": _spread(floor) if floor else None,
            "shuffled": _spread(blind),
            "wasted": wasted(case.frame, case.synthetic.schema)
            if case.release and case.frame is not None
            else [],
            "groups": rare_groups(ground.reference, case.variants()),
            "overlays": [column_shares(name, ground.reference, case) for name in shown],
            "generator": case.generator,
            "eps": case.eps,
        }

    def facts(self, case: str, block: Block) -> Iterable[Fact]:
        for variant in block["variants"]:
            for level in variant["by_degree"]:
                item = called(f"{level['degree']}-way", variant["weights"])
                for metric in ("mean_l1", "worst_l1", "mean_tv", "worst_tv"):
                    yield self.fact(case, item, metric, level[metric])

    def verdict(self, block: Block) -> Verdict:
        return judge_marginals(block)

    def compare(self, blocks: Blocks) -> str:
        return compare_marginals(blocks)

    def combine(self, blocks: Blocks) -> Block | None:
        degree = min(block["variants"][0]["by_degree"][-1]["degree"] for block in blocks.values())
        curves = curves_by_eps(
            (
                called(block["generator"] or "another tool", variant["weights"]),
                block["eps"],
                level["mean_l1"],
                0.0,
            )
            for block in blocks.values()
            if block["eps"]
            for variant in block["variants"]
            for level in variant["by_degree"]
            if level["degree"] == degree
        )
        return {"degree": degree, "error_by_eps": curves} if curves else None

    def table(self, blocks: Blocks) -> list[list[str]]:
        """Mean l1 errors by degree."""
        from marginalsyn.evaluation.markup import number

        first = next(iter(blocks.values()))
        levels = [level["degree"] for level in first["variants"][0]["by_degree"]]
        rows = [["l1 error of marginals", *(f"{d}-way" for d in levels), "worst"]]

        lines = [
            (f"{case}, {variant['weights']}" if variant["weights"] else case, variant)
            for case, block in blocks.items()
            for variant in block["variants"]
        ]
        for name, part in [*lines, *yardsticks(blocks)]:
            means = [number(level["mean_l1"]) for level in part["by_degree"]]
            rows.append([name, *means, number(part["by_degree"][-1]["worst_l1"])])
        return rows

    def html(self, blocks: Blocks, combined: Block | None = None) -> Iterable[str]:
        first = next(iter(blocks.values()))
        yield page.paragraph(
            "The l1 error of marginals: the sum of the differences between real and synthetic "
            "shares. 0 is perfect, 2 is disjoint; half of it is the total variation distance. "
            "“A fresh sample” is what other real rows, as many as the synthetic ones, would show; "
            "“shuffled columns” have the right values and no relation among them."
        )
        if combined is not None:
            told = f"Mean error of the {combined['degree']}-way marginals against eps"
            yield draw_by_eps(combined["error_by_eps"], told, "l1 error")
        yield from _summary(blocks)
        if first["degree"] < first["degree_asked"]:
            yield page.paragraph(
                f"Up to {first['degree']} columns: there are too many larger marginals.", "note"
            )
        drawn = _drawn(blocks)
        if len(drawn) < len(blocks):
            yield page.paragraph(f"Drawn below: {', '.join(drawn)}.", "note")
        yield _heat_maps(drawn)
        yield page.heading("Columns")
        yield draw_columns(drawn)

    def publish(self, release: Release) -> Block:
        from marginalsyn.table.design import CodedRows

        table = CodedRows.of(release.frame(), release.schema)
        names = release.schema.names[:MOST_OVERLAYS]
        weights = release.weights()
        columns = {str(n): weights[n].to_numpy() for n in weights} if weights is not None else {}
        case = Case(name="rows", synthetic=table, weights=columns)
        return {
            "synthetic_rows": len(table),
            "columns": release.schema.names,
            "overlays": [column_shares(name, None, case) for name in names],
            "measured": [
                {"columns": list(m.columns), "cells": int(m.values.size), "sigma": m.sigma}
                for m in release.measurements()
            ],
        }

    def public_html(self, block: Block) -> str:
        rows = [(" × ".join(m["columns"]), m["cells"], m["sigma"]) for m in block["measured"]]
        told = f"The shares of values among the {block['synthetic_rows']:,} synthetic rows."
        html = page.paragraph(told) + draw_columns({"release": block})
        if not rows:
            return html
        measured = page.table(("marginal", "cells", "standard deviation of the noise"), rows)
        return html + page.details("The noisy marginals that the release holds", measured)


def affordable_degree(columns: int, degree: int) -> int:
    """The largest degree, up to the one asked for, that has few enough marginals to compute."""
    total, reached = 0, 1
    for k in range(1, min(degree, columns) + 1):
        total += math.comb(columns, k)
        if total > MOST_MARGINALS and k > 1:
            break
        reached = k
    return reached


def _floor(
    ground: RealData, rows: int, seed: int, draws: int, wanted: Mapping[str, Any]
) -> dict[Columns, float]:
    """The errors of sampling alone, shared by tables of about the same size."""
    import numpy as np

    from marginalsyn.evaluation.sampling import sampling_errors

    known = ground.cache.setdefault(("sampling", wanted["degree"], wanted["workload"]), {})
    near = next((size for size in known if abs(size - rows) <= 0.02 * rows), None)
    if near is None:
        near = rows
        known[rows] = sampling_errors(
            ground.reference.codes,
            ground.schema.domain,
            rng=np.random.default_rng(seed),
            rows=rows,
            draws=draws,
            **wanted,
        )
    return known[near]


def _shuffled(
    ground: RealData, rows: int, seed: int, wanted: Mapping[str, Any]
) -> dict[Columns, float]:
    """The errors of real columns, each shuffled by itself: right values, no relation among them.

    As many rows as the synthetic ones, drawn with replacement.
    """
    import numpy as np

    from marginalsyn.evaluation.marginals import marginal_errors

    known = ground.cache.setdefault(("shuffled", wanted["degree"], wanted["workload"]), {})
    if rows not in known:
        codes, rng = ground.reference.codes, np.random.default_rng([seed, 3])
        drawn = np.column_stack([column[rng.integers(0, len(codes), rows)] for column in codes.T])
        known[rows] = marginal_errors(codes, drawn, ground.schema.domain, **wanted)
    return known[rows]


def _spread(errors: Mapping[Columns, float]) -> dict[str, Any]:
    """The l1 errors by degree, by column and by pair; of the means half as well."""
    import numpy as np

    levels = []
    for degree in sorted({len(q) for q in errors}):
        some = {q: e for q, e in errors.items() if len(q) == degree}
        values = np.array(list(some.values()))
        worst = max(some, key=lambda q: some[q])
        levels.append(
            {
                "degree": degree,
                "marginals": len(some),
                "mean_l1": float(values.mean()),
                "mean_tv": float(values.mean() / 2),
                "worst_l1": float(some[worst]),
                "worst_tv": float(some[worst] / 2),
                "worst": list(worst),
                "deciles": [float(v) for v in np.quantile(values, np.linspace(0, 1, 11))],
            }
        )
    return {
        "by_degree": levels,
        "by_column": {q[0]: e for q, e in errors.items() if len(q) == 1},
        "by_pair": [[*q, e] for q, e in errors.items() if len(q) == 2],
    }


def _worst_columns(variant: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """The columns to draw, in schema order."""
    errors = variant["by_column"]
    worst = sorted(names, key=lambda name: -errors.get(name, 0.0))[:MOST_OVERLAYS]
    return [name for name in names if name in worst]


def _summary(blocks: Blocks) -> Iterator[str]:
    """The tables of means, worst marginals and deciles."""
    first = next(iter(blocks.values()))
    degrees = [level["degree"] for level in first["variants"][0]["by_degree"]]
    head = ["table", *(f"{d}-way {kind}" for kind in ("mean", "worst") for d in degrees)]
    lines = [(name, part["by_degree"]) for name, part in each_variant(blocks)]
    lines += [(name, part["by_degree"]) for name, part in yardsticks(blocks)]
    rows = [
        [name, *(level[key] for key in ("mean_l1", "worst_l1") for level in levels)]
        for name, levels in lines
    ]
    yield page.long_table("Errors of all tables", head, rows)
    worst = [
        f"{name}: {' × '.join(level['worst'])}"
        for name, block in blocks.items()
        for level in block["variants"][0]["by_degree"][-1:]
    ]
    told = page.paragraph("Worst of the largest: " + "; ".join(worst) + ".", "note")
    if len(worst) > page.LONG:
        told = page.details("Worst of the largest marginals", told)
    yield told
    rows = [
        [f"{name}, {level['degree']}-way", *level["deciles"][1:10]]
        for name, levels in lines
        for level in levels
    ]
    head = ["table", *(f"{share}%" for share in range(10, 100, 10))]
    yield page.details("Deciles of the errors", page.table(head, rows))


def _drawn(blocks: Blocks) -> dict[str, Block]:
    """The tables whose pairs and columns are drawn: of many, every generator's at most eps."""
    if len(blocks) <= MOST_SERIES:
        return dict(blocks)
    best: dict[str, str] = {}
    for name, block in blocks.items():
        known = best.setdefault(block["generator"] or name, name)
        if (block["eps"] or 0.0) > (blocks[known]["eps"] or 0.0):
            best[block["generator"]] = name
    return {name: blocks[name] for name in list(best.values())[:MOST_SERIES]}


def yardsticks(blocks: Blocks) -> list[tuple[str, Mapping[str, Any]]]:
    """The yardsticks by name: fresh samples, once for tables of about one size, and shuffled."""
    found: dict[int, Mapping[str, Any]] = {}
    for block in blocks.values():
        rows = block["synthetic_rows"]
        if block["sampling"] and not any(abs(rows - known) <= 0.1 * known for known in found):
            found[rows] = block["sampling"]
    if len(found) == 1:
        told = [("a fresh sample", next(iter(found.values())))]
    else:
        told = [(f"a fresh sample of {rows:,} rows", part) for rows, part in found.items()]
    return [*told, ("shuffled columns", next(iter(blocks.values()))["shuffled"])]


def _heat_maps(blocks: Blocks) -> str:
    """One matrix of pairs per table; for a single table with weights, one of each."""
    charts = []
    for name, block in blocks.items():
        columns = block["columns"]
        place = {column: i for i, column in enumerate(columns)}
        variants = block["variants"] if len(blocks) == 1 else block["variants"][:1]
        for variant in variants[:MOST_SERIES]:
            cells = {(place[a], place[b]): tv for a, b, tv in variant["by_pair"]}
            if cells:
                told = f"{called(name, variant['weights'])}: l1 error of every pair"
                charts.append(page.figure(heat(columns, cells, told), told, large=True))
    return page.heading("Pairs") + page.grid(charts, "pair") if charts else ""

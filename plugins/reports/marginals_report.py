"""The report of marginal errors: how far small marginals are off, next to the error of sampling."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from marginalsyn.evaluation.charts import Matrix, Series, Shares
from marginalsyn.evaluation.reports import (
    Block,
    Blocks,
    Case,
    Fact,
    Options,
    RealData,
    Report,
    by_column,
    called,
    curves_by_eps,
    each_variant,
    show_by_eps,
)
from marginalsyn.evaluation.verdict import Verdict, compare_marginals, judge_marginals
from marginalsyn.evaluation.view import Fold, Group, Item, Legend, Note, Table, number
from marginalsyn.plugins.reports.marginal_errors import (
    Columns,
    marginal_errors,
    rare_groups,
    sampling_errors,
    share_table,
)
from marginalsyn.progress import Progress
from marginalsyn.release.folder import Release
from marginalsyn.table.design import CodedRows
from marginalsyn.table.frames import wasted

# Bars of one chart; of more values neighbours are drawn together, or the small ones.
MOST_BARS = 12
MOST_SERIES = 4
_INTERVAL = re.compile(r"([\[(].*), (.*[\])])")


def column_shares(name: str, reference: CodedRows | None, case: Case) -> dict[str, Any]:
    """The shares of one column's values in every table, and the bars that are drawn of them."""
    schema = case.synthetic.schema
    position, column = schema.names.index(name), schema.column(name)

    def shares(table: CodedRows) -> list[float]:
        return share_table(table.codes[:, [position]], [column.size], table.weights).tolist()

    labels = column.labels()
    found: dict[str, Any] = {
        "column": name,
        "labels": labels,
        "real": None if reference is None else shares(reference),
        "synthetic": shares(case.synthetic),
        "weighted": {str(w): shares(table) for w, table in case.variants() if w is not None},
    }
    if len(labels) > MOST_BARS:
        if column.numeric or column.ordered:
            groups = _neighbours(column.levels, len(labels))
        else:
            # By the real rows where there are any: the same bars for every table.
            groups = _largest(found["real"] or found["synthetic"])
        found["bars"] = _gather(found, groups, together=not (column.numeric or column.ordered))
    return found


def _neighbours(levels: int, count: int) -> list[list[int]]:
    """Groups of neighbouring levels; OTHER and missing stay by themselves."""
    size = -(-levels // (MOST_BARS - (count - levels)))
    groups = [list(range(i, min(i + size, levels))) for i in range(0, levels, size)]
    return groups + [[i] for i in range(levels, count)]


def _largest(shares: Sequence[float]) -> list[list[int]]:
    """The most frequent values one by one in their order, then all others together."""
    ranked = sorted(range(len(shares)), key=lambda i: -shares[i])
    top, rest = sorted(ranked[: MOST_BARS - 1]), sorted(ranked[MOST_BARS - 1 :])
    return [*([i] for i in top), rest]


def _gather(
    found: Mapping[str, Any], groups: Sequence[Sequence[int]], *, together: bool
) -> dict[str, Any]:
    """The same shares, summed over groups of values."""

    def sums(shares: Sequence[float]) -> list[float]:
        return [float(sum(shares[i] for i in group)) for group in groups]

    labels = [_label([found["labels"][i] for i in group]) for group in groups]
    if together:
        labels[-1] = f"{len(groups[-1])} other values"
    return {
        "labels": labels,
        "real": None if found["real"] is None else sums(found["real"]),
        "synthetic": sums(found["synthetic"]),
        "weighted": {name: sums(shares) for name, shares in found["weighted"].items()},
    }


def _label(labels: Sequence[str]) -> str:
    """What a group of values is called.

    Example:
        >>> _label(["[17, 19)", "[19, 21)"]), _label(["mon", "tue", "wed"])
        ('[17, 21)', 'mon to wed')
        >>> _label(["08:00 to 09:59", "10:00 to 11:59"])
        '08:00 to 11:59'
    """
    if len(labels) == 1:
        return labels[0]
    first, last = _INTERVAL.fullmatch(labels[0]), _INTERVAL.fullmatch(labels[-1])
    if first and last:
        return f"{first[1]}, {last[2]}"
    return f"{labels[0].partition(' to ')[0]} to {labels[-1].rpartition(' to ')[2]}"


def show_columns(blocks: Blocks) -> Iterator[Item]:
    """Real rows as bars, synthetic ones as marks over them; several tables' in one chart."""
    first = next(iter(blocks.values()))
    errors = first["variants"][0]["by_column"] if "variants" in first else {}
    drawn = {o["column"] for o in first["overlays"]}
    left = [name for name in first["columns"] if name not in drawn]
    if left:
        which = "that are farthest off" if errors else "that come first"
        yield Note(
            f"Drawn are the {number(len(drawn))} columns {which}. Left out: {', '.join(left)}."
        )
    if len(blocks) > 1:
        yield Legend([("real", 0), *((name, i + 1) for i, name in enumerate(blocks))], bars=True)
    elif drawn:
        yield Legend([(s.name, s.tone) for s in _own(first["overlays"][0])], bars=True)
    yield Group([_chart(o, blocks, errors) for o in first["overlays"]], "grid")


def _chart(o: Mapping[str, Any], blocks: Blocks, errors: Mapping[str, float]) -> Item:
    """A chart of one column, and all its values in a table where bars are of several."""
    name = o["column"]
    caption = f"{name}: l1 error {number(errors[name])}" if name in errors else name
    labels, series = o.get("bars", o)["labels"], _series(name, blocks, "bars")
    chart = Shares(f"{name}: shares of its values", labels, series, caption=caption)
    if "bars" not in o:
        return chart
    every = _series(name, blocks, "")
    rows = [(label, *(s.values[i] for s in every)) for i, label in enumerate(o["labels"])]
    values = Table((name, *(s.name for s in every)), rows)
    return Group([chart, Fold(f"All {number(len(rows))} values of {name}", [values])], "block")


def _own(o: Mapping[str, Any], part: str = "") -> list[Series]:
    """One table's shares of one column: of the gathered bars, or of every value."""
    shown = o.get(part, o)
    real = [Series("real", shown["real"], 0)] if shown["real"] is not None else []
    weighted = [(f"weights {w}", shares) for w, shares in shown["weighted"].items()]
    made = [("synthetic", shown["synthetic"]), *weighted][:MOST_SERIES]
    return [*real, *(Series(name, shares, i + 1) for i, (name, shares) in enumerate(made))]


def _series(column: str, blocks: Blocks, part: str) -> list[Series]:
    """The series of one chart: of several tables each under its own name, the real rows once."""
    found: list[Series] = []
    for i, (name, block) in enumerate(blocks.items()):
        for other in block["overlays"]:
            if other["column"] == column:
                own = _own(other, part)
                if len(blocks) == 1:
                    return own
                found += [] if found else own[:1]
                found.append(Series(name, own[1].values, i + 1))
    return found


# More marginals than that say nothing new and make files large: the degree is lowered.
MOST_MARGINALS = 50_000
FEW_MARGINALS = 3_000
# Columns whose values are drawn: the worst ones where there are more.
MOST_OVERLAYS = 24
# The worst marginals of more tables than these are folded away.
LONG = 16


class MarginalsReport(Report):
    """Normalised l1 errors of all marginals up to a degree; total variation is half of them."""

    name = "marginals"
    title = "Marginals"
    summary = "errors of all small marginals, next to those of sampling alone"
    place = 20

    def compute(self, case: Case, ground: RealData, options: Options, progress: Progress) -> Block:

        domain = ground.schema.domain
        degree = affordable_degree(len(domain), options.degree)
        wanted: dict[str, Any] = {"degree": degree, "workload": options.workload}
        variants = []
        for done, (weights, table) in enumerate(case.variants()):
            progress.report("marginals", fraction=done / (1 + len(case.weights)), text=case.name)
            errors = marginal_errors(
                ground.reference.codes, table.codes, domain, second_weights=table.weights, **wanted
            )
            variants.append({"weights": weights, **_spread(errors)})
        progress.report("marginals", text="a fresh sample")
        # Few marginals are measured from more splits; many of them average the noise out.
        draws = 8 if len(errors) <= FEW_MARGINALS else 2
        floor = _floor(ground, len(case.synthetic), options.seed, draws, wanted)
        blind = _shuffled(ground, len(case.synthetic), options.seed, wanted)
        # The columns that are farthest off are drawn, in the schema's order.
        off = variants[0]["by_column"]
        shown = sorted(domain, key=lambda name: -off.get(name, 0.0))[:MOST_OVERLAYS]
        by = [name for name in case.synthetic.schema.by if name in domain]
        found = strata_errors(ground.reference, case.synthetic, by, seed=options.seed)
        return {
            **({"strata": found} if by else {}),
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
            "overlays": [
                column_shares(name, ground.reference, case) for name in domain if name in shown
            ],
            "generator": case.generator,
            "eps": case.eps,
        }

    def facts(self, block: Block) -> Iterable[Fact]:
        for variant in block["variants"]:
            for level in variant["by_degree"]:
                item = called(f"{level['degree']}-way", variant["weights"])
                for metric in ("mean_l1", "worst_l1", "mean_tv", "worst_tv"):
                    yield Fact(item, metric, level[metric])
        for stratum, error in block.get("strata", ({},))[0].items():
            yield Fact(f"pairs within {stratum}", "mean_l1", error)

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

    def brief(self, blocks: Blocks) -> Table:
        lines = [
            (f"{case}, {variant['weights']}" if variant["weights"] else case, variant)
            for case, block in blocks.items()
            for variant in block["variants"]
        ]
        rows = []
        for name, part in [*lines, *yardsticks(blocks)]:
            levels = part["by_degree"]
            means = [level["mean_l1"] for level in levels]
            rows.append([name, *means, levels[-1]["worst_l1"]])
        degrees = [f"{level['degree']}-way" for level in lines[0][1]["by_degree"]]
        return Table(["l1 error of marginals", *degrees, "worst"], rows)

    def show(self, blocks: Blocks, combined: Block | None = None) -> Iterator[Item]:
        first = next(iter(blocks.values()))
        yield (
            "The l1 error of marginals: the sum of the differences between real and synthetic "
            "shares. 0 is perfect, 2 is disjoint; half of it is the total variation distance. "
            "“A fresh sample” is what other real rows, as many as the synthetic ones, would show; "
            "“shuffled columns” have the right values and no relation among them."
        )
        if combined is not None:
            title = f"Mean error of the {combined['degree']}-way marginals against eps"
            yield from show_by_eps(combined["error_by_eps"], title, "l1 error")
        yield from _summary(blocks)
        if first["degree"] < first["degree_asked"]:
            yield Note(f"Up to {first['degree']} columns: there are too many larger marginals.")
        drawn = _drawn(blocks)
        if len(drawn) < len(blocks):
            yield Note(f"Drawn below: {', '.join(drawn)}.")
        matrices = list(_matrices(drawn))
        if matrices:
            yield Note("Pairs", "heading")
            yield Group(matrices)
        yield Note("Columns", "heading")
        yield from show_columns(drawn)

    def publish(self, release: Release) -> Block:
        table = CodedRows.of(release.frame(), release.schema)
        names = release.schema.names[:MOST_OVERLAYS]
        case = Case(name="rows", synthetic=table, weights=by_column(release.weights()))
        return {
            "synthetic_rows": len(table),
            "columns": release.schema.names,
            "overlays": [column_shares(name, None, case) for name in names],
            "measured": [
                {"columns": list(m.columns), "cells": int(m.values.size), "sigma": m.sigma}
                for m in release.measurements()
            ],
        }

    def show_public(self, block: Block) -> Iterator[Item]:
        yield f"The shares of values among the {block['synthetic_rows']:,} synthetic rows."
        yield from show_columns({"release": block})
        rows = [(" × ".join(m["columns"]), m["cells"], m["sigma"]) for m in block["measured"]]
        if rows:
            head = ("marginal", "cells", "standard deviation of the noise")
            yield Fold("The noisy marginals that the release holds", [Table(head, rows)])


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
    known = ground.once(("sampling", *wanted.values()), dict)
    near = next((size for size in known if abs(size - rows) <= 0.02 * rows), None)
    if near is None:
        near = rows
        known[rows] = sampling_errors(
            ground.reference.codes,
            ground.schema.domain,
            rng=np.random.default_rng(seed),
            rows=rows,
            draws=draws,
            groups=ground.persons,
            **wanted,
        )
    return known[near]


def _shuffled(
    ground: RealData, rows: int, seed: int, wanted: Mapping[str, Any]
) -> dict[Columns, float]:
    """The errors of real columns, each shuffled by itself: right values, no relation among them.

    As many rows as the synthetic ones, drawn with replacement.
    """

    def make() -> dict[Columns, float]:
        codes, rng = ground.reference.codes, np.random.default_rng([seed, 3])
        drawn = np.column_stack([column[rng.integers(0, len(codes), rows)] for column in codes.T])
        return marginal_errors(codes, drawn, ground.schema.domain, **wanted)

    return ground.once(("shuffled", rows, *wanted.values()), make)


def _spread(errors: Mapping[Columns, float]) -> dict[str, Any]:
    """The l1 errors by degree, by column and by pair; of the means half as well."""
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


def _summary(blocks: Blocks) -> Iterator[Item]:
    """The tables of means, worst marginals and deciles."""
    lines = [
        (name, part["by_degree"]) for name, part in (*each_variant(blocks), *yardsticks(blocks))
    ]
    degrees = [level["degree"] for level in lines[0][1]]
    head = ["table", *(f"{d}-way {kind}" for kind in ("mean", "worst") for d in degrees)]
    rows = [
        [name, *(level[key] for key in ("mean_l1", "worst_l1") for level in levels)]
        for name, levels in lines
    ]
    yield Table(head, rows, fold="Errors of all tables")
    worst = "; ".join(
        f"{name}: {' × '.join(block['variants'][0]['by_degree'][-1]['worst'])}"
        for name, block in blocks.items()
    )
    note = Note(f"Worst of the largest: {worst}.")
    yield note if len(blocks) <= LONG else Fold("Worst of the largest marginals", [note])
    rows = [
        [f"{name}, {level['degree']}-way", *level["deciles"][1:10]]
        for name, levels in lines
        for level in levels
    ]
    head = ["table", *(f"{share}%" for share in range(10, 100, 10))]
    yield Fold("Deciles of the errors", [Table(head, rows)])


def strata_errors(
    reference: CodedRows, table: CodedRows, by: Sequence[str], *, seed: int
) -> tuple[dict[str, float], dict[str, float]]:
    """By stratum the mean l1 error of all pairs of other columns, and a fresh sample's.

    Strata of few real rows are left out.

    Args:
        reference: the real rows.
        table: synthetic rows.
        by: the columns of strata.
        seed: of the fresh samples.
    """
    schema, rng = reference.schema, np.random.default_rng(seed)
    wanted = list(itertools.combinations([name for name in schema.names if name not in by], 2))
    errors, fresh = {}, {}
    for name in by:
        place = schema.names.index(name)
        for code, label in enumerate(schema.column(name).labels()):
            real, made = (t.codes[t.codes[:, place] == code] for t in (reference, table))
            sampled = sampling_errors(
                real, schema.domain, rng=rng, rows=len(made), workload=wanted, draws=1
            )
            if sampled:
                own = marginal_errors(real, made, schema.domain, workload=wanted)
                stratum = f"{name} {label}"
                errors[stratum] = float(np.mean([*own.values()])) if len(made) else 2.0
                fresh[stratum] = float(np.mean([*sampled.values()]))
    return errors, fresh


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
    several = len(found) > 1
    samples = [
        (f"a fresh sample of {rows:,} rows" if several else "a fresh sample", part)
        for rows, part in found.items()
    ]
    return [*samples, ("shuffled columns", next(iter(blocks.values()))["shuffled"])]


def _matrices(blocks: Blocks) -> Iterator[Matrix]:
    """One matrix of pairs per table; for a single table with weights, one of each."""
    for name, block in blocks.items():
        place = {column: i for i, column in enumerate(block["columns"])}
        variants = block["variants"] if len(blocks) == 1 else block["variants"][:1]
        for variant in variants[:MOST_SERIES]:
            cells = {(place[a], place[b]): error for a, b, error in variant["by_pair"]}
            if cells:
                title = f"{called(name, variant['weights'])}: l1 error of every pair"
                yield Matrix(title, block["columns"], cells)

"""The shares of single columns' values, table by table, as small charts with every bar labelled."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from marginalsyn.evaluation import page
from marginalsyn.evaluation.charts import Series, key, number, overlay
from marginalsyn.evaluation.reports import Block, Blocks, Case
from marginalsyn.table.design import CodedRows

# Bars of one chart; of more values neighbours are drawn together, or the small ones.
MOST_BARS = 12
MOST_SERIES = 4
_INTERVAL = re.compile(r"([\[(].*), (.*[\])])")


def column_shares(name: str, reference: CodedRows | None, case: Case) -> dict[str, Any]:
    """The shares of one column's values in every table, and the bars that are drawn of them."""
    from marginalsyn.evaluation.marginals import share_table

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


def draw_columns(blocks: Blocks) -> str:
    """Real rows as bars, synthetic ones as marks over them; several tables' in one chart."""
    first = next(iter(blocks.values()))
    errors = first["variants"][0]["by_column"] if "variants" in first else {}
    names = [("real", 0), *((name, i + 1) for i, name in enumerate(blocks))]
    if len(blocks) == 1:
        names = [(s.name, s.tone) for o in first["overlays"][:1] for s in _own(o, "")]
    charts = [_draw(o, blocks, errors) for o in first["overlays"]]
    return "".join([_left_out(first), key(names, bars=True), page.grid(charts)])


def _left_out(block: Block) -> str:
    """What is not drawn, by name."""
    drawn = {o["column"] for o in block["overlays"]}
    left = [name for name in block["columns"] if name not in drawn]
    if not left:
        return ""
    which = "that are farthest off" if "variants" in block else "that come first"
    told = f"Drawn are the {number(len(drawn))} columns {which}. Left out: {', '.join(left)}."
    return page.paragraph(told, "note")


def _draw(o: Mapping[str, Any], blocks: Blocks, errors: Mapping[str, float]) -> str:
    """A chart of one column, and all its values in a table where bars hold several."""
    name = o["column"]
    told = f"{name}: l1 error {number(errors[name])}" if name in errors else name
    series = _series(o, blocks, "bars")
    chart = page.figure(overlay(o.get("bars", o)["labels"], series, name), told)
    if "bars" not in o:
        return chart
    whole = _series(o, blocks, "")
    rows = [(label, *(s.values[i] for s in whole)) for i, label in enumerate(o["labels"])]
    values = page.table((name, *(s.name for s in whole)), rows)
    return page.block(chart + page.details(f"All {number(len(rows))} values of {name}", values))


def _own(o: Mapping[str, Any], part: str) -> list[Series]:
    """One table's shares of one column: of the gathered bars, or of every value."""
    shown = o.get(part, o)
    real = [Series("real", shown["real"], 0)] if shown["real"] is not None else []
    weighted = [(f"weights {w}", shares) for w, shares in shown["weighted"].items()]
    made = [("synthetic", shown["synthetic"]), *weighted][:MOST_SERIES]
    return [*real, *(Series(name, shares, i + 1) for i, (name, shares) in enumerate(made))]


def _series(o: Mapping[str, Any], blocks: Blocks, part: str) -> list[Series]:
    """The marks of one chart: of several tables each under its own name, the real rows once."""
    if len(blocks) == 1:
        return _own(o, part)
    found: list[Series] = []
    for i, (name, block) in enumerate(blocks.items()):
        for other in block["overlays"]:
            if other["column"] == o["column"]:
                real, made = _own(other, part)[:2]
                found += [] if found else [real]
                found.append(Series(name, made.values, i + 1))
    return found

"""The shares of single columns' values, table by table, as small charts with every bar labelled."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from marginalsyn.evaluation.charts import Series, Shares
from marginalsyn.evaluation.marginals import share_table
from marginalsyn.evaluation.reports import Blocks, Case
from marginalsyn.evaluation.view import Fold, Group, Item, Legend, Note, Table, number
from marginalsyn.table.design import CodedRows

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

"""The report of attribute disclosure: what a release says about one column, given the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from marginalsyn.evaluation.reports import (
    Block,
    Blocks,
    Case,
    Fact,
    Options,
    RealData,
    Report,
    called,
    each_variant,
)
from marginalsyn.evaluation.view import Item, Table, with_error
from marginalsyn.plugins.reports.membership_report import choose_rows
from marginalsyn.progress import Progress
from marginalsyn.table.design import CodedRows

# Targets of each side, and synthetic rows that are searched, at most.
MOST_TARGETS, MOST_ROWS = 500, 20_000
NEIGHBOURS = 5
# Numbers in memory at a time.
_MOST = 2 * 10**7


class AttributesReport(Report):
    """Guesses of every column of real rows from the synthetic rows that are nearest in the others.

    An attacker knows all columns of a person but one and takes what most of the nearest synthetic
    rows have there (Diesendruck 2019, chapter 4). What is right for rows that the generator never
    saw is inference that holds of anybody; what is right beyond that for rows that it saw is the
    release's.
    """

    name = "attributes"
    title = "Attribute disclosure"
    summary = "guesses of one column of a real row from all others"
    place = 81
    on_terminal = False
    needs_test = True
    default = False

    def compute(self, case: Case, ground: RealData, options: Options, progress: Progress) -> Block:
        fresh = ground.unseen(self.name)
        rng = np.random.default_rng(options.seed)
        seen, unseen = (
            rows.take(choose_rows(len(rows), MOST_TARGETS, rng))
            for rows in (ground.reference, fresh)
        )
        names = list(ground.schema.names)
        variants = []
        for weights, table in case.variants():
            progress.report("attributes", text=f"{case.name} {weights or ''}")
            guessed = [_guesses(targets, table, rng) for targets in (seen, unseen)]
            # The heaviest code of every column.
            common = [np.bincount(column, table.masses).argmax() for column in table.codes.T]
            columns = []
            for at, name in enumerate(names):
                hits = [
                    (found[:, at] == targets.codes[:, at]).astype(float)
                    for found, targets in zip(guessed, (seen, unseen), strict=True)
                ]
                beyond = float(hits[0].mean() - hits[1].mean())
                error = float(np.sqrt(sum(h.var() / max(len(h), 1) for h in hits)))
                columns.append(
                    {
                        "column": name,
                        "seen": float(hits[0].mean()),
                        "unseen": float(hits[1].mean()),
                        "beyond": beyond,
                        "se": error,
                        "most_common": float(np.mean(unseen.codes[:, at] == common[at])),
                    }
                )
            variants.append({"weights": weights, "columns": columns})
        return {
            "seen": len(seen),
            "unseen": len(unseen),
            "neighbours": NEIGHBOURS,
            "label": ground.label,
            "variants": variants,
        }

    def facts(self, block: Block) -> Iterable[Fact]:
        for variant in block["variants"]:
            for found in variant["columns"]:
                item = called(found["column"], variant["weights"])
                yield Fact(item, "right of seen rows", found["seen"])
                yield Fact(item, "beyond unseen rows", found["beyond"], found["se"])

    def show(self, blocks: Blocks, combined: Block | None = None) -> Iterator[Item]:
        first = next(iter(blocks.values()))
        yield (
            "Somebody knows all columns of a person but one, looks for the "
            f"{first['neighbours']} nearest synthetic rows, and takes what most of them have "
            f"there. Right is the share of such guesses, for {first['seen']:,} rows that the "
            f"generator saw and {first['unseen']:,} that it did not."
        )
        yield (
            "What is right of rows that were never seen follows from how columns go together: "
            "it holds of anybody, and is what a release is for. Only what is right beyond that "
            "for rows that were seen would be about them. The most common value is a guess "
            "without any knowledge."
        )
        rows = [
            (
                name,
                *(found[key] for key in ("column", "seen", "unseen")),
                with_error(found["beyond"], found["se"]),
                found["most_common"],
            )
            for name, variant in each_variant(blocks)
            for found in variant["columns"]
        ]
        head = ("table", "column", "right, seen", "right, unseen", "beyond", "most common value")
        yield Table(head, rows, fold="Guesses of every column")


def _guesses(targets: CodedRows, table: CodedRows, rng: np.random.Generator) -> np.ndarray:
    """Every column of the targets, guessed from all others; a line for each target.

    The distance in a column is that of unit coordinates, or 1 where values differ and have no
    order. Any of equally near rows may be taken, so they are put in random order.
    """
    mass = table.masses
    picked = np.flatnonzero(mass > 0)
    if len(picked) > MOST_ROWS:
        picked = rng.choice(picked, MOST_ROWS, replace=False)
    order = rng.permutation(picked)
    codes, units, mass = table.codes[order], table.units[order], mass[order]
    sizes = [column.size for column in table.schema.columns]
    ordered = [column.numeric for column in table.schema.columns]
    near = min(NEIGHBOURS, len(order))
    found = np.zeros(targets.codes.shape, dtype=np.int64)
    chunk = max(_MOST // (len(sizes) * len(order)), 1)
    for start in range(0, len(targets), chunk):
        part = slice(start, start + chunk)
        gaps = np.empty((len(sizes), len(targets.codes[part]), len(order)), dtype=np.float32)
        for at, scaled in enumerate(ordered):
            if scaled:
                gap = targets.units[part, at][:, None] - units[:, at][None]
                gaps[at] = np.minimum(np.abs(gap), 1.0)
            else:
                gaps[at] = targets.codes[part, at][:, None] != codes[:, at][None]
        whole = gaps.sum(axis=0)
        for at, size in enumerate(sizes):
            closest = np.argpartition(whole - gaps[at], near - 1, axis=1)[:, :near]
            votes = np.zeros((len(closest), size))
            lines = np.repeat(np.arange(len(closest)), near)
            np.add.at(votes, (lines, codes[closest, at].ravel()), mass[closest].ravel())
            found[part, at] = votes.argmax(axis=1)
    return found

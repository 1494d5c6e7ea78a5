"""Linked tables: numbers of rows below, relations across links, and what follows what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from marginalsyn.evaluation.charts import Bar, Dots, Series, Shares
from marginalsyn.evaluation.linked import MOST_CELLS, LinkedCodes, far, links_of
from marginalsyn.evaluation.reports import Block, Blocks, Case, Fact, Options, RealData, Report
from marginalsyn.evaluation.verdict import (
    FRESH,
    LINKS,
    RELINKED,
    TABLES,
    TABLES_FIT,
    TABLES_UNFIT,
    Verdict,
    judge_errors,
    worst_named,
)
from marginalsyn.evaluation.view import Group, Item, Legend, Note, Table, number
from marginalsyn.people.tree import LinkedSchema
from marginalsyn.people.views import count_name
from marginalsyn.plugins.reports.marginal_errors import marginal_errors, sampling_errors
from marginalsyn.progress import Progress

# What the release is compared with, by the names on the page.
RELEASE, OWN_RELINKED = "release", "release, links at random"
CASES = (RELEASE, OWN_RELINKED, RELINKED, FRESH)
TONES = {RELEASE: 1, OWN_RELINKED: 2, RELINKED: 3, FRESH: 0}
# Random splits of the persons that a fresh sample's errors are averaged over.
DRAWS = 2
_WORDS = {1: "one link", 2: "two links", 3: "three links"}


class LinksReport(Report):
    """Errors of pairs of columns across links, numbers of rows below a row, transitions."""

    name = "links"
    title = "Linked tables"
    summary = "of linked tables: numbers of rows, relations across links, what follows what"
    place = 15
    scope = "persons"

    def compute(
        self, case: Case, ground: RealData, options: Options, progress: Progress
    ) -> Block | None:
        if case.linked is None or ground.linked is None:
            return None
        progress.report("links", text=case.name)
        rng, truth, made = np.random.default_rng(options.seed), ground.linked, case.linked
        cases = {RELEASE: made, OWN_RELINKED: made.relinked(rng), RELINKED: truth.relinked(rng)}
        return {
            "degrees": _degrees(truth, made),
            **_errors(truth, cases, rng),
            "transitions": _transitions(truth, cases),
        }

    def facts(self, block: Block) -> Iterable[Fact]:
        for group, line in block["errors"].items():
            yield Fact(group, "mean_l1", line[RELEASE])
        for link, line in block["degrees"].items():
            yield Fact(f"numbers of {link}", "tv", line[RELEASE])

    def verdict(self, block: Block) -> Verdict:
        bounds, uses, parts = (TABLES_FIT, TABLES_UNFIT), [], []
        means = {use: block["two_way"][use] for use in (TABLES, LINKS) if use in block["two_way"]}
        for use, line in means.items():
            known = (FRESH, RELINKED) if use == LINKS else (FRESH,)
            yardsticks = {name: line[name] for name in known if line[name] is not None}
            where = (
                "Across links it is" if use == LINKS else "All two-way tables have an l1 error of"
            )
            others = [f"{name} {number(value)}" for name, value in yardsticks.items()]
            parts.append(f"{where} {'; '.join([number(line[RELEASE]), *others])}")
            measure = "l1 error across links" if use == LINKS else "two-way l1 error"
            uses += judge_errors(use, {None: line[RELEASE]}, measure, yardsticks, bounds)
        degrees = block["degrees"]
        worst = sorted(degrees, key=lambda link: -degrees[link][RELEASE])
        return Verdict(
            f"{'. '.join(parts)}." if parts else "",
            {"l1 error": means[TABLES][RELEASE]} if TABLES in means else {},
            uses,
            {
                "pairs across links": worst_named(*(dict(one) for one in block["across"])),
                "numbers of rows": [
                    f"{link} {number(degrees[link][RELEASE])} (total variation)" for link in worst
                ],
            },
        )

    def brief(self, blocks: Blocks) -> Table:
        (block,) = blocks.values()
        return _errors_table(block["errors"])

    def show(self, blocks: Blocks, combined: Block | None = None) -> Iterator[Item]:
        (block,) = blocks.values()
        yield Note("Pairs of columns, within tables and across links", "heading")
        yield (
            "The mean l1 error of marginals against the real rows: 0 is perfect, 2 is disjoint. "
            "Links made at random keep each table as it is and lose what goes with what across "
            "tables; “a fresh sample” is what other persons, as many, would show."
        )
        yield _errors_table(block["errors"])
        charts = [_dots(group, line, TONES) for group, line in block["errors"].items()]
        yield Group(charts, "grid")
        yield Note("Numbers of rows", "heading")
        yield from _show_degrees(block["degrees"])
        if block["transitions"]:
            yield Note("From row to row", "heading")
            yield from _show_transitions(block["transitions"])


def _degrees(truth: LinkedCodes, made: LinkedCodes) -> dict[str, Any]:
    """How far the numbers of rows below a row are off, and their shares."""
    found = {}
    for table in truth.tree.tables[1:]:
        name = count_name(table.name)
        shares = {}
        for case, linked in (("real", truth), (RELEASE, made)):
            codes = linked.codes[str(table.parent)][name]
            shares[case] = np.bincount(codes, minlength=linked.sizes[name]) / max(len(codes), 1)
        found[f"{table.name} of {table.parent}"] = {
            RELEASE: far(shares["real"], shares[RELEASE]),
            "shares": {case: share.tolist() for case, share in shares.items()},
        }
    return found


def _errors(
    truth: LinkedCodes, cases: Mapping[str, LinkedCodes], rng: np.random.Generator
) -> dict[str, Any]:
    """The l1 errors of one- and two-way marginals, by what they are within or across."""
    sums: dict[str, dict[str, list[float]]] = {}
    two_way: dict[str, dict[str, list[float]]] = {}
    across: dict[str, dict[str, float]] = {RELEASE: {}, FRESH: {}}
    for table in truth.tree.tables:
        wanted = truth.marginals(table.name)
        real, domain = _matrix(truth, table.name)
        if not len(real):
            continue
        found = {}
        for case, linked in cases.items():
            codes, _ = _matrix(linked, table.name)
            found[case] = marginal_errors(real, codes, domain, workload=wanted)
        found[FRESH] = sampling_errors(
            real,
            domain,
            rng=rng,
            rows=len(codes),
            workload=wanted,
            draws=DRAWS,
            groups=truth.owners(table.name),
        )
        for columns in wanted:
            group, links = _group(truth.tree, table.name, columns)
            uses = [TABLES] if len(columns) == 2 else []
            uses += [LINKS] if links else []
            for case, errors in found.items():
                if columns in errors:
                    for kind, name in ((sums, group), *((two_way, use) for use in uses)):
                        kind.setdefault(name, {}).setdefault(case, []).append(errors[columns])
                    if links and case in across:
                        across[case][" × ".join(columns)] = errors[columns]
    order = sorted(sums, key=lambda group: ("link" in group, group))
    return {
        "errors": {
            group: {**_means(sums[group]), "marginals": len(sums[group][RELEASE])}
            for group in order
        },
        "two_way": {use: _means(found) for use, found in two_way.items()},
        "across": list(across.values()),
    }


def _matrix(linked: LinkedCodes, table: str) -> tuple[np.ndarray, dict[str, int]]:
    """The codes of a table's rows with those of their ancestors, and the sizes of all columns."""
    joined = linked.joined(table)
    return np.column_stack(list(joined.values())), {name: linked.sizes[name] for name in joined}


def _group(tree: LinkedSchema, table: str, columns: tuple[str, ...]) -> tuple[str, int]:
    """What a marginal is counted among, and how many links it crosses."""
    links = links_of(tree, columns)
    if links:
        top = tree.path(table)[-1 - links].name
        return f"{top} x {table} ({_WORDS.get(links, f'{links} links')})", links
    return f"{'two columns' if len(columns) == 2 else 'one column'} of {table}", 0


def _means(found: Mapping[str, list[float]]) -> dict[str, float | None]:
    return {case: float(np.mean(found[case])) if found.get(case) else None for case in CASES}


def _transitions(truth: LinkedCodes, cases: Mapping[str, LinkedCodes]) -> dict[str, Any]:
    """How far transitions are off, and the share of rows that repeat the value before."""
    found = {}
    for table in truth.tree.tables[1:]:
        if table.order is None:
            continue
        real = truth.transitions(table.name)
        others = {case: codes.transitions(table.name) for case, codes in cases.items()}
        for key, (share, same) in real.items():
            line: dict[str, Any] = {"same, real": same}
            small = truth.sizes[key] ** 2 <= MOST_CELLS
            for case, other in others.items():
                line[case] = far(share, other[key][0]) if small else None
                line[f"same, {case}"] = other[key][1]
            found[key] = line
    return found


def _errors_table(errors: Mapping[str, Any]) -> Table:
    keys = (*CASES, "marginals")
    rows = [(group, *(line[each] for each in keys)) for group, line in errors.items()]
    return Table(("mean l1 error", *keys), rows)


def _show_degrees(degrees: Mapping[str, Any]) -> Iterator[Item]:
    yield "How many rows belong to one row of the table above, as shares of its rows."
    yield Legend([("real", 0), (RELEASE, 1)], bars=True)
    charts = []
    for link, line in degrees.items():
        shares = line["shares"]
        # At most a score of groups of numbers.
        count = len(shares["real"])
        step = -(-count // 20) if count > 25 else 1
        starts = range(0, count, step)
        labels = [str(k) if step == 1 else f"{k} to {k + step - 1}" for k in starts]
        labels[-1] += " or more" if step == 1 else ""
        series = [
            Series(name, [sum(shares[name][k : k + step]) for k in starts], tone)
            for tone, name in enumerate(("real", RELEASE))
        ]
        charts.append(Shares(link, labels, series))
    yield Group(charts, "grid")
    rows = [(link, line[RELEASE]) for link, line in degrees.items()]
    yield Table(("total variation", RELEASE), rows)


def _show_transitions(transitions: Mapping[str, Any]) -> Iterator[Item]:
    yield (
        "Two rows of a person that follow each other: how far their values are off (total "
        "variation of the pairs; n/a where there are too many), and how often the value is the "
        "same as before."
    )
    same = {"same, real": 0, f"same, {RELEASE}": 1, f"same, {OWN_RELINKED}": 2}
    keys = (RELEASE, OWN_RELINKED, *same)
    rows = [(column, *map(line.get, keys)) for column, line in transitions.items()]
    yield Table(("column", *keys), rows)
    charts = [
        _dots(f"{column}: the same", line, same, line["same, real"])
        for column, line in transitions.items()
    ]
    yield Group(charts, "grid")


def _dots(
    title: str, line: Mapping[str, Any], tones: Mapping[str, int], reference: float | None = None
) -> Dots:
    """The known values of one line, by what they are of."""
    known = {case: tone for case, tone in tones.items() if line[case] is not None}
    bars = [Bar(case.removeprefix("same, "), line[case], tone=tone) for case, tone in known.items()]
    return Dots(title, bars, reference)

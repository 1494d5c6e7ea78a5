"""How often intervals hold the truth: `marginalsyn estimate` next to the naive fit, on known truth.

python benchmarks/coverage.py run --population wards --seconds 100
python benchmarks/coverage.py run --population wards --language --width 5
python benchmarks/coverage.py null --seconds 60
python benchmarks/coverage.py combine --rows 2000 --seconds 300
python benchmarks/coverage.py report

A population is a part of a public table, a graphical model fitted to one, or made up by the rules
of `benchmarks/populations.py`, seven of them with effects that cross. The constants of the rule
(which share of a question must have been measured, how far the rest may move it) were chosen on
some populations; the others had no part in that.
Every repeat draws a table of some rows from the population, makes a release, and asks questions
drawn at random: shares of one, two and three columns, means, differences, linear and logistic
models of one, two and several predictors and with an interaction. `run` adds what it counted to a
file, so that runs add up; every run takes a seed of its own. `combine` does the same for tables of
`sample --imputations`, to which plain least squares and logistic regressions are fitted as an
analyst would. `report` prints tables and draws a picture.

`run --language` asks the questions of the language alone, of `--width` columns at random, all pairs
of which were measured: quick releases, so that there can be many. `null` counts how often tests
of columns that do not go together have a p-value below .05.

Each question counts once, whatever the number of its terms. An answer has no note; or it has one
(its interval is clearly wider for what was not measured, or a group holds hardly more rows than
noise); or it is withheld (not measured by this release). *Bare* is the interval that would be
printed if the share that was measured were ignored: a note is needless where it holds the truth.
Of a question that is withheld the marginals that the tool names are bought, as
`weight --method rake` would, and it is asked again.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import tempfile
import textwrap
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from populations import CROSS, JUDGED, POPULATIONS, of_table

from marginalsyn import Budget, PrivateTable, Schema, make_noise
from marginalsyn.answers.answering import SyntheticRows, naive_fit
from marginalsyn.answers.code_combinations import CodeCombinations
from marginalsyn.answers.estimation import ANSWERED, Problem
from marginalsyn.answers.evidence import Evidence
from marginalsyn.answers.imputations import Index, combine, impute, rule
from marginalsyn.answers.limits import limits_of
from marginalsyn.answers.projection import missing_marginals
from marginalsyn.answers.questions import read_question
from marginalsyn.answers.regression import Regression
from marginalsyn.answers.replaying import with_measured
from marginalsyn.answers.subgroups import difference_of, mean_of, table_of
from marginalsyn.contract import Measurement, make_config
from marginalsyn.host import generate
from marginalsyn.release.folder import Release
from marginalsyn.table.codec import Codec

if __name__ == "coverage":
    # numba looks for a package of this name, and would find this script among those that it runs.
    raise ImportError("benchmarks/coverage.py is a script, not the package of that name")

PICTURES = Path(__file__).parents[1] / "docs" / "images"
ADULT4 = ["age", "education-num", "sex", "income"]
OF_ADULT4 = [
    ("logistic, several", "income ~ age + education-num + sex"),
    ("linear, 1 or 2", "age ~ income + sex"),
    ("logistic, crossed", "income ~ age * sex"),
]
# In turn, so that a short run has some of each.
METHODS = ("fixed-marginals", "auto", "mst", "aim", "fixed-marginals", "privbayes", "clique-tree")
# Rows of a population whose columns do not go together.
MANY = 2_000_000
# A turn in which all pairs are measured.
ALL_PAIRS = 2 * len(METHODS) - 3
ROWS, EPS = (3_000, 10_000, 30_000), (0.5, 1.0, 2.0, 4.0)
# Questions of each kind in a release, and tables of more cells than this are not asked.
TIMES, MOST_CELLS = 2, 600
# Of questions that are withheld so many are bought, with this rho for each.
BOUGHT, BOUGHT_RHO = 2, 0.02
FAMILIES = (
    "one-way shares",
    "two-way shares",
    "three-way shares",
    "means",
    "differences",
    "linear, 1 or 2",
    "linear, several",
    "linear, crossed",
    "logistic, 1 or 2",
    "logistic, several",
    "logistic, crossed",
)
LANGUAGE = (
    "group means",
    "group shares",
    "groups with a condition",
    "differences of groups",
    "ratios of groups",
    "medians by group, shares behind",
    "standardised rates",
    "ordinal",
    "multinomial",
    "Poisson",
    "contrasts",
)
STATES = ("no note", "note", "withheld")
# What is added up: questions, and those whose interval, bare one and naive one hold the truth.
COLUMNS = ("n", "inside", "bare", "naive")
# Notes on what makes an interval fail, of all that are printed.
SERIOUS = ("was not measured", "hardly tells", "separate them", "measured as one")


def questions(schema: Schema, rng: np.random.Generator) -> Iterator[tuple[str, object]]:
    """Some questions of every family."""
    size = {c.name: c.size for c in schema.columns}
    names, label = list(schema.names), schema.label
    numbers = [n for n in names if schema.column(n).numeric and size[n] > 2]
    small = [n for n in names if n != label and size[n] <= 7]
    usable = [n for n in names if n in small or n in numbers]

    def some(of: list, count: int) -> list:
        return [of[i] for i in rng.permutation(len(of))[:count]]

    for width, family in enumerate(FAMILIES[:3], 1):
        every = list(itertools.combinations(names, width))
        fitting = [s for s in every if np.prod([size[c] for c in s]) <= MOST_CELLS]
        for columns in some(fitting, TIMES):
            yield family, table_of(columns, schema, "share")
    for name in some(numbers, 1):
        yield "means", mean_of(name, schema)
    for name in some(small, TIMES):
        yield "differences", difference_of(label, name, schema)
    for left in (label, *some(numbers, 1)):
        others = [n if n.isidentifier() else f"`{n}`" for n in usable if n not in (left, label)]
        own = left if left.isidentifier() else f"`{left}`"
        for kind, sign, widths in (
            ("1 or 2", " + ", (1, 2)),
            ("several", " + ", (3, 4)),
            ("crossed", " * ", (2, 2)),
        ):
            for width in widths:
                right = sign.join(some(others, width))
                model = Regression(f"{own} ~ {right}", schema)
                yield f"{model.family}, {kind}", model


def of_language(schema: Schema, rng: np.random.Generator) -> Iterator[tuple[str, object]]:
    """Some questions of every family of the language."""
    size = {c.name: c.size for c in schema.columns}
    label = schema.label
    names = [str(n) for n in rng.permutation(schema.names) if n != label]
    small = [n for n in names if size[n] <= 7]
    if len(small) < 2:
        return
    (g, h), texts = small[:2], list[tuple[str, str]]()
    texts += [
        ("group shares", f"mean({label}) by {g}"),
        ("groups with a condition", f"mean({label}) by {g} where {h} != {_labels(schema, h)[0]}"),
        ("differences of groups", f"difference(mean({label}) by {g})"),
        ("ratios of groups", f"ratio(mean({label}) by {g})"),
        ("standardised rates", f"mean({label}) by {g} standardised by {h}"),
    ]
    for n in [n for n in names if schema.column(n).numeric and size[n] > 2 and n != g][:1]:
        texts += [
            ("group means", f"mean({n}) by {g}"),
            ("differences of groups", f"difference(mean({n}) by {g})"),
            ("ratios of groups", f"ratio(mean({n}) by {g})"),
            ("medians by group, shares behind", f"median({n}) by {g}"),
            ("Poisson", f"poisson({_quoted(n)} ~ {_quoted(g)})"),
        ]
    for n in [n for n in names if not schema.column(n).numeric and 3 <= size[n] <= 7][:2]:
        kinds = ("ordinal", "multinomial") if schema.column(n).ordered else ("multinomial",)
        right = [_quoted(other) for other in (label, *small) if other != n][:2]
        texts += [(kind, f"{kind}({_quoted(n)} ~ {' + '.join(right)})") for kind in kinds]
    model = Regression(f"{_quoted(label)} ~ {_quoted(g)} + {_quoted(h)}", schema)
    first, last = np.array(model.on(CodeCombinations.grid(schema, model.columns)).names)[[1, -1]]
    if first != last:
        texts.append(("contrasts", f"contrast({model.formula}; [{first}] - [{last}])"))
    for family, text in texts:
        yield from ((family, question) for question in read_question(text, schema))


def _quoted(name: str) -> str:
    return name if name.isidentifier() else f"`{name}`"


def _labels(schema: Schema, name: str) -> list[str]:
    return list(schema.column(name).labels())


def made(
    schema: Schema, codes: np.ndarray, turn: int, rng: np.random.Generator
) -> tuple[str, Evidence, SyntheticRows, np.ndarray]:
    """A release of a table drawn from the population, by the method whose turn it is."""
    drawn = codes[rng.integers(0, len(codes), int(rng.choice(ROWS)))]
    method, options = METHODS[turn % len(METHODS)], {}
    if method == "fixed-marginals":
        pairs = list(itertools.combinations(schema.names, 2))
        kept = pairs if turn % 2 else [p for p in pairs if rng.random() < 0.8]
        options["marginals"] = _write([list(p) for p in kept])
    synthesis, statement = generate(
        PrivateTable.open(Codec(schema).decode(drawn, rng), schema),
        make_config(method, options),
        Budget(eps=float(rng.choice(EPS))),
        noise=make_noise(int(rng.integers(2**31))),
    )
    evidence = Evidence.read(synthesis.model, synthesis.measurements, schema, statement.neighbours)
    return method, evidence, SyntheticRows.of(synthesis.frame, schema), drawn


def judged(problem: Problem, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each number its state, and whether the interval and the bare one hold the truth."""
    found = problem.conclude(0.95, None)
    notes = limits_of(problem, {}).notes
    noted = np.array([any(s in n for n in own for s in SERIOUS) for own in notes])
    state = np.where(np.isnan(found.low), 2, np.where(noted, 1, 0))
    inside = (found.low <= truth + 1e-12) & (truth <= found.high + 1e-12)
    problem.unmeasured, problem.measured_share = 0 * truth, 1 + 0 * truth
    bare = problem.conclude(0.95, None)
    bare.low[np.isnan(bare.low)], bare.high[np.isnan(bare.high)] = -np.inf, np.inf
    return state, inside, (bare.low <= truth + 1e-12) & (truth <= bare.high + 1e-12)


def bought(evidence: Evidence, problem: Problem, drawn: np.ndarray, schema: Schema, rng) -> Problem:  # type: ignore[no-untyped-def]
    """The same question after the marginals that the tool names were bought."""
    more = missing_marginals(problem, ANSWERED)
    sigma = (len(more) / (2 * BOUGHT_RHO)) ** 0.5
    measured = []
    for columns in more:
        places = tuple(schema.names.index(c) for c in columns)
        exact = counts(drawn, places, tuple(schema.column(c).size for c in columns))
        values = exact + rng.normal(0, sigma, exact.shape)
        measured.append(Measurement(columns=columns, values=values, sigma=sigma))
    joined = with_measured(evidence, measured, [problem.question.columns])
    return Problem(joined, problem.question, "population", rng)


def counts(codes: np.ndarray, places: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
    keys = np.ravel_multi_index(tuple(codes[:, i] for i in places), shape)
    return np.bincount(keys, minlength=int(np.prod(shape))).reshape(shape).astype(float)


def run(args: argparse.Namespace) -> None:
    """Count for as long as was asked, and add it to the file."""
    schema, codes = POPULATIONS[args.population]()
    lines = sum(1 for _ in args.found.open()) if args.found.exists() else 0
    seed = hashlib.sha256(f"{args.population} {lines} {args.seed}".encode()).digest()
    rng = np.random.default_rng(list(seed))
    found: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(len(COLUMNS)))
    start, done, whole = time.process_time(), 0, (schema, codes)
    while done < args.repeats and time.process_time() - start < args.seconds:
        if args.language:
            schema, codes = narrowed(*whole, args.width, rng)
        turn = ALL_PAIRS if args.language else done
        method, evidence, rows, drawn = made(schema, codes, turn, rng)
        again = 0 if args.language else BOUGHT
        for family, question in (of_language if args.language else questions)(schema, rng):
            problem = Problem(evidence, question, "population", rng)  # type: ignore[arg-type]
            truth = problem.statistic.value(shares_of(problem, codes, schema))
            other = None
            if not problem.answered.all() and again and missing_marginals(problem, ANSWERED):
                other, again = bought(evidence, problem, drawn, schema, rng), again - 1
            _, bottom, top = naive_fit(problem, rows, 0.95)
            naive = (bottom <= truth) & (truth <= top)
            add(found, f"{family} / {method}", *judged(problem, truth), naive)
            if other is not None:
                add(found, f"bought: {family} / {method}", *judged(other, truth), naive)
        done += 1
    spent = time.process_time() - start
    entry = {"population": args.population, "repeats": done, "seconds": round(spent, 1)}
    entry["found"] = {key: [round(float(x), 5) for x in own] for key, own in found.items()}
    with args.found.open("a") as handle:
        handle.write(json.dumps(entry) + "\n")
    print(f"{args.population}: {done} releases in {spent:.0f} s of processor time")


def narrowed(
    schema: Schema, codes: np.ndarray, width: int, rng: np.random.Generator
) -> tuple[Schema, np.ndarray]:
    """A population of the label and some other columns at random."""
    others = [i for i, name in enumerate(schema.names) if name != schema.label]
    places = sorted([*rng.permutation(others)[: width - 1], schema.names.index(schema.label or "")])
    return schema.select([schema.names[i] for i in places]), codes[:, places]


def run_null(args: argparse.Namespace) -> None:
    """Count small p-values of tests on tables whose columns do not go together."""
    schema, codes = POPULATIONS[args.population]()
    rng, small = np.random.default_rng([23, args.seed]), defaultdict[str, list[bool]](list)
    names = [n for n in schema.names if schema.column(n).size <= 12]
    start, done = time.process_time(), 0
    while done < args.repeats and time.process_time() - start < args.seconds:
        # Far more than a table has: columns of few rows go together by chance.
        picked = rng.integers(0, len(codes), (len(codes.T), MANY))
        own = np.stack([column[at] for column, at in zip(codes.T, picked, strict=True)], axis=1)
        method, evidence, _, _ = made(schema, own, done, rng)
        for pair in itertools.combinations(names, 2):
            (question,) = read_question(f"test({pair[0]}, {pair[1]})", schema)
            problem = Problem(evidence, question, "population", rng)
            result = problem.question.conclude(problem, 0.95, None)
            if result.p is not None and not np.isnan(result.p[0]):
                kind = str(result.names[0]).partition(",")[0]
                small[f"{kind}, {method}"].append(bool(result.p[0] < 0.05))
                small[f"{kind}, all"].append(bool(result.p[0] < 0.05))
        done += 1
    print(f"{args.population}: {done} releases, {time.process_time() - start:.0f} s")
    for kind, below in sorted(small.items()):
        print(f"| {kind} | {len(below)} | {np.mean(below):.3f} |")


def add(
    found: dict[str, np.ndarray],
    name: str,
    state: np.ndarray,
    inside: np.ndarray,
    bare: np.ndarray,
    naive: np.ndarray,
) -> None:
    """Count a question once: each of its numbers is a part of it."""
    for own, title in enumerate(STATES):
        at = state == own
        if at.any():
            parts = [at.sum(), inside[at].sum(), bare[at].sum(), naive[at].sum()]
            found[f"{name} / {title}"] += np.array(parts, dtype=float) / len(state)


def run_combine(args: argparse.Namespace) -> None:
    """Count how often combined results of imputations hold the truth, and add it to the file."""
    schema, codes = of_table("adult", ADULT4)
    place = f"{args.method}, {args.rows:,} rows, eps {args.eps:g}, {args.tables} tables"
    lines = sum(1 for _ in args.found.open()) if args.found.exists() else 0
    rng = np.random.default_rng([17, lines, args.seed])
    pairs = [list(p) for p in itertools.combinations(schema.names, 2)]
    options = {"marginals": _write(pairs)} if args.method == "fixed-marginals" else {}
    asked: list[tuple[str, object]] = [
        (family, Regression(formula, schema)) for family, formula in OF_ADULT4
    ]
    asked += [("means", mean_of(n, schema)) for n in schema.names if schema.column(n).numeric]
    asked += [("one-way shares", table_of((n,), schema, "share")) for n in schema.names]
    asked += [("three-way shares", table_of(("education-num", "sex", "income"), schema, "share"))]
    cells = CodeCombinations.grid(schema, schema.names)
    assert cells.shape is not None
    keys = np.ravel_multi_index(tuple(codes.T), cells.shape)
    every = np.bincount(keys, minlength=len(cells.codes)) / len(codes)
    own = [(family, q, q.on(cells.only(q.columns))) for family, q in asked]  # type: ignore[attr-defined]
    truth = [statistic.value(every) for _, _, statistic in own]
    found: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(len(COLUMNS)))
    start, done = time.process_time(), 0
    while done < args.repeats and time.process_time() - start < args.seconds:
        frame = Codec(schema).decode(codes[rng.integers(0, len(codes), args.rows)], rng)
        synthesis, statement = generate(
            PrivateTable.open(frame, schema),
            make_config(args.method, options),
            Budget(eps=args.eps),
            noise=make_noise(int(rng.integers(2**31))),
        )
        with tempfile.TemporaryDirectory() as folder:
            release = Release.write(synthesis, schema, statement, Path(folder) / "release")
            tables = Path(folder) / "tables"
            index = impute(release, tables, tables=args.tables, seed=int(rng.integers(2**31)))
            results = []
            for name in index.models:
                shares = _shares(pd.read_csv(tables / name), schema, cells.shape)
                results += _printed(name, own, shares, index.rows)
            plain = _printed("", own, _shares(release.frame(), schema, cells.shape), args.rows)
            frame = pd.DataFrame(results)
            combined = combine(frame, tables, release=release).set_index("term")
        naive = {entry["term"]: entry for entry in plain}
        for number, ((family, *_), values) in enumerate(zip(own, truth, strict=True)):
            terms = [f"{number} / {i}" for i in range(len(values))]
            lines_of = combined.loc[terms]
            inside = ((lines_of["low"] <= values) & (values <= lines_of["high"])).to_numpy()
            bare = np.array(
                [
                    low <= value <= high
                    for value, (low, high) in zip(
                        values, (_bare(frame, term, index) for term in terms), strict=True
                    )
                ]
            )
            noted = (lines_of["note"] != "").to_numpy()
            state = np.where(lines_of["low"].isna().to_numpy(), 2, np.where(noted, 1, 0))
            errors = np.array([naive[t]["se"] for t in terms])
            values_of = np.array([naive[t]["estimate"] for t in terms])
            by_rows = np.abs(values_of - values) <= 1.96 * errors
            add(found, f"{family} / {args.method}", state, inside, bare, by_rows)
        done += 1
    spent = time.process_time() - start
    entry = {"population": f"combined, {place}", "repeats": done, "seconds": round(spent, 1)}
    entry["found"] = {key: [round(float(x), 5) for x in own] for key, own in found.items()}
    with args.found.open("a") as handle:
        handle.write(json.dumps(entry) + "\n")
    print(f"{place}: {done} repeats in {spent:.0f} s of processor time")


def _bare(results: pd.DataFrame, term: str, index: Index) -> tuple[float, float]:
    """The combined interval whatever was measured."""
    own = results[results["term"] == term].assign(variance=lambda frame: frame["se"] ** 2)
    found = rule(own.set_index("table"), index, 0.95)
    return float(found["low"]), float(found["high"])  # type: ignore[arg-type]


def _shares(frame: pd.DataFrame, schema: Schema, shape: tuple[int, ...]) -> np.ndarray:
    """The share of every combination of values among an analyst's rows."""
    codes = Codec(schema).encode(frame)
    keys = np.ravel_multi_index(tuple(codes.T), shape)
    return np.bincount(keys, minlength=int(np.prod(shape))) / len(codes)


def _printed(name: str, own: list, shares: np.ndarray, rows: int) -> list[dict]:
    """What an analyst's code prints on a table: estimates and their standard errors."""
    found = []
    for place, (_, question, statistic) in enumerate(own):
        value = statistic.value(shares)
        influence = statistic.influence(shares, value)
        errors = np.sqrt(shares @ np.square(influence) / rows)
        formula = getattr(question, "formula", None)
        for i in range(len(value)):
            found.append(
                {
                    "table": name,
                    "term": f"{place} / {i}",
                    "estimate": float(value[i]),
                    "se": float(errors[i]),
                    "about": formula or ", ".join(question.columns),
                }
            )
    return found


def shares_of(problem: Problem, codes: np.ndarray, schema: Schema) -> np.ndarray:
    """Shares of the combinations among real rows, numbers in the middle of their bins."""
    cells: CodeCombinations = problem.cells
    assert cells.shape is not None
    places = tuple(schema.names.index(c) for c in cells.columns)
    return counts(codes, places, cells.shape).ravel() / len(codes)


def _write(pairs: list[list[str]]) -> str:
    with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as handle:
        json.dump(pairs, handle)
    return handle.name


# -- reporting -------------------------------------------------------------------------------------


def gathered(path: Path) -> dict[str, dict]:
    """Everything that runs counted, by population."""
    places: dict[str, dict] = {}
    for line in path.read_text().splitlines():
        entry = json.loads(line)
        own = places.setdefault(entry["population"], {"repeats": 0, "seconds": 0.0, "found": {}})
        own["repeats"] += entry["repeats"]
        own["seconds"] += entry["seconds"]
        for name, values in entry["found"].items():
            before = own["found"].get(name, np.zeros(len(COLUMNS)))
            own["found"][name] = before + np.array(values)
    return places


def totals(places: dict[str, dict], kept: Callable[[str, str, str], bool]) -> np.ndarray:
    """Counts by state of what is kept, by population, family and method."""
    found = np.zeros((len(STATES), len(COLUMNS)))
    for population, own in places.items():
        for name, values in own["found"].items():
            family, method, state = name.split(" / ")
            if kept(population, family, method):
                found[STATES.index(state)] += values
    return found


HEAD = (
    "asked",
    "no note: n",
    "covered",
    "note: n",
    "covered",
    "bare",
    "withheld: n",
    "bare",
    "naive",
)


def line(name: str, own: np.ndarray) -> str:
    """A row of a table."""

    def share(part: float, of: float) -> str:
        return f"{part / of:.3f}" if of >= 1 else ""

    plain, noted, withheld = own
    cells = [
        f"{own[:, 0].sum():.0f}",
        f"{plain[0]:.0f}",
        share(plain[1], plain[0]),
        f"{noted[0]:.0f}",
        share(noted[1], noted[0]),
        share(noted[2], noted[0]),
        f"{withheld[0]:.0f}",
        share(withheld[2], withheld[0]),
        share(own[:, 3].sum(), own[:, 0].sum()),
    ]
    return f"| {name} | " + " | ".join(cells) + " |"


def report(args: argparse.Namespace) -> None:
    """Print tables by family, population and method, what notes are worth; draw the picture."""
    every = gathered(args.found)
    tables = {k: own for k, own in every.items() if k in POPULATIONS}

    def show(title: str, rows: dict[str, np.ndarray]) -> None:
        print(f"| {title} | {' | '.join(HEAD)} |\n|---|{'---|' * len(HEAD)}")
        print("\n".join(line(name, own) for name, own in rows.items() if own[:, 0].sum()))
        print()

    for title, populations in (
        ("populations that had no part in the choice", [p for p in tables if p in JUDGED]),
        ("populations on which the rule was chosen", [p for p in tables if p not in JUDGED]),
        ("populations with effects that cross", [p for p in tables if p in CROSS]),
    ):
        show(
            title,
            {
                f: totals(tables, lambda p, g, m, f=f, own=populations: p in own and g == f)  # type: ignore[misc]
                for f in FAMILIES
            },
        )
    show(
        "questions of the language",
        {f: totals(tables, lambda p, g, m, f=f: g == f) for f in LANGUAGE},  # type: ignore[misc]
    )
    asked = "bought: "
    show(
        "population",
        {
            f"{name}, {own['repeats']} releases": totals(
                tables,
                lambda p, f, m, name=name: p == name and asked not in f,  # type: ignore[misc]
            )
            for name, own in tables.items()
        },
    )
    methods = dict.fromkeys(METHODS)
    show(
        "method",
        {
            name: totals(tables, lambda p, f, m, name=name: m == name and asked not in f)  # type: ignore[misc]
            for name in methods
        },
    )
    show(
        "after the named marginals were bought",
        {f: totals(tables, lambda p, g, m, f=f: g == asked + f) for f in FAMILIES},  # type: ignore[misc]
    )
    for title, kept in (("judged", lambda p: p in JUDGED), ("all", lambda p: True)):
        worth(title, totals(tables, lambda p, f, m, kept=kept: kept(p) and asked not in f))  # type: ignore[misc]
    combined = {k: own for k, own in every.items() if k not in POPULATIONS}
    for name, own in combined.items():
        show(
            f"combined, {name}",
            {f: totals({name: own}, lambda p, g, m, f=f: g == f) for f in FAMILIES},
        )  # type: ignore[misc]
    draw(tables)


def worth(title: str, own: np.ndarray) -> None:
    """What notes catch and what they cost."""
    missed = own[:, 0] - own[:, 2]
    # A 95% interval misses a twentieth: what is more than that needs a note.
    beyond = np.maximum(missed - 0.05 * own[:, 0], 0)
    marked = own[1:].sum(axis=0)
    print(
        f"{title}: {own[:, 0].sum():.0f} questions; bare intervals miss {missed.sum():.0f}, "
        f"{missed[0]:.0f} of them without a note ({missed[0] / missed.sum():.3f}); of the misses "
        f"beyond a twentieth {beyond[0] / max(beyond.sum(), 1e-9):.3f} are without a note. "
        f"Noted or withheld: {marked[0] / own[:, 0].sum():.3f} of the questions, of which the bare "
        f"interval holds {marked[2] / marked[0]:.3f} (needless)."
    )


def draw(tables: dict[str, dict]) -> None:
    """A picture: the coverage of every family without a note, by population, and the naive one."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 4.4))
    asked = {name.split(" / ")[0] for own in tables.values() for name in own["found"]}
    families = [family for family in (*FAMILIES, *LANGUAGE) if family in asked]
    for place, family in enumerate(families):
        for i, name in enumerate(tables):
            own = totals(tables, lambda p, f, m: (p, f) == (name, family))  # noqa: B023
            at = place + 0.06 * (i - len(tables) / 2)
            mark = "D" if name in CROSS else "o"
            if own[0, 0] >= 10:
                axes.plot(at, own[0, 1] / own[0, 0], mark, color="#1b6ca8", ms=4, alpha=0.7)
            if own[:, 0].sum() >= 10:
                naive = own[:, 3].sum() / own[:, 0].sum()
                axes.plot(at, naive, mark, color="#c44e52", ms=4, alpha=0.7)
    for mark, text in (("o", "nothing crosses, or real rows"), ("D", "effects cross")):
        axes.plot([], [], mark, color="grey", label=text)
    axes.plot([], [], "s", color="#1b6ca8", label="marginalsyn estimate, no note")
    axes.plot([], [], "s", color="#c44e52", label="a fit on the synthetic rows")
    axes.axhspan(0.93, 0.97, color="#1b6ca8", alpha=0.12)
    labels = [textwrap.fill(family, 10, break_long_words=False) for family in families]
    axes.set_xticks(range(len(families)), labels, fontsize=8)
    axes.set_ylabel("coverage of 95% intervals")
    axes.set_ylim(0, 1.02)
    axes.legend(frameon=False, ncol=2, fontsize=8, loc="lower left")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.tight_layout()
    figure.savefig(PICTURES / "coverage.png", dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    counting = commands.add_parser("run")
    counting.add_argument("--population", default="wards", choices=POPULATIONS)
    counting.add_argument("--repeats", type=int, default=10**6)
    counting.add_argument("--seconds", type=float, default=100.0)
    counting.add_argument("--seed", type=int, default=0)
    counting.add_argument("--language", action="store_true")
    counting.add_argument("--width", type=int, default=5)
    counting.set_defaults(call=run)
    nothing = commands.add_parser("null")
    nothing.add_argument("--population", default="wards", choices=POPULATIONS)
    nothing.add_argument("--repeats", type=int, default=10**6)
    nothing.add_argument("--seconds", type=float, default=60.0)
    nothing.add_argument("--seed", type=int, default=0)
    nothing.set_defaults(call=run_null)
    combining = commands.add_parser("combine")
    combining.add_argument("--rows", type=int, default=2000)
    combining.add_argument("--eps", type=float, default=1.0)
    combining.add_argument("--method", default="fixed-marginals")
    combining.add_argument("--tables", type=int, default=20)
    combining.add_argument("--repeats", type=int, default=10**6)
    combining.add_argument("--seconds", type=float, default=300.0)
    combining.add_argument("--seed", type=int, default=0)
    combining.set_defaults(call=run_combine)
    telling = commands.add_parser("report")
    telling.set_defaults(call=report)
    for one in (counting, nothing, combining, telling):
        one.add_argument("--found", type=Path, default=Path("coverage.jsonl"))
    args = parser.parse_args()
    args.call(args)


if __name__ == "__main__":
    main()

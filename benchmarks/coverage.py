"""How often intervals hold the truth: `marginalsyn estimate` beside the naive fit, on known truth.

python benchmarks/coverage.py run --method mst --rows 10000 --eps 1 --seconds 500
python benchmarks/coverage.py combine --rows 2000 --seconds 300
python benchmarks/coverage.py report

A population is a part of a public table, a graphical model fitted to it (--model-population), or
`census`: persons made up by the rules of this script, with columns like those of the American
Community Survey (no such table comes with the package).
Every repeat draws a table of some rows from it, makes a release, and asks: shares of one and of two
columns, means, differences, linear and logistic coefficients. `run` adds what it counted to a file,
so that runs add up; every run takes a seed of its own. `combine` does the same for tables of
`sample --imputations`, to which plain least squares and logistic regressions are fitted as an
analyst would. `report` prints tables and draws pictures.

A quantity is *warned of* where the tool says that the release hardly tells it: a pair that was
never measured, merged values, a group that holds hardly more rows than noise. Widths are compared
with the naive ones, and with an oracle: the best unbiased estimate from the same answers that knows
the population, the sigmas and the sampling.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from marginalsyn import Budget, PrivateTable, Schema, datasets, make_noise
from marginalsyn.answers import combine, impute
from marginalsyn.answers.atoms import Atoms
from marginalsyn.answers.estimation import Problem
from marginalsyn.answers.evidence import Evidence
from marginalsyn.answers.limits import limits_of
from marginalsyn.answers.means import weigh
from marginalsyn.answers.naive import SyntheticRows, naive_fit
from marginalsyn.answers.projection import project
from marginalsyn.answers.quantities import Difference, Mean, Table
from marginalsyn.answers.regression import Regression
from marginalsyn.answers.replaying import replay
from marginalsyn.contract import make_config
from marginalsyn.graphical import model as pgm
from marginalsyn.graphical.targets import Observed
from marginalsyn.host import generate
from marginalsyn.release import Release
from marginalsyn.table import (
    BooleanColumn,
    CategoricalColumn,
    Codec,
    ContinuousColumn,
    IntegerColumn,
    OrdinalColumn,
)

if __name__ == "coverage":
    # numba looks for a package of this name, and would find this script beside those that it runs.
    raise ImportError("benchmarks/coverage.py is a script, not the package of that name")

PICTURES = Path(__file__).parents[1] / "docs" / "images"
TABLES = {
    "adult8": (
        "adult",
        [
            "workclass",
            "education",
            "marital-status",
            "occupation",
            "relationship",
            "race",
            "sex",
            "income",
        ],
        ["income ~ sex + race", "income ~ sex + relationship"],
    ),
    "adult6": (
        "adult",
        ["age", "marital-status", "education-num", "hours-per-week", "sex", "income"],
        ["income ~ age + sex", "income ~ education-num", "age ~ income + sex"],
    ),
    "adult4": (
        "adult",
        ["age", "education-num", "sex", "income"],
        ["income ~ age + education-num + sex", "age ~ income + sex"],
    ),
}
SCHOOLS = ("none", "school", "college", "bachelor", "master")
WORKS = ("private", "public", "self", "none")
CENSUS = Schema(
    title="persons, made up",
    columns=(
        IntegerColumn(name="age", lower=17, upper=90, bins=12),
        BooleanColumn(name="female"),
        OrdinalColumn(name="schooling", categories=SCHOOLS),
        CategoricalColumn(name="work", categories=WORKS),
        IntegerColumn(name="hours", lower=0, upper=80, bins=8),
        BooleanColumn(name="married"),
        ContinuousColumn(name="income", lower=0, upper=200_000, bins=12),
        BooleanColumn(name="high"),
    ),
    label="high",
    positive=True,
)
OF_CENSUS = ["high ~ schooling + hours", "high ~ age + female", "income ~ hours + female"]
# Of pairs of columns so many are asked; in Python every cell takes a while.
MOST_PAIRS = 8
# Below this share told the tool warns of merged values.
UNTOLD = 0.9
# Families of quantities, as the issue names them.
FAMILIES = ("one-way shares", "two-way shares", "means", "differences", "linear", "logistic")
# What is added up of every quantity: repeats, held, held by the naive fit, the widths, the naive
# ones, and the sum and the number of widths over the oracle's.
COLUMNS = ("n", "held", "naive", "width", "naive width", "oracle", "judged")


def questions(schema: Schema, formulas: list[str]) -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for name in schema.names:
        found.append(("one-way shares", Table((name,), schema, "share")))
        if schema.column(name).numeric:
            found.append(("means", Mean(name, schema)))
    pairs = list(itertools.combinations(schema.names, 2))
    step = -(-len(pairs) // MOST_PAIRS)
    found += [("two-way shares", Table(pair, schema, "share")) for pair in pairs[::step]]
    label = schema.label
    for name in schema.names:
        if name != label and 2 <= schema.column(name).size <= 7 and label:
            found.append(("differences", Difference(label, name, schema)))
    for formula in formulas:
        model = Regression(formula, schema)
        found.append(("logistic" if model.logistic else "linear", model))
    return found


def population(name: str, fitted: bool) -> tuple[Schema, np.ndarray, list[str]]:
    """The schema, the codes of all rows, and the formulas."""
    if name == "census":
        return CENSUS, Codec(CENSUS).encode(census(200_000)), OF_CENSUS
    table, columns, formulas = TABLES[name]
    schema = datasets.schema(table).select(columns)
    codes = Codec(schema).encode(datasets.load(table).train)
    if fitted:
        domain = schema.domain
        pairs = [
            Observed((a, b), counts(codes, (i, j), (domain[a], domain[b])), 1.0)
            for (i, a), (j, b) in itertools.pairwise(enumerate(domain))
        ]
        model = pgm.fit(domain, pairs, total=float(len(codes)))
        codes = model.rows(400_000, np.random.default_rng(0))
    return schema, codes, formulas


def census(n: int) -> pd.DataFrame:
    """Persons: schooling, work, hours and income depend on one another as they do in surveys."""
    rng = np.random.default_rng(2018)
    age = np.clip(17 + rng.gamma(2.6, 12.0, n), 17, 90).astype(int)
    female = rng.random(n) < 0.51
    schooling = np.clip(np.rint(rng.normal(1.9 - 0.01 * np.abs(age - 45), 1.1, n)), 0, 4).astype(
        int
    )
    married = rng.random(n) < 1 / (1 + np.exp(-(age - 33) / 8)) * 0.65
    idle = rng.random(n) < np.where(age > 66, 0.8, 0.28 - 0.04 * schooling)
    kind = np.where(rng.random(n) < 0.1 + 0.03 * schooling, 1, np.where(rng.random(n) < 0.1, 2, 0))
    work = np.where(idle, 3, kind)
    full = np.where(rng.random(n) < np.where(female, 0.65, 0.85), 40, 22)
    hours = np.where(idle, 0, np.clip(rng.normal(full, 9, n), 1, 80)).astype(int)
    level = 9.4 + 0.28 * schooling + 0.008 * np.minimum(age, 60) - 0.16 * female + 0.1 * married
    pay = np.exp(level + 0.55 * rng.standard_normal(n)) * hours / 40
    income = np.where(idle, 9000.0 * (age > 66) * rng.random(n) * 3, pay)
    return pd.DataFrame(
        {
            "age": age,
            "female": female,
            "schooling": np.array(SCHOOLS)[schooling],
            "work": np.array(WORKS)[work],
            "hours": hours,
            "married": married,
            "income": np.minimum(income, 200_000),
            "high": income > 30_000,
        }
    )


def counts(codes: np.ndarray, places: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
    keys = np.ravel_multi_index(tuple(codes[:, i] for i in places), shape)
    return np.bincount(keys, minlength=int(np.prod(shape))).reshape(shape).astype(float)


def run(args: argparse.Namespace) -> None:
    """Count for as long as was asked, and add it to the file."""
    schema, codes, formulas = population(args.table, args.model_population)
    asked = questions(schema, formulas)
    place = {
        "table": args.table + (" (model)" if args.model_population else ""),
        "method": args.method,
        "rows": args.rows,
        "eps": args.eps,
        "target": args.target,
        "form": f"{args.replicates} {'whole ' if args.whole else ''}replays"
        if args.replicates
        else "linear form",
    }
    lines = sum(1 for _ in args.found.open()) if args.found.exists() else 0
    seed = hashlib.sha256(f"{json.dumps(place)} {lines} {args.seed}".encode()).digest()
    rng = np.random.default_rng(list(seed))
    options = {}
    if args.method == "fixed-marginals":
        options["marginals"] = _write([list(p) for p in itertools.combinations(schema.names, 2)])
    found: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(len(COLUMNS)))
    start, begun, done = time.process_time(), time.monotonic(), 0
    while (
        done < args.repeats
        and time.process_time() - start < args.seconds
        and time.monotonic() - begun < args.wall
    ):
        drawn = codes[rng.integers(0, len(codes), args.rows)]
        frame = Codec(schema).decode(drawn, rng)
        synthesis, statement = generate(
            PrivateTable.open(frame, schema),
            make_config(args.method, options),
            Budget(eps=args.eps),
            noise=make_noise(int(rng.integers(2**31))),
        )
        evidence = Evidence.read(
            synthesis.model, synthesis.measurements, schema, statement.neighbours
        )
        again = _again(args, schema, options) if args.whole else None
        problems = [Problem(evidence, question, args.target, rng) for _, question in asked]
        wanted = [
            p for p, (family, _) in zip(problems, asked, strict=True) if "shares" not in family
        ]
        errors = iter(replay(evidence, wanted, args.target, args.replicates, rng, again=again))
        held = {frozenset(p) for k in evidence.looks for p in itertools.combinations(k.columns, 2)}
        rows = SyntheticRows.of(synthesis.frame, schema)
        for problem, (family, question) in zip(problems, asked, strict=True):
            replayed = next(errors) if "shares" not in family else None
            answer = problem.conclude(0.95, replayed)
            _, bottom, top = naive_fit(problem, rows, 0.95)
            weights = shares_of(problem, drawn if args.target == "table" else codes, schema)
            truth = problem.statistic.value(weights)
            width, naive = answer.high - answer.low, top - bottom
            if family == "two-way shares":
                unmeasured = frozenset(problem.atoms.columns) not in held
                warned = (problem.told < UNTOLD) | unmeasured
            elif family == "one-way shares":
                warned = np.zeros(len(truth), dtype=bool)
            else:
                serious = ("never measured", "measured as one", "hardly tells")
                notes = limits_of(problem, {}).notes
                warned = np.array([any(s in n for n in own for s in serious) for own in notes])
            # The oracle takes a moment; a few repeats tell it.
            best = oracle(problem, weights) if done < 3 else None
            for i, name in enumerate(answer.names):
                kind = f"{family}{', warned of' if warned[i] else ''}"
                known = best is not None and best[i] > 0
                found[f"{kind} / {question.title} / {name}"] += (
                    1,
                    answer.low[i] <= truth[i] <= answer.high[i],
                    bottom[i] <= truth[i] <= top[i],
                    width[i],
                    naive[i],
                    width[i] / (2 * 1.96 * best[i]) if known else 0.0,
                    known,
                )
        done += 1
    spent = time.process_time() - start
    entry = {**place, "repeats": done, "seconds": round(spent, 1)}
    entry["found"] = {key: [round(float(x), 4) for x in own] for key, own in found.items()}
    with args.found.open("a") as handle:
        handle.write(json.dumps(entry) + "\n")
    print(f"{place}: {done} repeats in {spent:.0f} s of processor time")


def run_combine(args: argparse.Namespace) -> None:
    """Count how often combined results of imputations hold the truth, and add it to the file."""
    schema, codes, formulas = population(args.table, fitted=False)
    place = {
        "table": args.table,
        "method": args.method,
        "rows": args.rows,
        "eps": args.eps,
        "target": "population",
        "form": f"{args.tables} tables combined",
    }
    lines = sum(1 for _ in args.found.open()) if args.found.exists() else 0
    rng = np.random.default_rng([17, lines, args.seed])
    pairs = [list(p) for p in itertools.combinations(schema.names, 2)]
    options = {"marginals": _write(pairs)} if args.method == "fixed-marginals" else {}
    asked: list[tuple[str, object]] = [
        ("linear" if not Regression(f, schema).logistic else "logistic", Regression(f, schema))
        for f in formulas
    ]
    asked += [("means", Mean(n, schema)) for n in schema.names if schema.column(n).numeric]
    asked += [("one-way shares", Table((n,), schema, "share")) for n in schema.names]
    atoms = Atoms.grid(schema, schema.names)
    assert atoms.shape is not None
    keys = np.ravel_multi_index(tuple(codes.T), atoms.shape)
    every = np.bincount(keys, minlength=len(atoms.codes)) / len(codes)
    own = [(family, q.on(atoms.only(q.columns))) for family, q in asked]  # type: ignore[attr-defined]
    truth = [statistic.value(every) for _, statistic in own]
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
            results, naive = [], {}
            for name in index.models:
                shares = _shares(pd.read_csv(tables / name), schema, atoms.shape)
                results += _printed(name, own, shares, index.rows)
            for entry in _printed(
                "", own, _shares(release.frame(), schema, atoms.shape), args.rows
            ):
                naive[entry["term"]] = entry
            combined = combine(pd.DataFrame(results), tables).set_index("term")
        for (family, statistic), values in zip(own, truth, strict=True):
            for i, value in enumerate(values.tolist()):
                term = f"{family} / {statistic.names[i]} / {i}"
                line, plain = combined.loc[term], naive[term]
                half = 1.96 * plain["se"]
                found[term] += (
                    1,
                    line["low"] <= value <= line["high"],
                    abs(plain["estimate"] - value) <= half,
                    line["high"] - line["low"],
                    2 * half,
                    0.0,
                    0.0,
                )
        done += 1
    spent = time.process_time() - start
    entry = {**place, "repeats": done, "seconds": round(spent, 1)}
    entry["found"] = {key: [round(float(x), 4) for x in own] for key, own in found.items()}
    with args.found.open("a") as handle:
        handle.write(json.dumps(entry) + "\n")
    print(f"{place}: {done} repeats in {spent:.0f} s of processor time")


def _shares(frame: pd.DataFrame, schema: Schema, shape: tuple[int, ...]) -> np.ndarray:
    """The share of every combination of values among an analyst's rows."""
    codes = Codec(schema).encode(frame)
    keys = np.ravel_multi_index(tuple(codes.T), shape)
    return np.bincount(keys, minlength=int(np.prod(shape))) / len(codes)


def _printed(name: str, own: list, shares: np.ndarray, rows: int) -> list[dict]:
    """What an analyst's code prints on a table: estimates and their standard errors."""
    found = []
    for family, statistic in own:
        value = statistic.value(shares)
        influence = statistic.influence(shares, value)
        errors = np.sqrt(shares @ np.square(influence) / rows)
        for i, term in enumerate(statistic.names):
            found.append(
                {
                    "table": name,
                    "term": f"{family} / {term} / {i}",
                    "estimate": float(value[i]),
                    "se": float(errors[i]),
                }
            )
    return found


def _again(args: argparse.Namespace, schema: Schema, options: dict) -> object:
    from marginalsyn.answers.rerun import Rerun

    return Rerun(args.method, options, Budget(eps=args.eps), schema)


def oracle(problem: Problem, weights: np.ndarray) -> np.ndarray:
    """The standard error of the best unbiased estimate, which knows the population."""
    evidence, statistic = problem.evidence, problem.statistic
    value = statistic.value(weights)
    influence = statistic.influence(weights, value)
    functions, projected = project(evidence, problem.atoms, weights, influence)
    about = -value if problem.question.scale == "count" else weights @ projected
    noise = [
        weigh(evidence, f).noise(evidence, float(mean))
        for f, mean in zip(functions, about, strict=True)
    ]
    sampling = np.zeros(len(value))
    if problem.target == "population":
        centred = projected - weights @ projected
        sampling = weights @ np.square(centred) / evidence.total[0]
    return np.sqrt(np.array(noise) + sampling)


def shares_of(problem: Problem, codes: np.ndarray, schema: Schema) -> np.ndarray:
    """Shares of the atoms among real rows, numbers in the middle of their bins."""
    atoms: Atoms = problem.atoms
    assert atoms.shape is not None
    places = tuple(schema.names.index(c) for c in atoms.columns)
    return counts(codes, places, atoms.shape).ravel() / len(codes)


def _write(pairs: list[list[str]]) -> str:
    with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as handle:
        json.dump(pairs, handle)
    return handle.name


# -- reporting -------------------------------------------------------------------------------------


def gathered(path: Path) -> dict[tuple, dict]:
    """Everything that runs counted, by place."""
    places: dict[tuple, dict] = {}
    for line in path.read_text().splitlines():
        entry = json.loads(line)
        key = tuple(entry[k] for k in ("table", "method", "rows", "eps", "target", "form"))
        held = places.setdefault(key, {"repeats": 0, "seconds": 0.0, "found": {}})
        held["repeats"] += entry["repeats"]
        held["seconds"] += entry["seconds"]
        for name, values in entry["found"].items():
            before = held["found"].get(name, np.zeros(len(COLUMNS)))
            held["found"][name] = before + np.array(values)
    return places


def pooled(places: dict[tuple, dict], kept: Callable[[tuple], bool]) -> dict[str, Any]:
    """What places of a kind counted together, quantity by quantity; places of one table alike."""
    held: dict[str, Any] = {"repeats": 0, "found": {}}
    for key, own in places.items():
        if not kept(key):
            continue
        held["repeats"] += own["repeats"]
        for name, values in own["found"].items():
            text = f"{name} / {key[0]}"
            held["found"][text] = held["found"].get(text, np.zeros(len(COLUMNS))) + values
    return held


def families(held: dict, least: int = 10) -> dict[str, dict[str, float]]:
    """Median, mean and lowest tenth of the coverage of every family, and widths.

    Quantities that were asked fewer than ``least`` times are in the mean alone.
    """
    cells = defaultdict(list)
    for name, values in held["found"].items():
        cells[name.split(" / ")[0]].append(values)
    found = {}
    for kind, rows in cells.items():
        every = np.array(rows)
        table = every[every[:, 0] >= least]
        if not len(table):
            continue
        own = table[:, 1] / table[:, 0]
        judged = table[:, 6] > 0
        asked = every[:, 0].sum()
        found[kind] = {
            "quantities": len(table),
            "asked": float(np.median(table[:, 0])),
            "median": float(np.median(own)),
            "mean": float(every[:, 1].sum() / asked),
            "tenth": float(np.quantile(own, 0.1)),
            "naive": float(every[:, 2].sum() / asked),
            "width": float(np.median(table[:, 3] / np.maximum(table[:, 4], 1e-12))),
            "oracle": float(np.median(table[judged, 5] / table[judged, 6])) if judged.any() else 0,
        }
    return found


def report(args: argparse.Namespace) -> None:
    """Print tables by eps, method, rows and population; draw the picture."""
    places = gathered(args.found)
    linear = {k: own for k, own in places.items() if k[5] == "linear form"}
    for place, what in ((3, "eps"), (1, "method"), (2, "rows"), (0, "population")):
        print(f"| {what} | releases | family | quantities | asked | median | mean | tenth ", end="")
        print("| naive | / naive | / oracle |\n|---|---|---|---|---|---|---|---|---|---|---|")
        for value in sorted({key[place] for key in linear}):
            own = pooled(linear, lambda key, p=place, v=value: key[p] == v)  # type: ignore[misc]
            told = families(own, least=20)
            for kind in FAMILIES:
                _print_row(f"{value:,}" if place == 2 else str(value), own["repeats"], kind, told)
            if place == 3:
                for kind in FAMILIES:
                    warned = f"{kind}, warned of"
                    _print_row(str(value), own["repeats"], warned, told)
        print()
    print(
        "| tables combined, or replays | releases | family | quantities | asked | median | mean ",
        end="",
    )
    print("| tenth | naive | / naive | / oracle |\n|---|---|---|---|---|---|---|---|---|---|---|")
    for key, own in places.items():
        if key[5] != "linear form":
            for kind in FAMILIES:
                name = f"{key[1]}, {key[0]}, {key[2]:,} rows, eps {key[3]:g}, {key[5]}"
                _print_row(name, own["repeats"], kind, families(own))
    whole = pooled(linear, lambda key: True)
    failed = warned = 0.0
    both: dict[str, dict[bool, np.ndarray]] = defaultdict(dict)
    for text, values in whole["found"].items():
        kind, rest = text.split(" / ", 1)
        both[f"{kind.removesuffix(', warned of')} / {rest}"]["warned" in kind] = values
    for values in both.values():
        sums = sum(values.values())
        if sums[0] >= 25 and sums[1] / sums[0] < 0.85:
            failed += sums[0] - sums[1]
            warned += sum(v[0] - v[1] for w, v in values.items() if w)
    if failed:
        print(
            f"\n{whole['repeats']:,} releases. Of the misses of quantities that are covered below"
        )
        print(f".85, {warned / failed:.3f} were warned of.")
    draw(places)


def _print_row(name: str, repeats: int, kind: str, told: dict[str, dict[str, float]]) -> None:
    if kind not in told:
        return
    f = told[kind]
    print(
        f"| {name} | {repeats} | {kind} | {f['quantities']} | {f['asked']:.0f} | {f['median']:.3f} "
        f"| {f['mean']:.3f} | {f['tenth']:.3f} | {f['naive']:.3f} | {f['width']:.2f} "
        f"| {f['oracle']:.2f} |"
    )


def draw(places: dict[tuple, dict]) -> None:
    """A picture: the mean coverage of every family by method and eps, ours and the naive one."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4.2))
    marks = {"mst": "o", "aim": "s", "auto": "^", "fixed-marginals": "D"}
    linear = {k: own for k, own in places.items() if k[5] == "linear form"}
    for eps in sorted({key[3] for key in linear}):
        for i, method in enumerate(marks):
            held = pooled(linear, lambda k, m=method, e=eps: (k[1], k[3]) == (m, e))  # type: ignore[misc]
            told = families(held)
            for place, kind in enumerate(FAMILIES):
                if kind in told:
                    at = place + 0.16 * (i - 1.5)
                    axes.plot(
                        at, told[kind]["mean"], marks[method], color="#1b6ca8", ms=4, alpha=0.7
                    )
                    axes.plot(
                        at, told[kind]["naive"], marks[method], color="#c44e52", ms=4, alpha=0.7
                    )
    for method, mark in marks.items():
        axes.plot([], [], mark, color="grey", label=method)
    axes.plot([], [], "s", color="#1b6ca8", label="marginalsyn estimate")
    axes.plot([], [], "s", color="#c44e52", label="a fit on the synthetic rows")
    axes.axhspan(0.93, 0.97, color="#1b6ca8", alpha=0.12)
    axes.set_xticks(range(len(FAMILIES)), FAMILIES)
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
    counting.add_argument("--table", default="adult6", choices=[*TABLES, "census"])
    counting.add_argument("--model-population", action="store_true")
    counting.add_argument("--rows", type=int, default=10_000)
    counting.add_argument("--eps", type=float, default=1.0)
    counting.add_argument("--method", default="mst")
    counting.add_argument("--repeats", type=int, default=10**6)
    counting.add_argument("--seconds", type=float, default=500.0)
    counting.add_argument("--wall", type=float, default=3600.0)
    counting.add_argument("--replicates", type=int, default=0)
    counting.add_argument("--whole", action="store_true")
    counting.add_argument("--target", default="population", choices=["population", "table"])
    counting.add_argument("--seed", type=int, default=0)
    counting.set_defaults(call=run)
    combining = commands.add_parser("combine")
    combining.add_argument("--table", default="adult4", choices=TABLES)
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
    for one in (counting, combining, telling):
        one.add_argument("--found", type=Path, default=Path("coverage.jsonl"))
    args = parser.parse_args()
    args.call(args)


if __name__ == "__main__":
    main()

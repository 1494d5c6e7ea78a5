"""How often intervals hold the truth: `marginalsyn estimate` beside the naive fit, on known truth.

python benchmarks/answers_coverage.py --table adult8 --rows 5000 --methods mst aim --repeats 100

A population is a public table, or a graphical model fitted to it (--model-population). Every repeat
draws a table of some rows from it, makes a release, and asks: shares of one and of two columns,
means, differences, linear and logistic coefficients. Two-way shares and coefficients are split by
whether their pairs were measured. The naive interval is that of a fit on the synthetic rows.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections import defaultdict

import numpy as np

from marginalsyn import Budget, PrivateTable, Schema, datasets, make_noise
from marginalsyn.answers.atoms import Atoms
from marginalsyn.answers.estimation import Problem
from marginalsyn.answers.evidence import Evidence
from marginalsyn.answers.naive import SyntheticRows, naive_fit
from marginalsyn.answers.quantities import Difference, Mean, Table
from marginalsyn.answers.regression import Regression
from marginalsyn.answers.replaying import replay
from marginalsyn.contract import make_config
from marginalsyn.graphical import model as pgm
from marginalsyn.graphical.targets import Observed
from marginalsyn.host import generate
from marginalsyn.table import Codec

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
        ["income ~ age + sex", "income ~ age + education-num + sex", "age ~ income + sex"],
    ),
    "telco": (
        "telco",
        [
            "gender",
            "SeniorCitizen",
            "Partner",
            "tenure",
            "Contract",
            "PaymentMethod",
            "MonthlyCharges",
            "Churn",
        ],
        ["Churn ~ tenure + Contract", "MonthlyCharges ~ tenure + Partner"],
    ),
}


def questions(schema: Schema, formulas: list[str]) -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for name in schema.names:
        found.append(("one-way shares", Table((name,), schema, "share")))
        if schema.column(name).numeric:
            found.append(("means", Mean(name, schema)))
    found += [
        ("two-way shares", Table(pair, schema, "share"))
        for pair in itertools.combinations(schema.names, 2)
    ]
    label = schema.label
    for name in schema.names:
        if name != label and 2 <= schema.column(name).size <= 7 and label:
            found.append(("differences", Difference(label, name, schema)))
    for formula in formulas:
        model = Regression(formula, schema)
        found.append(("logistic" if model.logistic else "linear", model))
    return found


def population(name: str, fitted: bool) -> tuple[Schema, np.ndarray, list[str], object]:
    """The schema, the codes of all rows, the formulas, and a model where that is the population."""
    table, columns, formulas = TABLES[name]
    schema = datasets.schema(table).select(columns)
    codes = Codec(schema).encode(datasets.load(table).train)
    model = None
    if fitted:
        domain = schema.domain
        pairs = [
            Observed((a, b), counts(codes, (i, j), (domain[a], domain[b])), 1.0)
            for (i, a), (j, b) in itertools.pairwise(enumerate(domain))
        ]
        model = pgm.fit(domain, pairs, total=float(len(codes)))
        codes = model.rows(400_000, np.random.default_rng(0))
    return schema, codes, formulas, model


def counts(codes: np.ndarray, places: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
    keys = np.ravel_multi_index(tuple(codes[:, i] for i in places), shape)
    return np.bincount(keys, minlength=int(np.prod(shape))).reshape(shape).astype(float)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", default="adult8", choices=TABLES)
    parser.add_argument("--model-population", action="store_true")
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--eps", type=float, default=1.0)
    parser.add_argument("--methods", nargs="+", default=["mst", "aim"])
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--replicates", type=int, default=100)
    parser.add_argument("--target", default="population", choices=["population", "table"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", help="write every quantity's coverage here")
    args = parser.parse_args()
    schema, codes, formulas, _ = population(args.table, args.model_population)
    asked = questions(schema, formulas)
    rng = np.random.default_rng(args.seed)
    everything = {}
    for method in args.methods:
        start = time.process_time()
        hits: dict[tuple[str, str, str], list[tuple[bool, bool, float, float]]] = defaultdict(list)
        for _ in range(args.repeats):
            drawn = codes[rng.integers(0, len(codes), args.rows)]
            frame = Codec(schema).decode(drawn, rng)
            options = {}
            if method == "fixed-marginals":
                pairs = [list(p) for p in itertools.combinations(schema.names, 2)]
                options["marginals"] = _write(pairs)
            synthesis, statement = generate(
                PrivateTable.open(frame, schema),
                make_config(method, options),
                Budget(eps=args.eps),
                noise=make_noise(int(rng.integers(2**31))),
            )
            evidence = Evidence.read(
                synthesis.model, synthesis.measurements, schema, statement.neighbours
            )
            synthetic = SyntheticRows.of(synthesis.frame, schema)
            problems = [Problem(evidence, q, args.target, rng) for _, q in asked]
            wanted = [
                p for p, (family, _) in zip(problems, asked, strict=True) if "shares" not in family
            ]
            errors = iter(replay(evidence, wanted, args.target, args.replicates, rng, jobs=1))
            pairs = {
                frozenset(p)
                for look in evidence.looks
                for p in itertools.combinations(look.columns, 2)
            }
            for problem, (family, question) in zip(problems, asked, strict=True):
                own = next(errors) if "shares" not in family else None
                found = problem.conclude(0.95, own)
                _, bottom, top = naive_fit(problem, synthetic, 0.95)
                truth_rows = codes if args.target == "population" else drawn
                truth = truth_of(problem, truth_rows, schema)
                measured = all(
                    frozenset(p) in pairs for p in itertools.combinations(problem.atoms.columns, 2)
                )
                kind = family if measured else f"{family}, unmeasured pairs"
                ideal = 2 * 1.96 * problem.error
                for i, name in enumerate(found.names):
                    hits[kind, question.title, name].append(
                        (
                            bool(found.low[i] <= truth[i] <= found.high[i]),
                            bool(bottom[i] <= truth[i] <= top[i]),
                            float((found.high[i] - found.low[i]) / max(top[i] - bottom[i], 1e-12)),
                            float((found.high[i] - found.low[i]) / max(ideal[i], 1e-12)),
                        )
                    )
        place = f"{args.table}{' (model)' if args.model_population else ''}"
        title = f"{method}, {place}, {args.rows:,} rows, eps {args.eps:g}, {args.repeats} repeats"
        title += f", {args.target}"
        print(f"\n{title}; {time.process_time() - start:.0f} s of processor time\n")
        print(
            f"| {'family':40s} | quantities | coverage, median | mean "
            "| lowest tenth | naive, median | mean | width / naive |"
        )
        print("|---|---|---|---|---|---|---|---|")
        for kind in sorted({key[0] for key in hits}):
            cells = [
                np.array(v, float)
                for k, v in hits.items()
                if k[0] == kind and len(v) >= args.repeats // 4
            ]
            if not cells:
                continue
            own = np.array([c[:, 0].mean() for c in cells])
            plain = np.array([c[:, 1].mean() for c in cells])
            width = np.median(np.concatenate([c[:, 2] for c in cells]))
            print(
                f"| {kind:40s} | {len(cells)} | {np.median(own):.3f} "
                f"| {own.mean():.3f} | {np.quantile(own, 0.1):.3f} "
                f"| {np.median(plain):.3f} | {plain.mean():.3f} | {width:.2f} |"
            )
        everything[title] = {
            " / ".join(k): np.array(v, float).mean(axis=0).tolist() for k, v in hits.items()
        }
    if args.json:
        with open(args.json, "w") as handle:
            json.dump(everything, handle, indent=1)


def truth_of(problem: Problem, codes: np.ndarray, schema: Schema) -> np.ndarray:
    """The quantity on real rows, numbers in the middle of their bins."""
    atoms: Atoms = problem.atoms
    assert atoms.shape is not None
    places = tuple(schema.names.index(c) for c in atoms.columns)
    weights = counts(codes, places, atoms.shape).ravel() / len(codes)
    return problem.statistic.value(weights)


def _write(pairs: list[list[str]]) -> str:
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as handle:
        json.dump(pairs, handle)
    return handle.name


if __name__ == "__main__":
    main()

"""Runs that ask whether weights help: generators, budgets, methods, measures, and their cache.

A tenth of the budget (in rho) goes to the weights and the rest to the generator. ``unweighted`` is
the generator's rows as they are; ``whole`` gives the generator all of the budget and nothing to
weights, which is what weights have to beat. Methods that cost nothing weight the whole release.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import ot
import pandas as pd
from sklearn.metrics import roc_auc_score

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import make_config, make_weights
from marginalsyn.datasets import Dataset
from marginalsyn.errors import MarginalsynError, PluginError, ReleaseError, UsageError
from marginalsyn.host import generate, weigh
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.noise import make_noise
from marginalsyn.release.folder import Release
from marginalsyn.table.codec import Codec
from marginalsyn.table.features import Features
from marginalsyn.weights.logistic import Labelled, fit_logistic
from marginalsyn.weights.processing import effective_size

SHARE = 0.1
MEASURES = ("wasserstein", "beta", "auc", "effective")
MOST_POINTS = 400
# Minutes were over before the runs.
EXIT_UNFINISHED = 3


class Judge:
    """The real rows of one table, and what is measured against them."""

    def __init__(self, data: Dataset) -> None:
        self.data, self.schema, codec = data, data.schema, Codec(data.schema)
        self.label = self.schema.names.index(self.schema.label)
        positive = self.schema.positive_code
        sizes = self.schema.column(self.schema.label).size
        self.positive = sizes - 1 if positive is None else positive
        self.all = Features(self.schema)
        names = [n for n in self.schema.names if n != self.schema.label]
        self.others = Features(self.schema.select(names))
        self.train, self.test = codec.encode(data.train), codec.encode(data.test)
        self.beta = self.fit(self.train, np.ones(len(self.train)))

    def xy(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = self.others.of_codes(np.delete(codes, self.label, axis=1))
        return x, codes[:, self.label] == self.positive

    def fit(self, codes: np.ndarray, weights: np.ndarray, ridge: float = 0.01) -> np.ndarray:
        """Ridge logistic regression."""
        x, y = self.xy(codes)
        rows = Labelled([x], 2.0 * y - 1.0, weights / weights.sum())
        return fit_logistic([rows], x.shape[1], ridge, tolerance=1e-10).beta

    def __call__(self, codes: np.ndarray, weights: np.ndarray, seed: int) -> list[float]:
        rng = np.random.default_rng(seed)
        own = rng.choice(len(codes), min(MOST_POINTS, len(codes)), replace=False)
        real = rng.choice(len(self.train), min(MOST_POINTS, len(self.train)), replace=False)
        mass = weights[own] / weights[own].sum()
        cost = ot.dist(
            self.all.of_codes(codes[own]), self.all.of_codes(self.train[real]), "euclidean"
        )
        distance = ot.emd2(mass, np.full(len(real), 1 / len(real)), cost, numItermax=10**6)
        beta = self.fit(codes, weights)
        x, y = self.xy(self.test)
        return [
            float(distance),
            float(np.mean((beta - self.beta) ** 2)),
            float(roc_auc_score(y, x @ beta)),
            effective_size(weights) / len(weights),
        ]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a benchmark runs by default, and what it knows about its methods.

    Attributes:
        load: reads a table by name.
        tables, generators, methods: the names.
        free: methods that cost nothing: they weight the release of the whole budget.
        alone: generators that run with the whole budget only, for comparison.
    """

    load: Callable[[str], Dataset]
    tables: tuple[str, ...]
    generators: tuple[str, ...]
    methods: tuple[str, ...]
    free: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()


def run(
    plan: Plan, judge: Judge, generator: str, eps: float, methods: Sequence[str], seed: int
) -> dict[str, list[float]]:
    """One run: a generator at nine tenths and at the whole budget, and weights of every method."""
    budget = Budget(eps=eps)
    most = Budget.of_rho((1 - SHARE) * budget.rho)
    paid = [method for method in methods if method not in plan.free]
    free = [method for method in methods if method in plan.free]
    found = _run_at(judge, generator, budget, "whole", free, seed)
    if generator not in plan.alone:
        found |= _run_at(judge, generator, most, "unweighted", paid, seed)
    return found


def _run_at(
    judge: Judge, generator: str, spent: Budget, title: str, methods: Sequence[str], seed: int
) -> dict[str, list[float]]:
    """A release at one budget, as it is and with weights."""
    budget = Budget.of_rho(SHARE / (1 - SHARE) * spent.rho)
    table = PrivateTable.open(judge.data.train, judge.schema)
    noise = make_noise(1000 * seed + 1)
    synthesis, statement = generate(table, make_config(generator), spent, noise=noise)
    codes = Codec(judge.schema).encode(synthesis.frame)
    found = {title: judge(codes, np.ones(len(codes)), seed)}
    with tempfile.TemporaryDirectory() as folder:
        release = Release.write(synthesis, judge.schema, statement, Path(folder) / "release")
        for method in methods:
            try:
                weighted = weigh(
                    release,
                    make_weights(method),
                    budget,
                    table,
                    noise=make_noise(1000 * seed + 2),
                    non_private=True,
                )
            except (UsageError, PluginError, ReleaseError):
                continue  # not every generator trains a discriminator
            found[method] = judge(codes, weighted.weights, seed)
    return found


def measure(args: argparse.Namespace, plan: Plan) -> None:
    """Do the runs that the cache lacks, seed after seed, until the minutes are over."""
    end = time.monotonic() + 60 * args.minutes
    done = {(r["table"], r["generator"], r["eps"], r["run"]) for r in read(args.cache)}
    judges: dict[str, Judge] = {}
    for name, seed, generator, eps in itertools.product(
        args.tables, range(args.runs), args.generators, args.eps
    ):
        if (name, generator, eps, seed) in done:
            continue
        if time.monotonic() > end:
            sys.exit(EXIT_UNFINISHED)
        if name not in judges:
            judges[name] = Judge(plan.load(name))
        started = time.process_time()
        line: dict[str, Any] = {"table": name, "generator": generator, "eps": eps, "run": seed}
        try:
            line["found"] = run(plan, judges[name], generator, eps, args.methods, seed)
        except MarginalsynError as error:
            line["error"] = str(error).splitlines()[0]
        line["seconds"] = round(time.process_time() - started, 2)
        with args.cache.open("a") as file:
            file.write(json.dumps(line) + "\n")


def read(cache: Path) -> list[dict]:
    return [json.loads(line) for line in cache.read_text().splitlines()] if cache.exists() else []


def long_table(runs: list[dict]) -> pd.DataFrame:
    """One line per table, generator, eps, run and method."""
    lines = [
        {key: run[key] for key in ("table", "generator", "eps", "run")}
        | {"method": method}
        | dict(zip(MEASURES, values, strict=True))
        for run in runs
        for method, values in run.get("found", {}).items()
    ]
    return pd.DataFrame(lines)


def summarise(args: argparse.Namespace) -> None:
    """Two Markdown tables: the measures, and how often and how far methods beat no weights."""
    runs = [r for r in read(args.cache) if r["table"] in args.tables and r["eps"] in args.eps]
    for line in runs:
        if "error" in line:
            print(f"{line['table']} {line['generator']} {line['eps']:g}: {line['error']}")
    found = long_table(runs)
    if found.empty:
        return
    cell = ["table", "generator", "eps"]
    print(
        "| table | generator | eps | runs | method | Wasserstein | coefficient MSE | AUC | rows |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for place, group in found.groupby(cell, sort=False):
        start = " | ".join([place[0], place[1], f"{place[2]:g}", str(group["run"].nunique())])
        for method, rows in group.groupby("method", sort=False):
            cells = [with_error(rows[measure], 3) for measure in MEASURES[:3]]
            cells.append(f"{rows['effective'].mean():.2f}")
            print(f"| {start} | {method} | {' | '.join(cells)} |")
    pairs = found.merge(found[found["method"] == "unweighted"], on=[*cell, "run"])
    pairs = pairs[pairs["method_x"] != "unweighted"]
    print("\n| table | generator | eps | method | Wasserstein | coefficient MSE | AUC |")
    print("|---|---|---|---|---|---|---|")
    for place, rows in pairs.groupby([*cell, "method_x"], sort=False):
        cells = [with_error(rows[f"{m}_x"] - rows[f"{m}_y"], 4, "+") for m in MEASURES[:3]]
        start = " | ".join([place[0], place[1], f"{place[2]:g}", place[3]])
        print(f"| {start} | {' | '.join(cells)} |")


def summarise_wide(args: argparse.Namespace) -> None:
    """One Markdown table a measure: generators down, methods across."""
    runs = [r for r in read(args.cache) if r["table"] in args.tables and r["eps"] in args.eps]
    found = long_table(runs)
    if found.empty:
        return
    order = ["whole", "discriminator", "unweighted"]
    methods = [*order, *(m for m in found["method"].unique() if m not in order)]
    for measure in MEASURES[:3]:
        print(f"\n| {measure}: table | eps | generator | runs | {' | '.join(methods)} |")
        print("|---" * (4 + len(methods)) + "|")
        for place, group in found.groupby(["table", "eps", "generator"], sort=False):
            cells = {m: with_error(r[measure], 3) for m, r in group.groupby("method")}
            start = f"| {place[0]} | {place[1]:g} | {place[2]} | {group['run'].nunique()} | "
            print(start + " | ".join(cells.get(method, "") for method in methods) + " |")
    compare(found)


def compare(found: pd.DataFrame) -> None:
    """A Markdown table: over all places, how much and how often methods beat having no weights.

    Differences are taken run by run; a place is a table, a budget and a generator.
    """
    head = "mean difference | better in places | by 2 standard errors | worse by 2"
    print(f"\n| method | against | measure | {head} |")
    print("|---|---|---|---|---|---|---|")
    place = ["table", "generator", "eps"]
    for base, apart in (("unweighted", ("whole", "discriminator")), ("whole", ("unweighted",))):
        pairs = found.merge(found[found["method"] == base], on=[*place, "run"])
        pairs = pairs[~pairs["method_x"].isin([base, *apart])]
        for method, rows in pairs.groupby("method_x", sort=False):
            for measure in MEASURES[:3]:
                gain = (rows[f"{measure}_x"] - rows[f"{measure}_y"]).groupby(
                    [rows[name] for name in place]
                )
                sign = 1 if measure == "auc" else -1
                mean, error = sign * gain.mean(), gain.sem()
                cells = [
                    f"{sign * mean.mean():+.4f}",
                    f"{(mean > 0).sum()} of {len(mean)}",
                    str((mean > 2 * error).sum()),
                    str((mean < -2 * error).sum()),
                ]
                print(f"| {method} | {base} | {measure} | {' | '.join(cells)} |")


def with_error(values: pd.Series, digits: int, sign: str = "") -> str:
    """Mean and standard error."""
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{values.mean():{sign}.{digits}f} ± {error:.{digits}f}"


def main(plan: Plan, description: str) -> None:
    """The command line of such a benchmark."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--cache", type=Path, required=True, help="a file of JSON lines")
    parser.add_argument("--tables", nargs="+", default=list(plan.tables))
    parser.add_argument("--generators", nargs="+", default=list(plan.generators))
    parser.add_argument("--eps", type=float, nargs="+", default=[1.0, 6.0])
    parser.add_argument("--methods", nargs="*", default=list(plan.methods))
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=1e6, help="start no run after these")
    parser.add_argument("--summary", action="store_true", help="print what the cache holds")
    parser.add_argument("--wide", action="store_true", help="the same, methods beside each other")
    args = parser.parse_args()
    if args.summary or args.wide:
        summarise_wide(args) if args.wide else summarise(args)
    else:
        measure(args, plan)

"""The k-marginal score of SDNist on NIST's Diverse Communities excerpts, ours next to published.

    python benchmarks/nist.py --data FOLDER --eps 1 3 10 --releases 5
    python benchmarks/nist.py --data FOLDER --method clique-tree --eps 1
    python benchmarks/nist.py --data FOLDER --by PUMA --eps 1 3 10
    python benchmarks/nist.py --data FOLDER --rows 300000 --eps 3 --releases 2

The folder holds ``national2019.csv.gz`` and ``simple.schema.json`` (21 columns: all but INDP and
the two survey weights, by NIST's code lists). 1000 is a perfect score. SDNist 2.5 compares every
pair of the other columns within each PUMA: 500 * (2 - mean over pairs of the sum of |t - s|), t
and s being the shares of rows of the real and the synthetic table in a combination of PUMA and
pair. Numbers are in 20 bins by their rank in the real table, N is a bin of its own.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import make_config
from marginalsyn.host import generate
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.noise import make_noise
from marginalsyn.table.schema import Schema

AREA, NUMBERS, BINS = "PUMA", ("AGEP", "PINCP", "POVPIP", "DENSITY", "INDP"), 20
# Of POVPIP this code says "above five times the poverty line": ranks are those of the others.
ABOVE = {"POVPIP": 501}
# Public bins: what a curator would write down of incomes and of the ratio to the poverty line,
# whose last code is a value of its own.
PUBLIC_BINS = {
    "PINCP": (
        *(0, 1, *range(2_500, 30_000, 2_500), *range(30_000, 60_000, 5_000)),
        *(60_000, 70_000, 80_000, 90_000, 100_000, 125_000, 150_000, 200_000, 300_000, 500_000),
    ),
    "POVPIP": (1, *range(25, 500, 25), 501, 502),
}
# Entries of NIST's archive on the same columns of the national excerpt, and what rows alone give.
PUBLISHED = (
    ("MWEM+PGM, eps 1 (delta 3.6e-6)", 874),
    ("Private-GSD, eps 10", 828),
    ("CART, not private", 935),
    ("a fifth of the real rows", 890),
    ("two fifths of the real rows", 932),
    ("a bootstrap of the real rows", 954),
)


def bin_numbers(values: pd.Series, real: pd.Series, above: int | None = None) -> np.ndarray:
    """The bins of numbers, by ranks among the real ones; -1 for N.

    Example:
        >>> bin_numbers(pd.Series(["1", "3", "N"]), pd.Series(["1", "2", "3", "N"])).tolist()
        [6, 19, -1]
    """
    known = pd.to_numeric(real[real != "N"]).astype(int)
    ranked = known[known != above] if above is not None else known
    bins = np.minimum((BINS * ranked.rank(pct=True)).astype(int), BINS - 1)
    tops = ranked.groupby(bins).max()
    edges, names = tops.to_numpy(), tops.index.to_numpy()
    if above is not None:
        edges, names = np.append(edges, above), np.append(names, BINS)
    numbers = pd.to_numeric(values.where(values != "N")).fillna(0.0)
    places = np.minimum(np.searchsorted(edges, np.floor(numbers)), len(edges) - 1)
    return np.where(values == "N", -1, names[places])


def k_marginal(real: pd.DataFrame, synthetic: pd.DataFrame) -> float:
    """SDNist's score of a synthetic table; values are text, N where nothing applies.

    Example:
        >>> table = pd.DataFrame({"SEX": ["1", "2"], "DVET": ["N", "N"]})
        >>> k_marginal(table, table), k_marginal(table, table[:1])
        (1000.0, 500.0)
    """
    coded_real, coded = [], []
    for name in real:
        if name in NUMBERS:
            both = [bin_numbers(t[name], real[name], ABOVE.get(name)) for t in (real, synthetic)]
        else:
            both = [real[name].to_numpy(str), synthetic[name].to_numpy(str)]
        codes = np.unique(np.concatenate(both), return_inverse=True)[1]
        coded_real.append(codes[: len(real)])
        coded.append(codes[len(real) :])
    names = list(real)
    area = names.index(AREA) if AREA in names else None
    pairs = itertools.combinations([i for i in range(len(names)) if i != area], 2)
    groups = [(*([area] if area is not None else ()), *pair) for pair in pairs]
    gaps = []
    for group in groups:
        shape = [1 + max(coded_real[i].max(), coded[i].max(initial=0)) for i in group]
        shares = [
            np.bincount(np.ravel_multi_index([t[i] for i in group], shape)) / len(t[0])
            for t in (coded_real, coded)
        ]
        size = max(map(len, shares))
        left, right = (np.pad(s, (0, size - len(s))) for s in shares)
        gaps.append(np.abs(left - right).sum())
    return float(500 * (2 - np.mean(gaps)))


def as_published(frame: pd.DataFrame, real: pd.DataFrame) -> pd.DataFrame:
    """A release's rows with NIST's own spelling: text, whole numbers without a point, N."""
    found = {}
    for name in real:
        column = frame[name]
        if name in NUMBERS:
            numbers = pd.to_numeric(column, errors="coerce")
            text = numbers.fillna(0).map(lambda v: f"{v:.10g}")
            found[name] = text.where(numbers.notna(), "N")
        else:
            found[name] = column.astype(object).where(column.notna(), "N").astype(str)
    return pd.DataFrame(found)


def with_public_bins(schema: Schema) -> Schema:
    """The schema with bins for the two numbers whose even bins would say next to nothing."""
    written = json.loads(schema.to_json())
    for column in written["columns"]:
        column["bins" if column["name"] in PUBLIC_BINS else "kind"] = PUBLIC_BINS.get(
            column["name"], column["kind"]
        )
    return Schema.from_json(json.dumps(written))


def read(folder: Path, columns: Sequence[str]) -> pd.DataFrame:
    """The national excerpt as text."""
    path = folder / "national2019.csv.gz"
    return pd.read_csv(path, dtype=str, keep_default_na=False)[list(columns)]


def release(
    frame: pd.DataFrame,
    schema: Schema,
    method: str,
    eps: float,
    options: Mapping[str, str],
    seed: int,
) -> tuple[pd.DataFrame, float, Mapping[str, object]]:
    """The rows of one release, its processor seconds, and what it notes."""
    table, start = PrivateTable.open(frame, schema), time.process_time()
    config = make_config(method, dict(options))
    made, _ = generate(table, config, Budget(eps=eps, delta=1e-9), noise=make_noise(seed))
    return made.frame, time.process_time() - start, made.notes


def main() -> None:
    """Print a line a release and a table of medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--eps", type=float, nargs="+", default=[1.0, 3.0, 10.0])
    parser.add_argument("--releases", type=int, default=5)
    parser.add_argument("--method", default="auto")
    parser.add_argument("--set", nargs="*", default=[], metavar="OPTION=VALUE")
    parser.add_argument("--by", default="", help="columns of strata, such as PUMA")
    parser.add_argument("--rows", type=int, help="drawn from the excerpt with replacement")
    parser.add_argument("--first-seed", type=int, default=1)
    given = parser.parse_args()
    schema = with_public_bins(Schema.read(given.data / "simple.schema.json"))
    schema = schema.stratified(given.by or ())
    real = read(given.data, schema.names)
    if given.rows:
        real = real.sample(given.rows, replace=True, random_state=0, ignore_index=True)
    options = dict(item.split("=", 1) for item in given.set)
    lines = []
    for eps in given.eps:
        scores, seconds = [], []
        for seed in range(given.first_seed, given.first_seed + given.releases):
            frame, spent, notes = release(real, schema, given.method, eps, options, seed)
            scores.append(k_marginal(real, as_published(frame, real)))
            seconds.append(spent)
            chain = notes.get("chain", "no chain")
            print(f"eps {eps:g} seed {seed}: {scores[-1]:.1f}, {spent:.1f} s, {chain}", flush=True)
        lines.append(
            (
                f"ours ({given.method}{' by ' * bool(given.by)}{given.by}), eps {eps:g}",
                np.median(scores),
                min(scores),
                max(scores),
                np.median(seconds),
            )
        )
    print("\n| entry | k-marginal | least to most | processor seconds |\n|---|---|---|---|")
    for name, score, low, high, spent in lines:
        print(f"| {name} | {score:.0f} | {low:.1f} to {high:.1f} | {spent:.0f} |")
    for name, score in PUBLISHED:
        print(f"| {name} | {score} | | |")


if __name__ == "__main__":
    main()

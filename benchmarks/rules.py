"""Rules between columns: NIST's list of inconsistencies on its excerpt, and SDV's constraints.

    python benchmarks/rules.py --data FOLDER --eps 1 3 --releases 3
    python benchmarks/rules.py --sdv

The folder is that of ``benchmarks/nist.py``. SDNist lists rows that cannot be: married children,
infants in school, families without an adult. Each of its checks on these columns is written as a
rule here, but for one that 2,721 real rows break (``NOT_TRUE``). The rows that
break one are counted in releases without rules, with them, and with a list of each area's density
besides, by which DENSITY follows from PUMA; and the k-marginal score of all three.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from nist import as_published, k_marginal, read, release, with_public_bins

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import make_config
from marginalsyn.host import generate
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.noise import make_noise
from marginalsyn.table.keeping import broken_rules
from marginalsyn.table.schema import Schema

NIST = (
    "AGEP < 15 -> DVET = N",
    "AGEP < 15 -> MSP = N",
    "AGEP < 15 -> missing(PINCP)",
    "AGEP < 15 -> PINCP_DECILE = N",
    "AGEP < 15 -> INDP_CAT = N",
    "AGEP < 15 -> EDU not in {12}",
    "AGEP < 5 -> DPHY = N",
    "AGEP < 5 -> DREM = N",
    "AGEP < 5 -> EDU in {N, 1, 2, 3, 4}",
    "AGEP < 3 -> EDU = N",
    "PINCP > 300000 -> PINCP_DECILE not in {0, 1} and POVPIP = 501",
    "HOUSING_TYPE in {2, 3} -> OWN_RENT = 0",
    "HOUSING_TYPE in {2, 3} -> NOC = N and NPF = N",
    "HOUSING_TYPE = 1 -> OWN_RENT in {1, 2}",
    "HOUSING_TYPE = 1 -> NOC != N",
    *(f"NOC = {n} -> NPF not in {{{', '.join(map(str, range(2, n + 1)))}}}" for n in range(2, 8)),
)
NOT_TRUE = "AGEP < 10 -> NOC = N"
# SDV's kinds of constraint, each on a small table, as a rule.
SDV = {
    "Inequality": "low <= high",
    "ScalarInequality": "low >= 10",
    "Positive": "low > 0",
    "Range": "low < middle < high",
    "ScalarRange": "5 <= low <= 60",
    "FixedCombinations": "city determines country by {Rome, Milan -> Italy, Paris -> France}",
    "FixedIncrements": "grade in {10, 20, 30}",
    "OneHotEncoding": "(a = yes iff (b = no and c = no)) and (b = yes -> c = no)",
    "a sum": "total = low + high",
    "FixedNullCombinations": "missing(came) iff missing(went)",
    "order of dates": "came <= went",
}


def sdv_schema(rules: Sequence[str]) -> Schema:
    """A table that all of SDV's kinds can be said of."""
    numbers = [
        {"kind": "integer", "name": name, "lower": 0, "upper": top, "bins": 12}
        for name, top in (("low", 60), ("middle", 100), ("high", 100), ("total", 160))
    ]
    flags = [
        {"kind": "boolean", "name": name, "true_label": "yes", "false_label": "no"}
        for name in "abc"
    ]
    dates = [
        {"kind": "date", "name": name, "lower": "2020-01-01", "upper": "2020-12-31",
         "nullable": True}
        for name in ("came", "went")
    ]  # fmt: skip
    listed = [
        {"kind": "categorical", "name": "city", "categories": ["Rome", "Milan", "Paris"],
         "other": False},
        {"kind": "categorical", "name": "country", "categories": ["Italy", "France"],
         "other": False},
        {"kind": "ordinal", "name": "grade", "categories": [10, 15, 20, 25, 30]},
    ]  # fmt: skip
    return Schema(columns=[*numbers, *flags, *dates, *listed], rules=tuple(rules))


def sdv(rows: int = 2000) -> None:
    """Rows that break SDV's kinds of constraint, without rules and with all of them at once."""
    rng = np.random.default_rng(0)
    low = rng.integers(10, 60, rows)
    middle = low + rng.integers(1, 20, rows)
    high = np.minimum(middle + rng.integers(1, 22, rows), 100)
    city = rng.integers(0, 3, rows)
    flag = rng.integers(0, 3, rows)
    came = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 300, rows), "D")
    went = came + pd.to_timedelta(rng.integers(0, 60, rows), "D")
    absent = rng.random(rows) < 0.2
    frame = pd.DataFrame(
        {
            "low": low, "middle": middle, "high": high, "total": low + high,
            **{n: np.where(flag == k, "yes", "no") for k, n in enumerate("abc")},
            "came": pd.Series(came.strftime("%Y-%m-%d")).where(~absent),
            "went": pd.Series(went.strftime("%Y-%m-%d")).where(~absent),
            "city": np.array(["Rome", "Milan", "Paris"])[city],
            "country": np.array(["Italy", "Italy", "France"])[city],
            "grade": rng.choice([10, 20, 30], rows),
        }
    )  # fmt: skip
    ruled = sdv_schema(tuple(SDV.values()))
    print("| SDV's constraint | rule | rows that break it without | with |\n|---|---|---|---|")
    counts = []
    for schema in (sdv_schema(()), ruled):
        table = PrivateTable.open(frame, schema)
        made, _ = generate(table, make_config("aim"), Budget(eps=2), noise=make_noise(1))
        counts.append(broken_rules(made.frame, ruled))
    for name, rule in SDV.items():
        print(f"| {name} | `{rule}` | {counts[0].get(rule, 0)} | {counts[1].get(rule, 0)} |")


def nist(given: argparse.Namespace) -> None:
    """Counts and scores on NIST's excerpt."""
    plain = with_public_bins(Schema.read(given.data / "simple.schema.json"))
    real = read(given.data, plain.names)
    ruled = Schema(**{**json.loads(plain.to_json()), "rules": NIST})
    # Each area's density is public: the census counts its persons and measures its land.
    areas = ", ".join(
        f"'{area}' -> '{density}'"
        for area, density in sorted({*zip(real["PUMA"], real["DENSITY"], strict=True)})
    )
    more = "".join(
        f", {label} -> {label}" for label in ("OTHER",) if plain.column("PUMA").has_other
    )
    listed = ruled.with_rules([f"PUMA determines DENSITY by {{{areas}{more}}}"])
    assert list(listed.followers) == ["DENSITY"]
    doubtful = Schema(**{**json.loads(plain.to_json()), "rules": [*NIST, NOT_TRUE]})
    typed = real.assign(**{n: pd.to_numeric(real[n], errors="coerce") for n in ("AGEP", "PINCP")})
    typed = typed.assign(POVPIP=pd.to_numeric(real["POVPIP"], errors="coerce"))
    print("real rows that break a rule:", broken_rules(typed, doubtful), flush=True)
    options = dict(item.split("=", 1) for item in given.set)
    print(
        "| eps | seed | rows that break a rule: without, with, and a list | k-marginal | seconds |"
    )
    print("|---|---|---|---|---|")
    for eps in given.eps:
        for seed in range(1, given.releases + 1):
            cells = []
            for schema in (plain, ruled, listed):
                frame, spent, _ = release(real, schema, given.method, eps, options, seed)
                bad = broken_rules(frame, listed)
                score = k_marginal(real, as_published(frame, real))
                cells.append((sum(bad.values()), score, spent, len(frame)))
            bad, scores, spent, rows = zip(*cells, strict=True)
            print(
                f"| {eps:g} | {seed} | {bad[0]:,} of {rows[0]:,}; {bad[1]}; {bad[2]} | "
                f"{', '.join(f'{score:.1f}' for score in scores)} | "
                f"{', '.join(f'{one:.0f}' for one in spent)} |",
                flush=True,
            )


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--eps", type=float, nargs="+", default=[1.0, 3.0])
    parser.add_argument("--releases", type=int, default=3)
    parser.add_argument("--method", default="auto")
    parser.add_argument("--set", nargs="*", default=[], metavar="OPTION=VALUE")
    parser.add_argument("--sdv", action="store_true")
    given = parser.parse_args()
    if given.sdv:
        sdv()
    if given.data is not None:
        nist(given)


if __name__ == "__main__":
    main()

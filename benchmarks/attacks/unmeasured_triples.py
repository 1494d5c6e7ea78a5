"""Do intervals hold a quantity that a release never measured, where nothing is said of it?

A drug helps the young and harms the old: no pair of columns shows it, and all pairs are what the
release measures. Its model has the two effects independent, so that a naive interval of the
interaction is narrow and around zero. Every interval that is printed without a note counts; what is
withheld or noted does not. The same with `combine`, on tables drawn from the release.

    python -m benchmarks.attacks.unmeasured_triples [RELEASES]
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import binom

from marginalsyn import Budget, PrivateTable, Release, combine, impute, make_noise
from marginalsyn.contract import make_config
from marginalsyn.host import generate
from marginalsyn.table.columns import BooleanColumn
from marginalsyn.table.schema import Schema

ROWS, RELEASES, EPS = 4000, 12, 4.0
# In so many of the releases tables are drawn and combined.
COMBINED, TABLES = 5, 12
NAMES = ("drug", "old", "ill")
SCHEMA = Schema(columns=tuple(BooleanColumn(name=n) for n in NAMES), label="ill", positive=True)
PAIRS = [["drug", "old"], ["drug", "ill"], ["old", "ill"]]
# The share of ill people by drug and age; as many young as old, and as many with the drug.
ILL = np.array([[0.7, 0.3], [0.3, 0.7]])
LOGIT = math.log(0.7 / 0.3)
TRUTH = {
    "logistic ill ~ drug * old": [LOGIT, -2 * LOGIT, -2 * LOGIT, 4 * LOGIT],
    "share drug x old x ill": (np.stack([1 - ILL, ILL], axis=2) / 4).ravel().tolist(),
    "logistic ill ~ drug": [0.0, 0.0],
    "share drug x ill": [0.25] * 4,
}
CHANCE = 1e-6


def table(rng: np.random.Generator) -> pd.DataFrame:
    """People drawn from the population."""
    drug, old = rng.random((2, ROWS)) < 0.5
    ill = rng.random(ROWS) < ILL[drug.astype(int), old.astype(int)]
    return pd.DataFrame(dict(zip(NAMES, (drug, old, ill), strict=True)))


def released(folder: Path, rng: np.random.Generator) -> Release:
    """A release that measured every pair."""
    (folder / "pairs.json").write_text(json.dumps(PAIRS))
    config = make_config("fixed-marginals", {"marginals": str(folder / "pairs.json")})
    opened = PrivateTable.open(table(rng), SCHEMA)
    noise = make_noise(int(rng.integers(2**31)))
    synthesis, statement = generate(opened, config, Budget(eps=EPS), noise=noise)
    return Release.write(synthesis, SCHEMA, statement, folder / "release")


def estimated(release: Release) -> Iterator[tuple[str, bool, bool, bool]]:
    """Of every number: its question, whether there is an interval, a note, and the truth in it."""
    found = release.estimate(
        model=["ill ~ drug * old", "ill ~ drug"],
        share=["drug, old, ill", "drug, ill"],
        replicates=0,
    )
    for question, own in found.groupby("question", sort=False):
        for truth, (_, line) in zip(TRUTH[str(question)], own.iterrows(), strict=True):
            inside = line["low"] <= truth <= line["high"]
            yield f"estimate {question}", math.isfinite(line["low"]), bool(line["notes"]), inside


def combined(release: Release, folder: Path, seed: int) -> tuple[str, bool, bool, bool]:
    """The interaction by plain shares of each table, put together by `combine`."""
    index = impute(release, folder, tables=TABLES, seed=seed)
    lines = []
    for name in index.models:
        cells = pd.read_csv(folder / name).groupby(list(NAMES)).size().to_numpy(float)
        signs = np.array([1, -1, -1, 1, -1, 1, 1, -1]) * -1
        estimate = float(signs @ np.log(cells))
        lines.append({"table": name, "estimate": estimate, "se": float((1 / cells).sum() ** 0.5)})
    line = combine(pd.DataFrame(lines), folder).iloc[0]
    inside = line["low"] <= 4 * LOGIT <= line["high"]
    return "combine ill ~ drug * old", math.isfinite(line["low"]), bool(line["note"]), inside


def survey(releases: int, seed: int = 0) -> dict[str, Counter[str]]:
    """What becomes of every number, by question; of a silent question, in how many releases."""
    rng, found = np.random.default_rng(seed), dict[str, Counter[str]]()
    for number in range(releases):
        with tempfile.TemporaryDirectory() as name:
            release = released(Path(name), rng)
            every = list(estimated(release))
            if number < COMBINED:
                every.append(combined(release, Path(name) / "tables", number))
        events: dict[str, bool] = {}
        for question, interval, note, inside in every:
            own = found.setdefault(question, Counter())
            silent = interval and not note
            kind = "silent" if silent else "with a note" if interval else "withheld"
            own.update({"asked": 1, kind: 1, "missed": int(silent and not inside)})
            if silent:
                events[question] = events.get(question, False) or not inside
        for question, missed in events.items():
            found[question].update({"releases": 1, "releases that miss": int(missed)})
    return found


def broken(found: dict[str, Counter[str]]) -> list[str]:
    """Questions whose silent intervals miss more often than 95% ones do, but for a small chance."""
    wrong = []
    for question, own in found.items():
        if not own["releases"]:
            continue
        # A question of several numbers misses in a release if one of them does.
        rate = min(0.05 * own["silent"] / own["releases"], 0.5)
        if binom.sf(own["releases that miss"] - 1, own["releases"], rate) < CHANCE:
            wrong.append(question)
    return wrong


def attack(releases: int = RELEASES) -> str | None:
    """Which questions get intervals that miss, without a note."""
    wrong = broken(survey(releases))
    return f"intervals miss in silence: {', '.join(wrong)}" if wrong else None


def main(releases: int = RELEASES) -> int:
    """Print what was found; 1 where intervals without a note miss."""
    found = survey(releases)
    for question, own in found.items():
        print(
            f"{question}: {own['asked']} asked, {own['withheld']} withheld, {own['with a note']} "
            f"with a note, {own['silent']} silent, of which {own['missed']} miss"
        )
    wrong = broken(found)
    print(f"intervals that miss in silence: {', '.join(wrong) or 'none'}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))

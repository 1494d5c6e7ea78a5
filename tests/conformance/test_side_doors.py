"""Nothing but noised answers tells two tables apart, and those cost what was charged.

For every registered generator and estimator; see :mod:`marginalsyn.plugins.audit.testkit.tape`.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from marginalsyn.generators.aim import AIMConfig
from marginalsyn.generators.clique_tree import CliqueTreeConfig
from marginalsyn.generators.independent import Independent, IndependentConfig
from marginalsyn.plugins.audit.testkit import tape
from marginalsyn.plugins.audit.testkit.tape import (
    Tape,
    check_generator_on_tape,
    check_weights_on_tape,
    neighbours_of_every_kind,
    tape_schema,
)
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.privacy.laws import DiscreteGaussian, Law
from marginalsyn.privacy.selection import ExponentialMechanism
from marginalsyn.registry import GENERATORS, WEIGHTS, find, plugins

# Options that keep a run short.
OPTIONS: dict[str, dict[str, Any]] = {
    "aim": {"rounds": 3},
    "support-points": {"rows": 20, "points": 5, "steps": 100, "burn": 10},
    "support-points-herding": {"rows": 20, "points": 5, "candidates": 32},
    "support-points-gp": {"rows": 20, "points": 8, "directions": 20},
    "kme": {"rows": 20, "points": 8, "features": 20},
    "dpgan": {"steps": 3, "hidden": (4,), "generator_hidden": (4,), "clip_norm": 0.01},
    "dpcgan": {"steps": 3, "hidden": (4,), "generator_hidden": (4,), "clip_norm": 0.01},
    "dp-mlp": {"hidden": (4,), "steps": 3, "clip_norm": 0.01, "engine": "numpy"},
}
# The law of their output depends on the rows: it is no function of noised answers.
CHAINS = {"support-points"}
# Research without protection, and what needs a release of its own.
LEFT_OUT = {"logreg", "mlp", "discriminator"}


def cases(kind: str) -> Iterator[Any]:
    """Every plugin with every pair; of those that load a network library one estimator at once."""
    ours = [p for p in plugins(kind) if p.distribution == "marginalsyn" and p.name not in LEFT_OUT]
    for plugin, (number, pair) in itertools.product(ours, enumerate(neighbours_of_every_kind())):
        heavy = "tensorflow" in plugin.requires and (number or kind == GENERATORS)
        marks = [pytest.mark.slow] if heavy else []
        if plugin.status == "missing":
            marks.append(pytest.mark.skip(reason=plugin.reason))
        yield pytest.param(plugin.name, pair, marks=marks, id=f"{plugin.name}, {pair}")


@pytest.mark.parametrize(("name", "pair"), list(cases(GENERATORS)))
def test_generators_have_no_side_door(name: str, pair: str) -> None:
    kind = find(GENERATORS, name)
    check_generator_on_tape(kind, OPTIONS.get(name), pair=pair, chain=name in CHAINS)


@pytest.mark.parametrize("pair", list(neighbours_of_every_kind()))
def test_choosing_by_batches_has_no_side_door(pair: str) -> None:
    check_generator_on_tape(AIMConfig, {"rounds": 6, "batch": 3}, pair=pair)


@pytest.mark.parametrize("pair", ["the first row", "a strange row"])
def test_strata_have_no_side_door(pair: str, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = tape_schema().stratified("ward")
    monkeypatch.setattr(tape, "tape_schema", lambda: schema)
    check_generator_on_tape(CliqueTreeConfig, {}, pair=pair)


@pytest.mark.parametrize(("name", "pair"), list(cases(WEIGHTS)))
def test_estimators_have_no_side_door(name: str, pair: str) -> None:
    check_weights_on_tape(find(WEIGHTS, name), OPTIONS.get(name), pair=pair)


def test_the_command_line_has_no_side_door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from marginalsyn.cli.main import cli
    from marginalsyn.privacy import noise

    monkeypatch.setattr(noise, "make_noise", lambda seed=None: Tape())
    shown, files = [], []
    for number, frame in enumerate(neighbours_of_every_kind()["a strange row"][:2]):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        frame.to_csv("people.csv", index=False)
        tape_schema().write("people.json")
        args = ("generate", "--data", "people.csv", "--schema", "people.json", "--eps", "1")
        outputs = []
        for command in ((*args, "--method", "independent"), ("show",), ("verify",), ("ledger",)):
            result = CliRunner().invoke(cli, list(command))
            outputs.append((result.exit_code, result.stdout, result.stderr))
        text = json.dumps(outputs).replace(str(folder), "FOLDER")
        # A moment of the clock, and a duration that people see in private.
        shown.append(re.sub(r"\d+:\d+(:\d+)?Z?|\d+(\.\d+)? ?s\b", "TIME", text))
        files.append({p.name: p.read_bytes() for p in sorted((folder / "release").iterdir())})
    assert shown[0] == shown[1]
    assert files[0] == files[1]


# -- the checks can fail --------------------------------------------------------------------------


@pytest.mark.parametrize("leak", ["notes", "warnings", "error", "progress", "rows"])
def test_a_leak_is_seen(leak: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Independent.__call__

    def leaky(self: Independent, visit: Any, *, progress: Any) -> Any:
        found, count = original(self, visit, progress=progress), int(visit.counts(()))
        if leak == "error" and count > 29:
            raise ValueError("too many")
        if leak == "progress":
            progress.report("rows", text=str(count))
        if leak == "rows":
            return replace(found, frame=found.frame.head(count % 7 + 1))
        told = {"notes": {"rows": count}, "warnings": [f"{count} rows"]}
        return replace(found, **({leak: told[leak]} if leak in told else {}))

    monkeypatch.setattr(Independent, "__call__", leaky)
    with pytest.raises(AssertionError):
        check_generator_on_tape(IndependentConfig, pair="a strange row")


@pytest.mark.parametrize(
    ("fault", "pair"),
    [("half", "a strange row"), ("replace", "a replaced row"), ("twice", "a strange row")],
)
def test_too_little_noise_is_seen(fault: str, pair: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from marginalsyn.access.visit import Visit

    original = Visit.measure

    def careless(self: Visit, columns: Any, sigma: float, purpose: str = "") -> Any:
        if fault == "half":
            values = self.noise.draw(DiscreteGaussian(sigma / 2), self.counts(columns))
            return replace(original(self, columns, sigma, purpose), values=values)
        if fault == "twice":
            self.noise.draw(DiscreteGaussian(sigma), self.counts(columns))
        return original(self, columns, sigma, purpose)

    monkeypatch.setattr(Visit, "measure", careless)
    if fault == "replace":
        monkeypatch.setattr(Neighbours, "l2", 1.0)
    with pytest.raises(AssertionError, match="answers cost"):
        check_generator_on_tape(IndependentConfig, pair=pair)


def test_a_selection_that_is_too_sharp_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    from marginalsyn.access.visit import Visit

    original = Visit.draw

    def sharp(self: Visit, law: Law, values: np.ndarray, **how: Any) -> Any:
        if isinstance(law, ExponentialMechanism):
            law = replace(law, sensitivity=law.sensitivity / 16)
        return original(self, law, values, **how)

    monkeypatch.setattr(Visit, "draw", sharp)
    with pytest.raises(AssertionError, match="more than their sensitivity"):
        check_generator_on_tape(AIMConfig, {"rounds": 3}, pair="a strange row")


def test_sums_of_floats_are_seen() -> None:
    with pytest.raises(AssertionError, match="whole numbers"):
        Tape().draw(DiscreteGaussian(1.0), np.array([0.5]))

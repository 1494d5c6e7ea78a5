"""What is told before weights are paid for: from the release's own record, and nothing private."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from marginalsyn import Neighbours, Schema
from marginalsyn.contract import Measurement, Target
from marginalsyn.weights.conditional import Conditional
from marginalsyn.weights.label_correction import LabelCorrection, ask_publicly
from marginalsyn.weights.prediction import (
    LEAST,
    PAIR,
    RANGE,
    SCATTER,
    Record,
    Strongest,
    mutual_information,
    predict_gain,
)

SCHEMA = Schema.from_domain({"a": 3, "b": 4, "y": 2}).model_copy(update={"label": "y"})
PAIRS = [{"y", "a"}, {"y", "b"}]


def target(*measured: tuple[tuple[str, ...], float], rows: int = 4000, tie: bool = False) -> Target:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({n: rng.integers(0, s, rows) for n, s in SCHEMA.domain.items()})
    if tie:
        frame["y"] = np.where(rng.random(rows) < 0.9, frame["a"] > 0, frame["y"]).astype(int)
    told = []
    for columns, sigma in measured:
        shape = tuple(SCHEMA.domain[name] for name in columns)
        told.append(Measurement(columns=columns, values=np.zeros(shape), sigma=sigma))
    release = SimpleNamespace(measurements=lambda: told) if measured else None
    return Target(frame=frame, schema=SCHEMA, rows=float(rows), release=release)  # type: ignore[arg-type]


def test_noise_in_nats_is_what_noise_says_of_columns_that_do_not_go_together() -> None:
    """Against the mutual information of noisy counts, many times."""
    rng, rows, sigma = np.random.default_rng(1), 40_000.0, 60.0
    found = []
    for _ in range(400):
        noisy = np.full((2, 3), rows / 6) + rng.normal(0, sigma, (2, 3))
        shares = noisy / noisy.sum()
        alone = shares.sum(axis=1, keepdims=True) * shares.sum(axis=0)
        found.append(float((shares * np.log(shares / alone)).sum()))
    told = Record.of(target((("y", "a"), sigma), rows=int(rows)), [{"y", "a"}])
    assert told.noise == pytest.approx(np.mean(found), rel=0.12)


def test_what_was_measured_is_known_but_for_its_noise() -> None:
    def unknown(*measured):
        return Record.of(target(*measured), PAIRS).unknown[0]

    assert Record.of(target(), PAIRS).unknown == (0.0, 1.0)
    assert unknown((("a",), 1.0)) == 1.0
    assert unknown((("y", "a"), 1e-6)) == pytest.approx(0.5)
    assert unknown((("y", "a"), 1e-6), (("b", "y"), 1e9)) == pytest.approx(0.5, abs=1e-6)
    # A triple tells of both of its pairs, with the noise of all cells that are added up.
    triple = unknown((("a", "b", "y"), 100.0))
    pairs = unknown((("a", "y"), 100.0), (("b", "y"), 100.0))
    assert 0 < pairs < triple < 1
    assert unknown((("a", "y"), 100.0), (("a", "y"), 100.0), (("b", "y"), 1e-6)) < unknown(
        (("a", "y"), 100.0), (("b", "y"), 1e-6)
    )
    whole = Record.of(target((("y", "a"), 1e9)), [{"y", "a"}])
    assert whole.unknown[0] == pytest.approx(1.0)
    assert whole.noise == pytest.approx(PAIR)


def test_a_prediction_falls_with_noise_and_with_what_is_known() -> None:
    def gain(given: Target, keeps: float = 1.0) -> list[float]:
        made = Conditional(given)
        return predict_gain(given, made, lambda effect: keeps)["predicted_gain"]

    nothing = target((("a",), 1.0))
    least, middle, most = gain(nothing)
    scatter = SCATTER / nothing.rows
    assert least == pytest.approx(RANGE[0] * middle - scatter - LEAST[0], rel=0.06)
    assert most == pytest.approx(RANGE[1] * middle + scatter + LEAST[1], rel=0.06)
    assert gain(nothing, 0.5)[1] == pytest.approx(middle / 2, rel=0.06)
    assert gain(target((("y", "a"), 1.0)))[1] < middle / 2
    assert gain(target((("y", "a"), 1.0), (("y", "b"), 1.0)))[1] < 1e-4
    assert gain(target((("a",), 1.0), tie=True))[1] < middle / 2
    # Without a record anything from none to all may be missing.
    assert gain(target())[0] == pytest.approx(-scatter - LEAST[0], rel=0.06)
    assert gain(target())[2] == pytest.approx(most, rel=0.06)


def counted(
    frame: pd.DataFrame, *marginals: tuple[tuple[str, ...], float], seed: int = 0
) -> Target:
    """Rows whose release measured some of their own marginals, with noise."""
    rng, told = np.random.default_rng(seed), []
    schema = Schema.from_domain({name: int(frame[name].max()) + 1 for name in frame})
    schema = schema.model_copy(update={"label": "y"})
    for columns, sigma in marginals:
        shape = [schema.domain[name] for name in columns]
        counts = np.zeros(shape)
        np.add.at(counts, tuple(frame[name].to_numpy() for name in columns), 1.0)
        noisy = counts + rng.normal(0, sigma, shape)
        told.append(Measurement(columns=columns, values=noisy, sigma=sigma))
    release = SimpleNamespace(measurements=lambda: told)
    return Target(frame=frame, schema=schema, rows=float(len(frame)), release=release)  # type: ignore[arg-type]


def copies(rows: int = 6000) -> pd.DataFrame:
    """Three columns that each tell as much of the label, as if on their own."""
    rng = np.random.default_rng(2)
    y = rng.integers(0, 2, rows)
    frame = {n: np.where(rng.random(rows) < 0.7, y, rng.integers(0, 2, rows)) for n in "abc"}
    return pd.DataFrame({**frame, "y": y})


def test_the_strongest_pair_is_read_off_noisy_counts_alone_or_as_a_part() -> None:
    frame = copies()
    true = mutual_information(pd.crosstab(frame["y"], frame["a"]).to_numpy(float))
    assert Strongest.of(counted(frame, (("a",), 1.0))) is None
    for columns in (("a", "y"), ("b", "y", "a")):
        found = [
            Strongest.of(counted(frame, (columns, 40.0), (("y", "c"), 1e4), seed=seed))
            for seed in range(40)
        ]
        told = [one.information for one in found if one is not None and one.noise < 0.1]
        assert len(told) > 30
        assert np.mean(told) == pytest.approx(true, rel=0.1)
    # Noise alone tells as much as is said of it.
    even = pd.DataFrame({"a": np.arange(6000) // 2 % 2, "y": np.arange(6000) % 2})
    alone = [Strongest.of(counted(even, (("a", "y"), 100.0), seed=seed)) for seed in range(400)]
    assert (
        abs(np.mean([one.information for one in alone if one is not None])) < 0.15 * alone[0].noise
    )  # type: ignore[union-attr]


def test_the_same_may_be_told_twice_where_columns_are_not_known_together() -> None:
    pairs = [(("y", name), 1.0) for name in "abc"]
    others = [(("a", "b"), 1.0), (("a", "c"), 1.0), (("b", "c"), 1.0)]
    frame = copies()

    def gain(*measured: tuple[tuple[str, ...], float]) -> float:
        given = counted(frame, *measured)
        return predict_gain(given, Conditional(given), lambda effect: 1.0)["predicted_gain"][1]  # type: ignore[no-any-return]

    assert gain(*pairs, *others) < 0.001
    assert gain(*pairs) > 0.05


def test_what_the_evidence_will_not_show_is_not_kept() -> None:
    """Against fits of planted lines: whether there is anything to see, and how much is kept."""
    rng = np.random.default_rng(5)
    schema = Schema.from_domain({**{f"c{i}": 2 for i in range(6)}, "y": 2})
    schema = schema.model_copy(update={"label": "y"})
    frame = pd.DataFrame({name: rng.integers(0, 2, 2000) for name in schema.names})
    made = Conditional(Target(frame=frame, schema=schema, rows=2000.0))
    told, found = [], []
    for rho in (1e-5, 1e-4, 1e-3, 1e-2):
        correction = LabelCorrection(conditional=made, neighbours=Neighbours.ADD_REMOVE, rho=rho)
        told.append(correction.foresee(0.5))
        kept = []
        for _ in range(12):
            line = rng.normal(0, 0.5 / np.sqrt(made.width), made.width)
            rows = made.standing(rng)
            outputs = (rows.inputs @ line)[:, None]
            drawn = rng.random(len(rows)) > made.tilt.chances(outputs, rows.logs)[:, 0]
            rows = type(rows)(rows.inputs, np.column_stack([rows.logs, drawn]))
            ask = ask_publicly(rows, Neighbours.ADD_REMOVE, rng)
            fitted = correction.fit(ask, rng, lambda step: None).outputs(made.rows)[:, 0]
            true = made.rows.inputs @ line
            kept.append(1 - np.sum((fitted - true) ** 2) / np.sum(true**2))
        found.append(float(np.mean(kept)))
    assert told == sorted(told)
    assert told[0] < 0.05
    assert told[-1] > 0.9
    assert np.abs(np.array(told) - found).max() < 0.3

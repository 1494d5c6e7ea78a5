"""The two engines: the same clipped sums, and the same weights under the same noise."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from marginalsyn import Budget
from marginalsyn.access.rows import RowBatch
from marginalsyn.contract import Target
from marginalsyn.errors import UsageError
from marginalsyn.plugins.audit.testkit.generators import example_frame, example_schema
from marginalsyn.plugins.weights.dp_mlp import DpMlpConfig
from marginalsyn.privacy.laws import Law
from marginalsyn.privacy.noise import SeededNoise
from marginalsyn.weights.per_row import (
    NUMPY,
    TENSORFLOW,
    Critic,
    LogOdds,
    Tilt,
    build_network,
    choose_engine,
)

SILENT = SimpleNamespace(report=lambda *a, **k: None)
RNG = np.random.default_rng(0)
SCORES = RNG.normal(size=(4, 2))
SHAPES = {
    "two layers": ((5, (8, 4)), {}),
    "critic": ((3, (6,)), {"loss": "critic", "bias": 1.0}),
    "tilt": ((5, (7,)), {"loss": Tilt(SCORES), "outputs": 2, "skip": True}),
}


def labels_of(loss, rows: int, rng) -> np.ndarray | float:
    if not isinstance(loss, Tilt):
        return 1.0
    logs = np.log(rng.dirichlet(np.ones(len(SCORES)), rows))
    return np.column_stack([logs, rng.integers(0, len(SCORES), rows)])


def value(loss, outputs: np.ndarray, labels: np.ndarray) -> float:
    """The loss by its definition."""
    if isinstance(loss, LogOdds):
        return float(np.log1p(np.exp(outputs)).sum() - (labels * outputs).sum())
    if isinstance(loss, Critic):
        return float(((1 - 2 * labels) * outputs).sum())
    logits = labels[:, :-1] + outputs @ loss.scores.T
    own = logits[np.arange(len(logits)), labels[:, -1].astype(int)]
    return float((np.log(np.exp(logits).sum(axis=1)) - own).sum())


@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_of_rows_are_those_of_the_loss(shape) -> None:
    """Against differences of the loss, parameter by parameter; then clipped one by one."""
    args, how = SHAPES[shape]
    rng = np.random.default_rng(1)
    network = build_network(NUMPY, *args, np.random.default_rng(2), 4, **how)
    network.assign(rng.normal(0, 0.7, network.size))
    loss = network._loss  # type: ignore[attr-defined]
    x = rng.normal(size=(6, args[0]))
    given = labels_of(loss, len(x), rng)
    lines = np.broadcast_to(given, (len(x), 1)) if np.ndim(given) == 0 else given
    rows = []
    for at in range(len(x)):
        found, start = np.zeros(network.size), network.parameters.copy()
        for k in range(network.size):
            ends = []
            for step in (1e-5, -1e-5):
                network.assign(start + step * (np.arange(network.size) == k))
                ends.append(value(loss, network.outputs(x[[at]]), lines[[at]]))
            found[k] = (ends[0] - ends[1]) / 2e-5
        network.assign(start)
        rows.append(found)
    norms = np.linalg.norm(rows, axis=1)
    for clip in (float(np.median(norms)), 1e6):
        expected = (np.array(rows) * np.minimum(1, clip / norms)[:, None]).sum(axis=0)
        assert np.allclose(network.clipped_sum(x, given, clip), expected, atol=1e-7)


@pytest.mark.parametrize(
    ("engine", "shape"), [*((NUMPY, shape) for shape in SHAPES), (TENSORFLOW, "two layers")]
)
def test_a_row_moves_the_sum_by_the_clipping_norm_at_most(engine, shape) -> None:
    if engine == TENSORFLOW:
        pytest.importorskip("tensorflow_privacy")
    args, how = SHAPES[shape]
    rng = np.random.default_rng(3)
    network = build_network(engine, *args, np.random.default_rng(2), 8, **how)
    for scale in (0.1, 10.0, 1e6, 1e200):
        network.assign(rng.normal(0, scale, network.size))
        with np.errstate(over="ignore"):
            x = rng.normal(0, scale, (30, args[0]))
        given = labels_of(network._loss, len(x), rng)  # type: ignore[attr-defined]
        for clip in (0.01, 1.0):
            whole = network.clipped_sum(x, given, clip)
            assert np.isfinite(whole).all()
            for row in range(0, 30, 7):
                rest = np.delete(given, row, 0) if np.ndim(given) else given
                less = network.clipped_sum(np.delete(x, row, 0), rest, clip)
                assert np.linalg.norm(whole - less) <= clip * (1 + 1e-9)


@pytest.mark.parametrize("shape", SHAPES)
def test_both_engines_clip_alike(shape) -> None:
    pytest.importorskip("tensorflow_privacy")
    args, how = SHAPES[shape]
    rng = np.random.default_rng(4)
    one, two = (
        build_network(engine, *args, np.random.default_rng(5), 16, **how)
        for engine in (NUMPY, TENSORFLOW)
    )
    assert one.shapes == two.shapes
    assert (one.parameters == two.parameters).all()
    for scale in (0.3, 3.0):
        parameters = rng.normal(0, scale, one.size)
        one.assign(parameters)
        two.assign(parameters)
        x = rng.normal(0, scale, (50, args[0]))
        assert np.abs(one.outputs(x) - two.outputs(x)).max() < 1e-9
        given = labels_of(one._loss, len(x), rng)  # type: ignore[attr-defined]
        for clip in (0.05, 1.0, 1e3):
            sums = [network.clipped_sum(x, given, clip) for network in (one, two)]
            empty = labels_of(one._loss, 0, rng)  # type: ignore[attr-defined]
            assert not any(n.clipped_sum(x[:0], empty, clip).any() for n in (one, two))
            assert np.abs(sums[0] - sums[1]).max() < 1e-9 * max(1.0, np.abs(sums[0]).max())


class Told(SeededNoise):
    """A tape: private sums are not read, the answers are fixed ones."""

    known = True

    def draw(self, law: Law, values: np.ndarray) -> np.ndarray:
        return super().draw(law, np.zeros_like(values))


def test_both_engines_give_the_same_weights_under_one_tape() -> None:
    pytest.importorskip("tensorflow_privacy")
    frame = example_frame(60)
    target = Target(frame=frame, schema=example_schema(), rows=60.0)
    visit = SimpleNamespace(
        all_rows=lambda: RowBatch(np.zeros((0, 1), int)),
        pay_all=lambda purpose: None,
        persons=False,
    )
    found = []
    for engine in (NUMPY, TENSORFLOW):
        config = DpMlpConfig(
            target="rows", steps=12, hidden=(6, 3), rate=1.0, engine=engine, shrink=False
        )
        visit.noise = Told(7)
        estimator = config.configure(target, Budget.of_rho(0.5))
        found.append(estimator(visit, progress=SILENT))
    assert np.std(found[0].values) > 1e-3
    assert np.abs(found[0].values - found[1].values).max() < 1e-6
    assert [one.notes["engine"] for one in found] == [NUMPY, TENSORFLOW]
    costs = [
        DpMlpConfig(target="rows", engine=engine).configure(target, Budget.of_rho(0.5)).cost
        for engine in (NUMPY, TENSORFLOW)
    ]
    assert costs[0] == costs[1]


def test_engines_are_chosen_by_name() -> None:
    assert choose_engine("tensorflow-privacy") == TENSORFLOW
    with pytest.raises(UsageError, match="engine"):
        DpMlpConfig(engine="torch")

"""What all generators on noisy marginals must do: sensitivities, charges, noise, codes, rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import make_config
from marginalsyn.host import generate
from marginalsyn.plugins.audit.testkit.generators import run_generator
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.privacy.composition import compose
from marginalsyn.privacy.laws import Law
from marginalsyn.privacy.noise import SeededNoise
from marginalsyn.privacy.selection import ExponentialMechanism
from marginalsyn.registry import GENERATORS, find
from marginalsyn.table.schema import Schema

METHODS = ("auto", "aim", "mst", "clique-tree", "fixed-marginals", "all-marginals", "privbayes")
DOMAIN = {"a": 2, "b": 3, "c": 2}
TINY = Schema.from_domain(DOMAIN).model_copy(update={"label": "c"})
# Options that keep runs on tiny tables short.
SHORT: dict[str, dict[str, Any]] = {"aim": {"rounds": 3}, "all-marginals": {"steps": 20}}


class Transcript:
    """Noise that records what it is asked, and gives the answers of an earlier run again."""

    private = False
    description = "transcript"

    def __init__(self, seed: int = 0, answers: Sequence[Any] = ()) -> None:
        self.post = np.random.default_rng(seed)
        self.asked: list[tuple[str, np.ndarray, dict[str, Any]]] = []
        self.answers = list(answers)
        self._noise = SeededNoise(seed)

    def draw(self, law: Law, values: np.ndarray) -> Any:
        turn = len(self.asked)
        # Scores may be whole numbers of any length.
        question = np.array(values, dtype=float if law.question == "select" else None)
        self.asked.append((law.question, question, vars(law)))
        if turn == len(self.answers):
            self.answers.append(self._noise.draw(law, values))
        return self.answers[turn]


def transcribe(
    method: str,
    frame: pd.DataFrame,
    neighbours: Neighbours,
    answers: Sequence[Any] = (),
    schema: Schema = TINY,
    eps: float = 1.0,
    **options: Any,
) -> tuple[Transcript, list[dict[str, Any]]]:
    """Run a method; what it asked of the noise, and its payments."""
    noise = Transcript(answers=answers)
    table = PrivateTable.open(frame, schema)
    config = make_config(method, {**SHORT.get(method, {}), "rows": 5, **options})
    budget = Budget(eps=eps, neighbours=neighbours)
    _, statement = generate(table, config, budget, noise=noise)
    return noise, statement.payments


def rows_of(codes: Any) -> pd.DataFrame:
    return pd.DataFrame(np.reshape(codes, (-1, len(DOMAIN))), columns=list(DOMAIN))


CELL = st.tuples(*(st.integers(0, size - 1) for size in DOMAIN.values()))


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("method", METHODS)
@given(
    rows=st.lists(CELL, min_size=1, max_size=12), old=CELL, new=CELL, merge=st.sampled_from([0, 1])
)
@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_one_person_moves_nothing_by_more_than_is_paid_for(
    method, neighbours, rows, old, new, merge
):
    """Two neighbours with the same transcript: every question differs by at most its price."""
    replace = neighbours is Neighbours.REPLACE
    first, second = [*rows, old], [*rows, new] if replace else rows
    noise, payments = transcribe(method, rows_of(first), neighbours, merge=merge)
    again, _ = transcribe(method, rows_of(second), neighbours, noise.answers, merge=merge)
    assert len(noise.asked) == len(again.asked) == len(payments)
    for (kind, x, how), (_, y, other), paid in zip(noise.asked, again.asked, payments, strict=True):
        assert how == other, "what is asked must follow from what was released"
        if kind in ("gaussian", "rounded"):
            price = float(np.square((x - y) / how["sigma"]).sum()) / 2
            assert price <= paid["mu"] ** 2 / 2 * (1 + 1e-9)
        else:
            assert np.abs(x - y).max() <= how["sensitivity"] * (1 + 1e-9)
            ratio = log_softmax(x, **how) - log_softmax(y, **how)
            assert np.abs(ratio).max() <= how["eps"] * (1 + 1e-9)
            assert how["eps"] ** 2 / 8 <= paid["rho"] * (1 + 1e-9)


def log_softmax(scores: np.ndarray, eps: float, sensitivity: float) -> np.ndarray:
    """The exponential mechanism's log probabilities, by its definition."""
    x = eps * scores / (2 * sensitivity)
    return x - np.logaddexp.reduce(x)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("method", ["aim", "mst", "privbayes"])
def test_the_worst_neighbour_never_moves_a_choice_by_more_than_eps(method, neighbours):
    """All neighbours of a table, the exact law of every choice; some come near the bound."""
    rows = [(0, 0, 0)] * 3 + [(1, 2, 1)] * 3
    cells = [tuple(cell) for cell in np.ndindex(*DOMAIN.values())]
    if neighbours is Neighbours.REPLACE:
        others = [[*rows[1:], cell] for cell in cells] + [[*rows[:-1], cell] for cell in cells]
    else:
        others = [*([*rows, cell] for cell in cells), rows[1:], rows[:-1]]
    # So large a budget that the model fits, and errors move by nearly all they can.
    noise, _ = transcribe(method, rows_of(rows), neighbours, merge=0, eps=20)
    worst = 0.0
    for other in others:
        again, _ = transcribe(method, rows_of(other), neighbours, noise.answers, merge=0, eps=20)
        for (kind, x, how), (_, y, _) in zip(noise.asked, again.asked, strict=True):
            if kind == "select":
                ratio = np.abs(log_softmax(x, **how) - log_softmax(y, **how)).max()
                worst = max(worst, float(ratio / how["eps"]))
    assert 0.25 < worst <= 1 + 1e-9


@pytest.mark.parametrize("method", ["aim", "mst", "privbayes"])
def test_choices_come_at_the_frequencies_of_the_softmax(method):
    rows = [(0, 0, 0)] * 6 + [(1, 2, 1)] * 6 + [(0, 1, 0)] * 3
    noise, _ = transcribe(method, rows_of(rows), Neighbours.ADD_REMOVE, merge=0)
    scores, how = next((x, how) for kind, x, how in noise.asked if kind == "select")
    drawn = SeededNoise(1)
    counts = np.bincount(
        [drawn.draw(ExponentialMechanism(**how), scores) for _ in range(4000)],
        minlength=len(scores),
    )
    law = np.exp(log_softmax(scores, **how))
    assert stats.chisquare(counts, 4000 * law).pvalue > 1e-6
    # The test can fail: the law of twice the eps is another one.
    wrong = np.exp(log_softmax(scores, 8 * how["eps"], how["sensitivity"]))
    assert stats.chisquare(counts, 4000 * wrong).pvalue < 1e-6


OPTIONS = [
    ("aim", {"rounds": 1}),
    ("aim", {"rounds": 2}),
    ("aim", {"rounds": 3, "degree": 1}),
    ("aim", {"rounds": 60, "degree": 3, "label_share": 0.5}),
    ("aim", {"rounds": 5, "degree": 8, "one_way_share": 0.9, "label_share": 0, "merge": 0}),
    ("aim", {"rounds": 4, "max_cells": 1, "max_model_mb": 0.001, "label_weight": 7}),
    ("mst", {}),
    ("mst", {"merge": 5}),
    ("privbayes", {}),
    ("privbayes", {"parents": 0, "one_way_share": 0.5}),
    ("privbayes", {"theta": 1e-3, "candidates": 1, "merge": 0}),
    ("auto", {}),
    ("auto", {"merge": 0, "degree": 3, "label_weight": 2}),
    ("clique-tree", {"degree": 1}),
    ("clique-tree", {"degree": 3, "one_way_share": 0.6, "select_share": 0.3}),
    ("clique-tree", {"max_cells": 1}),
    ("clique-tree", {"max_model_mb": 0.001, "label_weight": 3}),
    ("fixed-marginals", {"one_way_share": 0.5}),
    ("fixed-marginals", {"max_model_mb": 0.001}),
    ("all-marginals", {"degree": 1}),
    ("all-marginals", {"degree": 3, "fit": "rows", "steps": 10}),
    ("all-marginals", {"degree": 2, "max_model_mb": 0.001, "steps": 10}),
]
TABLES = {
    "labelled": TINY,
    "no label": Schema.from_domain(DOMAIN),
    "one column": Schema.from_domain({"a": 4}),
    "one labelled column": Schema.from_domain({"a": 4}).model_copy(update={"label": "a"}),
}


@pytest.mark.parametrize(("method", "options"), OPTIONS, ids=str)
def test_the_charge_is_the_declared_cost_and_payments_use_it_up(method, options):
    for number, (name, schema) in enumerate(TABLES.items()):
        if method == "fixed-marginals" and name == "no label":
            continue
        neighbours = list(Neighbours)[number % 2]
        sizes = list(schema.domain.values())
        codes = np.random.default_rng(0).integers(0, sizes, (30, len(sizes)))
        frame = pd.DataFrame(codes, columns=schema.names)
        kind = find(GENERATORS, method)
        run = run_generator(kind, frame, schema, options=options, neighbours=neighbours)
        budget = Budget(eps=1.0, neighbours=neighbours)
        cost = tuple(run.generator.cost)
        assert tuple(run.ledger.read().charges) == tuple(run.statement.charges) == cost
        assert [c.cost for c in cost] == [budget.gaussian_cost]
        assert compose(cost, budget.delta, neighbours).eps <= 1.0
        paid = math.fsum(p["mu"] ** 2 / 2 for p in run.statement.payments)
        assert 0.999 * budget.gaussian <= paid <= budget.gaussian * (1 + 1e-9), name
        assert not run.statement.problems()


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("method", METHODS[:-1])  # privbayes measures coarser cells
def test_noise_has_the_deviation_that_is_declared(method, neighbours):
    rng = np.random.default_rng(0)
    base = rng.integers(0, 12, 400)
    codes = np.stack([base, (base + rng.integers(0, 3, 400)) % 12, rng.integers(0, 9, 400)], axis=1)
    schema = Schema.from_domain({"a": 12, "b": 12, "c": 9}).model_copy(update={"label": "c"})
    frame = pd.DataFrame(codes, columns=schema.names)
    options = {"merge": 0, **({"rounds": 12} if method == "aim" else {})}
    kind = find(GENERATORS, method)
    run = run_generator(kind, frame, schema, options=options, neighbours=neighbours)
    paid = [p for p in run.statement.payments if p["mechanism"] == "gaussian" and "columns" in p]
    residuals = []
    for m, p in zip(run.synthesis.measurements, paid, strict=True):
        assert tuple(p["columns"]) == m.columns
        assert p["sigma"] == m.sigma
        assert p["mu"] ** 2 / 2 == pytest.approx(neighbours.l2**2 / (2 * m.sigma**2), rel=1e-9)
        exact = np.zeros([schema.domain[c] for c in m.columns])
        np.add.at(exact, tuple(codes[:, schema.names.index(c)] for c in m.columns), 1)
        residuals.append(((m.values - exact) / m.sigma).ravel())
    z = np.concatenate(residuals)
    law = stats.chi2(z.size)
    assert 1e-6 < law.cdf(float(z @ z)) < 1 - 1e-6
    assert not 1e-6 < law.cdf(1.6**2 * float(z @ z)) < 1 - 1e-6  # the test can fail

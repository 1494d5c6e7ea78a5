"""Checks without chance: exact laws and exact sensitivities, each a number with its bound."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.access.rows import RowBatch
from marginalsyn.certificates.excess_plan import MeasuredPlan, Model, steps_of_rows
from marginalsyn.certificates.linear_models import Problem
from marginalsyn.contract import make_config
from marginalsyn.errors import BudgetError, UsageError
from marginalsyn.plugins.audit.scoring import gaussian_delta, gaussian_eps
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import ZCDP, Charge, Neighbours
from marginalsyn.privacy.composition import compose
from marginalsyn.privacy.gdp import amount_of, eps_of_mu, selection_eps, selection_mu
from marginalsyn.privacy.noise import SeededNoise, make_noise
from marginalsyn.privacy.selection import ExponentialMechanism
from marginalsyn.privacy.zcdp import eps_of, exponential_eps, gaussian_rho, gaussian_sigma
from marginalsyn.progress import Progress, Silent
from marginalsyn.records.ledger import Ledger
from marginalsyn.table.numeric import ContinuousColumn
from marginalsyn.table.schema import Schema
from marginalsyn.table.unit import Unit

if TYPE_CHECKING:
    from marginalsyn.plugins.audit.worst import Measured

SLACK = 1e-6
"""Of a bound, for rounding: rows in single precision, sums, square roots."""


@dataclass(frozen=True)
class Check:
    """One number that must not exceed its bound.

    Attributes:
        name: what is checked, in a few words.
        value: what was computed.
        how: where the number comes from.
        bound: what it may be at most.
        methods: the generators and estimators that rest on it: those of its family, if it says
            nothing else; none means all.
    """

    name: str
    value: float
    how: str
    bound: float = 1.0
    methods: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether the bound is kept; a number that is none keeps nothing."""
        return bool(self.value <= self.bound * (1 + SLACK))

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        about = {"name": self.name, "methods": self.methods, "value": self.value}
        return {**about, "bound": self.bound, "how": self.how, "holds": self.holds}


def run_checks(
    methods: Sequence[str] = (),
    progress: Progress | None = None,
    measured: Sequence[Measured] | None = None,
) -> list[Check]:
    """All checks, or those on which the named methods rest.

    Args:
        methods: their names; all by default.
        progress: reports what happens.
        measured: what :func:`~marginalsyn.plugins.audit.worst.measure` found; by default it is
            asked at eps 1, without the methods that load a network library.

    Example:
        >>> [check.name for check in run_checks(["mst"]) if not check.holds]
        []
    """
    from marginalsyn.plugins.audit import exact_points, exact_weights
    from marginalsyn.plugins.audit.worst import answers, measure

    progress = progress or Silent()
    families = (*exact_points.FAMILIES, *exact_weights.FAMILIES, *FAMILIES)
    if measured is None:
        measured = measure(methods, budgets=(1.0,), trained=False, progress=progress)
    found = answers(measured)
    for done, (names, family) in enumerate(families):
        progress.report("exact checks", fraction=done / len(families), text=family.__name__)
        if not methods or not names or set(names) & set(methods):
            found += [replace(one, methods=one.methods or names) for one in family()]
    return [c for c in found if not methods or not c.methods or set(c.methods) & set(methods)]


def cube(dimension: int) -> Schema:
    """So many numbers between 0 and 1."""
    return Schema(
        columns=tuple(ContinuousColumn(name=f"x{i}", lower=0, upper=1) for i in range(dimension))
    )


def halves(count: int, ones: int) -> np.ndarray:
    """``count`` rows of one number: zeros, and ``ones`` ones."""
    return np.repeat([[0.0], [1.0]], [count - ones, ones], axis=0)


def normalised(logs: Any) -> np.ndarray:
    """Logarithms of weights as those of probabilities."""
    values = np.asarray(logs, dtype=float)
    return values - np.logaddexp.reduce(values)


def loss(first: np.ndarray, second: np.ndarray) -> float:
    """The eps between two log laws over the same outcomes."""
    return float(np.max(np.abs(first - second)))


def support_law(
    rows: np.ndarray,
    grid: np.ndarray,
    sets: Sequence[tuple[int, ...]],
    config: Any,
    budget: Budget,
) -> np.ndarray:
    """The log law that ``support-points`` aims at, over all sets of candidates.

    Args:
        rows: the data.
        grid: the candidates.
        sets: indices of every set of points.
        config: of the generator.
        budget: what it may spend.
    """
    from marginalsyn.table.energy import distance_matrix, potential

    target = config.configure(cube(grid.shape[1]), budget)._target(rows, np.random.default_rng(0))
    near, between = potential(target.columns.T, grid), distance_matrix(grid, grid)
    energies = np.array([2.0 * near[list(s)].mean() - between[np.ix_(s, s)].mean() for s in sets])
    heights = energies - target.offset
    if target.root:
        heights = np.sqrt(np.maximum(heights, 0.0))
    return normalised(-target.coefficient * heights)


class Scripted:
    """A visit whose draws follow a script, and which adds up their log-probability."""

    def __init__(
        self, rows: np.ndarray, neighbours: Neighbours, script: Sequence[int], total: int
    ) -> None:
        self._rows, self.neighbours, self._script = rows, neighbours, list(script)
        self.noise = SimpleNamespace(post=np.random.default_rng(0))
        self.log_probability, self.spent, self.rows = 0.0, 0.0, total
        self.whole = 1

    def batches(self, **how: Any) -> Iterator[RowBatch]:
        """The rows, as unit coordinates; each is a person of its own."""
        yield RowBatch(self._rows)

    def measure(self, columns: Any, sigma: float, purpose: str = "") -> SimpleNamespace:
        """The number of rows, released: the same for both tables."""
        return SimpleNamespace(values=np.array(self.rows))

    def draw(self, law: ExponentialMechanism, scores: np.ndarray, *, purpose: str = "") -> int:
        """The index in the script, at its probability."""
        index = self._script.pop(0)
        logs = normalised(law.eps * scores / (2 * law.sensitivity))
        self.log_probability += float(logs[index])
        self.spent += law.eps
        return index


def delta_between(first: np.ndarray, second: np.ndarray, eps: float) -> float:
    """The delta at ``eps`` between two laws over the same outcomes, in the worse order."""
    factor = np.exp(eps)
    gaps = [np.maximum(p - factor * q, 0).sum() for p, q in ((first, second), (second, first))]
    return float(max(gaps))


_AIM = ("aim",)


def payments() -> Iterator[Check]:
    """AIM never pays more than it declared, however few or many rounds it is given."""
    from marginalsyn.host import generate

    schema = Schema.from_domain({"a": 2, "b": 3, "c": 2}, "c")
    rows = np.random.default_rng(0).integers(0, [2, 3, 2], (30, 3))
    frame, worst = pd.DataFrame(rows, columns=schema.names), 0.0
    settings = ((1, 0.15, None), (2, 0.15, 0.0), (3, 0.9, 0.5), (30, 0.15, 0.5))
    for relation in Neighbours:
        budget = Budget(eps=1.0, neighbours=relation)
        for rounds, one_way, label in settings:
            config = make_config(
                "aim", {"rounds": rounds, "one_way_share": one_way, "label_share": label}
            )
            table = PrivateTable.open(frame, schema)
            _, statement = generate(table, config, budget, noise=SeededNoise(1))
            paid = math.fsum(amount_of(payment["mu"]) for payment in statement.payments)
            worst = max(worst, paid / budget.gaussian)
    yield Check("payments of AIM over its charge", worst,
                "1 to 30 rounds, with and without the label's pairs, both relations")  # fmt: skip


def relations() -> Iterator[Check]:
    """What a replaced record moves, and what is revealed of the number of rows."""
    table = np.zeros((2, 3))
    table[0, 0], other = 5.0, np.zeros((2, 3))
    other[0, 0], other[1, 2] = 4.0, 1.0
    moved = np.linalg.norm(table - other) / Neighbours.REPLACE.l2
    schema = Schema.from_domain({"a": 2})
    private, revealed = PrivateTable.open(pd.DataFrame({"a": [0, 1, 1]}), schema), 0
    charge = Charge(mechanism="gaussian", cost=ZCDP(rho=0.1))
    visit = private.charge([charge], noise=make_noise(0))
    with visit, contextlib.suppress(BudgetError):
        revealed += visit.rows
    yield Check("change of a marginal by a replaced record over its bound", float(moved),
                "a record that moves between two cells")  # fmt: skip
    yield Check("exact numbers of rows revealed under add-remove", float(revealed),
                "a visit that is asked for it", bound=0.0)  # fmt: skip


def conversions() -> Iterator[Check]:
    """Stated numbers against exact ones: the Gaussian mechanism's eps, dp-accounting's meaning."""
    from dp_accounting import GaussianDpEvent, NeighboringRelation
    from dp_accounting.pld import PLDAccountant

    worst, spent, sharp = 0.0, 0.0, 0.0
    for mu in (0.01, 0.18, 0.7, 2.0):
        for delta in (1e-12, 1e-9, 1e-6):
            sharp = max(sharp, gaussian_eps(mu, delta) / eps_of_mu(mu, delta))
        # The best tests between two answers of rounded noise, one of them moved by whole steps.
        cuts = np.arange(-300, 400) - 0.5
        above, moved = ndtr(-cuts * mu / 20), ndtr(-(cuts - 20) * mu / 20)
        inside = (above > 1e-4) & (moved < 1 - 1e-4)
        sharp = max(sharp, float(np.max(ndtri(moved[inside]) - ndtri(above[inside]))) / mu)
    for rho in (0.001, 0.015, 0.2, 1.0, 10.0):
        for delta in (1e-12, 1e-9, 1e-6):
            worst = max(worst, gaussian_eps(math.sqrt(2 * rho), delta) / eps_of(rho, delta))
        spent = max(spent, gaussian_rho(gaussian_sigma(rho)) / rho)
        spent = max(spent, exponential_eps(rho) ** 2 / 8 / rho)
        spent = max(spent, amount_of(selection_mu(selection_eps(rho))) / rho)
    difference = 0.0
    for multiplier in (0.5, 1.0, 3.0):
        accountant = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE)
        accountant.compose(GaussianDpEvent(multiplier))
        exact = gaussian_delta(1 / multiplier, 0.0)
        difference = max(difference, abs(accountant.get_delta(0.0) / exact - 1))
    yield Check("exact eps of a Gaussian over the stated one", worst,
                "rho from 0.001 to 10, delta from 1e-12 to 1e-6")  # fmt: skip
    yield Check("exact eps and trade-off of rounded noise over those stated in mu", sharp,
                "mu from 0.01 to 2, delta from 1e-12 to 1e-6; 1 is sharp",
                bound=1 + 1e-9)  # fmt: skip
    yield Check("cost of a calibrated scale over what was asked", spent,
                "Gaussian scales and selections at five costs")  # fmt: skip
    yield Check("the accountant's delta(0) against 2 Phi(1 / 2z) - 1", difference,
                "that a multiplier means one row added or removed", bound=1e-3)  # fmt: skip


def ledgers() -> Iterator[Check]:
    """Charges add up; large deltas and seeds are not called private."""
    charges = [Charge(mechanism="gaussian", cost=ZCDP(rho=0.01 * k)) for k in range(1, 8)]
    ledger = Ledger(None)
    for charge in charges:
        ledger.charge([charge])
    total = ledger.total(1e-9, Neighbours.ADD_REMOVE).eps
    at_once = compose([Charge(mechanism="gaussian", cost=ZCDP(rho=0.28))], 1e-9).eps
    accepted = 0
    for rows in (303, 455, 48_842):
        with contextlib.suppress(UsageError):
            Budget(eps=1.0, delta=1.0 / rows)
            accepted += 1
    yield Check("a ledger's total against its charges at once", abs(total / at_once - 1),
                "seven charges, one after the other", bound=1e-9)  # fmt: skip
    yield Check("deltas of one over the number of rows that are taken", float(accepted),
                "303, 455 and 48,842 rows", bound=0.0)  # fmt: skip
    yield Check("seeded noises that call themselves private", float(make_noise(7).private),
                "a noise with a seed", bound=0.0)  # fmt: skip


def certificates() -> Iterator[Check]:
    """The certified excess loss against the measured one."""
    from scipy.special import expit

    from marginalsyn.certificates.excess import bound_excess, fit_in_ball, mean_loss

    rng, worst = np.random.default_rng(0), 0.0
    for _ in range(20):
        width, radius = int(rng.integers(1, 5)), float(rng.choice([0.5, 1.0, 2.0]))
        slope = 3.0 * rng.standard_normal(width)
        tables = []
        for side in range(2):
            x = np.clip(rng.uniform(-1, 1, (200, width)) + side * 0.2 * rng.uniform(-1, 1), -1, 1)
            chance = expit(x @ slope + 0.5 * side)
            tables.append((x, np.where(rng.random(200) < chance, 1.0, -1.0)))
        (x, y), (u, v) = tables
        label = float(np.abs(x.T @ y - u.T @ v).max()) / 200
        products = {2: float(np.abs(x.T @ x - u.T @ u).max()) / 200}
        ours = fit_in_ball(u, v, radius)
        excess = mean_loss(x, y, ours.w) - fit_in_ball(x, y, radius, tolerance=1e-7).loss
        worst = max(worst, excess / bound_excess(radius, label, products, gap=ours.gap).bound)
    yield Check("measured excess loss over the certified one", worst, "20 pairs of random tables")


def holdouts() -> Iterator[Check]:
    """Rows that an evaluation tests on are not among those that a mechanism sees."""
    schema, rows = Schema.from_domain({"id": 500}), pd.DataFrame({"id": np.arange(500)})
    shared = 0
    for relation in Neighbours:
        table = PrivateTable.open(rows, schema, holdout=0.2, neighbours=relation)
        view = table.unprotected("audit of the held-out rows")
        shared += len(set(view.frame()["id"]) & set(view.holdout_frame()["id"]))
    yield Check("held-out rows that a mechanism sees", float(shared),
                "500 rows, a fifth held out, both relations", bound=0.0)  # fmt: skip


Neighbouring = tuple[Model, np.ndarray, np.ndarray]


def extremes(relation: Neighbours) -> Iterator[Neighbouring]:
    """Models with pairs of tables on which the bound on their difference is (nearly) reached.

    Features of two values are -1 and 1; with the constant, rows have length 1.

    * A row more: the given model is far away on the side where that row's loss is linear, so that
      it adds all that the distance to the best model allows: as far as the ridge lets that go, or
      as far as the limit r does.
    * A row replaced: of a pair with the same features and opposite labels, squared losses move by
      as much in opposite directions while the distance is small.
    """
    schema = Schema.from_domain({"a": 2, "b": 2, "y": 2}, "y")
    put, none = np.array([[1.0, 1.0, 1.0]]), np.zeros((0, 3))
    if relation is Neighbours.ADD_REMOVE:
        problem = Problem.of(schema)
        x = problem.scale(problem.integers(put))[0]
        for ridge, far in ((1e-2, 1e4), (1.0, 300.0)):
            yield Model(problem, -far * x, 1, ridge, None, False), none, put
        for free in (False, True):
            model = Model(problem, -60.0 * x, 1, 1e-6, 20.0, free)
            yield model, np.repeat(put, 4, axis=0), np.repeat(put, 5, axis=0)
        return
    column = {"name": "y", "kind": "continuous", "lower": 0, "upper": 1, "bins": 4}
    columns = [*(c.model_dump() for c in schema.columns[:2]), column]
    problem = Problem.of(Schema.model_validate({"columns": columns, "label": "y"}))
    same = np.repeat(put, 6, axis=0)
    other = np.vstack([same[1:], [[1.0, 1.0, 0.0]]])
    nothing = np.zeros(problem.width)
    yield Model(problem, nothing, 1, 1e3, None, False), same, other
    for free in (False, True):
        yield Model(problem, nothing, 1, 1e-6, 0.02, free), same, other


def measured() -> Iterator[Check]:
    """What one person moves the measured excess by, over what its noise is made for."""
    for relation in Neighbours:
        worst = 0.0
        for model, one, other in extremes(relation):
            plan = MeasuredPlan(model, relation, 0.1)
            worst = max(
                worst, abs(steps_of_rows(model, one) - steps_of_rows(model, other)) / plan.reach
            )
        yield Check(f"change of a measured excess over its bound, {relation}", worst,
                    "neighbours whose distance is as large as may be")  # fmt: skip


_SIZES = (1, 3, 50)
_MOST = 7


def person_counts() -> Iterator[Check]:
    """A person's rows share one unit of weight, so every marginal moves by it and no more."""
    schema = Schema.from_domain({"a": 3, "b": 2}).with_unit(Unit(column="who", max_rows=_MOST))
    rng, moved, rows_moved = np.random.default_rng(0), 0.0, 0
    others = pd.concat([_rows(rng, f"p{i}", int(rng.integers(1, 9))) for i in range(12)])
    before = _counts(others, schema)
    for size in _SIZES:
        after = _counts(pd.concat([_rows(rng, "new", size), others]), schema)
        differences = [np.abs(after[key] - before[key]).sum() for key in before]
        moved = max(moved, *map(float, differences))
        rows_moved = max(rows_moved, size)
    yield Check("change of a marginal by one person", moved,
                f"persons with 1 to {rows_moved} rows, of which {_MOST} are counted")  # fmt: skip


def _rows(rng: np.random.Generator, who: str, size: int) -> pd.DataFrame:
    values = {"a": rng.integers(0, 3, size), "b": rng.integers(0, 2, size)}
    return pd.DataFrame({"who": [who] * size, **values})


def _counts(frame: pd.DataFrame, schema: Schema) -> dict[tuple[str, ...], np.ndarray]:
    names = schema.names
    wanted = [(), *((name,) for name in names), tuple(names)]
    table = PrivateTable.open(frame.reset_index(drop=True), schema)
    charge = Charge(mechanism="gaussian", cost=ZCDP(rho=0.1))
    with table.charge([charge], noise=make_noise(0), persons=True) as visit:
        return visit.counts_many(wanted)


FAMILIES = (
    (_AIM, payments),
    ((), relations),
    ((), conversions),
    ((), ledgers),
    ((), certificates),
    ((), holdouts),
    ((), measured),
    ((), person_counts),
)

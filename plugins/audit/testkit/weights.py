"""The test kit for authors of weight estimators: what every one must do, as plain functions.

Each check takes a config class and raises AssertionError with the reason;
:func:`marginalsyn.plugins.audit.testkit.check_plugin` runs all of them.
"""

from __future__ import annotations

import contextlib
import json
import math
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.certificates.measured import verify
from marginalsyn.contract import Duties, Plan, Target, WeightEstimator, build_config, plain
from marginalsyn.errors import PluginError, UsageError
from marginalsyn.generators.independent import IndependentConfig
from marginalsyn.host import weigh
from marginalsyn.plugins.audit.testkit.generators import (
    Options,
    _check_cases,
    check_config,
    check_json,
    edge_tables,
    example_frame,
    example_schema,
    neighbours_of_every_kind,
    run_generator,
    untouched,
)
from marginalsyn.plugins.audit.testkit.tape import check_drawn, weighted_on_tape
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.privacy.composition import compose
from marginalsyn.privacy.noise import make_noise
from marginalsyn.records.ledger import Ledger
from marginalsyn.release.folder import Release
from marginalsyn.table.schema import Schema
from marginalsyn.weights.columns import WeightColumn, publish


class WeightRun(NamedTuple):
    """One seeded run of an estimator on a release; ``published`` is None if it is not private."""

    release: Release
    weighted: WeightColumn
    published: Release | None
    ledger: Ledger
    estimator: WeightEstimator


@contextlib.contextmanager
def weight_run(
    kind: Any,
    frame: pd.DataFrame,
    schema: Schema,
    *,
    options: Options = None,
    eps: float = 1.0,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    seed: int = 0,
    generator: Any = IndependentConfig,
    rows: int | None = None,
) -> Iterator[WeightRun]:
    """Make a release in a folder of its own, weight it through the host, and publish the weights.

    Example:
        >>> from marginalsyn.plugins.weights.beta_noised import BetaNoisedConfig
        >>> with weight_run(BetaNoisedConfig, frame, schema) as run:
        ...     len(run.published.weights()) == len(run.release.frame())
        True
    """
    how: Any = {"options": {"rows": rows} if rows is not None else None, "seed": seed}
    made = run_generator(generator, frame, schema, eps=4.0, neighbours=neighbours, **how)
    table = PrivateTable.open(frame, schema, ledger=made.ledger)
    with tempfile.TemporaryDirectory() as folder:
        release = Release.write(made.synthesis, schema, made.statement, Path(folder) / "release")
        config: Any = build_config(kind, options)
        budget = Budget(eps=eps, neighbours=neighbours)
        weighted = weigh(release, config, budget, table, noise=make_noise(seed), non_private=True)
        private = publish(release, weighted, noise=make_noise(seed)) if config.private else None
        estimator = config.configure(Target.of(release), budget)
        yield WeightRun(release, weighted, private, made.ledger, estimator)


def check_weight_config(kind: Any, options: Options = None, **how: Any) -> None:
    """A config as a generator's, with the facts of an estimator."""
    check_config(kind)
    check_json(kind, options)
    assert isinstance(kind.reference, str), "reference must be a text"
    assert isinstance(kind.private, bool), "private must be True or False"


def check_weight_cost(kind: Any, options: Options = None, **how: Any) -> None:
    """Under either relation the ledger is charged what ``cost`` says, within the budget."""
    for neighbours in Neighbours:
        with weight_run(
            kind, example_frame(60), example_schema(), options=options, neighbours=neighbours, **how
        ) as run:
            cost = list(run.estimator.cost)
            base = list(run.release.statement.charges)
            assert list(run.ledger.read().charges) == base + cost, (
                "the ledger must hold what cost says"
            )
            total = compose(cost, 1e-9, neighbours)
            assert total.eps <= 1 + 1e-9, "cost must stay within the budget"
            if run.published is None:
                assert not cost, "what is not private must cost nothing"
                continue
            statement = run.published.statement
            assert list(statement.charges) == base + cost, "the statement must hold all charges"
            # The statement rounds up to nine digits.
            stated = compose(base + cost, 1e-9, neighbours).eps
            assert math.isclose(statement.eps, stated, rel_tol=1e-8)
            assert bool(cost) == bool(run.weighted.payments), "a run must pay for what it measures"
            assert not verify(run.published.path), verify(run.published.path)


def check_weight_outlook(kind: Any, options: Options = None, **how: Any) -> None:
    """What a budget buys is JSON and is known without a private row."""
    with weight_run(kind, example_frame(60), example_schema(), options=options, **how) as run:
        plan = run.estimator.plan
        assert isinstance(plan, Plan), "plan must be an Plan"
        json.dumps([plain(plan.facts), list(plan.warnings)], allow_nan=False)
        assert plan.noise is None or plan.noise >= 0


def check_weight_values(kind: Any, options: Options = None, **how: Any) -> None:
    """One weight per row, of mean 1, written and read back exactly; a score agrees with it."""
    with weight_run(kind, example_frame(80), example_schema(), options=options, **how) as run:
        weights, rows = run.weighted.weights, len(run.release.frame())
        assert weights.shape == (rows,), "there must be one weight per row"
        assert np.isfinite(weights).all(), "weights must be finite"
        assert (weights >= 0).all(), "weights must not be negative"
        assert abs(weights.mean() - 1) < 1e-9, "weights must have mean 1"
        json.dumps(run.weighted.facts, allow_nan=False)
        if run.published is None:
            try:
                publish(run.release, run.weighted)
            except PluginError:
                return
            raise AssertionError("weights that are not private must not be published")
        read = Release.read(run.published.path)
        found, raw = read.weights(), read.log_weights()
        assert found is not None
        assert raw is not None
        assert (found[run.weighted.name].to_numpy() == weights).all(), "weights must read back"
        assert (raw[run.weighted.name].to_numpy() == run.weighted.log_weights).all()


def check_weight_edge_tables(kind: Any, options: Options = None, **how: Any) -> None:
    """Every edge table's release is given weights, though the budget is far too small.

    One that ``needs_label`` is refused, before it is charged, where there is none.
    """
    for name, (frame, schema) in edge_tables().items():
        if Duties(kind).needs_label and schema.label is None:
            refused = False
            try:
                with weight_run(kind, frame, schema, options=options, eps=0.05, rows=30, **how):
                    pass
            except UsageError:
                refused = True
            assert refused, f"{name}: it must be refused without a label"
            continue
        with weight_run(kind, frame, schema, options=options, eps=0.05, rows=30, **how) as run:
            assert np.isfinite(run.weighted.weights).all(), f"{name}: weights must be finite"


def check_weight_reproducible(kind: Any, options: Options = None, **how: Any) -> None:
    """One seed gives the same weights, another others; global random states stay untouched."""
    frame, schema = example_frame(100), example_schema()
    found, costs = [], False
    with untouched("an estimator"):
        for seed in (1, 1, 2):
            with weight_run(kind, frame, schema, options=options, seed=seed, rows=50, **how) as run:
                found.append(run.weighted.log_weights)
                costs = bool(run.estimator.cost)
    assert (found[0] == found[1]).all(), "one seed must give the same weights"
    assert not costs or not (found[0] == found[2]).all(), "seeds must matter"


def check_weight_streams(kind: Any, options: Options = None, **how: Any) -> None:
    """It draws nothing for private rows from the stream for post-processing.

    One for research, without protection, may draw at will.
    """
    if kind.private:
        left, right, neighbours = neighbours_of_every_kind()["a strange row"]
        runs = (weighted_on_tape(kind, options, t, neighbours, **how) for t in (left, right))
        check_drawn(*runs)


def check_weight_audit(kind: Any, options: Options = None, *, runs: int = 300) -> None:
    """Runs on worst-case neighbouring tables, and its answers on a tape, break no claim.

    As :func:`marginalsyn.plugins.audit.testkit.generators.check_audit`, with public synthetic rows
    that show a record best.
    """
    from marginalsyn.plugins.audit.canaries import weight_cases

    _check_cases(weight_cases(kind, options), runs)


WEIGHT_CHECKS: tuple[Callable[..., None], ...] = (
    check_weight_config,
    check_weight_cost,
    check_weight_outlook,
    check_weight_values,
    check_weight_edge_tables,
    check_weight_reproducible,
    check_weight_streams,
)
"""Checks of every estimator: each is called with the config class and, maybe, ``options``."""

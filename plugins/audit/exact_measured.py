"""Exact checks of the measured certificate: neighbours that move it as far as may be."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from marginalsyn.certificates.excess_plan import MeasuredPlan, Model, steps_of_rows
from marginalsyn.certificates.gauge import Problem
from marginalsyn.plugins.audit.exact import Check
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.table.schema import Schema

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
    schema = Schema.from_domain({"a": 2, "b": 2, "y": 2}).model_copy(update={"label": "y"})
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


def measured() -> list[Check]:
    """What one person moves the measured excess by, over what its noise is made for."""
    found = []
    for relation in Neighbours:
        worst = 0.0
        for model, one, other in extremes(relation):
            plan = MeasuredPlan(model, relation, 0.1)
            worst = max(
                worst, abs(steps_of_rows(model, one) - steps_of_rows(model, other)) / plan.reach
            )
        found.append(
            Check(
                name=f"change of a measured excess over its bound, {relation}",
                value=worst,
                how="neighbours that are as far apart as may be",
            )
        )
    return found


FAMILIES = (((), measured),)

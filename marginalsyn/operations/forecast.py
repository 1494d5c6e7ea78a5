"""What a budget will buy: the errors to expect in single columns, before it is spent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from marginalsyn.host import calibrate
from marginalsyn.privacy.zcdp import gaussian_sigma

if TYPE_CHECKING:
    from marginalsyn.contract import GeneratorConfig, Plan
    from marginalsyn.privacy.budget import Budget
    from marginalsyn.table.schema import Schema

# The share of rows in the wrong place from which a column is not worth its noise.
USELESS = 0.25


@dataclass(frozen=True)
class Forecast:
    """What is to be expected of one run.

    Attributes:
        plan: of the method.
        sigma: the standard deviation of the noise on a count of one column.
        errors: by column, the share of rows that noise alone puts into a wrong value or bin.
    """

    plan: Plan
    sigma: float
    errors: Mapping[str, float]

    @property
    def useless(self) -> list[str]:
        """The columns that would mostly show noise."""
        return [name for name, error in self.errors.items() if error >= USELESS]


def foresee(schema: Schema, config: GeneratorConfig, budget: Budget, rows: int) -> Forecast:
    """What a run would give on so many rows. Nothing is read or spent.

    Args:
        schema: of the table.
        config: of the method.
        budget: for the run.
        rows: about how many there are; of a table whose size is private, a guess or the curator's
            own knowledge. What follows from it is for the curator.

    Example:
        >>> from marginalsyn.privacy.budget import Budget
        >>> from marginalsyn.contract import make_config
        >>> from marginalsyn.table.schema import Schema
        >>> forecast = foresee(
        ...     Schema.from_domain({"a": 10}), make_config("independent", {}), Budget(eps=1), 50
        ... )
        >>> forecast.useless
        ['a']
    """
    plan = calibrate(config, schema, budget)[0].plan
    single = [rho for purpose, rho in plan.split.items() if "one-way" in purpose]
    # A method that says nothing of single columns is taken to measure them with all it has.
    rho = sum(single) or budget.gaussian
    sigma = gaussian_sigma(rho / max(len(schema.names), 1), budget.neighbours.l2)
    # Half of the mean size of a Gaussian in every cell, as a share; at most all rows are wrong.
    each = sigma * math.sqrt(2 / math.pi) / 2 / max(rows, 1)
    errors = {column.name: min(1.0, column.size * each) for column in schema.columns}
    return Forecast(plan=plan, sigma=sigma, errors=errors)

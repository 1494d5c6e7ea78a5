"""More persons from a release of linked tables, at no cost in privacy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from marginalsyn.errors import PluginError
from marginalsyn.linked.drawing import ForestModel, models_of
from marginalsyn.people.tree import LinkedSchema
from marginalsyn.people.views import views_of
from marginalsyn.release.linked import LinkedRelease, tree_problems
from marginalsyn.table.conditions import Condition, read_conditions


def sample_linked(
    release: LinkedRelease,
    persons: int | None,
    rng: np.random.Generator,
    *,
    where: str | Mapping[str, Any] | None = None,
) -> dict[str, pd.DataFrame]:
    """Draw more persons with all their rows: post-processing, so it costs no privacy.

    Args:
        release: a release of linked tables.
        persons: how many; None for the release's estimate.
        rng: draws them; it may be seeded, for it protects nothing.
        where: what persons must hold in columns of the root, such as ``"sex=female"``.

    Returns:
        Tables by name, with new keys.

    Example:
        >>> release = LinkedRelease.read("clinic-release")
        >>> tables = sample_linked(release, 10, np.random.default_rng())
        >>> len(tables["patients"])
        10
    """
    conditions = root_conditions(release.tree, where)
    model = ForestModel(release.tree, models_of(release.model(), views_of(release.tree)))
    tables = model.draw(persons, rng, conditions)
    if problems := tree_problems(release.tree, tables):
        raise PluginError(f"the model broke its contract: {'; '.join(problems)}")
    return tables


def root_conditions(
    tree: LinkedSchema, where: str | Mapping[str, Any] | None
) -> dict[str, Condition]:
    """Conditions on the root's columns by their names in its view."""
    if where is None:
        return {}
    view = views_of(tree)[0].schema
    prefix = f"{tree.root.name}."
    names = {name.removeprefix(prefix): name for name in view.names}
    plain = type(view)(
        columns=[
            {**column.model_dump(mode="json"), "name": column.name.removeprefix(prefix)}
            for column in view.columns
        ],
        missing_tokens=view.missing_tokens,
    )
    return {names[name]: found for name, found in read_conditions(where, plain).items()}

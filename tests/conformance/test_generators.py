"""Every registered generator keeps the contract that plugin authors test against."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from eager import eagerly

from marginalsyn.plugins.audit.testkit.generators import (
    GENERATOR_CHECKS,
    check_edge_tables,
    check_release,
    check_small_budget,
    check_streams,
)
from marginalsyn.registry import GENERATORS, find, plugins

# Options that keep a generator's checks quick; without an entry the defaults are checked.
# Support points give the points themselves unless rows are asked for.
OPTIONS: dict[str, dict[str, Any]] = {
    "support-points": {"rows": 60, "points": 10, "steps": 400, "burn": 100},
    "support-points-herding": {"rows": 60, "points": 10, "candidates": 64},
    "support-points-gp": {"rows": 60, "points": 20, "directions": 40},
    "kme": {"rows": 60, "points": 20, "features": 40},
    # Full lots need no search for the noise.
    "dpcgan": {"steps": 4, "rate": 1.0, "hidden": (8,), "generator_hidden": (8,)},
    "pategan": {"rounds": 3, "queries": 60, "features": 16, "moves": 2, "generator_hidden": (8,)},
    "dpgan": {"steps": 4, "rate": 1.0, "hidden": (8,), "generator_hidden": (8,)},
}


def cases():
    """Every generator with every check; the ear for streams is in the tests of side doors, too."""
    for name in sorted({plugin.name for plugin in plugins(GENERATORS)}):
        for check in GENERATOR_CHECKS:
            heard = check is check_streams and name not in ("independent", "privbayes")
            # A dpcgan is trained as a dpgan is.
            twin = name == "dpcgan" and check in (check_edge_tables, check_small_budget)
            marks = [pytest.mark.slow] if heard or twin else []
            yield pytest.param(name, check, marks=marks, id=f"{name}-{check.__name__}")


@pytest.mark.parametrize(("name", "check"), list(cases()))
def test_generator_conforms(name, check):
    plugin = next(plugin for plugin in plugins(GENERATORS) if plugin.name == name)
    if plugin.status == "missing":
        pytest.skip(plugin.reason)
    # One check of each network compiles it, as users do.
    quick = "tensorflow" in plugin.requires and check is not check_release
    with eagerly() if quick else contextlib.nullcontext():
        check(find(GENERATORS, name), OPTIONS.get(name))

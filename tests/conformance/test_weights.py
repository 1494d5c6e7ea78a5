"""Every registered weight estimator keeps the contract."""

from __future__ import annotations

import numpy as np
import pytest

from marginalsyn.errors import UsageError
from marginalsyn.plugins.audit.testkit.streams import check_weight_streams
from marginalsyn.plugins.audit.testkit.weights import (
    WEIGHT_CHECKS,
    check_weight_cost,
    check_weight_edge_tables,
    check_weight_recovery,
)
from marginalsyn.registry import WEIGHTS, find, plugins

OURS = sorted({plugin.name for plugin in plugins(WEIGHTS) if plugin.distribution == "marginalsyn"})
QUICK = {
    "dp-mlp": {"steps": 5, "hidden": (4,), "engine": "numpy"},
    "mlp": {"hidden": (4,), "epochs": 5},
}
FAMILIES = ("beta-debiased", "dp-mlp", "mlp", "rake+dp-mlp")
# auto is one of the others.
READERS = [name for name in OURS if name not in ("none", "discriminator", "auto")]
RECOVERY = {"dp-mlp": {"target": "rows", "steps": 80, "rate": 0.2, "engine": "numpy"}}


def cases():
    """Every estimator with every check; the long one for one estimator of each family."""
    for name in OURS:
        if name == "discriminator":  # it needs a release of its own: see the tests of the host
            continue
        for check in WEIGHT_CHECKS:
            long = check is check_weight_edge_tables and name not in FAMILIES
            heard = check is check_weight_streams and name in FAMILIES  # in those of side doors
            marks = [pytest.mark.slow] if long or heard else []
            yield pytest.param(name, check, marks=marks, id=f"{name}-{check.__name__}")


@pytest.mark.parametrize(("name", "check"), list(cases()))
def test_contract(name, check) -> None:
    check(find(WEIGHTS, name), QUICK.get(name))


@pytest.mark.parametrize("check", WEIGHT_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("dp-mlp", {"target": "rows", "steps": 5, "hidden": (4,), "engine": "numpy"}),
        ("beta-noised", {"target": "label"}),
    ],
    ids=["dp-mlp rows", "beta-noised label"],
)
def test_contract_of_other_targets(name, options, check) -> None:
    if check is check_weight_edge_tables and options["target"] == "label":
        with pytest.raises(UsageError, match="label"):  # some of these tables have none
            check(find(WEIGHTS, name), options)
        return
    check(find(WEIGHTS, name), options)


@pytest.mark.parametrize("noise", ["gamma", "laplace", "gaussian"])
@pytest.mark.parametrize("name", ["beta-noised", "beta-debiased"])
def test_cost_of_every_noise(name, noise) -> None:
    check_weight_cost(find(WEIGHTS, name), {"noise": noise})


@pytest.mark.parametrize("name", READERS)
def test_known_ratio_is_recovered(name) -> None:
    check_weight_recovery(find(WEIGHTS, name), RECOVERY.get(name))


def test_the_check_of_recovery_can_fail() -> None:
    with np.errstate(invalid="ignore"), pytest.raises(AssertionError, match="must correlate"):
        check_weight_recovery(find(WEIGHTS, "none"))

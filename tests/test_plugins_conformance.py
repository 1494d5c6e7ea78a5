"""Every registered weight estimator keeps the contract."""

from __future__ import annotations

import numpy as np
import pytest

from marginalsyn.registry import WEIGHTS, find, plugins
from marginalsyn.weight_testing import WEIGHT_CHECKS, check_weight_recovery

OURS = sorted({plugin.name for plugin in plugins(WEIGHTS) if plugin.distribution == "marginalsyn"})
QUICK = {
    "dp-mlp": {"steps": 5, "hidden": (4,)},
    "mlp": {"hidden": (4,), "epochs": 5},
}
READERS = [name for name in OURS if name not in ("none", "discriminator")]
RECOVERY = {"dp-mlp": {"steps": 150, "rate": 0.2}}


def test_all_are_registered() -> None:
    linear = {"logreg", "beta-noised", "beta-debiased", "output-laplace", "output-gaussian"}
    assert set(OURS) == {"none", "mlp", "dp-mlp", "discriminator", *linear}


@pytest.mark.parametrize("check", WEIGHT_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", [n for n in OURS if n != "discriminator"])
def test_contract(name, check) -> None:
    check(find(WEIGHTS, name), QUICK.get(name))


@pytest.mark.parametrize("noise", ["gamma", "laplace", "gaussian"])
@pytest.mark.parametrize("name", ["beta-noised", "beta-debiased"])
@pytest.mark.parametrize("check", WEIGHT_CHECKS[1:4], ids=lambda check: check.__name__)
def test_contract_of_every_noise(name, noise, check) -> None:
    options = {"noise": noise}
    if name == "beta-debiased":
        options["unnormalised"] = False
    check(find(WEIGHTS, name), options)


@pytest.mark.parametrize("name", READERS)
def test_known_ratio_is_recovered(name) -> None:
    check_weight_recovery(find(WEIGHTS, name), RECOVERY.get(name))


def test_the_check_of_recovery_can_fail() -> None:
    with np.errstate(invalid="ignore"), pytest.raises(AssertionError, match="must correlate"):
        check_weight_recovery(find(WEIGHTS, "none"))

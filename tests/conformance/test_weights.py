"""Every registered weight estimator keeps the contract."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import build_config
from marginalsyn.errors import UsageError
from marginalsyn.generators.independent import IndependentConfig
from marginalsyn.host import generate, weigh
from marginalsyn.plugins.audit.testkit.generators import example_schema
from marginalsyn.plugins.audit.testkit.weights import (
    WEIGHT_CHECKS,
    check_weight_cost,
    check_weight_edge_tables,
    check_weight_streams,
)
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.noise import make_noise
from marginalsyn.records.ledger import Ledger
from marginalsyn.registry import WEIGHTS, find, plugins
from marginalsyn.release.folder import Release
from marginalsyn.table.codec import Codec
from marginalsyn.table.schema import Schema

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


def check_weight_recovery(kind: Any, options: Any = None, **how: Any) -> None:
    """At a huge budget a known log ratio is found: the weights correlate with it above 0.9.

    The private rows are drawn from the release's own distribution, thinned by a known weight.
    """
    schema = example_schema().select(["age", "ill", "grade"])
    rng = np.random.default_rng(5)
    size = 4000
    pool = pd.DataFrame(
        {
            "age": rng.integers(0, 100, size),
            "ill": np.where(rng.random(size) < 0.5, "yes", "no"),
            "grade": rng.integers(1, 4, size),
        }
    )
    truth = _log_ratio(pool, schema)
    kept = pool[rng.random(size) < np.exp(truth - truth.max())]
    ledger = Ledger(None)
    base = PrivateTable.open(pool, schema, ledger=Ledger(None))
    generator = how.get("generator", IndependentConfig)
    synthesis, statement = generate(
        base, build_config(generator), Budget(eps=500), noise=make_noise(3)
    )
    with tempfile.TemporaryDirectory() as folder:
        release = Release.write(synthesis, schema, statement, Path(folder) / "release")
        table = PrivateTable.open(kept, schema, ledger=ledger)
        weighted = weigh(
            release,
            build_config(kind, options),  # type: ignore[arg-type]
            Budget(eps=1000),
            table,
            noise=make_noise(4),
            non_private=True,
        )
        truth = _log_ratio(release.frame(), schema)
        match = float(np.corrcoef(weighted.log_weights, truth)[0, 1])
        assert match > 0.9, f"log-weights must correlate with the truth above 0.9, not {match:.2f}"


def _log_ratio(frame: pd.DataFrame, schema: Schema) -> np.ndarray:
    """A log ratio that is linear in the codes."""
    codes = Codec(schema).encode(frame).astype(float)
    return 0.35 * codes[:, 0] - 1.0 * codes[:, 1] + 0.3 * codes[:, 2]


@pytest.mark.parametrize("name", READERS)
def test_known_ratio_is_recovered(name) -> None:
    check_weight_recovery(find(WEIGHTS, name), RECOVERY.get(name))


def test_the_check_of_recovery_can_fail() -> None:
    with np.errstate(invalid="ignore"), pytest.raises(AssertionError, match="must correlate"):
        check_weight_recovery(find(WEIGHTS, "none"))

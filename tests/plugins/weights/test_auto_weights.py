"""The method auto: what it chooses, and from what."""

from __future__ import annotations

import numpy as np
import pandas as pd

from marginalsyn import Budget, Ledger, PrivateTable, Schema, make_noise
from marginalsyn.contract import Target, make_config, make_weights
from marginalsyn.host import generate, weigh
from marginalsyn.plugins.weights.auto_weights import BOTH, LINE, AutoConfig
from marginalsyn.release.folder import Release


def made(path, method: str, *, rows: int = 3000, label: str | None = "y", eps: float = 3.0):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.integers(0, 3, rows) for name in "abc"})
    frame["y"] = (frame["a"] + rng.integers(0, 2, rows)) // 2 % 2
    schema = Schema.from_domain({"a": 3, "b": 3, "c": 3, "y": 2})
    schema = schema.model_copy(update={"label": label})
    table = PrivateTable.open(frame, schema, ledger=Ledger(None))
    noise = make_noise(1)
    synthesis, statement = generate(table, make_config(method), Budget(eps=eps), noise=noise)
    return table, Release.write(synthesis, schema, statement, path)


def test_a_line_where_the_budget_is_small_and_raking_first_where_it_is_large(tmp_path) -> None:
    table, release = made(tmp_path / "release", "independent")
    for eps, chosen in ((0.01, LINE), (6.0, BOTH)):
        told = AutoConfig().configure(Target.of(release), Budget(eps=eps)).plan.facts
        assert told["chosen"] == chosen
        assert set(told["predicted"]) == {LINE, BOTH}
        assert told["predicted_gain"] == told["predicted"][chosen]
    found = weigh(release, AutoConfig(), Budget(eps=0.01), table, noise=make_noise(2))
    assert found.facts["notes"]["auto"]["chosen"] == LINE
    assert len(found.charges) == 1


def test_the_raked_rows_and_not_the_released_ones_are_corrected_second(tmp_path) -> None:
    """The label's chances that were fitted for the prediction are those of the released rows."""
    table, release = made(tmp_path / "release", "independent")
    budget = Budget(eps=6.0)
    found = weigh(release, AutoConfig(), budget, table, noise=make_noise(2))
    own = weigh(release, make_weights("rake+dp-mlp"), budget, table, noise=make_noise(2))
    np.testing.assert_array_equal(found.weights, own.weights)


def test_the_choice_looks_at_nothing_private(tmp_path) -> None:
    """It is made from the release and the budget before there is a table."""
    _, release = made(tmp_path / "release", "independent")
    target, budget = Target.of(release), Budget(eps=0.5)
    one, two = (make_weights("auto").configure(target, budget) for _ in range(2))
    assert one.plan.facts["chosen"] == two.plan.facts["chosen"]

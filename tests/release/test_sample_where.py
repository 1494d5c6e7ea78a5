"""Rows of a release that agree with a condition: exact from models of marginals, else picked."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import marginalsyn
from marginalsyn import MarginalsynError, Release, Schema, Synthesizer
from marginalsyn.errors import ReleaseError, UsageError

SCHEMA = Schema(
    columns=(
        {"kind": "integer", "name": "age", "lower": 0, "upper": 99, "bins": 10},
        {"kind": "categorical", "name": "sex", "categories": ["female", "male"], "other": False},
        {"kind": "boolean", "name": "ill"},
    )
)


def people(rows: int = 3000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    sex = rng.choice(["female", "male"], rows, p=[0.8, 0.2])
    ill = rng.random(rows) < np.where(sex == "female", 0.9, 0.1)
    return pd.DataFrame({"age": rng.integers(0, 100, rows), "sex": sex, "ill": ill})


@pytest.mark.parametrize("method", ["aim", "mst", "independent", "all-marginals"])
def test_rows_agree_and_stand_to_each_other_as_in_the_model(method: str) -> None:
    made = Synthesizer(method=method, eps=50, schema=SCHEMA, seed=1).fit(people())
    found = made.sample(400, where="sex=male,age=35..52")
    assert len(found) == 400
    assert set(found["sex"]) == {"male"}
    assert found["age"].between(35, 52).all()
    if method != "independent":
        assert 0.03 < found["ill"].mean() < 0.25
    # How many of the private rows agree, as the release has it: 3000 x 0.2 x 0.18.
    assert 60 < len(made.sample(where={"sex": "male", "age": (35, 52)})) < 160


def test_what_cannot_be_says_why(tmp_path) -> None:  # type: ignore[no-untyped-def]
    made = Synthesizer(method="mst", eps=50, schema=SCHEMA, seed=1).fit(people())
    with pytest.raises(UsageError, match="must name a column"):
        made.sample(5, where="sec=male")
    release = made.release(tmp_path / "release")
    bare = Release.write(
        type(made._synthesis)(frame=made.synthetic_), SCHEMA, made.privacy_, tmp_path / "bare"
    )
    with pytest.raises(ReleaseError, match="must hold a model"):
        bare.sample(5, where="sex=male")
    with pytest.raises(MarginalsynError, match="whole number"):
        release.sample(0, where="sex=male")
    for inside in (release.path / "more.csv", release.path / "new" / "more.parquet"):
        with pytest.raises(UsageError, match="must not be a release or inside one"):
            release.sample(5, out=inside, force=True)
    assert marginalsyn.verify(release.path) == []

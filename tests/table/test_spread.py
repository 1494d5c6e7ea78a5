"""Budget that was spent on next to nothing is said, wherever a release is looked at."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from marginalsyn import Schema
from marginalsyn.contract import Measurement
from marginalsyn.table.codec import Codec
from marginalsyn.table.frames import wasted, wasted_counts

SCHEMA = Schema(
    columns=(
        {"kind": "integer", "name": "age", "lower": 0, "upper": 9, "nullable": True},
        {"kind": "categorical", "name": "code", "categories": ["a", "b"]},
        {"kind": "integer", "name": "cost", "lower": 0, "upper": 99, "bins": 10},
        {"kind": "boolean", "name": "ill"},
    )
)


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("age", 10, "age came out 85% missing"),
        ("code", 2, "code came out 85% OTHER"),
        ("cost", 9, ""),
        ("ill", 1, ""),
    ],
)
def test_a_crowded_code_is_told_where_it_says_nothing(name: str, code: int, words: str) -> None:
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, 2, 1000) for _ in SCHEMA.columns], axis=1).astype(np.int32)
    codes[:850, SCHEMA.names.index(name)] = code
    found = wasted(Codec(SCHEMA).decode(codes, rng), SCHEMA)
    assert len(found) == bool(words)
    assert all(words in sentence for sentence in found)
    assert wasted(Codec(SCHEMA).decode(codes[:40], rng), SCHEMA) == []
    codes[:, 2] = 9
    assert any(
        "100% in its last bin, [90, 99]" in s
        for s in wasted(Codec(SCHEMA).decode(codes, rng), SCHEMA)
    )


def test_a_code_that_nearly_all_rows_have_stops_no_run() -> None:
    """An integer column may hold codes, which have no bounds; a wide last bin is another matter."""
    code = Measurement(columns=("age",), values=np.array([*[1.0] * 9, 990, 0]), sigma=1.0)
    cost = Measurement(columns=("cost",), values=np.array([*[1.0] * 9, 990]), sigma=1.0)
    (found,) = wasted_counts([code, cost], SCHEMA)
    assert found.startswith("column cost is 99% in its last bin, [90, 99]: check its bounds")
    frame = pd.DataFrame({"age": [9] * 100, "code": ["a", "b"] * 50, "cost": [*range(100)]})
    frame["ill"] = [True, False] * 50
    (said,) = wasted(frame.astype({"age": "Int64"}), SCHEMA)
    assert said == "column age came out 100% 9: where values beyond occur, move its upper bound"

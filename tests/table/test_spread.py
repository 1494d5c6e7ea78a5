"""Budget that was spent on next to nothing is said, wherever a release is looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginalsyn import Schema
from marginalsyn.table.codec import Codec
from marginalsyn.table.spread import wasted

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


def test_generate_show_and_verify_repeat_it(run: Any, people: Path) -> None:
    """A column whose values are spelt as the schema does not know: half a promise for nothing."""
    rows = pd.read_csv(people)
    rows["ward"] = "Ward A"
    rows.to_csv(people, index=False)
    source = ("--data", "people.csv", "--schema", "people.json")
    told = run("generate", *source, "--eps", "5", "--method", "independent")
    for result in (told, run("show"), run("verify")):
        assert "column ward came out" in result.stderr

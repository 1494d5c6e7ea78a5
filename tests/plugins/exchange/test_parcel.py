"""Parcels: what is written is read back, and what contradicts itself is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marginalsyn import MarginalsynError
from marginalsyn.plugins.exchange.parcel import Parcel, Part, read_parcel


def parcel() -> Parcel:
    groups = np.array([0, 1, 1])
    return Parcel(
        domain={"a": 2, "b/c": 3},
        tool="mine 1",
        labels={"a": ("no", "yes")},
        total=9.5,
        measurements=(
            Part(columns=("b/c",), values=np.array([1.5, 2, 6]), sigma=2.0),
            Part(columns=("b/c", "a"), values=np.eye(2), sigma=1.0, groups={"b/c": groups}),
        ),
        potentials=(Part(columns=("a",), values=np.array([0.0, -np.inf])),),
        rows=np.array([[0, 2], [1, 0]]),
        stated={"eps": 1.0, "by": "me"},
    )


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"format": "pickle"}, "format"),
        ({"version": 2}, "version"),
        ({"domain": [["a", 2], ["a", 2]]}, "once"),
        ({"domain": [["a", 3], ["b/c", 3]], "labels": {}}, "shape"),
        ({"labels": {"a": ["one"]}}, "labels of a"),
        ({"total": -1.0}, "total"),
        ({"rows": "nothing"}, "nothing"),
        ({"measurements": [{"array": "m0", "columns": ["b/c"]}]}, "standard deviation"),
        ({"measurements": [{"array": "m0", "columns": ["x"], "sigma": 1}]}, "of the domain"),
        (
            {
                "measurements": [
                    {"array": "m0", "columns": ["b/c"], "sigma": 1, "groups": {"a": "g0"}}
                ]
            },
            "groups",
        ),
        ({"code": "import os"}, "code"),
    ],
)
def test_a_false_index_is_refused(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    file = parcel().write(tmp_path) / "parcel.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(MarginalsynError, match=told):
        read_parcel(tmp_path)


def test_pickles_are_refused(tmp_path: Path) -> None:
    parcel().write(tmp_path)
    np.savez(tmp_path / "parcel.npz", m0=np.array([{"a": 1}], dtype=object))
    with pytest.raises(MarginalsynError, match=r"not allowed|readable"):
        read_parcel(tmp_path)


def test_codes_outside_of_the_domain_are_refused(tmp_path: Path) -> None:
    from dataclasses import replace

    replace(parcel(), rows=np.array([[0, 3]])).write(tmp_path)
    with pytest.raises(MarginalsynError, match="codes"):
        read_parcel(tmp_path)

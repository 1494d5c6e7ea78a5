"""Weighted rows against the release's own noisy answers: by hand, and on the screen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from marginalsyn import Budget, PrivateTable, Schema, Unit, make_noise
from marginalsyn.contract import make_config
from marginalsyn.graphical.estimation import estimate_total
from marginalsyn.host import generate
from marginalsyn.plugins.audit.testkit.generators import example_frame, example_schema
from marginalsyn.release.folder import Release
from marginalsyn.table.design import CodedRows
from marginalsyn.weights.support import agreement

SCHEMA = example_schema()


def make(folder: Path, eps: float, rows: int | None = None) -> Release:
    table = PrivateTable.open(example_frame(2000), SCHEMA)
    config = make_config("independent", {"rows": rows})
    made, statement = generate(table, config, Budget(eps=eps), noise=make_noise(1))
    return Release.write(made, SCHEMA, statement, folder / "release")


def test_against_sums_by_hand(tmp_path: Path) -> None:
    release = make(tmp_path, 20)
    assert agreement(release, "w") is None
    rows = len(release.frame())
    total, _ = estimate_total(release.measurements())
    frame = pd.DataFrame({"w": np.random.default_rng(0).gamma(2.0, 1.0, rows), "one": 1.0})
    release = release.amend({"weights.csv": frame.to_csv(index=False).encode()})
    told, plain = agreement(release, "w"), agreement(release, "one")
    assert told is not None
    assert plain is not None
    assert plain["weighted"] == pytest.approx(plain["unweighted"])
    codes = CodedRows.of(release.frame(), SCHEMA).codes
    errors = []
    for one in release.measurements():
        (name,) = one.columns
        column = codes[:, SCHEMA.names.index(name)]
        shares = [frame.w[column == k].sum() / frame.w.sum() for k in range(one.values.size)]
        errors.append(np.abs(shares - one.values / total).sum())
    assert told["answers"] == len(errors) == len(SCHEMA.names)
    assert told["weighted"] == pytest.approx(np.mean(errors))
    # Independent columns were drawn to their answers: what is off is noise and rounding.
    assert told["unweighted"] < told["weighted"]


def test_releases_of_other_sizes_are_held_against_the_same_answers(tmp_path: Path) -> None:
    """Answers count private rows: 2,000, whatever a release has."""
    release = make(tmp_path, 20, rows=500)
    frame = pd.DataFrame({"one": np.ones(500)})
    told = agreement(release.amend({"weights.csv": frame.to_csv(index=False).encode()}), "one")
    assert told is not None
    # Five hundred draws of ten values or so are off by some hundredths; a wrong size by 3.
    assert told["unweighted"] < 0.2


def test_persons_are_held_against_persons(tmp_path: Path) -> None:
    """Ones with many rows have another value: counted by rows the shares would be far off."""
    many = np.arange(1000) % 2 * 5 + 1
    frame = pd.DataFrame({"who": np.arange(1000).repeat(many), "a": (many > 1).repeat(many) * 1})
    schema = Schema.from_domain({"a": 2}).with_unit(Unit(column="who", max_rows=6))
    table = PrivateTable.open(frame, schema)
    config = make_config("independent")
    made, statement = generate(table, config, Budget(eps=20), noise=make_noise(1))
    release = Release.write(made, schema, statement, tmp_path / "release")
    ones = pd.DataFrame({"one": np.ones(len(release.frame()))})
    told = agreement(release.amend({"weights.csv": ones.to_csv(index=False).encode()}), "one")
    assert told is not None
    assert told["unweighted"] < 0.2

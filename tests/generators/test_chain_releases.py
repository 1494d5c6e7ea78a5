"""Releases whose marginals no exact model holds: the choice, and what a reader does with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from marginalsyn import Ledger, Release, Synthesizer
from marginalsyn.errors import DataError, Interrupted
from marginalsyn.plugins.exchange.mbi import parcel_of
from marginalsyn.table.schema import Schema

NAMES, CODES, ROWS = "abcdefgh", 5, 8000
# All pairs of eight columns need a model of 3 MB; a tenth of a percent of it is given.
SMALL = {"max_model_mb": 0.003}


def schema() -> Schema:
    plain = Schema.from_domain(dict.fromkeys(NAMES, CODES))
    return plain.model_copy(update={"impossible": ({"a": 0, "b": 4},)})


def table(rows: int = ROWS) -> pd.DataFrame:
    """Columns that all say something of each other, through one that is not in the table."""
    rng = np.random.default_rng(0)
    hidden = rng.integers(0, CODES, rows)
    columns = {}
    for name in NAMES:
        own = rng.integers(0, CODES, rows)
        columns[name] = np.where(rng.random(rows) < 0.7, hidden, own)
    frame = pd.DataFrame(columns)
    return frame[~((frame.a == 0) & (frame.b == 4))].reset_index(drop=True)


def synthesizer(**options: object) -> Synthesizer:
    return Synthesizer(eps=20.0, schema=schema(), options={**SMALL, **options}, seed=1)


@pytest.fixture(scope="module")
def real() -> pd.DataFrame:
    return table()


@pytest.fixture(scope="module")
def made(real: pd.DataFrame) -> Synthesizer:
    return synthesizer().fit(real)


@pytest.fixture(scope="module")
def release(made: Synthesizer, tmp_path_factory: pytest.TempPathFactory) -> Release:
    return made.release(tmp_path_factory.mktemp("chain") / "release")


def test_a_chain_that_comes_no_nearer_is_not_used(
    real: pd.DataFrame, made: Synthesizer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def wander(optimum: Any, marginals: np.ndarray, rate: float) -> None:
        optimum.chain.flat[:] = np.random.default_rng(1).normal(0.0, 3.0, optimum.chain.flat.size)

    monkeypatch.setattr("marginalsyn.graphical.row_chains._Optimum.step", wander)
    lost = synthesizer().fit(real)
    assert "The exact model was kept." in lost.privacy_.notes["chain"]["text"]
    found = lost.release(tmp_path / "lost").sample(8000, seed=1)
    assert "The exact model was kept." not in made.privacy_.notes["chain"]["text"]
    for name in NAMES:
        shares = [t[name].value_counts(normalize=True) for t in (real, found, lost.synthetic_)]
        for other in shares[1:]:
            assert abs(shares[0].subtract(other, fill_value=0)).sum() / 2 < 0.03


def test_an_exact_model_stays_where_it_suffices(real: pd.DataFrame) -> None:
    whole = [
        Synthesizer(eps=20.0, schema=schema(), options={"sweeps": n}, seed=1).fit(real)
        for n in (0, 300)
    ]
    assert "chain" not in whole[1].privacy_.notes
    pd.testing.assert_frame_equal(whole[0].synthetic_, whole[1].synthetic_)
    # And where rows are so few that drawing them would add more than a chain gains.
    nearly = {"max_model_mb": 1.3}
    little = Synthesizer(eps=20.0, schema=schema(), options=nearly, seed=1).fit(real[:400])
    assert "chain" not in little.privacy_.notes


def test_a_run_that_was_interrupted_in_the_chain_goes_on(
    real: pd.DataFrame, made: Synthesizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    again = clone(made).set_params(ledger="kept.sqlite")

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("marginalsyn.graphical.chain_model.extend", stop)
        with pytest.raises(Interrupted):
            again.fit(real)
    pd.testing.assert_frame_equal(again.fit(real, resume=True).synthetic_, made.synthetic_)
    assert len(Ledger("kept.sqlite").read().entries) == 1


def test_rows_that_agree_with_a_condition(real: pd.DataFrame, release: Release) -> None:
    found = release.sample(20_000, where="a=0|1,h=2", seed=3)
    assert set(found.a) == {0, 1}
    assert set(found.h) == {2}
    assert not ((found.a == 0) & (found.b == 4)).any()
    agree = real[real.a.isin((0, 1)) & (real.h == 2)]
    for name in "bcg":
        shares = [t[name].value_counts(normalize=True) for t in (agree, found)]
        assert abs(shares[0].subtract(shares[1], fill_value=0)).sum() / 2 < 0.06
    assert len(release.sample(where="a=0|1,h=2")) == pytest.approx(len(agree), rel=0.1)
    with pytest.raises(DataError, match="condition"):
        release.sample(5, where="a=0,b=4")


def test_an_export_has_no_model_but_says_so(release: Release) -> None:
    parcel, lost = parcel_of(release)
    assert parcel.measurements
    assert not parcel.potentials
    assert any("chain" in line for line in lost)

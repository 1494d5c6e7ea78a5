"""The command ``export``, and mbi's objects from what it writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

from marginalsyn.errors import UsageError
from marginalsyn.plugins.exchange import mbi as parcels

Run = Callable[..., Result]


@pytest.fixture
def release(run: Run, folder: Path) -> Path:
    """A release of Heart in ./release."""
    run("generate", "-q", "--dataset", "heart", "--method", "mst", "--eps", 1, "--rows", 40)
    return folder / "release"


def test_a_form_must_be_named(run: Run, release: Path) -> None:
    assert "--to" in run("export", code=2).stderr


def test_nothing_is_overwritten(run: Run, release: Path) -> None:
    run("export", release, "--to", "mbi")
    assert "--force" in run("export", release, "--to", "mbi", code=2).stderr
    run("export", release, "--to", "mbi", "--force")


def test_mbi_reads_merged_measurements(run: Run, folder: Path, release: Path) -> None:
    mbi = pytest.importorskip("mbi")
    run("export", "--to", "mbi", "--out", "for-mbi")
    found = parcels.load(folder / "for-mbi")
    merged = [one for one in found.measurements if np.size(one.noisy_measurement)]
    names = {type(one.query).__name__ for one in merged}
    assert "_Grouped" in names, "at eps 1 Heart has codes to merge"
    for one in merged:
        table = mbi.Factor.ones(found.domain.project(one.clique))
        answer = np.asarray(one.query(table))
        assert answer.size == np.size(one.noisy_measurement)
        assert answer.sum() == pytest.approx(np.size(table.values), rel=1e-5)


def test_live_objects_make_the_round_trip(run: Run, folder: Path, release: Path) -> None:
    pytest.importorskip("mbi")
    run("export", "--to", "mbi", "--out", "for-mbi")
    found = parcels.load(folder / "for-mbi")
    whole = [one for one in found.measurements if type(one.query).__name__ != "_Grouped"]
    place = parcels.save(
        folder / "back", measurements=whole, model=found.model, data=found.data, stated={"eps": 1}
    )
    again = parcels.load(place)
    assert [one.clique for one in again.measurements] == [one.clique for one in whole]
    assert np.allclose(
        np.asarray(again.model.project(("age", "sex")).values),
        np.asarray(found.model.project(("age", "sex")).values),
        atol=0.1,
    )
    with pytest.raises(UsageError, match="whole marginal"):
        parcels.save(folder / "no", measurements=found.measurements, model=found.model)

"""What mbi, smartnoise-synth, OpenDP, dpsynth, SDV and synthcity really wrote, adopted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import Result

from marginalsyn.certificates.measured import verify
from marginalsyn.plugins.exchange.parcel import read_parcel
from marginalsyn.plugins.exchange.redrawing import adopt_parcel
from marginalsyn.release.folder import Release

Run = Callable[..., Result]
OTHERS = Path(__file__).parent / "others"
COLUMNS = [
    {"kind": "categorical", "name": "region", "categories": ["north", "south", "east", "west"]},
    {"kind": "integer", "name": "age", "lower": 0, "upper": 99, "bins": 10},
    {"kind": "categorical", "name": "visit", "categories": ["Never", "Monthly"]},
    {"kind": "boolean", "name": "ill", "true_label": "yes", "false_label": "no"},
]


@pytest.mark.parametrize("tool", ["mbi", "smartnoise", "dpsynth", "sdv", "synthcity"])
def test_rows_are_adopted_and_what_changes_is_told(run: Run, folder: Path, tool: str) -> None:
    """'Weekly' is no category of this schema, and dpsynth writes ages with decimals."""
    Path("schema.json").write_text(json.dumps({"label": "ill", "columns": COLUMNS}))
    rows = pd.read_csv(OTHERS / f"{tool}.csv")
    told = run("adopt", OTHERS / f"{tool}.csv", "--schema", "schema.json", "--tool", tool).stderr
    weekly = int((rows["visit"] == "Weekly").sum())
    assert weekly > 0
    assert f"{weekly} not in the schema ('Weekly')" in told
    decimals = int((rows["age"] % 1 != 0).sum())
    assert (f"{decimals} not whole" in told) == (decimals > 0) == (tool == "dpsynth")
    left = [name for name in rows if name not in ("region", "age", "visit", "ill")]
    assert (f"left out: {', '.join(left)}" in told) == bool(left)
    release = Release.read("release")
    assert len(release.frame()) == 120
    assert release.statement.parameters["tool"] == tool
    assert "No guarantee is stated" in release.statement.why
    run("verify")


@pytest.mark.parametrize("tool", ["mbi", "smartnoise", "opendp", "dpsynth"])
def test_parcels_of_fitted_objects_are_drawn_anew(tmp_path: Path, tool: str) -> None:
    """Shares of the invented table, of which each tool saw 4,000 rows."""
    parcel = read_parcel(OTHERS / tool)
    made = adopt_parcel(parcel, tmp_path / "r", rng=np.random.default_rng(0))
    assert verify(made.path) == []
    frame = made.frame().astype(str)
    assert abs(len(frame) - 4000) < 60
    assert "Stated by" in made.statement.why
    codes = {"visit": {"0": "Never", "1": "Monthly", "2": "Weekly"}, "ill": {"0": "no", "1": "yes"}}
    table = frame.replace(codes) if tool == "mbi" else frame
    found = pd.crosstab(table["visit"], table["ill"], normalize=True)
    known = {
        ("Never", "no"): 0.294,
        ("Never", "yes"): 0.157,
        ("Monthly", "no"): 0.180,
        ("Monthly", "yes"): 0.280,
        ("Weekly", "no"): 0.060,
        ("Weekly", "yes"): 0.028,
    }
    for (visit, ill), share in known.items():
        assert found.loc[visit, ill] == pytest.approx(share, abs=0.02)

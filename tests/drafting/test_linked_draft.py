"""Drafts of linked schemas: keys and links are found, bounds on children are not read off."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from click.testing import Result

from marginalsyn import LinkedSchema
from marginalsyn.drafting.linked_draft import draft_linked, holds_several, read_tables
from marginalsyn.errors import DataError


@pytest.fixture
def clinic(folder: Path) -> Path:
    place = folder / "clinic"
    place.mkdir()
    tables = {
        "patients": pd.DataFrame(
            {"patient_id": [f"p{i}" for i in range(40)], "sex": ["f", "m"] * 20}
        ),
        "visits": pd.DataFrame(
            {
                "visit_id": range(100, 220),
                "patient_id": [f"p{i % 40}" for i in range(120)],
                "date": [f"2020-01-{1 + i % 28:02}" for i in range(120)],
                "ward": ["A", "B", "C"] * 40,
            }
        ),
        "drugs": pd.DataFrame(
            {
                "visit_id": [100 + i % 120 for i in range(300)],
                "patient_id": [f"p{i % 40}" for i in range(300)],
                "dose": [1, 2, 3] * 100,
            }
        ),
        "codes": pd.DataFrame({"code": ["A", "B"], "text": ["one", "two"]}),
    }
    for name, frame in tables.items():
        frame.to_csv(place / f"{name}.csv", index=False)
    return place


def test_keys_links_and_order_are_found(clinic: Path) -> None:
    assert holds_several(clinic)
    draft = draft_linked(clinic)
    found = {t.name: (t.key, t.parent, t.link, t.order) for t in draft.tree.tables}
    assert found == {
        "patients": ("patient_id", None, None, None),
        "visits": ("visit_id", "patients", "patient_id", "date"),
        "drugs": (None, "visits", "visit_id", None),
    }
    assert draft.tree.family.tables == {"visits": 3, "drugs": 3}
    assert draft.tree.drafted_from_data
    assert any("codes is left out" in remark for remark in draft.remarks)


def test_the_command_writes_what_generate_takes_only_when_it_is_accepted(
    clinic: Path, run: Callable[..., Result], folder: Path
) -> None:
    told = run("schema", "infer", "clinic", "--out", "clinic.json").output
    assert "NOT PRIVATE" in told
    assert LinkedSchema.read(folder / "clinic.json").drafted_from_data
    asked = ("generate", "--data", "clinic", "--schema", "clinic.json", "--eps", 5, "--seed", 1)
    assert "drafted_from_data" in run(*asked, code=2).output
    for option in (("--unit", "patient_id"), ("--order", "date"), ("--sequence",)):
        assert "are for one table" in run(*asked, *option, code=2).output
    run(*asked, "--accept-nonprivate-schema")
    assert "10 files verified" in run("verify").output


def test_files_of_a_folder_are_read_and_written_as_they_come(
    run: Callable[..., Result], clinic: Path
) -> None:
    frame = pd.read_csv(clinic / "visits.csv").assign(pain=[0, -5, 2, 3] * 30, town="Köln")
    frame = frame.rename(columns={"town": "ward"})
    patients = pd.read_csv(clinic / "patients.csv").replace("m", "männlich")
    for name, rows in {"visits": frame, "patients": patients}.items():
        rows.to_csv(clinic / f"{name}.csv", index=False, sep=";", encoding="latin-1")
    asked = (
        "--rename-duplicates",
        "--missing",
        "visits.pain=-5",
        "--kind",
        "visits.ward_2=categorical",
    )
    run("schema", "infer", "clinic", *asked, "--out", "clinic.json")
    visits = LinkedSchema.read("clinic.json").table("visits").schema
    assert visits is not None
    assert visits.column("pain").missing_tokens == ("-5",)
    assert visits.reading == {"encoding": "latin-1", "rename_duplicates": True}
    made = ("--data", "clinic", "--schema", "clinic.json", "--method", "clique-tree", "--eps", 9)
    run("generate", *made, "--as-input", "--accept-nonprivate-schema", "--go-on")
    text = (clinic.parent / "release" / "visits.csv").read_text(encoding="latin-1")
    assert text.startswith("visit_id;patient_id;date;ward;pain;ward_2\n")
    assert "Köln" in text


def test_a_folder_without_links_is_refused(tmp_path: Path) -> None:
    pd.DataFrame({"a": [1, 2]}).to_csv(tmp_path / "one.csv", index=False)
    with pytest.raises(DataError, match="must be a folder"):
        draft_linked(tmp_path)
    pd.DataFrame({"b": [1, 2]}).to_csv(tmp_path / "two.csv", index=False)
    with pytest.raises(DataError, match="refer to each other"):
        draft_linked(tmp_path)


def test_a_column_that_many_persons_share_is_kept_though_it_is_called_like_a_key(
    clinic: Path,
) -> None:
    """Of 720 patients, twelve have each district; every two have one guardian."""
    patients = pd.DataFrame({"patient_id": [f"p{i}" for i in range(720)]})
    patients["district_id"] = [100 + i % 60 for i in range(720)]
    patients["guardian_id"] = [1000 + i // 2 for i in range(720)]
    patients.to_csv(clinic / "patients.csv", index=False)
    draft = draft_linked(clinic)
    schema = draft.tree.table("patients").schema
    assert schema is not None
    assert schema.column("district_id").kind == "categorical"
    assert schema.column("district_id").levels == 60
    assert "guardian_id" in schema.drop
    assert any("patients: district_id is kept" in remark for remark in draft.remarks)
    patients["clinic_id"], patients["ward_id"] = patients["district_id"], patients["district_id"]
    remarks = draft_linked({**read_tables(clinic), "patients": patients}).remarks
    kept = [line.split()[2] for line in remarks if "is kept" in line]
    assert kept == ["clinic_id", "district_id", "ward_id"]
    # What is asked for is done.
    asked = draft_linked(clinic, kinds={"patients.district_id": "drop"})
    assert asked.tree.table("patients").schema is None

"""What the examples in docstrings may use: ``pytest --doctest-modules marginalsyn cli plugins``.

``np`` and ``pd``; ``schema``, of an age and an illness; ``frame``, 100 rows of it; ``Budget`` and
``make_noise``. An example that names "release" finds a release of these rows in its current
folder. One that names "clinic", "clinic.schema.json" or "clinic-release" finds patients and their
visits there, with ``held_out``, other patients and theirs.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from marginalsyn import Budget
from marginalsyn.access.linked_tables import PrivateForest
from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import make_config
from marginalsyn.host import generate
from marginalsyn.people.tree import LinkedSchema, LinkedTable
from marginalsyn.privacy.noise import make_noise
from marginalsyn.release.folder import Release
from marginalsyn.release.linked import LinkedRelease
from marginalsyn.table.columns import BooleanColumn, CategoricalColumn
from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn
from marginalsyn.table.schema import Schema

AGE = IntegerColumn(name="age", lower=0, upper=99, bins=10)
SCHEMA = Schema(
    columns=(AGE, BooleanColumn(name="ill", true_label="yes", false_label="no")),
    label="ill",
    positive="yes",
)
WARD = CategoricalColumn(name="ward", categories=["heart", "eyes"])
TREE = LinkedSchema(
    (
        LinkedTable("patients", SCHEMA, key="patient_id"),
        LinkedTable(
            "visits",
            Schema(columns=(WARD,)),
            parent="patients",
            link="patient_id",
            max_children=20,
        ),
    )
)


def people() -> pd.DataFrame:
    """100 rows: every third person is ill."""
    ill = np.where(np.arange(100) % 3 == 0, "yes", "no")
    return pd.DataFrame({"age": np.arange(100), "ill": ill})


@pytest.fixture(scope="session")
def example_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples") / "release"
    table = PrivateTable.open(people(), SCHEMA)
    config = make_config("independent", {"rows": 100})
    synthesis, statement = generate(table, config, Budget(eps=2.0), noise=make_noise(0))
    Release.write(synthesis, SCHEMA, statement, folder)
    return folder


def clinic() -> dict[str, pd.DataFrame]:
    """The same people, with one to three visits each."""
    patients = people()
    patients.insert(0, "patient_id", np.arange(100))
    visits = pd.DataFrame({"patient_id": np.repeat(np.arange(100), np.arange(100) % 3 + 1)})
    visits["ward"] = np.where(np.arange(len(visits)) % 3 == 0, "heart", "eyes")
    return {"patients": patients, "visits": visits}


@pytest.fixture(scope="session")
def example_clinic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("clinics")
    (place / "clinic").mkdir()
    for name, frame in clinic().items():
        frame.to_csv(place / "clinic" / f"{name}.csv", index=False)
    (place / "clinic.schema.json").write_text(TREE.to_json())
    made, statement = generate(
        PrivateForest.open(clinic(), TREE),
        make_config("clique-tree"),
        Budget(eps=20.0),
        noise=make_noise(0),
    )
    LinkedRelease.write(
        made.frames, made.measurements, made.model, TREE, statement, place / "clinic-release"
    )
    return place


@pytest.fixture(autouse=True)
def _names_of_examples(request: pytest.FixtureRequest) -> None:
    """Gives an example its names and an empty current folder; other tests are left alone."""
    if not isinstance(request.node, pytest.DoctestItem):
        return
    folder = request.getfixturevalue("tmp_path")
    patch = request.getfixturevalue("monkeypatch")
    patch.chdir(folder)
    patch.setenv("MARGINALSYN_LEDGERS", str(folder / "ledgers"))
    test = request.node.dtest
    if any('"release"' in example.source for example in test.examples):
        shutil.copytree(request.getfixturevalue("example_release"), folder / "release")
    if any('"clinic' in example.source for example in test.examples):
        place = request.getfixturevalue("example_clinic")
        shutil.copytree(place, folder, dirs_exist_ok=True)
    names = {"np": np, "pd": pd, "schema": SCHEMA, "frame": people(), "held_out": clinic()}
    names |= {"Budget": Budget, "ContinuousColumn": ContinuousColumn, "make_noise": make_noise}
    test.globs.update({name: held for name, held in names.items() if name not in test.globs})

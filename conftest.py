"""What the examples in docstrings may use: ``pytest --doctest-modules marginalsyn cli plugins``.

``np`` and ``pd``; ``schema``, of an age and an illness; ``frame``, 100 rows of it; ``Budget`` and
``make_noise``. An example that names "release" finds a release of these rows in its current
folder.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from marginalsyn import Budget
from marginalsyn.contract import make_config
from marginalsyn.host import generate
from marginalsyn.noise import make_noise
from marginalsyn.private import PrivateTable
from marginalsyn.release import Release
from marginalsyn.table import BooleanColumn, IntegerColumn, Schema

AGE = IntegerColumn(name="age", lower=0, upper=99, bins=10)
SCHEMA = Schema(
    columns=(AGE, BooleanColumn(name="ill", true_label="yes", false_label="no")),
    label="ill",
    positive="yes",
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
    names = {"np": np, "pd": pd, "schema": SCHEMA, "frame": people()}
    names |= {"Budget": Budget, "make_noise": make_noise}
    test.globs.update({name: held for name, held in names.items() if name not in test.globs})

"""Release folders from strangers: whatever is in them, they are read without harm or refused.

What fuzzing found once is in tests/corpus/ and is tried again here.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from marginalsyn import Budget, PrivateTable, make_noise
from marginalsyn.certificates.measured import verify
from marginalsyn.contract import Synthesis, make_config
from marginalsyn.errors import ReleaseError
from marginalsyn.host import generate
from marginalsyn.operations.release import Release
from marginalsyn.plugins.audit.testkit.generators import example_frame, example_schema
from marginalsyn.release import staging as folders
from marginalsyn.release.sampling import sample
from marginalsyn.release.staging import load_arrays
from marginalsyn.release.statement import Statement
from marginalsyn.table import frames

SCHEMA = example_schema()
ROOT = Path(__file__).parents[2]


def load(name: str) -> ModuleType:
    """A script of the benchmarks as a module."""
    path = ROOT / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


TARGETS = load("fuzz_targets")
FUZZ = load("fuzz")


@pytest.fixture(scope="module")
def made() -> tuple[Synthesis, Statement]:
    table = PrivateTable.open(example_frame(40), SCHEMA)
    config = make_config("independent", {"rows": 20})
    return generate(table, config, Budget(eps=1), noise=make_noise(1))


@pytest.fixture(params=["csv", "parquet"])
def release(
    tmp_path: Path, request: pytest.FixtureRequest, made: tuple[Synthesis, Statement]
) -> Release:
    found, statement = made
    return Release.write(found, SCHEMA, statement, tmp_path / "release", format=request.param)


def forge(release: Release, name: str, data: bytes) -> None:
    """Change a file together with its recorded hash."""
    (release.path / name).write_bytes(data)
    edit(release, lambda told: told["files"].update({name: folders.sha256(release.path / name)}))


def edit(release: Release, change: Any) -> None:
    path = release.path / "privacy.json"
    told = json.loads(path.read_text())
    change(told)
    path.write_text(json.dumps(told))


# -- paths ----------------------------------------------------------------------------------------

ESCAPES = ["../secret", "/etc/passwd", "a/b", "..", ".", "", ".hidden", "a\x00b", "~", "C:\\x", "é"]


@pytest.mark.parametrize("name", ESCAPES)
def test_no_name_leads_out_of_the_folder(release: Release, tmp_path: Path, name: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    edit(release, lambda told: told["files"].update({name: folders.sha256(secret)}))
    with pytest.raises(ReleaseError, match="plain names"):
        Release.read(release.path)
    (problem,) = verify(release.path)
    assert "secret\n" not in problem


@pytest.mark.parametrize("kind", ["link", "folder", "pipe", "link to a folder"])
def test_only_regular_files_are_opened(release: Release, tmp_path: Path, kind: str) -> None:
    path = release.path / "model.npz"
    kept = tmp_path / "elsewhere"
    path.rename(kept)
    if kind == "link":
        path.symlink_to(kept)
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)  # opening it would wait for ever
    else:
        path.symlink_to(tmp_path)
    with pytest.raises(ReleaseError, match="regular file"):
        Release.read(release.path).model()
    assert any("regular file" in problem for problem in verify(release.path))


def test_a_statement_that_is_a_link_is_not_read(release: Release, tmp_path: Path) -> None:
    kept = tmp_path / "elsewhere"
    (release.path / "privacy.json").rename(kept)
    (release.path / "privacy.json").symlink_to(kept)
    with pytest.raises(ReleaseError, match="regular file"):
        Release.read(release.path)


def test_every_file_must_have_its_hash(release: Release) -> None:
    for name in Release.read(release.path).statement.files:
        path = release.path / name
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        assert any(name in problem and "hash" in problem for problem in verify(release.path)), name
        path.write_bytes(data)
    assert verify(release.path) == []


# -- sizes ----------------------------------------------------------------------------------------


def test_tables_have_a_limit(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marginalsyn.release.folder.MAX_TABLE", 50)
    with pytest.raises(ReleaseError, match="must be at most 50 bytes"):
        Release.read(release.path).frame()
    assert any("at most 50 bytes" in problem for problem in verify(release.path))


def test_a_parquet_file_that_swells_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = SCHEMA.select(["age"])
    path = tmp_path / "x.parquet"
    pd.DataFrame({"age": np.zeros(10**6, dtype=np.int64)}).to_parquet(path)
    assert path.stat().st_size < 10**5
    monkeypatch.setattr(frames, "MOST_CELLS", 10**6 - 1)
    with pytest.raises(ReleaseError, match="must have at most 999,999 cells"):
        frames.read_parquet(path, schema)


def test_an_archive_that_swells_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(20):
            archive.writestr(f"a{number}.npy", bytes(2**20))
    with pytest.raises(ReleaseError, match="must unpack to at most"):
        load_arrays(path, limit=2**20)


def test_names_in_an_archive_write_nothing(tmp_path: Path) -> None:
    stream = tmp_path / "a.npz"
    np.savez(stream, **{"../../escaped": np.zeros(1)})
    assert list(load_arrays(stream)) == ["../../escaped"]
    assert not (tmp_path.parent.parent / "escaped.npy").exists()


@pytest.mark.parametrize("error", [MemoryError(), ValueError("x"), OSError(5, "x")])
def test_what_cannot_be_read_is_refused(
    release: Release, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise error

    for name in ("read_csv", "read_parquet"):
        monkeypatch.setattr(pd, name, fail)
    with pytest.raises(ReleaseError, match="readable"):
        Release.read(release.path).frame()


# -- contents -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "meta", [{"rows": "many"}, {"rows": 10**12}, {"rows": -1}, {"rows": None}, {}]
)
def test_a_strange_model_is_refused(release: Release, meta: dict[str, Any]) -> None:
    told = json.loads((release.path / "model.json").read_text())
    forge(release, "model.json", json.dumps({**told, "meta": meta}).encode())
    with pytest.raises(Exception, match=r"must be|at least") as refused:
        sample(Release.read(release.path), None, np.random.default_rng(0))
    assert type(refused.value).__module__ == "marginalsyn.errors"


def test_a_model_without_its_arrays_is_refused(release: Release) -> None:
    from marginalsyn.contract import Model
    from marginalsyn.release.sampling import draw

    with pytest.raises(ReleaseError, match="as it was written"):
        draw(Model(kind="aim", arrays={}, meta={}), SCHEMA, 3, np.random.default_rng(0))


def test_a_name_that_stands_twice_is_refused(release: Release) -> None:
    """Readers differ on which of the two counts: pydantic takes the last, others the first."""
    path = release.path / "privacy.json"
    kept = path.read_text()
    path.write_text(kept.replace('"eps":', '"eps": 0.001,\n  "eps":', 1))
    (problem,) = verify(release.path)
    assert "must have each name once" in problem
    assert "'eps'" in problem
    path.write_text(kept)
    schema = (release.path / "schema.json").read_text()
    forge(release, "schema.json", schema.replace("{", '{"version": 1, ', 1).encode())
    assert any("must have each name once" in problem for problem in verify(release.path))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("measurements.json", lambda told: told[0].update(columns=["nobody"])),
        ("model.json", lambda told: told["meta"]["pgm"].update(order=[{}])),
        ("model.json", lambda told: told["meta"]["pgm"].update(scopes=[[1]])),
        ("model.json", lambda told: told["arrays"].pop()),
    ],
)
def test_strange_answers_are_refused_by_estimates(tmp_path: Path, name: str, change: Any) -> None:
    table, config = PrivateTable.open(example_frame(40), example_schema()), make_config("mst", {})
    synthesis, statement = generate(table, config, Budget(eps=1), noise=make_noise(1))
    release = Release.write(synthesis, example_schema(), statement, tmp_path / "release")
    assert len(release.estimate(mean="age")) == 1
    told = json.loads((release.path / name).read_text())
    change(told)
    forge(release, name, json.dumps(told).encode())
    with pytest.raises(ReleaseError, match="must be"):
        Release.read(release.path).estimate(mean="age")


@pytest.mark.parametrize(
    "told", [{"certificates": [None]}, {"certificates": 1}, {"label": 1.5, "certificates": []}]
)
def test_a_strange_certificate_is_a_problem_and_no_traceback(release: Release, told: Any) -> None:
    for name, data in (("certificate.json", json.dumps(told).encode()), ("certificate.npz", b"")):
        forge(release, name, data)
    with open(release.path / "certificate.npz", "wb") as handle:
        np.savez(handle, sigmas=np.ones(2), label=np.zeros(1, int), product=np.zeros(1, int))
    forge(release, "certificate.npz", (release.path / "certificate.npz").read_bytes())
    assert any("must" in problem for problem in verify(release.path))


# -- fuzzing --------------------------------------------------------------------------------------

CASES = sorted(path for path in FUZZ.CORPUS.glob("*/*"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_fuzzing_found_stays_mended(path: Path) -> None:
    assert TARGETS.run_target(path.parent.name, path.read_bytes()) is None


QUICK = ("schema", "csv", "parquet", "ledger", "workspace", "options")


# Extreme values are tried in tests/sources/test_values.py.
OF_STRANGERS = sorted(name for name in TARGETS.TARGETS if not name.startswith("values-"))


@pytest.mark.parametrize("target", OF_STRANGERS)
def test_a_little_fuzzing_finds_nothing(target: str) -> None:
    """Some mutated seeds of every target; benchmarks/fuzz.py goes on for as long as it is told."""
    pool = TARGETS.seeds(target)
    for data in pool[: 10 if target in QUICK else 1]:
        assert TARGETS.run_target(target, data) is None

    @settings(
        max_examples=12 if target in QUICK else 2,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.randoms(use_true_random=False))
    def try_one(rng: Any) -> None:
        data = FUZZ.mutate(rng.choice(pool), rng, pool)
        assert TARGETS.run_target(target, data) is None, data

    try_one()


def test_fuzzing_would_find_something(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(data: bytes) -> None:
        if b"\xff" in data:
            raise KeyError("x")

    monkeypatch.setitem(TARGETS.TARGETS, "schema", broken)
    found = FUZZ.hunt("schema", 1.5, seed=0)
    assert any(key.startswith("KeyError") for key in found["findings"])

"""The release folder: whole or absent, readable as written, distrusted when read."""

from __future__ import annotations

import datetime
import errno
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from marginalsyn import Charge, Neighbours, Schema, Statement, make_noise
from marginalsyn.certificates.measured import verify
from marginalsyn.contract import Measurement, Model, Synthesis, plain
from marginalsyn.errors import ReleaseError
from marginalsyn.plugins.audit.testkit.generators import example_schema
from marginalsyn.privacy.charges import ZCDP, Pure
from marginalsyn.privacy.noise import samplers
from marginalsyn.release import staging as folders
from marginalsyn.release.folder import Release, preflight
from marginalsyn.release.staging import load_arrays
from marginalsyn.release.statement import state
from marginalsyn.table.codec import Codec
from marginalsyn.table.columns import BooleanColumn, CategoricalColumn
from marginalsyn.table.frames import frame_problems
from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn

CHARGE = Charge(mechanism="discrete Gaussian", cost=ZCDP(rho=0.02), details={"sigma": 5.0})


def make_statement(**changes):
    given = {
        "generator": "independent",
        "parameters": {"rows": None},
        "charges": [CHARGE],
        "payments": [
            {
                "mechanism": "gaussian",
                "columns": ["age"],
                "sigma": 5.0,
                "rho": 0.02,
                "laws": ["discrete Gaussian"],
            }
        ],
        "neighbours": Neighbours.ADD_REMOVE,
        "target_delta": 1e-9,
        "samplers": samplers({"discrete Gaussian": 1}, "operating system"),
        "seeded": False,
        "schema_drafted": False,
        "created": datetime.date(2020, 2, 3),
    }
    return state(**{**given, **changes})


def make_synthesis(schema: Schema, rows: int = 50, seed: int = 0) -> Synthesis:
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, size, rows) for size in schema.domain.values()])
    first = schema.names[0]
    return Synthesis(
        frame=Codec(schema).decode(codes, rng),
        measurements=[
            Measurement(
                columns=(first,),
                values=np.arange(schema.domain[first], dtype=np.int64),
                sigma=5.0,
                purpose="one-way marginal",
            )
        ],
        model=Model(
            kind="independent",
            arrays={name: np.full(size, 1 / size) for name, size in schema.domain.items()},
            meta={"rows": rows},
        ),
        diagnostics={"secret": "exact number of rows: 50"},
    )


@pytest.fixture
def schema():
    return example_schema()


@pytest.fixture
def release(tmp_path, schema):
    return Release.write(make_synthesis(schema), schema, make_statement(), tmp_path / "out")


def tamper(release: Release, name: str, data: bytes) -> None:
    """Change a file together with its recorded hash, as a forger would."""
    path = release.path / "privacy.json"
    (release.path / name).write_bytes(data)
    recorded = json.loads(path.read_text())
    recorded["files"][name] = folders.sha256(release.path / name)
    path.write_text(json.dumps(recorded))


# -- contents -------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_round_trip(tmp_path, schema, format):
    synthesis = make_synthesis(schema)
    Release.write(synthesis, schema, make_statement(), tmp_path / "out", format=format)
    assert verify(tmp_path / "out") == []
    read = Release.read(tmp_path / "out")
    assert read.schema == schema
    pd.testing.assert_frame_equal(read.frame(), synthesis.frame)
    (measurement,), (given,) = read.measurements(), synthesis.measurements
    assert (measurement.columns, measurement.sigma, measurement.purpose) == (
        given.columns,
        given.sigma,
        given.purpose,
    )
    assert measurement.values.dtype == np.int64
    np.testing.assert_array_equal(measurement.values, given.values)
    model = read.model()
    assert (model.kind, dict(model.meta)) == ("independent", {"rows": 50})
    assert list(model.arrays) == schema.names
    assert read.weights() is None


@pytest.mark.parametrize("format", ["csv", "parquet"])
@pytest.mark.parametrize("nullable", [False, True])
def test_types_and_odd_labels_survive(tmp_path, format, nullable):
    texts = ("a,b", 'say "hi"', "two\nlines", "NULL", " padded ", "été", "1.0", "=1+1", "cr\r")
    schema = Schema(
        columns=(
            CategoricalColumn(name="text, with comma", categories=texts, nullable=nullable),
            CategoricalColumn(name="int", categories=(3, 1, 2), other=False, nullable=nullable),
            CategoricalColumn(name="intother", categories=(3, 1), nullable=nullable),
            CategoricalColumn(name="float", categories=(0.5, 1.0), other=False, nullable=nullable),
            CategoricalColumn(name="mixed", categories=("x", 1, 2.5, True), nullable=nullable),
            BooleanColumn(name="bool", nullable=nullable),
            BooleanColumn(name="ja", true_label="ja", false_label="nein", nullable=nullable),
            BooleanColumn(name="bit", true_label=1, false_label=0, nullable=nullable),
            IntegerColumn(name="whole", lower=-5, upper=5, nullable=nullable),
            ContinuousColumn(name="real", lower=-1, upper=1, nullable=nullable),
        ),
    )
    synthesis = make_synthesis(schema, rows=400)
    out = Release.write(synthesis, schema, make_statement(), tmp_path / "out", format=format)
    assert verify(out.path) == []
    pd.testing.assert_frame_equal(Release.read(out.path).frame(), synthesis.frame)


def test_nothing_private_is_written(release):
    everything = b"".join(path.read_bytes() for path in release.path.iterdir())
    assert b"secret" not in everything
    assert b"exact number" not in everything
    names = {path.name for path in release.path.iterdir()}
    assert names == {
        "README.md",
        "index.html",
        "synthetic.csv",
        "schema.json",
        "privacy.json",
        "measurements.json",
        "measurements.npz",
        "model.json",
        "model.npz",
    }


# -- the statement --------------------------------------------------------------------------------


def test_statement_says_what_was_spent():
    statement = make_statement()
    # In digits that people read, and never less than what was spent.
    assert 0 < statement.total().eps <= statement.eps < statement.total().eps * (1 + 1e-8)
    assert statement.eps == float(f"{statement.eps:.9g}")
    assert (statement.delta, statement.rho) == (1e-9, 0.02)
    assert (statement.guarantee, statement.private, statement.warnings) == ("exact", True, ())
    assert "adding or removing one row" in statement.unit
    assert "marginalsyn" in statement.versions
    assert Statement.model_validate_json(statement.to_json()) == statement


def test_statement_is_loud_about_seed_and_draft():
    statement = make_statement(seeded=True, schema_drafted=True)
    assert not statement.private
    assert statement.noise == "seeded, not private"
    assert statement.warnings[0].startswith("NOT PRIVATE: the noise was drawn from a seed")
    assert "drafted from the private data" in statement.warnings[1]
    assert "outside the guarantee" in statement.why


def test_statement_names_asymptotic_mechanisms():
    chain = Charge(mechanism="chain", cost=Pure(eps=1), guarantee="asymptotic")
    statement = make_statement(charges=[CHARGE, chain])
    assert statement.guarantee == "asymptotic"
    assert "in the limit for: chain" in statement.why


def test_statement_of_pure_charges_has_no_delta():
    statement = make_statement(charges=[Charge(mechanism="laplace", cost=Pure(eps=0.5))])
    assert (statement.eps, statement.delta, statement.target_delta) == (0.5, 0.0, 1e-9)
    assert statement.problems() == []


def test_extended_statement_adds_up():
    statement = make_statement()
    more = statement.extended(
        charges=[Charge(mechanism="laplace", cost=Pure(eps=0.5))],
        payments=[{"mechanism": "laplace", "laws": ["discrete Laplace"]}],
        samplers=samplers({"discrete Laplace": 1}, "seed"),
        notes={"k": np.float64(0.5)},
        noise=make_noise(1),
    )
    assert more.eps > statement.eps
    assert more.seeded
    assert more.warnings[0].startswith("NOT PRIVATE")
    assert len(more.charges) == len(more.payments) == 2
    assert more.notes == {"k": 0.5}
    assert more.created == statement.created
    assert more.guarantee == "none"
    assert more.problems() == []


def test_plain_makes_json():
    given = {1: (np.int64(2), np.array([0.5, np.nan])), "x": float("inf"), "d": Neighbours.REPLACE}
    assert json.loads(json.dumps(plain(given), allow_nan=False)) == {
        "1": [2, [0.5, None]],
        "x": None,
        "d": "replace",
    }


# -- writing --------------------------------------------------------------------------------------


def test_existing_release_needs_force(release, schema):
    with pytest.raises(ReleaseError, match=r"is there already.*--force"):
        preflight(release.path)
    other = make_synthesis(schema, rows=7)
    with pytest.raises(ReleaseError, match="is there already"):
        Release.write(other, schema, make_statement(), release.path)
    assert len(Release.read(release.path).frame()) == 50
    preflight(release.path, force=True)
    Release.write(other, schema, make_statement(), release.path, force=True)
    assert len(Release.read(release.path).frame()) == 7
    assert verify(release.path) == []
    assert [path.name for path in release.path.parent.iterdir()] == ["out"]


def test_what_is_no_release_is_never_replaced(tmp_path, release):
    holiday = tmp_path / "holiday"
    holiday.mkdir()
    preflight(holiday)
    (holiday / "photo.jpg").write_text("mine")
    with pytest.raises(ReleaseError, match="must be a release to be replaced"):
        preflight(holiday, force=True)
    (holiday / "privacy.json").write_text('{"files": {"photo.jpg": ""}}')
    with pytest.raises(ReleaseError, match="must be a release to be replaced"):
        preflight(holiday, force=True)
    (release.path / "thesis.tex").write_text("mine")
    with pytest.raises(ReleaseError, match=r"move these out first: thesis.tex"):
        preflight(release.path, force=True)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ReleaseError, match="must not be a file"):
        preflight(tmp_path / "file", force=True)
    assert (release.path / "thesis.tex").read_text() == "mine"


def test_parent_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ReleaseError, match="was not written"):
        preflight(tmp_path / "file" / "out")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_read_only_parent_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ReleaseError, match="cannot be written there"):
        preflight(tmp_path / "out")


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (errno.ENOSPC, "disk is full"),
        (errno.EACCES, "cannot be written"),
        (errno.EROFS, "cannot be written"),
        (errno.EIO, "choose another folder"),
    ],
)
def test_failed_write_leaves_nothing(tmp_path, schema, release, monkeypatch, code, advice):
    calls = []

    def fail(handle):
        calls.append(handle)
        if len(calls) == 3:
            raise OSError(code, os.strerror(code))

    monkeypatch.setattr(folders.os, "fsync", fail)
    for path, force in ((tmp_path / "new", False), (release.path, True)):
        calls.clear()
        with pytest.raises(ReleaseError, match=advice):
            Release.write(make_synthesis(schema, 7), schema, make_statement(), path, force=force)
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert len(Release.read(release.path).frame()) == 50


def test_too_little_disk_is_seen_before(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(folders.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(ReleaseError, match="disk is full"):
        preflight(tmp_path / "out")


def test_ctrl_c_leaves_nothing(tmp_path, schema, release, monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(folders.os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        Release.write(make_synthesis(schema), schema, make_statement(), tmp_path / "new")
    monkeypatch.undo()
    real = os.rename

    def rename_then_interrupt(source, target):
        real(source, target)
        if ".replaced-" in str(target):
            raise KeyboardInterrupt

    monkeypatch.setattr(folders.os, "rename", rename_then_interrupt)
    with pytest.raises(KeyboardInterrupt):
        Release.write(make_synthesis(schema, 7), schema, make_statement(), release.path, force=True)
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert len(Release.read(release.path).frame()) == 50


def test_interrupted_replacement_says_where_the_former_one_is(release):
    release.path.rename(release.path.parent / ".out.replaced-01234567")
    with pytest.raises(ReleaseError, match=r"\.out\.replaced-01234567, rename it back"):
        Release.read(release.path)


@pytest.mark.slow
def test_killed_writer_leaves_the_old_or_the_new_release(tmp_path, schema):
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from test_folder import *\n"
        "schema = example_schema()\n"
        "print('ready', flush=True)\n"
        "for n in range(10**6):\n"
        "    Release.write(make_synthesis(schema, 2000), schema, make_statement(),"
        f" {str(tmp_path / 'out')!r}, force=True)\n"
    )
    rng = np.random.default_rng(0)
    for _ in range(15):
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        process.stdout.readline()
        time.sleep(0.05 + rng.random() * 0.3)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        for path in tmp_path.iterdir():
            if ".unfinished-" not in path.name:
                assert path.name == "out" or path.name.startswith(".out.replaced-")
                assert verify(path) == []


def test_unknown_format_is_refused(tmp_path, schema):
    with pytest.raises(ReleaseError, match=r"format \(xlsx\) must be one of csv, parquet"):
        Release.write(
            make_synthesis(schema), schema, make_statement(), tmp_path / "x", format="xlsx"
        )


# -- amending -------------------------------------------------------------------------------------


def test_amend_adds_files_and_charges(release):
    weights = pd.DataFrame({"dp-mlp": np.linspace(0, 2, 50)})
    before = release.statement
    amended = release.amend(
        {"weights.csv": weights.to_csv(index=False).encode()},
        charges=[Charge(mechanism="laplace", cost=Pure(eps=0.5))],
        notes={"weights": {"dp-mlp": {"k": 0.2}}},
    )
    assert verify(release.path) == []
    read = Release.read(release.path)
    assert read.statement == amended.statement
    assert read.statement.eps > before.eps
    assert read.statement.notes["weights"] == {"dp-mlp": {"k": 0.2}}
    pd.testing.assert_frame_equal(read.weights(), weights)
    again = read.amend({"weights.csv": b"x\n" + b"1\n" * 50})
    assert again.weights().columns.tolist() == ["x"]


@pytest.mark.parametrize(
    "name", ["privacy.json", "schema.json", "synthetic.csv", "../x", "a/b", ".x", ""]
)
def test_amend_cannot_reach_the_core(release, name):
    with pytest.raises(ReleaseError, match="must be plain and not one of the core"):
        release.amend({name: b""})


def test_amend_refuses_a_changed_release(release):
    (release.path / "synthetic.csv").write_text("changed")
    with pytest.raises(ReleaseError, match="must have the hash recorded"):
        release.amend({"x.csv": b""})
    assert sorted(path.name for path in release.path.parent.iterdir()) == ["out"]


# -- verifying ------------------------------------------------------------------------------------


def test_changed_missing_and_extra_files_are_found(release):
    (release.path / "synthetic.csv").write_text("x\n")
    (release.path / "model.npz").unlink()
    (release.path / "raw.csv").write_text("secret")
    text = "\n".join(verify(release.path))
    assert "raw.csv is not recorded" in text
    assert "model.npz is missing" in text
    assert "synthetic.csv) must have the hash recorded" in text


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("eps", 0.01, "eps \\(0.01\\) must be"),
        ("delta", 1e-12, "delta"),
        ("guarantee", "asymptotic", "guarantee"),
        ("seeded", True, "contradicts"),
        ("eps", "NaN", "must be a privacy statement"),
        ("files", {"../../etc/passwd": "0"}, "plain names"),
        ("surprise", 1, "surprise"),
        ("version", 3, "version"),
    ],
)
def test_doctored_statement_is_found(release, field, value, problem):
    path = release.path / "privacy.json"
    content = json.loads(path.read_text())
    content[field] = value
    path.write_text(json.dumps(content))
    assert any(re.search(problem, found) for found in verify(release.path))


def test_dropped_charge_is_found(release):
    path = release.path / "privacy.json"
    content = json.loads(path.read_text())
    content["charges"] = []
    path.write_text(json.dumps(content))
    assert any("charges add up to" in problem for problem in verify(release.path))


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("colour,grade", "grade,colour", "must be those of the schema"),
        (",yes\n", ",maybe\n", "must hold what the schema allows"),
        ("red", "violet", "must hold what the schema allows"),
    ],
)
def test_rows_outside_the_schema_are_found(release, old, new, problem):
    text = (release.path / "synthetic.csv").read_text()
    assert old in text
    tamper(release, "synthetic.csv", text.replace(old, new).encode())
    assert any(problem in found for found in verify(release.path))


def test_numbers_out_of_bounds_are_found(release):
    lines = (release.path / "synthetic.csv").read_text().splitlines()
    tamper(release, "synthetic.csv", "\n".join([*lines, "red,1,100,5.0,yes\n"]).encode())
    assert any("column age" in problem for problem in verify(release.path))


def test_drafted_schema_must_be_declared(release, schema):
    drafted = schema.model_copy(update={"drafted_from_data": True})
    tamper(release, "schema.json", drafted.to_json().encode())
    assert any("drafted from data" in problem for problem in verify(release.path))


@pytest.mark.parametrize("text", ["w\n1\n", "w\n" + "-1\n" * 50, "w\n" + "x\n" * 50, ""])
def test_misaligned_weights_are_found(release, text):
    release.amend({"weights.csv": text.encode()})
    assert any("weights.csv" in problem for problem in verify(release.path))


def test_measurement_of_the_wrong_shape_is_found(release):
    stream = io.BytesIO()
    np.savez_compressed(stream, m0=np.zeros(99, dtype=np.int64))
    tamper(release, "measurements.npz", stream.getvalue())
    assert any("must have at most the shape" in problem for problem in verify(release.path))


# -- distrust -------------------------------------------------------------------------------------


def test_what_is_no_release_is_named(tmp_path):
    with pytest.raises(ReleaseError, match="must be a folder that exists"):
        Release.read(tmp_path / "nowhere")
    with pytest.raises(ReleaseError, match="must hold privacy"):
        Release.read(tmp_path)
    assert len(verify(tmp_path)) == 1


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff\xfe", b"{" * 10**5, b"null"])
def test_damaged_statement_is_reported(release, data):
    (release.path / "privacy.json").write_bytes(data)
    (problem,) = verify(release.path)
    assert "privacy.json" in problem


def test_links_are_not_followed(release, tmp_path):
    secret = tmp_path / "secret.csv"
    secret.write_bytes((release.path / "synthetic.csv").read_bytes())
    (release.path / "synthetic.csv").unlink()
    (release.path / "synthetic.csv").symlink_to(secret)
    with pytest.raises(ReleaseError, match="regular file"):
        Release.read(release.path).frame()
    assert any("regular file" in problem for problem in verify(release.path))


def test_large_json_is_not_read(release, monkeypatch):
    monkeypatch.setattr("marginalsyn.release.folder.MAX_JSON", 100)
    (problem,) = verify(release.path)
    assert "must be at most 100 bytes" in problem


class Bomb:
    def __reduce__(self):
        return (os.mkdir, ("pickle-was-run",))


def evil_archives():
    pickled = io.BytesIO()
    np.savez(pickled, a0=np.array([Bomb()], dtype=object))
    structured = io.BytesIO()
    np.savez(structured, a0=np.zeros(2, dtype=[("x", "f8"), ("y", "i4")]))
    liar = io.BytesIO()
    with zipfile.ZipFile(liar, "w") as archive:
        header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000000,), }"
        header += b" " * (117 - len(header)) + b"\n"
        archive.writestr("a0.npy", b"\x93NUMPY\x01\x00" + bytes([118, 0]) + header)
    return {
        "pickle": pickled.getvalue(),
        "structured": structured.getvalue(),
        "liar": liar.getvalue(),
        "not a zip": b"PK but no zip",
        "empty": b"",
    }


@pytest.mark.parametrize("name", list(evil_archives()))
def test_hostile_arrays_do_no_harm(release, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    tamper(release, "model.npz", evil_archives()[name])
    with pytest.raises(ReleaseError, match=r"must be a readable .npz archive"):
        Release.read(release.path).model()
    assert not (tmp_path / "pickle-was-run").exists()


def test_every_damaged_byte_of_an_archive_is_survived(tmp_path):
    stream = io.BytesIO()
    np.savez_compressed(stream, a0=np.arange(30), a1=np.ones((2, 2)))
    path = tmp_path / "x.npz"
    for position in range(0, len(stream.getvalue()), 3):
        data = bytearray(stream.getvalue())
        data[position] ^= 0x5A
        path.write_bytes(data)
        try:
            load_arrays(path)
        except ReleaseError:
            continue


def test_archive_larger_than_allowed_is_not_unpacked(tmp_path):
    path = tmp_path / "x.npz"
    np.savez_compressed(path, a0=np.zeros(10**6))
    assert path.stat().st_size < 10**5
    with pytest.raises(ReleaseError, match="must unpack to at most"):
        load_arrays(path, limit=10**6)


def test_objects_are_not_written(tmp_path, schema):
    model = Model(kind="x", arrays={"a": np.array(["x", None], dtype=object)})
    synthesis = Synthesis(frame=make_synthesis(schema).frame, model=model)
    with pytest.raises(ReleaseError, match="must hold numbers"):
        Release.write(synthesis, schema, make_statement(), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_frame_problems(schema):
    frame = make_synthesis(schema).frame
    assert frame_problems(frame, schema) == []
    assert "in this order" in frame_problems(frame[frame.columns[::-1]], schema)[0]
    assert "dtype" in frame_problems(frame.astype({"age": "float64"}), schema)[0]
    assert "missing" in frame_problems(frame.assign(ill=None).astype(frame.dtypes), schema)[0]
    assert "column age (-1)" in frame_problems(frame.assign(age=-1), schema)[0]
    infinite = frame_problems(frame.assign(income=np.inf), schema)
    assert "column income (inf)" in infinite[0]

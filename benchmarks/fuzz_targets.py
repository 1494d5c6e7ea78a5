"""What benchmarks/fuzz.py feeds: parsers and commands as functions of bytes, with their seeds."""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache, partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import value_targets

ROOT = Path(__file__).parents[1]
CORPUS = ROOT / "tests" / "corpus"


def fuzz_schema(data: bytes) -> None:
    """A schema file."""
    from marginalsyn.table.codec import Codec
    from marginalsyn.table.schema import Schema

    schema = Schema.from_json(data.decode("utf-8", "replace"))
    assert Schema.from_json(schema.to_json()) == schema, "a schema must read back"
    if sum(schema.domain.values()) < 10**5:
        Codec(schema).empty()
        schema.structural_zeros()


def fuzz_csv(data: bytes) -> None:
    """A private CSV file."""
    _read_table("people.csv", data)


def fuzz_parquet(data: bytes) -> None:
    """A private Parquet file."""
    _read_table("people.parquet", data)


def fuzz_statement(data: bytes) -> None:
    """The privacy statement of a release from a stranger."""
    with _release("independent") as folder:
        (folder / "privacy.json").write_bytes(data)
        _use_release(folder)


def fuzz_release_json(data: bytes) -> None:
    """Any JSON file of a release, its hash in order; the first byte says which."""
    method = ("independent", "mst", "support-points-gp")[data[:1][0] % 3] if data else "independent"
    with _release(method) as folder:
        names = sorted(p.name for p in folder.glob("*.json") if p.name != "privacy.json")
        _forge(folder, names[(data[:1][0] // 3) % len(names)] if data else names[0], data[1:])
        _use_release(folder)


def fuzz_arrays(data: bytes) -> None:
    """The arrays of a model or of measurements, their hash in order."""
    with _release("independent" if data[:1] < b"\x80" else "mst") as folder:
        _forge(folder, "model.npz" if data[:1] < b"\x40" else "measurements.npz", data[1:])
        _use_release(folder)


def fuzz_weights(data: bytes) -> None:
    """The weights of a release, their hash in order."""
    with _release("independent") as folder:
        _forge(folder, "weights.csv", data)
        _use_release(folder)


def fuzz_rows(data: bytes) -> None:
    """The rows of a release, their hash in order: CSV or Parquet by the first byte."""
    with _release("parquet" if data[:1] >= b"\x80" else "independent") as folder:
        name = "synthetic.parquet" if data[:1] >= b"\x80" else "synthetic.csv"
        _forge(folder, name, data[1:])
        _use_release(folder)


def fuzz_options(data: bytes) -> None:
    """Options of a generator or an estimator, and the plan that follows from them."""
    from marginalsyn.contract import build_config, config_to_json
    from marginalsyn.plugins.audit.testkit.generators import example_schema
    from marginalsyn.privacy.budget import Budget
    from marginalsyn.registry import GENERATORS, find, plugins

    given = parsed(data)
    if not isinstance(given, dict):
        return
    names = sorted(p.name for p in plugins(GENERATORS) if p.status == "ok")
    name = names[hash_of(str(given.pop("method", ""))) % len(names)]
    kind = find(GENERATORS, name)
    config = build_config(kind, {str(k): v for k, v in given.items()})
    json.dumps(config_to_json(config), allow_nan=False)
    assert config.configure(example_schema(), Budget(eps=1)).plan


def fuzz_ledger(data: bytes) -> None:
    """A ledger file: whatever it holds, nothing may be lost or over-spent without a word."""
    from marginalsyn.privacy.charges import ZCDP, Charge
    from marginalsyn.records.ledger import Ledger

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.jsonl"
        path.write_bytes(data)
        ledger = Ledger(path)
        before = ledger.read().charges
        ledger.total()
        ledger.charge([Charge(mechanism="m", cost=ZCDP(rho=0.001))])
        after = Ledger(path).read().charges
        assert after[:-1] == before, "a charge must be added, and none lost"


def fuzz_workspace(data: bytes) -> None:
    """The workspace's memory."""
    from marginalsyn.records.workspace import Workspace

    with tempfile.TemporaryDirectory() as folder:
        space = Workspace.here(folder)
        space.folder.mkdir()
        (space.folder / "workspace.json").write_bytes(data)
        _ = space.read_last()
        space.recall("people.csv")


def fuzz_command(data: bytes) -> None:
    """A command line; the words are separated by line breaks."""
    from click.testing import CliRunner

    from marginalsyn.cli.main import cli

    words = data.decode("utf-8", "replace").replace("\0", "").split("\n")[:20]  # as shells do
    if any(len(word) > 12 and word.isdigit() for word in words) or "completion" in words:
        return
    with _release("independent") as release:
        folder = release.parent
        before = os.getcwd()
        os.chdir(folder)
        try:
            _people(folder)
            result = CliRunner().invoke(cli, words)
        finally:
            os.chdir(before)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert "fault of marginalsyn" not in result.output, result.output
    assert result.exit_code in (0, 1, 2), result.exit_code


TARGETS: dict[str, Callable[[bytes], None]] = {
    "schema": fuzz_schema,
    "csv": fuzz_csv,
    "parquet": fuzz_parquet,
    "statement": fuzz_statement,
    "release-json": fuzz_release_json,
    "arrays": fuzz_arrays,
    "weights": fuzz_weights,
    "rows": fuzz_rows,
    "options": fuzz_options,
    "ledger": fuzz_ledger,
    "workspace": fuzz_workspace,
    "command": fuzz_command,
    **{f"values-{name}": partial(value_targets.attempt, name) for name in value_targets.SOURCES},
}


def run_target(name: str, data: bytes) -> str | None:
    """What is wrong with a target's answer to some bytes; None when nothing is."""
    from marginalsyn.errors import MarginalsynError

    quiet = io.StringIO()
    try:
        with warnings.catch_warnings(), redirect_stdout(quiet), redirect_stderr(quiet):
            warnings.simplefilter("ignore")
            TARGETS[name](data)
    except MarginalsynError:
        return None
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        ours = [f for f in frames if "/marginalsyn/" in f.filename or "/cli/" in f.filename]
        place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"
        return f"{type(error).__name__} at {place}: {str(error)[:200]}"
    return None


def hash_of(text: str) -> int:
    """A number that is the same in every process."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:4], "big")


def parsed(data: bytes) -> Any:
    """A JSON value, or None."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


@cache
def _made(method: str) -> dict[str, bytes]:
    """The files of a release with weights, made once."""
    import numpy as np

    from marginalsyn.access.private_table import PrivateTable
    from marginalsyn.contract import make_config, make_weights
    from marginalsyn.host import generate, weigh
    from marginalsyn.plugins.audit.testkit.generators import example_frame
    from marginalsyn.plugins.audit.testkit.tape import tape_schema
    from marginalsyn.privacy.budget import Budget
    from marginalsyn.privacy.noise import make_noise
    from marginalsyn.release.folder import Release
    from marginalsyn.weights.columns import publish

    rng = np.random.default_rng(0)
    schema = tape_schema()
    frame = example_frame(60).assign(ward=rng.choice(["A", "B"], 60))
    table = PrivateTable.open(frame[schema.names], schema)
    options: dict[str, Any] = {"rows": 20}
    if method == "support-points-gp":
        options |= {"points": 5, "directions": 10}
    config = make_config("independent" if method == "parquet" else method, options)
    found, statement = generate(table, config, Budget(eps=1), noise=make_noise(1))
    form: Any = "parquet" if method == "parquet" else "csv"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "release"
        release = Release.write(found, schema, statement, path, format=form)
        budget = Budget(eps=1)
        weighted = weigh(release, make_weights("none"), budget, noise=make_noise(1))
        publish(release, weighted)
        return {file.name: file.read_bytes() for file in path.iterdir()}


@contextmanager
def _release(method: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "release"
        folder.mkdir()
        for name, data in _made(method).items():
            (folder / name).write_bytes(data)
        yield folder


def _forge(folder: Path, name: str, data: bytes) -> None:
    """Change a file together with its recorded hash."""
    statement = json.loads((folder / "privacy.json").read_text())
    (folder / name).write_bytes(data)
    statement["files"][name] = hashlib.sha256(data).hexdigest()
    (folder / "privacy.json").write_text(json.dumps(statement))


def _use_release(folder: Path) -> None:
    """What people do with a release from a stranger: check it, read it, sample from it."""
    import numpy as np
    from click.testing import CliRunner

    from marginalsyn.certificates.measured import verify
    from marginalsyn.cli.main import cli
    from marginalsyn.contract import Target
    from marginalsyn.errors import MarginalsynError
    from marginalsyn.operations.report import publish
    from marginalsyn.release.folder import Release
    from marginalsyn.release.sampling import sample

    problems = verify(folder)
    assert all(isinstance(problem, str) for problem in problems)

    def read(what: Callable[[], Any]) -> None:
        try:
            what()
        except MarginalsynError:
            return

    release = Release.read(folder)
    read(release.frame)
    read(release.measurements)
    read(release.weights)
    read(release.log_weights)
    read(lambda: sample(release, 3, np.random.default_rng(0)))
    read(lambda: sample(release, None, np.random.default_rng(0)) if not problems else None)
    read(lambda: Target.of(release))
    if not problems:
        read(lambda: publish(release).to_html())
    result = CliRunner().invoke(cli, ["show", str(folder)])
    assert "fault of marginalsyn" not in result.output, result.output


def _read_table(name: str, data: bytes) -> None:
    from marginalsyn.access.private_table import PrivateTable
    from marginalsyn.plugins.audit.testkit.tape import tape_schema

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        view = PrivateTable.open(path, tape_schema()).unprotected("fuzz")
        view.counts(["age", "ward"])
        view.frame()


def _people(folder: Path) -> None:
    from marginalsyn.plugins.audit.testkit.tape import tape_schema

    rows = "\n".join(
        f"{n * 7 % 100},{n * 31 % 1000},{'AB'[n % 2]},{'yes' if n % 3 else 'no'}" for n in range(30)
    )
    (folder / "people.csv").write_text(f"age,income,ward,ill\n{rows}\n")
    tape_schema().write(folder / "people.json")


# -- seeds ----------------------------------------------------------------------------------------


def seeds(name: str) -> list[bytes]:
    """Well-formed inputs of a target, and what was found before."""
    from marginalsyn.plugins.audit.testkit.generators import example_schema
    from marginalsyn.plugins.audit.testkit.tape import tape_schema

    found: list[bytes] = []
    if name.startswith("values-"):
        found = value_targets.seeds(name.removeprefix("values-"))
        return [*found, *(path.read_bytes() for path in sorted((CORPUS / name).glob("*")))]
    files = _made("independent") if name not in ("schema", "csv", "options", "command") else {}
    if name == "schema":
        found = [tape_schema().to_json().encode(), example_schema().to_json().encode(), b'{"a": 3}']
        rule = json.loads(example_schema().to_json())
        rule["impossible"] = [{"age": {"max": 14}, "colour": ["red", None]}]
        found.append(json.dumps(rule).encode())
    elif name == "csv":
        found = [
            b"age,income,ward,ill\n1,2.5,A,yes\n,,,\n-5,1e9,Z,no\n",
            b'age,income,ward,ill\n"1","a\nb",A,no\n',
        ]
    elif name == "parquet":
        import pandas as pd

        frame = pd.DataFrame(
            {"age": [1, 2], "income": [0.5, None], "ward": ["A", "B"], "ill": [True, False]}
        )
        stream = io.BytesIO()
        frame.to_parquet(stream)
        found = [stream.getvalue()]
    elif name == "statement":
        found = [files["privacy.json"], _made("mst")["privacy.json"]]
    elif name == "release-json":
        for number, method in enumerate(("independent", "mst", "support-points-gp")):
            own = _made(method)
            names = sorted(n for n in own if n.endswith(".json") and n != "privacy.json")
            found += [bytes([number + 3 * k]) + own[n] for k, n in enumerate(names)]
    elif name == "arrays":
        found = [
            b"\x00" + files["model.npz"],
            b"\x50" + files["measurements.npz"],
            b"\x90" + _made("mst")["measurements.npz"],
        ]
    elif name == "weights":
        found = [files["weights.csv"], b"w,w.log\n" + b"1,0\n" * 20]
    elif name == "rows":
        found = [b"\x00" + files["synthetic.csv"], b"\x80" + _made("parquet")["synthetic.parquet"]]
    elif name == "options":
        found = _option_seeds()
    elif name == "ledger":
        found = _ledger_seeds()
    elif name == "workspace":
        found = [b'{"version": 1, "last": null, "sources": {}}', _memory()]
    elif name == "command":
        found = [line.replace(" ", "\n").encode() for line in _COMMANDS.splitlines() if line]
    return [*found, *(path.read_bytes() for path in sorted((CORPUS / name).glob("*")))]


_COMMANDS = """\
generate --data people.csv --schema people.json --eps 1 --method independent --dry-run
generate --data people.csv --schema people.json --eps 1 --method aim --dry-run --json
generate --data people.csv --schema people.json --eps 1 --method independent --rows 5 --out r2
verify release
show release --json
sample release --rows 3
schema infer people.csv
schema check people.csv --schema people.json
ledger show
ledger cap --eps 3
datasets list
datasets show heart
plugins --kind reports
report release --public
weight release --method beta-noised --dry-run --data people.csv --eps 1
evaluate release --real people.csv --reports marginals --degree 1
certify release --dry-run
"""


def _option_seeds() -> list[bytes]:
    from marginalsyn.contract import config_to_json, make_config
    from marginalsyn.registry import GENERATORS, plugins

    names = [p.name for p in plugins(GENERATORS) if p.status == "ok"]
    return [json.dumps({"method": n, **config_to_json(make_config(n))}).encode() for n in names]


def _ledger_seeds() -> list[bytes]:
    from marginalsyn.privacy.charges import ZCDP, Approximate, Charge, Pure, SubsampledGaussian
    from marginalsyn.records.ledger import Ledger

    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "ledger.jsonl", source="people")
        ledger.set_cap(100.0, sampled=True, own_delta=1e-11)
        for cost in (ZCDP(rho=0.01), Pure(eps=0.1), Approximate(eps=0.1, delta=1e-12)):
            ledger.charge([Charge(mechanism="m", cost=cost)], run="r", delta=1e-9)
        steps = SubsampledGaussian(noise_multiplier=5.0, rate=0.1, steps=3)
        ledger.charge([Charge(mechanism="m", cost=steps)])
        # As it was before ledgers were SQLite files, too.
        text = b"".join(line + b"\n" for line in ledger.read().lines)
        return [text, (Path(folder) / "ledger.jsonl").read_bytes()]


def _memory() -> bytes:
    from marginalsyn.records.workspace import Workspace

    with tempfile.TemporaryDirectory() as folder:
        space = Workspace.here(folder)
        space.remember("people.csv", release=Path(folder) / "r", rows="ab", holdout=0.2)
        return (space.folder / "workspace.json").read_bytes()

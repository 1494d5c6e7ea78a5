"""The release folder: the only output that may be published.

It holds differentially private output and what is computed from that, nothing else: no exact row
count, no name or hash of the private source, no run time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from pydantic import ValidationError

from marginalsyn.contract import Measurement, Model, Synthesis, plain
from marginalsyn.errors import MarginalsynError, ReleaseError
from marginalsyn.libraries import version
from marginalsyn.people.tree import LinkedSchema
from marginalsyn.registry import part
from marginalsyn.release import staging as folders
from marginalsyn.release.readme import INDEX, README, Explanation, explain_release
from marginalsyn.release.statement import Statement
from marginalsyn.table import frames
from marginalsyn.table.frames import TextForm
from marginalsyn.table.made import complete
from marginalsyn.table.schema import Schema
from marginalsyn.validation import shown

PRIVACY = "privacy.json"
SCHEMA = "schema.json"
WEIGHTS = "weights.csv"
LOG = ".log"
# The columns of the file of one estimator's weights; that of weights.csv is the first.
WEIGHT, LOG_WEIGHT = "weight", "log_weight"
FRAMES = {"csv": "synthetic.csv", "parquet": "synthetic.parquet"}
# Rows of each table that the folder's page shows.
FIRST_ROWS = 5
MAX_JSON = 64 * 2**20
# Rows and weights: more than fits a computer's memory as text.
MAX_TABLE = 16 * 2**30

_CORE = {PRIVACY, SCHEMA, *FRAMES.values()}


class ReleaseFolder:
    """A folder with a statement. Nothing in it is trusted: every file is checked by its hash.

    Attributes:
        path: the folder.
        statement: what ``privacy.json`` says.
    """

    def __init__(self, path: Path, statement: Statement) -> None:
        self.path = path
        self.statement = statement
        self._files = Files(path, statement.files)

    def attached(self, stem: str) -> tuple[Any, dict[str, np.ndarray]]:
        """A JSON index and its arrays, which were written as ``stem.json`` and ``stem.npz``."""
        return self._json(f"{stem}.json"), folders.load_arrays(self._file(f"{stem}.npz"))

    def file_of(self, table: str) -> str:
        """The name of the file that holds a table's rows."""
        names = [f"{table}.{kind}" for kind in FRAMES]
        for name in names:
            if name in self.statement.files:
                return name
        raise ReleaseError(f"release ({self.path}) must hold one of {', '.join(names)}")

    @property
    def text_form(self) -> TextForm:
        """How its text files of rows are written."""
        return TextForm.of(self.statement.notes)

    def weights(self) -> pd.DataFrame | None:
        """One column of weights per estimator, aligned with the rows; None when there is none.

        The last column is the recommended one, which ``weights.csv`` holds.
        """
        found = self._weight_columns()
        if found is None:
            return None
        return found[[name for name in found if not str(name).endswith(LOG)]]

    def _file(self, name: str, *, limit: int | None = None) -> Path:
        """The path of a recorded file, once its bytes agree with the record."""
        return self._files.path(name, limit=limit)

    def _json(self, name: str) -> Any:
        return json.loads(self._files.text(name))

    def _rows_of(self, name: str, schema: Schema | None, keys: Sequence[str] = ()) -> pd.DataFrame:
        """The rows of a file, typed by a schema; keys are whole numbers."""
        path = self._file(name, limit=MAX_TABLE)
        if name.endswith(".csv"):
            return frames.read_csv(path, schema, keys, self.text_form)
        return frames.read_parquet(path, schema, keys)

    def _weight_columns(self) -> pd.DataFrame | None:
        """Weights and raw log-weights; None when there are none.

        Each column has a file of its own. In releases of earlier versions, ``weights.csv`` has all.
        """
        if WEIGHTS not in self.statement.files:
            return None
        found: dict[str, pd.Series] = {}
        for name in self.statement.notes.get("weights") or ():
            if weights_file(name) in self.statement.files:
                own = self._numbers(weights_file(name))
                if list(own) != [WEIGHT, LOG_WEIGHT]:
                    raise ReleaseError(
                        f"file ({self.path / weights_file(name)}) must have the columns {WEIGHT} "
                        f"and {LOG_WEIGHT}"
                    )
                found |= {name: own[WEIGHT], name + LOG: own[LOG_WEIGHT]}
        return pd.DataFrame(found) if found else self._numbers(WEIGHTS)

    def _numbers(self, name: str) -> pd.DataFrame:
        """A file of columns of numbers."""
        path = self._file(name, limit=MAX_TABLE)
        try:
            return pd.read_csv(path, dtype="float64", float_precision="round_trip")
        except (ValueError, OSError, MemoryError) as error:
            raise ReleaseError(f"file ({path}) must hold columns of numbers: {error}") from error

    def _common_problems(
        self, schema: Schema | LinkedSchema, weights: pd.DataFrame | None
    ) -> list[str]:
        """What may contradict the schema, or be no weight, in any release."""
        found = []
        if schema.drafted_from_data and not self.statement.schema_drafted:
            found.append(f"{PRIVACY} must say that the schema was drafted from data")
        if any(charge not in self.statement.charges for charge in schema.charges):
            found.append(f"{PRIVACY} must count what the schema's bounds were bought for")
        values = weights.to_numpy() if weights is not None else np.zeros(0)
        if not bool((np.isfinite(values) & (values >= 0)).all()):
            found.append(f"{WEIGHTS} must hold finite numbers, zero or more")
        last = str(weights.columns[-1]) if weights is not None and len(weights.columns) else ""
        if weights is not None and weights_file(last) in self.statement.files:
            alone = self._numbers(WEIGHTS)
            if list(alone) != [WEIGHT] or not np.array_equal(alone[WEIGHT], weights[last]):
                found.append(f"{WEIGHTS} must hold the weights of {weights_file(last)}")
        return found


class Release(ReleaseFolder):
    """A release folder of one table.

    The statement and the schema are read when the release is opened; all else is read by
    the method that returns it, every time.

    Attributes:
        schema: the public schema of the synthetic rows.

    Example:
        >>> release = Release.read("release")
        >>> list(release.frame().columns), round(release.statement.eps, 6)
        (['age', 'ill'], 2.0)
    """

    # Whether its owner took a drafted schema in this process, and need not be asked again.
    accepted: bool = False

    def __init__(self, path: Path, statement: Statement, schema: Schema) -> None:
        super().__init__(path, statement)
        self.schema = schema

    # -- reading ----------------------------------------------------------------------------------

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Open a release folder.

        Raises:
            ReleaseError: it is not a release, or its statement is invalid.
        """
        folder, statement = open_folder(path)
        if statement.family is not None:
            raise ReleaseError(
                f"release ({path}) must hold one table for this: it holds {statement.family.root} "
                f"and {', '.join(statement.family.tables)}. Linked tables can be shown, verified, "
                "sampled, weighted, certified, estimated from, evaluated and reported on; in "
                "Python read them with "
                "marginalsyn.LinkedRelease"
            )
        schema = Schema.from_json(Files(folder, statement.files).text(SCHEMA))
        return cls(folder, statement, schema)

    def reopen(self) -> Self:
        """The release that lies there now; the schema is read again only if it was replaced."""
        folder, statement = open_folder(self.path)
        if statement.files.get(SCHEMA) != self.statement.files[SCHEMA]:
            return self.read(folder)
        return type(self)(folder, statement, self.schema)

    @property
    def frame_file(self) -> str:
        """The name of the file that holds the synthetic rows."""
        return self.file_of("synthetic")

    def frame(self) -> pd.DataFrame:
        """The synthetic rows, typed by the schema."""
        return self._rows_of(self.frame_file, self.schema)

    def log_weights(self) -> pd.DataFrame | None:
        """The estimators' raw log-weights, before any post-processing, by the same names."""
        found = self._weight_columns()
        if found is None:
            return None
        raw = {str(name): found[name] for name in found if str(name).endswith(LOG)}
        return pd.DataFrame({name.removesuffix(LOG): raw[name] for name in raw})

    def measurements(self) -> list[Measurement]:
        """The noisy marginals with the standard deviations of their noise."""
        if "measurements.json" not in self.statement.files:
            return []
        return folders.unpack_measurements(*self.attached("measurements"))

    def model(self) -> Model | None:
        """What more rows can be sampled from; None when the generator keeps no model."""
        if "model.json" not in self.statement.files:
            return None
        return folders.unpack_model(*self.attached("model"))

    def problems(self) -> list[str]:
        """What is wrong with the contents, of which the hashes were checked before."""
        schema, frame, weights = self.schema, self.frame(), self.weights()
        found = frames.frame_problems(frame, schema)
        found += folders.measurement_problems(self.measurements(), schema)
        self.model()
        if weights is not None and len(weights) != len(frame):
            found.append(f"{WEIGHTS} ({len(weights)} rows) must have {len(frame)} rows")
        if not self.statement.foreign:
            if self.statement.survey != schema.survey_weight:
                found.append(f"{PRIVACY} must state the survey weights of {SCHEMA}")
            if self.statement.notes.get("margins", []) != [m.facts for m in schema.public_margins]:
                found.append(f"{PRIVACY} must name the public margins of {SCHEMA}")
        return found + self._common_problems(schema, weights)

    # -- writing ----------------------------------------------------------------------------------

    @classmethod
    def write(
        cls,
        synthesis: Synthesis,
        schema: Schema,
        statement: Statement,
        path: str | Path,
        *,
        format: Literal["csv", "parquet"] = "csv",
        force: bool = False,
    ) -> Self:
        """Write a release folder, whole or not at all.

        Args:
            synthesis: what the generator gave; its ``diagnostics`` are left out.
            schema: the public schema; the synthesis' own, where the run completed it.
            statement: what was spent; the hashes of the files are filled in.
            path: the folder's name.
            format: of the synthetic rows.
            force: replace the release that has this name; nothing but a release is replaced.

        Raises:
            ReleaseError: the name is taken, cannot be written, or the disk is full. Nothing is
                left behind.
        """
        schema = synthesis.schema or schema
        folder, sealed = write_folder(
            {"synthetic": complete(synthesis.frame, schema)},
            schema.to_json(),
            synthesis.measurements or None,
            synthesis.model,
            statement,
            path,
            format=format,
            force=force,
        )
        return cls(folder, sealed, schema)

    def amend(self, files: Mapping[str, bytes], **costs: Any) -> Release:
        """Add or replace files, and say in the statement what they cost; whole or not at all.

        Call ``preflight(release.path, force=True)`` before anything is spent: it refuses what this
        would refuse.

        Args:
            files: contents by plain name; the rows, the schema and the statement are out of reach.
            costs: charges, payments and what else :meth:`Statement.extended` takes.

        Returns:
            The amended release, at the same path.
        """
        for name in files:
            if not folders.is_plain(name) or name in _CORE:
                raise ReleaseError(f"file name ({name!r}) must be plain and not one of the core")
        statement = self.statement.extended(**costs)
        kept = [name for name in self.statement.files if name not in {*files, README, INDEX}]
        with folders.staged(target(self.path, True), replace=True) as stage:
            for name in kept:
                folders.copy_file(self._file(name), stage / name)
            for name, data in files.items():
                folders.write_bytes(stage / name, data)
            sealed = _seal(stage, statement)
        return Release(self.path, sealed, self.schema)


def weights_file(column: str) -> str:
    """The file of one column of weights, with its raw log-weights."""
    return f"weights-{column}.csv"


class Files:
    """The files that a statement records, each compared with its hash before its first use."""

    def __init__(self, folder: Path, recorded: Mapping[str, str]) -> None:
        self.folder = folder
        self.recorded = recorded
        self.checked: set[str] = set()

    def path(self, name: str, *, limit: int | None = None) -> Path:
        if name not in self.recorded:
            raise ReleaseError(f"file ({name}) must be recorded in {PRIVACY} of {self.folder}")
        path = folders.regular(self.folder, name, limit=limit)
        if name not in self.checked:
            if folders.sha256(path) != self.recorded[name]:
                raise ReleaseError(
                    f"file ({path}) must have the hash recorded in {PRIVACY}; "
                    "it was changed after the release was written"
                )
            self.checked.add(name)
        return path

    def text(self, name: str) -> str:
        return _decode(self.path(name, limit=MAX_JSON))


def preflight(path: str | Path, force: bool = False) -> Path:
    """Check, before any budget is spent, that a release folder can be written.

    Args:
        path: where to write the release.
        force: whether a release of that name may be replaced.

    Returns:
        The absolute path.

    Raises:
        ReleaseError: the name is taken by something that may not be replaced, or the place cannot
            be written.

    Example:
        >>> preflight("new-release").is_absolute()
        True
    """
    folder = target(path, force)
    folders.check_writable(folder)
    return folder


def check_folder(path: str | Path) -> tuple[list[str], list[str]]:
    """Check a release: hashes, files, the statement, rows against the schema, weights.

    The charges are added up again, and what the statement says of its guarantee, noise and versions
    is derived again from the laws and libraries that it records.

    Returns:
        What is wrong, and the files that say in other words what the release is.
    """
    from marginalsyn.release.linked import LinkedRelease

    folder, statement = open_folder(path)
    files = statement.files
    found = {entry.name for entry in folder.iterdir()} - {PRIVACY}
    problems = [f"file {name} is not recorded in {PRIVACY}" for name in sorted(found - set(files))]
    problems += [f"file {name} is missing" for name in sorted(set(files) - found)]
    problems += statement.problems()
    recorded = Files(folder, files)
    for name in sorted(found & set(files)):
        try:
            recorded.path(name)
        except ReleaseError as error:
            problems.append(str(error))
    if problems:
        return problems, []
    # The contents are worth reading only if the files are what they were.
    kind: Any = Release if statement.family is None else LinkedRelease
    release = kind.read(folder)
    release._files = recorded
    changed = _changed_words(folder, statement)
    problems = [
        f"{name} must state the guarantee in the words of {PRIVACY}"
        for name, kept in changed.items()
        if not kept
    ]
    return problems + release.problems(), [*changed]


def target(path: str | Path, force: bool) -> Path:
    """The resolved folder, unless it holds anything that is not a release to be replaced."""
    folder = Path(path).resolve()
    if ".marginalsyn" in folder.parts:
        raise ReleaseError(f"release folder ({path}) must not be inside the workspace .marginalsyn")
    if not folder.name:
        raise ReleaseError(f"release folder ({path}) must have a name of its own")
    if not folder.exists():
        return folder
    if not folder.is_dir():
        raise ReleaseError(f"release folder ({path}) must not be a file; choose another name")
    found = {entry.name for entry in folder.iterdir()}
    if not found:
        return folder
    if not force:
        raise ReleaseError(
            f"release folder ({path}) is there already: replace it with --force, or "
            "choose another name with --out"
        )
    try:
        own = {PRIVACY, *_statement(folder).files}
    except MarginalsynError:
        raise ReleaseError(
            f"release folder ({path}) must be a release to be replaced; it is something else, "
            "so choose another name"
        ) from None
    if found - own:
        names = ", ".join(sorted(found - own)[:5])
        raise ReleaseError(
            f"release folder ({path}) must hold nothing but the release to be replaced; "
            f"move these out first: {names}"
        )
    return folder


def open_folder(path: str | Path) -> tuple[Path, Statement]:
    """The absolute path of a release folder and its statement."""
    folder = Path(path).resolve()
    if not folder.is_dir():
        former = folders.leftover(folder)
        hint = (
            f"a run was killed while it replaced it; the former one is {former}, rename it back"
            if former
            else "write one with `marginalsyn generate`"
        )
        raise ReleaseError(f"release ({path}) must be a folder that exists: {hint}")
    if not (folder / PRIVACY).exists():
        raise ReleaseError(f"release ({path}) must hold {PRIVACY}; this is not a release folder")
    return folder, _statement(folder)


def _statement(folder: Path) -> Statement:
    text = _decode(folders.regular(folder, PRIVACY, limit=MAX_JSON))
    try:
        statement = Statement.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ReleaseError(
            f"file ({folder / PRIVACY}) must be a privacy statement: {where} {first['msg']}"
        ) from None
    strange = [name for name in statement.files if not folders.is_plain(name) or name == PRIVACY]
    if strange:
        raise ReleaseError(f"file names in {PRIVACY} ({strange[0]!r}) must be plain names")
    return statement


def _decode(path: Path) -> str:
    """The text of a JSON file, in which no name stands twice: readers would differ on it."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(found := dict(pairs)) < len(pairs):
            twice = max(found, key=[name for name, _ in pairs].count)
            raise ReleaseError(f"file ({path}) must have each name once: {shown(twice)}")
        return found

    try:
        text = path.read_text(encoding="utf-8")
        json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError, OSError) as error:
        raise ReleaseError(f"file ({path}) must be readable JSON in UTF-8: {error}") from None
    return text


def write_folder(
    tables: Mapping[str, pd.DataFrame],
    schema: str,
    measurements: Sequence[Measurement] | None,
    model: Model | None,
    statement: Statement,
    path: str | Path,
    *,
    format: Literal["csv", "parquet"],
    force: bool,
) -> tuple[Path, Statement]:
    """Write a release folder, whole or not at all; return its path and the sealed statement.

    ``tables`` has the rows by the name of the file without its ending; ``schema`` is JSON. There is
    no file of measurements or of a model where they are None.
    """
    if format not in FRAMES:
        raise ReleaseError(f"format ({format}) must be one of {', '.join(FRAMES)}")
    folder = target(path, force)
    write_frame: Any = frames.write_parquet
    if format == "csv":
        write_frame = partial(frames.write_csv, form=TextForm.of(statement.notes))
    with folders.staged(folder, replace=force) as stage:
        for name, rows in tables.items():
            folders.write_file(stage / f"{name}.{format}", partial(write_frame, rows))
        _write_text(stage / SCHEMA, schema)
        if measurements is not None:
            _write_pair(stage, "measurements", folders.pack(measurements))
        if model is not None:
            _write_pair(stage, "model", folders.pack_model(model))
        return folder, _seal(stage, statement)


def _seal(stage: Path, statement: Statement) -> Statement:
    """Record every file's hash. The statement is written last and covers all the others."""
    for name, text in _explained(stage, statement)[1].items():
        _write_text(stage / name, text)
    files = {entry.name: folders.sha256(entry) for entry in sorted(stage.iterdir())}
    sealed = statement.model_copy(update={"files": files})
    _write_text(stage / PRIVACY, sealed.to_json())
    return sealed


def _explained(folder: Path, statement: Statement) -> tuple[Explanation, dict[str, str]]:
    """What a folder says of itself, and the files that say it."""
    names = sorted({entry.name for entry in folder.iterdir()} - {PRIVACY, README, INDEX})
    schema = (folder / SCHEMA).read_text(encoding="utf-8")
    explanation = explain_release(statement, schema, names)
    found = {README: explanation.to_markdown()}
    if (page := part("front page")) is not None:
        form = TextForm.of(statement.notes)
        described = json.loads(schema).get("tables") or [{"name": "synthetic"}]
        stems = {table["name"] for table in described}
        tables = [name for name in names if Path(name).stem in stems]
        heads = {name: frames.first_rows(folder / name, FIRST_ROWS, form) for name in tables}
        found[INDEX] = page(explanation, statement, heads)
    return explanation, found


def _changed_words(folder: Path, statement: Statement) -> dict[str, bool]:
    """The files that say in other words what a release is, and whether they state its guarantee.

    Files of another version cannot be compared with that: they count as if they did.
    """
    explanation, texts = _explained(folder, statement)
    other = version("marginalsyn") not in statement.versions.get("marginalsyn", "").split(" and ")
    found = {}
    for name in sorted(texts.keys() & statement.files):
        text = (folder / name).read_text("utf-8")
        if text != texts[name]:
            found[name] = other or explanation.promised_in(text, name == INDEX)
    return found


def _write_text(path: Path, text: str) -> None:
    folders.write_bytes(path, text.encode())


def _write_pair(stage: Path, name: str, packed: tuple[Any, Mapping[str, np.ndarray]]) -> None:
    """A JSON index and the arrays that it describes."""
    index, arrays = packed
    text = json.dumps(plain(index), indent=1, ensure_ascii=False, allow_nan=False)
    _write_text(stage / f"{name}.json", text + "\n")
    folders.write_file(stage / f"{name}.npz", lambda handle: folders.dump_arrays(handle, arrays))

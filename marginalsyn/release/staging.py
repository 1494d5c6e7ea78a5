"""Writes a folder completely or not at all, and reads untrusted files, arrays among them.

A folder is built next to its final name, flushed to the disk and renamed. A run killed before the
rename leaves only ``.NAME.unfinished-XXXXXXXX``, which can be deleted. Noisy measurements and
models are arrays in one ``.npz`` file, which is read safely even if it is hostile, with a JSON
index.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import math
import operator
import os
import re
import secrets
import shutil
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from marginalsyn.contract import Measurement, Model
from marginalsyn.errors import MarginalsynError, ReleaseError, UsageError
from marginalsyn.records.ledger_file import sync_folder
from marginalsyn.table.schema import Schema
from marginalsyn.validation import shown

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_FREE = 16 * 2**20


def check_outside(path: Path, why: str = "it holds what it states and no more") -> None:
    """Refuse a path of --out that is a release folder, or is inside one."""
    whole = path.resolve()
    if any((place / "privacy.json").exists() for place in (whole, *whole.parents)):
        raise UsageError(f"--out ({path}) must not be a release or inside one: {why}")


@contextlib.contextmanager
def as_written(what: str) -> Iterator[None]:
    """Report whatever fails as a fault of a release's files: they hold nothing private."""
    try:
        yield
    except MarginalsynError:
        raise
    except Exception as error:
        raise ReleaseError(
            f"{what} must be as it was written: {type(error).__name__}: {shown(str(error))}"
        ) from error


def is_plain(name: str) -> bool:
    """Whether a name can only mean a file directly inside a folder."""
    return _PLAIN.fullmatch(name) is not None


def check_writable(path: Path) -> None:
    """Refuse a folder name whose parent cannot be written, by writing there and deleting it."""
    with _explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        disk = shutil.disk_usage(path.parent)
        # A file system that is no disk, such as /proc, has no room and is not full.
        if disk.total and disk.free < _FREE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        probe = _neighbour(path, "unfinished")
        probe.mkdir()
        try:
            write_bytes(probe / "probe", b"probe")
        finally:
            shutil.rmtree(probe, ignore_errors=True)


@contextlib.contextmanager
def staged(path: Path, *, replace: bool) -> Iterator[Path]:
    """Give a folder to fill; on success it takes the name ``path``, otherwise it is removed.

    With ``replace`` the folder that has the name now is moved aside, and deleted once the new one
    is in its place.
    """
    stage = _neighbour(path, "unfinished")
    with _explained(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            stage.mkdir()
            yield stage
            sync_folder(stage)
            if replace and path.exists():
                _exchange(stage, path)
            else:
                os.rename(stage, path)
            sync_folder(path.parent)
        except BaseException:
            shutil.rmtree(stage, ignore_errors=True)
            raise


def leftover(path: Path) -> Path | None:
    """The former folder of this name, if a run was killed just while it was being replaced."""
    found = path.parent.glob(f".{glob.escape(path.name)}.replaced-*")
    return max(found, key=lambda former: former.stat().st_ctime_ns, default=None)


def write_file(path: Path, fill: Callable[[IO[bytes]], object]) -> None:
    """Write one file and flush it to the disk."""
    with path.open("xb") as handle:
        fill(handle)
        handle.flush()
        os.fsync(handle.fileno())


def write_bytes(path: Path, data: bytes) -> None:
    """Write one file and flush it to the disk."""
    write_file(path, lambda handle: handle.write(data))


def copy_file(source: Path, path: Path) -> None:
    """Copy one file's contents and flush them to the disk."""
    with source.open("rb") as data:
        write_file(path, lambda handle: shutil.copyfileobj(data, handle))


def sha256(path: Path) -> str:
    """The hexadecimal SHA-256 of a file's bytes."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def regular(folder: Path, name: str, *, limit: int | None = None) -> Path:
    """The path of a file directly inside ``folder``: no link, no device, not too large."""
    if not is_plain(name):
        raise ReleaseError(f"file name ({name!r}) must be a plain name; do not trust this folder")
    path = folder / name
    try:
        status = path.lstat()
    except OSError as error:
        raise ReleaseError(f"file ({path}) must be readable: {error.strerror}") from None
    if not stat.S_ISREG(status.st_mode):
        raise ReleaseError(f"file ({path}) must be a regular file, not a link or a folder")
    if limit is not None and status.st_size > limit:
        raise ReleaseError(
            f"file ({path}, {status.st_size:,} bytes) must be at most {limit:,} bytes"
        )
    return path


def _neighbour(path: Path, word: str) -> Path:
    return path.parent / f".{path.name}.{word}-{secrets.token_hex(4)}"


def _exchange(stage: Path, path: Path) -> None:
    former = _neighbour(path, "replaced")
    try:
        os.rename(path, former)
        os.rename(stage, path)
    except BaseException:
        if former.exists() and not path.exists():
            os.rename(former, path)
        raise
    # Under the name of a former release there is a whole one or none.
    waste = _neighbour(path, "unfinished")
    os.rename(former, waste)
    shutil.rmtree(waste, ignore_errors=True)


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn the operating system's refusals into advice."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            advice = "the disk is full; make room or choose another disk"
        elif error.errno == errno.EDQUOT:
            advice = "your quota of the disk is used up; make room or choose another disk"
        elif error.errno == errno.EFBIG:
            advice = (
                "a file would be larger than the disk's format or a limit of this shell (`ulimit "
                "-f`) allows; write fewer rows, or lift the limit"
            )
        elif error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EISDIR):
            advice = "the name is taken; choose another"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            advice = "it cannot be written there; choose a folder that you may write to"
        else:
            advice = f"{error.strerror or error}; choose another folder"
        raise ReleaseError(f"release folder ({path}) was not written: {advice}") from error


Packed = tuple[Any, dict[str, np.ndarray]]

MAX_BYTES = 4 * 2**30
_MAX_MEMBERS = 200_000
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    ValueError,
    TypeError,
    OSError,
    EOFError,
    SyntaxError,
    RuntimeError,
    MemoryError,
)


def dump_arrays(handle: IO[bytes], arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays of numbers, booleans or text; the same arrays give the same bytes."""
    checked = {name: np.asarray(array) for name, array in arrays.items()}
    for name, array in checked.items():
        if array.dtype.kind not in "biufUS":
            raise ReleaseError(f"array {name} ({array.dtype}) must hold numbers, booleans or text")
    np.savez_compressed(handle, **checked)  # type: ignore[arg-type]


def load_arrays(path: Path, *, limit: int = MAX_BYTES) -> dict[str, np.ndarray]:
    """Read what ``dump_arrays`` wrote: nothing is unpickled, and sizes are checked first."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > _MAX_MEMBERS or sum(m.file_size for m in members) > limit:
                raise ReleaseError(f"file ({path}) must unpack to at most {limit:,} bytes")
            return {m.filename.removesuffix(".npy"): _member(archive, m) for m in members}
    except _DAMAGE as error:
        raise ReleaseError(f"file ({path}) must be a readable .npz archive: {error}") from error


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(member) as handle:
        version = np.lib.format.read_magic(handle)
        if version == (1, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(handle)
        elif version == (2, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(handle)
        else:
            raise ValueError(f"array format {version} is unknown")
        if dtype.kind not in "biufUS":
            raise ValueError(f"arrays of {dtype} are not allowed")
        # The header may claim any shape: believe only what the archive holds.
        if math.prod(shape) * dtype.itemsize > member.file_size:
            raise ValueError(f"{member.filename} is shorter than its header says")
        values = np.frombuffer(handle.read(), dtype=dtype, count=math.prod(shape))
    return values.reshape(shape, order="F" if fortran else "C").copy()


def pack(measurements: Sequence[Measurement]) -> Packed:
    """An index with columns, shape, sigma and purpose of every marginal, and the marginals."""
    index, arrays = [], {}
    for number, measurement in enumerate(measurements):
        arrays[f"m{number}"] = np.asarray(measurement.values)
        index.append(
            {
                "array": f"m{number}",
                "columns": list(measurement.columns),
                "shape": list(np.shape(measurement.values)),
                "sigma": float(measurement.sigma),
                "purpose": measurement.purpose,
            }
        )
    return index, arrays


def unpack_measurements(index: Any, arrays: Mapping[str, np.ndarray]) -> list[Measurement]:
    """Undo ``pack``; the index may come from anyone."""
    with as_written("measurements.json"):
        return [
            Measurement(
                columns=tuple(str(column) for column in entry["columns"]),
                values=arrays[entry["array"]],
                sigma=float(entry["sigma"]),
                purpose=str(entry["purpose"]),
            )
            for entry in index
        ]


def measurement_problems(measurements: Iterable[Measurement], schema: Schema) -> list[str]:
    """List the marginals that cannot be marginals of the schema's columns.

    A marginal may have fewer cells than the schema gives it: a generator may merge rare codes.
    """
    domain, problems = schema.domain, []
    for measurement in measurements:
        most = tuple(domain.get(column, 0) for column in measurement.columns)
        shape = measurement.values.shape
        fits = len(shape) == len(most) and all(map(operator.le, shape, most))
        if not fits or not measurement.sigma >= 0:
            problems.append(
                f"measurement over ({', '.join(measurement.columns)}) must have at most the shape "
                f"{most} and a standard deviation"
            )
    return problems


def pack_model(model: Model) -> Packed:
    """An index with the model's kind, facts and array names, and the arrays."""
    # Column names make poor archive members (slashes, dots): the index keeps the names.
    arrays = {f"a{number}": np.asarray(array) for number, array in enumerate(model.arrays.values())}
    named = [{"array": key, "name": name} for key, name in zip(arrays, model.arrays, strict=True)]
    return {"kind": model.kind, "meta": model.meta, "arrays": named}, arrays


def unpack_model(index: Any, arrays: Mapping[str, np.ndarray]) -> Model:
    """Undo ``pack_model``; the index may come from anyone."""
    with as_written("model.json"):
        return Model(
            kind=str(index["kind"]),
            arrays={str(entry["name"]): arrays[entry["array"]] for entry in index["arrays"]},
            meta=dict(index["meta"]),
        )

"""Writes a folder completely or not at all, and reads untrusted files.

A folder is built next to its final name, flushed to the disk and renamed. A run killed before the
rename leaves only ``.NAME.unfinished-XXXXXXXX``, which can be deleted.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from marginalsyn.errors import ReleaseError
from marginalsyn.records.ledger_file import sync_folder

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_FREE = 16 * 2**20


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

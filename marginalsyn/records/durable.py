"""Durable appends for the ledger: they survive a crash and a power cut."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def append_bytes(path: Path, data: bytes, size: int) -> None:
    """Append to a file of ``size`` bytes and fsync; on failure put it back as it was."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(handle, view) :]
        os.fsync(handle)
    except BaseException:
        # Failing to remove half a line is harmless: a reader takes it for what it is.
        with contextlib.suppress(OSError):
            os.ftruncate(handle, size)
            os.fsync(handle)
        raise
    finally:
        os.close(handle)
    if not size:
        sync_folder(path.parent)


def replace_bytes(path: Path, data: bytes) -> None:
    """Give a file new contents, whole or not at all; its permissions stay."""
    path = path.resolve()
    beside = path.with_name(f".{path.name}.repair")
    beside.unlink(missing_ok=True)
    append_bytes(beside, data, 0)
    beside.chmod(path.stat().st_mode & 0o777)
    beside.replace(path)
    sync_folder(path.parent)


def write_bytes(path: Path, data: bytes) -> None:
    """Write a small file whole or not at all."""
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    append_bytes(beside, data, 0)
    beside.replace(path)
    sync_folder(path.parent)


def make_folder(folder: Path) -> None:
    """Make a folder and its missing parents, each flushed into the one above."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(exist_ok=True)
        sync_folder(one.parent)


def sync_folder(folder: Path) -> None:
    """Flush a folder's list of names to the disk, where the system knows how."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

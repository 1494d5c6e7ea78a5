"""What SQLite asks of the system, handed through a function of the test's: to count, fail or kill.

SQLite lets its calls be replaced by name. Flushes are not among them; writes, deletions and
openings are, so a process can be stopped before and after every step of a commit.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Any

assert sqlite3.sqlite_version  # the library is loaded

_INT, _SIZE, _LONG, _POINTER = ctypes.c_int, ctypes.c_size_t, ctypes.c_long, ctypes.c_void_p
_CALLS: dict[bytes, tuple[Any, ...]] = {
    b"open": (_INT, _POINTER, _INT, _INT),
    b"pwrite": (_LONG, _INT, _POINTER, _SIZE, _LONG),
    b"pwrite64": (_LONG, _INT, _POINTER, _SIZE, _LONG),
    b"ftruncate": (_INT, _INT, _LONG),
    b"unlink": (_INT, _POINTER),
}
_HEAD = ("iVersion", "szOsFile", "mxPathname")
_REST = (
    *("pNext", "zName", "pAppData", "xOpen", "xDelete", "xAccess", "xFullPathname", "xDlOpen"),
    *("xDlError", "xDlSym", "xDlClose", "xRandomness", "xSleep", "xCurrentTime", "xGetLastError"),
    *("xCurrentTimeInt64", "xSetSystemCall", "xGetSystemCall"),
)


class _Vfs(ctypes.Structure):
    _fields_ = [*((name, _INT) for name in _HEAD), *((name, _POINTER) for name in _REST)]


_alive: list[Any] = []


def _call(around: Callable[[Callable[[], int]], int], original: Any, *args: Any) -> int:
    return around(lambda: original(*args))


def handed_through(around: Callable[[Callable[[], int]], int]) -> None:
    """Let every call go through ``around``, which is given the call and returns its result.

    A call fails where ``around`` returns -1 after :func:`ctypes.set_errno`.
    """
    library = ctypes.CDLL(ctypes.util.find_library("sqlite3"))
    library.sqlite3_initialize()
    library.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
    vfs = library.sqlite3_vfs_find(None)
    put = ctypes.CFUNCTYPE(_INT, _POINTER, ctypes.c_char_p, _POINTER)(vfs.contents.xSetSystemCall)
    get = ctypes.CFUNCTYPE(_POINTER, _POINTER, ctypes.c_char_p)(vfs.contents.xGetSystemCall)
    for name, types in _CALLS.items():
        address = get(vfs, name)
        if not address:
            continue
        kind = ctypes.CFUNCTYPE(*types, use_errno=True)
        replacement = kind(partial(_call, around, kind(address)))
        _alive.append(replacement)
        assert put(vfs, name, ctypes.cast(replacement, _POINTER)) == 0

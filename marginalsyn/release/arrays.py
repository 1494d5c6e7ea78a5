"""Named numeric arrays in one ``.npz`` file, read safely even if the file is hostile."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import numpy as np

from marginalsyn.errors import ReleaseError

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

"""Adds to an editable install what type checkers read.

The folders ``cli/``, ``plugins/`` and ``datasets/`` are parts of the package, which an editable
install finds by a hook that runs; type checkers run nothing. So its wheel gets a package of stubs:
the sources as they are when it is installed.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Iterator
from pathlib import Path

from setuptools import setup
from setuptools.command.editable_wheel import editable_wheel


class TypedEditableWheel(editable_wheel):
    """An editable wheel with ``marginalsyn-stubs``."""

    def run(self) -> None:
        super().run()
        for wheel in Path(self.dist_dir).glob("*editable*.whl"):
            add_files(wheel, dict(self.stubs()))

    def stubs(self) -> Iterator[tuple[str, bytes]]:
        """The sources by their names in the wheel."""
        root, folders = Path(__file__).parent, self.distribution.package_dir
        for package in self.distribution.packages:
            owner = max((n for n in folders if f"{package}.".startswith(f"{n}.")), key=len)
            inner = package.removeprefix(owner).replace(".", "/")
            place = package.replace(".", "/").replace("marginalsyn", "marginalsyn-stubs", 1)
            for source in sorted((root / f"{folders[owner]}{inner}").glob("*.py")):
                yield f"{place}/{source.stem}.pyi", source.read_bytes()


def add_files(wheel: Path, files: dict[str, bytes]) -> None:
    """Write a wheel again with more files, which its record lists."""
    with zipfile.ZipFile(wheel) as archive:
        found = {name: archive.read(name) for name in archive.namelist()}
    record = next(name for name in found if name.endswith(".dist-info/RECORD"))
    lines = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    listed = found.pop(record) + "".join(lines).encode()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**found, **files, record: listed}.items():
            archive.writestr(name, data)


setup(cmdclass={"editable_wheel": TypedEditableWheel})

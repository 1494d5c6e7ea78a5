"""A release of linked tables as a table of its persons, which weights are made for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import pandas as pd

from marginalsyn.contract import Measurement, Model
from marginalsyn.errors import ReleaseError
from marginalsyn.people import persons_frame, persons_schema
from marginalsyn.release.folder import WEIGHTS, Release
from marginalsyn.release.linked import LinkedRelease
from marginalsyn.release.statement import Statement


class PersonsRelease(Release):
    """The persons of linked tables, one row each, in the order of the root's file.

    What is added to it, such as weights, is added to the release of linked tables.

    Example:
        >>> persons = PersonsRelease.read("clinic-release")
        >>> len(persons.frame()) == len(LinkedRelease.read("clinic-release").frames()["patients"])
        True
    """

    def __init__(self, path: Path, statement: Statement, linked: LinkedRelease) -> None:
        super().__init__(path, statement, persons_schema(linked.tree))
        self.linked = linked

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Open a release of linked tables.

        Raises:
            ReleaseError: it is none, or a table's file has the name that weights have.
        """
        linked = LinkedRelease.read(path)
        for table in linked.tree.tables:
            if linked.file_of(table.name) == WEIGHTS:
                raise ReleaseError(
                    f"table ({table.name}) must have another name: weights are written to {WEIGHTS}"
                )
        return cls(linked.path, linked.statement, linked)

    def reopen(self) -> Self:
        """The release that lies there now."""
        return self.read(self.path)

    @property
    def frame_file(self) -> str:
        """The name of the file that holds the persons."""
        return self.linked.file_of(self.linked.tree.root.name)

    def frame(self) -> pd.DataFrame:
        """The persons, typed by the schema."""
        return persons_frame(self.linked.tree, self.linked.frames())

    def measurements(self) -> list[Measurement]:
        """The noisy marginals of the root's view, which counts persons once."""
        return self.linked.measurements()[self.linked.tree.root.name]

    def model(self) -> Model | None:
        """None: more persons are drawn from all views."""
        return None

    def amend(self, files: Mapping[str, bytes], **costs: Any) -> Release:
        """Add files and charges to the release of linked tables."""
        taken = {self.linked.file_of(table.name) for table in self.linked.tree.tables}
        if both := taken & {*files}:
            raise ReleaseError(f"file name ({sorted(both)[0]!r}) must not be a table's")
        super().amend(files, **costs)
        return self.read(self.path)

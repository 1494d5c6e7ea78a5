"""Reference tables that ``generate`` leans on: read, described, and compared with the private rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.sources.source import open_source
from marginalsyn.table.parts import parts_of

if TYPE_CHECKING:
    from marginalsyn.table.schema import Schema

# So many rows are drawn from the model of a release, whatever number it was made of.
DRAWN = 100_000


@dataclass(frozen=True, kw_only=True)
class ReferenceTable:
    """A table to lean on, which holds no private rows, or was paid for.

    Attributes:
        name: as it was given.
        data: its rows, or the file that has them.
        rows: how many rows its counts are as good as.
        digest: a hash of its contents.
        facts: what a statement says of it.
    """

    name: str
    data: pd.DataFrame | Path
    rows: float
    digest: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def present(self) -> list[str]:
        """The names of its columns."""
        return [str(name) for name in open_source(self.data).columns]

    def columns(self, schema: Schema) -> list[str]:
        """Its columns that a schema has, and the parts of dates among them."""
        own = {*self.present} - schema.derived
        parts = parts_of([column for column in schema.columns if column.name in own])
        return [name for name in schema.names if name in own or name in parts]

    def codes(self, schema: Schema) -> np.ndarray:
        """Its rows as codes, a column for each of :meth:`columns`."""
        return self.table(schema).unprotected("a reference, which is public").all_rows().values

    def table(self, schema: Schema) -> PrivateTable:
        """Its rows under the part of a schema that it has."""
        shared = schema.select(self.columns(schema))
        left = tuple(name for name in self.present if name not in shared.names)
        return PrivateTable.open(self.data, shared.model_copy(update={"drop": left}))

"""Reads a coded table with its private-pgm domain file, as the papers publish them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from marginalsyn.table.schema import Schema


@dataclass(frozen=True)
class Coded:
    """A table of codes: the frame, its schema (with coarser bins if asked for) and its label."""

    frame: pd.DataFrame
    schema: Schema
    label: str

    @property
    def domain(self) -> dict[str, int]:
        """The number of codes of every column, as published."""
        return {c.name: c.upper + 1 for c in self.schema.columns}

    def codes(self, frame: pd.DataFrame) -> np.ndarray:
        """The frame's codes at full resolution."""
        return frame[list(self.domain)].to_numpy(np.int64)

    def split(self, seed: int, share: float = 0.8) -> tuple[pd.DataFrame, pd.DataFrame]:
        """A random train and test part."""
        order = np.random.default_rng(seed).permutation(len(self.frame))
        cut = int(share * len(self.frame))
        return self.frame.iloc[order[:cut]], self.frame.iloc[order[cut:]]


def read_coded(csv: str, domain: str, label: str, bins: int | None = None) -> Coded:
    """Read a table; ``bins`` (public) coarsens every column with more codes than that."""
    schema = Schema.read(domain)
    frame = pd.read_csv(csv)[schema.names]
    if bins is not None:
        wide = {c.name: bins for c in schema.columns if c.size > bins}
        schema = schema.with_bins(**wide)
    return Coded(frame, schema.model_copy(update={"label": label}), label)

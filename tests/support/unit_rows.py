"""Rows as unit coordinates, extreme ones among them."""

from __future__ import annotations

import numpy as np

from marginalsyn.table.schema import Schema


def random_rows(schema: Schema, rows: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    columns = []
    for column in schema.columns:
        if column.numeric:
            values = rng.choice([0.0, 1.0, 0.5, rng.random()], rows)
            columns.append(np.where(column.nullable & (rng.random(rows) < 0.2), -1.0, values))
        else:
            columns.append(rng.integers(0, column.size, rows).astype(float))
    return np.column_stack(columns)

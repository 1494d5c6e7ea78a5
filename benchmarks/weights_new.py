"""Tables that had no part in any setting of the weights, and ten places of them.

Excerpts of the American Community Survey (NIST), Berka's orders, and made up populations; for
`benchmarks/weights_places.py --new`.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from populations import POPULATIONS

from marginalsyn.table.codec import Codec
from marginalsyn.table.columns import CategoricalColumn
from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn
from marginalsyn.table.schema import Schema

# Table, generator and eps, fixed before any of them was run.
NEW = (
    ("national", "mst", 6),
    ("national", "auto", 1),
    ("order", "independent", 6),
    ("order", "privbayes", 1),
    ("crossed census", "independent", 6),
    ("crossed census", "mst", 1),
    ("wards", "mst", 6),
    ("wards", "aim", 1),
    ("strong triples", "independent", 6),
    ("strong triples", "support-points-gp", 1),
)
_CENSUS = (
    *("AGEP", "SEX", "MSP", "RAC1P", "NOC", "NPF", "OWN_RENT", "EDU", "INDP_CAT"),
    *("PINCP_DECILE", "DREM", "DPHY"),
)


def load_new(name: str, folder: Path | None, rows: int = 6000) -> Any:
    """A table, split; None where there is none of that name."""
    if name in POPULATIONS:
        schema, codes = POPULATIONS[name]()
        picked = codes[np.random.default_rng(1).permutation(len(codes))[: int(rows * 1.5)]]
        return _split(Codec(schema).decode(picked, np.random.default_rng(0)), schema, rows)
    if folder is None:
        return None
    if name in ("ma", "national"):
        kind = "demographic" if name == "ma" else "simple"
        schema = Schema.read(folder / "nist" / f"{kind}.schema.json")
        schema = schema if name == "ma" else schema.select(list(_CENSUS))
        schema = schema.model_copy(update={"label": "OWN_RENT" if name == "ma" else "DPHY"})
        frame = _read(folder / "nist" / f"{name}2019.csv.gz", ",")[list(schema.names)]
        return _split(frame, schema, rows)
    return _split(*_orders(folder / "berka"), rows) if name == "order" else None


def _orders(folder: Path) -> tuple[pd.DataFrame, Schema]:
    """Payment orders with their accounts; the label is what they pay for."""
    orders, accounts = (_read(folder / f"{part}.asc.gz", ";") for part in ("order", "account"))
    both = orders.merge(accounts, on="account_id")
    frame = pd.DataFrame(
        {
            "bank": both["bank_to"],
            "amount": pd.to_numeric(both["amount"]),
            "purpose": both["k_symbol"].str.strip().replace("", "none"),
            "district": pd.to_numeric(both["district_id"]),
            "frequency": both["frequency"],
            "opened": both["date"].str[:2].astype(int),
        }
    )

    def listed(column: str) -> CategoricalColumn:
        return CategoricalColumn(name=column, categories=tuple(sorted(frame[column].unique())))

    columns = (
        listed("bank"),
        ContinuousColumn(name="amount", lower=0, upper=15_000, bins=16),
        listed("purpose"),
        IntegerColumn(name="district", lower=1, upper=77, bins=11),
        listed("frequency"),
        IntegerColumn(name="opened", lower=93, upper=97),
    )
    return frame, Schema(columns=columns, label="purpose")


def _read(path: Path, sep: str) -> pd.DataFrame:
    return pd.read_csv(path, sep=sep, dtype=str, keep_default_na=False)


def _split(frame: pd.DataFrame, schema: Schema, rows: int) -> Any:
    """Two parts of three for training, of ``rows`` rows at most."""
    order = np.random.default_rng(0).permutation(len(frame))[: int(rows * 1.5)]
    cut, codec = int(len(order) / 1.5), Codec(schema)
    train, test = (
        codec.conform(frame.iloc[part].reset_index(drop=True))
        for part in (order[:cut], order[cut:])
    )
    return SimpleNamespace(schema=schema, train=train, test=test)

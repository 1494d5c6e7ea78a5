"""The split of rows: one row more is one row more of one side, in any spelling and any file."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marginalsyn import (
    Charge,
    Ledger,
    Neighbours,
    PrivateTable,
    Schema,
    Unit,
    Workspace,
    defaults,
    make_noise,
)
from marginalsyn.errors import BudgetError, UsageError
from marginalsyn.operations.origins import Named, PrivateInput
from marginalsyn.privacy.charges import ZCDP
from marginalsyn.records.workspace import Kept
from marginalsyn.sources.holdout import Holdout
from marginalsyn.table.codec import Codec
from marginalsyn.table.columns import CategoricalColumn

SHARE = 0.4
TEXTS = ("1", "1.0", "01", "1e0", "true", "TRUE", "True", "x", "x\x1fy", "y", "", "-0", "0")


def texts(name: str) -> CategoricalColumn:
    return CategoricalColumn(name=name, categories=tuple(t for t in TEXTS if t), nullable=True)


SCHEMA = Schema(columns=(texts("a"), texts("b")))
ROW = st.tuples(*[st.sampled_from([*TEXTS, None])] * 2)


def sides(data: Any, schema: Schema = SCHEMA, salt: str = "salt") -> tuple[Counter, Counter]:
    """The rows of both sides, by their codes."""
    view = PrivateTable.open(data, schema, holdout=SHARE, holdout_salt=salt).unprotected("test")
    held = Codec(schema).encode(view.holdout_frame())
    return tuple(Counter(map(tuple, codes.tolist())) for codes in (view.all_rows().values, held))  # type: ignore[return-value]


def frame(rows: Any) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=["a", "b"], dtype="str")


@settings(max_examples=8, deadline=None)
@given(rows=st.lists(ROW, min_size=1, max_size=12), more=ROW, place=st.integers(0, 12))
def test_one_row_more_is_one_row_more_of_one_side(rows: Any, more: Any, place: int) -> None:
    """In any place, whatever the others are: also those of the same number or truth value."""
    before = sides(frame(rows))
    after = sides(frame([*rows[:place], more, *rows[place:]]))
    assert sum(map(Counter.total, before)) == len(rows)
    gone = [b - a for b, a in zip(before, after, strict=True)]
    come = [a - b for b, a in zip(before, after, strict=True)]
    assert [one.total() for one in gone] == [0, 0]
    assert sorted(one.total() for one in come) == [0, 1]


def test_equal_rows_are_held_out_by_their_numbers() -> None:
    """As by hand: of n equal rows those whose hash of salt, content and number says so."""
    schema = Schema.from_domain({"a": 3})
    known = hashlib.sha256(b"s\x1f2").hexdigest()[:32]
    bound = f"{round(SHARE * 16**8):08x}"
    for n in (1, 2, 7, 50):
        table = PrivateTable.open(
            pd.DataFrame({"a": [2] * n}), schema, holdout=SHARE, holdout_salt="s"
        )
        found = table.unprotected("test").counts(["a"])[2]
        digests = [hashlib.sha256(f"{known}\x1f{i}".encode()).hexdigest() for i in range(1, n + 1)]
        assert found == sum(digest[:8] >= bound for digest in digests)


def test_spellings_of_one_number_are_numbered_apart() -> None:
    """Together, one row more would change which of the others are held out."""
    before = sides(frame([(text, None) for text in TEXTS[:4] for _ in range(9)]))
    for more in TEXTS[:4]:
        after = sides(frame([(more, None), *((t, None) for t in TEXTS[:4] for _ in range(9))]))
        assert (
            sum((a - b).total() + (b - a).total() for a, b in zip(after, before, strict=True)) == 1
        )


def test_every_size_of_number_has_a_text_of_its_own(tmp_path: Path) -> None:
    """Alone in its row, a value goes its own way: half of 400 kinds, and never all of them."""
    rng = np.random.default_rng(2)
    for scale in (-320, -40, -16, 0, 16, 19, 40, 300):
        values = rng.uniform(0.1, 1, 400) * 10.0**scale * rng.choice([-1, 1], 400)
        values = np.unique(values)
        schema = Schema.from_domain({"b": 2})
        table = pd.DataFrame({"b": 0, "left": values})
        schema = Schema(columns=schema.columns, drop=("left",))
        kept = PrivateTable.open(table, schema, holdout=0.5).unprotected("t").counts(["b"])[0]
        if -40 <= scale <= 40:  # within 12 standard deviations
            assert abs(kept - len(values) / 2) < 6 * np.sqrt(len(values)), scale


def test_a_csv_a_parquet_file_and_a_frame_have_one_split(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows = 200
    reals = [0.1, 1e-5, 1e16, 123456.125, 2 / 3, -3.0, np.nan, np.inf, -np.inf, 1e22]
    days = [dt.datetime(2020, 1, 1) + dt.timedelta(days=int(n)) for n in rng.integers(9, size=rows)]
    table = pd.DataFrame(
        {
            "real": rng.choice(reals, rows),
            "whole": rng.integers(-5, 2**62, rows),
            "truth": rng.choice([True, False], rows),
            "day": pd.Series(days),
            "word": rng.choice(np.array(["", " a ", "Ünï", "007", None]), rows),
            "price": [Decimal(int(n)) / 4 for n in rng.integers(100, size=rows)],
            "row": np.arange(rows),
        }
    )
    schema = Schema(
        columns=(CategoricalColumn(name="row", categories=tuple(range(rows))),),
        drop=tuple(n for n in table if n != "row"),
    )
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "t.parquet")
    wanted = sides(table, schema)
    assert sides(tmp_path / "t.csv", schema) == wanted
    assert sides(tmp_path / "t.parquet", schema) == wanted
    assert sides(table.astype(object), schema) == wanted


def test_a_text_file_has_a_hold_out_of_its_own(tmp_path: Path) -> None:
    """It writes numbers in single precision and moments in its own way: other rows are held out."""
    table = pd.DataFrame({"a": [0, 1] * 20, "b": np.linspace(0, 1, 40, dtype=np.float32)})
    schema = Schema(columns=Schema.from_domain({"a": 2}).columns, drop=("b",))
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "t.parquet")
    ledger = Ledger(None)
    charge = Charge(mechanism="test", cost=ZCDP(rho=0.1), neighbours=Neighbours.REPLACE)
    how: Any = {"ledger": ledger, "holdout": SHARE, "holdout_salt": "s", "neighbours": "replace"}
    for source in (table, tmp_path / "t.parquet"):
        PrivateTable.open(source, schema, **how).charge([charge], noise=make_noise(0))
    with pytest.raises(BudgetError, match="pick the same rows"):
        PrivateTable.open(tmp_path / "t.csv", schema, **how).charge([charge], noise=make_noise(0))


def test_names_of_our_own_are_short() -> None:
    """PostgreSQL cuts names off after 63 bytes, and would take two for one."""
    name = "x" * 60
    split, table = Holdout(0.2, "s", Neighbours.ADD_REMOVE), ibis.table({name: "string"}, name="t")
    query = split.part(table, "postgres", held_out=True)
    names = set(re.findall('"([^"]+)"', str(ibis.to_sql(query, dialect="postgres"))))
    assert name in names
    assert max(map(len, names)) <= 63


def test_names_of_our_own_may_be_columns() -> None:
    table = pd.DataFrame({"marginalsyn_place": [0, 1] * 50, "_MARGINALSYN_rest": [1, 0] * 50})
    schema = Schema.from_domain(dict.fromkeys(table, 2))
    assert sum(map(Counter.total, sides(table, schema))) == 100


def test_an_earlier_version_s_split_is_refused_and_persons_stay(tmp_path: Path) -> None:
    """Its salts lack the mark of this version's rule; persons were chosen as now."""
    space = Workspace.here(tmp_path)
    space.remember("people.csv", holdout=0.2, holdout_salt="old")
    assert space.holdout_salt("people.csv") == f"{defaults.SPLIT_RULE}old"
    people = pd.DataFrame({"id": np.arange(60) // 2, "a": 1})
    people.to_csv(tmp_path / "people.csv", index=False)
    schema = Schema(columns=Schema.from_domain({"a": 2}).columns, drop=("id",))
    kept = Kept(holdout=0.2, holdout_salt="old")
    source = PrivateInput(key=str(tmp_path / "people.csv"), schema=schema, kept=kept, named=Named())
    with pytest.raises(UsageError, match=r"hold-out \(0.2\) of this release"):
        source.open(None, kept.neighbours)
    of_persons = Schema(columns=schema.columns).with_unit(Unit(column="id", max_rows=2))
    counts = [
        PrivateTable.open(people, of_persons, holdout=0.2, holdout_salt=salt)
        .unprotected("test")
        .frame()
        .shape[0]
        for salt in ("old", f"{defaults.SPLIT_RULE}old")
    ]
    assert counts[0] == counts[1] < 60

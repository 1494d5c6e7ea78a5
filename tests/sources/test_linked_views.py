"""Linked tables: what one person with all that hangs on it moves, in every view.

Taken for granted, and tested: keys are compared as texts; what is told of a row depends on the rows
of its own parent; of a key that is there twice one root row counts, and each child has its own
paths; orphans and rows of nobody do not count; weights add up to one exactly.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from typing import Any

import duckdb
import forest_traps
import numpy as np
import pandas as pd
import pytest

from marginalsyn import (
    Charge,
    Ledger,
    LinkedSchema,
    Neighbours,
    PrivateForest,
    Schema,
    Unit,
    make_noise,
)
from marginalsyn.errors import BudgetError, DataError, SchemaError, UsageError
from marginalsyn.people.tree import LinkedTable
from marginalsyn.privacy.charges import ZCDP
from marginalsyn.sources import counting, linked_views
from marginalsyn.sources.persons import AMOUNT, WHOLE, shared

PATIENTS = Schema.from_domain({"sex": 2})
VISITS = Schema(
    columns=(
        {"kind": "integer", "name": "day", "lower": 0, "upper": 40, "bins": 4, "nullable": True},
        {"kind": "integer", "name": "ward", "lower": 0, "upper": 9},
    )
)
DRUGS = Schema.from_domain({"dose": 3})
TREE = LinkedSchema(
    (
        LinkedTable("patients", PATIENTS, key="id"),
        LinkedTable(
            "visits", VISITS, key="vid", parent="patients", link="id", max_children=3, order="day"
        ),
        LinkedTable("drugs", DRUGS, parent="visits", link="vid", max_children=2),
        LinkedTable(
            "cards", Schema.from_domain({"kind": 2}), parent="patients", link="id", max_children=1
        ),
    )
)
Tables = dict[str, pd.DataFrame]


def with_bounds(**most: int) -> LinkedSchema:
    tables = (replace(t, max_children=most.get(t.name, t.max_children)) for t in TREE.tables)
    return replace(TREE, tables=tuple(tables))


def person(rng: np.random.Generator, name: Any, visits: int) -> Tables:
    """One person; keys of visits may be there twice, blank, or missing."""
    ids = [f"{name}/{i}" for i in range(visits)]
    for place in range(visits):
        if rng.random() < 0.2:
            ids[place] = rng.choice([f"{name}/twice", "", None])
    drugs = [v for v in ids if v for _ in range(int(rng.integers(0, 4)))]
    cards = int(rng.integers(0, 3))
    return {
        "patients": pd.DataFrame({"id": [name], "sex": [rng.integers(0, 2)]}),
        "visits": pd.DataFrame(
            {
                "id": pd.Series([name] * visits, dtype=object),
                "vid": pd.Series(ids, dtype=object),
                "day": pd.Series(rng.choice(["3", "20", "x", None], visits), dtype=object),
                "ward": rng.integers(0, 10, visits),
            }
        ),
        "drugs": pd.DataFrame(
            {"vid": pd.Series(drugs, dtype=object), "dose": rng.integers(0, 3, len(drugs))}
        ),
        "cards": pd.DataFrame(
            {"id": pd.Series([name] * cards, dtype=object), "kind": rng.integers(0, 2, cards)}
        ),
    }


def crowd(seed: int, size: int = 8) -> Tables:
    rng = np.random.default_rng(seed)
    parts = [person(rng, f"p{i}", int(rng.integers(0, 7))) for i in range(size)]
    parts.append(person(rng, "shared root", 2))
    parts.append(person(rng, "shared root", 1))
    parts.append(
        {
            "patients": pd.DataFrame({"id": pd.Series([None, ""], dtype=object), "sex": [0, 1]}),
            "visits": pd.DataFrame(
                {"id": ["nobody", None, ""], "vid": ["n", "m", "o"], "day": "1", "ward": 1}
            ),
            "drugs": pd.DataFrame({"vid": ["nowhere", None, ""], "dose": 1}),
            "cards": pd.DataFrame({"id": ["nobody"], "kind": [1]}),
        }
    )
    return joined(*parts)


def joined(*parts: Tables) -> Tables:
    return {name: pd.concat([p[name] for p in parts], ignore_index=True) for name in parts[0]}


def counts(
    data: Any, tree: LinkedSchema = TREE, only: str = ""
) -> dict[tuple[str, ...], np.ndarray]:
    forest = PrivateForest.open(data, tree)
    names = [view.name for view in forest.views if only in view.name]
    cost = [Charge(mechanism="test", cost=ZCDP(rho=0.01))]
    found = {}
    whole = forest.charge(cost * len(names), noise=make_noise())
    for name in names:
        with whole.view(name, cost) as visit:
            names = visit.schema.names
            wanted = [(), *((n,) for n in names), *itertools.combinations(names, 2)]
            for key, values in visit.counts_many(wanted).items():
                found[(name, *key)] = values
    return found


def moved(
    one: Any, other: Any, tree: LinkedSchema = TREE, only: str = ""
) -> dict[tuple[str, ...], float]:
    before, after = counts(one, tree, only), counts(other, tree, only)
    return {key: float(np.abs(before[key] - after[key]).sum()) for key in before}


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))]
)
def test_one_person_more_moves_every_marginal_of_a_view_by_one_or_not_at_all(seed: int) -> None:
    others, rng = crowd(seed), np.random.default_rng(seed + 100)
    # Without the root row nothing else of a person counts, so that it alone makes neighbours.
    visits = (9, 6, 3, 0)[seed]
    new = person(rng, "new", visits)
    whole = joined(others, new)
    shuffled = {n: f.sample(frac=1, random_state=seed) for n, f in whole.items()}
    without = {**shuffled, "patients": shuffled["patients"].query("id != 'new'")}
    found = moved(without, shuffled)
    assert set(found.values()) <= {0.0, 1.0}
    for view in ("patients", "visits first"):
        assert found[view,] == (1.0 if view == "patients" or visits else 0.0)


DEEP = LinkedSchema(
    (
        LinkedTable("people", Schema.from_domain({"a": 2}), key="id"),
        *(
            LinkedTable(
                name,
                Schema.from_domain({"v": 3, "when": 4}),
                key=key,
                parent=parent,
                link=link,
                max_children=most,
                order=order,
            )
            for name, key, parent, link, most, order in (
                ("stays", "sid", "people", "id", 2, "when"),
                ("tests", "tid", "stays", "sid", 3, None),
                ("notes", None, "tests", "tid", 2, "when"),
                ("pets", None, "people", "id", 2, None),
            )
        ),
    )
)


def tangle(seed: int, persons: int = 5) -> Tables:
    """Rows whose keys and links are drawn from so few that many stand under several parents."""
    rng = np.random.default_rng(seed)

    def drawn(kind: str, size: int) -> pd.Series:
        few = [*(f"{kind}{i}" for i in range(4)), "", None]
        return pd.Series(rng.choice(np.array(few, dtype=object), size, p=[0.22] * 4 + [0.06] * 2))

    def rows(size: int, **keys: str) -> pd.DataFrame:
        numbers = {"v": rng.integers(0, 3, size), "when": rng.integers(0, 4, size)}
        return pd.DataFrame({name: drawn(kind, size) for name, kind in keys.items()} | numbers)

    who = [f"p{i}" for i in range(persons)] + ["p0", "", None]
    people = pd.DataFrame({"id": pd.Series(who, dtype=object), "a": rng.integers(0, 2, len(who))})
    return {
        "people": people,
        "stays": rows(14, id="p", sid="s"),
        "tests": rows(14, sid="s", tid="t"),
        "notes": rows(12, tid="t"),
        "pets": rows(6, id="p"),
    }


def seen(tables: Tables, tree: LinkedSchema = DEEP) -> dict[str, Counter[tuple[int, ...]]]:
    """By view, how much of a unit stands on each combination of codes."""
    forest = PrivateForest.open(tables, tree)
    found = {}
    for view in forest.views:
        coded = forest.connection.backend.to_pyarrow(forest.forest.coded(view)).to_pandas()
        amounts = coded.pop(AMOUNT)
        found[view.name] = Counter[tuple[int, ...]]()
        for row, amount in zip(coded.itertuples(index=False), amounts, strict=True):
            found[view.name][tuple(row)] += int(amount)
    return found


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 12))]
)
def test_what_a_person_adds_is_one_unit_whoever_else_has_the_same_keys(seed: int) -> None:
    """Every view is the sum, cell by cell, of what it is for each person alone."""
    tables = tangle(seed)
    for key in ("sid", "tid"):
        above = tables["stays" if key == "sid" else "tests"].dropna()
        link = "id" if key == "sid" else "sid"
        assert above.groupby(key)[link].nunique().max() > 1  # it does happen
    whole, people = seen(tables), tables["people"]
    alone = [
        seen({**tables, "people": people[people["id"] == who]})
        for who in people["id"].dropna().unique()
        if who
    ]
    for view, counted in whole.items():
        added: Counter[tuple[int, ...]] = Counter()
        for one in alone:
            assert one[view].total() in (0, WHOLE)
            added += one[view]
        assert added == counted


def test_a_key_under_two_parents_is_no_error_and_each_has_the_rows_below() -> None:
    """An error that one row more or less decides would be an answer that nobody paid for."""
    tables = {
        "patients": pd.DataFrame({"id": ["a", "b", "c"], "sex": [0, 1, 1]}),
        "visits": pd.DataFrame({"id": ["a", "b", "c"], "vid": ["0", "0", "1"], "day": 1}),
        "drugs": pd.DataFrame({"vid": ["0", "0", "0", "1"], "dose": [1, 1, 1, 2]}),
        "cards": pd.DataFrame({"id": ["a"], "kind": [0]}),
    }
    tables["visits"]["ward"] = 1
    found = counts(tables)
    assert found["drugs first", "patients.sex", "drugs.dose"].tolist() == [[0, 1, 0], [0, 1, 1]]
    assert found["drugs next", "patients.sex", "drugs.dose"].tolist() == [[0, 1, 0], [0, 1, 0]]
    assert found["visits first", "number of drugs"].tolist() == [0, 1, 2]
    # The curator can see it.
    tables["drugs"].loc[4] = "nowhere", 1
    keys = PrivateForest.open(tables, TREE).unprotected("test").keys()
    none = {"unlinked": 0, "orphans": 0}
    assert keys["patients"] == {"rows": 3, **none, "double": 0, "keyless": 0}
    assert keys["visits"] == {
        "rows": 3,
        **none,
        "beyond": 0,
        "double": 1,
        "shared": 1,
        "keyless": 0,
    }
    assert keys["drugs"] == {"rows": 5, **none, "orphans": 1, "beyond": 1}


def test_links_hold_whatever_the_types_of_columns_are() -> None:
    """A frame's keys become fractions where one row has none, or objects where one has a text."""
    rng, size = np.random.default_rng(2), 6
    visits = np.repeat(np.arange(size), 4)
    drugs = np.repeat(np.arange(len(visits)), 3)
    tables = {
        "patients": pd.DataFrame({"id": np.arange(size), "sex": rng.integers(0, 2, size)}),
        "visits": pd.DataFrame(
            {
                "id": visits,
                "vid": np.arange(len(visits)),
                "day": rng.integers(0, 40, len(visits)),
                "ward": rng.integers(0, 10, len(visits)),
            }
        ),
        "drugs": pd.DataFrame({"vid": drugs, "dose": rng.integers(0, 3, len(drugs))}),
        "cards": pd.DataFrame({"id": np.arange(size), "kind": 0}),
    }
    new = {
        "patients": pd.DataFrame({"id": [99], "sex": [1]}),
        "visits": pd.DataFrame(
            {"id": [99, np.nan], "vid": [np.nan, 98], "day": [np.nan, 1], "ward": ["x", 1]}
        ),
        "drugs": pd.DataFrame({"vid": ["y"], "dose": [np.nan]}),
        "cards": pd.DataFrame({"id": [99], "kind": [np.nan]}),
    }
    found = moved(tables, joined(tables, new))
    assert set(found.values()) <= {0.0, 1.0}
    assert found["visits first",] == 1.0


def test_keys_are_compared_by_their_texts_whatever_the_collation(tmp_path: Any) -> None:
    path = tmp_path / "clinic.duckdb"
    with duckdb.connect(str(path)) as con:
        key = "TEXT COLLATE NOCASE"
        con.execute(f"CREATE TABLE patients (id {key}, sex INT)")
        con.execute(f"CREATE TABLE visits (id {key}, vid {key}, day TEXT, ward INT)")
        con.execute(f"CREATE TABLE drugs (vid {key}, dose INT)")
        con.execute(f"CREATE TABLE cards (id {key}, kind INT)")
        con.execute("INSERT INTO patients VALUES ('p', 0), ('P', 1)")
        con.execute("INSERT INTO visits VALUES ('p', 'v', '1', 1), ('P', 'V', '1', 2)")
        con.execute("INSERT INTO drugs VALUES ('v', 0), ('v', 0), ('V', 1)")
    found = counts(f"duckdb://{path}", only="first")
    assert found["visits first",] == 2.0
    assert found["visits first", "number of drugs"].tolist() == [0.0, 1.0, 1.0]


def test_a_person_s_unit_is_shared_exactly_at_every_level() -> None:
    data, rng = crowd(5, 20), np.random.default_rng(0)
    tree = with_bounds(visits=7, drugs=13)
    many = pd.DataFrame({"vid": rng.choice(data["visits"]["vid"].dropna(), 900), "dose": 1})
    data["drugs"] = pd.concat([data["drugs"], many])
    forest = PrivateForest.open(data, tree)
    for view in forest.views:
        table = forest.forest._paths(view.table, view.kind)
        depth = len(tree.path(view.table)) - 1
        weighed = shared(table, depth)
        found = forest.connection.backend.to_pyarrow(
            weighed.group_by("marginalsyn_root").aggregate(total=weighed[AMOUNT].sum())
        )
        assert set(found.column("total").to_pylist()) == {WHOLE}
        coded = forest.connection.backend.to_pyarrow(forest.forest.coded(view)).to_pandas()
        assert coded[AMOUNT].sum() == WHOLE * found.num_rows


def test_counts_are_those_of_a_plain_computation() -> None:
    data = {
        "patients": pd.DataFrame({"id": ["a", "b"], "sex": [0, 1]}),
        "visits": pd.DataFrame(
            {
                "id": ["a", "a", "a", "a", "b"],
                "vid": ["1", "2", "3", "4", "5"],
                "day": [30, 2, 11, 40, 7],
                "ward": [5, 5, 6, 7, 1],
            }
        ),
        "drugs": pd.DataFrame({"vid": ["2", "2", "2", "5", "9"], "dose": [1, 1, 1, 2, 0]}),
        "cards": pd.DataFrame({"id": ["b"], "kind": [1]}),
    }
    found = counts(data)
    # Of four visits three are counted, but there were three or more: the number says three.
    assert found["patients", "number of visits"].tolist() == [0, 1, 0, 1]
    assert found["patients", "number of cards"].tolist() == [1, 1]
    # First by day: 2 (ward 5) and 7 (ward 1); the next of a are 11 (ward 6) and 30 (ward 5).
    assert np.flatnonzero(found["visits first", "visits.ward"]).tolist() == [1, 5]
    assert found["visits first", "visits.ward"].tolist().count(1.0) == 2
    later = found["visits next", "visits.ward before", "visits.ward"]
    assert later[5, 6] == later[6, 5] == 0.5
    assert found["visits next", "visits.ward as before"].tolist() == [1.0, 0.0]
    gaps = found["visits next", "visits.day since before"]
    assert gaps.sum() == 1.0
    # Drugs of the visit on day 2 (three, two counted) and of that of b, each one unit.
    assert found["drugs first", "patients.sex", "drugs.dose"].tolist() == [[0, 1, 0], [0, 0, 1]]
    assert found["drugs next", "drugs.dose"].tolist() == [0, 1, 0]
    assert found["visits first", "number of drugs"].tolist() == [0, 1, 1]


def test_children_beyond_the_bound_are_not_counted_though_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without shares of one unit a person with 30 visits moves the total by more than one."""
    others = crowd(7)
    new = person(np.random.default_rng(1), "new", 30)
    whole = joined(others, new)
    assert moved(others, whole, only="visits next")["visits next",] == 1.0

    def unshared(rows: Any, depth: int) -> Any:
        import ibis

        return rows.mutate(marginalsyn_amount=ibis.literal(WHOLE, "int64")).view()

    monkeypatch.setattr(linked_views, "shared", unshared)
    assert (
        moved(others, whole, only="visits next")["visits next",] == 2.0
    )  # three kept, the first in its own view
    loose = with_bounds(visits=40)
    assert moved(others, whole, loose, "visits next")["visits next",] == 29.0


@pytest.mark.slow
def test_counts_in_the_engine_are_those_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    data = crowd(8)
    in_memory = counts(data)
    monkeypatch.setattr(counting, "MEMORY_BYTES", 0)
    in_engine = counts(data)
    assert all(np.array_equal(in_memory[key], in_engine[key]) for key in in_memory)


@pytest.mark.slow
def test_files_and_a_database_count_as_frames_do(tmp_path: Any) -> None:
    import duckdb

    data = crowd(9)
    folder = tmp_path / "clinic"
    folder.mkdir()
    base = duckdb.connect(str(tmp_path / "clinic.duckdb"))
    for name, frame in data.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
        texts = (
            frame.astype(object)
            .where(frame.notna(), None)
            .map(lambda value: None if value is None else str(value))
        )
        base.register("texts", texts.astype("str").where(texts.notna(), None))
        base.execute(f"CREATE TABLE {name} AS SELECT * FROM texts")
    base.close()
    wanted = counts(data)
    for source in (folder, f"duckdb://{tmp_path}/clinic.duckdb"):
        found = counts(source)
        assert all(np.array_equal(wanted[key], found[key]) for key in wanted)


def test_sequences_of_one_table_take_the_person_s_columns_from_the_first_row() -> None:
    schema = Schema(columns=(*PATIENTS.columns, *VISITS.columns)).with_unit(
        Unit(column="id", max_rows=3, order="day")
    )
    tree = LinkedSchema.of_sequence(schema, "visits", ["sex"])
    frame = pd.DataFrame(
        {"id": ["a"] * 4 + ["b"], "sex": [1, 0, 1, 1, 0], "day": [9, 2, 5, 30, 1], "ward": 3}
    )
    found = counts({"visits": frame}, tree)
    assert found["persons", "persons.sex", "number of visits"].tolist() == [[0, 1, 0, 1], [0] * 4]
    assert found["visits next",] == 1.0
    held = PrivateForest.open({"visits": frame}, tree, holdout=0.5, holdout_salt="x")
    view = held.unprotected("test")
    parts = [view.frames(held_out=side) for side in (False, True)]
    assert sorted(k for part in parts for k in part["persons"]["id"]) == ["a", "b"]
    assert sum(len(part["visits"]) for part in parts) == 5


def test_persons_are_held_out_with_all_that_hangs_on_them() -> None:
    data = crowd(10, 30)
    forest = PrivateForest.open(data, TREE, holdout=0.4, holdout_salt="salt")
    view = forest.unprotected("test")
    train, test = view.frames(), view.frames(held_out=True)
    assert set(train["patients"]["id"]).isdisjoint(test["patients"]["id"])
    assert set(test["visits"]["id"]) <= set(test["patients"]["id"])
    assert len(test["patients"]) > 3 < len(train["patients"])
    cost = [Charge(mechanism="test", cost=ZCDP(rho=0.01))]
    with forest.charge(cost, noise=make_noise()) as visit:
        assert visit.counts(()) == train["patients"]["id"].nunique()


def test_the_charge_of_all_views_is_one_entry_and_its_unit_is_the_person() -> None:
    ledger = Ledger(None)
    forest = PrivateForest.open(crowd(11), TREE, ledger=ledger)
    rows = Charge(mechanism="test", cost=ZCDP(rho=0.01))
    whole = forest.charge([rows] * len(forest.views), noise=make_noise())
    assert ledger.total().rho == pytest.approx(0.01 * len(forest.views))
    assert len(ledger.made()) == 1
    with whole.view("patients", [rows]) as visit:
        with pytest.raises(UsageError, match="one by one"):
            visit.all_rows()
        with pytest.raises(BudgetError):
            visit.measure(["patients.sex"], sigma=1.0)
        assert visit.measure(["patients.sex"], sigma=8.0).values.shape == (2,)
    with pytest.raises(BudgetError, match="must be open"):
        visit.measure(["patients.sex"], sigma=100.0)
    # What a view has is taken out of the whole, which has no more than was charged.
    with whole.view("visits first", [rows] * (len(forest.views) - 1)) as visit:
        assert whole.remaining == pytest.approx(0)
        with pytest.raises(BudgetError, match="must be covered"):
            whole.measure(["patients.sex"], sigma=100.0)
        with pytest.raises(BudgetError, match="visits next"), whole.view("visits next", [rows]):
            pass
        whole.close()
        with pytest.raises(BudgetError, match="must be open"):
            visit.counts(())
    assert [payment["view"] for payment in whole.payments] == ["patients"]
    assert sum(charge.rho for charge in whole.spent()) == pytest.approx(1 / 128)
    with pytest.raises(BudgetError, match="unit"):
        ledger.check([rows], unit="rows")
    replaced = Charge(mechanism="t", cost=ZCDP(rho=0.01), neighbours=Neighbours.REPLACE)
    with pytest.raises(UsageError, match="must be add-remove"):
        forest.charge([replaced], noise=make_noise())
    # Nor as one table of persons, whose hold-out is that of the tables.
    for salt in ("a", "b"):
        forest = PrivateForest.open(crowd(11), TREE, holdout=0.5, holdout_salt=salt)
        with pytest.raises(UsageError, match=r"neighbours \(add-remove\)"):
            forest.persons_table().charge([replaced], noise=make_noise(), persons=True)


def test_what_does_not_fit_is_refused_before_anything_is_read(tmp_path: Any) -> None:
    data = crowd(12)
    with pytest.raises(UsageError, match="must hold table 'drugs'"):
        PrivateForest.open({k: v for k, v in data.items() if k != "drugs"}, TREE)
    with pytest.raises(SchemaError, match="of table visits must be in its schema"):
        PrivateForest.open({**data, "visits": data["visits"].assign(x=1)}, TREE).check_layout()
    drugs = data["drugs"].rename(columns={"vid": "visit"})
    with pytest.raises(SchemaError, match="of table drugs must be in the source"):
        PrivateForest.open({**data, "drugs": drugs}, TREE).check_layout()
    with pytest.raises(DataError, match="one file for table patients"):
        PrivateForest.open(tmp_path, TREE)


def test_traps_of_sql_do_not_break_the_bound() -> None:
    forest_traps.check(lambda tables: tables)

"""Persons as the unit: what one person moves, whatever the person's rows and all others are.

Taken for granted, and tested: rows of a person are found by the text as it stands; which of them
are kept depends on that person alone; rows of nobody do not count; weights add up to one exactly;
nothing that looks at single rows runs.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import person_traps
import pytest

from marginalsyn import Budget, Charge, Ledger, Neighbours, PrivateTable, Schema, Unit, make_noise
from marginalsyn.access import rows as access
from marginalsyn.contract import make_config, make_weights
from marginalsyn.errors import BudgetError, SchemaError, UsageError
from marginalsyn.host import calibrate, generate
from marginalsyn.privacy.charges import ZCDP
from marginalsyn.release.folder import Release
from marginalsyn.release.sampling import sample
from marginalsyn.sources import counting, persons

BASE = Schema.from_domain({"a": 3, "b": 2})
UNIT = Unit(column="who", max_rows=4)


def written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries are written again for each table, so that they follow what is replaced."""
    monkeypatch.setattr(access, "_written", access._written.__wrapped__)


def rows_of(rng: np.random.Generator, who: object, rows: int) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "who": pd.Series([who] * rows, dtype=object),
            "a": rng.integers(0, 3, rows),
            "b": rng.integers(0, 2, rows),
            "day": rng.choice([None, "2", "10", "x"], rows),
        }
    )


def crowd(rng: np.random.Generator, size: int = 12) -> pd.DataFrame:
    return pd.concat([rows_of(rng, f"p{i}", int(rng.integers(1, 9))) for i in range(size)])


def schema_of(unit: Unit) -> Schema:
    drop = [] if unit.column == "day" else ["day"]
    return Schema(columns=BASE.columns, drop=drop).with_unit(unit)


def counts(frame: pd.DataFrame | str, unit: Unit = UNIT) -> dict[tuple[str, ...], np.ndarray]:
    schema = schema_of(unit)
    data = frame if isinstance(frame, str) else frame.reset_index(drop=True)
    table = PrivateTable.open(data, schema)
    charge = Charge(mechanism="test", cost=ZCDP(rho=0.01))
    pairs = itertools.combinations(schema.names, 2)
    wanted = [(), *((name,) for name in schema.names), *pairs]
    with table.charge([charge], noise=make_noise(), persons=True) as visit:
        return visit.counts_many(wanted)


def moved(one: pd.DataFrame, other: pd.DataFrame, unit: Unit = UNIT) -> list[float]:
    before, after = counts(one, unit), counts(other, unit)
    return [float(np.abs(before[key] - after[key]).sum()) for key in before]


@pytest.mark.parametrize("order", [None, "day"])
@pytest.mark.parametrize("most", [1, 4])
def test_one_person_more_moves_every_marginal_by_exactly_one(order: str | None, most: int) -> None:
    unit = Unit(column="who", max_rows=most, order=order)
    rng = np.random.default_rng(most)
    for rows in (2, 30):
        others = crowd(rng)
        joined = pd.concat([others, rows_of(rng, "new", rows)]).sample(frac=1, random_state=rows)
        assert moved(others, joined, unit) == [1.0] * len(counts(others, unit))


def test_one_person_replaced_moves_a_marginal_by_two_at_most_and_no_total() -> None:
    rng = np.random.default_rng(5)
    others = crowd(rng)
    one = pd.concat([others, rows_of(rng, "one", 9)])
    other = pd.concat([rows_of(rng, "other", 2), others])
    found = moved(one, other)
    assert found[0] == 0.0
    assert max(found) <= 2.0


def test_rows_beyond_the_bound_are_not_counted_though_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the enforcement a person with 30 rows moves the total by more than one."""
    rng = np.random.default_rng(6)
    others = crowd(rng)
    joined = pd.concat([others, rows_of(rng, "new", 30)])
    assert moved(others, joined)[0] == 1.0
    loose = Unit(column="who", max_rows=40)
    written_again(monkeypatch)
    monkeypatch.setattr(
        persons, "bounded", lambda table, *_, real=persons.bounded, **__: real(table, loose)
    )
    monkeypatch.setattr(persons, "weights", lambda most: np.full(2 * most + 400, persons.WHOLE))
    assert moved(others, joined)[0] == 30.0


def test_which_rows_are_kept_depends_on_no_other_person_and_no_order_of_rows() -> None:
    rng = np.random.default_rng(7)
    mine, unit = rows_of(rng, "me", 20), Unit(column="who", max_rows=4, order="day")
    # Equal rows, equal days, missing days and days that are no numbers are all there.
    alone = counts(mine, unit)
    for seed in range(6):
        others = crowd(rng)
        mixed = pd.concat([mine, others]).sample(frac=1, random_state=seed)
        with_me, without = counts(mixed, unit), counts(others, unit)
        for key, values in alone.items():
            assert np.array_equal(with_me[key] - without[key], values)


@pytest.mark.parametrize("missing", [np.nan, np.inf, "x"])
def test_which_rows_are_kept_depends_on_no_type_of_a_column(missing: object) -> None:
    """A frame's whole numbers become fractions, or objects, where one row has none."""
    rng = np.random.default_rng(10)
    size = 120
    others = pd.DataFrame(
        {
            "who": rng.integers(0, 15, size),
            "a": rng.integers(0, 3, size),
            "b": rng.integers(0, 2, size),
            "day": rng.integers(2**53, 2**60, size),
        }
    )
    new = pd.DataFrame({"who": [7.5], "a": [missing], "b": [1], "day": [missing]})
    for order in (None, "day"):
        unit = Unit(column="who", max_rows=3, order=order)
        found = moved(others, pd.concat([others, new], ignore_index=True), unit)
        assert found == [1.0] * len(found)


def test_order_keeps_the_first_rows_numbers_by_size_and_missing_last() -> None:
    days = ["10", "9", None, "x", "2"]
    frame = pd.DataFrame({"who": "p", "a": [0, 0, 1, 1, 2], "b": 0, "day": days})
    found = counts(frame, Unit(column="who", max_rows=3, order="day"))[("a",)]
    # 2 and 9 and 10 come first: a = 2, 0, 0.
    assert np.allclose(found, [2 / 3, 0, 1 / 3], atol=2e-6)


def test_traps_of_sql_do_not_break_the_bound() -> None:
    person_traps.check(lambda frame: frame)


def test_a_collation_makes_no_two_persons_one(tmp_path: Path) -> None:
    """Where "A1" and "a1" are grouped together, one person changes which rows of another count."""
    rows = [("A1", 0, 0, 0), ("A1", 1, 1, 1), ("a1", 2, 0, 2), ("a1", 2, 1, 3)]
    found = []
    for kept in (rows[:2], rows):
        path = tmp_path / f"{len(kept)}.duckdb"
        with duckdb.connect(str(path)) as con:
            con.execute("CREATE TABLE t (who TEXT COLLATE NOCASE, a INT, b INT, day INT)")
            con.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", kept)
        found.append(counts(f"duckdb://{path}?table=t"))
    assert [float(np.abs(found[1][key] - found[0][key]).sum()) for key in found[0]] == [1.0] * len(
        found[0]
    )


def test_weights_of_the_rows_of_a_person_add_up_to_one_exactly() -> None:
    found = persons.weights(1000)
    for k in range(1, 1001):
        spare = persons.WHOLE % k
        assert spare * found[2 * k + 1] + (k - spare) * found[2 * k] == persons.WHOLE


def test_counts_in_the_engine_are_those_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = crowd(np.random.default_rng(10), 40)
    in_memory = counts(frame)
    monkeypatch.setattr(counting, "MEMORY_BYTES", 0)
    in_engine = counts(frame)
    assert all(np.array_equal(in_memory[key], in_engine[key]) for key in in_memory)


def test_counts_are_those_of_a_plain_computation() -> None:
    frame = crowd(np.random.default_rng(11), 30)
    unit = Unit(column="who", max_rows=9)  # nobody has more: nothing is left to chance
    sizes = frame.groupby("who")["a"].transform("size")
    expected = [(1 / sizes)[frame["a"] == a].sum() for a in range(3)]
    found = counts(frame, unit)
    # Each row's weight is rounded to 2^-20.
    assert np.allclose(found[("a",)], expected, atol=len(frame) * 2.0**-20)
    numbers = frame.groupby("who").size().value_counts()
    assert [float(n) for n in found[("rows_of_person",)]] == [
        float(numbers.get(k, 0)) for k in range(1, 10)
    ]


def test_noise_is_of_the_stated_scale_and_the_cost_that_of_rows() -> None:
    table = PrivateTable.open(crowd(np.random.default_rng(12)), schema_of(UNIT))
    charge = Charge(mechanism="test", cost=ZCDP(rho=50.0))
    with table.charge([charge], noise=make_noise(3), persons=True) as visit:
        exact = visit.counts(("a", "b"))
        # 600 draws: the sample deviation is within a factor of 1.2, by far more than 6 sigma.
        draws = [visit.measure(("a", "b"), sigma=4.0).values - exact for _ in range(100)]
        spent = 50.0 - visit.remaining
    assert spent == pytest.approx(100 / (2 * 4.0**2), rel=1e-9)
    assert 4.0 / 1.2 < np.std(draws) < 4.0 * 1.2


def test_nothing_sees_single_rows() -> None:
    table = PrivateTable.open(crowd(np.random.default_rng(13)), schema_of(UNIT))
    charge = Charge(mechanism="test", cost=ZCDP(rho=0.01))
    with table.charge([charge], noise=make_noise(), persons=True) as visit:
        for look in (
            visit.all_rows,
            lambda: next(visit.batches()),
            lambda: next(visit.batches(units=True)),
        ):
            with pytest.raises(UsageError, match="one by one"):
                look()


def test_what_bounds_rows_only_is_refused_before_it_is_charged() -> None:
    table = PrivateTable.open(crowd(np.random.default_rng(14)), schema_of(UNIT))
    charge = Charge(mechanism="test", cost=ZCDP(rho=0.01))
    with pytest.raises(UsageError, match="Nothing was charged"):
        table.charge([charge], noise=make_noise())
    check_refused(table, "support-points")


@pytest.mark.tensorflow
def test_networks_are_refused_for_persons() -> None:
    table = PrivateTable.open(crowd(np.random.default_rng(14)), schema_of(UNIT))
    check_refused(table, "dpgan", "pategan")


def check_refused(table: PrivateTable, *methods: str) -> None:
    for method in methods:
        with pytest.raises(UsageError, match=r"cannot protect persons.*aim"):
            generate(table, make_config(method), Budget(eps=1), noise=make_noise())
    assert not table.ledger.read().entries


def test_a_ledger_has_one_unit_and_other_bounds_are_the_same_unit() -> None:
    frame, ledger = crowd(np.random.default_rng(15)), Ledger(None, source="here")
    charge = Charge(mechanism="test", cost=ZCDP(rho=0.01))
    for unit in (UNIT, Unit(column="who", max_rows=2)):
        table = PrivateTable.open(frame, schema_of(unit), ledger=ledger)
        table.charge([charge], noise=make_noise(), persons=True)
    rows = Schema(columns=BASE.columns, drop=["who", "day"])
    with pytest.raises(BudgetError, match="one unit of privacy"):
        PrivateTable.open(frame, rows, ledger=ledger).charge([charge], noise=make_noise())


@pytest.mark.parametrize(
    "method",
    [
        *("aim", "mst", "clique-tree", "all-marginals"),
        *("independent", "fixed-marginals", "privbayes"),
    ],
)
def test_a_release_of_persons_has_the_rows_of_the_table(method: str, tmp_path) -> None:
    """Persons with many rows differ from the others: counting persons alone would be far off."""
    rng = np.random.default_rng(16)
    many = rng.random(3000) < 0.3
    k = np.where(many, rng.integers(5, 9, many.size), rng.integers(1, 3, many.size))
    who, severe = np.repeat(np.arange(many.size), k), np.repeat(many, k)
    frame = pd.DataFrame({"who": who, "b": severe.astype(int), "day": None})
    frame["a"] = np.where(severe, rng.integers(0, 2, len(frame)), rng.integers(1, 3, len(frame)))
    labelled = Schema(columns=BASE.columns, drop=["day"], label="b")
    schema = labelled.with_unit(Unit(column="who", max_rows=8))
    table = PrivateTable.open(frame, schema)
    noise = make_noise(4)
    made, statement = generate(table, make_config(method), Budget(eps=4), noise=noise)
    assert list(made.frame) == ["a", "b", "rows_of_person"]
    assert made.frame["b"].mean() == pytest.approx(severe.mean(), abs=0.03)
    assert (made.frame["a"] == 0).mean() == pytest.approx((frame["a"] == 0).mean(), abs=0.03)
    assert len(made.frame) == pytest.approx(len(frame), rel=0.05)
    assert made.notes["estimated_persons"] == pytest.approx(many.size, rel=0.05)
    assert "all rows of one person" in statement.unit
    assert not statement.problems()
    release = Release.write(made, schema, statement, tmp_path / "out")
    more = sample(Release.read(release.path), 2000, np.random.default_rng(0))
    assert more["b"].mean() == pytest.approx(severe.mean(), abs=0.05)
    assert "who" not in (tmp_path / "out" / "synthetic.csv").read_text().splitlines()[0]


def test_the_rows_of_a_person_are_on_one_side_of_the_split() -> None:
    frame = crowd(np.random.default_rng(17), 60).assign(a=0)
    schema = Schema(columns=BASE.columns, drop=["day"]).with_unit(UNIT)
    held = frame["who"].map({name: number % 2 for number, name in enumerate(frame["who"].unique())})
    frame["b"] = held  # so that the side of a person can be read off the rows
    table = PrivateTable.open(frame, schema, holdout=0.3, holdout_salt="x")
    view = table.unprotected("test")
    seen, kept = view.frame(), view.holdout_frame()
    assert len(seen) + len(kept) == len(frame)
    # A person's rows say how many they are: each part holds whole persons only.
    sizes = frame.groupby("who").size().clip(upper=4)
    for part in (seen, kept):
        whole = part["rows_of_person"].value_counts()
        assert all(n % k == 0 for k, n in whole.items() if k < 4)
        assert len(part)
    assert sizes.max() == 4


def test_under_replace_the_number_of_persons_is_public() -> None:
    frame = crowd(np.random.default_rng(18), 25)
    table = PrivateTable.open(frame, schema_of(UNIT))
    budget = Budget(eps=1, neighbours=Neighbours.REPLACE)
    made, statement = generate(table, make_config("mst"), budget, noise=make_noise())
    assert made.notes["estimated_persons"] == 25
    assert "number of persons is public" in statement.unit


def test_schemas_with_a_unit_make_the_round_trip() -> None:
    schema = schema_of(Unit(column="who", max_rows=50, order="day"))
    assert Schema.from_json(schema.to_json()) == schema
    assert schema.with_unit(None).names == BASE.names
    given = {"columns": BASE.columns, "unit": {"column": "who", "max_rows": 50, "order": "day"}}
    assert Schema(**given, drop=["day"]) == schema
    with pytest.raises(SchemaError, match="never released"):
        Schema(columns=BASE.columns, unit={"column": "a", "max_rows": 2})
    with pytest.raises(SchemaError, match="max_rows"):
        Schema(columns=BASE.columns, unit={"column": "who", "max_rows": 0})


def test_columns_of_the_unit_must_be_in_the_source_and_its_own_names_free() -> None:
    frame = crowd(np.random.default_rng(19))
    with pytest.raises(SchemaError, match=r"unit \('who2'\)"):
        PrivateTable.open(frame, schema_of(Unit(column="who2", max_rows=2))).check_layout()
    named = frame.rename(columns={"day": "Rows_of_person"})
    schema = Schema(columns=BASE.columns, drop=["Rows_of_person"]).with_unit(None)
    schema = Schema(columns=BASE.columns).with_unit(UNIT)
    with pytest.raises(SchemaError, match="another name"):
        PrivateTable.open(named, schema).check_layout()


def test_weights_that_bound_rows_only_are_refused() -> None:
    from marginalsyn.contract import Target

    frame = pd.DataFrame({"a": [0, 1], "b": [0, 1], "rows_of_person": [1, 2]})
    target = Target(frame=frame, schema=schema_of(UNIT), rows=2.0)
    with pytest.raises(UsageError, match="cannot protect persons"):
        calibrate(make_weights("output-gaussian"), target, Budget(eps=1))
    free, _ = calibrate(make_weights("none"), target, Budget(eps=1))
    assert not free.cost


ONE = Unit(column="who", max_rows=1)


def test_one_row_of_each_person_is_seen_like_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows one by one, for what samples and clips rows: one person more is one row more."""
    frame = crowd(np.random.default_rng(31))
    new = pd.DataFrame({"who": "new", "a": [0, 1, 2, 2] * 5, "b": 1, "day": "3"})
    charge = Charge(mechanism="test", cost=ZCDP(rho=0.01))

    def looks(rows: pd.DataFrame) -> list[np.ndarray]:
        table = PrivateTable.open(rows, schema_of(ONE))
        with table.charge([charge], noise=make_noise()) as visit:
            assert not visit.persons
            units = visit.all_rows(units=True).values
            batches = np.concatenate([batch.values for batch in visit.batches()])
            return [visit.all_rows().values, batches, units, visit.counts(("a", "b"))]

    def moved(added: pd.DataFrame) -> list[int]:
        one, other = looks(frame), looks(pd.concat([frame, added]).sample(frac=1, random_state=2))
        found = []
        for before, after in zip(one[:3], other[:3], strict=True):
            lots = [pd.Series(map(tuple, rows.tolist())).value_counts() for rows in (before, after)]
            found.append(int(lots[1].sub(lots[0], fill_value=0).abs().sum()))
        return [*found, int(np.abs(other[3] - one[3]).sum())]

    people = frame["who"].replace("", None).dropna().nunique()
    assert len(looks(frame)[0]) == people
    assert moved(new) == [1, 1, 1, 1]
    # With the bound taken out, all rows of the person come.
    written_again(monkeypatch)
    monkeypatch.setattr(
        persons, "bounded", lambda table, unit, engine, numbered: table.mutate(**{persons.SHARE: 2})
    )
    assert moved(new)[0] == len(new)


def test_methods_for_rows_keep_the_promise_where_one_row_of_each_person_counts() -> None:
    frame = crowd(np.random.default_rng(32))
    table = PrivateTable.open(frame, schema_of(ONE))
    config = make_config("support-points-gp", {"points": 20})
    synthesis, statement = generate(table, config, Budget(eps=5), noise=make_noise(1))
    assert "one person (column 'who')" in str(statement.unit)
    assert list(synthesis.frame.columns) == ["a", "b"]
    with pytest.raises(BudgetError, match="one unit of privacy"):
        table.ledger.check([Charge(mechanism="test", cost=ZCDP(rho=0.01))], unit="rows")


@pytest.mark.tensorflow
def test_networks_learn_from_one_row_of_each_person() -> None:
    table = PrivateTable.open(crowd(np.random.default_rng(33)), schema_of(ONE))
    config = make_config("dpgan", {"steps": 2, "rate": 1.0, "hidden": (4,)})
    synthesis, _ = generate(table, config, Budget(eps=5), noise=make_noise(1))
    assert list(synthesis.frame.columns) == ["a", "b"]

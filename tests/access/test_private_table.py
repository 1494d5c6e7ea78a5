"""The one door to private rows: exact counts inside, charges before rows, stable held-out parts."""

from __future__ import annotations

import functools
import itertools
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginalsyn import Budget, Charge, Ledger, Neighbours, PrivateTable, Schema, Unit, make_noise
from marginalsyn.access.private_table import STAMP, Unprotected
from marginalsyn.access.visit import Visit
from marginalsyn.errors import BudgetError, DataError, SchemaError, UsageError
from marginalsyn.privacy.charges import ZCDP, Pure, SubsampledGaussian
from marginalsyn.privacy.laws import DiscreteGaussian, DiscreteLaplace
from marginalsyn.privacy.selection import ExponentialMechanism
from marginalsyn.privacy.zcdp import exponential_eps, gaussian_rho, gaussian_sigma
from marginalsyn.sources import count_blocks, counting
from marginalsyn.sources.holdout import check_split
from marginalsyn.sources.source import Source
from marginalsyn.table.columns import BooleanColumn, CategoricalColumn, OrdinalColumn
from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn

SCHEMA = Schema(
    columns=(
        IntegerColumn(name="age", lower=0, upper=99, bins=10),
        ContinuousColumn(name="income", lower=0, upper=100, bins=5, nullable=True),
        CategoricalColumn(name="town", categories=("Bath", "Ely", "Wells"), nullable=True),
        OrdinalColumn(name="size", categories=("small", "middle", "large")),
        BooleanColumn(name="ill", true_label="yes", false_label="no"),
    ),
    drop=("id",),
)
PAIRS = list(itertools.combinations(SCHEMA.names, 2))


@functools.cache
def people(rows: int = 3000, seed: int = 5) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(-5, 110, rows)
    return pd.DataFrame(
        {
            "id": np.arange(rows),
            "town": rng.choice(np.array(["Bath", "Ely", "Wells", "York", None]), rows),
            "age": age,
            "income": np.where(rng.random(rows) < 0.1, np.nan, age * 0.9 + rng.normal(0, 9, rows)),
            "size": rng.choice(["small", "middle", "large"], rows),
            "ill": np.where(rng.random(rows) < age / 150, "yes", "no"),
        }
    )


def charges(
    rho: float = 1.0, neighbours: Neighbours = Neighbours.ADD_REMOVE, **costs: Any
) -> list[Charge]:
    cost = costs.get("cost", ZCDP(rho=rho))
    return [Charge(mechanism="test", cost=cost, neighbours=neighbours)]


def visit_of(table: PrivateTable, paid: list[Charge] | None = None) -> Visit:
    return table.charge(paid or charges(), noise=make_noise(3))


def expected_codes(frame: pd.DataFrame) -> np.ndarray:
    """The codes by plain pandas and numpy, written without the codec."""
    age = np.clip(frame["age"], 0, 99) // 10
    income = (frame["income"].clip(0, 99.99) // 20).fillna(5)
    town = frame["town"].map({"Bath": 0, "Ely": 1, "Wells": 2, "York": 3}).fillna(4)
    size = frame["size"].map({"small": 0, "middle": 1, "large": 2})
    ill = frame["ill"].map({"no": 0, "yes": 1})
    return np.column_stack([age, income, town, size, ill]).astype(np.int32)


def histogram(codes: np.ndarray, columns: tuple[str, ...], schema: Schema = SCHEMA) -> np.ndarray:
    """A marginal, one row after the other."""
    if not columns:
        return np.array(len(codes))
    total = np.zeros([schema.domain[name] for name in columns], dtype=np.int64)
    places = [schema.names.index(name) for name in columns]
    np.add.at(total, tuple(codes[:, places].T), 1)
    return total


@pytest.fixture(params=["frame", "csv", "parquet", "engine"])
def table(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> PrivateTable:
    data: Any = people()
    if request.param == "csv":
        data = tmp_path / "people.csv.gz"
        people().to_csv(data, index=False)
    elif request.param == "parquet":
        data = tmp_path / "people.parquet"
        people().to_parquet(data, row_group_size=100)
    elif request.param == "engine":
        monkeypatch.setattr(counting, "MEMORY_BYTES", 0)
    return PrivateTable.open(data, SCHEMA)


class TestCounts:
    def test_marginals_of_every_source(self, table: PrivateTable) -> None:
        codes = expected_codes(people())
        visit = visit_of(table)
        marginals = [*PAIRS, ("ill",), ("ill", "size", "age"), ()]
        found = visit.counts_many(marginals)
        assert list(found) == marginals
        for columns in marginals:
            assert found[columns].dtype == np.int64
            np.testing.assert_array_equal(found[columns], histogram(codes, columns))
            np.testing.assert_array_equal(visit.counts(columns), found[columns])
        assert found[()].shape == ()
        assert int(found[()]) == 3000

    def test_crosstab(self) -> None:
        found = visit_of(PrivateTable.open(people(), SCHEMA)).counts(["size", "ill"])
        wanted = pd.crosstab(people()["size"], people()["ill"])
        wanted = wanted.loc[["small", "middle", "large"], ["no", "yes"]]
        np.testing.assert_array_equal(found, wanted.to_numpy())

    def test_rows_and_batches_keep_the_order(self, table: PrivateTable) -> None:
        codes = expected_codes(people())
        visit = visit_of(table)
        np.testing.assert_array_equal(visit.all_rows().values, codes)
        batches = list(visit.batches(["ill", "age"], size=700))
        assert all(len(batch.values) <= 700 for batch in batches)
        np.testing.assert_array_equal(np.concatenate([b.values for b in batches]), codes[:, [4, 0]])
        found = visit.batches(["income", "town"], size=700, units=True)
        units = np.concatenate([batch.values for batch in found])
        income = people()["income"].to_numpy()
        wanted = np.where(np.isnan(income), 0.5, np.clip(income, 0, 100) / 100)
        np.testing.assert_allclose(units[:, 0], wanted)
        np.testing.assert_array_equal(units[:, 1], codes[:, 2])

    def test_merged_codes(self, table: PrivateTable) -> None:
        codes = expected_codes(people())
        visit = visit_of(table)
        age = np.array([0, 0, 0, 1, 1, 1, 1, 2, 2, 2])
        merged = visit.merged({"age": age})
        wanted = np.add.reduceat(histogram(codes, ("age", "ill")), [0, 3, 7], axis=0)
        np.testing.assert_array_equal(merged.counts(("age", "ill")), wanted)
        np.testing.assert_array_equal(visit.counts(("age", "ill")).sum(axis=0), wanted.sum(axis=0))
        np.testing.assert_array_equal(merged.all_rows().values[:, 0], age[codes[:, 0]])
        assert merged.measure(["age"], 5.0).values.shape == (3,)
        assert visit.remaining == merged.remaining < 1.0
        with pytest.raises(UsageError, match="one new code"):
            visit.merged({"age": age[:-1]})

    def test_blocks_add_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(count_blocks, "BLOCK_ROWS", 7)
        found = visit_of(PrivateTable.open(people(), SCHEMA)).counts_many([("ill",), ()])
        np.testing.assert_array_equal(
            found[("ill",)], histogram(expected_codes(people()), ("ill",))
        )
        assert int(found[()]) == 3000

    def test_wide_columns_need_wider_codes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        schema = Schema(columns=(IntegerColumn(name="a", lower=0, upper=69_999, bins=70_000),))
        frame = pd.DataFrame({"a": [0, 255, 256, 65_535, 65_536, 69_999, 69_999]})
        for limit in (2**20, 0):
            monkeypatch.setattr(counting, "MEMORY_BYTES", limit)
            found = visit_of(PrivateTable.open(frame, schema)).counts(["a"])
            assert found[[0, 255, 256, 65_535, 65_536, 69_999]].tolist() == [1, 1, 1, 1, 1, 2]
            assert found.sum() == 7

    @pytest.mark.parametrize("limit", [2**20, 0])
    def test_no_rows(self, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
        monkeypatch.setattr(counting, "MEMORY_BYTES", limit)
        table = PrivateTable.open(people().head(0), SCHEMA)
        visit = visit_of(table)
        assert visit.counts(["age", "town"]).sum() == 0
        assert visit.counts([]) == 0
        assert visit.all_rows().values.shape == (0, 5)
        assert list(table.unprotected("test").frame().columns) == SCHEMA.names

    def test_a_row_is_encoded_the_same_whatever_the_others_are(self) -> None:
        """Without this, one person could change every row's codes."""
        schema = Schema(
            columns=(
                CategoricalColumn(name="a", categories=("1", "2", "x"), nullable=True),
                IntegerColumn(name="b", lower=0, upper=9, nullable=True),
                BooleanColumn(name="c", nullable=True),
            )
        )
        values = [1, 1.0, "1", " 2", 2, "x", None, np.nan, "?", "y", 3.5]
        truths = [True, 1, "True", "true", 0, False, "no", None, np.nan, "FALSE", 1.0]
        frame = pd.DataFrame({"a": values, "b": values, "c": truths}, dtype=object)
        together = visit_of(PrivateTable.open(frame, schema)).all_rows().values
        for i in range(len(frame)):
            # Typed as pandas would type a table of this row alone.
            alone = frame.iloc[[i]].reset_index(drop=True).infer_objects()
            np.testing.assert_array_equal(
                visit_of(PrivateTable.open(alone, schema)).all_rows().values[0],
                together[i],
                str(values[i]),
            )

    def test_too_many_cells_and_bad_columns(self) -> None:
        columns = tuple(IntegerColumn(name=n, lower=0, upper=999, bins=1000) for n in "abc")
        frame = pd.DataFrame({"a": [1], "b": [2], "c": [3]})
        visit = visit_of(PrivateTable.open(frame, Schema(columns=columns)))
        with pytest.raises(UsageError, match="1,000,000,000 cells must have at most"):
            visit.counts(["a", "b", "c"])
        with pytest.raises(UsageError, match="distinct"):
            visit.counts(["a", "a"])
        with pytest.raises(SchemaError, match="'z'"):
            visit.counts(["z"])

    def test_close_drops_the_engine_s_table(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(counting, "MEMORY_BYTES", 0)
        table = PrivateTable.open(people(), SCHEMA)
        visit = visit_of(table)
        visit.counts(["age"])
        backend = table._rows._connection.backend
        assert [name for name in backend.list_tables() if "kept" in name]
        table.close()
        assert not [name for name in backend.list_tables() if "kept" in name]
        assert visit.counts(["age"]).sum() == 3000


class TestPayments:
    def visit(self, *paid: Charge) -> Visit:
        return PrivateTable.open(people(), SCHEMA).charge(paid, noise=make_noise(3))

    def test_measure_pays_first_and_adds_noise(self) -> None:
        visit = self.visit(*charges(0.5))
        exact = visit.counts(["town", "size"])
        measured = visit.measure(["town", "size"], 4.0, purpose="pairs")
        assert measured.columns == ("town", "size")
        assert measured.sigma == 4.0
        assert measured.values.dtype == np.int64
        difference = measured.values - exact
        assert 0 < np.abs(difference).max() < 40
        assert math.isclose(visit.remaining, 0.5 - 1 / 32)
        assert visit.payments == [
            {
                "mechanism": "gaussian",
                "purpose": "pairs",
                "columns": ["town", "size"],
                "sigma": 4.0,
                "rho": gaussian_rho(4.0),
                "laws": ["discrete Gaussian"],
            }
        ]
        json.dumps(visit.payments)

    def test_replacing_a_row_costs_twice_as_much(self) -> None:
        visit = self.visit(*charges(0.5, Neighbours.REPLACE))
        visit.measure(["town"], 4.0)
        assert math.isclose(visit.remaining, 0.5 - 2 / 32)

    def test_the_number_of_rows_is_public_under_replace_only(self) -> None:
        assert self.visit(*charges(1, Neighbours.REPLACE)).rows == 3000
        with pytest.raises(BudgetError, match="private under add-remove") as refused:
            _ = self.visit(*charges(1)).rows
        assert "3000" not in str(refused.value)

    def test_overspending_is_refused_before_rows_are_counted(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        visit = self.visit(*charges(0.01))
        monkeypatch.setattr(counting, "load", forbidden)
        with pytest.raises(BudgetError, match="must be covered by what the charge prepaid"):
            visit.measure(["town"], 1.0)
        assert visit.payments == []

    def test_a_budget_can_be_spent_to_the_last_bit(self) -> None:
        visit = self.visit(*charges(0.3))
        sigma = gaussian_sigma(0.3 / 7)
        for _ in range(7):
            visit.measure(["town"], sigma)
        assert visit.remaining < 1e-9
        with pytest.raises(BudgetError):
            visit.measure(["town"], gaussian_sigma(1e-6))

    def test_selection(self) -> None:
        visit = self.visit(*charges(0.02))
        eps = exponential_eps(0.01)
        assert (
            visit.draw(ExponentialMechanism(eps, 1.0), np.array([0.0, 1e6, 0.0]), purpose="p") == 1
        )
        assert math.isclose(visit.remaining, 0.01)
        assert visit.payments[0]["eps"] == eps
        assert math.isclose(visit.payments[0]["rho"], 0.01)

    def test_pure_charges_pay_pure_mechanisms_only(self) -> None:
        visit = self.visit(*charges(cost=Pure(eps=1.0)))
        noisy = visit.draw(DiscreteLaplace(4.0), visit.counts(["town"]), l1=1.0, purpose="p")
        assert noisy.shape == (5,)
        assert math.isclose(visit._prepaid.left("eps"), 0.75)
        visit.draw(ExponentialMechanism(0.75, 1.0), np.zeros(3))
        with pytest.raises(BudgetError):
            visit.draw(DiscreteLaplace(100.0), np.zeros(1, int), l1=1.0)
        with pytest.raises(BudgetError):
            visit.draw(DiscreteGaussian(1e6), np.zeros(1, int), l2=1.0)

    def test_bounded_range_charges_do_not_pay_for_laplace(self) -> None:
        """The ledger counted them at a quarter of what Laplace noise of this eps costs."""
        visit = self.visit(*charges(cost=Pure(eps=1.0, bounded_range=True)))
        with pytest.raises(BudgetError):
            visit.draw(DiscreteLaplace(10.0), np.zeros(1, int), l1=1.0)
        visit.draw(ExponentialMechanism(1.0, 1.0), np.zeros(3))

    def test_zcdp_pays_for_laplace_at_half_the_square(self) -> None:
        visit = self.visit(*charges(0.5))
        visit.draw(DiscreteLaplace(2.0), np.zeros(1, int), l1=1.0)
        assert math.isclose(visit.remaining, 0.5 - 0.125)

    def test_gaussian_with_one_sigma_or_many(self) -> None:
        visit = self.visit(*charges(1.0))
        visit.draw(DiscreteGaussian(2.0), np.zeros((2, 2), int), l2=2.0)
        assert math.isclose(visit.remaining, 0.5)
        noisy = visit.draw(
            DiscreteGaussian(np.array([1.0, 2.0, 4.0])), np.zeros(3, int), whitened_l2=0.5
        )
        assert noisy.shape == (3,)
        assert math.isclose(visit.remaining, 0.375)
        assert visit.payments[1]["sigma"] == [1.0, 4.0]
        for wrong in ({"l2": 1.0}, {"l2": 1.0, "whitened_l2": 1.0}, {}):
            with pytest.raises(ValueError, match="whitened_l2"):
                visit.draw(DiscreteGaussian(np.ones(3)), np.zeros(3, int), **wrong)

    def test_charges_of_other_kinds_are_spent_at_once(self) -> None:
        cost = SubsampledGaussian(noise_multiplier=1.1, rate=0.01, steps=100)
        visit = self.visit(*charges(cost=cost))
        with pytest.raises(BudgetError):
            visit.measure(["town"], 1e6)
        visit.pay_all("descent")
        assert visit.payments[0]["steps"] == 100
        assert visit.payments[0]["purpose"] == "descent"
        with pytest.raises(BudgetError, match="none left"):
            visit.pay_all()
        json.dumps(visit.payments)

    @pytest.mark.parametrize("amount", [-0.1, math.nan, math.inf])
    def test_strange_payments(self, amount: float) -> None:
        visit = self.visit(*charges(1.0))
        with pytest.raises(BudgetError, match="must be a number"):
            visit.pay("x", rho=amount)
        with pytest.raises(BudgetError, match="must be a number"):
            visit.pay("x", eps=amount)
        assert visit.remaining == 1.0

    def test_charges_must_be_there_and_agree(self) -> None:
        with pytest.raises(BudgetError, match="a visit must be paid for"):
            self.visit()
        with pytest.raises(BudgetError, match="same neighbouring relation"):
            self.visit(*charges(), *charges(1, Neighbours.REPLACE))

    def test_a_closed_visit_refuses(self) -> None:
        with self.visit(*charges()) as visit:
            visit.measure(["town"], 3.0)
        merged_before = len(visit.payments)
        for use in (
            lambda: visit.counts(["town"]),
            lambda: visit.all_rows(),
            lambda: list(visit.batches(units=True)),
            lambda: visit.measure(["town"], 3.0),
            lambda: visit.merged({}),
            lambda: visit.pay_all(),
            lambda: visit.draw(ExponentialMechanism(0.1, 1.0), np.zeros(2)),
        ):
            with pytest.raises(BudgetError, match="closed"):
                use()
        assert len(visit.payments) == merged_before == 1


def forbidden(*args: Any, **kwargs: Any) -> Any:
    raise AssertionError("rows were read")


class Poisoned(Source):
    """A source that must not be read, and tells when it is."""

    name = "poisoned"
    columns = tuple(SCHEMA.names)

    def __init__(self, ledger: Ledger | None = None) -> None:
        self.ledger = ledger
        self.charged_when_read: int | None = None

    def check_format(self) -> None:
        if self.ledger is None:
            forbidden()

    def connect(self) -> Any:
        if self.ledger is None:
            forbidden()
        else:
            self.charged_when_read = len(self.ledger.read().charges)
        raise DataError("the disk died")


class TestOrder:
    """Nothing is read before the ledger holds the charge."""

    def open(self, source: Source, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> PrivateTable:
        monkeypatch.setattr("marginalsyn.access.private_table.open_source", lambda *_, **__: source)
        return PrivateTable.open("poisoned", SCHEMA, ledger=ledger)

    def test_opening_and_layout_read_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open(Poisoned(), Ledger(None), monkeypatch).check_layout()

    def test_the_cap_refuses_before_anything_is_read(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        ledger = Ledger(tmp_path / "ledger.jsonl")
        ledger.set_cap(eps=0.1)
        table = self.open(Poisoned(), ledger, monkeypatch)
        with pytest.raises(BudgetError, match="cap"):
            visit_of(table)
        assert ledger.read().charges == []

    def test_a_charged_visit_reads_nothing_before_it_is_asked(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        source = Poisoned(Ledger(None))
        self.open(source, source.ledger, monkeypatch).charge(charges(), noise=make_noise(3))
        assert source.charged_when_read is None

    def test_what_dies_while_reading_has_spent(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        path = tmp_path / "ledger.jsonl"
        source = Poisoned(Ledger(path))
        visit = visit_of(self.open(source, source.ledger, monkeypatch), charges(0.25))
        with pytest.raises(DataError, match="disk died"):
            visit.measure(["age"], 10.0)
        assert source.charged_when_read == 1
        assert [charge.rho for charge in Ledger(path).read().charges] == [0.25]

    def test_a_killed_process_has_spent(self, tmp_path: Path) -> None:
        code = f"""
import os, signal
import pandas as pd
from marginalsyn.privacy.charges import ZCDP, Charge
from marginalsyn.records.ledger import Ledger
from marginalsyn.privacy.noise import make_noise
from marginalsyn.access.private_table import PrivateTable
from marginalsyn.table.schema import Schema
from marginalsyn.access import rows as records
records.PrivateRows.count = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
ledger = Ledger({str(tmp_path / "l")!r})
table = PrivateTable.open(pd.DataFrame({{"a": [1]}}), Schema.from_domain({{"a": 2}}), ledger=ledger)
visit = table.charge([Charge(mechanism="m", cost=ZCDP(rho=0.1))], noise=make_noise())
visit.measure(["a"], 10.0)
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == -9, done.stderr
        assert [charge.rho for charge in Ledger(tmp_path / "l").read().charges] == [0.1]

    def test_a_broken_file_costs_nothing(self, tmp_path: Path) -> None:
        path = tmp_path / "people.csv"
        path.write_text("age,income,town,size,ill\n1,2,Bath,small,no\n1,2\n")
        table = PrivateTable.open(path, SCHEMA)
        with pytest.raises(DataError, match="line 3"):
            visit_of(table)
        assert table.ledger.read().charges == []

    def test_charges_add_up_in_the_ledger(self) -> None:
        ledger = Ledger(None)
        for _ in range(2):
            table = PrivateTable.open(people(), SCHEMA, ledger=ledger)
            visit_of(table, charges(0.1))
        assert ledger.total().rho == 0.2


class TestLayout:
    def check(self, frame: pd.DataFrame) -> None:
        PrivateTable.open(frame, SCHEMA).check_layout()

    def test_any_order_and_dropped_columns(self) -> None:
        self.check(people())
        self.check(people().drop(columns="id")[SCHEMA.names[::-1]])

    def test_missing_and_unknown_columns_with_what_was_meant(self) -> None:
        with pytest.raises(SchemaError) as caught:
            self.check(people().rename(columns={"income": "Income ", "id": "number"}))
        assert str(caught.value).splitlines() == [
            "column ('income') of the schema must be in the source; did you mean 'Income '?",
            "column ('number') of the source must be in the schema or in its drop list",
            "column ('Income ') of the source must be in the schema or in its drop list; "
            "did you mean 'income'?",
        ]

    def test_columns_that_hold_lists(self, tmp_path: Path) -> None:
        frame = people().head(2).assign(size=[["a"], ["b"]])
        frame.to_parquet(tmp_path / "t.parquet")
        with pytest.raises(SchemaError, match=r"'size'.* must hold one number"):
            PrivateTable.open(tmp_path / "t.parquet", SCHEMA).check_layout()

    def test_it_comes_before_the_charge(self) -> None:
        table = PrivateTable.open(people().drop(columns="age"), SCHEMA)
        with pytest.raises(SchemaError, match="'age'"):
            visit_of(table)
        with pytest.raises(SchemaError, match="'age'"):
            table.unprotected("test")
        assert table.ledger.read().charges == []


class TestHoldout:
    def open(self, data: Any, salt: str = "salt", **options: Any) -> PrivateTable:
        return PrivateTable.open(data, SCHEMA, holdout=0.25, holdout_salt=salt, **options)

    def parts(self, data: Any, **options: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
        view = self.open(data, **options).unprotected("test")
        return view.frame(), view.holdout_frame()

    def test_parts_make_up_the_table_and_visits_see_the_first(self) -> None:
        for relation in Neighbours:
            train, held = self.parts(people(), neighbours=relation)
            assert len(train) + len(held) == 3000
            # Binomial, 10 standard deviations.
            assert abs(len(held) - 750) < 10 * math.sqrt(3000 * 0.25 * 0.75)
            table = self.open(people(), neighbours=relation)
            visit = visit_of(table, charges(1, relation))
            np.testing.assert_array_equal(visit.all_rows().values, table.codec.encode(train))
            assert visit.counts([]) == len(train)

    def test_salts_choose_other_rows(self) -> None:
        one, other = (
            self.open(people(), salt).unprotected("t").all_rows().values for salt in ("a", "b")
        )
        assert len(one) != len(other) or not np.array_equal(one, other)

    def test_the_split_does_not_depend_on_how_rows_are_stored(self, tmp_path: Path) -> None:
        people().to_csv(tmp_path / "t.csv", index=False)
        shuffled = people()[people().columns[::-1]]
        shuffled.to_parquet(tmp_path / "t.parquet")
        wanted = self.open(people()).unprotected("t").all_rows().values
        for data in (tmp_path / "t.csv", tmp_path / "t.parquet", shuffled):
            np.testing.assert_array_equal(
                self.open(data).unprotected("t").all_rows().values, wanted
            )

    def test_removing_a_row_removes_it_from_one_part_only(self) -> None:
        frame = people().head(200)
        whole = [part.to_csv(index=False).splitlines() for part in self.parts(frame)]
        for removed in (0, 17, 199):
            rest = self.parts(frame.drop(index=removed))
            now = [part.to_csv(index=False).splitlines() for part in rest]
            gone = [len(before) - len(after) for before, after in zip(whole, now, strict=True)]
            assert sorted(gone) == [0, 1]
            for before, after in zip(whole, now, strict=True):
                lines = iter(before)
                assert all(line in lines for line in after), "an order-preserving subset"

    def test_a_row_that_changes_a_column_s_type_moves_no_other(self) -> None:
        """A missing age makes pandas store every age as a float."""
        frame = people().head(200)
        odd = pd.concat([frame, frame.head(1).assign(age=np.nan, town=3)], ignore_index=True)
        assert odd["age"].dtype != frame["age"].dtype
        before, after = self.open(frame), self.open(odd)
        counts = [t.unprotected("t").counts(["town", "size"]) for t in (before, after)]
        assert np.abs(counts[0] - counts[1]).sum() <= 1

    def test_the_order_of_rows_and_the_relation_move_no_row(self) -> None:
        """A sorted view moves a replaced row, and all rows between with it."""
        frame = people().head(200)
        wanted = [part.to_csv(index=False) for part in self.parts(frame)]
        for relation in Neighbours:
            turned = self.parts(frame[::-1], neighbours=relation)
            assert [part[::-1].to_csv(index=False) for part in turned] == wanted

    def test_replacing_a_row_on_its_side_keeps_the_sizes(self) -> None:
        frame = people().head(200)
        before = self.parts(frame, neighbours="replace")
        changes: set[int] = set()
        for age in range(40):
            other = frame.copy()
            other.loc[0, "age"] = 50 + age
            now = self.parts(other, neighbours="replace")
            change = len(now[0]) - len(before[0])
            assert change == len(before[1]) - len(now[1])
            changes.add(change)
            if change == 0:
                moved = [
                    (new.astype(str).fillna("") != old.astype(str).fillna("")).any(axis=1).sum()
                    for new, old in zip(now, before, strict=True)
                ]
                assert sorted(moved) == [0, 1]
            if len(changes) == 2:
                break
        # A row may stay on its side or go to the other: what is promised is for the first.
        assert changes in ({0, 1}, {0, -1})

    def test_the_statement_says_what_a_split_promises(self) -> None:
        from marginalsyn.generators.independent import IndependentConfig
        from marginalsyn.host import generate

        said = {}
        for relation in Neighbours:
            for share in (0.0, 0.25):
                table = PrivateTable.open(people(), SCHEMA, holdout=share, neighbours=relation)
                budget = Budget(eps=1, neighbours=relation)
                _, told = generate(table, IndependentConfig(rows=9), budget, noise=make_noise(1))
                assert told.holdout == table.holdout == share
                assert not told.problems()
                assert told.extended().unit == told.unit
                said[relation, share] = told
        units = {key: told.unit for key, told in said.items()}
        assert units[Neighbours.ADD_REMOVE, 0.25] == units[Neighbours.ADD_REMOVE, 0.0]
        assert "one row of the training part" in units[Neighbours.REPLACE, 0.25]
        assert "training part" not in units[Neighbours.REPLACE, 0.0]
        replaced = said[Neighbours.REPLACE, 0.25]
        check_split(self.open(people()), said[Neighbours.ADD_REMOVE, 0.0])
        with pytest.raises(UsageError, match=r"holdout \(0\) must be that of the release"):
            check_split(PrivateTable.open(people(), SCHEMA, neighbours="replace"), replaced)
        forged = said[Neighbours.REPLACE, 0.25].model_copy(
            update={"unit": units[Neighbours.REPLACE, 0.0]}
        )
        assert "unit must read" in forged.problems()[0]

    def test_weights_are_for_the_rows_of_the_release(self) -> None:
        """By a hash of a salt that nobody guesses; for any other by what the ledger was charged."""
        from marginalsyn.generators.independent import IndependentConfig
        from marginalsyn.host import generate

        def opened(salt: str, ledger: Ledger, **how: Any) -> PrivateTable:
            return PrivateTable.open(
                people(),
                SCHEMA,
                ledger=ledger,
                holdout_salt=salt,
                **{"holdout": 0.25, "neighbours": Neighbours.REPLACE, **how},
            )

        budget = Budget(eps=1, neighbours=Neighbours.REPLACE)
        drawn, other = "0123456789abcdef" * 2, "f" * 32
        for salt in (drawn, "guessed", "seed 3"):
            ledger = Ledger(None)
            table = opened(salt, ledger)
            _, stated = generate(table, IndependentConfig(rows=9), budget, noise=make_noise(1))
            assert (stated.split is not None) == (salt == drawn)
            assert stated.extended().split == stated.split
            text = stated.to_json()
            assert salt not in text
            for hidden in ("guessed", "seed 3"):
                assert opened(hidden, ledger).split.partition(" ")[2] not in text
            check_split(opened(salt, ledger), stated)
            # With another salt, with another share, and where nothing says what the salt was.
            wrong = [opened(other, ledger), opened(other, Ledger(None))]
            wrong += [opened(salt, ledger, holdout=0.2)]
            wrong += [opened(salt, Ledger(None))] if salt != drawn else []
            for table in wrong:
                with pytest.raises(UsageError, match="holdout"):
                    check_split(table, stated)

    def test_what_decides_who_is_held_out_is_in_its_name(self) -> None:
        names = {
            self.open(people()).split,
            self.open(people().assign(more=1)).split,
            PrivateTable.open(people(), SCHEMA, holdout=0.25, holdout_salt="a").split,
            PrivateTable.open(people(), SCHEMA, holdout=0.2).split,
            PrivateTable.open(
                people(), SCHEMA.model_copy(update={"encoding": "latin-1"}), holdout=0.25
            ).split,
            PrivateTable.open(
                people(), SCHEMA.with_unit(Unit(column="id", max_rows=2)), holdout=0.25
            ).split,
            PrivateTable.open(people(), SCHEMA).split,
        }
        assert len(names) == 7
        assert "" in names

    def test_charges_for_the_other_relation_are_refused(self) -> None:
        table = self.open(people())
        with pytest.raises(UsageError, match="neighbours='replace'"):
            visit_of(table, charges(1, Neighbours.REPLACE))
        assert table.ledger.read().charges == []

    def test_shares(self) -> None:
        for share in (-0.1, 1.0, math.nan):
            with pytest.raises(UsageError, match="holdout"):
                PrivateTable.open(people(), SCHEMA, holdout=share)
        view = PrivateTable.open(people(), SCHEMA).unprotected("test")
        with pytest.raises(UsageError, match="above 0"):
            view.holdout_frame()


class TestUnprotected:
    def view(self) -> Unprotected:
        return PrivateTable.open(people(), SCHEMA).unprotected("look at it")

    def test_frames_are_stamped_and_as_in_a_release(self) -> None:
        frame = self.view().frame()
        assert frame.attrs["marginalsyn"] == STAMP == "not private: for the curator"
        assert list(frame.columns) == SCHEMA.names
        assert frame["age"].between(0, 99).all()
        np.testing.assert_array_equal(
            PrivateTable.open(people(), SCHEMA).codec.encode(frame), expected_codes(people())
        )

    def test_codes_and_counts_are_exact_and_cost_nothing(self) -> None:
        table = PrivateTable.open(people(), SCHEMA)
        view = table.unprotected("look at it")
        codes = expected_codes(people())
        np.testing.assert_array_equal(view.all_rows().values, codes)
        np.testing.assert_array_equal(view.counts(["age"]), histogram(codes, ("age",)))
        for pair in PAIRS:
            np.testing.assert_array_equal(view.counts(pair), histogram(codes, pair))
        assert (view.stamp, view.reason) == (STAMP, "look at it")
        assert table.ledger.read().charges == []

    def test_a_reason_must_be_given(self) -> None:
        with pytest.raises(UsageError, match="reason"):
            PrivateTable.open(people(), SCHEMA).unprotected(" ")

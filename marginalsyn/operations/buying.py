"""``schema buy-bounds``, ``buy-bins`` and more: what a schema leaves open, bought privately."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from marginalsyn.errors import UsageError
from marginalsyn.operations.groups import OfPersons, OfTable, Paid, Spending, Writing, named
from marginalsyn.operations.operation import (
    DRY_RUN,
    PYTHON,
    Columns,
    Facts,
    Operation,
    Result,
    Session,
    argument,
    function,
    option,
)
from marginalsyn.operations.origins import (
    FoundTable,
    describe_total,
    frames_ledger,
    open_ledger,
    shown_name,
    with_unit,
)

if TYPE_CHECKING:
    from marginalsyn.purchases.purchase import Purchase
    from marginalsyn.table.schema import Schema

# A field of a shared group that an operation does not have.
_absent = partial(option, None, "", shell=False, python=False)
_columns = partial(option, (), flags=("--column",), multiple=True, metavar="NAME")
_numeric_columns = partial(
    _columns,
    help="A numeric column. May be repeated. [default=all numeric columns]",
    python="Numeric columns. [default=all numeric columns]",
)
_cells = partial(
    option, 4096, "The number of cells in the search between the schema's own bounds.", metavar="N"
)


@dataclass(frozen=True)
class Buy(Writing, Paid, Spending, OfTable, OfPersons, Operation["Schema"]):
    """Something that a schema leaves open, bought with a budget of its own."""

    shell = ("quiet",)
    # The act's name in the ledger.
    run_name = ""

    data: pd.DataFrame | str | Path | None = argument(
        None,
        "The table: a file, a glob in quotes, or a database URL.",
        required=True,
        type=str,
        python="The private rows: a frame, the path of a file, a glob, or a URL of a database.",
    )
    schema: Schema | str | Path | None = argument(
        None,
        "The schema file.",
        required=True,
        python="The public schema that is completed, or its file.",
    )
    _: KW_ONLY
    dataset: None = _absent()
    # What a schema records of its noise is that of a protected run.
    seed: None = _absent()

    @property
    def act(self) -> str:
        return self.run_name.removeprefix("schema ").replace("-", "_")

    def purchase(self) -> Purchase:
        """What is bought, and its price; reads no row."""
        raise NotImplementedError

    def plan(self, session: Session = PYTHON) -> Result[Any]:
        """Show what would be charged, without reading or spending anything."""
        from marginalsyn.privacy.composition import compose
        from marginalsyn.purchases.purchase import charges_of

        purchase = self.purchase()
        charges = charges_of([purchase])
        total = compose(charges, purchase.budget.delta, purchase.neighbours)
        facts = {
            "buys": f"{purchase.what} of {', '.join(purchase.names)}",
            **purchase.facts,
            "eps": total.eps,
            "delta": total.delta,
        }
        rows = [(charge.purpose, charge.mechanism, str(charge.cost)) for charge in charges]
        data = {**facts, "charges": [charge.model_dump(mode="json") for charge in charges]}
        text = [Facts(list(facts.items())), "", Columns(("charge", "mechanism", "cost"), rows)]
        return Result(purchase, data, text, notes=[DRY_RUN])

    def run(self, session: Session = PYTHON) -> Result[Schema]:
        """Charge the ledger, measure, write the new schema."""
        from marginalsyn.purchases.purchase import buy

        self.check_new()
        purchase = self.purchase()
        table = self._table(purchase)
        with self.paying(session, table) as tools:
            recorder, noise = tools["recorder"], tools["noise"]
            tools["progress"].report("measure", text=shown_name(table.name))
            rows = table.open(purchase.neighbours)
            bought = buy(rows, purchase, noise=noise, run=self.run_name, recorder=recorder)
            text = self.put(bought.to_json())
        notes = [*purchase.notes(bought), *describe_total(table.ledger)]
        return Result(bought, text=[text], notes=notes)

    def read_schema(self) -> Schema:
        """The schema that is completed."""
        from marginalsyn.table.schema import Schema

        if isinstance(self.schema, Schema):
            return self.schema
        if not isinstance(self.schema, str | Path):
            raise UsageError("schema must be the table's public schema, or the name of its file")
        return Schema.read(self.schema)

    def _table(self, purchase: Purchase) -> FoundTable:
        """The private table, counted as the purchase needs it; not opened yet."""
        from marginalsyn.access.private_table import PrivateTable

        if self.data is None:
            raise UsageError("data must be the private rows, or a name of them")
        key = "" if isinstance(self.data, pd.DataFrame) else str(self.data)
        ledger = open_ledger(key, named(self)) if key else frames_ledger(self)
        opened = partial(
            PrivateTable.open, self.data, purchase.counted, ledger=ledger, sep=self.sep
        )
        return FoundTable(key, ledger, lambda neighbours: opened(neighbours=neighbours))

    def bought(self, kind: type[Purchase], schema: Schema) -> Purchase:
        """A purchase of a kind for a schema, with the options of that kind."""
        if self.eps is None:
            raise UsageError("--eps must be given, such as --eps 0.1")
        own = {known.name for known in fields(kind)} - {"schema", "budget"}
        asked: Any = {name: getattr(self, name) for name in own}
        return kind(schema=schema, budget=self.budget(), **asked)


@dataclass(frozen=True, kw_only=True)
class BuyBounds(Buy):
    """Narrow the bounds of numeric columns by private quantiles, charged to the ledger.

    The search starts from the schema's own bounds, which must be public, and spends --eps on all
    columns together. With a unit of privacy these are quantiles of persons, whose rows weigh one
    together. The new schema records the charge, and the statement of every release made
    with it includes that charge.

    Returns:
        The new schema.
    """

    examples = """
    # income: somewhere between the schema's 0 and 10,000,000
    marginalsyn schema buy-bounds people.csv people.schema.json --column income --eps 0.1
    """
    run_name = "schema buy-bounds"

    columns: Sequence[str] = _numeric_columns()
    tail: float = option(0.005, "The share of rows that each bound may cut off.", metavar="SHARE")
    widening: bool = option(
        False, "Let bins widen with the numbers between bounds that span decades, at no charge."
    )
    cells: int = _cells()

    def purchase(self) -> Purchase:
        from marginalsyn.purchases.bounds import Bounds

        return self.bought(Bounds, with_unit(self.read_schema(), self))


@dataclass(frozen=True, kw_only=True)
class BuyBins(Buy):
    """Cut numeric columns into bins of about equal weight by private quantiles.

    Every cut costs privacy: K bins take K - 1 selections, and --eps pays for all columns together.
    The charge is recorded in the ledger and in the new schema, as with buy-bounds.

    Returns:
        The new schema.
    """

    examples = """
    # ten bins of about equal weight
    marginalsyn schema buy-bins people.csv people.schema.json --bins 10 --eps 0.2 --out new.json
    """
    run_name = "schema buy-bins"

    columns: Sequence[str] = _numeric_columns()
    bins: int = option(10, "The number of bins.", range=(2, None), metavar="K")
    cells: int = _cells()

    def purchase(self) -> Purchase:
        from marginalsyn.purchases.bounds import Bins

        return self.bought(Bins, with_unit(self.read_schema(), self))


@dataclass(frozen=True, kw_only=True)
class BuyMaxRows(Buy):
    """Find with privacy how many rows of a person to count, charged to the ledger.

    The number is a quantile of persons' numbers of rows, rounded up to 1 to 15, 20, 27 and so on.
    The new schema has the unit and the charge, which every release made with it includes.

    Returns:
        The new schema.
    """

    examples = """
    # how many visits of a patient to count, so that 95% of the patients have no more
    marginalsyn schema buy-max-rows visits.csv v.json --unit patient_id --eps 0.1 --out new.json
    """
    run_name = "schema buy-max-rows"

    max_rows: None = _absent()
    cap: int = option(
        200, "No more rows of a person are read. A public number.", range=(2, None), metavar="N"
    )
    tail: float = option(
        0.05,
        "The share of persons who may have more rows than are counted.",
        range=(0, 1),
        min_open=True,
        max_open=True,
        metavar="SHARE",
    )

    def purchase(self) -> Purchase:
        from marginalsyn.purchases.quantiles import MaxRows

        return self.bought(MaxRows, self.read_schema())


@dataclass(frozen=True, kw_only=True)
class BuyCategories(Buy):
    """List the categories of open columns by private partition selection.

    A value is listed if its noisy count reaches a threshold that one row passes by itself with a
    chance below the delta. The charge is recorded in the ledger and in the new schema, as with
    buy-bounds. `generate` buys them by itself, from its own budget, where they are left open.

    Returns:
        The new schema.
    """

    examples = """
    # the columns that say "categories": "private"
    marginalsyn schema buy-categories people.csv people.schema.json --eps 0.2 --out new.json
    """
    run_name = "schema buy-categories"

    columns: Sequence[str] = _columns(
        help='A column. May be repeated. [default=those with "categories": "private"]',
        python='Categorical columns. [default=those with "categories": "private"]',
    )

    def purchase(self) -> Purchase:
        from marginalsyn.purchases.categories import Categories, open_up

        return self.bought(Categories, open_up(with_unit(self.read_schema(), self), self.columns))


buy_bounds = function(BuyBounds, "buy_bounds")
buy_bins = function(BuyBins, "buy_bins")
buy_max_rows = function(BuyMaxRows, "buy_max_rows")
buy_categories = function(BuyCategories, "buy_categories")

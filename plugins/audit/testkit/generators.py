"""The test kit for plugin authors: what every generator must do, as plain functions.

Each check takes a config class and raises AssertionError with the reason;
:func:`marginalsyn.plugins.audit.testkit.check_plugin` runs all of them.

``check_rows_alone`` is for whoever brings a table of his own, such as an Ibis expression.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import random
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.certificates.measured import verify
from marginalsyn.contract import Duties, Generator, Plan, Synthesis, build_config, config_to_json
from marginalsyn.errors import MarginalsynError
from marginalsyn.graphical.estimation import impossible_rows, zeros_of
from marginalsyn.host import generate
from marginalsyn.plugins.audit.canaries import AuditCase
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.privacy.noise import make_noise
from marginalsyn.records.ledger import Ledger
from marginalsyn.release.folder import Release
from marginalsyn.release.statement import Statement
from marginalsyn.table.codec import Codec
from marginalsyn.table.columns import BooleanColumn, CategoricalColumn, OrdinalColumn
from marginalsyn.table.frames import frame_problems
from marginalsyn.table.keeping import broken_rules
from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn
from marginalsyn.table.schema import Schema

Options = Mapping[str, Any] | None
ROWS = 30
STRANGE = {"age": 10**9, "income": float("-inf"), "ward": "a secret ward", "ill": "perhaps"}
ABSENT = {"age": None, "income": None, "ward": None, "ill": None}


class SeededRun(NamedTuple):
    """One seeded run of a generator on a table."""

    synthesis: Synthesis
    statement: Statement
    ledger: Ledger
    generator: Generator


def example_schema() -> Schema:
    """A schema with every kind of column, small enough for any model."""
    return Schema(
        title="example",
        columns=(
            CategoricalColumn(name="colour", categories=("red", "green", "blue"), nullable=True),
            OrdinalColumn(name="grade", categories=(1, 2, 3)),
            IntegerColumn(name="age", lower=0, upper=99, bins=5),
            ContinuousColumn(name="income", lower=0, upper=1000, bins=4, decimals=2, nullable=True),
            BooleanColumn(name="ill", true_label="yes", false_label="no"),
        ),
        label="ill",
        positive="yes",
    )


def example_frame(rows: int, seed: int = 0) -> pd.DataFrame:
    """Rows for :func:`example_schema` whose columns depend on one another."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 100, rows)
    ill = rng.random(rows) < age / 150
    income = (age * 10 * rng.random(rows)).round(2)
    colour = np.array(["red", "green", "blue", None], dtype=object)[rng.integers(0, 4, rows)]
    return pd.DataFrame(
        {
            "colour": pd.Series(colour, dtype="str"),
            "grade": 1 + age // 34,
            "age": age,
            "income": np.where(rng.random(rows) < 0.1, np.nan, income),
            "ill": np.where(ill, "yes", "no"),
        }
    )


def edge_tables() -> dict[str, tuple[pd.DataFrame, Schema]]:
    """Small tables that break careless code, by name, each with its schema."""
    schema, frame = example_schema(), example_frame(40)
    label = {"label": schema.label, "positive": schema.positive}
    nullable = Schema(
        columns=tuple(column.model_copy(update={"nullable": True}) for column in schema.columns),
        **label,
    )
    single = Schema(
        columns=(*schema.columns, CategoricalColumn(name="unit", categories=("one",), other=False)),
        **label,
    )
    zeros = Schema(
        columns=schema.columns,
        impossible=({"ill": ["yes"], "colour": ["red", None]}, {"grade": [3], "age": {"max": 39}}),
        **label,
    )
    tone = CategoricalColumn(name="tone", categories=("warm", "cold"))
    rules = Schema(
        columns=(tone, *schema.columns),
        rules=(
            "colour determines tone by {red -> warm, green, blue -> cold, OTHER, missing -> OTHER}",
            "age < 18 -> ill = no and not missing(income)",
            "income <= age + 500",
            "grade = 3 iff colour = blue",
            "colour determines ill by {red -> yes, green -> no}",
        ),
        **label,
    )
    toned = frame.assign(tone=np.where(frame["colour"] == "red", "warm", "cold"))
    strange = frame.assign(
        colour="violet", grade=9, age=10**6, income=[np.inf, -np.inf] * 20, ill="perhaps"
    )
    return {
        "empty": (frame.iloc[:0], schema),
        "one row": (frame.iloc[:1], schema),
        "one column": (frame[["age"]], schema.select(["age"])),
        "all missing": (frame.assign(**dict.fromkeys(schema.names)), nullable),
        "constant column": (frame.assign(colour="red", age=50), schema),
        "column of one value": (frame.assign(unit="one"), single),
        "unseen category": (strange, schema),
        "structural zeros": (frame, zeros),
        "rules": (toned, rules),
        "rules without rows": (toned.iloc[:0], rules),
    }


def tape_schema() -> Schema:
    """A schema with most kinds of columns, small enough for any model."""
    return Schema(
        columns=(
            IntegerColumn(name="age", lower=0, upper=99, bins=4),
            ContinuousColumn(name="income", lower=0, upper=1000, bins=3, nullable=True),
            CategoricalColumn(name="ward", categories=("A", "B")),
            BooleanColumn(name="ill", true_label="yes", false_label="no"),
        ),
        label="ill",
        positive="yes",
    )


def neighbours_of_every_kind() -> dict[str, tuple[pd.DataFrame, pd.DataFrame, Neighbours]]:
    """Pairs of neighbouring tables for :func:`tape_schema`, by how they differ."""
    some, none = made_up_rows(ROWS - 1), made_up_rows(0)
    plain = {"age": 0, "income": 900.0, "ward": "A", "ill": "yes"}  # differs in every code
    return {
        "a strange row": (some, _with_row(some, STRANGE), Neighbours.ADD_REMOVE),
        "the first row": (none, _with_row(none, ABSENT), Neighbours.ADD_REMOVE),
        "a replaced row": (_with_row(some, plain), _with_row(some, STRANGE), Neighbours.REPLACE),
    }


def made_up_rows(count: int, seed: int = 7) -> pd.DataFrame:
    """Rows for :func:`tape_schema`."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(0, 100, count),
            "income": rng.random(count) * 1000,
            "ward": rng.choice(["A", "B"], count),
            "ill": rng.choice(["yes", "no"], count),
        }
    ).astype(object)


def _with_row(frame: pd.DataFrame, row: Mapping[str, Any]) -> pd.DataFrame:
    return pd.DataFrame([*frame.to_dict("records"), dict(row)], columns=[*row], dtype=object)


def run_generator(
    kind: Any,
    frame: pd.DataFrame,
    schema: Schema,
    *,
    options: Options = None,
    eps: float = 1.0,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    seed: int = 0,
) -> SeededRun:
    """Run a generator through the host, with seeded noise and a ledger in memory."""
    config, ledger = build_config(kind, options), Ledger(None)
    budget = Budget(eps=eps, neighbours=neighbours)
    table = PrivateTable.open(frame, schema, ledger=ledger)
    synthesis, statement = generate(table, config, budget, noise=make_noise(seed))
    return SeededRun(synthesis, statement, ledger, config.configure(schema, budget))


def check_config(kind: Any, options: Options = None) -> None:
    """A frozen, keyword-only dataclass with a name, a summary, and help for every field."""
    made = dataclasses.is_dataclass(kind)
    frozen = made and kind.__dataclass_params__.frozen
    assert frozen, "the config must be declared with @dataclass(frozen=True, kw_only=True)"
    assert all(f.kw_only for f in dataclasses.fields(kind)), "fields must be keyword-only"
    parts = kind.name.split("+")  # methods one after the other
    kebab = all(re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", part) for part in parts)
    assert kebab, "name must be in kebab-case"
    assert len(kind.summary.splitlines()) == 1, "summary must be one line"
    for field in dataclasses.fields(kind):
        assert field.metadata.get("help"), f"field {field.name} must be made with option(..)"
    assert kind() == kind(), "every field must have a default"


def check_json(kind: Any, options: Options = None) -> None:
    """The config survives JSON."""
    config = build_config(kind, options)
    text = json.dumps(config_to_json(config), allow_nan=False)
    assert build_config(kind, json.loads(text)) == config, "config must be equal after JSON"


def check_plan(kind: Any, options: Options = None) -> None:
    """The plan names marginals of the schema and is JSON; no table is needed for it."""
    schema, budget = example_schema(), Budget(eps=1)
    plan = build_config(kind, options).configure(schema, budget).plan
    assert isinstance(plan, Plan), "plan() must return a Plan"
    named = {column for marginal in plan.workload for column in marginal}
    assert named <= set(schema.names), f"workload names unknown columns: {named}"
    json.dumps([dict(plan.split), dict(plan.facts), list(plan.warnings)], allow_nan=False)


def check_cost(kind: Any, options: Options = None) -> None:
    """Under either relation the ledger is charged what ``cost`` says, within the budget."""
    frame, schema = example_frame(60), example_schema()
    for neighbours in Neighbours:
        run = run_generator(kind, frame, schema, options=options, neighbours=neighbours)
        cost = list(run.generator.cost)
        assert cost, "cost must hold at least one charge"
        assert list(run.ledger.read().charges) == cost, "the ledger must hold what cost says"
        assert list(run.statement.charges) == cost, "the statement must hold what cost says"
        assert run.statement.payments, "a run must pay for what it measures"
        assert not run.statement.problems(), run.statement.problems()


def check_edge_tables(kind: Any, options: Options = None) -> None:
    """Every edge table gives rows of its schema, without the impossible ones."""
    for name, (frame, schema) in edge_tables().items():
        run = run_generator(kind, frame, schema, options=options)
        synthetic = run.synthesis.frame
        for paid in run.statement.payments:
            named = {*paid.get("columns", ())} & {*schema.followers}
            assert not named, f"{name}: {named} follow from others and must cost nothing"
        problems = frame_problems(synthetic, schema)
        assert not problems, f"{name}: {problems}"
        assert len(synthetic) > 0, f"{name}: at least one row must be drawn"
        bad = impossible_rows(Codec(schema).encode(synthetic), zeros_of(schema)).sum()
        assert not bad, f"{name}: {bad} rows lie in structural zeros"
        broken = broken_rules(synthetic, schema)
        assert not broken, f"{name}: rows break {broken}"


def check_small_budget(kind: Any, options: Options = None) -> None:
    """Far too little budget gives poor rows, not errors."""
    options = {**(options or {}), "rows": 20}
    frame = run_generator(kind, example_frame(60), example_schema(), options=options, eps=0.01)
    assert len(frame.synthesis.frame) == 20


def check_rows(kind: Any, options: Options = None) -> None:
    """``rows`` is obeyed, and is about right when it is left to the generator."""
    frame, schema = example_frame(400), example_schema()
    given = run_generator(kind, frame, schema, options={**(options or {}), "rows": 7})
    assert len(given.synthesis.frame) == 7, "rows=7 must give 7 rows"
    if "rows" not in (options or {}):
        free = run_generator(kind, frame, schema, options=options, eps=10)
        assert 300 < len(free.synthesis.frame) < 500, "rows must be estimated"


def check_reproducible(kind: Any, options: Options = None) -> None:
    """One seed gives the same rows, another gives others; global random states stay untouched."""
    frame, schema = example_frame(100), example_schema()
    with untouched("a generator"):
        first, again, other = (
            run_generator(kind, frame, schema, options=options, seed=seed) for seed in (1, 1, 2)
        )
    assert first.synthesis.frame.equals(again.synthesis.frame), "one seed must give the same rows"
    assert first.statement == again.statement, "one seed must give the same statement"
    assert not first.synthesis.frame.equals(other.synthesis.frame), "seeds must matter"


def check_release(kind: Any, options: Options = None) -> None:
    """A release of it verifies, reads back as written, and more rows can be drawn from it."""
    run = run_generator(kind, example_frame(80), example_schema(), options=options)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "release"
        release = Release.write(run.synthesis, example_schema(), run.statement, path)
        assert not verify(path), verify(path)
        pd.testing.assert_frame_equal(release.frame(), run.synthesis.frame)
        read = Release.read(path)
        assert len(read.measurements()) == len(run.synthesis.measurements)
        model = read.model()
        if model is not None:
            assert model.kind == kind.name, "a model's kind must be the generator's name"
            more = kind.sample(model, read.schema, 11, np.random.default_rng(0))
            assert len(more) == 11, "sample(rows=11) must give 11 rows"
            assert not frame_problems(more, read.schema), frame_problems(more, read.schema)
            assert len(kind.sample(model, read.schema, None, np.random.default_rng(0))) > 0


def check_streams(kind: Any, options: Options = None) -> None:
    """A generator draws nothing for private rows from the stream for post-processing."""
    from marginalsyn.plugins.audit.testkit.tape import check_drawn, generated_on_tape

    left, right, neighbours = neighbours_of_every_kind()["a strange row"]
    check_drawn(*(generated_on_tape(kind, options, t, neighbours) for t in (left, right)))


def check_audit(kind: Any, options: Options = None, *, runs: int = 300) -> None:
    """Runs on worst-case neighbouring tables, and its answers on a tape, break no claim.

    Not one of ``GENERATOR_CHECKS``, since it takes some seconds: a hundredth of the runs of
    ``marginalsyn audit``, which finds registered plugins by itself. Its ``audit_options``, a class
    attribute, say what makes a run quick; the claim that is tested is that of those options.

    Args:
        kind: the config class.
        options: of the config, over its ``audit_options``.
        runs: on each of two tables.
    """
    from marginalsyn.plugins.audit.canaries import generator_cases

    _check_cases(generator_cases(kind, options), runs)


def _check_cases(cases: Sequence[AuditCase], runs: int) -> None:
    from marginalsyn.plugins.audit.auditing import audit
    from marginalsyn.plugins.audit.canaries import ODD_RECORD
    from marginalsyn.plugins.audit.worst import perform, worst_of

    for finding in audit(cases, runs=runs, jobs=1) if runs else []:
        where = f"{finding.method}, {finding.canary}, {finding.neighbours}"
        assert finding.status != "failed", f"{where} could not be run: {finding.reason}"
        assert finding.status != "BROKEN", (
            f"{where}: the event '{finding.event}' proves eps {finding.bound:.4g}, "
            f"claimed is {finding.eps:.4g}"
        )
    for case in cases:
        if not case.one_run:
            found = [perform(case)] if tuple(case.mechanism.cost) else []
            # A network's worst tables take long to find: `marginalsyn audit` looks for them.
            if found and case.canary == ODD_RECORD and not Duties(case.kind).requires:
                with contextlib.suppress(MarginalsynError):  # tables that the method refuses
                    found.append(worst_of(case))
            for worst in found:
                where, share = worst.tables, worst.share
                assert share <= 1 + 1e-6, f"{where}: answers cost {share:.4g} times the charge"
                assert worst.selection <= 1 + 1e-6, (
                    f"{where}: a selection costs {worst.selection:.4g} times its eps"
                )


@contextlib.contextmanager
def untouched(what: str) -> Iterator[None]:
    """Global random states stay as they were, and nothing is printed."""
    before = _global_states()
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        yield
    assert before == _global_states(), "global random states must not be used"
    assert not shown.getvalue(), f"{what} must report to progress, not print"


def _global_states() -> str:
    return repr((np.random.get_state(), random.getstate()))  # noqa: NPY002


GENERATOR_CHECKS: tuple[Callable[..., None], ...] = (
    check_config,
    check_json,
    check_plan,
    check_cost,
    check_edge_tables,
    check_small_budget,
    check_rows,
    check_reproducible,
    check_release,
    check_streams,
)
"""All checks of a generator: each is called with the config class and, maybe, ``options``."""


def check_rows_alone(
    make: Callable[[pd.DataFrame], Any],
    frame: pd.DataFrame,
    schema: Schema,
    *,
    share: float = 0.5,
    salt: str = "",
) -> None:
    """Every row is coded as it is in a table of its own, and moves no other across a split.

    Differential privacy rests on that: where one row can change how others are read, it changes
    every count by as many rows as there are. Equal rows may be exchanged: without one of them the
    other side of the split is as it was, or one of them less is on this side, and nothing else.

    Args:
        make: turns rows into what ``PrivateTable.open`` takes: themselves, a path of the file that
            it wrote, a database address or an Ibis table. Called for all rows, then for each.
        frame: the rows.
        schema: of their columns.
        share: of rows held out; 0 for an engine elsewhere, where none can be. Such an engine keeps
            no order of rows, so that their codes are compared in any order.
        salt: decides which rows are held out.

    Raises:
        AssertionError: it names the first row whose code or side others have changed.

    Example:
        >>> check_rows_alone(lambda rows: rows, pd.DataFrame({"a": [0, 1]}),
        ...                  Schema.from_domain({"a": 2}))
    """

    def codes(rows: pd.DataFrame, share: float) -> np.ndarray:
        table = PrivateTable.open(make(rows), schema, holdout=share, holdout_salt=salt)
        return table.unprotected("check that rows are encoded alone").all_rows().values

    whole = codes(frame, 0.0)
    single = [frame.iloc[[position]] for position in range(len(frame))]
    alone = np.concatenate([whole[:0], *(codes(row, 0.0) for row in single)])
    assert len(whole) == len(alone) == len(frame), "every row must be read, once"
    if not share:
        whole, alone = (rows[np.lexsort(rows.T)] for rows in (whole, alone))
    for position, (together, by_itself) in enumerate(zip(whole, alone, strict=True)):
        assert (together == by_itself).all(), (
            f"row {position}: codes {together.tolist()} must be those of the row alone, "
            f"{by_itself.tolist()}"
        )
    if share:
        kept = Counter(map(tuple, codes(frame, share).tolist()))
        for position, by_itself in enumerate(alone.tolist()):
            others = frame.iloc[[*range(position), *range(position + 1, len(frame))]]
            rest = Counter(map(tuple, codes(others, share).tolist()))
            mine = Counter([tuple(by_itself)])
            assert rest in (kept, kept - mine), (
                f"row {position}: without it {list((kept - rest).elements())} are no longer kept "
                f"and {list((rest - kept).elements())} are; it must be at most the row itself"
            )

"""``generate``: a private release of a table, or of linked tables."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from marginalsyn import defaults
from marginalsyn.errors import UsageError
from marginalsyn.operations.files import check_new, write_text
from marginalsyn.operations.groups import AMOUNTS, Named, Paid, Spending, named, read_share
from marginalsyn.operations.operation import (
    DRY_RUN,
    PYTHON,
    Facts,
    Operation,
    Result,
    Session,
    default_method,
    how_many,
    option,
    several,
    shown,
)
from marginalsyn.operations.origins import (
    PASSWORD,
    FoundTable,
    PrivateInput,
    caution_of_rows,
    describe_total,
    find_private,
    hides_password,
)
from marginalsyn.registry import GENERATORS, find
from marginalsyn.validation import first_of

if TYPE_CHECKING:
    from marginalsyn.contract import GeneratorConfig, Synthesis
    from marginalsyn.operations.linked import LinkedInput
    from marginalsyn.privacy.budget import Budget
    from marginalsyn.records.ledger import Ledger
    from marginalsyn.release.folder import Release
    from marginalsyn.release.linked import LinkedRelease

# Shares of a budget that go to weights where none is named, by the benchmark of splits: generators
# that measure few of the label's pairs leave more to correct.
WEIGHTS_SHARE, SHARE = {"independent": 0.5, "mst": 0.3}, 0.1

_method = partial(option, panel="Method")


@dataclass(frozen=True, kw_only=True)
class Generate(Paid, Spending, Named, Operation["Release | LinkedRelease"]):
    """Make a differentially private release of a table.

    Writes a folder with synthetic rows, the schema, the noisy measurements and a privacy
    statement; all of it may be published. The charge is written to the source's ledger before
    anything is measured. Where the first counts show a column that is nearly all missing, OTHER or
    clipped, it stops and spends no more; --go-on insists. Without --data or --dataset it takes the
    bundled Adult table.
    """

    kind = GENERATORS
    preferred = ("auto", "aim", "independent")
    everyday = (
        *("data", "schema", "dataset", "unit", "max_rows", "holdout"),
        *("eps", "method", "rows", "dry_run", "out", "force"),
    )
    examples = """
    # the bundled Adult table, in ./release
    marginalsyn generate --eps 2
    # your own table; 20% of its rows kept away for a later evaluation
    marginalsyn generate --data people.csv --schema people.schema.json --eps 1 --holdout 0.2
    # what would be spent and measured; reads nothing
    marginalsyn generate --dataset heart --method independent --eps 1 --dry-run
    # a table with several rows per person: protect persons, not rows
    marginalsyn generate --data visits.csv --schema s.json --unit patient_id --max-rows 20 --eps 1
    # rows of a person as a sequence: right lengths, first rows, transitions and gaps
    marginalsyn generate --data visits.csv --schema s.json --sequence --constant sex --eps 1
    # linked tables: a folder with a file for each, and a schema that says which belongs to which
    marginalsyn generate --data clinic --schema clinic.schema.json --eps 2
    # the options of one method
    marginalsyn generate --method independent --help
    """

    sequence: bool = option(
        False,
        "With --unit and --order: a person's rows are a sequence. Synthetic persons have rows "
        "that follow each other, in a file next to one of persons.",
        panel="Source",
    )
    constant: str = option(
        "",
        "With --sequence: columns that are the same in all rows of a person, separated by commas.",
        panel="Source",
        show_default=False,
        metavar="COLUMNS",
    )
    method: str | None = _method(
        None,
        "The generator to run; `marginalsyn plugins` lists them. [default=auto if installed] "
        "Add --help to see its own options.",
        metavar="NAME",
    )
    options: Mapping[str, Any] | None = _method(
        None, "The method's own options by name.", shell=False
    )
    rows: int | None = how_many(
        "The number of synthetic rows; of linked tables, of persons. "
        "[default=a noisy estimate of the number of private rows]",
        panel="Method",
    )
    keep_weights: bool = option(
        False,
        "With survey weights: give the synthetic rows a column of that name, which says how many "
        "of the population each stands for.",
        panel="Source",
    )
    shapes: Sequence[str] = _method(
        ("auto",),
        "A numeric column whose shape the run buys for a twentieth of its budget: bins where the "
        "schema has none, values that many rows share, and the mass between them. May be "
        "repeated; `none` buys none. [default=columns with `auto` bins and over 1,000 values "
        "between the bounds]",
        flags=("--shape",),
        multiple=True,
        show_default=False,
        metavar="COLUMN",
    )
    margins: Sequence[Any] = several(
        "Counts or shares over one or two columns that are public, as an office publishes them: a "
        "CSV file with these columns and `count`, `share` or `percent`. The model has them, and "
        "nothing is measured for them. May be repeated.",
        panel="Source",
        metavar="FILE",
    )
    reference: Sequence[Any] = several(
        "A table to lean on where its rows and the answers agree: a CSV or Parquet file that is "
        "public, or the folder of a release, such as last year's. May be repeated.",
        panel="Source",
        metavar="FILE|RELEASE",
    )
    reference_overlaps: bool = option(
        False,
        "Take a reference that shares rows with the private table: all of it is public anyway.",
        panel="Source",
    )
    rules: Sequence[str] = several(
        "What every row keeps, such as 'age < 15 -> marital = never'; public, and added to the "
        "schema's rules. May be repeated.",
        flags=("--rule",),
        panel="Source",
        metavar="TEXT",
    )
    by: Sequence[str] = several(
        "Serve every pair of columns also within each value of this column, such as a region. "
        "Two at most: the option twice, or a list with commas. [default=the schema's `by`]",
        metavar="COLUMN",
        panel="Method",
    )
    weights: float | str | None = option(
        None,
        "Spend this share of --eps (in mu^2) on weights for the rows, in the same run. Without a "
        "number: half for independent, 0.3 for mst, else 0.1. [default=none]",
        panel="Method",
        metavar="[SHARE]",
        is_flag=False,
        flag_value="auto",
        type=str,
        parse=read_share,
    )
    out: str | Path = option(defaults.RELEASE, "The release folder.", metavar="FOLDER")
    format: Literal["csv", "parquet"] = option(defaults.FORMAT, "The file format of the rows.")
    as_input: bool = option(
        False,
        "Write the rows as the source's text file is written: its separator, its encoding and the "
        "mark before its header. Numbers and dates are spelt as the schema says in any case.",
    )
    force: bool = option(False, "Overwrite what exists.")
    go_on: bool = option(
        False,
        "Do not stop after the first counts where a column is nearly all missing, OTHER or "
        "clipped. A run with the same options that stopped there goes on: what is paid is not "
        "paid again.",
    )

    def plan(self, session: Session = PYTHON) -> Result[Any]:
        """Show the plan without reading or spending anything."""
        from marginalsyn.graphical.estimation import excluded_values
        from marginalsyn.host import calibrate, check_takes_reference
        from marginalsyn.people.tree import LinkedSchema
        from marginalsyn.table.schema import Schema

        config, asked, source = self._asked(session)
        budget, rest = self._split(asked, config, source.schema)
        check_takes_reference(config, self.reference)
        schema = source.schema
        plan = calibrate(config, schema, budget)[0].plan
        warnings = [*plan.warnings, *excluded_values(schema)]
        unit = "one row" if schema.unit is None else schema.unit.text
        if isinstance(schema, Schema) and schema.survey_weight is not None:
            unit += f"; {schema.survey_weight.text}"
        facts = {
            "source": source.title,
            "method": config.name,
            **{name: getattr(budget, name) for name in AMOUNTS},
            "neighbours": budget.neighbours,
            "unit": unit,
            "split": dict(plan.split),
            "workload": [list(columns) for columns in plan.workload],
            "model_mb": plan.model_mb,
            "facts": dict(plan.facts),
            "warnings": warnings,
        }
        whole = sum(plan.split.values()) or 1.0
        size: tuple[str, object]
        if isinstance(schema, LinkedSchema):
            size = ("Tables", ", ".join(table.name for table in schema.tables))
            facts["shares"] = {view: part / whole for view, part in plan.split.items()}
        else:
            size = ("Columns", len(schema.names))
        # One line for each view where views differ in a fact.
        own = {
            name: [f"{view}: {shown(one)}" for view, one in value.items()]
            if isinstance(value, Mapping)
            else [value]
            for name, value in plan.facts.items()
        }
        split = [f"{share / whole:.0%} {purpose}" for purpose, share in plan.split.items()]
        model = f"{plan.model_mb:.3g} MB" if plan.model_mb is not None else "not predicted"
        pairs = [
            ("Source", source.title),
            size,
            ("Method", config.name),
            ("Protects", unit),
            ("Budget", f"eps {budget.eps:g}, delta {budget.delta:g}, {budget.neighbours}"),
            ("", f"mu {budget.mu:.6g} (GDP); rho {budget.rho:.6g} (zCDP) where noise has no mu"),
            *([("", f"and eps {rest.eps:.3g} for weights: {asked.eps:g} in all")] if rest else []),
            *_listed("Split", split),
            ("Workload", _workload(plan.workload)),
            ("Model", model),
            *(pair for name, lines in own.items() for pair in _listed(name.capitalize(), lines)),
            *(("Reference", str(name)) for name in self.reference),
            *_known(schema, plan, facts),
        ]
        return Result(plan, facts, [Facts(pairs)], warnings, [DRY_RUN])

    def run(self, session: Session = PYTHON) -> Result[Release | LinkedRelease]:
        """Refuse what cannot work, then charge, generate and write."""
        from marginalsyn.access.private_table import STAMP
        from marginalsyn.contract import LinkedSynthesis, plain
        from marginalsyn.graphical.estimation import excluded_values
        from marginalsyn.host import generate
        from marginalsyn.operations.references import lean_on
        from marginalsyn.records.entries import ROWS
        from marginalsyn.records.workspace import Workspace
        from marginalsyn.release.folder import Release, preflight
        from marginalsyn.release.linked import LinkedRelease

        config, whole, source = self._asked(session)
        budget, rest = self._split(whole, config, source.schema)
        title, ledger = source.title, source.ledger()
        if self.resume and rest is not None and session.resumes("weight "):
            return self._weigh(rest, session)
        preflight(Path(self.out), self.force)
        for line in excluded_values(source.schema):
            session.warn(line)
        if rest is not None and not self.resume:
            unit = source.schema.unit.noun if source.schema.unit is not None else ROWS
            both = whole.charge("generate", "rows and weights", whole.gaussian_cost)
            # Each run checks which rows it cannot see; here the cap is asked.
            ledger.check([both], unit=unit, split=next(iter(ledger.read().splits), ""))
        references: Sequence[Any] = ()
        if self.reference and isinstance(source, PrivateInput):
            references = lean_on(
                self,
                config,
                source.key,
                source.schema,
                source.all_rows,
                ledger=ledger,
                warn=session.warn,
            )
        found = FoundTable(source.key, ledger, partial(source.open, ledger), source)
        with self.paying(session, found, go_on=self.go_on) as tools:
            recorder, progress = tools["recorder"], tools["progress"]
            if source.kept.holdout and not recorder.resume:
                recorder.salt = Workspace.here().holdout_salt(source.key, seed=self.seed)
            salted = source.kept.model_copy(update={"holdout_salt": recorder.salt})
            source = replace(source, kept=salted)
            progress.report("open", text=title)
            table = source.open(ledger, budget.neighbours)
            synthesis, statement = generate(
                table,
                config,
                budget,
                **tools,
                accept_nonprivate_schema=self.accept_nonprivate_schema,
                run=f"generate {config.name}",
                references=references,
            )
            if self.as_input:
                form = table.text_form.fitting((synthesis.schema or source.schema).to_json())
                statement = statement.with_form(form)
            progress.report("write", text=str(self.out))
            kind: Any = Release
            parts: tuple[Any, ...] = (synthesis,)
            if isinstance(synthesis, LinkedSynthesis):
                kind = LinkedRelease
                parts = (synthesis.frames, synthesis.measurements, synthesis.model)
            how: Any = {"format": self.format, "force": self.force}
            release = kind.write(*parts, source.schema, statement, self.out, **how)
        try:
            # What may depend on private rows, for the curator; the run time is not worth a folder.
            if not set(synthesis.diagnostics) <= {"seconds"}:
                name = release.path.name
                file = Path(defaults.EVALUATION) / f"{name}.diagnostics.json"
                check_new(file, force=True)
                kept = {"stamp": STAMP, "release": name, **plain(synthesis.diagnostics)}
                file.parent.mkdir(exist_ok=True)
                write_text(file, json.dumps(kept, indent=2, ensure_ascii=False) + "\n")
            source.remember(release, ledger)
        except (OSError, UsageError) as error:
            # The release is there and paid for: what is lost is the memory of how it was made.
            session.warn(f"the release is written, but not remembered: {error}")
        result = self._made(release, synthesis, source, ledger)
        if self.data is not None and hides_password(self.data):
            result.notes = [
                *result.notes,
                f"weight and evaluate read the table again; its password is not kept: {PASSWORD}",
            ]
        if rest is None:
            return result
        weighed = replace(self, resume=False)._weigh(rest, session)
        if not session.shown:
            return weighed
        result.json |= {"eps": weighed.json["eps"], "weights": weighed.json}
        warnings, notes = [*result.warnings, *weighed.warnings], [*result.notes, *weighed.notes]
        return Result(weighed.value, result.json, result.text, warnings, notes)

    def _split(
        self, budget: Budget, config: GeneratorConfig, schema: Any
    ) -> tuple[Budget, Budget | None]:
        """What the rows and what their weights may cost; by public facts alone."""
        from marginalsyn.host import calibrate
        from marginalsyn.people.tree import LinkedSchema
        from marginalsyn.privacy.budget import Budget
        from marginalsyn.privacy.gdp import mu_of

        if self.weights is None:
            return budget, None
        if isinstance(schema, LinkedSchema):
            raise UsageError(
                "--weights must not be given for linked tables: run weight on the release"
            )
        if schema.survey_weight is not None:
            raise UsageError("--weights must not be given with survey weights: rows follow these")
        share = WEIGHTS_SHARE.get(config.name, SHARE) if self.weights == "auto" else self.weights
        if not isinstance(share, float) or not 0 < share < 1:
            raise UsageError(f"--weights ({share}) must be above 0 and below 1, such as 0.1")
        of_mu = partial(Budget.of_mu, delta=budget.delta, neighbours=budget.neighbours)
        mu = mu_of(budget.eps, budget.delta)
        rows, rest = (of_mu(math.sqrt(part) * mu) for part in (1 - share, share))
        prices = [charge.mu for charge in calibrate(config, schema, rows)[0].cost]
        paid = sum(price**2 if price is not None else math.inf for price in prices)
        if paid > (1 - share) * mu**2 * (1 + 1e-6):
            raise UsageError(
                f"--weights needs a method that is priced in mu, such as auto, for one budget to "
                f"hold for both: after {config.name} run weight with an --eps of its own"
            )
        return rows, rest

    def _weigh(self, budget: Budget, session: Session) -> Result[Any]:
        """Weights for the rows that were made, with what is left for them."""
        from marginalsyn.operations.weight import Weight

        weighing = Weight(
            release=self.out,
            eps=budget.eps,
            delta=budget.delta,
            allow_large_delta=self.allow_large_delta,
            accept_nonprivate_schema=self.accept_nonprivate_schema,
            ledger=self.ledger,
            void_earlier_promises=self.void_earlier_promises,
            resume=self.resume,
            # Other noise than that of the rows.
            seed=None if self.seed is None else self.seed + 1,
            progress=self.progress,
        )
        return weighing.run(session)

    def _asked(
        self, session: Session
    ) -> tuple[GeneratorConfig, Budget, PrivateInput | LinkedInput]:
        """The method, the budget and the source, without anything read or spent."""
        from marginalsyn.contract import make_config
        from marginalsyn.operations.linked import find_linked
        from marginalsyn.purchases.shapes import with_shapes
        from marginalsyn.table.unit import persons_columns

        budget = self.budget()
        method, given = self.method or default_method(type(self)), dict(self.options or {})
        if self.rows is not None and "rows" in {
            knob.name for knob in fields(find(GENERATORS, method))
        }:
            given["rows"] = self.rows
        config = make_config(method, given)
        source = named(self)
        constants = [part.strip() for part in self.constant.split(",") if part.strip()]
        linked = find_linked(source, sequence=self.sequence, constants=constants)
        if linked is not None:
            if self.margins:
                raise UsageError(
                    "--margins (of linked tables) must not be given: a unit of theirs is a person "
                    "with all rows. State them afterwards, of each table, with `steer`"
                )
            if self.reference or self.by:
                raise UsageError(
                    f"--{'by' if self.by else 'reference'} (of linked tables) must not be given: "
                    "only a release of one table has strata or leans on another"
                )
            tree = replace(linked.schema, rules=(*linked.schema.rules, *self.rules))
            return config, budget, replace(linked, schema=tree)
        table, shapes = find_private(source), tuple(self.shapes)
        if "none" in shapes and len(shapes) > 1:
            raise UsageError("shape (none) must stand alone: name the columns, or none of them")
        chosen = () if shapes == ("none",) else None if shapes == ("auto",) else shapes
        # Names are public: the schema has them. Whether persons have several rows is not checked.
        persons = persons_columns([*table.schema.names, *table.schema.drop])
        if self.unit is None and table.schema.unit is None and persons:
            session.warn(caution_of_rows(persons[0]))
        # What is held out was counted, too: of the rest the margins give shares.
        held_out = table.kept.holdout > 0
        schema = table.schema.with_margins(self.margins, relative=held_out)
        if self.keep_weights:
            if schema.survey_weight is None:
                raise UsageError(
                    "--keep-weights needs a schema with survey_weight, such as "
                    '"survey_weight": {"column": "weight", "bound": 500}'
                )
            kept = schema.survey_weight.model_copy(update={"keep": True})
            schema = schema.model_copy(update={"survey_weight": kept})
        schema = with_shapes(schema.with_rules(self.rules), chosen).stratified(self.by)
        return config, budget, replace(table, schema=schema)

    def _made(
        self,
        release: Release | LinkedRelease,
        synthesis: Synthesis,
        source: PrivateInput | LinkedInput,
        ledger: Ledger,
    ) -> Result[Release | LinkedRelease]:
        """The release, with what to do next."""
        from marginalsyn.contract import LinkedSynthesis
        from marginalsyn.table.keeping import redrawn_text

        statement, total, spent = release.statement, ledger.total(), ("eps", "delta", "neighbours")
        sizes: dict[str, Any]
        if isinstance(synthesis, LinkedSynthesis):
            counts = {name: len(frame) for name, frame in synthesis.frames.items()}
            sizes = {"tables": counts}
            made = ", ".join(f"{count:,} rows of {name}" for name, count in counts.items())
        else:
            sizes = {"rows": len(synthesis.frame), "columns": len(synthesis.frame.columns)}
            made = f"{sizes['rows']:,} synthetic rows, {sizes['columns']} columns"
        facts = {
            "release": str(release.path),
            "method": statement.generator,
            **sizes,
            **{name: getattr(statement, name) for name in (*spent, "guarantee", "seeded")},
            "warnings": list(statement.warnings),
            "ledger": {"path": str(ledger.path), **{one: getattr(total, one) for one in spent}},
        }
        choice, chain, redrawn = map(statement.notes.get, ("choice", "chain", "redrawn_for_rules"))
        shares: Any = statement.notes.get("leaned") or {}
        leaned = [f"{share:.0%} of what {name} say" for name, share in shares.items()]
        notes = [
            f"{made}, by {statement.generator}, from {source.title}",
            *(
                [f"chosen: {choice['method']} ({choice['why']})"]
                if isinstance(choice, dict)
                else []
            ),
            *([f"leans on the reference: {', '.join(leaned)}"] if leaned else []),
            *([f"fitted: {chain['text']}"] if isinstance(chain, dict) else []),
            *(redrawn_text(redrawn) if redrawn else []),
            f"this release:    {statement.total()}",
            *describe_total(ledger),
            *([_not_counted(release.schema, source.title, self.out)] if self.data else []),
            f"next: marginalsyn show {self.out}   marginalsyn verify {self.out}",
        ]
        return Result(release, facts, [str(self.out)], statement.warnings, notes)


def _known(schema: Any, plan: Any, facts: dict[str, Any]) -> list[tuple[str, object]]:
    """What is public of a table: its margins, and what survey weights mean for noise."""
    from marginalsyn.table.schema import Schema

    if not isinstance(schema, Schema):
        return []
    lines, weight = [], schema.survey_weight
    for margin in schema.public_margins:
        facts.setdefault("margins", []).append(margin.facts)
        rows = "" if margin.rows is None else f", {margin.rows:,.10g} rows"
        lines.append(f"{margin.name}{rows}: exact")
    for name, (source, _) in schema.followers.items():
        facts.setdefault("follow", {})[name] = source
        lines.append(f"{name} follows from {source}: nothing is measured for it")
    for known in (rule.dependency for rule in schema.kept_rules):
        codes = [] if known is None or known.mapping is None else known.mapping.tolist()
        if known is not None and -1 in codes:
            left = [known.source.labels()[place] for place, code in enumerate(codes) if code < 0]
            source, what = known.source.name, f"{known.target.name} is measured"
            lines.append(f"{what}, for its list leaves out {source} = {', '.join(left[:5])}")
    if weight is not None:
        sigma = next((v for k, v in plan.facts.items() if "deviation" in k or k == "sigma"), 0.0)
        facts["survey_weight"] = {"bound": weight.bound, "noise": sigma * weight.bound}
        times = f", {weight.bound / weight.mean:.3g} times equal weights'" if weight.mean else ""
        noise = f"noise of the first totals {sigma * weight.bound:,.0f}{times}"
        lines.append(f"survey weight {weight.column}, at most {weight.bound:g}: {noise}")
    return _listed("Public", lines)


def _not_counted(schema: Any, title: str, out: str | Path) -> str:
    """What the schema may have changed in the rows, which only the curator may count."""
    from marginalsyn.people.tree import LinkedSchema

    schemas = schema.schemas if isinstance(schema, LinkedSchema) else [schema]
    columns = [column for one in schemas for column in one.columns]
    changes = ["numbers beyond their bounds"] * any(column.numeric for column in columns)
    changes += ["values that are not listed or cannot be read"]
    if forced := [f"{c.name}: {c.labels()[0]}" for c in columns if c.absent_code == 0]:
        more = "; ..." if len(forced) > 3 else ""
        changes.append(f"blanks that become values ({'; '.join(forced[:3])}{more})")
    return (
        f"not counted, as it would cost privacy: {', '.join(changes)}; to count them, for you "
        f"alone: marginalsyn schema check {title} {Path(out) / 'schema.json'}"
    )


def _listed(title: str, lines: Sequence[object]) -> list[tuple[str, object]]:
    """Lines under one title."""
    return [("" if number else title, line) for number, line in enumerate(lines)]


def _workload(marginals: Sequence[Sequence[str]]) -> str:
    """How many marginals, and the first few."""
    texts = [f"({', '.join(columns)})" for columns in marginals]
    return f"{len(texts)} marginals: {first_of(texts, 4)}" if texts else "none"

"""``marginalsyn generate``: a private release of a table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from marginalsyn import defaults
from marginalsyn.cli import linked, options, resuming, screen
from marginalsyn.cli.bundles import bundle
from marginalsyn.cli.methods import MethodCommand
from marginalsyn.registry import GENERATORS

if TYPE_CHECKING:
    from marginalsyn.contract import GeneratorConfig, Synthesis
    from marginalsyn.operations.origins import PrivateInput
    from marginalsyn.privacy.budget import Budget
    from marginalsyn.records.ledger import Ledger
    from marginalsyn.records.run_recorder import RunRecorder
    from marginalsyn.release.folder import Release


@click.command(
    cls=MethodCommand,
    kind=GENERATORS,
    preferred=("auto", "aim", "independent"),
    examples="""
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
    # linked tables: a folder with a file for each, and a schema that says how they hang together
    marginalsyn generate --data clinic --schema clinic.schema.json --eps 2
    # the options of one method
    marginalsyn generate --method independent --help
    """,
)
@bundle(options.Source)
@click.option(
    "--sequence",
    is_flag=True,
    panel="Source",
    help="With --unit and --order: a person's rows are a sequence. Synthetic persons have rows "
    "that follow each other, in a file beside one of persons.",
)
@click.option(
    "--constant",
    default="",
    show_default=False,
    metavar="COLUMNS",
    panel="Source",
    help="With --sequence: columns that are the same in all rows of a person, separated by commas.",
)
@bundle(options.Spending, without=("share",))
@click.option(
    "--method",
    metavar="NAME",
    panel="Method",
    help="The generator to run; `marginalsyn plugins` lists them. [default=auto if "
    "installed] Add --help to see its own options.",
)
@options.rows(
    "The number of synthetic rows; of linked tables, of persons. "
    "[default=a noisy estimate of the number of private rows]",
    panel="Method",
)
@click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="COLUMN",
    default=("auto",),
    show_default=False,
    panel="Method",
    help="A numeric column whose shape the run buys for a twentieth of its budget: bins where the "
    "schema has none, values that many rows share, and the mass between them. May be repeated; "
    "`none` buys none. [default=columns with `auto` bins and over 1,000 values between the bounds]",
)
@bundle(
    options.Output,
    out={
        "default": defaults.RELEASE,
        "metavar": "FOLDER",
        "help": "The release folder.",
    },
)
@click.option(
    "--go-on",
    is_flag=True,
    panel="Options",
    help="Do not stop after the first counts where a column is nearly all missing, OTHER or "
    "clipped. A run with the same options that stopped there goes on: what is paid is not paid "
    "again.",
)
@bundle(options.Running, dry_run={"help": "Show the plan without reading or spending anything."})
@click.pass_context
def generate(
    ctx: click.Context,
    source: options.Source,
    sequence: bool,
    constant: str,
    spending: options.Spending,
    method: str | None,
    rows: int | None,
    shapes: tuple[str, ...],
    output: options.Output,
    go_on: bool,
    running: options.Running,
    **knobs: Any,
) -> None:
    """Make a differentially private release of a table.

    Writes a folder with synthetic rows, the schema, the noisy measurements and a privacy
    statement; all of it may be published. The charge is written to the source's ledger before
    anything is measured. Where the first counts show a column that is nearly all missing, OTHER or
    clipped, it stops and spends no more; --go-on insists. Without --data or --dataset it takes the
    bundled Adult table.
    """
    from marginalsyn.cli.accounting import facts, show_end, warn_of_seed
    from marginalsyn.contract import make_config
    from marginalsyn.operations.linked import find_linked
    from marginalsyn.operations.origins import PASSWORD, find_private, hides_password

    notes, budget = screen.Notes(output.quiet), spending.budget()
    command = ctx.command
    assert isinstance(command, MethodCommand)
    name = method or command.default_method()
    config = make_config(name, command.values(name, {**knobs, "rows": rows}))
    constants = [part.strip() for part in constant.split(",") if part.strip()]
    if tables := find_linked(source, sequence=sequence, constants=constants):
        linked.generate(tables, config, budget, rows, output, running)
        return
    table = _with_shapes(find_private(source), shapes)
    _warn_of_persons(table, source.unit, notes)
    if running.dry_run:
        _show_plan(table, config, budget, output.as_json)
        return
    warn_of_seed(running.seed, notes)
    keeper = resuming.keep(table.key, table.workspace, notes, go_on=go_on)
    ledger = table.ledger()
    release, made = _run(table, ledger, keeper, config, budget, output, running.seed, notes)
    if output.as_json:
        columns = len(release.schema.names)
        screen.write_json(facts(release, ledger, rows=made, columns=columns))
    else:
        screen.write(str(output.path))
    said = f"{made:,} synthetic rows, {len(release.schema.names)} columns"
    said += f", by {release.statement.generator}, from {table.title}"
    show_end(release, said, output.path, ledger, notes)
    if source.data is not None and hides_password(source.data):
        notes.say(f"weight and evaluate read the table again; its password is not kept: {PASSWORD}")


def _with_shapes(table: PrivateInput, shapes: Sequence[str]) -> PrivateInput:
    """The table with the columns whose shape the run is to buy."""
    from marginalsyn.errors import UsageError
    from marginalsyn.purchases.value_histograms import with_shapes

    if "none" in shapes and len(shapes) > 1:
        raise UsageError("shape (none) must stand alone: name the columns, or none of them")
    named = () if shapes == ("none",) else None if shapes == ("auto",) else shapes
    return replace(table, schema=with_shapes(table.schema, named))


def _warn_of_persons(table: PrivateInput, unit: str | None, notes: screen.Notes) -> None:
    """Say what a promise for rows means where a column's name says that persons have several.

    Names are public: the schema has them. Whether persons do have several rows is not looked at.
    """
    from marginalsyn.cli.whom import warn_of_rows
    from marginalsyn.table.unit import persons_columns

    schema = table.schema
    named = persons_columns([*schema.names, *schema.drop])
    if unit is not None or schema.unit is not None or not named:
        return
    warn_of_rows(named[0], notes)


def _run(
    source: PrivateInput,
    ledger: Ledger,
    keeper: RunRecorder,
    config: GeneratorConfig,
    budget: Budget,
    output: options.Output,
    seed: int | None,
    notes: screen.Notes,
) -> tuple[Release, int]:
    """Refuse what cannot work, then charge, generate and write; the release, and its rows."""
    from marginalsyn.cli.accounting import accounted
    from marginalsyn.errors import UsageError
    from marginalsyn.host import generate as run_method
    from marginalsyn.privacy.noise import make_noise
    from marginalsyn.release.folder import Release, preflight

    out, accept = output.path, source.named.accept_nonprivate_schema
    preflight(out, output.force)
    if source.kept.holdout and not keeper.resume:
        keeper.salt = source.workspace.holdout_salt(source.key, seed=seed)
    source = source.salted(keeper.salt)
    with accounted(ledger, keeper), keeper, notes.progress() as progress:
        progress.report("open", text=source.title)
        synthesis, statement = run_method(
            source.open(ledger, budget.neighbours),
            config,
            budget,
            noise=make_noise(seed),
            progress=progress,
            accept_nonprivate_schema=accept,
            run=f"generate {config.name}",
            keeper=keeper,
        )
        progress.report("write", text=str(out))
        release = Release.write(
            synthesis,
            source.schema,
            statement,
            out,
            format=output.table_format,  # type: ignore[arg-type]
            force=output.force,
        )
        keeper.finish()
    try:
        _keep_diagnostics(synthesis, release)
        source.remember(release)
    except (OSError, UsageError) as error:
        # The release is there and paid for: what is lost is the memory of how it was made.
        notes.warn(f"the release is written, but not remembered: {error}")
    return release, len(synthesis.frame)


def _keep_diagnostics(synthesis: Synthesis, release: Release) -> None:
    """Write what may depend on private rows apart from the release, for the curator."""
    from marginalsyn.access.private_table import STAMP
    from marginalsyn.contract import plain
    from marginalsyn.operations.files import write_text

    # The run time alone is not worth a folder.
    if set(synthesis.diagnostics) <= {"seconds"}:
        return
    kept = {"stamp": STAMP, "release": release.path.name, **plain(synthesis.diagnostics)}
    folder = Path(defaults.EVALUATION)
    folder.mkdir(exist_ok=True)
    text = json.dumps(kept, indent=2, ensure_ascii=False) + "\n"
    write_text(folder / f"{release.path.name}.diagnostics.json", text)


def _show_plan(
    source: PrivateInput, config: GeneratorConfig, budget: Budget, as_json: bool
) -> None:
    """Print what a run would do; nothing is read or written."""
    from marginalsyn.host import calibrate

    plan, unit = calibrate(config, source.schema, budget)[0].plan, source.schema.unit
    if as_json:
        screen.write_json(
            {
                "source": source.title,
                "method": config.name,
                "eps": budget.eps,
                "delta": budget.delta,
                "rho": budget.rho,
                "neighbours": budget.neighbours,
                "unit": "one row" if unit is None else unit.text,
                "split": dict(plan.split),
                "workload": [list(columns) for columns in plan.workload],
                "model_mb": plan.model_mb,
                "facts": dict(plan.facts),
                "warnings": list(plan.warnings),
            }
        )
        return
    screen.write_facts(
        [
            ("Source", source.title),
            ("Columns", len(source.schema.names)),
            ("Method", config.name),
            ("Protects", "one row" if unit is None else unit.text),
            ("Budget", f"eps {budget.eps:g}, delta {budget.delta:g}, {budget.neighbours}"),
            ("", f"rho {budget.rho:.6g} (zCDP)"),
            *_split(plan.split),
            ("Workload", _workload(plan.workload)),
            ("Model", f"{plan.model_mb:.3g} MB" if plan.model_mb is not None else "not predicted"),
            *((name.capitalize(), value) for name, value in plan.facts.items()),
        ]
    )
    notes = screen.Notes()
    notes.warn_all(plan.warnings)
    notes.say(screen.DRY_RUN)


def _split(split: Mapping[str, float]) -> list[tuple[str, str]]:
    """The shares of rho, one line per purpose."""
    whole = sum(split.values()) or 1.0
    lines = [f"{share / whole:.0%} {purpose}" for purpose, share in split.items()]
    return [("Split" if not number else "", line) for number, line in enumerate(lines)]


def _workload(marginals: Sequence[Sequence[str]], shown: int = 4) -> str:
    """How many marginals, and the first few."""
    first = ", ".join("(" + ", ".join(columns) + ")" for columns in marginals[:shown])
    more = f" and {len(marginals) - shown} more" if len(marginals) > shown else ""
    return f"{len(marginals)} marginals: {first}{more}" if marginals else "none"

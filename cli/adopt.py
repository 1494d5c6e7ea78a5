"""``marginalsyn adopt``: a release of what another tool made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from marginalsyn import defaults
from marginalsyn.cli import group, options, screen
from marginalsyn.cli.bundles import bundle, one, option
from marginalsyn.errors import UsageError

if TYPE_CHECKING:
    from marginalsyn.release.folder import Release
    from marginalsyn.table.schema import Schema


@dataclass(frozen=True, kw_only=True)
class Stated:
    """What is claimed of the privacy of another tool's rows, and by whom."""

    panel = "What is claimed of its privacy"

    eps: float | None = option(
        "--stated-eps",
        type=click.FloatRange(min=0),
        metavar="EPS",
        help="The eps that the other tool, or whoever ran it, claims.",
    )
    delta: float | None = option(
        "--stated-delta",
        type=click.FloatRange(0, 1, max_open=True),
        metavar="DELTA",
        help="The delta of that claim.",
    )
    rho: float | None = option(
        "--stated-rho",
        type=click.FloatRange(min=0),
        metavar="RHO",
        help="The rho, where the claim is one of zCDP.",
    )
    neighbours: str | None = option(
        "--stated-neighbours",
        metavar="TEXT",
        help="Which tables the claim protects from being told apart, such as add-remove.",
    )
    by: str | None = option(
        "--stated-by",
        metavar="WHO",
        help="Whose claim it is. [default=the tool's]",
    )

    def values(self) -> dict[str, Any]:
        """What was given, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}


@group.command(
    examples="""
    # rows of any tool, whose maker claims an eps of 1
    marginalsyn adopt rows.csv --schema people.schema.json --tool "SDV 1.0" --stated-eps 1
    # what an mbi pipeline measured (see docs/adopt.md): refitted and drawn anew, free
    marginalsyn adopt parcel --schema people.schema.json --out taken
    # the same, with the rows that the pipeline drew
    marginalsyn adopt parcel --no-redraw --out as-it-was
    """,
)
@click.argument(
    "source",
    type=options.PATH,
    help="A .csv or .parquet file of rows, or a parcel: a folder with parcel.json and parcel.npz, "
    "as `marginalsyn.plugins.exchange.mbi.save` writes it.",
)
@one(
    options.Source,
    "schema_path",
    panel=None,
    help="The public schema of the rows (JSON). A parcel needs none: its labels or codes serve.",
)
@one(options.Source, "label", panel=None)
@click.option(
    "--tool",
    metavar="TEXT",
    help="What made it, with its version. [default=what a parcel says; else another tool]",
)
@click.option(
    "--redraw/--no-redraw",
    default=None,
    help="Draw the rows anew from the measurements or the model, which costs no privacy. "
    "[default=yes, where the source holds them]",
)
@options.rows("The number of rows to draw. [default=the estimated number of private rows]")
@bundle(Stated)
@options.out(
    default=defaults.RELEASE,
    metavar="FOLDER",
    help="The new release folder.",
)
@one(options.Output, "table_format")
@options.seed(help="Make the draw repeatable. This is safe: it adds no protective noise.")
@bundle(options.Output, only=("force", "quiet", "as_json"))
def adopt(
    source: Path,
    schema_path: Path | None,
    label: str | None,
    tool: str | None,
    redraw: bool | None,
    rows: int | None,
    stated: Stated,
    out: Path,
    table_format: str,
    seed: int | None,
    output: options.Output,
) -> None:
    """Make a release of what another tool made.

    It can then be weighted, steered, evaluated, certified, sampled and verified like any other.
    Where the source holds noisy measurements or a model, our own model is fitted to them and the
    rows are drawn anew, at no cost in privacy. The statement says whose words the guarantee is; it
    never counts as ours, and no ledger is charged.
    """
    from marginalsyn.release.folder import preflight

    preflight(out, output.force)
    notes = screen.Notes(output.quiet)
    asked = {
        "path": out,
        "format": table_format,
        "force": output.force,
        "stated": stated.values() or None,
    }
    with notes.progress() as progress:
        if source.suffix in (".csv", ".parquet") and not source.is_dir():
            if redraw or rows is not None:
                raise UsageError(
                    f"source ({source}) holds rows alone: there is nothing to draw others from"
                )
            progress.report("read", text=source.name)
            made = _adopt_rows(source, _schema(source, schema_path, label), tool, asked)
        else:
            asked |= {"redraw": redraw, "rows": rows, "progress": progress}
            made = _adopt_parcel(source, schema_path, label, tool, seed, asked)
    _show(made, out, notes, output.as_json)


def _schema(source: Path, path: Path | None, label: str | None) -> Schema:
    from marginalsyn.operations.origins import labelled
    from marginalsyn.table.schema import Schema

    if path is None:
        raise UsageError(f"rows ({source}) that another tool made need a schema: add --schema FILE")
    return labelled(Schema.read(path), label)


def _adopt_rows(source: Path, schema: Schema, tool: str | None, asked: dict[str, Any]) -> Release:
    from marginalsyn.operations.tables import read_table
    from marginalsyn.plugins.exchange.adoption import adopt_rows
    from marginalsyn.plugins.exchange.foreign import take_rows
    from marginalsyn.release.statement import ANOTHER_TOOL

    frame, findings = take_rows(read_table(source), schema)
    return adopt_rows(frame, schema, tool=tool or ANOTHER_TOOL, findings=findings, **asked)


def _adopt_parcel(
    source: Path,
    schema_path: Path | None,
    label: str | None,
    tool: str | None,
    seed: int | None,
    asked: dict[str, Any],
) -> Release:
    from dataclasses import replace

    import numpy as np

    from marginalsyn.operations.origins import labelled
    from marginalsyn.plugins.exchange.adoption import adopt_parcel
    from marginalsyn.plugins.exchange.parcel import read_parcel
    from marginalsyn.plugins.exchange.redrawing import schema_of
    from marginalsyn.table.schema import Schema

    if source.suffix in (".pkl", ".pickle", ".joblib", ".dill"):
        raise UsageError(
            f"source ({source}) must not be a pickle: opening one runs whatever code is in it. "
            "Write a parcel where the objects live, with marginalsyn.plugins.exchange.mbi.save or its like"
        )
    parcel = read_parcel(source)
    parcel = replace(parcel, tool=tool or parcel.tool)
    schema = Schema.read(schema_path) if schema_path is not None else schema_of(parcel)
    return adopt_parcel(
        parcel,
        schema=labelled(schema, label),
        rng=np.random.default_rng(seed),
        **asked,
    )


def _show(made: Release, out: Path, notes: screen.Notes, as_json: bool) -> None:
    """What was adopted, whose words its guarantee is, and what comes next."""
    from marginalsyn.release.derivation import ADOPTED, REDRAWN, whose_words

    statement, rows = made.statement, len(made.frame())
    told = statement.notes[ADOPTED]
    if as_json:
        screen.write_json(
            {"release": str(made.path), "rows": rows, **told, "warnings": statement.warnings}
        )
    else:
        screen.write(str(out))
    notes.warn_all(statement.warnings)
    if told["rows"] == REDRAWN:
        origin = "its measurements" if told["measurements"] else "its model"
        notes.say(
            f"{rows:,} rows, drawn here from {origin} by {told['tool']}: free post-processing"
        )
    else:
        notes.say(f"{rows:,} rows, as {told['tool']} wrote them")
    notes.say(whose_words(statement.notes))
    notes.say("no privacy budget was spent.")
    if made.schema.label is None:
        notes.say("no label is known; name it with --label so that weights and reports can use it")
    notes.say(f"next: marginalsyn show {out}   marginalsyn weight {out} --data FILE --eps EPS")

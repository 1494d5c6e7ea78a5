"""``adopt``: a release of what another tool made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from marginalsyn import defaults
from marginalsyn.errors import UsageError
from marginalsyn.operations.operation import (
    PYTHON,
    Operation,
    Result,
    Session,
    argument,
    how_many,
    option,
    seed_option,
)
from marginalsyn.operations.origins import labelled

if TYPE_CHECKING:
    from marginalsyn.release.folder import Release
    from marginalsyn.table.schema import Schema

PICKLES = (".pkl", ".pickle", ".joblib", ".dill")
# Fields of what is claimed of the source's privacy: ``stated_eps`` is its ``eps``.
STATED = "stated_"

_stated = partial(option, None, panel="What is claimed of its privacy")


@dataclass(frozen=True, kw_only=True)
class Adopt(Operation["Release"]):
    """Make a release of what another tool made.

    It can then be weighted, steered, evaluated, certified, sampled and verified like any other.
    Where the source holds noisy measurements or a model, our own model is fitted to them and new
    rows are drawn, at no cost in privacy. The statement says whose words the guarantee is; it
    never counts as ours, and no ledger is charged.
    """

    examples = """
    # rows of any tool, whose maker claims an eps of 1
    marginalsyn adopt rows.csv --schema people.schema.json --tool "SDV 1.0" --stated-eps 1
    # what an mbi pipeline measured (see docs/adopt.md): refitted, and new rows drawn, free
    marginalsyn adopt parcel --schema people.schema.json --out taken
    # the same, with the rows that the pipeline drew
    marginalsyn adopt parcel --no-redraw --out as-it-was
    """

    source: str | Path = argument(
        None,
        "A .csv or .parquet file of rows, or a parcel: a folder with parcel.json and parcel.npz, "
        "as `marginalsyn.plugins.exchange.mbi.save` writes it.",
        required=True,
    )
    schema: str | Path | None = option(
        None,
        "The public schema of the rows (JSON). A parcel needs none: its labels or codes serve.",
        metavar="FILE",
    )
    label: str | None = option(
        None, "The label column, if it is not the schema's.", metavar="COLUMN"
    )
    tool: str | None = option(
        None,
        "What made it, with its version. [default=what a parcel says; else another tool]",
        metavar="TEXT",
    )
    redraw: bool | None = option(
        None,
        "Draw new rows from the measurements or the model, which costs no privacy. [default=yes, "
        "where the source holds them]",
    )
    rows: int | None = how_many(
        "The number of rows to draw. [default=the estimated number of private rows]"
    )
    stated_eps: float | None = _stated(
        "The eps that the other tool, or whoever ran it, claims.", range=(0, None), metavar="EPS"
    )
    stated_delta: float | None = _stated(
        "The delta of that claim.", range=(0, 1), max_open=True, metavar="DELTA"
    )
    stated_rho: float | None = _stated(
        "The rho, where the claim is one of zCDP.", range=(0, None), metavar="RHO"
    )
    stated_neighbours: str | None = _stated(
        "Which tables the claim makes hard to distinguish, such as add-remove.", metavar="TEXT"
    )
    stated_by: str | None = _stated("Whose claim it is. [default=the tool's]", metavar="WHO")
    out: str | Path = option(defaults.RELEASE, "The new release folder.", metavar="FOLDER")
    format: Literal["csv", "parquet"] = option(defaults.FORMAT, "The file format of the rows.")
    seed: int | None = seed_option(
        "Make the draw repeatable. This is safe: it adds no protective noise."
    )
    force: bool = option(False, "Overwrite what exists.")

    def run(self, session: Session = PYTHON) -> Result[Release]:
        """Read the source, and write a release of it."""
        from marginalsyn.release.folder import preflight

        source, out = Path(self.source), Path(self.out)
        preflight(out, self.force)
        given = vars(self).items()
        stated = {
            name.removeprefix(STATED): value
            for name, value in given
            if name.startswith(STATED) and value is not None
        }
        written: dict[str, Any] = {
            "path": out,
            "format": self.format,
            "force": self.force,
            "stated": stated or None,
        }
        with session.progress(None) as progress:
            if source.suffix in (".csv", ".parquet") and not source.is_dir():
                progress.report("read", text=source.name)
                made = self._adopt_rows(source, written)
            else:
                made = self._adopt_parcel(source, {**written, "progress": progress})
        return self._result(made)

    def _adopt_rows(self, source: Path, written: dict[str, Any]) -> Release:
        from marginalsyn.operations.files import read_table
        from marginalsyn.operations.other_rows import adopt_rows, take_rows
        from marginalsyn.release.statement import ANOTHER_TOOL

        if self.redraw or self.rows is not None:
            raise UsageError(
                f"source ({source}) holds rows alone: there is nothing to draw others from"
            )
        schema = self._schema()
        if schema is None:
            raise UsageError(
                f"rows ({source}) that another tool made need a schema: add --schema FILE"
            )
        frame, findings = take_rows(read_table(source), schema)
        tool = self.tool or ANOTHER_TOOL
        return adopt_rows(frame, schema, tool=tool, findings=findings, **written)

    def _adopt_parcel(self, source: Path, written: dict[str, Any]) -> Release:
        import numpy as np

        from marginalsyn.plugins.exchange.parcel import read_parcel
        from marginalsyn.plugins.exchange.redrawing import adopt_parcel, schema_of

        if source.suffix in PICKLES:
            raise UsageError(
                f"source ({source}) must not be a pickle: opening one runs whatever code is in it. "
                "Write a parcel where the objects live, with marginalsyn.plugins.exchange.mbi.save "
                "or its like"
            )
        parcel = read_parcel(source)
        parcel = replace(parcel, tool=self.tool or parcel.tool)
        return adopt_parcel(
            parcel,
            schema=self._schema() or labelled(schema_of(parcel), self.label),
            rng=np.random.default_rng(self.seed),
            redraw=self.redraw,
            rows=self.rows,
            **written,
        )

    def _schema(self) -> Schema | None:
        from marginalsyn.table.schema import Schema

        return labelled(Schema.read(self.schema), self.label) if self.schema is not None else None

    def _result(self, made: Release) -> Result[Release]:
        """What was adopted, whose words its guarantee is, and what comes next."""
        from marginalsyn.release.derivation import ADOPTED, REDRAWN, whose_words

        statement, rows = made.statement, len(made.frame())
        adopted = statement.notes[ADOPTED]
        origin = "its measurements" if adopted.get("measurements") else "its model"
        notes = [
            f"{rows:,} rows, drawn here from {origin} by {adopted['tool']}: free post-processing"
            if adopted["rows"] == REDRAWN
            else f"{rows:,} rows, as {adopted['tool']} wrote them",
            whose_words(statement.notes),
            "no privacy budget was spent.",
        ]
        if made.schema.label is None:
            notes.append(
                "no label is known; name it with --label so that weights and reports can use it"
            )
        notes.append(
            f"next: marginalsyn show {self.out}   "
            f"marginalsyn weight {self.out} --data FILE --eps EPS"
        )
        warnings = statement.warnings
        data = {"release": str(made.path), "rows": rows, **adopted, "warnings": warnings}
        return Result(made, data, [str(self.out)], warnings, notes)

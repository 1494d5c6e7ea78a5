"""``schema infer`` and ``schema check``: a draft of a table's public schema, and what it misses."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from marginalsyn.operations.drafting import (
    Drafting,
    Separated,
    repeats_caution,
    verdicts,
    with_unit_asked,
)
from marginalsyn.operations.groups import OfPersons, Writing, named
from marginalsyn.operations.operation import (
    PYTHON,
    Columns,
    Operation,
    Result,
    Session,
    argument,
    option,
)

if TYPE_CHECKING:
    from marginalsyn.operations.linked import LinkedInput

TABLE = "The table: a file, a glob in quotes, or a database URL."
STAMP = "not private: for the curator"
# What a check counts of every column.
COUNTS = ("missing", "unparsable", "unseen", "low", "high", "fractional")
# What a check counts of every linked table, and how it is shown.
KEYS = {"rows": "rows", "lost": "without a parent", "shared": "shared keys"}


@dataclass(frozen=True, kw_only=True)
class InferSchema(Writing, Drafting, Operation[Any]):
    """Draft a schema by looking at the rows. The draft is NOT private.

    Its bounds and categories come from the data. Replace them by public knowledge, then set
    "drafted_from_data" to false; until then `generate` refuses the schema. Every column is listed
    with what it is taken for and why; `--kind` and `--keep` change that. A column that identifies
    persons and repeats is pointed out: say `--unit`.
    """

    shell = ("quiet",)
    examples = """
    marginalsyn schema infer people.csv --label ill --out people.schema.json
    # what it took for something else
    marginalsyn schema infer people.csv --kind zip=categorical --keep notes --out people.schema.json
    # linked tables: a folder with a file for each
    marginalsyn schema infer clinic --out clinic.schema.json
    # several rows for a person: the promise will be for persons
    marginalsyn schema infer visits.csv --unit patient_id --max-rows 20 --out visits.schema.json
    """

    data: str = argument(None, TABLE, required=True)
    encoding: Literal["utf-8", "latin-1", "cp1252", "utf-16"] | None = option(
        None, "The encoding of a text file. [default=the one that its bytes show]"
    )

    def run(self, session: Session = PYTHON) -> Result[Any]:
        """Read the rows, and write the draft."""
        from marginalsyn.drafting.draft import draft_schema
        from marginalsyn.operations.linked_draft import holds_several
        from marginalsyn.operations.origins import PASSWORD, hides_password, shown_name, with_unit
        from marginalsyn.table.schema import Schema

        self.check_new()
        if holds_several(self.data):
            return self._infer_linked(session)
        # Wrong options show without any rows.
        with_unit(Schema.from_domain({"_": 2}), named(self))
        name = shown_name(self.data)
        with session.progress(None) as progress:
            progress.report("read", text=name)
            draft = draft_schema(
                self.data,
                self.label,
                sep=self.sep,
                kinds=self.kinds or {},
                keep=self.keep,
                encoding=self.encoding,
                progress=progress,
            )
        schema = with_unit_asked(named(self), draft.schema, draft)
        warnings = [draft.schema.warning or ""]
        if self.unit is None:
            warnings += repeats_caution(draft.repeats)
        notes = []
        if self.out is not None:
            notes = [
                "another kind for a column: --kind NAME=KIND, or --keep NAME",
                f"next: edit {self.out}, then: marginalsyn schema check {name} {self.out}",
            ]
            if hides_password(self.data):
                notes.append(f"the password is left out here: {PASSWORD}")
        text = [self.put(schema.to_json())]
        session.say(verdicts(draft))
        return Result(schema, text=text, warnings=warnings, notes=notes)

    def _infer_linked(self, session: Session) -> Result[Any]:
        """Draft the schema of the tables in a folder."""
        from marginalsyn.operations.linked_draft import draft_linked
        from marginalsyn.table.schema import DRAFT_WARNING

        with session.progress(None) as progress:
            progress.report("read", text=self.data)
            draft = draft_linked(self.data, sep=self.sep)
        text = [self.put(draft.tree.to_json())]
        for table in draft.tree.tables:
            link = f"{table.link} of {table.parent}"
            about = link if table.parent else "the root: its rows are persons"
            order = f", in the order of {table.order}" if table.order else ""
            session.say(f"{table.name}: {about}{order}; {len(table.columns)} columns")
        note = (
            "max_children is a public number that you know of such tables: it was not read off "
            "the rows"
        )
        return Result(draft.tree, None, text, [*draft.remarks, DRAFT_WARNING], [note])


@dataclass(frozen=True, kw_only=True)
class CheckSchema(Separated, OfPersons, Operation[Any]):
    """Count the values that a schema would clip, map to OTHER or treat as missing.

    With a unit of privacy it counts persons and the rows that are left out; without one it points
    out columns that seem to identify persons and repeat. Of linked tables it counts rows without
    a parent and keys that several rows share. The counts are exact and so not private: they are for
    the curator alone. The exit code is 1 if the columns do not fit.
    """

    shell = ("as_json",)
    json_alone = True
    examples = """
    marginalsyn schema check people.csv people.schema.json
    """

    data: str = argument(None, TABLE, required=True)
    schema: str | Path = argument(None, "The schema file.", required=True)

    def run(self, session: Session = PYTHON) -> Result[Any]:
        """Read the rows, and count."""
        from marginalsyn.drafting.check import check_data, layout_problems
        from marginalsyn.drafting.person_columns import check_unit, find_person_columns
        from marginalsyn.operations.linked import find_linked
        from marginalsyn.operations.origins import with_unit
        from marginalsyn.sources.source import open_source
        from marginalsyn.table.schema import Schema

        source = named(self)
        tables = find_linked(source)
        if tables is not None:
            return _check_keys(tables)
        schema = with_unit(Schema.read(self.schema), source)
        problems = layout_problems(open_source(self.data, sep=self.sep).columns, schema)
        checks, persons, repeats = [], None, []
        if not problems:
            checks = check_data(self.data, schema, sep=self.sep)
            if schema.unit is not None:
                persons = check_unit(self.data, schema, sep=self.sep)
            elif self.unit is None:
                repeats = find_person_columns(self.data, sep=self.sep, encoding=schema.encoding)
        data = {
            "stamp": STAMP,
            "problems": problems,
            "rows": checks[0].rows if checks else None,
            "unit": asdict(persons) if persons else None,
            "repeats": [asdict(one) for one in repeats],
            "columns": {
                check.name: {
                    **{name: getattr(check, name) for name in COUNTS},
                    "notes": check.notes(),
                }
                for check in checks
            },
        }
        text: list[str | Columns] = [*problems]
        warnings = []
        if checks:
            lines = [
                ("", "", note) if number else (check.name, check.column.kind, note)
                for check in checks
                for number, note in enumerate(check.notes() or ["none"])
            ]
            text.append(
                Columns(("column", "kind", "values that do not come through as they are"), lines)
            )
            counted = f"exact counts of {checks[0].rows:,} rows: not private, for the curator"
            warnings = [counted, *repeats_caution(repeats)]
        if persons is not None and schema.unit is not None:
            text.append(
                f"{schema.unit.text}: {persons.persons:,} persons with {persons.rows:,} rows, "
                f"of which {persons.beyond:,} are beyond the bound and not counted; "
                f"{persons.nobody:,} rows belong to nobody and are left out"
            )
        return Result(data, data, text, warnings, code=1 if problems else 0)


def _check_keys(source: LinkedInput) -> Result[Any]:
    """Count, for the curator alone, rows without a parent and keys that several rows share."""
    found = source.open().unprotected("check keys").keys()
    rows = [(name, *(sums.get(one, "") for one in KEYS)) for name, sums in found.items()]
    warnings = []
    for table in source.tree.tables:
        shared = found[table.name].get("shared")
        if shared and table.parent and source.tree.children(table.name):
            warnings.append(
                f"{shared:,} values of {table.key} stand under several rows of {table.parent}: "
                "what is under them belongs to all of these. If it starts again at 1 for each, "
                "write both keys into one column"
            )
        elif shared and not table.parent and not table.rows_of:
            warnings.append(f"of the rows of {table.name} with the same {table.key} one is counted")
    warnings.append("exact counts of keys: not private, for the curator")
    head = ("table", *KEYS.values())
    data = {"stamp": STAMP, "tables": found}
    return Result(data, data, [Columns(head, rows, right=head[1:])], warnings)

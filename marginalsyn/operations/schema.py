"""``schema infer`` and ``schema check``: a draft of a table's public schema, and what it misses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from marginalsyn.errors import SchemaError
from marginalsyn.operations.drafting import (
    Drafting,
    asked_of,
    repeats_caution,
    verdicts,
    verdicts_of_linked,
    with_unit_asked,
)
from marginalsyn.operations.groups import OfPersons, Writing, named, separator
from marginalsyn.operations.operation import (
    PYTHON,
    Columns,
    Operation,
    Result,
    Session,
    argument,
    option,
)
from marginalsyn.operations.origins import PASSWORD, hides_password, shown_name, with_unit

if TYPE_CHECKING:
    from marginalsyn.drafting.check import ColumnCheck
    from marginalsyn.operations.linked import LinkedInput
    from marginalsyn.people.tree import LinkedSchema, LinkedTable

TABLE = "The table: a file, a glob in quotes, or a database URL."
STAMP = "not private: for the curator"
# What a check counts of every column.
COUNTS = ("missing", "unparsable", "unseen", "low", "high", "fractional")
HEAD = ("column", "kind", "values that do not come through as they are")
# What a check counts of the keys of every linked table, how it is shown, and what comes of it.
KEYS = {
    "rows": "rows",
    "unlinked": "no link",
    "orphans": "orphans",
    "beyond": "beyond max_children",
    "keyless": "no key",
    "double": "double keys",
    "shared": "under several parents",
}


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
        from marginalsyn.drafting.check import propose_rules
        from marginalsyn.drafting.draft import draft_schema
        from marginalsyn.drafting.linked_draft import holds_several, table_of
        from marginalsyn.table.schema import Schema

        self.check_new()
        if holds_several(self.data):
            return self._infer_linked(session)
        data = table_of(self.data)
        # Wrong options show without any rows.
        with_unit(Schema.from_domain({"_": 2}), self)
        name = shown_name(data)
        with session.progress(None) as progress:
            progress.report("read", text=name)
            draft = draft_schema(
                data, sep=self.sep, encoding=self.encoding, progress=progress, **asked_of(self)
            )
        schema = with_unit_asked(self, draft.schema, draft)
        proposed = propose_rules(data, draft.schema, sep=self.sep)
        schema = schema.model_copy(update={"proposed_rules": proposed})
        warnings = [draft.schema.warning or ""]
        if self.unit is None:
            warnings += repeats_caution(draft.repeats)
        notes = []
        if proposed:
            notes.append(
                f"rules that hold in these rows (proposed_rules): {len(proposed)}. Move those that "
                "are public knowledge to rules, and delete the rest"
            )
        if self.out is not None:
            notes += [
                "another kind for a column: --kind NAME=KIND, or --keep NAME",
                f"next: edit {self.out}, then: marginalsyn schema check {name} {self.out}",
            ]
            if hides_password(data):
                notes.append(f"the password is left out here: {PASSWORD}")
        text = [self.put(schema.to_json())]
        session.say(verdicts(draft))
        return Result(schema, text=text, warnings=warnings, notes=notes)

    def _infer_linked(self, session: Session) -> Result[Any]:
        """Draft the schema of the tables in a folder."""
        from marginalsyn.drafting.linked_draft import draft_linked
        from marginalsyn.table.schema import DRAFT_WARNING

        with session.progress(None) as progress:
            progress.report("read", text=self.data)
            draft = draft_linked(self.data, sep=self.sep, **asked_of(self))
        text = [self.put(draft.tree.to_json())]
        for block in verdicts_of_linked(draft):
            session.say(block)
        note = (
            "max_children is a public number that you know of such tables: it was not read off "
            "the rows"
        )
        return Result(draft.tree, None, text, [*draft.remarks, DRAFT_WARNING], [note])


@dataclass(frozen=True, kw_only=True)
class CheckSchema(OfPersons, Operation[Any]):
    """Count the values that a schema would clip, map to OTHER or treat as missing.

    With a unit of privacy it counts persons and the rows that are left out; without one it points
    out columns that seem to identify persons and repeat. Linked tables are checked one by one; it
    also counts orphans, missing and double keys and rows beyond max_children, and says what comes
    of them. The counts are exact and so not private: they are for the curator alone. The exit code
    is 1 if the columns do not fit.
    """

    shell = ("as_json",)
    json_alone = True
    examples = """
    marginalsyn schema check people.csv people.schema.json
    # linked tables: orphans and double keys, too
    marginalsyn schema check clinic clinic.schema.json
    """

    sep: str | None = separator()
    data: str = argument(None, TABLE, required=True)
    schema: str | Path = argument(None, "The schema file.", required=True)

    def run(self, session: Session = PYTHON) -> Result[Any]:
        """Read the rows, and count."""
        from marginalsyn.drafting.check import check_data, layout_problems, rule_counts
        from marginalsyn.drafting.person_columns import check_unit, find_person_columns
        from marginalsyn.graphical.estimation import excluded_values
        from marginalsyn.operations.linked import find_linked
        from marginalsyn.sources.source import open_source
        from marginalsyn.table.schema import Schema

        tables = find_linked(named(self))
        if tables is not None:
            return _check_linked(tables)
        schema = with_unit(Schema.read(self.schema), self)
        table = open_source(self.data, sep=self.sep, **schema.reading)
        problems = layout_problems(table.columns, schema)
        checks, persons, repeats = [], None, []
        broken = {}
        if not problems:
            broken = rule_counts(table, schema)
            checks = check_data(table, schema)
            if schema.unit is not None:
                persons = check_unit(table, schema)
            elif self.unit is None:
                repeats = find_person_columns(table)
        data = {
            "stamp": STAMP,
            "problems": problems,
            "rows": checks[0].rows if checks else None,
            "unit": asdict(persons) if persons else None,
            "repeats": [asdict(one) for one in repeats],
            "columns": _counts(checks),
            **({"rules": broken} if broken else {}),
        }
        text: list[str | Columns] = [*problems]
        warnings = excluded_values(schema)
        if checks:
            text.append(Columns(HEAD, list(_notes(checks))))
            counted = f"exact counts of {checks[0].rows:,} rows: not private, for the curator"
            warnings += [counted, *repeats_caution(repeats)]
        if broken:
            text += ["", Columns(("rule", "rows that break it"), [*broken.items()])]
        if persons is not None and schema.unit is not None:
            text.append(
                f"{schema.unit.text}: {persons.persons:,} persons with {persons.rows:,} rows, "
                f"of which {persons.beyond:,} are beyond the bound and not counted; "
                f"{persons.nobody:,} rows belong to nobody and are left out"
            )
        return Result(data, data, text, warnings, code=1 if problems else 0)


def _counts(checks: Sequence[ColumnCheck]) -> dict[str, Any]:
    """What a check found of every column, as JSON values."""
    return {
        check.name: {**{name: getattr(check, name) for name in COUNTS}, "notes": check.notes()}
        for check in checks
    }


def _notes(checks: Sequence[ColumnCheck]) -> Iterator[tuple[str, str, str]]:
    """The lines of :data:`HEAD`."""
    for check in checks:
        for number, note in enumerate(check.notes() or ["none"]):
            yield ("", "", note) if number else (check.name, check.column.kind, note)


def _check_linked(source: LinkedInput) -> Result[Any]:
    """The same of every table, and what is odd about the keys that link them."""
    from marginalsyn.drafting.check import check_data
    from marginalsyn.graphical.estimation import excluded_values
    from marginalsyn.people.views import ruled_schemas
    from marginalsyn.release.linked import broken_in

    try:
        view = source.open().unprotected("check a schema")
    except SchemaError as error:
        data = {"stamp": STAMP, "problems": [str(error)], "tables": {}}
        return Result(data, data, [str(error)], code=1)
    tables = source.schema.tables
    described = [(t.name, t.schema) for t in tables if t.schema is not None]
    checks = {name: check_data(view.rows(name), schema) for name, schema in described}
    found = view.keys()
    lines = [
        ("" if number else name, *line)
        for name, own in checks.items()
        for number, line in enumerate(_notes(own))
    ]
    rows = [(name, *(sums.get(one, "") for one in KEYS)) for name, sums in found.items()]
    head = ("table", *KEYS.values())
    text = [Columns(("table", *HEAD), lines), "", Columns(head, rows, right=head[1:])]
    frames = view.frames() if ruled_schemas(source.schema) else {}
    broken = {t.name: broken_in(source.schema, t, frames) for t in tables if frames}
    if rules := [line for own in broken.values() for line in own.items()]:
        text += ["", Columns(("rule", "rows that break it"), rules)]
    warnings = [line for table in tables for line in _odd_keys(source.schema, table, found)]
    warnings += excluded_values(source.schema)
    total = sum(sums["rows"] for sums in found.values())
    warnings.append(f"exact counts of {total:,} rows: not private, for the curator")
    data = {
        "stamp": STAMP,
        "problems": [],
        "unit": source.schema.family.text,
        "tables": {
            name: {
                **sums,
                "columns": _counts(checks.get(name, ())),
                **({"rules": broken[name]} if broken.get(name) else {}),
            }
            for name, sums in found.items()
        },
    }
    return Result(data, data, text, warnings)


def _odd_keys(
    tree: LinkedSchema, table: LinkedTable, found: Mapping[str, Mapping[str, int]]
) -> Iterator[str]:
    """What comes of rows of a table whose keys are odd, a sentence for each kind of them."""
    counts, parent, below = found[table.name], table.parent, tree.children(table.name)
    lines = {
        "unlinked": f"rows without {table.link or table.key} ({{}}) are left out: they belong to "
        "nobody",
        "orphans": f"orphans ({{}}) are left out: no row of {parent} that belongs to a person has "
        f"their {table.link}",
        "beyond": f"rows beyond max_children ({{}}) are not counted: at most {table.max_children} "
        f"rows of one row of {parent} are",
    }
    if below:
        lines["keyless"] = f"rows without {table.key} ({{}}): no other rows can belong to them"
    if parent is None and not table.rows_of:
        lines["double"] = (
            f"values of {table.key} in several rows ({{}}): one of these rows is counted, and what "
            "is linked to them belongs to one person"
        )
    if parent and below:
        lines["shared"] = (
            f"values of {table.key} under several rows of {parent} ({{}}): what is linked to them "
            "belongs to all of these. If it starts again at 1 for each, write both keys into one "
            "column"
        )
    for what, text in lines.items():
        if counts.get(what):
            yield f"{table.name}: {text.format(f'{counts[what]:,}')}"

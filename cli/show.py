"""``marginalsyn show``: what a release is, who may use it how, and what it cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from marginalsyn.cli import group, linked, options, screen
from marginalsyn.cli.inputs import read_release, release_path

if TYPE_CHECKING:
    from marginalsyn.release.folder import Release
    from marginalsyn.release.statement import Statement
    from marginalsyn.table.schema import AnyColumn


@group.command(
    examples="""
    # the last release made here
    marginalsyn show
    marginalsyn show release --json
    """,
)
@options.release
@options.as_json
def show(release: Path | None, as_json: bool) -> None:
    """Describe a release: rows, columns, guarantee, and what the budget was spent on."""
    from marginalsyn.release.linked import LinkedRelease, is_linked_release

    path = release_path(release)
    if is_linked_release(path):
        linked.show(LinkedRelease.read(path), as_json)
        return
    found = read_release(release)
    if as_json:
        screen.write_json(summary(found))
        return
    _write(found)


def summary(release: Release) -> dict[str, Any]:
    """The facts that ``show --json`` prints."""
    statement = release.statement
    weights = release.weights()
    return {
        "release": str(release.path),
        "rows": len(release.frame()),
        "columns": [column.model_dump(mode="json") for column in release.schema.columns],
        "weights": [] if weights is None else list(weights.columns),
        "can_sample": "model.json" in statement.files,
        "statement": statement.model_dump(mode="json"),
    }


def _write(release: Release) -> None:
    from marginalsyn.release.derivation import whose_words

    statement, schema = release.statement, release.schema
    weights = release.weights()
    facts: list[tuple[str, object]] = [
        ("Release", release.path),
        ("Table", schema.title or None),
        ("Rows", f"{len(release.frame()):,} synthetic rows by {_maker(statement)}"),
        ("Weights", ", ".join(weights.columns) if weights is not None else "none"),
        ("Guarantee", _guarantee(statement)),
        ("Of the rows", whose_words(statement.notes) if statement.foreign else None),
        ("Protects", statement.unit),
        ("Why", statement.why),
        ("Noise", statement.noise),
        ("Use", _use(statement)),
    ]
    screen.write_facts([(name, value) for name, value in facts if value is not None])
    screen.write("")
    screen.write_table(
        ("column", "kind", "values", "codes", ""),
        [
            (c.name, c.kind, values_of(c), c.size, "label" if c.name == schema.label else "")
            for c in schema.columns
        ],
        right=("codes",),
    )
    write_charges(statement)


def write_charges(statement: Statement) -> None:
    """What the budget was spent on, and the statement's warnings."""
    from marginalsyn.privacy.composition import explain_sum

    screen.write("")
    screen.write_table(
        ("charge", "for", "cost", "guarantee"),
        [(c.mechanism, c.purpose, c.cost, c.guarantee) for c in statement.charges],
    )
    told = explain_sum(statement.charges, statement.target_delta, statement.neighbours)
    if told:
        screen.write_text(told)
    screen.Notes().warn_all(statement.warnings)


def _maker(statement: Statement) -> str:
    """The generator; of adopted rows the tool, and whether they were drawn anew."""
    from marginalsyn.release.derivation import ADOPTED

    told = statement.notes.get(ADOPTED)
    if not statement.foreign or not isinstance(told, dict):
        return statement.generator
    return f"{told.get('tool')}, {told.get('rows')}"


def _guarantee(statement: Statement) -> str:
    if statement.seeded:
        return "none: seeded noise"
    return str(statement.total()) + (", of all but the rows" if statement.foreign else "")


def _use(statement: Statement) -> str:
    if not statement.private:
        return "For research only; do not publish."
    return USE_FOREIGN if statement.foreign else USE


USE_FOREIGN = (
    "The rows are as private as the tool that made them. The weights may be published where the "
    "rows may be."
)
USE = (
    "Everything in the folder may be published. Rows are drawn from a noisy model, not copied. Fit "
    "models on them and read off shares; check what matters on real rows before you rely on it."
)


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.10g}"


def values_of(column: AnyColumn, width: int = 48) -> str:
    """A column's public values in one short line."""
    from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn

    if isinstance(column, IntegerColumn | ContinuousColumn):
        low, high = column.bound(column.lower), column.bound(column.upper)
        told = isinstance(low, str)
        text = f"{low} to {high}" if told else f"{_number(low)} to {_number(high)}"
    else:
        values = [str(value) for value in column.values]
        text = ", ".join(values)
        while len(text) > width and len(values) > 1:
            values.pop()
            text = f"{', '.join(values)} and {len(column.values) - len(values)} more"
    return f"{text}, or missing" if column.nullable else text

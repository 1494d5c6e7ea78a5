"""What a notebook shows of a release."""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginalsyn.evaluation.cards import card, columns_line, stamp_of, statement_figures

if TYPE_CHECKING:
    from marginalsyn.release.folder import Release


def release_card(release: Release) -> str:
    """A release: what its statement and schema say; its rows are not read."""
    statement, schema = release.statement, release.schema
    stamp, warned = stamp_of(statement)
    figures = [*statement_figures(statement), ("columns", columns_line(schema))]
    if schema.label is not None:
        figures.append(("label", schema.label))
    weights = statement.notes.get("weights")
    if isinstance(weights, dict) and weights:
        figures.append(("weights", ", ".join(map(str, weights))))
    figures.append(("files", ", ".join(sorted(statement.files))))
    title = f"Release {release.path.name}" + (f": {schema.title}" if schema.title else "")
    return card(title, stamp, warned=warned, figures=figures, warnings=statement.warnings)

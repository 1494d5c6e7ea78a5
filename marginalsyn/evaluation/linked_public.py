"""A page about a release of linked tables that may be published: from the folder alone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from marginalsyn.evaluation.markup import number
from marginalsyn.evaluation.page import Section, paragraph, render, table
from marginalsyn.evaluation.publication import CLOSED, OPEN
from marginalsyn.people.views import count_name

if TYPE_CHECKING:
    from marginalsyn.release.linked import LinkedRelease


@dataclass(frozen=True)
class LinkedPublication:
    """What may be told of linked tables, and the page made of it."""

    stamp: str
    release: LinkedRelease

    def to_json(self) -> str:
        """The facts, as JSON."""
        statement = self.release.statement
        return json.dumps(
            {
                "stamp": self.stamp,
                "unit": statement.unit,
                "eps": statement.eps,
                "delta": statement.delta,
                "tables": {name: len(frame) for name, frame in self.release.frames().items()},
            },
            indent=1,
        )

    def to_html(self) -> str:
        """One self-contained page."""
        release, statement, tree = self.release, self.release.statement, self.release.tree
        frames = release.frames()
        sections = []
        for place in tree.tables:
            frame = frames[place.name]
            rows = [
                [column.name, column.kind, column.description, number(column.size)]
                for column in place.columns
            ]
            told = f"{len(frame):,} synthetic rows."
            if place.parent:
                held = frames[place.parent]
                told += (
                    f" Rows of {place.parent} have {len(frame) / max(len(held), 1):.3g} of them on "
                    f"average, and at most {place.max_children}; in the schema this is called "
                    f"{count_name(place.name)}."
                )
            body = paragraph(told)
            if rows:
                body += table(["column", "kind", "meaning", "codes"], rows, right=False)
            sections.append(Section(place.name, place.name, body))
        charges = [[c.mechanism, c.purpose, str(c.cost), c.guarantee] for c in statement.charges]
        privacy = (
            paragraph(f"Protected is {statement.unit}.")
            + paragraph(statement.why)
            + table(["charge", "for", "cost", "guarantee"], charges, right=False)
        )
        sections.append(Section("privacy", "Privacy", privacy))
        return render(
            f"Synthetic rows of {tree.title or 'linked private tables'}",
            stamp=self.stamp,
            private=self.stamp != OPEN,
            lead=(
                "The rows are synthetic: drawn from noisy statistics of private tables, not "
                "copied. Keys are made anew.",
                "This page was made from the release folder alone, so it tells no more than that "
                "does.",
            ),
            figures=[("eps", number(statement.eps)), ("delta", number(statement.delta))],
            sections=sections,
            foot="Check the folder with: marginalsyn verify",
            warnings=statement.warnings,
        )


def publish_linked(release: LinkedRelease) -> LinkedPublication:
    """What may be told of a release of linked tables, without real rows."""
    return LinkedPublication(OPEN if release.statement.private else CLOSED, release)

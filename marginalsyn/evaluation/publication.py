"""Pages about releases that may be published: made from the release folder and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from marginalsyn.contract import plain
from marginalsyn.errors import MarginalsynError, ReleaseError
from marginalsyn.evaluation.evaluation import choose_reports
from marginalsyn.evaluation.page import render
from marginalsyn.evaluation.view import Item, Page, Section, Table
from marginalsyn.people.views import count_name

if TYPE_CHECKING:
    from marginalsyn.release.folder import Release
    from marginalsyn.release.linked import LinkedRelease

OPEN = "may be published: computed from the release alone"
CLOSED = "not private: the release was made with seeded noise"


@dataclass(frozen=True)
class Publication:
    """The reports' public blocks, and the page made of them.

    Example:
        >>> from marginalsyn import Release
        >>> publish(Release.read("release")).to_html()[:15]
        '<!doctype html>'
    """

    title: str
    stamp: str
    titles: dict[str, str]
    reports: dict[str, Any]

    def to_json(self) -> str:
        """The blocks, as JSON."""
        return json.dumps(vars(self), indent=1, ensure_ascii=False) + "\n"

    def to_html(self) -> str:
        """One self-contained page."""
        chosen, sections = choose_reports(list(self.titles)), []
        for name, block in self.reports.items():
            with _distrusted(name):
                items = list(chosen[name].show_public(block))
            sections.append(Section(name, self.titles[name], items))
        privacy = self.reports.get("privacy", {})
        return _page(
            self.title,
            self.stamp,
            "The rows are synthetic: drawn from noisy statistics of a private table, not copied.",
            {name: privacy[name] for name in ("eps", "delta") if name in privacy},
            sections,
            privacy.get("warnings", ()) if self.stamp != OPEN else (),
        )


def publish(release: Release, *, title: str = "") -> Publication:
    """Collect what every installed report can say of a release without real rows.

    Args:
        release: whole and checked; see :func:`marginalsyn.certificates.verify`.
        title: of the page.
    """
    found = {}
    chosen = choose_reports(None)
    for name, report in chosen.items():
        with _distrusted(name):
            block = report.publish(release)
        if block is not None:
            found[name] = plain(block)
    table = release.schema.title or "a private table"
    return Publication(
        title=title or f"Synthetic rows of {table}",
        stamp=OPEN if release.statement.private else CLOSED,
        titles={name: chosen[name].title for name in found},
        reports=found,
    )


@contextmanager
def _distrusted(name: str) -> Iterator[None]:
    """Blame the release, which may come from anyone, for what a report cannot read."""
    try:
        yield
    except MarginalsynError:
        raise
    except Exception as error:
        raise ReleaseError(
            f"release must be as marginalsyn wrote it: the report '{name}' cannot read it "
            f"({type(error).__name__})"
        ) from error


@dataclass(frozen=True)
class LinkedPublication:
    """What may be published about linked tables, and the page made of it."""

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
        release, statement = self.release, self.release.statement
        charges = [[c.mechanism, c.purpose, str(c.cost), c.guarantee] for c in statement.charges]
        privacy: list[Item] = [
            f"Protected is {statement.unit}.",
            statement.why,
            Table(("charge", "for", "cost", "guarantee"), charges, numbers=False),
        ]
        return _page(
            f"Synthetic rows of {release.tree.title or 'linked private tables'}",
            self.stamp,
            "The rows are synthetic: drawn from noisy statistics of private tables, not copied. "
            "Keys are new.",
            {"eps": statement.eps, "delta": statement.delta},
            [*self._tables(), Section("privacy", "Privacy", privacy)],
            statement.warnings,
        )

    def _tables(self) -> Iterator[Section]:
        """A section for each table: its rows and its columns."""
        frames = self.release.frames()
        for table in self.release.tree.tables:
            rows = len(frames[table.name])
            text = f"{rows:,} synthetic rows."
            if table.parent:
                mean = rows / max(len(frames[table.parent]), 1)
                text += (
                    f" Rows of {table.parent} have {mean:.3g} of them on average, and at most "
                    f"{table.max_children}; in the schema this is called {count_name(table.name)}."
                )
            columns = [[c.name, c.kind, c.description, c.size] for c in table.columns]
            head = ("column", "kind", "meaning", "codes")
            shown: list[Item] = [text]
            if columns:
                shown.append(Table(head, columns, numbers=False))
            yield Section(table.name, table.name, shown)


def publish_linked(release: LinkedRelease) -> LinkedPublication:
    """What may be published about a release of linked tables, without real rows."""
    return LinkedPublication(OPEN if release.statement.private else CLOSED, release)


def _page(
    title: str,
    stamp: str,
    origin: str,
    figures: Mapping[str, Any],
    sections: Sequence[Section],
    warnings: Sequence[str],
) -> str:
    page = Page(
        title=title,
        stamp=stamp,
        private=stamp != OPEN,
        lead=[
            origin,
            "This page was made from the release folder alone, so it says no more than that does.",
        ],
        figures=figures,
        sections=sections,
        foot="Check the folder with: marginalsyn verify",
        warnings=warnings,
    )
    return render(page)

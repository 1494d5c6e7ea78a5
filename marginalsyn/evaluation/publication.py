"""Pages about releases that may be published: made from the release folder and nothing else."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from marginalsyn.contract import plain
from marginalsyn.errors import MarginalsynError, ReleaseError
from marginalsyn.evaluation.evaluation import choose_reports
from marginalsyn.evaluation.page import CLOSED, OPEN, render
from marginalsyn.evaluation.view import Page, Section
from marginalsyn.release.linked import LinkedRelease
from marginalsyn.release.linked_table import TableRelease

if TYPE_CHECKING:
    from marginalsyn.release.folder import Release


@dataclass(frozen=True)
class Publication:
    """The reports' public blocks, and the page made of them.

    Attributes:
        title: of the page.
        stamp: whether it may be published.
        titles: the reports' section titles.
        reports: their blocks.
        linked: of linked tables, the blocks of those below the root, by table.

    Example:
        >>> from marginalsyn import Release
        >>> publish(Release.read("release")).to_html()[:15]
        '<!doctype html>'
    """

    title: str
    stamp: str
    titles: dict[str, str]
    reports: dict[str, Any]
    linked: dict[str, dict[str, Any]] = field(default_factory=dict)

    def to_json(self) -> str:
        """The blocks, as JSON."""
        blocks = {name: value for name, value in vars(self).items() if name != "linked" or value}
        return json.dumps(blocks, indent=1, ensure_ascii=False) + "\n"

    def to_html(self) -> str:
        """One self-contained page."""
        chosen, sections = choose_reports(list(self.titles)), []
        shown = [("", self.reports), *self.linked.items()]
        for table, name, block in ((t, n, b) for t, blocks in shown for n, b in blocks.items()):
            with _distrusted(name):
                items = list(chosen[name].show_public(block))
            title = f"{table}: {self.titles[name]}" if table else self.titles[name]
            sections.append(Section(f"{table}-{name}" if table else name, title, items))
        privacy = self.reports.get("privacy", {})
        kind, keys = (
            ("private tables", " Keys are new.") if self.linked else ("a private table", "")
        )
        page = Page(
            title=self.title,
            stamp=self.stamp,
            private=self.stamp != OPEN,
            lead=[
                f"The rows are synthetic: drawn from noisy statistics of {kind}, not copied.{keys}",
                "This page was made from the release folder alone, so it says no more than that "
                "does.",
            ],
            figures={name: privacy[name] for name in ("eps", "delta") if name in privacy},
            sections=sections,
            foot="Check the folder with: marginalsyn verify",
            warnings=privacy.get("warnings", ()) if self.stamp != OPEN else (),
        )
        return render(page)


def publish(release: Release | LinkedRelease, *, title: str = "") -> Publication:
    """Collect what every installed report can say of a release without real rows.

    Args:
        release: whole and checked; see :func:`marginalsyn.certificates.verify`.
        title: of the page.
    """
    chosen = choose_reports(None)

    def blocks(one: Release, scopes: Collection[str]) -> dict[str, Any]:
        found = {}
        for name, report in chosen.items():
            if report.scope in scopes:
                with _distrusted(name):
                    block = report.publish(one)
                if block is not None:
                    found[name] = plain(block)
        return found

    linked = {}
    if isinstance(release, LinkedRelease):
        tree, table = release.tree, release.tree.title or "linked private tables"
        below = [TableRelease.of(release, one.name) for one in tree.tables[1:] if one.columns]
        linked = {one.table: blocks(one, {"table"}) for one in below}
        found = blocks(TableRelease.of(release), {"table", "release"})
    else:
        table = release.schema.title or "a private table"
        found = blocks(release, {"table", "release", "persons"})
    return Publication(
        title=title or f"Synthetic rows of {table}",
        stamp=OPEN if release.statement.private else CLOSED,
        titles={name: chosen[name].title for name in found},
        reports=found,
        linked=linked,
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

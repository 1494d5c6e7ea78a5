"""A page about a release that may be published: made from the release folder and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from marginalsyn.contract import plain
from marginalsyn.errors import MarginalsynError, ReleaseError
from marginalsyn.evaluation.charts import number
from marginalsyn.evaluation.evaluation import choose_reports
from marginalsyn.evaluation.page import Section, render
from marginalsyn.release.folder import Release

OPEN = "may be published: computed from the release alone"
CLOSED = "not private: the release was made with seeded noise"


@dataclass(frozen=True)
class Publication:
    """The reports' public blocks, and the page made of them.

    Example:
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
        chosen = choose_reports(list(self.titles))
        sections = []
        for name, block in self.reports.items():
            with _distrusted(name):
                html = chosen[name].public_html(block)
            sections.append(Section(name, self.titles[name], html))
        privacy = self.reports.get("privacy", {})
        lead = (
            "The rows are synthetic: drawn from noisy statistics of a private table, not copied.",
            "This page was made from the release folder alone, so it tells no more than that does.",
        )
        figures = [(name, number(privacy[name])) for name in ("eps", "delta") if name in privacy]
        return render(
            self.title,
            stamp=self.stamp,
            private=self.stamp != OPEN,
            lead=lead,
            figures=figures,
            sections=sections,
            foot="Check the folder with: marginalsyn verify",
            warnings=privacy.get("warnings", ()) if self.stamp != OPEN else (),
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

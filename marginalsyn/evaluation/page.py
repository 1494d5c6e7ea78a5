"""One self-contained HTML page: no script, no network, light and dark, wide and narrow.

Its parts are filled in from ``templates/``; what they return is markup, and is not escaped again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from marginalsyn.evaluation.markup import fill, number, part

# Tables with more rows than that are folded, so that a page of many releases can be read.
LONG = 16


@dataclass(frozen=True)
class Section:
    """One part of a page; ``html`` is trusted, ``title`` is not."""

    name: str
    title: str
    html: str


def render(
    title: str,
    *,
    stamp: str,
    private: bool,
    lead: Sequence[str],
    figures: Sequence[tuple[str, str]],
    sections: Sequence[Section],
    foot: str,
    warnings: Sequence[str] = (),
    first: str = "",
) -> str:
    """Write the page.

    Args:
        title: of the page.
        stamp: who may see it.
        private: True marks it as not to be published.
        lead: sentences before everything else.
        figures: a few names and values to be seen first.
        sections: in order.
        foot: small print.
        warnings: lines that must not be missed.
        first: markup before all of these: the verdict.

    Returns:
        The text of an HTML document.

    Example:
        >>> page = render("x", stamp="y", private=True, lead=[], figures=[], sections=[], foot="")
        >>> page.startswith("<!doctype html>"), "http" in page
        (True, False)
    """
    return fill(
        "page.html",
        title=title,
        stamp=stamp,
        private=private,
        lead=lead,
        warnings=warnings,
        first=first,
        figures=figures,
        sections=sections,
        foot=foot,
    )


def table(
    head: Sequence[str], rows: Iterable[Sequence[object]], *, right: bool = True, caption: str = ""
) -> str:
    """A table: the first column names the row, the others are numbers unless ``right`` is off."""
    return fill("table.html", head=head, rows=list(rows), right=right, caption=caption)


def long_table(
    summary: str, head: Sequence[str], rows: Sequence[Sequence[object]], *, right: bool = True
) -> str:
    """A table that is folded away under its summary where it has many rows."""
    drawn = table(head, rows, right=right)
    return details(f"{summary} ({len(rows)} rows)", drawn) if len(rows) > LONG else drawn


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph of plain text; ``kind`` is a class: ``note`` or ``warning``."""
    return part("paragraph", text, kind)


def figure(chart: str, caption: str, *, large: bool = False) -> str:
    """A chart with its caption; a large one scrolls where there is little room."""
    return part("figure", chart, caption, large) if chart else ""


def grid(items: Iterable[str], kind: str = "grid") -> str:
    """Things side by side where there is room."""
    return part("grid", list(items), kind)


def block(html: str) -> str:
    """Things that belong together, as one item of a grid."""
    return part("block", html)


def heading(text: str) -> str:
    """A heading inside a section."""
    return part("heading", text)


def details(summary: str, html: str) -> str:
    """Something to be opened on demand."""
    return part("details", summary, html)


def with_error(mean: float | None, se: float | None) -> str:
    """A value with its standard error."""
    if mean is None or se is None or se == 0:
        return number(mean)
    return f"{number(mean)} ± {number(se)}"

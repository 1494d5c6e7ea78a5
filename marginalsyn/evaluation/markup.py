"""The templates of the pages, filled in: everything is escaped but what a template calls safe."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment


def fill(template: str, **values: Any) -> str:
    """A file of ``templates/`` with its values.

    Example:
        >>> cells = {"head": ["a < b"], "rows": [], "right": True, "caption": ""}
        >>> "a &lt; b" in fill("table.html", **cells)
        True
    """
    return _environment().get_template(template).render(values)


def part(name: str, *values: Any) -> str:
    """One of the small parts that ``parts.html`` defines."""
    return str(getattr(_environment().get_template("parts.html").module, name)(*values)).strip()


def number(value: object) -> str:
    """A number as the page writes it: whole ones in full, others with three digits.

    Example:
        >>> number(32561), number(0.012345), number(None)
        ('32,561', '0.0123', 'n/a')
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "n/a"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        if value == 0:
            return "0"
        if abs(value) >= 1000:
            return f"{value:,.0f}"
        return f"{value:.1e}" if abs(value) < 1e-4 else f"{value:.3g}"
    return str(value)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    found = Environment(
        loader=PackageLoader("marginalsyn.evaluation"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "number": number,
        "px": _px,
        "short": _short,
        "unbroken": _unbroken,
        "whole": _whole,
    }
    return found


def _px(value: float) -> str:
    """A coordinate."""
    return f"{value:.1f}"


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _unbroken(text: str) -> str:
    """A narrow page must not break a line inside 1e-9."""
    return text.replace("e-", "e\N{NON-BREAKING HYPHEN}") if text[:1].isdigit() else text


def _whole(text: str) -> str:
    """Nor inside "two-way"."""
    return text.replace("-way", "\N{NON-BREAKING HYPHEN}way")

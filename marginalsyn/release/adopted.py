"""Rows that another tool made: what a statement says about their guarantee."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ADOPTED = "adopted"
"""The entry of a statement's notes that says what was taken over, and what is claimed of it."""
REDRAWN = "drawn here"
AS_WRITTEN = "as the tool wrote them"

_MADE = "The rows were made by another tool: what they give away is outside the guarantee."
_DRAWN = (
    "The rows were drawn here from what another tool gave out: what that gives away is outside the "
    "guarantee."
)


def whose_words(notes: Mapping[str, Any]) -> str:
    """The guarantee that others state of adopted rows, in one sentence that says whose words it is.

    Example:
        >>> whose_words({"adopted": {"tool": "mbi 1.1", "stated": {"eps": 1, "by": "the office"}}})
        'Stated by the office: eps 1. Nothing here has checked it.'
    """
    origin = notes.get(ADOPTED)
    stated = origin.get("stated") if isinstance(origin, dict) else None
    if not isinstance(stated, dict) or not set(stated) - {"by"}:
        return "No guarantee is stated for what was adopted: treat it as unknown."
    parts = [
        f"{name} {value:.6g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in stated.items()
        if name != "by"
    ]
    by = stated.get("by") or (origin or {}).get("tool") or "another tool"
    return f"Stated by {by}: {', '.join(parts)}. Nothing here has checked it."


def outside(notes: Mapping[str, Any]) -> str:
    """The part of a release that the statement's own numbers do not cover."""
    origin = notes.get(ADOPTED)
    if not isinstance(origin, dict):
        return _MADE
    return f"{_DRAWN if origin.get('rows') == REDRAWN else _MADE} {whose_words(notes)}"

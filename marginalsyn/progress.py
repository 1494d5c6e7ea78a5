"""Where long work reports what it is doing: the library never prints."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receives what a mechanism is doing now."""

    def report(self, stage: str, *, fraction: float | None = None, text: str = "") -> None:
        """Tell the stage (``select``, ``measure`` ...), the share done in [0, 1], and one line."""


class Silent:
    """Drops every report."""

    def report(self, stage: str, *, fraction: float | None = None, text: str = "") -> None:
        del stage, fraction, text

"""Persons who have several rows: how a model of persons becomes a table of rows.

May touch: table. Nothing private: it works on what was released.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginalsyn.lazy import faces

if TYPE_CHECKING:
    from marginalsyn.people.drawing import draw_rows, rows_for

__getattr__, __dir__ = faces(__name__)

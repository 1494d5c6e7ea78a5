"""Persons who have several rows, in one table or in linked ones: what is public of them.

May touch: table. Nothing private: it works on what was released.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginalsyn.lazy import faces

if TYPE_CHECKING:
    from marginalsyn.people.drawing import draw_rows, rows_for
    from marginalsyn.people.persons_table import person_columns, persons_frame, persons_schema
    from marginalsyn.people.tree import Family, LinkedSchema, LinkedTable, Lookup
    from marginalsyn.people.tree_file import linked_file
    from marginalsyn.people.views import View, ViewColumn, count_name, own_columns, views_of

__getattr__, __dir__ = faces(__name__)

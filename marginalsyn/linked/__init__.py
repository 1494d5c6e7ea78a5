"""Linked tables and sequences: one budget over all views, rows drawn from the root down.

May touch: host, generators, graphical and below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginalsyn.lazy import faces

if TYPE_CHECKING:
    from marginalsyn.linked.drawing import ForestModel
    from marginalsyn.linked.generating import Plans, generate_linked, plan_views
    from marginalsyn.linked.release import sample_linked

__getattr__, __dir__ = faces(__name__)

"""Steering: changes a release so that it has margins that the user states.

May touch: host, weights, networks, release and below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginalsyn.lazy import faces

if TYPE_CHECKING:
    from marginalsyn.steering.steering import steer

__getattr__, __dir__ = faces(__name__)

"""Adapters: what other tools made becomes a release, and a release takes the forms they read.

May touch: host, generators, graphical, release and below. No private rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginalsyn.lazy import faces

if TYPE_CHECKING:
    from marginalsyn.adapters.formats import FORMATS, Exported, Format, export
    from marginalsyn.adapters.parcel import Parcel, Part, read_parcel

__getattr__, __dir__ = faces(__name__)

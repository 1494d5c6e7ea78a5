"""Adapters: what other tools made becomes a release, and a release takes the forms they read.

May touch: host, generators, graphical, private (to check public rows), release and below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginalsyn.lazy import faces

if TYPE_CHECKING:
    from marginalsyn.adapters.adoption import FOREIGN, Findings, adopt_parcel, adopt_rows, take_rows
    from marginalsyn.adapters.formats import FORMATS, Exported, Format, export
    from marginalsyn.adapters.parcel import Parcel, Part, read_parcel
    from marginalsyn.adapters.redrawing import schema_of

__getattr__, __dir__ = faces(__name__)

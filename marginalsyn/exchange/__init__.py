"""Schemas in the formats of others: read from where people have them, and written back.

May touch: table, errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginalsyn.lazy import faces

if TYPE_CHECKING:
    from marginalsyn.exchange.nodes import write_yaml
    from marginalsyn.exchange.schemas import READ, WRITTEN, export_schema, import_schema
    from marginalsyn.exchange.web import CSVW_CONTEXT, csvw_column

__getattr__, __dir__ = faces(__name__)

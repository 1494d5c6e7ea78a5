"""Options that say whether a promise is for rows or for persons."""

from __future__ import annotations

from marginalsyn.cli import options
from marginalsyn.cli.bundles import bundle

unit_options = bundle(options.Source, "named", only=("unit", "max_rows", "order"))
unit_options_to_buy = bundle(options.Source, "named", only=("unit", "order"))

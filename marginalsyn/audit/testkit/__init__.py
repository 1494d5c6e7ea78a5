"""The test kit for authors of plugins: :func:`check_plugin` runs all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginalsyn.lazy import faces

if TYPE_CHECKING:
    from marginalsyn.audit.testkit.plugin import check_plugin, checks_of

__getattr__, __dir__ = faces(__name__)

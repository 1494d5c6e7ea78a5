"""Words that version 0.1 wrote into releases and evaluations: they are read, and written no more.

`tools/ceilings` counts no words in this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# What the sentence on the unit says now, and what it said.
TEXTS = {"are hard to distinguish": "are protected from being told apart"}
# Keys in records of an evaluation, and what they are called now.
KEYS = {"beside": "yardsticks", "told": "text"}


def as_written(text: str) -> str:
    """A sentence of a statement as version 0.1 wrote it."""
    for now, before in TEXTS.items():
        text = text.replace(now, before)
    return text


def with_new_keys(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record whose keys are names of ours, with those that they have now.

    Example:
        >>> with_new_keys({"use": "tables", "beside": {}})
        {'use': 'tables', 'yardsticks': {}}
    """
    return {KEYS.get(key, key): value for key, value in record.items()}

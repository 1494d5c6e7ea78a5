"""The table of options in the guide says what the configs say."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from marginalsyn.registry import GENERATORS, find

PAGE = Path(__file__).parents[2] / "docs" / "generators.md"
ALL = (
    "aim",
    "all-marginals",
    "auto",
    "clique-tree",
    "fixed-marginals",
    "independent",
    "mst",
    "privbayes",
)
ROW = re.compile(r"^\| `(\w+)` \| (\S+) \| ([^|]+) \| [^|]+ \|$", re.MULTILINE)


def test_every_option_stands_in_the_guide_with_its_default() -> None:
    told = set()
    for option, default, methods in ROW.findall(PAGE.read_text(encoding="utf-8")):
        named = re.findall(r"`([a-z-]+)`", methods)
        if methods.startswith("all"):
            named = [name for name in ALL if name not in named]
        told |= {(name, option, default) for name in named}
    true = {
        (name, field.name, "none" if field.default is None else str(field.default))
        for name in ALL
        for field in dataclasses.fields(find(GENERATORS, name))
    }
    assert told == true

"""How many files and rooms one command passes on its way: the fewer changes, the easier to follow.

    python benchmarks/rooms.py                       # generate --eps 2, weight and evaluate
    python benchmarks/rooms.py generate --eps 2      # any one command
    python benchmarks/rooms.py --pairs               # and which rooms go back and forth the most

Every function of the package is noted when it is called for the first time. A *change* is a step
from one such function to the next that lies in another file, or in another room. Imports, which
run the bodies of modules and classes, do not count; neither do functions called again, nor the
comprehensions and generator expressions inside a function. ``--all`` counts those as functions, as
the figures of the first tables did.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import itertools
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import marginalsyn
import marginalsyn.cli
import marginalsyn.plugins

PACKAGE = Path(marginalsyn.__file__).parent
# Where the package's folders lie in a checkout, by the names that they are imported by.
HOMES = {
    PACKAGE: "marginalsyn",
    Path(marginalsyn.cli.__file__ or "").parent: "cli",
    Path(marginalsyn.plugins.__file__ or "").parent: "plugins",
}
COMMANDS = (
    ("generate", "--eps", "2"),
    ("weight", "--method", "beta-noised", "--eps", "0.5"),
    ("evaluate",),
)


def place(code: CodeType) -> tuple[str, str] | None:
    """The file and the room of a function of ours."""
    path = Path(code.co_filename)
    for home, name in HOMES.items():
        if path.is_relative_to(home):
            inside = path.relative_to(home)
            room = inside.parts[0] if name == "marginalsyn" and len(inside.parts) > 1 else name
            return f"{name}/{inside}", room
    return None


def is_function(code: CodeType) -> bool:
    """Whether code is a function: no class's body, no lazy import, not inside an expression."""
    inside = code.co_name.startswith("<") and code.co_name != "<lambda>"
    imports = code.co_name == "__getattr__" or Path(code.co_filename).name == "lazy.py"
    return bool(code.co_flags & inspect.CO_OPTIMIZED) and not inside and not imports


class Walk:
    """The functions of ours in the order of their first calls."""

    def __init__(self, whole: bool = False) -> None:
        self.whole = whole
        self.places: list[tuple[str, str]] = []
        self._seen: set[CodeType] = set()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or code in self._seen:
            return
        self._seen.add(code)
        found = place(code) if self.whole or is_function(code) else None
        if code.co_name == "<module>":
            return
        if found is not None:
            self.places.append(found)

    def line(self) -> str:
        """What a walk came to, as a line of a table."""
        files, rooms = ([each[part] for each in self.places] for part in (0, 1))
        return (
            f"{len(self.places):9} {len(set(files)):6} {changes(files):16} "
            f"{len(set(rooms)):6} {changes(rooms):16}"
        )

    def pairs(self) -> Counter[tuple[str, ...]]:
        """How often the walk steps from one room to another, by the two of them."""
        rooms = [room for _, room in self.places]
        steps = (tuple(sorted(pair)) for pair in itertools.pairwise(rooms))
        return Counter(pair for pair in steps if pair[0] != pair[1])


def changes(names: list[str]) -> int:
    """How often a name differs from the one before."""
    return sum(one != other for one, other in itertools.pairwise(names))


def walk(arguments: tuple[str, ...], whole: bool) -> Walk:
    """Run a command under watch."""
    from marginalsyn.cli.main import cli

    found = Walk(whole)
    threading.setprofile(found)
    sys.setprofile(found)
    try:
        # What the command itself prints is no part of the table.
        with contextlib.redirect_stdout(io.StringIO()):
            cli([*arguments, "--quiet"], standalone_mode=False)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return found


def main() -> None:
    # Numba imports what is installed as ``coverage``, and a script's own folder would come first.
    sys.path = [place for place in sys.path if Path(place) != Path(__file__).parent]
    whole, asked = (
        "--all" in sys.argv,
        tuple(a for a in sys.argv[1:] if a not in ("--all", "--pairs")),
    )
    print(f"{'command':12}{'functions':>9} {'files':>6} {'changes of file':>16} ", end="")
    print(f"{'rooms':>6} {'changes of room':>16}")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for arguments in (asked,) if asked else COMMANDS:
            found = walk(arguments, whole)
            print(f"{arguments[0]:12}{found.line()}", flush=True)
            for (one, other), count in (
                found.pairs().most_common(8) if "--pairs" in sys.argv else ()
            ):
                print(f"    {count:3} {one} and {other}")


if __name__ == "__main__":
    main()

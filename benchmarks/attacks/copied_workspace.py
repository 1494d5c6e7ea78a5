"""Does one charge pay for as many releases as an interrupted run has copies?

A run is interrupted after some of its answers, its folder is copied, and every copy goes on. Each
draws the answers that are lacking with noise of its own, and the ledger, which all copies share,
was charged once. Also: a copy from while the run was going on, resumed after it has ended, or
before. What the copies give out is compared: one that repeats the same answers adds nothing.

    python -m benchmarks.attacks.copied_workspace
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any

from benchmarks.attacks.relation import own_ledgers, run

COPIES = 3
SCHEMA = (
    '{"columns": [{"kind": "integer", "name": "a", "lower": 0, "upper": 9},'
    ' {"kind": "integer", "name": "b", "lower": 0, "upper": 9},'
    ' {"kind": "integer", "name": "c", "lower": 0, "upper": 9}]}'
)
GENERATE = ("generate", "--data", "{data}", "--schema", "{schema}", "--method", "independent")


def answering(number: int, act: Callable[[], Any], command: Callable[[], Any]) -> Any:
    """Run a command that does something once, when its answer of this number was written."""
    from marginalsyn.records.journal import Journal

    before, left = Journal.append, number

    def append(self: Any, answer: Any) -> None:
        nonlocal left
        before(self, answer)
        left -= 1
        if left == 0:
            act()

    Journal.append = append  # type: ignore[method-assign]
    try:
        return command()
    finally:
        Journal.append = before  # type: ignore[method-assign]


def interrupt() -> None:
    raise KeyboardInterrupt


def generate(place: Path) -> Any:
    """The command in the current folder, on the table that all folders share."""
    names = {"data": place / "people.csv", "schema": place / "people.json"}
    args = [part.format(**names) for part in GENERATE]
    return run(*args, "--eps", 1, "--rows", 30, "-q")


def released(folder: Path) -> bytes | None:
    """The rows that a folder gives out after it went on; None where it was refused."""
    with chdir(folder):
        done = run("generate", "--resume", "-q")
    rows = folder / "release" / "measurements.npz"
    return rows.read_bytes() if done.exit_code == 0 and rows.exists() else None


def copies(place: Path) -> set[bytes]:
    """What an interrupted run and its copies give out."""
    home = place / "home"
    home.mkdir()
    with chdir(home):
        done = answering(1, interrupt, lambda: generate(place))
        assert done.exit_code == 130, done.output
    folders = [shutil.copytree(home, place / f"copy-{number}") for number in range(COPIES)]
    found = [released(folder) for folder in (*folders[1:], home, folders[0])]
    return {one for one in found if one is not None}


def snapshot(place: Path) -> set[bytes]:
    """What a run and a copy of it give out that was made while it was going on."""
    home, copy = place / "home", place / "copy"
    home.mkdir()
    with chdir(home):
        done = answering(2, lambda: shutil.copytree(home, copy), lambda: generate(place))
        assert done.exit_code == 0, done.output
    found = [(home / "release" / "measurements.npz").read_bytes(), released(copy)]
    return {one for one in found if one is not None}


def overtaken(place: Path) -> set[bytes]:
    """What a run gives out whose copy went on while it was going on itself."""
    home, copy = place / "home", place / "copy"
    home.mkdir()
    found: list[bytes | None] = []

    def overtake() -> None:
        shutil.copytree(home, copy)
        found.append(released(copy))

    with chdir(home):
        done = answering(2, overtake, lambda: generate(place))
    if done.exit_code == 0:
        found.append((home / "release" / "measurements.npz").read_bytes())
    return {one for one in found if one is not None}


def attack() -> str | None:
    """How many different releases one charge paid for; None where it was one each time."""
    for how in (copies, snapshot, overtaken):
        with tempfile.TemporaryDirectory() as name, own_ledgers(Path(name)):
            place = Path(name).resolve()
            (place / "people.json").write_text(SCHEMA)
            rows = "".join(f"{n % 10},{n % 7},{n % 3}\n" for n in range(400))
            (place / "people.csv").write_text("a,b,c\n" + rows)
            found = how(place)
            assert found, how.__name__
            if len(found) > 1:
                return f"one charge paid for {len(found)} different releases ({how.__name__})"
    return None


if __name__ == "__main__":
    found = attack()
    sys.stdout.write(f"{found or 'one charge paid for one release'}\n")
    sys.exit(found is not None)

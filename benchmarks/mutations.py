"""Deliberate privacy bugs, and the tests that catch them.

Each mutant is one edit of the package that breaks a promise: half the noise, a charge that is not
written, a count in an error message. A few leave a release private and make its rows wrong. The
edit is made in a copy, and a small selection of the tests is run on it, which must fail. A mutant
that survives is a test that is missing.

    python benchmarks/mutations.py                    # all of them, as a table
    python benchmarks/mutations.py half-noise         # some of them
    python benchmarks/mutations.py --list
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

sys.path.insert(0, str(Path(__file__).parent))
from fit_mutants import FITS
from linked_mutants import LINKED
from mutants import MUTANTS as OWN
from mutants import WIDENED, Mutant
from person_mutants import PERSONS
from published_mutants import PUBLISHED

MUTANTS = (*OWN, *PERSONS, *LINKED, *PUBLISHED, *FITS)
ROOT = Path(__file__).parents[1]
FOLDERS = ("marginalsyn", "cli", "plugins", "datasets", "tests", "benchmarks")
ROOMS = ("cli", "plugins", "datasets")
PACKAGE = ("marginalsyn", *ROOMS)


@dataclass(frozen=True)
class Result:
    """What became of a mutant."""

    mutant: Mutant
    caught: bool
    by: tuple[str, ...]
    broken: str = ""


def locate(mutant: Mutant, root: Path = ROOT) -> Path:
    """The mutant's module, in whatever folder of the package it lies now.

    Raises:
        LookupError: no module of that name, or several.
    """
    if (root / mutant.file).exists():
        return root / mutant.file
    name = Path(mutant.file).name
    found = [path for room in PACKAGE for path in sorted((root / room).rglob(name))]
    if len(found) != 1:
        raise LookupError(f"{mutant.name}: {mutant.file} must be one module, found {len(found)}")
    return found[0]


def occurrences(mutant: Mutant, root: Path = ROOT) -> int:
    """How often a mutant's snippet occurs; it must be once."""
    return locate(mutant, root).read_text(encoding="utf-8").count(mutant.old)


@contextmanager
def copied() -> Iterator[Path]:
    """A copy of the checkout, laid out so that it is imported in place of the installed one."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as place:
        copy = Path(place)
        for folder in FOLDERS:
            shutil.copytree(ROOT / folder, copy / folder)
        for file in ("pyproject.toml", "README.md", "constraints.txt"):
            shutil.copy2(ROOT / file, copy / file)
        package = copy / "site" / "marginalsyn"
        package.mkdir(parents=True)
        for path in (copy / "marginalsyn").iterdir():
            (package / path.name).symlink_to(path)
        for room in ROOMS:
            (package / room).symlink_to(copy / room)
        yield copy


def run_tests(copy: Path, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a selection of the tests on the copy."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy / "site"),
        # The folder would come first, in which the rooms are no part of the package.
        "PYTHONSAFEPATH": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    if os.environ.get("PYTEST_XDIST_WORKER") is None:
        command += ["-p", "no:xdist"]
    return subprocess.run(
        [*command, *tests], cwd=copy, env=environment, capture_output=True, text=True, check=False
    )


def try_mutant(mutant: Mutant, copy: Path) -> Result:
    """Make the edit in the copy, run its tests, and undo the edit."""
    file = locate(mutant, copy)
    text, status = file.read_text(encoding="utf-8"), file.stat()
    if text.count(mutant.old) != 1:
        return Result(mutant, False, (), f"its snippet occurs {text.count(mutant.old)} times")
    changed = text.replace(mutant.old, mutant.new)
    file.write_text(changed + (WIDENED if "_widened(" in mutant.new else ""), encoding="utf-8")
    try:
        done = run_tests(copy, mutant.tests)
    finally:
        file.write_text(text, encoding="utf-8")
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    failed = tuple(
        dict.fromkeys(re.findall(r"^FAILED (.+?)(?: - .*)?$", done.stdout, re.MULTILINE))
    )
    broken = "" if done.returncode in (0, 1) else done.stdout[-500:] + done.stderr[-500:]
    return Result(mutant, done.returncode == 1 and bool(failed), failed, broken)


def try_all(mutants: Sequence[Mutant], jobs: int = 1) -> Iterator[Result]:
    """Try mutants, each job in a copy of its own."""
    with ThreadPoolExecutor(jobs) as pool, copies_for(jobs) as copies:

        def one(mutant: Mutant) -> Result:
            copy = copies.get()
            try:
                return try_mutant(mutant, copy)
            finally:
                copies.put(copy)

        yield from pool.map(one, mutants)


@contextmanager
def copies_for(jobs: int) -> Iterator[Queue[Path]]:
    """As many copies as there are jobs."""
    with ExitStack() as stack:
        copies: Queue[Path] = Queue()
        for _ in range(jobs):
            copies.put(stack.enter_context(copied()))
        yield copies


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutants; all by default")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--list", action="store_true", help="name them and leave")
    given = parser.parse_args()
    known = {mutant.name: mutant for mutant in MUTANTS}
    if given.list:
        for mutant in MUTANTS:
            print(f"{mutant.name}: {mutant.breaks}")
        return 0
    unknown = [name for name in given.names if name not in known]
    if unknown:
        parser.error(f"no mutant is called {', '.join(unknown)}")
    chosen = [known[name] for name in given.names] or list(MUTANTS)
    print("| mutant | what it breaks | caught by |\n|---|---|---|", flush=True)
    caught = 0
    for result in try_all(chosen, given.jobs):
        caught += result.caught
        by = result.by[0] if result.by else f"**SURVIVED** {result.broken}"
        print(f"| {result.mutant.name} | {result.mutant.breaks} | {by} |", flush=True)
    print(f"\n{caught} of {len(chosen)} caught")
    return 0 if caught == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())

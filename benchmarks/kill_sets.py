"""Random mutants against two sets of tests: those that stay, and those that may go.

A mutant is tried on the tests that stay first, the quickest first, up to the first that fails. Only
if all of them pass is it tried on the tests that may go: what one of these catches alone would be
lost. All that is needed is imported and collected once; each mutant is a fork of that process, in
which the code of the functions that it changes is replaced. So a mutant takes about a second, and
mutants outside of functions are left out. Tests that start a process of their own do not see it.

    pytest -n 2 --cov --cov-branch --cov-context=test --cov-report= tests   # writes .coverage
    python benchmarks/kill_sets.py .coverage --may-go names.txt --count 100 --seed 28

``names.txt`` has one test function in each line: ``tests/table/test_codec.py::test_dates``. Mutants
are drawn from the lines that one of them covers; all others are caught, or not, as before.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import io
import json
import os
import shutil
import signal
import sys
import time
import types
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import mutations
import random_mutants

QUIET = ["-q", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:faulthandler"]
QUIET += ["-o", "addopts=--import-mode=importlib"]
# Folders that tests read and a mutant's copy does not have.
MORE = ("docs", "tools")
Patch = list[tuple[types.FunctionType, types.CodeType]]


class Seen:
    """A plugin of pytest: what was collected, and what failed."""

    def __init__(self) -> None:
        self.collected: set[str] = set()
        self.failed: list[str] = []

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self.collected = {item.nodeid for item in items}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)


def codes_in(code: types.CodeType, seen: Counter[str]) -> Iterator[tuple[tuple[str, int], object]]:
    """The code of every function in a module, by its name and its number among equal names."""
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            name = constant.co_qualname
            yield (name, seen[name]), constant
            seen[name] += 1
            yield from codes_in(constant, seen)


def functions_of(copy: Path) -> dict[str, list[types.FunctionType]]:
    """The product's functions in this process, by the file that they stand in."""
    found: dict[str, list[types.FunctionType]] = defaultdict(list)
    for one in gc.get_objects():
        if isinstance(one, types.FunctionType) and str(copy) in one.__code__.co_filename:
            file = Path(one.__code__.co_filename).resolve()
            found[str(file.relative_to(copy.resolve()))].append(one)
    return found


def patch_of(
    mutant: random_mutants.RandomMutant, copy: Path, functions: Sequence[types.FunctionType]
) -> Patch:
    """The functions that a mutant changes, each with its new code."""
    text = (copy / mutant.file).read_bytes()
    old, new = (
        dict(codes_in(compile(one, "", "exec", dont_inherit=True), Counter()))
        for one in (text, mutant.apply(text))
    )
    found: Patch = []
    for function in functions:
        was = function.__code__
        for key, before in old.items():
            now = new.get(key)
            if key[0] != was.co_qualname or not isinstance(now, types.CodeType):
                continue
            assert isinstance(before, types.CodeType)
            moved = now.replace(co_firstlineno=before.co_firstlineno)
            if before.co_firstlineno == was.co_firstlineno and moved != before:
                found.append((function, now.replace(co_filename=was.co_filename)))
    return found


def killers(tests: Sequence[str], patch: Patch, seconds: float) -> list[str]:
    """What fails first of these tests in a process with the mutant; "timeout" counts."""
    if not tests:
        return []
    answer, ours = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            for function, code in patch:
                function.__code__ = code
            seen = Seen()
            pytest.main([*QUIET, "-x", "--timeout=60", *tests], plugins=[seen])
            os.write(ours, json.dumps(seen.failed).encode())
        finally:
            os._exit(0)
    os.close(ours)
    end = time.monotonic() + seconds
    while not os.waitpid(child, os.WNOHANG)[0]:
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(answer)
            return ["timeout"]
        time.sleep(0.05)
    with os.fdopen(answer, "rb") as stream:
        text = stream.read()
    return json.loads(text) if text else ["the process died"]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("coverage", type=Path, help="a file of coverage, with contexts")
    parser.add_argument("--may-go", type=Path, required=True, help="a file of test functions")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=150, help="tests that may cover a line")
    parser.add_argument("--seconds", type=float, default=120, help="for the tests of one mutant")
    parser.add_argument("--times", type=Path, help="JSON: the seconds of each test, by its name")
    given = parser.parse_args()
    gone = set(given.may_go.read_text(encoding="utf-8").split())
    times: dict[str, float] = json.loads(given.times.read_text()) if given.times else {}
    covered = {
        file: {
            line: tests
            for line, tests in lines.items()
            if any(test.partition("[")[0] in gone for test in tests)
        }
        for file, lines in random_mutants.covering(given.coverage).items()
    }
    mutants = random_mutants.draw(covered, given.count, given.seed, given.most, [""])
    wanted = [(one, covered[one.file][one.line]) for one in mutants]
    fates: Counter[str] = Counter()
    with mutations.copied() as copy:
        for folder in MORE:
            shutil.copytree(mutations.ROOT / folder, copy / folder)
        os.chdir(copy)
        sys.path[:] = [str(copy / "site"), *(p for p in sys.path if p not in ("", str(Path.cwd())))]
        os.environ.update(PYTHONPATH=str(copy / "site"), PYTHONSAFEPATH="1")
        files = sorted({test.split("::")[0] for _, tests in wanted for test in tests})
        seen = Seen()
        with contextlib.redirect_stdout(io.StringIO()):
            pytest.main([*QUIET, "--collect-only", *files], plugins=[seen])
        for mutant in mutants:  # what is loaded late, too
            name = mutant.file.removesuffix(".py").replace("/", ".")
            importlib.import_module("marginalsyn." + name.removeprefix("marginalsyn."))
        functions = functions_of(copy)
        gc.collect()
        gc.freeze()
        for mutant, tests in wanted:
            patch = patch_of(mutant, copy, functions.get(mutant.file, []))
            here = sorted(tests & seen.collected, key=lambda test: times.get(test, 0.0))
            parts = [
                [t for t in here if (t.partition("[")[0] in gone) is go] for go in (False, True)
            ]
            fate, by = "outside of a function", ""
            if patch:
                fate = "survives"
                for name, part in zip(("caught", "LOST"), parts, strict=True):
                    failed = killers(part, patch, given.seconds)
                    if failed:
                        fate, by = name, failed[0]
                        break
            fates[fate] += 1
            place = f"{mutant.file}:{mutant.line} {mutant.old!r} -> {mutant.new!r}"
            print(f"{place}: {fate} {by}", flush=True)
    print(", ".join(f"{fate}: {count}" for fate, count in sorted(fates.items())))
    return 1 if fates["LOST"] else 0


if __name__ == "__main__":
    sys.exit(main())

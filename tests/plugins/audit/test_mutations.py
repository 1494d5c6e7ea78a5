"""Deliberate privacy bugs: every one of benchmarks/mutations.py must be caught by a test."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]
# So many mutants are tried by one test.
PART = 4


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutations", ROOT / "benchmarks" / "mutations.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutations"] = module
    spec.loader.exec_module(module)
    return module


MUTATIONS = load()


@pytest.mark.parametrize("mutant", MUTATIONS.MUTANTS, ids=lambda mutant: mutant.name)
def test_the_list_does_not_rot(mutant) -> None:
    """Its snippet occurs once, the change compiles, and its tests are there."""
    assert MUTATIONS.occurrences(mutant) == 1
    text = MUTATIONS.locate(mutant).read_text(encoding="utf-8").replace(mutant.old, mutant.new)
    compile(text, mutant.file, "exec")
    for argument in mutant.tests:
        if argument.startswith("tests/"):
            assert (ROOT / argument.partition("::")[0]).exists()


def test_a_module_is_found_in_another_folder_and_missed_loudly() -> None:
    moved = MUTATIONS.Mutant("moved", "", "marginalsyn/elsewhere/candidate_errors.py", "", "", ())
    assert MUTATIONS.locate(moved) == ROOT / "marginalsyn/generators/candidate_errors.py"
    gone = MUTATIONS.Mutant("gone", "", "marginalsyn/no_such_module.py", "", "", ())
    with pytest.raises(LookupError, match="found 0"):
        MUTATIONS.locate(gone)


def test_there_are_many_and_none_twice() -> None:
    names = [mutant.name for mutant in MUTATIONS.MUTANTS]
    assert len(names) == len(set(names)) >= 20


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(0, len(MUTATIONS.MUTANTS), PART))
def test_every_mutant_is_caught(first: int) -> None:
    results = list(MUTATIONS.try_all(MUTATIONS.MUTANTS[first : first + PART]))
    survived = [(r.mutant.name, r.broken) for r in results if not r.caught]
    assert survived == []


@pytest.mark.slow
def test_the_tests_pass_without_a_mutant() -> None:
    """In the copy, too: what catches a mutant is the mutation."""
    harmless = [
        MUTATIONS.Mutant("none", "", mutant.file, mutant.old, mutant.old, mutant.tests)
        for mutant in MUTATIONS.MUTANTS[::9]
        if "_widened" not in mutant.new
    ]
    results = list(MUTATIONS.try_all(harmless))
    assert [r.mutant.file for r in results if r.by or r.broken] == []

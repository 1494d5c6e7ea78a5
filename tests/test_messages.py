"""Messages say what to do: in words of Python to its callers, and nowhere "must not exist yet"."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

import marginalsyn
from marginalsyn import MarginalsynError
from marginalsyn.errors import DataError
from marginalsyn.signatures import python_words
from marginalsyn.sources import databases
from marginalsyn.sources.source import open_source

ROOT = Path(__file__).parents[1]
COMMAND = re.compile(r"`[^`]*`|'marginalsyn [^']*'")


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def texts(*folders: str) -> Iterator[tuple[str, str]]:
    """Every text of the package, with a word for what is filled in, and where it stands."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(parsed(path)):
                if isinstance(node, ast.JoinedStr):
                    parts = [p.value if isinstance(p, ast.Constant) else "X" for p in node.values]
                    yield f"{path}:{node.lineno}", "".join(map(str, parts))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield f"{path}:{node.lineno}", node.value


def test_no_message_of_the_library_names_a_flag_in_python() -> None:
    named = [(place, text) for place, text in texts("marginalsyn") if re.search("--[a-z]", text)]
    assert len(named) > 50
    for place, text in named:
        said = COMMAND.sub("", python_words(text))
        assert not re.search("--[a-z]", said), place


def test_what_is_there_already_is_told_with_what_to_do() -> None:
    for place, text in texts("marginalsyn", "cli", "plugins"):
        assert "must not exist yet" not in text, place
        if "is there already" in text and "(" in text:
            assert "force" in text, place


def test_public_functions_speak_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    functions = [
        name for name in marginalsyn.__all__ if inspect.isfunction(getattr(marginalsyn, name))
    ]
    assert {"generate", "estimate", "evaluate", "impute", "infer_schema", "sample"} <= {*functions}
    for name in functions:
        assert hasattr(getattr(marginalsyn, name), "__wrapped__"), name
    schema = marginalsyn.Schema.from_domain({"a": 2})
    drafted = marginalsyn.Schema(**{**schema.model_dump(), "drafted_from_data": True})
    table = marginalsyn.PrivateTable.open(pd.DataFrame({"a": [0, 1]}), drafted)
    with pytest.raises(MarginalsynError) as refused:
        marginalsyn.generate(
            table,
            marginalsyn.make_config("independent"),
            marginalsyn.Budget(eps=1),
            noise=marginalsyn.make_noise(),
        )
    assert "accept_nonprivate_schema=True" in str(refused.value)
    assert "--" not in str(refused.value)


def test_a_server_that_wants_a_password_is_told_how(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(scheme: str, address: str) -> None:
        raise OSError("connection failed: fe_sendauth: no password supplied")

    monkeypatch.setattr(databases, "connect", fails)
    with pytest.raises(DataError, match="PGPASSWORD"):
        open_source("postgres://me@host/db?table=t")
    with pytest.raises(DataError) as known:
        open_source("postgres://me:secret@host/db?table=t")
    assert "PGPASSWORD" not in str(known.value)
    assert "secret" not in str(known.value)

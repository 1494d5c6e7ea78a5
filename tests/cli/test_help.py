"""Every command has help and examples that parse, and the reference page repeats that help."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import rich_click as click
from click.testing import CliRunner

from marginalsyn.cli.main import cli

ROOT = Path(__file__).parents[2]


def walk(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command, groups included."""
    yield path
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for name in command.list_commands(ctx):
            child = command.get_command(ctx, name)
            assert child is not None
            yield from walk(child, (*path, name))


ALL = list(walk(cli))


def find(path: tuple[str, ...]) -> click.Command:
    """The command that these words name."""
    command: click.Command = cli
    for name in path:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    return command


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_help_explains_every_option_and_its_examples_parse(
    path: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = CliRunner().invoke(cli, [*path, "-h"])
    assert result.exit_code == 0
    assert "Usage: marginalsyn" in result.stdout
    assert "Examples:" in result.stdout
    assert result.stderr == ""
    for param in find(path).params:
        assert getattr(param, "help", None), f"{' '.join(path)} {param.name}"
    monkeypatch.chdir(tmp_path)
    lines = [line for line in find(path).examples if not line.startswith("#")]  # type: ignore[attr-defined]
    assert lines
    for line in lines:
        program, *args = shlex.split(line)
        assert program == "marginalsyn"
        parse(cli, args)


def parse(command: click.Command, args: list[str]) -> None:
    """Parse down to the last command without running it."""
    if "--help" in args:
        assert CliRunner().invoke(cli, args).exit_code == 0
        return
    ctx = command.make_context("marginalsyn", list(args))
    while isinstance(command, click.Group):
        _, child, rest = command.resolve_command(ctx, ctx._protected_args + ctx.args)
        assert child is not None
        command, ctx = child, child.make_context(child.name, rest, parent=ctx)


def test_the_reference_equals_the_help() -> None:
    check = [sys.executable, str(ROOT / "docs" / "generate_cli.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_misspelt_command_is_answered_with_the_right_one(run: Any) -> None:
    for line, right in (("genrate --eps 1", "generate"), ("schema infr x.csv", "infer")):
        failed = run(*line.split(), code=2)
        assert f"did you mean '{right}'?" in failed.stderr + str(failed.exception)


def test_a_plugin_brings_a_command(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of its own, and one of a group; a plugin that fails harms no other command."""
    from importlib.metadata import EntryPoint

    found = [
        EntryPoint(name, place, "marginalsyn.commands")
        for name, place in (
            ("bring", "marginalsyn.operations.certify:Certify"),
            ("ledger.bring", "marginalsyn.operations.certify:Certify"),
            ("broken", "marginalsyn.nothing:Nothing"),
        )
    ]
    monkeypatch.setattr("marginalsyn.registry.entry_points", lambda group: found)
    shown = run("--help").stdout
    assert "bring" in shown
    assert "broken" not in shown
    for line in ("bring", "ledger bring"):
        assert f"Usage: marginalsyn {line}" in run(*line.split(), "--help").stdout
    assert "is broken" in run("broken", code=1).stderr

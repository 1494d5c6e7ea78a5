"""The methods of a release have the options of the commands, with their defaults."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import rich_click as click
from click.testing import CliRunner

from marginalsyn import Release, Synthesizer, defaults
from marginalsyn.cli.main import cli

# What only a screen or a shell needs.
SCREEN = {"release", "releases", "quiet", "as_json", "listing", "json", "help_all"}
# Other names for the same, and options that Python has in another form.
NAMES = {"target_file": "targets", "given": "values", "label": "label"}
APART = {
    # Rows of other tools are for marginalsyn.evaluate.
    "evaluate": {"synthetic", "weights", "schema"},
}
# A method returns its result; only these write where the command does by themselves.
RETURNED = {("evaluate", "out")}


def parameters(name: str) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(getattr(Release, name)).parameters)


def options(name: str) -> dict[str, Any]:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return {str(p.name): p for p in command.params if p.name not in SCREEN}


@pytest.mark.parametrize("name", APART)
def test_a_method_has_the_options_and_defaults_of_its_command(name: str) -> None:
    takes, has = parameters(name), options(name)
    for option, parameter in has.items():
        if option in APART[name]:
            continue
        known = takes.get(NAMES.get(option, option))
        assert known is not None, f"{name} lacks {option}"
        if (name, option) in RETURNED or known.default is inspect.Parameter.empty:
            continue
        given = default_of(parameter)
        stated = re.search(r"\[default=([^\s\]]+)\]", parameter.help or "")
        if given in EMPTY and stated and known.default is not None:
            given = stated[1]
        same = str(given) == str(known.default) or (given in EMPTY and known.default in EMPTY)
        assert same, f"{name} --{option}: {given} and {known.default}"


def default_of(parameter: Any) -> Any:
    """The default as a command gets it."""
    found = parameter.get_default(click.Context(click.Command("x")), call=True)
    # What newer versions of click call unset.
    return None if "UNSET" in str(found) else found


EMPTY = (None, (), "", False)


def test_the_help_says_the_defaults() -> None:
    help_of = {
        name: CliRunner().invoke(cli, [name, flag], terminal_width=200).stdout
        for name, flag in (
            ("weight", "--help-all"),
            ("steer", "--help"),
            ("evaluate", "--help-all"),
        )
    }
    assert f"[default={defaults.WEIGHTS}]" in help_of["weight"]
    assert f"[default={defaults.SHARE:g}]" in help_of["weight"]
    for name, value in (("evaluate", defaults.REPEATS), ("steer", defaults.STEERED)):
        assert str(value) in help_of[name]


def test_a_synthesizer_takes_delta_and_relation_as_generate_does() -> None:
    takes, has = inspect.signature(Synthesizer).parameters, options("generate")
    for name in ("delta", "neighbours", "accept_nonprivate_schema", "void_earlier_promises"):
        assert str(takes[name].default) == str(default_of(has[name]))
    assert Path(default_of(has["out"])) == Path(defaults.RELEASE)

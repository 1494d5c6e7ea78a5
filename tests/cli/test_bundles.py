"""A method's option may have the name of a bundle of the command's options."""

from __future__ import annotations

import dataclasses
from typing import Any

import rich_click as click
from click.testing import CliRunner

from marginalsyn.cli.bundles import bundle, option
from marginalsyn.cli.methods import values_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class Column:
    name: str | None = option("--name")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    column: str = "none"
    other: int = 1


def test_a_methods_option_with_a_bundles_name_reaches_the_method() -> None:
    seen: dict[str, Any] = {}

    @click.command()
    @bundle(Column)
    @click.option("--column", "column")
    @click.option("--other", "other", type=int)
    def command(column: Column, **knobs: Any) -> None:
        seen.update(values_of(Config, knobs), bundle=column)

    result = CliRunner().invoke(command, ["--column", "age", "--name", "x"])
    assert result.exit_code == 0, result.output
    assert seen == {"column": "age", "bundle": Column(name="x")}

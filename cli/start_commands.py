"""The plain commands that ``start`` runs, and the script of them that it leaves behind."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import rich_click as click

from marginalsyn.cli import whom
from marginalsyn.curator import PASSWORD, Named, hides_password, shown_name

PASSWORD_VARIABLE = "PGPASSWORD"


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What the user decided, and what the commands afterwards are told."""

    data: str
    label: str | None
    kinds: dict[str, str]
    keep: tuple[str, ...]
    sep: str | None
    eps: float
    method: str
    holdout: float
    public: bool
    out: Path
    schema_path: Path
    evaluation: Path
    unit: str | None = None
    max_rows: int | None = None
    order: str | None = None

    @property
    def whom(self) -> Named:
        """Whom the promise is for."""
        return whom.told(self.unit, self.max_rows, self.order)


def commands(choices: Choices, force: bool, *, go_on: bool = False) -> list[tuple[str, list[str]]]:
    """The plain commands that do what was decided."""
    from marginalsyn.table import ROW

    made = ["--data", choices.data, "--schema", str(choices.schema_path)]
    made += ["--method", choices.method, "--eps", f"{choices.eps:g}", "--out", str(choices.out)]
    if choices.sep:
        made += ["--sep", choices.sep]
    if choices.holdout:
        made += ["--holdout", f"{choices.holdout:g}"]
    if choices.unit == ROW:
        made += ["--unit", ROW]
    if not choices.public:
        made.append("--accept-nonprivate-schema")
    if go_on:
        made.append("--go-on")
    if force:
        made.append("--force")
    judged = [str(choices.out), "--out", str(choices.evaluation), "--force"]
    if not choices.holdout:
        judged.append("--in-sample")
    return [("generate", made), ("evaluate", judged)]


def script(commands: Sequence[tuple[str, Sequence[str]]], choices: Choices) -> str:
    """The commands as a file for a shell; a database's password is left out."""
    shown = shown_name(choices.data)
    lines = ["#!/bin/sh", "# Spends the budget again, for a release in another folder.", "set -e"]
    lines.append(f'out="${{1:-{choices.out}-again}}"')
    if hides_password(choices.data):
        lines.append(f"# The password is not kept here: {PASSWORD}.")
    for name, arguments in commands:
        words = [shlex.quote(shown if word == choices.data else word) for word in arguments]
        own = {shlex.quote(str(choices.out)): '"$out"'}
        lines.append(" ".join(["marginalsyn", name, *(own.get(word, word) for word in words)]))
    return "\n".join(lines) + "\n"


def stem(data: str) -> str:
    """A short name for what lies beside the release."""
    if "://" in data:
        parts = urlsplit(data)
        name = parts.query.partition("table=")[2].partition("&")[0] or parts.path or parts.netloc
        return Path(name.replace(".", "-")).name or "table"
    name = Path(data).name.partition(".")[0]
    return "".join(sign for sign in name if sign.isalnum() or sign in "-_") or "table"


@contextlib.contextmanager
def password_of(data: str) -> Iterator[None]:
    """Hand the password of an address to those who read the table again; it is stored nowhere."""
    parts = urlsplit(data) if "://" in data else None
    told = parts is not None and parts.scheme in ("postgres", "postgresql") and parts.password
    if not told or PASSWORD_VARIABLE in os.environ:
        yield
        return
    os.environ[PASSWORD_VARIABLE] = unquote(str(told))
    try:
        yield
    finally:
        del os.environ[PASSWORD_VARIABLE]


def run(name: str, arguments: list[str]) -> None:
    """Another command of ours, as if it had been typed."""
    from marginalsyn.cli.main import cli

    with click.Context(cli, info_name="marginalsyn") as parent:
        command = cli.get_command(parent, name)
        assert command is not None
        with command.make_context(name, list(arguments), parent=parent) as ctx:
            command.invoke(ctx)

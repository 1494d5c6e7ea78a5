"""The plain commands that ``start`` runs, and the script of them that it leaves behind."""

from __future__ import annotations

import contextlib
import math
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

import rich_click as click

from marginalsyn.operations.origins import PASSWORD, UNNAMED, Named, hides_password, shown_name

# Of the budget's rho: what bounds are bought for.
BOUNDS_SHARE = 0.2
# Of its delta: what private categories take.
DELTA_SHARE = 0.2
PASSWORD_VARIABLE = "PGPASSWORD"


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What the user decided: the options of the commands that follow."""

    data: str
    label: str | None
    kinds: dict[str, str]
    keep: tuple[str, ...]
    eps: float
    method: str
    holdout: float
    public: Path | None
    out: Path
    schema_path: Path
    evaluation: Path
    persons: Named = UNNAMED
    drafted: bool = True
    bought: tuple[str, ...] = ()
    tail: float = 0.03
    open: bool = False
    # Of linked tables: what was said of links, and how many rows of a parent count, by table.
    several: bool = False
    links: Mapping[str, str] = field(default_factory=dict)
    most: Mapping[str, int] = field(default_factory=dict)

    @property
    def bounds_eps(self) -> float:
        """What bounds are bought for."""
        from marginalsyn.privacy.zcdp import DEFAULT_DELTA, eps_of

        return _floor(eps_of(BOUNDS_SHARE * self._rho, DEFAULT_DELTA))

    @property
    def rest_eps(self) -> float:
        """What the release is made for: with the bounds it costs no more than all."""
        from marginalsyn.privacy.gdp import eps_of_mu, mu_of_amount
        from marginalsyn.privacy.zcdp import DEFAULT_DELTA

        if not self.bought:
            return self.eps
        # In rho, in which the bounds are cheaper; a release whose price is mu costs mu^2 / 2.
        mu = mu_of_amount((1 - BOUNDS_SHARE) * self._rho)
        return _floor(eps_of_mu(mu, self._spare * DEFAULT_DELTA))

    @property
    def _spare(self) -> float:
        """The share of delta that is not for private categories."""
        return 1 - DELTA_SHARE if self.open else 1.0

    @property
    def _rho(self) -> float:
        """What bounds and release may cost together."""
        from marginalsyn.privacy.zcdp import DEFAULT_DELTA, rho_of

        return rho_of(self.eps, self._spare * DEFAULT_DELTA)

    @property
    def bounded_path(self) -> Path:
        """The schema with the bounds that were bought."""
        name = self.schema_path.name.removesuffix(".schema.json")
        return self.schema_path.with_name(f"{name}.bounds.schema.json")


def _floor(eps: float) -> float:
    """An eps in few digits and never more."""
    digits = 5 - math.floor(math.log10(eps))
    return math.floor(eps * 10.0**digits) / 10.0**digits


def commands(choices: Choices, force: bool, *, go_on: bool = False) -> list[tuple[str, list[str]]]:
    """The plain commands that do what was decided."""
    from marginalsyn.table.unit import ROW

    sep = ["--sep", choices.persons.sep] if choices.persons.sep else []
    path = choices.bounded_path if choices.bought else choices.schema_path
    made = ["--data", choices.data, "--schema", str(path)]
    made += ["--method", choices.method, "--eps", f"{choices.rest_eps:g}"]
    made += ["--out", str(choices.out)]
    made += sep
    if choices.holdout:
        made += ["--holdout", f"{choices.holdout:g}"]
    if choices.persons.unit == ROW:
        made += ["--unit", ROW]
    made += ["--accept-nonprivate-schema"] * choices.drafted
    made += ["--go-on"] * (go_on and not choices.several) + ["--force"] * force
    judged = [str(choices.out), "--out", str(choices.evaluation), "--force"]
    if not choices.holdout:
        judged.append("--in-sample")
    found = [("generate", made), ("evaluate", judged)]
    if choices.bought:
        bounds = [choices.data, str(choices.schema_path), "--eps", f"{choices.bounds_eps:g}"]
        bounds += [word for name in choices.bought for word in ("--column", name)]
        bounds += ["--tail", f"{choices.tail:g}", "--out", str(path), "--force"]
        bounds += sep
        found.insert(0, ("schema buy-bounds", bounds))
    return found


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
    """A short name for the files next to the release."""
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
    known = parts is not None and parts.scheme in ("postgres", "postgresql")
    password = parts.password if parts is not None and known else None
    if not password or PASSWORD_VARIABLE in os.environ:
        yield
        return
    os.environ[PASSWORD_VARIABLE] = unquote(password)
    try:
        yield
    finally:
        del os.environ[PASSWORD_VARIABLE]


def run(name: str, arguments: list[str]) -> None:
    """Another command of ours, as if it had been typed."""
    from marginalsyn.cli.main import cli

    with click.Context(cli, info_name="marginalsyn") as parent:
        command: click.Command | None = cli
        for word in name.split():
            assert isinstance(command, click.Group)
            command = command.get_command(parent, word)
        assert command is not None
        with command.make_context(name, list(arguments), parent=parent) as ctx:
            command.invoke(ctx)

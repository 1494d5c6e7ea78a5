"""``--resume``: a paid run that was interrupted goes on with the options that it was begun with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from marginalsyn.errors import UsageError

if TYPE_CHECKING:
    from marginalsyn.cli.screen import Notes
    from marginalsyn.records.resume import RunRecorder
    from marginalsyn.records.runs import RunRecord

CARD = "marginalsyn.cli.card"
# Options that are given again each time.
_NOT_KEPT = {"resume", "go_on", "dry_run", "quiet", "as_json", "listing"}


def recall(ctx: click.Context, args: Sequence[str]) -> dict[str, Any]:
    """The options that the interrupted run was begun with, as defaults; none without --resume."""
    if "--resume" not in args or "--help" in args:
        return {}
    if CARD in ctx.meta:
        return ctx.meta[CARD].options  # type: ignore[no-any-return]
    from marginalsyn.operations.origins import DATASET
    from marginalsyn.records.runs import interrupted
    from marginalsyn.records.workspace import Workspace, identify

    dataset = value_of("--dataset", args)
    data = value_of("--data", args) or (DATASET + dataset if dataset else None)
    command, folder = command_of(ctx), Workspace.here().folder
    runs = interrupted(folder, command=command, source=identify(data) if data else None)
    if not runs:
        raise UsageError(
            f"--resume must have a run of '{command}' that was charged and interrupted: there is "
            f"none {'of this source ' if data else ''}in {folder}"
        )
    card = runs[-1].card
    ctx.meta[CARD] = card
    ctx.default_map = {**(ctx.default_map or {}), **card.options}
    return dict(card.options)


def keep(source: str, notes: Notes, *, go_on: bool = False) -> RunRecorder:
    """What keeps this run's answers, or has those of the run that goes on.

    A new run says first which runs of the source were interrupted: what they paid need not be paid
    again.
    """
    from marginalsyn.records.resume import RunRecorder
    from marginalsyn.records.runs import interrupted
    from marginalsyn.records.workspace import Workspace, identify

    ctx: click.Context = click.get_current_context()  # type: ignore[assignment]
    command, key, folder = command_of(ctx), identify(source), Workspace.here().folder
    card: RunRecord | None = ctx.meta.get(CARD)
    before = [] if card is not None or go_on else interrupted(folder, source=key)
    for run in before:
        if run.lost:
            continue
        free = "and pays the rest" if run.card.stopped else "at no further charge"
        notes.warn(
            f"an interrupted run is paid for: {run}. '{run.again}' goes on with it {free}. To "
            f"give it up: 'marginalsyn ledger forget {run.card.id[:8]}'"
        )
    return RunRecorder(
        folder,
        command=command,
        source=key,
        resume=card is not None,
        go_on=go_on,
        id=card.id if card is not None else "",
        salt=card.salt if card is not None else "",
        options=recordable(ctx.params, key),
        warn=notes.warn,
    )


def command_of(ctx: click.Context) -> str:
    """The command's name, with that of its group."""
    names = []
    while ctx.parent is not None:
        names.append(str(ctx.info_name))
        ctx = ctx.parent
    return " ".join(reversed(names))


def recordable(params: Mapping[str, Any], source: str) -> dict[str, Any]:
    """The options as JSON, without a password."""
    found: dict[str, Any] = {}
    for name, value in params.items():
        if name in _NOT_KEPT or value is None or value == ():
            continue
        if name == "data":
            value = source
        elif isinstance(value, Path):
            value = str(value)
        found[name] = list(value) if isinstance(value, tuple) else value
    return found


def value_of(flag: str, args: Sequence[str]) -> str | None:
    """The value of an option before the arguments are parsed."""
    for position, arg in enumerate(args):
        if arg == flag and position + 1 < len(args):
            return args[position + 1]
        if arg.startswith(f"{flag}="):
            return arg.partition("=")[2]
    return None

"""What a failed command says and how it exits: one message, never a traceback unless asked for."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
import traceback
from functools import partial
from pathlib import Path
from typing import NoReturn

import rich_click as click

from marginalsyn.errors import Interrupted, MarginalsynError

DEBUG = "MARGINALSYN_DEBUG"


def debugging() -> bool:
    """Whether the user asked for tracebacks."""
    return bool(os.environ.get(DEBUG))


def fail(error: BaseException) -> NoReturn:
    """Print one message for the error on stderr and exit with its code."""
    if debugging() and not isinstance(error, click.ClickException | click.Abort):
        raise error
    text, code = describe(error)
    if isinstance(error, click.UsageError) and error.ctx is not None:
        command = error.ctx.command
        usage = " ".join(command.collect_usage_pieces(error.ctx))
        click.echo(f"Usage: {error.ctx.command_path} {usage}", err=True)
        click.echo(f"Help:  {error.ctx.command_path} --help", err=True)
    head = "Error: "
    click.secho(head, fg="red", bold=True, nl=False, err=True)
    click.echo(_wrapped(head + text)[len(head) :], err=True)
    sys.exit(code)


def _wrapped(text: str) -> str:
    """The text wrapped between words on a terminal, as it is elsewhere; paths are never broken."""
    if not sys.stderr.isatty():
        return text
    width = shutil.get_terminal_size().columns
    wrap = partial(textwrap.fill, width=width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(wrap(line) for line in text.splitlines())


def describe(error: BaseException) -> tuple[str, int]:
    """The message and the exit code of an error."""
    # Click turns every Ctrl-C into its own Abort.
    if isinstance(error, click.Abort) and isinstance(error.__context__, Interrupted):
        error = error.__context__
    if isinstance(error, MarginalsynError | Interrupted):
        return str(error), error.exit_code
    if isinstance(error, click.ClickException):
        text = error.format_message()
        if isinstance(error, click.MissingParameter):
            text = f"{text} {getattr(error.param, 'help', None) or ''}".strip()
        # Half of the world writes a decimal comma.
        if found := re.search(r"'([-+]?\d*),(\d+)' is not a valid float", text):
            text = f"{text} Write {found[1] or 0}.{found[2]}, with a point."
        text = text.replace("is not a valid float", "is not a number")
        return text, error.exit_code
    if isinstance(error, KeyboardInterrupt | EOFError | click.Abort):
        return "interrupted", Interrupted.exit_code
    if isinstance(error, MemoryError):
        return "out of memory; take fewer columns, fewer bins or a smaller --degree", 1
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}", 1
    # The error's own text is left out: it may quote private values, and bug reports are public.
    return (
        f"{type(error).__name__} in {_place(error)}: this is a fault of marginalsyn.\n"
        f"{DEBUG}=1 in front of the command shows the whole traceback.",
        1,
    )


def _place(error: BaseException) -> str:
    """Where our own code failed."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "marginalsyn" in frame.filename] or frames[-1:]
    return f"{Path(ours[-1].filename).name}, line {ours[-1].lineno}" if ours else "an unknown place"

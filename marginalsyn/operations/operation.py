"""An act of the user: its fields are the options of a command and the arguments in Python.

``run`` does the work, ``plan`` shows what it would do. Both return a :class:`Result`, which holds a
value for Python and what the shell prints of it.
"""

from __future__ import annotations

import inspect
import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path  # noqa: F401 (annotations of fields name it)
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Concatenate,
    Generic,
    Literal,  # noqa: F401
    NamedTuple,
    ParamSpec,
    TypeVar,
)

from marginalsyn.errors import UsageError
from marginalsyn.progress import Silent
from marginalsyn.registry import plugins
from marginalsyn.signatures import checked, python_words

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.operations.origins import FoundTable
    from marginalsyn.progress import Progress
    from marginalsyn.records.resume import RunRecorder

Value = TypeVar("Value", covariant=True)
Given = ParamSpec("Given")

DRY_RUN = "Dry run: nothing was read, nothing was spent."


def option(value: Any, help: str, *, panel: str = "Options", **shell: Any) -> Any:
    """A field of an operation.

    Args:
        value: the default.
        help: for both; an option is named as a flag (``--eps``).
        panel: the heading in the command's help.
        shell: how the command line takes it, where its type does not say all of that: ``type``,
            ``metavar``, ``choices``, ``range`` (from, to), ``flags`` (other than ``--name``),
            ``required``, ``show_default``, ``multiple``, ``parse`` (makes the value of a text),
            ``default`` where it is another. ``shell=False`` and ``python=False`` leave a field to
            the other of the two; ``python`` may be a help text of its own.
    """
    about = {"help": help, "panel": panel, "shell": True, "python": True, **shell}
    return field(default=value, metadata=about)


def argument(value: Any, help: str, **shell: Any) -> Any:
    """A field that the command line takes without a flag."""
    return option(value, help, argument=True, **shell)


how_many = partial(option, None, range=(1, None), metavar="N")
seed_option = partial(option, None, range=(0, None), metavar="N")
several = partial(option, (), multiple=True, show_default=False)


def shown(value: object) -> str:
    """A cell's text: numbers short and exact enough, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}" if math.isfinite(value) else str(value)
    return str(value)


class Sentence(NamedTuple):
    """A text that a terminal wraps between words, under its beginning and an indent."""

    text: str
    indent: str = ""


class Csv(NamedTuple):
    """Rows as a CSV file has them; a terminal shows only the first ones of a ``long`` table."""

    rows: pd.DataFrame
    long: bool = False


class Facts(NamedTuple):
    """Names and values, one a line."""

    pairs: Sequence[tuple[str, object]]


class Columns(NamedTuple):
    """A table for people; the columns named in ``right`` hold numbers."""

    head: Sequence[str]
    rows: Sequence[Sequence[object]]
    right: Sequence[str] = ()


@dataclass
class Result(Generic[Value]):
    """What an operation found.

    Attributes:
        value: for Python.
        json: the data as ``--json`` prints them; a text is JSON already.
        text: the same for people, on stdout: texts, and blocks of the kinds above.
        warnings: shown even when quiet.
        notes: messages that are no data.
        code: the exit code of the command.
    """

    value: Value
    json: Any = None
    text: Sequence[Any] = ()
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()
    code: int = 0


class Session:
    """The surroundings of a running operation; from Python it is silent.

    Attributes:
        shown: whether the result will be printed.
    """

    shown: ClassVar[bool] = False

    def say(self, text: str | Columns) -> None:
        """Show a message now."""

    def warn(self, text: str) -> None:
        """Show a warning now."""

    def agrees(self, question: str, otherwise: str) -> bool:
        """Ask whether to go on; where nobody can be asked, say what to do ``otherwise``."""
        raise UsageError(otherwise)

    def resumes(self, run: str) -> bool:
        """Whether the interrupted run that goes on is named like this."""
        return False

    def progress(self, given: Progress | None) -> AbstractContextManager[Progress]:
        """Where the work is reported."""
        return nullcontext(given or Silent())

    def keep(
        self,
        table: FoundTable,
        act: str,
        *,
        resume: bool,
        go_on: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> RunRecorder | None:
        """What keeps the answers of a run; nothing where its charge is forgotten as well.

        ``act`` is what Python's callers call; all else is as for :class:`RunRecorder`.
        """
        from marginalsyn.records.resume import RunRecorder
        from marginalsyn.records.workspace import Workspace, identify

        if table.ledger.path is None:
            if resume:
                raise UsageError(
                    "--resume needs a ledger: without one, charges are forgotten when the process "
                    "ends"
                )
            return None
        called = act.rpartition(".")[2]
        return RunRecorder(
            Workspace.here().folder,
            command=act,
            source=identify(table.name) if table.name else "DataFrame",
            resume=resume,
            again=f"{called}(..., resume=True)",
            insist=f"{called}(..., go_on=True)",
            go_on=go_on,
            options=options,
        )


PYTHON = Session()


class Operation(Generic[Value]):
    """The base of all operations, which are dataclasses.

    A docstring is the command's help up to its first section (``Returns:`` and others), and all of
    it is the method's.
    """

    examples: ClassVar[str] = ""
    # The options that --help shows; the others stand under --help-all. Empty: it shows all.
    everyday: ClassVar[Sequence[str]] = ()
    # The plugins that --method chooses from, and those that are taken where it is left out.
    kind: ClassVar[str] = ""
    preferred: ClassVar[Sequence[str]] = ()
    # The options of the shell alone that the command has; a plan also gives it --dry-run.
    shell: ClassVar[Sequence[str]] = ("quiet", "as_json")
    # Whether --json prints data and no more, as a plan does.
    json_alone: ClassVar[bool] = False

    def run(self, session: Session = PYTHON) -> Result[Value]:
        """Do it."""
        raise NotImplementedError

    def plan(self, session: Session = PYTHON) -> Result[Any]:
        """Show what would be done, without reading or spending anything."""
        raise NotImplementedError


def methods(kind: str) -> list[str]:
    """The names of the installed methods of a kind; imports none of them."""
    return list(dict.fromkeys(plugin.name for plugin in plugins(kind)))


def default_method(operation: Any) -> str:
    """The first method that an operation prefers, by its ``preferred``, and that is installed."""
    known = methods(operation.kind)
    return next((name for name in operation.preferred if name in known), known[0])


def method(
    operation: Callable[Concatenate[Any, Given], Operation[Value]],
) -> Callable[Concatenate[Any, Given], Value]:
    """An operation as a method of what its first field is; its errors speak Python."""
    return part(operation, operation.run)  # type: ignore[attr-defined, no-any-return]


def part(operation: Any, act: Callable[..., Result[Any]], *only: str) -> Any:
    """The same for another act than ``run``, with those arguments ``only``."""

    def call(self: Any, *args: Any, **given: Any) -> Any:
        return self.after(act(operation(self, *args, **given)).value)

    source = operation if act is operation.run else act
    return _described(call, source.__name__.lower(), source, operation, only, bound=True)


def function(operation: Any, name: str) -> Any:
    """An operation as a function of its own; its errors speak Python."""

    def call(*args: Any, **given: Any) -> Any:
        return operation(*args, **given).run().value

    return _described(call, name, operation, operation)


def _described(
    call: Any,
    name: str,
    source: Any,
    operation: Any,
    only: Sequence[str] = (),
    *,
    bound: bool = False,
) -> Any:
    """A function with the name, the docstring and the signature that callers see.

    Its arguments are the operation's fields that Python's callers have; of one that is ``bound``,
    the first is the object itself.
    """
    about = {known.name: known.metadata for known in fields(operation)}
    given = inspect.signature(operation).parameters.values()
    own = [parameter for parameter in given if about[parameter.name]["python"]]
    first = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)] * bound
    own = [p for p in own[len(first) :] if not only or p.name in only]
    call.__name__ = name
    texts = {p.name: (about[p.name]["python"], about[p.name]["help"]) for p in own}
    helps = {name: one if isinstance(one, str) else both for name, (one, both) in texts.items()}
    # The docstring of the source with the arguments, in the words of Python.
    head = summary(source)
    sections = inspect.cleandoc(source.__doc__ or "")[len(head) :]
    listed = [textwrap.fill(f"{n}: {h}", 92, subsequent_indent="    ") for n, h in helps.items()]
    arguments = textwrap.indent("\n".join(listed), "    ")
    call.__doc__ = python_words(f"{head}\n\nArgs:\n{arguments}") + sections
    call.__annotations__ = {p.name: p.annotation for p in own}
    call.__signature__ = inspect.Signature([*first, *own])
    return checked(call)


def summary(kind: Any) -> str:
    """What an operation's docstring says before its first section."""
    return _SECTION.split(inspect.cleandoc(kind.__doc__ or ""), maxsplit=1)[0].strip()


_SECTION = re.compile(r"^(?:Returns|Raises|Example):$", re.MULTILINE)

"""What the commands show: tables and JSON on stdout; notes, warnings and progress on stderr."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from marginalsyn.progress import Progress

# Wide enough that nothing is cut where the output goes to a file or another program.
UNBOUNDED = 10_000


def console(*, stderr: bool = False) -> Console:
    """A console on the current stdout or stderr, without wrapping where that is no terminal."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else UNBOUNDED
    return Console(file=stream, width=width, highlight=False, emoji=False, markup=False)


def write(text: str) -> None:
    """Data, on stdout."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def write_json(value: Any) -> None:
    """Data as JSON, on stdout."""
    write(json.dumps(value, indent=2, default=str, ensure_ascii=False))


def write_table(
    head: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    right: Sequence[str] = (),
    stream: TextIO | None = None,
) -> None:
    """An aligned table without lines, on stdout. The columns named in ``right`` hold numbers."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for number, name in enumerate(head):
        justify = "right" if name in right else "left"
        table.add_column(Text(name), justify=justify, overflow="fold", no_wrap=not number)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(Text(show(cell)) for cell in row))
    _write_renderable(table, stream)


def write_facts(facts: Sequence[tuple[str, object]]) -> None:
    """Names and values, one a line, on stdout; a terminal wraps a value under itself."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(Text(name), Text(show(value)))
    _write_renderable(table)


def _write_renderable(renderable: RenderableType, stream: TextIO | None = None) -> None:
    """Draw for the current stdout, or stderr, without the blanks that pad every line."""
    to = console(stderr=stream is sys.stderr)
    with to.capture() as captured:
        to.print(renderable)
    text = "".join(line.rstrip() + "\n" for line in captured.get().splitlines())
    (stream or sys.stdout).write(text)


def show(value: object) -> str:
    """A cell's text: numbers short and exact enough, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}" if math.isfinite(value) else str(value)
    return str(value)


class Notes:
    """Messages on stderr; ``quiet`` keeps only warnings."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet

    def say(self, text: str = "") -> None:
        """A message for the user, unless quiet."""
        if not self.quiet:
            console(stderr=True).print(text)

    def warn(self, text: str) -> None:
        """A warning: shown even when quiet."""
        from rich.text import Text

        line = Text.assemble(("Warning: ", "bold yellow"), text)
        console(stderr=True).print(line)

    @contextmanager
    def progress(self) -> Iterator[Progress]:
        """A live line of progress on a terminal, silence elsewhere."""
        from marginalsyn.progress import Silent

        if self.quiet or not sys.stderr.isatty():
            yield Silent()
            return
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        columns = (
            SpinnerColumn(),
            TextColumn("{task.description:<12}"),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}{task.fields[text]}", markup=False),
        )
        with Bar(*columns, console=console(stderr=True), transient=True) as bar:
            yield LiveProgress(bar)


class LiveProgress:
    """Reports of a long work, drawn as one line."""

    def __init__(self, bar: Any) -> None:
        self.bar = bar
        self.task = bar.add_task("start", total=None, text="", left="")
        self.stage, self.since = "", time.monotonic()

    def report(self, stage: str, *, fraction: float | None = None, text: str = "") -> None:
        """Show the stage, the share done and one line of text."""
        if stage != self.stage:
            self.stage, self.since = stage, time.monotonic()
        self.bar.update(
            self.task,
            description=stage,
            total=None if fraction is None else 1.0,
            completed=fraction or 0.0,
            text=text,
            left=self._left(fraction or 0.0),
        )

    def _left(self, fraction: float) -> str:
        """How long the stage will take at its pace so far, once that can be told."""
        spent = time.monotonic() - self.since
        if fraction < 0.05 or spent < 2:
            return ""
        return f"{spent * (1 - fraction) / fraction:.0f} s left  "

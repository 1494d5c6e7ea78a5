"""What the commands show: tables and JSON on stdout; notes, warnings and progress on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import rich_click as click

from marginalsyn.operations.operation import Columns, Session, shown
from marginalsyn.progress import Silent

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from marginalsyn.progress import Progress

# Wide enough that nothing is cut where the output goes to a file or another program.
UNBOUNDED = 10_000
# What a line of progress takes before its text: spinner, stage, bar and clock.
PROGRESS_WIDTH = 2 + 13 + 25 + 8 + 1
# Blanks between the columns of a table.
GAP = 2


def console(*, stderr: bool = False) -> Console:
    """A console on the current stdout or stderr, without wrapping where that is no terminal."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else UNBOUNDED
    return Console(file=stream, width=width, highlight=False, emoji=False, markup=False)


def write(text: str) -> None:
    """Data, on stdout."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def write_text(text: str, *, indent: str = "") -> None:
    """Sentences on stdout; a terminal wraps them between words, under their beginning."""
    import textwrap

    width = console().width
    write(
        textwrap.fill(
            text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
    )


def write_table(
    head: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    right: Sequence[str] = (),
    stream: TextIO | None = None,
) -> None:
    """An aligned table without lines, on stdout. The columns named in ``right`` hold numbers.

    A terminal that is too narrow wraps cells between words; where even that is not enough, every
    row becomes a few lines of its own. Words are never broken to save room.
    """
    from rich.table import Table
    from rich.text import Text

    cells = [[shown(cell) for cell in row] for row in rows]
    columns = [[name, *(row[j] for row in cells if j < len(row))] for j, name in enumerate(head)]
    widths = _fit_widths(columns, console(stderr=stream is sys.stderr).width)
    if widths is None:
        _write_records(head, cells, stream)
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name, width in zip(head, widths, strict=True):
        justify = "right" if name in right else "left"
        table.add_column(Text(name), justify=justify, overflow="fold", width=width)  # type: ignore[arg-type]
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    _write_renderable(table, stream)


def _fit_widths(columns: Sequence[Sequence[str]], room: int) -> list[int] | None:
    """The width of every column, from whole lines down to whole words; None if even those fail."""
    widths = [max((len(cell) for cell in column), default=0) for column in columns]
    # The first column names the row: it stays on one line. A value and its error are one word.
    words = [" ".join(column).replace(" ± ", "_±_").split() for column in columns]
    least = [max(map(len, own), default=0) for own in words]
    least[:1] = widths[:1]
    excess = sum(widths) + GAP * (len(widths) - 1) - room
    while excess > 0:
        slack = [width - low for width, low in zip(widths, least, strict=True)]
        if not any(slack):
            return None
        widest = max(range(len(widths)), key=lambda j: (slack[j] > 0, widths[j]))
        widths[widest] -= 1
        excess -= 1
    return widths


def _write_records(
    head: Sequence[str], rows: Sequence[Sequence[str]], stream: TextIO | None
) -> None:
    """A row as lines of names and values, under what names it."""
    from rich.padding import Padding
    from rich.text import Text

    for row in rows:
        _write_renderable(Text(row[0], style="bold"), stream)
        pairs = [pair for pair in zip(head[1:], row[1:], strict=False) if pair[1]]
        _write_renderable(Padding(_grid(pairs), (0, 0, 0, GAP)), stream)


def write_facts(facts: Sequence[tuple[str, object]]) -> None:
    """Names and values, one a line, on stdout; a terminal wraps a value under itself."""
    _write_renderable(_grid(facts, style="bold"))


def _grid(pairs: Sequence[tuple[str, object]], style: str = "") -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, GAP, 0, 0))
    table.add_column(style=style, no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(Text(name), Text(shown(value)))
    return table


def _write_renderable(renderable: RenderableType, stream: TextIO | None = None) -> None:
    """Draw for the current stdout, or stderr, without the blanks that pad every line."""
    to = console(stderr=stream is sys.stderr)
    with to.capture() as captured:
        to.print(renderable)
    text = "".join(line.rstrip() + "\n" for line in captured.get().splitlines())
    (stream or sys.stdout).write(text)


class Notes(Session):
    """Messages on stderr; ``quiet`` keeps only warnings."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet

    def say(self, text: str | Columns = "") -> None:
        """A message for the user, unless quiet."""
        if not self.quiet and isinstance(text, Columns):
            write_table(text.head, text.rows, right=text.right, stream=sys.stderr)
        elif not self.quiet:
            console(stderr=True).print(text)

    def warn(self, text: str) -> None:
        """A warning: shown even when quiet."""
        from rich.text import Text

        line = Text.assemble(("Warning: ", "bold yellow"), text)
        console(stderr=True).print(line)

    def warn_all(self, texts: Iterable[str]) -> None:
        """Several warnings, each on a line of its own."""
        for text in texts:
            self.warn(text)

    def agrees(self, question: str, otherwise: str) -> bool:
        """Ask on a terminal, by default no; elsewhere it is no."""
        if sys.stdin.isatty() and sys.stderr.isatty():
            return click.confirm(question, default=False, err=True)
        self.warn(otherwise)
        return False

    @contextmanager
    def progress(self, given: Progress | None = None) -> Iterator[Progress]:
        """A live line of progress on a terminal; elsewhere a line now and then."""
        del given
        if self.quiet or not sys.stderr.isatty():
            yield Silent() if self.quiet else LinesOfProgress(self)
            return
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        columns = (
            SpinnerColumn(),
            TextColumn("{task.description:<12}"),
            # A stage whose length is not known has a bar at rest, not one that runs to and fro.
            BarColumn(bar_width=24, pulse_style="bar.back"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}{task.fields[text]}", markup=False),
        )
        with Bar(
            *columns, console=console(stderr=True), transient=True, refresh_per_second=4
        ) as bar:
            yield LiveProgress(bar)


class LinesOfProgress:
    """Reports of a long work for a file or a pipe: a line every so many seconds, none before."""

    def __init__(self, notes: Notes, seconds: float = 15.0) -> None:
        self.notes, self.seconds, self.last = notes, seconds, time.monotonic()

    def report(self, stage: str, *, fraction: float | None = None, text: str = "") -> None:
        """Print the stage, the share done and one line of text, if it is time."""
        if time.monotonic() - self.last >= self.seconds:
            self.last = time.monotonic()
            share = "" if fraction is None else f" {fraction:.0%}"
            self.notes.say(f"{stage}{share}: {text}" if text else f"{stage}{share}")


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
        left = self._left(fraction or 0.0)
        room = max(0, self.bar.console.width - PROGRESS_WIDTH - len(left))
        self.bar.update(
            self.task,
            description=stage,
            total=None if fraction is None else 1.0,
            completed=fraction or 0.0,
            # One line, always: a second one would come and go.
            text=text if len(text) <= room else text[: max(0, room - 1)] + "…",
            left=left,
        )

    def _left(self, fraction: float) -> str:
        """How long the stage will take at its pace so far; empty while too little is done."""
        spent = time.monotonic() - self.since
        if fraction < 0.05 or spent < 2:
            return ""
        return f"{spent * (1 - fraction) / fraction:.0f} s left  "

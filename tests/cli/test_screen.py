"""Terminals of 80 columns: no broken words, and a line of progress that stays one line."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from marginalsyn.cli import screen

HEAD = ("method", "noise", "kept", "how")
ROWS = [
    (
        "support-points-gp",
        0.123,
        None,
        "features 108, penalty 0.5, steps 20, noise_multiplier 1.75",
    ),
    ("beta-noised", 12.5, "at most 0.15", "regularisation leaves little; see --dry-run"),
]


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> Any:
    def set_width(width: int) -> None:
        made = lambda stderr=False: Console(width=width, file=io.StringIO(), markup=False)  # noqa: E731
        monkeypatch.setattr(screen, "console", made)

    return set_width


@pytest.mark.parametrize("width", [120, 80, 60, 34])
def test_tables_never_break_a_word(
    narrow: Any, capsys: pytest.CaptureFixture[str], width: int
) -> None:
    narrow(width)
    screen.write_table(HEAD, ROWS, right=("noise",))
    told = capsys.readouterr().out
    assert max(map(len, told.splitlines())) <= width
    words = set(told.split())
    for row in (HEAD[1:], *ROWS):
        for cell in row:
            assert set(screen.shown(cell).split()) <= words, cell
    assert told.splitlines()[0].startswith("method" if width >= 60 else "support-points-gp")


def test_progress_is_one_line_and_rests_where_nothing_is_known() -> None:
    class Bar:
        console = Console(width=80, file=io.StringIO())

        def add_task(self, *_: Any, **__: Any) -> int:
            return 0

        def update(self, _: int, **told: Any) -> None:
            self.told = told

    bar = Bar()
    line = screen.LiveProgress(bar)
    line.report("select", fraction=0.5, text="a very long name of a marginal " * 9)
    assert screen.PROGRESS_WIDTH + len(bar.told["text"]) + len(bar.told["left"]) <= 80
    assert bar.told["text"].endswith("…")


def test_a_pipe_gets_a_line_of_progress_when_it_is_time(capsys: Any) -> None:
    with screen.Notes().progress() as soon:
        soon.report("read", fraction=0.5, text="age")
    assert capsys.readouterr().err == ""
    screen.LinesOfProgress(screen.Notes(), 0.0).report("read", fraction=0.5, text="age")
    assert capsys.readouterr().err == "read 50%: age\n"

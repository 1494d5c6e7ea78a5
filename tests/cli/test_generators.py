"""Generators from the command line: their options, plans, interruption, and hash seeds."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from marginalsyn.graphical import model as pgm

Run = Callable[..., Result]
AIM = ("generate", "--dataset", "heart", "--method", "aim", "--eps", 1)


def test_a_mistake_in_a_knob_is_told_before_anything_is_spent(run: Run, folder: Path) -> None:
    assert "degree (0) must be from 1 to 8" in run(*AIM, "--degree", 0, code=2).stderr
    assert "workload (no.json)" in run(*AIM, "--workload", "no.json", code=2).stderr
    assert not (folder / "release").exists()


def test_an_interrupted_run_says_what_was_spent(
    run: Run,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fits = []

    def interrupt(*args: object, **kwargs: object) -> object:
        fits.append(1)
        if len(fits) == 3:
            raise KeyboardInterrupt
        return fit(*args, **kwargs)

    fit = pgm.fit
    monkeypatch.setattr(pgm, "fit", interrupt)
    monkeypatch.setattr(sys, "argv", ["marginalsyn", *map(str, AIM)])
    from marginalsyn.cli.main import main

    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 130
    assert "nothing was written. The ledger was charged eps=1," in capsys.readouterr().err
    assert not (folder / "release").exists()
    shown = json.loads(run("ledger", "show", "--dataset", "heart", "--json").stdout)
    assert shown["eps"] == pytest.approx(1, rel=1e-6)

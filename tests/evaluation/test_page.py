"""The page's parts."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from marginalsyn.evaluation import charts, view
from marginalsyn.evaluation.charts import Bar, Curves, Dots, Histogram, Matrix, Series, Shares
from marginalsyn.evaluation.view import (
    Fold,
    Item,
    Legend,
    Note,
    Page,
    Section,
    Table,
    Terms,
    render,
)


def page_of(*items: Item, text: str = "x") -> str:
    """A page that shows these items."""
    return render(
        Page(
            title=text,
            stamp=text,
            private=True,
            lead=[text],
            figures={text: text},
            sections=[Section(text, text, items)],
            foot=text,
            warnings=[text],
        )
    )


class TestNumbers:
    @pytest.mark.parametrize(
        ("value", "told"),
        [
            (0, "0"),
            (0.0, "0"),
            (32561, "32,561"),
            (0.012345, "0.0123"),
            (12345.6, "12,346"),
            (1e-9, "1.0e-09"),
            (-0.5, "-0.5"),
            (None, "n/a"),
            (float("nan"), "n/a"),
            (True, "yes"),
            ("text", "text"),
        ],
    )
    def test_short_and_exact_enough(self, value: object, told: str) -> None:
        assert view.number(value) == told


class TestCharts:
    def test_nothing_breaks_without_values(self) -> None:
        for nothing in (Curves("x", {}, {}, "x", "y"), Dots("x", [])):
            assert nothing.draw() == ""
            assert "<figure>" not in page_of(nothing)
        assert Matrix("x", [], {}).draw().startswith("<svg")
        assert Shares("x", [], []).draw().startswith("<svg")
        assert Dots("x", [Bar("a", 0.0)]).draw().startswith("<svg")
        assert Histogram("x", [0.0, 0.0], [5], "y").draw().startswith("<svg")
        assert "nan" not in Histogram("x", [0.0, 0.0], [5], "y").draw()

    def test_labels_are_escaped(self) -> None:
        page = page_of(
            Shares('"', ["<"], [Series("&", [1.0], 1)]),
            Dots("<", [Bar("<", 0.1, 0.1, 1)], 0.0),
            Legend([("<", 1)]),
            Table(["<"], [["<", "<"]], "<"),
            "<",
            Note("<", "heading"),
            Note("<", "command"),
            Fold("<", ["<"]),
            Terms({"<": "<"}),
            text="<",
        )
        assert not re.search(r"<(?![a-z/])", page.removeprefix("<!doctype html>"))


def test_the_colours_can_be_told_from_the_ground() -> None:
    def luminance(colour: str) -> float:
        channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))

    style = (Path(charts.__file__).parent / "templates" / "style.css").read_text(encoding="utf-8")
    light, dark = style.split("@media (prefers-color-scheme:dark)")
    for part in (light, dark.split("*{box-sizing")[0]):
        found = re.findall(r"--([\w]+):(#[0-9a-f]{3,6})", part)
        named = {k: v if len(v) == 7 else "#" + "".join(2 * c for c in v[1:]) for k, v in found}
        texts = {"ink": 7.0, "soft": 4.5, "alert": 4.5, "fine": 4.5, "care": 4.5}
        wanted = {**texts, "bar": 3.0, **{f"s{i}": 3.0 for i in range(1, 6)}}
        for ground in ("ground", "card"):
            for name, least in wanted.items():
                pair = sorted((luminance(named[name]), luminance(named[ground])))
                assert (pair[1] + 0.05) / (pair[0] + 0.05) >= least, (name, ground)


def test_a_long_table_is_folded():
    rows = [(f"r{i}", i) for i in range(17)]
    folded = page_of(Table(("name", "value"), rows, fold="All"))
    assert "<details><summary>All (17 rows)" in folded
    assert "<details>" not in page_of(Table(("name", "value"), rows[:16], fold="All"))

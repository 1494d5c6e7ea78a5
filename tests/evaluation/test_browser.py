"""The page in a real browser: on a phone, in the dark, on paper, and by keyboard."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginalsyn import Budget, PrivateTable, evaluate, make_noise
from marginalsyn.contract import make_config
from marginalsyn.host import generate
from marginalsyn.operations.report import publish
from marginalsyn.plugins.audit.testkit.generators import example_frame, example_schema
from marginalsyn.release.folder import Release
from tests.support.browser import BROWSER, Browser

pytestmark = pytest.mark.skipif(BROWSER is None, reason="Chromium is not installed")
PHONE, DESK, PAPER = 375, 1200, 718

# What sticks out to the right, and drawings too small to be seen.
LAYOUT = """(() => {
  const shown = e => e.getClientRects().length > 0;
  const all = s => [...document.querySelectorAll(s)].filter(shown);
  const edge = EDGE + 1;
  const charts = all("svg.chart").map(s => s.getBoundingClientRect());
  return {
    width: document.documentElement.scrollWidth,
    wide: all("section, header > *, section > *, figure, p, h1, h2, h3, dl, .use, .block")
      .filter(e => e.getBoundingClientRect().right > edge).map(e => e.outerHTML.slice(0, 80)),
    cut: all(".wide, .scroll").filter(e => e.scrollWidth > e.clientWidth + 1)
      .map(e => e.outerHTML.slice(0, 120)),
    charts: charts.length,
    clipped: all("svg.chart text").filter(t => {
      const frame = t.ownerSVGElement.getBoundingClientRect(), r = t.getBoundingClientRect();
      return r.left < frame.left - 1 || r.right > frame.right + 1 || r.top < frame.top - 1;
    }).map(t => t.textContent),
    small: charts.filter(r => r.width < 60 || r.height < 30).length,
    word: document.querySelector(".word, .stamp").getBoundingClientRect().bottom,
    nav: all("nav").length
  };
})()"""

# The contrast of every bar, mark and word to what lies behind it, as the browser draws it.
CONTRAST = """(() => {
  const light = c => {
    const [r, g, b] = c.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
      .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = e => {
    for (let p = e; p; p = p.parentElement) {
      const c = getComputedStyle(p).backgroundColor;
      if (!/, 0\\)$/.test(c)) return c;
    }
    return "rgb(255, 255, 255)";
  };
  const least = (selector, part) => Math.min(...[...document.querySelectorAll(selector)].map(e => {
    const pair = [light(getComputedStyle(e)[part]), light(behind(e))].sort((a, b) => a - b);
    return (pair[1] + 0.05) / (pair[0] + 0.05);
  }));
  return {bars: least("rect.bar, .mark", "fill"),
          words: least(".word, .figure, figcaption", "color"),
          ground: light(getComputedStyle(document.body).backgroundColor)};
})()"""


def layout(browser: Browser, width: int) -> dict[str, Any]:
    return browser.ask(LAYOUT.replace("EDGE", str(width)))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    weights = pd.DataFrame({name: rng.gamma(2.0, 1.0, 200) for name in ("rake", "dp-mlp")})
    found = evaluate(
        example_frame(200),
        example_frame(100, 1),
        example_schema(),
        train=example_frame(300, 2),
        weights=weights,
        models=["logistic", "boosting"],
        repeats=2,
    )
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(found.to_html(), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = PrivateTable.open(example_frame(300), example_schema())
    made, statement = generate(
        table, make_config("independent"), Budget(eps=5), noise=make_noise(1)
    )
    folder = tmp_path_factory.mktemp("public")
    release = Release.write(made, example_schema(), statement, folder / "release")
    weights = pd.DataFrame({"rake": np.ones(len(release.frame()))})
    release = release.amend({"weights.csv": weights.to_csv(index=False).encode()})
    file = folder / "report.html"
    file.write_text(publish(release).to_html(), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_on_screens(browser: Browser, report: Path, width: int, dark: bool) -> None:
    browser.open(report, width=width, dark=dark)
    found = layout(browser, width)
    assert found["width"] <= width
    assert found["wide"] == []
    assert found["charts"] > 12
    assert found["small"] == 0
    assert found["clipped"] == []
    assert found["word"] < 812, "the verdict is seen without scrolling"
    seen = browser.ask(CONTRAST)
    assert seen["bars"] >= 3
    assert seen["words"] >= 4.5
    assert (seen["ground"] < 0.1) == dark
    assert browser.log == []


@pytest.mark.parametrize("dark", [False, True])
def test_the_public_page_on_a_phone_and_on_paper(
    browser: Browser, public: Path, dark: bool
) -> None:
    browser.open(public, width=PHONE, dark=dark)
    found = layout(browser, PHONE)
    assert found["width"] <= PHONE
    assert found["wide"] == []
    assert found["clipped"] == []
    assert found["charts"] > 8
    assert browser.ask(CONTRAST)["bars"] >= 3
    browser.open(public, width=PAPER, dark=dark, media="print")
    assert layout(browser, PAPER)["cut"] == []
    assert browser.log == []


def test_on_paper(browser: Browser, report: Path, tmp_path: Path) -> None:
    browser.open(report, width=PAPER, dark=True, media="print")
    found = layout(browser, PAPER)
    assert found["cut"] == [], "no column is cut off"
    assert found["width"] <= PAPER
    assert found["nav"] == 0
    browser.paper(tmp_path / "page.pdf")
    pdf = (tmp_path / "page.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    sizes = set(re.findall(rb"/MediaBox \[([^\]]*)\]", pdf))
    assert len(sizes) == 1
    assert [round(float(edge)) for edge in next(iter(sizes)).split()][2] in (594, 595, 596)
    assert browser.ask("document.querySelectorAll('section > details').length") > 0
    folded = "document.querySelector('section > details').getBoundingClientRect().height"
    assert browser.ask(folded) > 60, "what is folded on the screen is printed"


def test_by_keyboard(browser: Browser, report: Path) -> None:
    browser.open(report, width=DESK)
    active = "document.activeElement"
    browser.press("Tab", code=9)
    assert browser.ask(f"{active}.className") == "skip"
    assert browser.ask(f"{active}.getBoundingClientRect().left") >= 0, "it shows when focused"
    browser.press("Enter", code=13)
    assert browser.ask("location.hash") == "#content"
    kinds = []
    for _ in range(200):
        browser.press("Tab", code=9)
        kind = browser.ask(f"{active}.tagName + '.' + {active}.className")
        if kind.startswith("BODY"):
            break
        kinds.append(kind)
        assert browser.ask(f"parseFloat(getComputedStyle({active}).outlineWidth)") >= 2
        if kind.startswith("SUMMARY") and kinds.count(kind) == 1:
            browser.press("Enter", code=13)
            assert browser.ask(f"{active}.parentElement.open")
    assert any(kind.startswith("SUMMARY") for kind in kinds)
    assert "DIV.wide" in kinds, "tables scroll by arrow keys"
    assert "DIV.scroll" in kinds


def test_it_would_tell_of_errors(browser: Browser, tmp_path: Path) -> None:
    text = "<p class='word'>x</p><svg class='chart' width='9' height='9'></svg>"
    text += "<section style='width:900px'><p>x</p></section><script>throw new Error('x')</script>"
    (tmp_path / "broken.html").write_text(text)
    browser.open(tmp_path / "broken.html", width=PHONE)
    found = layout(browser, PHONE)
    assert found["width"] > PHONE
    assert any(told.startswith("<section") for told in found["wide"])
    assert found["small"] == 1
    assert any("Error" in line for line in browser.log)
    browser.log.clear()

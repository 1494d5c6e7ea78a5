"""The page's parts, and the page in a real browser where there is one."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from marginalsyn import evaluate
from marginalsyn.audit.testkit.generators import example_frame, example_schema
from marginalsyn.evaluation import charts, page
from marginalsyn.evaluation.charts import Bar, Series

BROWSER = next(
    (found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None
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
        assert charts.number(value) == told

    def test_with_error(self) -> None:
        assert page.with_error(0.5, 0.01) == "0.5 ± 0.01"
        assert page.with_error(0.5, None) == "0.5"
        assert page.with_error(None, None) == "n/a"

    @pytest.mark.parametrize(("low", "high"), [(0, 1), (0.03, 0.047), (-5, 1e6), (2, 2)])
    def test_ticks_are_round_and_inside(self, low: float, high: float) -> None:
        found = charts.ticks(low, high)
        assert 1 <= len(found) <= 9
        assert all(low <= tick <= high for tick in found)


class TestCharts:
    def test_what_is_drawn_scales_with_the_values(self) -> None:
        chart = charts.overlay(["a", "b"], [Series("real", [0.2, 0.8], 0)], "x")
        heights = [float(h) for h in re.findall(r'class="s0 bar".*?height="([\d.]+)"', chart)]
        assert heights[1] == pytest.approx(4 * heights[0], rel=0.01)

    def test_a_matrix_has_every_pair_on_both_sides(self) -> None:
        chart = charts.heat(["a", "b", "c"], {(0, 1): 0.5, (0, 2): 1.0}, "x")
        assert chart.count('class="cell"') == 4
        assert "a and c: 1" in chart

    def test_nothing_breaks_without_values(self) -> None:
        assert charts.lines({}, {}, title="x", x_title="x", y_title="y") == ""
        assert charts.heat([], {}, "x").startswith("<svg")
        assert charts.overlay([], [], "x").startswith("<svg")
        assert charts.dots([Bar("a", 0.0, None, 0)], None, "x").startswith("<svg")
        assert charts.histogram([0.0, 0.0], [5], "x", "y").startswith("<svg")
        assert "nan" not in charts.histogram([0.0, 0.0], [5], "x", "y")

    def test_curves_on_a_log_scale(self) -> None:
        points = {"a": [[0.5, 1.0, 0.1], [1.0, 0.5, 0.1], [2.0, 0.25, 0.1]]}
        chart = charts.lines(points, {"a": 1}, title="", x_title="x", y_title="y", log_x=True)
        path = re.findall('points="(.*?)"', chart)[0]
        xs = [float(x) for x in re.findall(r"([\d.]+),[\d.]+", path)]
        assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2)

    def test_labels_are_escaped(self) -> None:
        for text in (
            charts.overlay(["<"], [Series("&", [1.0], 1)], '"'),
            charts.dots([Bar("<", 0.1, 0.1, 1)], 0.0, "<"),
            charts.key([("<", 1)]),
            page.table(["<"], [["<", "<"]]),
            page.paragraph("<"),
            page.details("<", ""),
            page.figure("a", "<"),
            page.heading("<"),
            page.render(
                "<",
                stamp="<",
                private=True,
                lead=["<"],
                figures=[("<", "<")],
                sections=[page.Section("<", "<", "")],
                foot="<",
                warnings=["<"],
            ).removeprefix("<!doctype html>"),
        ):
            assert not re.search(r"<(?![a-z/])", text)


def test_the_colours_can_be_told_from_the_ground() -> None:
    def luminance(colour: str) -> float:
        channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))

    style = (Path(page.__file__).parent / "templates" / "style.css").read_text(encoding="utf-8")
    light, dark = style.split("@media (prefers-color-scheme:dark)")
    for part in (light, dark.split("*{box-sizing")[0]):
        found = re.findall(r"--([\w]+):(#[0-9a-f]{3,6})", part)
        named = {k: v if len(v) == 7 else "#" + "".join(2 * c for c in v[1:]) for k, v in found}
        texts = {"ink": 7.0, "soft": 4.5, "alert": 4.5, "fine": 4.5}
        wanted = {**texts, **{f"s{i}": 3.0 for i in range(1, 6)}}
        for ground in ("ground", "card"):
            for name, least in wanted.items():
                pair = sorted((luminance(named[name]), luminance(named[ground])))
                assert (pair[1] + 0.05) / (pair[0] + 0.05) >= least, (name, ground)


PROBE = """<!doctype html><meta charset="utf-8"><body style="margin:0">
<iframe id="f" src="report.html" style="border:0;width:{width}px;height:900px"></iframe>
<pre id="told"></pre><script>
const frame = document.getElementById("f");
frame.onload = () => {{
  const d = frame.contentDocument;
  for (const box of d.querySelectorAll("details")) box.open = true;
  const charts = [...d.querySelectorAll("svg.chart")].map(s => s.getBoundingClientRect());
  const wide = [...d.querySelectorAll("section, section > *, figure, p, h2, h3")]
    .filter(e => e.getBoundingClientRect().right > {width} + 1).map(e => e.outerHTML.slice(0, 80));
  document.getElementById("told").textContent = JSON.stringify({{
    width: d.documentElement.scrollWidth, charts: charts.length,
    small: charts.filter(r => r.width < 60 || r.height < 30).length, wide: wide,
    ground: getComputedStyle(d.body).backgroundColor, sections: d.querySelectorAll("section").length
  }});
}};
</script></body>"""


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="Chromium is not installed")
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1200])
def test_in_a_browser(tmp_path: Path, width: int, dark: bool) -> None:
    frame = example_frame(200)
    weights = np.random.default_rng(0).gamma(2.0, 1.0, 200)
    found = evaluate(frame, example_frame(100, 1), example_schema(), weights=weights)
    (tmp_path / "report.html").write_text(found.to_html(), encoding="utf-8")
    (tmp_path / "probe.html").write_text(PROBE.format(width=width), encoding="utf-8")
    told, log = browse(tmp_path / "probe.html", tmp_path / "profile", dark=dark)
    assert "CONSOLE" not in log
    assert told["sections"] == len(found.titles)
    assert told["charts"] > 15
    assert told["small"] == 0
    assert told["wide"] == []
    assert told["width"] <= width
    red = int(re.findall(r"\d+", told["ground"])[0])
    assert (red < 80) == dark


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="Chromium is not installed")
def test_the_browser_would_tell_of_errors(tmp_path: Path) -> None:
    broken = "<body><script>throw new Error('x')</script><div style='width:900px'>x</div></body>"
    (tmp_path / "report.html").write_text(broken, encoding="utf-8")
    (tmp_path / "probe.html").write_text(PROBE.format(width=390), encoding="utf-8")
    told, log = browse(tmp_path / "probe.html", tmp_path / "profile", dark=False)
    assert "CONSOLE" in log
    assert told["width"] > 390


def browse(file: Path, profile: Path, *, dark: bool) -> tuple[dict, str]:
    """Open a file in headless Chromium; returns what the probe told and the browser's log."""
    command = [
        str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
        "--no-first-run", "--disable-background-networking", "--disable-component-update",
        "--disable-sync", "--allow-file-access-from-files", "--enable-logging=stderr",
        f"--user-data-dir={profile}", "--virtual-time-budget=5000", "--dump-dom",
        *(["--force-dark-mode", "--blink-settings=preferredColorScheme=0"] if dark else []),
        file.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    told = re.search(r'<pre id="told">(.*?)</pre>', done.stdout, re.DOTALL)
    assert told, done.stdout[:500]
    return json.loads(unescape(told[1])), done.stderr


def test_a_long_table_is_folded():
    head, rows = ("name", "value"), [(f"r{i}", i) for i in range(17)]
    assert "<details>" in page.long_table("All", head, rows)
    assert "All (17 rows)" in page.long_table("All", head, rows)
    assert "<details>" not in page.long_table("All", head, rows[:16])

"""Draws the picture of the README: real rows next to synthetic ones, of the bundled Adult table.

    python -m benchmarks.rows_picture

The real rows are those of a public table; the draw is seeded, so that the picture stays the same.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

import pandas as pd

from marginalsyn import Synthesizer, datasets

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "rows.svg"
COLUMNS = {"age": 40, "education": 108, "occupation": 140, "hours-per-week": 62, "income": 62}
TITLES = {"hours-per-week": "hours"}
ROWS, EPS, SEED = 8, 2.0, 4
LINE, TOP, SIDE, GAP = 26, 84, 16, 28
STYLE = """
.ground{fill:#fff;stroke:#d5d9dd}.real{fill:#f2f3f1}.made{fill:#e8f3ee}
text{font:13px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;fill:#1d2126}
.head{font-weight:600;fill:#59616b}.title{font-size:16px;font-weight:650}
.soft{fill:#59616b;font-size:12.5px}.line{stroke:#d5d9dd}
"""


def panel(left: int, kind: str, title: str, frame: pd.DataFrame, notes: list[str]) -> list[str]:
    """One table with its title and a line of figures."""
    width = sum(COLUMNS.values()) + 2 * SIDE
    height = TOP + LINE * ROWS + 52
    parts = [
        f'<rect class="{kind}" x="{left}" y="8" width="{width}" height="{height - 16}" rx="8"/>',
        f'<text class="title" x="{left + SIDE}" y="38">{escape(title)}</text>',
    ]
    at = left + SIDE
    for name, space in COLUMNS.items():
        parts.append(f'<text class="head" x="{at}" y="64">{escape(TITLES.get(name, name))}</text>')
        for place, value in enumerate(frame[name].head(ROWS)):
            y = TOP + LINE * place + 4
            parts.append(f'<text x="{at}" y="{y}">{escape(str(value))}</text>')
        at += space
    end = left + width - SIDE
    parts.append(f'<line class="line" x1="{left + SIDE}" x2="{end}" y1="71" y2="71"/>')
    for place, line in enumerate(notes):
        y = TOP + LINE * ROWS + 10 + 19 * place
        parts.append(f'<text class="soft" x="{left + SIDE}" y="{y}">{escape(line)}</text>')
    return parts


def figures(frame: pd.DataFrame) -> list[str]:
    """What the picture says of all rows of a table."""
    rich = (frame["income"] == ">50K").mean()
    degree = frame["education"].isin(["Bachelors", "Masters", "Doctorate", "Prof-school"])
    share = (frame["income"] == ">50K")[degree].mean()
    return [
        f"All {len(frame):,} rows: mean age {frame['age'].mean():.1f}, {rich:.1%} earn >50K;",
        f"with a degree {share:.1%}",
    ]


def main() -> None:
    """Fit, draw, and write the picture."""
    adult = datasets.load("adult")
    made = Synthesizer(method="auto", eps=EPS, schema=adult.schema, seed=SEED)
    synthetic = made.fit(adult.train).synthetic_
    real = adult.train.sample(ROWS, random_state=SEED)
    width = 2 * (sum(COLUMNS.values()) + 2 * SIDE) + GAP + 2 * SIDE
    height = TOP + LINE * ROWS + 52
    second = SIDE + sum(COLUMNS.values()) + 2 * SIDE + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        "<title>Real and synthetic rows of the Adult table, next to each other</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="ground" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="10"/>',
        *panel(SIDE, "real", "Real rows, which stay private", real, figures(adult.train)),
        *panel(
            second,
            "made",
            "Synthetic rows, publishable (eps 2)",
            synthetic.sample(ROWS, random_state=SEED),
            figures(synthetic),
        ),
        "</svg>",
    ]
    PICTURE.write_text("\n".join(parts) + "\n", encoding="utf-8")
    print(PICTURE)


if __name__ == "__main__":
    main()

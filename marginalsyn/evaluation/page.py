"""One self-contained HTML page: no script, no network, light and dark, wide and narrow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from marginalsyn.evaluation.charts import number

GENERATOR = "marginalsyn report"

# Tables with more rows than that are folded, so that a page of many releases can be read.
LONG = 16


@dataclass(frozen=True)
class Section:
    """One part of a page; ``html`` is trusted, ``title`` is not."""

    name: str
    title: str
    html: str


def render(
    title: str,
    *,
    stamp: str,
    private: bool,
    lead: Sequence[str],
    figures: Sequence[tuple[str, str]],
    sections: Sequence[Section],
    foot: str,
    warnings: Sequence[str] = (),
) -> str:
    """Write the page.

    Args:
        title: of the page.
        stamp: who may see it.
        private: True marks it as not to be published.
        lead: sentences before everything else.
        figures: a few names and values to be seen first.
        sections: in order.
        foot: small print.
        warnings: lines that must not be missed.

    Returns:
        The text of an HTML document.

    Example:
        >>> page = render("x", stamp="y", private=True, lead=[], figures=[], sections=[], foot="")
        >>> page.startswith("<!doctype html>"), "http" in page
        (True, False)
    """
    links = "".join(f'<a href="#{escape(s.name)}">{escape(s.title)}</a>' for s in sections)
    cards = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in figures
    )
    body = "".join(
        f'<section id="{escape(s.name)}"><h2>{escape(s.title)}</h2>{s.html}</section>'
        for s in sections
    )
    told = "".join(f"<p>{escape(sentence)}</p>" for sentence in lead)
    told += "".join(paragraph(warning, "warning") for warning in warnings)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="{GENERATOR}">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<header>
<p class="stamp {"secret" if private else "open"}">{escape(stamp)}</p>
<h1>{escape(title)}</h1>
<div class="lead">{told}</div>
<dl class="figures">{cards}</dl>
<nav>{links}</nav>
</header>
<main>{body}</main>
<footer><p>{escape(foot)}</p></footer>
</body>
</html>
"""


def table(
    head: Sequence[str], rows: Iterable[Sequence[object]], *, right: bool = True, caption: str = ""
) -> str:
    """A table: the first column names the row, the others are numbers unless ``right`` is off."""
    side = ' class="num"' if right else ""
    top = "".join(
        f"<th{side if position else ''}>{escape(name)}</th>" for position, name in enumerate(head)
    )
    body = "".join(
        "<tr>"
        + f'<th scope="row">{escape(number(row[0]))}</th>'
        # A narrow page must not break a line inside 1e-9.
        + "".join(f"<td{side}>{_unbroken(number(cell))}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    told = f"<caption>{escape(caption)}</caption>" if caption else ""
    return (
        f'<div class="wide"><table>{told}<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'
        "</div>"
    )


def long_table(
    summary: str, head: Sequence[str], rows: Sequence[Sequence[object]], *, right: bool = True
) -> str:
    """A table that is folded away under its summary where it has many rows."""
    drawn = table(head, rows, right=right)
    return details(f"{summary} ({len(rows)} rows)", drawn) if len(rows) > LONG else drawn


def _unbroken(text: str) -> str:
    told = escape(text)
    return told.replace("e-", "e\N{NON-BREAKING HYPHEN}") if text[:1].isdigit() else told


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph of plain text; ``kind`` is a class: ``note`` or ``warning``."""
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def figure(chart: str, caption: str) -> str:
    """A chart with its caption."""
    return f"<figure>{chart}<figcaption>{escape(caption)}</figcaption></figure>" if chart else ""


def grid(items: Iterable[str], kind: str = "grid") -> str:
    """Things side by side where there is room."""
    return f'<div class="{kind}">{"".join(items)}</div>'


def heading(text: str) -> str:
    """A heading inside a section."""
    return f"<h3>{escape(text)}</h3>"


def details(summary: str, html: str) -> str:
    """Something to be opened on demand."""
    return f"<details><summary>{escape(summary)}</summary>{html}</details>"


def with_error(mean: float | None, se: float | None) -> str:
    """A value with its standard error."""
    if mean is None or se is None or se == 0:
        return number(mean)
    return f"{number(mean)} ± {number(se)}"


# Colours keep a contrast of at least 3:1 to the ground, text of 4.5:1, and are told apart by
# people with any colour vision (after Okabe and Ito); marks and dashes say the same again.
_STYLE = """
:root{--ground:#fbfbf9;--card:#fff;--ink:#1d2126;--soft:#59616b;--rule:#d9dce0;--bar:#c3c9d0;
--s1:#0068ab;--s2:#c2510a;--s3:#00795a;--s4:#9b4a86;--s5:#7a6a00;--alert:#a32a12;--fine:#1c6b3c}
@media (prefers-color-scheme:dark){:root{--ground:#15181c;--card:#1d2127;--ink:#e9ebee;
--soft:#a7afb9;--rule:#363d46;--bar:#4b545f;--s1:#62b6f2;--s2:#f2924a;--s3:#3ec79b;--s4:#d795c5;
--s5:#d9c64a;--alert:#ff8f76;--fine:#7fd6a0}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--ground);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif}
header,main,footer{max-width:68rem;margin:0 auto;padding:0 1.1rem}
header{padding-top:1.6rem}
h1{font-size:1.7rem;line-height:1.2;margin:.3rem 0 .8rem;overflow-wrap:anywhere}
h2{font-size:1.25rem;margin:0 0 .7rem}
h3{font-size:1rem;margin:1.4rem 0 .4rem}
p{margin:.5rem 0;max-width:46rem}
.stamp{display:inline-block;font-weight:600;font-size:.85rem;border:1.5px solid;border-radius:4px;
padding:.1rem .6rem;margin:0}
.secret{color:var(--alert)}.open{color:var(--fine)}
.lead p{font-size:1.08rem}
.note{color:var(--soft);font-size:.92rem}
.warning{border-left:3px solid var(--alert);padding-left:.7rem}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:.6rem;
margin:1.1rem 0}
.figures div{background:var(--card);border:1px solid var(--rule);border-radius:8px;
padding:.55rem .8rem}
dt{color:var(--soft);font-size:.82rem}
dd{margin:0;font-size:1.25rem;font-weight:600;font-variant-numeric:tabular-nums;
overflow-wrap:anywhere}
nav{display:flex;flex-wrap:wrap;gap:.3rem 1rem;font-size:.92rem;padding-bottom:.8rem}
a{color:var(--s1)}
section{background:var(--card);border:1px solid var(--rule);border-radius:10px;
padding:1.1rem 1.2rem;margin:0 0 1.1rem}
.wide{overflow-x:auto;margin:.6rem 0}
table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums;min-width:50%}
caption{text-align:left;color:var(--soft);padding-bottom:.25rem}
th,td{padding:.28rem .8rem .28rem 0;text-align:left;vertical-align:top}
thead th{color:var(--soft);font-weight:600;border-bottom:1px solid var(--rule)}
tbody th{font-weight:400;min-width:7rem}
tbody tr+tr>*{border-top:1px solid var(--rule)}
.num{text-align:right;white-space:nowrap}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(17rem,100%),1fr));gap:1rem}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(21rem,100%),1fr));gap:1.2rem}
.grid>*,.pair>*{min-width:0}
figure{margin:.7rem 0;min-width:0}
figcaption{color:var(--soft);font-size:.88rem;max-width:46rem}
.chart{display:block;width:100%;height:auto;font:11px system-ui,sans-serif}
.chart text{fill:var(--soft)}
.thin{stroke:var(--rule);stroke-width:1}
.base{stroke:var(--soft);stroke-width:1}
.empty{fill:none;stroke:var(--rule)}
.cell{fill:var(--s2)}
.hit{fill:transparent}
.bar{fill:var(--bar)}
.step{fill:none;stroke-width:2.6}
.curve{fill:none;stroke-width:2}
.whisker{stroke-width:2}
.rule{stroke:var(--ink);stroke-width:1.5;stroke-dasharray:5 3}
.mark{stroke:var(--card);stroke-width:1}
.s0.mark{fill:var(--ink)}.s0.curve{stroke:var(--ink);stroke-dasharray:5 3}
.s0.whisker{stroke:var(--ink)}
.s1.mark,.s1.fill{fill:var(--s1)}.s1.step,.s1.curve,.s1.whisker{stroke:var(--s1)}
.s2.mark,.s2.fill{fill:var(--s2)}.s2.step,.s2.curve,.s2.whisker{stroke:var(--s2)}
.s3.mark,.s3.fill{fill:var(--s3)}.s3.step,.s3.curve,.s3.whisker{stroke:var(--s3)}
.s4.mark,.s4.fill{fill:var(--s4)}.s4.step,.s4.curve,.s4.whisker{stroke:var(--s4)}
.s5.mark,.s5.fill{fill:var(--s5)}.s5.step,.s5.curve,.s5.whisker{stroke:var(--s5)}
.s2.step,.s2.curve{stroke-dasharray:7 2}.s3.step,.s3.curve{stroke-dasharray:2 2}
.s4.step,.s4.curve{stroke-dasharray:9 3 2 3}.s5.step,.s5.curve{stroke-dasharray:4 4}
.key{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;padding:0;margin:.5rem 0;
font-size:.9rem}
.key li{display:flex;align-items:center;gap:.35rem}
.swatch{width:16px;height:16px;flex:none}
details{margin:.7rem 0}
summary{cursor:pointer;color:var(--s1)}
footer{color:var(--soft);font-size:.85rem;padding-bottom:2rem}
@media (max-width:40rem){body{font-size:15px}h1{font-size:1.35rem}
section{padding:.8rem .8rem;border-radius:8px}header,main,footer{padding-left:.7rem;
padding-right:.7rem}.chart{font-size:12px}}
@media print{section{break-inside:avoid;border:0}nav{display:none}}
"""

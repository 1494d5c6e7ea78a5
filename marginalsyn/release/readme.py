"""What a release folder says of itself: what the tables are, what is promised, how to use them.

The same sections make its ``README.md`` and its ``index.html``.
"""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from marginalsyn.privacy.charges import show_number
from marginalsyn.release.derivation import vouched
from marginalsyn.table.frames import TextForm
from marginalsyn.validation import first_of

if TYPE_CHECKING:
    from marginalsyn.release.statement import Statement

README, INDEX = "README.md", "index.html"
PROMISED = "What is promised"
_TABLES = (".csv", ".parquet")
# Columns that are named one by one.
_MOST_NAMED = 200
_MOMENTS = ("date", "datetime")
_SIGNS = {",": "comma", ";": "semicolon", "\t": "tab"}
_MADE = {
    "identifier": "made up for these rows; it names nobody",
    "standing": "how many of the population a row stands for; sums of it are totals",
}
# What Excel calls an encoding that goes by another name there.
_IN_EXCEL = {
    "utf-16": "1200: Unicode",
    "latin-1": "28591: Western European (ISO)",
    "cp1252": "1252: Western European (Windows)",
}
_IN_R = {
    "utf-8-sig": "UTF-8-BOM",
    "utf-16": "UTF-16",
    "latin-1": "latin1",
    "cp1252": "windows-1252",
}


@dataclass(frozen=True)
class Explanation:
    """What there is to say of a release, in Markdown without links.

    Attributes:
        title: of the table.
        about: what the folder holds.
        sections: paragraphs, lists and blocks of commands by their heading.
    """

    title: str
    about: str
    sections: Mapping[str, Sequence[str]]

    def to_markdown(self) -> str:
        """The text of ``README.md``."""
        parts = [f"# {self.title}", self.about]
        for heading, paragraphs in self.sections.items():
            parts += [f"## {heading}", *paragraphs]
        return "\n\n".join(parts) + "\n"

    def promised_in(self, text: str, page: bool) -> bool:
        """Whether a README, or a page, has the paragraphs on what is promised word for word."""
        words = _words(html.unescape(re.sub("<[^>]+>", "", text)) if page else text)
        return all(_words(paragraph) in words for paragraph in self.sections[PROMISED])


def _words(text: str) -> str:
    """A text without what only shows how it is set."""
    return " ".join(re.sub("[`*]", "", text).split())


def explain_release(statement: Statement, schema: str, files: Iterable[str]) -> Explanation:
    """Read what the folder holds; ``schema`` is its JSON, ``files`` are their names."""
    known, names = json.loads(schema), sorted(files)
    tables = [name for name in names if name.endswith(_TABLES) and not name.startswith("weights")]
    title = known.get("title")
    sections = {
        PROMISED: _promise(statement),
        "How to read it": [
            *_loading(tables, known, TextForm.of(statement.notes)),
            *_weights(statement, names),
        ],
        "What it is good for, and what not": [_LIMITS, *(_INTERVALS * (not statement.foreign))],
        "Columns": _columns(known),
        "How to cite it": [
            _CITE.format(title=title or "this table", generator=statement.generator)
        ],
    }
    return Explanation(title or "Synthetic data", _about(statement, tables), sections)


_LIMITS = """Rows are drawn from a noisy model of the real table. Shares, means, relations between \
columns that the generator measured, and models fitted to
them are close to those of the real rows, within the noise; rare groups, relations among many \
columns at once, and single extreme values are not.
Do not look for a person in it: no row belongs to one. Do not conclude that something does not \
exist because no row shows it. Check what matters
on the real rows before you rely on it."""

_INTERVALS = [
    """Naive standard errors from synthetic rows are too small. `marginalsyn estimate` answers \
questions with intervals that include the privacy noise,
from this folder alone:""",
    """```sh
pip install marginalsyn
marginalsyn estimate . --help
marginalsyn sample . --rows 1000 --out more.csv
marginalsyn verify .
```""",
]

_CITE = """"{title}", synthetic data made with marginalsyn (method {generator}). The date, the \
versions and the privacy guarantee are in `privacy.json`; please cite
them with it."""


def _about(statement: Statement, tables: list[str]) -> str:
    listed = ", ".join(f"`{name}`" for name in tables)
    if statement.foreign:
        made = "by another tool, and taken into this folder as they were or drawn again from what "
        made += "that tool measured"
    else:
        made = f"by the method `{statement.generator}` of marginalsyn, from noisy statistics of a "
        made += "private table"
    return (
        f"This folder holds synthetic rows ({listed}); none was copied from a real one. They were "
        f"made {made}. `schema.json` describes the columns, `privacy.json` says what was "
        "spent and proves it step by step."
    )


def _promise(statement: Statement) -> list[str]:
    if statement.foreign:
        return ["What the rows themselves cost in privacy is known only to those who made them."]
    if not statement.private:
        return [
            "**Nothing: this release is for research.** Its noise was seeded or left out, so "
            "that it must not be published."
        ]
    amounts = f"**eps {show_number(statement.eps, 3)} and delta {show_number(statement.delta, 2)}**"
    if statement.guarantee == "asymptotic":
        bound = (
            f"**There is no plain eps**: {amounts} hold for the law that a Markov chain converges "
            "to, not for what its run of finite length gave."
        )
    else:
        bound = (
            f"The guarantee is differential privacy with {amounts} ({statement.guarantee}): "
            "whatever anybody learns from this folder, and whatever else they know, it was at most "
            f"{show_number(math.exp(min(statement.eps, 700)), 3)} times as likely with the "
            "protected unit as without it, but for a chance of delta. A smaller eps protects more."
        )
    found = [f"Protected is {statement.unit}. {bound}"]
    found += filter(None, [vouched(statement.notes)])
    if statement.schema_drafted:
        found.append(
            "**Not covered**: the list of columns and their ranges was drafted from the real rows."
        )
    return found + [f"**Note**: {warning.rstrip('.')}." for warning in statement.warnings]


def _loading(tables: list[str], known: Mapping[str, Any], form: TextForm) -> list[str]:
    """How programs read the first table; a person's others are read in the same way."""
    name, schema = _groups(known)[0]
    named = [table for table in tables if table.rpartition(".")[0] == name]
    first = [*named, *tables, "synthetic.csv"][0]
    if first.endswith(".parquet"):
        return [
            f'`pandas.read_parquet("{first}")` in Python, `arrow::read_parquet("{first}")` in R.'
        ]
    columns = schema.get("columns", [])
    spelt: list[Mapping[str, Any]] = [one["format"] for one in columns if _numbers(one)]
    decimal = next((one["decimal"] for one in spelt if one["decimal"] != "."), ".")
    thousands = next((one["thousands"] for one in spelt if one["thousands"]), "")
    days = {one["name"]: one.get("format") for one in columns if one.get("kind") in _MOMENTS}
    spelt_days = {name: style for name, style in days.items() if style}
    python, r = [json.dumps(first)], [json.dumps(first), "check.names = FALSE"]
    if form.sep != ",":
        python.append(f"sep={json.dumps(form.sep)}")
        r.append(f"sep = {json.dumps(form.sep)}")
    if form.codec != "utf-8":
        python.append(f'encoding="{form.codec}"')
        r.append(f'fileEncoding = "{_IN_R[form.codec]}"')
    if decimal != ".":
        python.append(f'decimal="{decimal}"')
        r.append(f'dec = "{decimal}"')
    if thousands:
        python.append(f'thousands="{thousands}"')
    if spelt_days:
        python.append(f"date_format={json.dumps(spelt_days, ensure_ascii=False)}")
    if days:
        python.append(f"parse_dates={json.dumps([*days], ensure_ascii=False)}")
    excel = _IN_EXCEL.get(form.encoding, form.encoding.upper())
    lines = [
        f"`pandas.read_csv({', '.join(python)})` in Python, `read.csv({', '.join(r)})` in R. "
        f"Excel: Data, From Text/CSV, with the encoding {excel} and a "
        f"{_SIGNS.get(form.sep, form.sep)} as the separator. An empty field is a missing value."
    ]
    if form.sep == ";":
        lines[0] += (
            " A double click opens it where the system's separator of lists is a semicolon, as it "
            "is in much of Europe."
        )
    worded = [f"`{one['name']}`" for one in columns if _worded(one)]
    if worded:
        lines.append(
            f"{', '.join(worded)}: programs read these as texts, since units, currencies and "
            'limits such as "<0.5" stand with the numbers, as they do in the private table.'
        )
    if short := [f"`{name}`" for name, style in spelt_days.items() if "%y" in style]:
        lines.append(
            f"{', '.join(short)}: years of two digits. None is later than the year of `upper` in "
            "`schema.json`, but programs take 45 for 2045: take 100 years off what is later."
        )
    return lines


def _numbers(column: Mapping[str, Any]) -> bool:
    return isinstance(column.get("format"), dict) and not _worded(column)


def _worded(column: Mapping[str, Any]) -> bool:
    """Whether its numbers come with other signs than digits."""
    spelt = column.get("format")
    units = isinstance(spelt, dict) and (spelt["prefix"] + spelt["suffix"]).strip()
    return bool(units) or any(column.get(name) is not None for name in ("below", "above"))


def _weights(statement: Statement, names: list[str]) -> list[str]:
    columns: Mapping[str, Any] = statement.notes.get("weights") or {}
    if not columns:
        return ["No weights are needed: every row counts once."]
    files = [f"`{name}`" for name in names if name.startswith("weights-")]
    # Of an earlier version, which wrote all columns into one file.
    head = "The column `weight`" if files else f"The column `{list(columns)[-1]}`"
    others = f" All that were made are in {', '.join(files)}." if len(files) > 1 else ""
    return [
        f"{head} of `weights.csv` has the recommended weights (`{list(columns)[-1]}`, the latest), "
        "one line for each row in the same order. Give it to a fit or a mean as its sample "
        f"weights.{others} Without weights every row counts once."
    ]


def _groups(known: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """The schemas of all tables, by name."""
    tables = known.get("tables")
    return [(one["name"], one.get("schema") or {}) for one in tables] if tables else [("", known)]


def _columns(known: Mapping[str, Any]) -> list[str]:
    found = []
    for name, schema in _groups(known):
        columns = schema.get("columns", [])
        lines = [_column(column) for column in columns[:_MOST_NAMED]]
        if len(columns) > _MOST_NAMED:
            lines.append(f"* and {len(columns) - _MOST_NAMED} more, in `schema.json`")
        found += [f"`{name}`{_keys(known, name)}:"] if name else []
        found.append("\n".join(lines))
    return found


def _keys(known: Mapping[str, Any], name: str) -> str:
    """How the rows of a linked table are named, and whose they are; every key is made new."""
    (table,) = (one for one in known["tables"] if one["name"] == name)
    own = [f"`{table['key']}` is its key"] if table.get("key") else []
    if table.get("parent"):
        own.append(f"each row belongs to that of `{table['parent']}` with its `{table['link']}`")
    return f" ({'; '.join(own)})" if own else ""


def _column(column: Mapping[str, Any]) -> str:
    words = column.get("description") or _MADE.get(column["kind"], "")
    if not words and "lower" in column:
        ends = [column.get(name) for name in ("lower", "upper")]
        words = " to ".join(f"{one:.15g}" if isinstance(one, float) else str(one) for one in ends)
    if not words and column["kind"] == "boolean":
        words = f"{column.get('true_label', True)} or {column.get('false_label', False)}"
    if not words and isinstance(column.get("categories"), list):
        words = first_of([*map(str, column["categories"])], 8)
    return f"* `{column['name']}` ({column['kind']})" + (f": {words}" if words else "")

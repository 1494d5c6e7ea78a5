"""``show``, ``verify`` and ``report``: what a release is and cost, on the screen or as a page."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marginalsyn import defaults
from marginalsyn.errors import ReleaseError, UsageError
from marginalsyn.operations.files import check_new, write_text
from marginalsyn.operations.groups import OfRelease
from marginalsyn.operations.operation import (
    PYTHON,
    Columns,
    Facts,
    Result,
    Sentence,
    Session,
    option,
)
from marginalsyn.validation import first_of

if TYPE_CHECKING:
    from marginalsyn.release.folder import Release
    from marginalsyn.release.linked import LinkedRelease
    from marginalsyn.release.statement import Statement
    from marginalsyn.table.schema import AnyColumn

Pairs = Sequence[tuple[str, object]]

NOT_PRIVATE = "For research only; do not publish."
USE_FOREIGN = (
    "The rows are as private as the tool that made them. The weights may be published where the "
    "rows may be."
)
USE = (
    "Everything in the folder may be published. Rows are drawn from a noisy model, not copied. Fit "
    "models on them and read off shares; check what matters on real rows before you rely on it."
)


@dataclass(frozen=True, kw_only=True)
class Show(OfRelease["Release | LinkedRelease"]):
    """Describe a release: rows, columns, guarantee, and what the budget was spent on."""

    shell = ("as_json",)
    json_alone = True
    examples = """
    # the last release made here
    marginalsyn show
    marginalsyn show release --json
    """

    def run(self, session: Session = PYTHON) -> Result[Release | LinkedRelease]:
        """Read the release and put it into words."""
        from marginalsyn.privacy.composition import explain_sum
        from marginalsyn.release.linked import LinkedRelease, open_release

        found = open_release(self.folder())
        describe: Any = _describe_linked if isinstance(found, LinkedRelease) else _describe
        data, facts, columns = describe(found)
        statement = found.statement
        charges = [(c.mechanism, c.purpose, c.cost, c.guarantee) for c in statement.charges]
        text = [
            Facts([(name, value) for name, value in facts if value is not None]),
            "",
            columns,
            "",
            Columns(("charge", "for", "cost", "guarantee"), charges),
        ]
        total = explain_sum(statement.charges, statement.target_delta, statement.neighbours)
        if total:
            text.append(Sentence(total))
        data |= {"statement": statement.model_dump(mode="json")}
        return Result(found, data, text, statement.warnings)


def _describe(release: Release) -> tuple[dict[str, Any], Pairs, Columns]:
    from marginalsyn.release.derivation import ADOPTED

    statement, schema = release.statement, release.schema
    rows, weights = len(release.frame()), release.weights()
    # Of adopted rows: the tool, and whether they were drawn here.
    adopted = statement.notes.get(ADOPTED) if statement.foreign else None
    maker = statement.generator
    if isinstance(adopted, dict):
        maker = f"{adopted.get('tool')}, {adopted.get('rows')}"
    names = [] if weights is None else list(weights.columns)
    chain = statement.notes.get("chain")
    data = {
        "release": str(release.path),
        "rows": rows,
        "columns": [column.model_dump(mode="json") for column in schema.columns],
        "weights": names,
        "can_sample": "model.json" in statement.files,
    }
    facts = [
        ("Release", release.path),
        ("Table", schema.title or None),
        ("Rows", f"{rows:,} synthetic rows by {maker}"),
        ("Model", chain.get("text") if isinstance(chain, dict) else None),
        ("Public", ", ".join(margin.name for margin in schema.public_margins) or None),
        ("Weights", _weights(names) if weights is not None else "none"),
        *_promises(statement),
    ]
    columns = [
        (c.name, c.kind, _values(c), c.size, "label" if c.name == schema.label else "")
        for c in schema.columns
    ]
    return data, facts, Columns(("column", "kind", "values", "codes", ""), columns, ("codes",))


def _describe_linked(release: LinkedRelease) -> tuple[dict[str, Any], Pairs, Columns]:
    statement, weights = release.statement, release.weights()
    sizes = {name: len(frame) for name, frame in release.frames().items()}
    data = {"release": str(release.path), "tables": sizes, "can_sample": True}
    facts = [
        ("Release", release.path),
        ("Tables", ", ".join(f"{name} ({size:,} rows)" for name, size in sizes.items())),
        ("Made by", statement.generator),
        *_promises(statement),
    ]
    if weights is not None:
        about = f"a row for each row of {release.tree.root.name}; rows below it weigh the same"
        facts.append(("Weights", f"{_weights([*weights.columns])}: {about}"))
    rows: list[tuple[object, ...]] = []
    for table in release.tree.tables:
        if table.key:
            rows.append((table.name, table.key, "key", "newly made", ""))
        if table.link:
            about = f"of {table.parent}, at most {table.max_children} rows each"
            rows.append((table.name, table.link, "link", about, ""))
        rows += [(table.name, c.name, c.kind, _values(c), c.size) for c in table.columns]
    return data, facts, Columns(("table", "column", "kind", "values", "codes"), rows, ("codes",))


def _weights(names: list[str]) -> str:
    """The columns of weights; the last one is recommended."""
    return f"{', '.join(names)} (weights.csv has {names[-1]})"


def _promises(statement: Statement) -> Pairs:
    """The guarantee, who gives it, and what may be done with the release."""
    from marginalsyn.release.derivation import whose_words

    foreign = statement.foreign
    total = f"{statement.total()}{', of all but the rows' if foreign else ''}"
    use = USE_FOREIGN if foreign else USE
    return [
        ("Guarantee", "none: seeded noise" if statement.seeded else total),
        ("Of the rows", whose_words(statement.notes) if foreign else None),
        ("Protects", statement.unit),
        ("Why", statement.why),
        ("Noise", statement.noise),
        ("Use", use if statement.private else NOT_PRIVATE),
    ]


def _values(column: AnyColumn, width: int = 48) -> str:
    """A column's public values in one short line."""
    from marginalsyn.table.numeric import NumberColumn

    if isinstance(column, NumberColumn):
        bounds = (column.bound(column.lower), column.bound(column.upper))
        text = " to ".join(map(_bound, bounds))
    else:
        values = [*map(str, column.values)]
        most = len(values)
        while len(text := first_of(values, most)) > width and most > 1:
            most -= 1
    return f"{text}, or missing" if column.nullable else text


def _bound(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:,.10g}"


@dataclass(frozen=True, kw_only=True)
class Verify(OfRelease[list[str]]):
    """Check a release: its files, its charges, its rows against the schema.

    Compares the files with their recorded hashes, adds up the charges again, and derives the
    guarantee, the noise and the versions again from the laws and libraries that the statement
    records. Needs neither the private table nor its ledger. The exit code is 1 if anything is
    wrong. Seeded noise, or a schema drafted from the data, is shown as a warning.
    """

    json_alone = True
    examples = """
    # the last release made here
    marginalsyn verify
    marginalsyn verify release --json
    """

    def run(self, session: Session = PYTHON) -> Result[list[str]]:
        """List the problems of the release."""
        from marginalsyn.certificates.measured import examine
        from marginalsyn.release.folder import PRIVACY, open_folder

        path = self.folder()
        (problems, changed), warnings = examine(path), []
        text = [f"{path}: {problem}" for problem in problems]
        if not problems:
            _, statement = open_folder(path)
            warnings = [
                f"{name} is not as this version writes it: it was edited, or another version wrote "
                f"it. What counts is {PRIVACY}"
                for name in changed
            ]
            warnings += statement.warnings
            text = [f"{path}: {len(statement.files)} files verified; {statement.total()}"]
        data = {"release": str(path), "problems": problems, "warnings": warnings}
        return Result(problems, data, text, warnings, code=1 if problems else 0)


@dataclass(frozen=True)
class Publication:
    """The reports' public blocks, and the page made of them; ``linked`` of tables below the root.

    Example:
        >>> from marginalsyn import Release
        >>> publish(Release.read("release")).to_html()[:15]
        '<!doctype html>'
    """

    title: str
    stamp: str
    titles: dict[str, str]
    reports: dict[str, Any]
    linked: dict[str, dict[str, Any]] = field(default_factory=dict)

    def to_json(self) -> str:
        """The blocks, as JSON."""
        blocks = {name: value for name, value in vars(self).items() if name != "linked" or value}
        return json.dumps(blocks, indent=1, ensure_ascii=False) + "\n"

    def to_html(self) -> str:
        """One self-contained page."""
        from marginalsyn.evaluation.evaluation import choose_reports
        from marginalsyn.evaluation.view import OPEN, Page, Section, render
        from marginalsyn.release.staging import as_written

        chosen, sections = choose_reports(list(self.titles)), []
        shown = [("", self.reports), *self.linked.items()]
        for table, name, block in ((t, n, b) for t, blocks in shown for n, b in blocks.items()):
            with as_written(f"release, as the report '{name}' reads it,"):
                items = list(chosen[name].show_public(block))
            title = f"{table}: {self.titles[name]}" if table else self.titles[name]
            sections.append(Section(f"{table}-{name}" if table else name, title, items))
        privacy = self.reports.get("privacy", {})
        kind, keys = (
            ("private tables", " Keys are new.") if self.linked else ("a private table", "")
        )
        page = Page(
            title=self.title,
            stamp=self.stamp,
            private=self.stamp != OPEN,
            lead=[
                f"The rows are synthetic: drawn from noisy statistics of {kind}, not copied.{keys}",
                "This page was made from the release folder alone, so it says no more than that "
                "does.",
            ],
            figures={name: privacy[name] for name in ("eps", "delta") if name in privacy},
            sections=sections,
            foot="Check the folder with: marginalsyn verify",
            warnings=privacy.get("warnings", ()) if self.stamp != OPEN else (),
        )
        return render(page)


def publish(release: Release | LinkedRelease, *, title: str = "") -> Publication:
    """Collect what every installed report can say of a release without real rows.

    Args:
        release: whole and checked; see :func:`marginalsyn.certificates.verify`.
        title: of the page.
    """
    from marginalsyn.contract import plain
    from marginalsyn.evaluation.evaluation import choose_reports
    from marginalsyn.evaluation.view import CLOSED, OPEN
    from marginalsyn.release.linked import LinkedRelease, TableRelease
    from marginalsyn.release.staging import as_written

    chosen = choose_reports(None)

    def blocks(one: Release, scopes: Collection[str]) -> dict[str, Any]:
        found = {}
        for name, report in chosen.items():
            if report.scope in scopes:
                with as_written(f"release, as the report '{name}' reads it,"):
                    block = report.publish(one)
                if block is not None:
                    found[name] = plain(block)
        return found

    linked = {}
    if isinstance(release, LinkedRelease):
        tree, table = release.tree, release.tree.title or "linked private tables"
        below = [TableRelease.of(release, one.name) for one in tree.tables[1:] if one.columns]
        linked = {one.table: blocks(one, {"table"}) for one in below}
        found = blocks(TableRelease.of(release), {"table", "release"})
    else:
        table = release.schema.title or "a private table"
        found = blocks(release, {"table", "release", "persons"})
    return Publication(
        title=title or f"Synthetic rows of {table}",
        stamp=OPEN if release.statement.private else CLOSED,
        titles={name: chosen[name].title for name in found},
        reports=found,
        linked=linked,
    )


PUBLIC = "public-report.html"


@dataclass(frozen=True, kw_only=True)
class Report(OfRelease["Publication"]):
    """Write a page about a release: one HTML file that needs no network.

    With --public, it holds the privacy statement, the synthetic columns, the weights and the
    certificate, and nothing that was computed from real rows. Without it, the page of an evaluation
    is written again; that page is for the curator alone.

    Returns:
        The page that may be published.
    """

    examples = """
    # a page for readers of the last release
    marginalsyn report --public
    marginalsyn report release --public --out about.html
    # the curator's page again, from evaluation/evaluation.json
    marginalsyn report
    """

    # From Python, an evaluation writes its own page.
    public: bool = option(
        True,
        "Write a page that may be published, from the release folder alone.",
        default=False,
        python=False,
    )
    evaluation: str | Path = option(
        defaults.EVALUATION,
        "The evaluation whose page to write again, without --public.",
        metavar="FOLDER",
        python=False,
    )
    out: str | Path | None = option(
        None,
        f"The HTML file to write. [default={PUBLIC}, or report.html in the evaluation]",
        metavar="FILE",
        python="Also write the page to this HTML file.",
    )
    force: bool = option(False, "Overwrite what exists.")

    def run(self, session: Session = PYTHON) -> Result[Any]:
        """Check the release, then write its page."""
        from marginalsyn.certificates.measured import verify
        from marginalsyn.release.linked import open_release

        if not self.public:
            return self._write_again()
        path = self.folder()
        problems = verify(path)
        if problems:
            raise ReleaseError(
                f"release ({path}) must be whole before a page is made of it: {problems[0]}"
            )
        found = publish(open_release(path))
        if self.out is None and not session.shown:
            return Result(found)
        target, page = Path(self.out or PUBLIC), found.to_html()
        # An earlier page of ours may be replaced; other files only when forced.
        if not target.is_file() or found.stamp not in target.read_text("utf-8", errors="replace"):
            check_new(target, self.force)
        write_text(target, page)
        return Result(found, found.to_json(), [str(target)], notes=[found.stamp])

    def _write_again(self) -> Result[Any]:
        from marginalsyn.evaluation.evaluation import JSON_FILE, PAGE_FILE, Evaluation, check_folder

        if self.release is not None:
            raise UsageError(
                f"release ({self.release}) goes with --public; for the curator's page of a release "
                "use `marginalsyn evaluate`"
            )
        file = Path(self.evaluation) / JSON_FILE
        try:
            found = Evaluation.from_json(file.read_text(encoding="utf-8"))
        except OSError:
            raise UsageError(
                f"evaluation ({file}) must exist: make it with `marginalsyn evaluate`, or add "
                "--public for a page from the release alone"
            ) from None
        target = Path(self.out or file.with_name(PAGE_FILE))
        check_folder(target.parent)
        write_text(target, found.to_html())
        return Result(found, found.to_json(), [str(target)], notes=[found.stamp])

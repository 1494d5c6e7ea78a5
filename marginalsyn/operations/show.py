"""``show`` and ``verify``: what a release is and cost, and whether it is whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from marginalsyn.operations.groups import OfRelease
from marginalsyn.operations.operation import PYTHON, Columns, Facts, Result, Sentence, Session

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
    statement, schema = release.statement, release.schema
    rows, weights = len(release.frame()), release.weights()
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
        ("Rows", f"{rows:,} synthetic rows by {_maker(statement)}"),
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


def _maker(statement: Statement) -> str:
    """The generator; of adopted rows the tool, and whether they were drawn here."""
    from marginalsyn.release.derivation import ADOPTED

    adopted = statement.notes.get(ADOPTED)
    if not statement.foreign or not isinstance(adopted, dict):
        return statement.generator
    return f"{adopted.get('tool')}, {adopted.get('rows')}"


def _values(column: AnyColumn, width: int = 48) -> str:
    """A column's public values in one short line."""
    from marginalsyn.table.numeric import NumberColumn

    if isinstance(column, NumberColumn):
        bounds = (column.bound(column.lower), column.bound(column.upper))
        text = " to ".join(map(_bound, bounds))
    else:
        values = [str(value) for value in column.values]
        text = ", ".join(values)
        while len(text) > width and len(values) > 1:
            values.pop()
            text = f"{', '.join(values)} and {len(column.values) - len(values)} more"
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
        from marginalsyn.certificates.measured import verify
        from marginalsyn.release.linked import open_release

        path = self.folder()
        problems, warnings = verify(path), []
        text = [f"{path}: {problem}" for problem in problems]
        if not problems:
            statement = open_release(path).statement
            warnings = list(statement.warnings)
            text = [f"{path}: {len(statement.files)} files verified; {statement.total()}"]
        data = {"release": str(path), "problems": problems, "warnings": warnings}
        return Result(problems, data, text, warnings, code=1 if problems else 0)

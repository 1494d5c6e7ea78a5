"""What commands do with linked tables: one release with a file for each of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from marginalsyn.cli import screen

if TYPE_CHECKING:
    from marginalsyn.curator import LinkedInput
    from marginalsyn.release import LinkedRelease


def show(release: LinkedRelease, as_json: bool) -> None:
    """Describe a release of linked tables."""
    from marginalsyn.cli.show import USE, values_of, write_charges

    statement, tables = release.statement, release.frames()
    if as_json:
        screen.write_json(
            {
                "release": str(release.path),
                "tables": {name: len(frame) for name, frame in tables.items()},
                "can_sample": True,
                "statement": statement.model_dump(mode="json"),
            }
        )
        return
    use = USE if statement.private else "For research only; do not publish."
    screen.write_facts(
        [
            ("Release", release.path),
            ("Tables", ", ".join(f"{n} ({len(f):,} rows)" for n, f in tables.items())),
            ("Made by", statement.generator),
            ("Guarantee", "none: seeded noise" if statement.seeded else statement.total()),
            ("Protects", statement.unit),
            ("Why", statement.why),
            ("Noise", statement.noise),
            ("Use", use),
            *([("Weights", _weights(release))] if release.weights() is not None else []),
        ]
    )
    rows: list[tuple[object, ...]] = []
    for table in release.tree.tables:
        if table.key:
            rows.append((table.name, table.key, "key", "made anew", ""))
        if table.link:
            about = f"of {table.parent}, at most {table.max_children} rows each"
            rows.append((table.name, table.link, "link", about, ""))
        rows += [(table.name, c.name, c.kind, values_of(c), c.size) for c in table.columns]
    screen.write("")
    screen.write_table(("table", "column", "kind", "values", "codes"), rows, right=("codes",))
    write_charges(statement)


def _weights(release: LinkedRelease) -> str:
    """The columns of weights, in words."""
    weights, root = release.weights(), release.tree.root.name
    names = ", ".join(map(str, weights)) if weights is not None else "none"
    return f"{names} (weights.csv, a row for each row of {root}; what hangs on it weighs the same)"


def infer(folder: str, out: Path | None, sep: str | None, quiet: bool) -> None:
    """Draft the schema of the tables in a folder."""
    from marginalsyn.curator import draft_linked
    from marginalsyn.table import DRAFT_WARNING

    notes = screen.Notes(quiet)
    with notes.progress() as progress:
        progress.report("read", text=folder)
        draft = draft_linked(folder, sep=sep)
    if out is None:
        screen.write(draft.tree.to_json())
    else:
        draft.tree.write(out)
        screen.write(str(out))
    for table in draft.tree.tables:
        about = (
            f"{table.link} of {table.parent}" if table.parent else "the root: its rows are persons"
        )
        order = f", in the order of {table.order}" if table.order else ""
        notes.say(f"{table.name}: {about}{order}; {len(table.columns)} columns")
    for remark in draft.remarks:
        notes.warn(remark)
    notes.warn(DRAFT_WARNING)
    notes.say(
        "max_children is a public number that you know of such tables: it was not read off the rows"
    )


def check(source: LinkedInput, as_json: bool) -> None:
    """Count, for the curator alone, rows without a parent and keys that several rows share."""
    found = source.open().unprotected("check keys").keys()
    if as_json:
        screen.write_json({"stamp": "not private: for the curator", "tables": found})
        return
    heads = {"rows": "rows", "lost": "without a parent", "shared": "shared keys"}
    shown = [(name, *(sums.get(one, "") for one in heads)) for name, sums in found.items()]
    screen.write_table(("table", *heads.values()), shown, right=tuple(heads.values()))
    notes, tree = screen.Notes(), source.tree
    for table in tree.tables:
        if not (shared := found[table.name].get("shared")):
            continue
        if table.parent:
            if tree.children(table.name):
                notes.warn(
                    f"{shared:,} values of {table.key} stand under several rows of {table.parent}: "
                    "what is under them belongs to all of these. If it starts again at 1 for each, "
                    "write both keys into one column"
                )
        elif not table.rows_of:
            notes.warn(f"of the rows of {table.name} with the same {table.key} one is counted")
    notes.warn("exact counts of keys: not private, for the curator")

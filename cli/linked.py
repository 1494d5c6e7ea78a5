"""What commands do with linked tables: one release with a file for each of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from marginalsyn.cli import screen

if TYPE_CHECKING:
    from marginalsyn.curator import LinkedInput


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

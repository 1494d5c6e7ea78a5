"""Can a cap be passed by under another name of the same rows?

A cap of eps 1 is spent once, through the command line. Then the same file is asked for from a
sub-folder, by a glob, through links, and by other ways to write its address. Every second run must
be refused. Names of a server's table are compared without asking the server.

    python -m benchmarks.attacks.ledger_identity
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from contextlib import chdir
from pathlib import Path

from benchmarks.attacks.relation import SCHEMA, own_ledgers, run

HOW = ("--schema", "../people.json", "--method", "independent", "--eps", 1, "-q", "--out")
ADDRESSES = (
    "postgres://you:secret@db.example/clinic?table=people",
    "postgresql://db.example:5432/clinic?table=public.people",
    "postgres://me@DB.EXAMPLE/clinic?table=people&sslmode=require",
)


def passed(place: Path) -> list[str]:
    """The names under which the cap was spent a second time."""
    home = place / "home"
    (home / "sub").mkdir(parents=True)
    (home / "people.csv").write_text("ill\n" + "yes\nno\n" * 50)
    (place / "people.json").write_text(SCHEMA)
    (home / "link.csv").symlink_to("people.csv")
    (home / "hard.csv").hardlink_to(home / "people.csv")
    with chdir(home):
        run("ledger", "cap", "--data", "people.csv", "--eps", 1)
        first = run("generate", "--data", "people.csv", *HOW, "first")
        assert first.exit_code == 0, first.output
    names = [
        (home, "peopl*.csv", "glob"),
        (home, "link.csv", "link"),
        (home, "hard.csv", "hard link"),
        (home, str(home / "sub" / ".." / "people.csv"), "absolute"),
        (place / "elsewhere", str(home / "people.csv"), "another folder"),
        (place / "elsewhere", "../home/people.csv", "another folder, relative"),
    ]
    found = []
    for number, (folder, name, how) in enumerate(names):
        folder.mkdir(exist_ok=True)
        with chdir(folder):
            if run("generate", "--data", name, *HOW, f"again-{number}").exit_code == 0:
                found.append(how)
    shutil.copy(place / "people.json", home / "people.json")
    with chdir(home / "sub"):
        if run("generate", "--data", "../people.csv", *HOW, "again").exit_code == 0:
            found.append("sub-folder")
    return found


def attack() -> str | None:
    """Under which other names the cap was passed; None where every one was refused."""
    with tempfile.TemporaryDirectory() as place, own_ledgers(Path(place)):
        found = passed(Path(place).resolve())
        files = {ledger_of(address) for address in ADDRESSES}
    if len(files) > 1:
        found.append("user, port, or host of an address")
    return f"a cap of eps 1 was spent again by way of: {', '.join(found)}" if found else None


def ledger_of(address: str) -> Path | None:
    """Where the ledger of an address lies."""
    from marginalsyn.curator import UNNAMED, open_ledger
    from marginalsyn.release.workspace import Workspace

    return open_ledger(address, UNNAMED, Workspace.here()).path


if __name__ == "__main__":
    found = attack()
    sys.stdout.write(f"{found or 'every other name was refused: one source has one ledger'}\n")
    sys.exit(found is not None)

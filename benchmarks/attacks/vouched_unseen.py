"""Does ``start`` call a schema public that it read off the rows, and that nobody has seen?

Two tables differ in one row, which has a category and a number of its own. The command may not
publish them with a statement that says the schema was not drafted from the rows: not when it asks
nothing, and not where one key answers what it asks.

    python -m benchmarks.attacks.vouched_unseen
"""

from __future__ import annotations

import json
import sys
import tempfile
from contextlib import chdir
from pathlib import Path
from unittest import mock

from click.testing import CliRunner, Result

from benchmarks.attacks.relation import own_ledgers

RARE, LARGEST = "Xanthomatosis", 987_654
START = ("start", "people.csv", "--method", "independent", "--holdout", "0")


def run(*args: str, answers: str = "") -> Result:
    """One command, at a terminal where answers are typed."""
    from marginalsyn.cli import start
    from marginalsyn.cli.main import cli

    with (
        mock.patch.object(start, "_at_terminal", return_value=bool(answers)),
        mock.patch.object(start.click, "launch"),
    ):
        return CliRunner().invoke(cli, list(args), input=answers)


def shown() -> list[str]:
    """What of the one row is in a release whose statement says that no row was read for it."""
    found = Path("release")
    if not (found / "privacy.json").exists():
        return []
    if json.loads((found / "privacy.json").read_text())["schema_drafted"]:
        return []
    text = (found / "schema.json").read_text()
    widest = max(c.get("upper", 0) for c in json.loads(text)["columns"] if c["name"] == "cost")
    # A bound that was bought may lie beyond; one that was read off lies just above the number.
    read_off = LARGEST <= widest <= 1.1 * LARGEST
    return [RARE] * (RARE in text) + [f"cost up to {widest:g}"] * read_off


# Each of the answers to a question is one key, or what Enter takes.
WAYS = {
    "--yes --public": ((*START, "--yes", "--public"), ""),
    "y to all questions": (START, "\n\n" + "y\n" * 12),
    "Enter to all questions": (START, "\n" * 12),
    "p to all questions": (START, "\n\ny\n" + "p\n" * 3 + "y\n" * 3),
}


def attack() -> str | None:
    """What of one row is called public knowledge."""
    rows = [f"{('flu', 'cold', 'cough')[i % 3]},{100 + 13 * i % 900}" for i in range(300)]
    for way, (asked, answers) in WAYS.items():
        with tempfile.TemporaryDirectory() as place, chdir(place), own_ledgers(Path(place)):
            text = "\n".join(["diagnosis,cost", *rows, f"{RARE},{LARGEST}"])
            Path("people.csv").write_text(text + "\n")
            run(*asked, answers=answers)
            if found := shown():
                return f"{way}: one row's own {' and '.join(found)}, with schema_drafted: false"
    return None


if __name__ == "__main__":
    found = attack()
    sys.stdout.write(f"{found or 'nothing of one row is called public'}\n")
    sys.exit(found is not None)

"""Does a run for replace give out what an earlier run for add-remove promised to keep private?

Both runs are on the same table and the same ledger, through the command line. Under add-remove the
number of rows is private; under replace it is public, and the release has exactly as many rows.

    python -m benchmarks.attacks.relation
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path

from click.testing import CliRunner, Result

SCHEMA = (
    '{"columns": [{"kind": "boolean", "name": "ill", "true_label": "yes", "false_label": "no"}]}'
)
ROWS = 137
GENERATE = ("generate", "--data", "people.csv", "--schema", "people.json", "-q")


def run(*args: object) -> Result:
    """One command."""
    from marginalsyn.cli.main import cli

    return CliRunner().invoke(cli, [str(arg) for arg in args])


@contextmanager
def own_ledgers(place: Path) -> Iterator[None]:
    """Keep the ledgers of the attack away from the user's."""
    name = "MARGINALSYN_LEDGERS"
    before = os.environ.get(name)
    os.environ[name] = str(place / "ledgers")
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before


def attack() -> str | None:
    """The private number of rows, read off the second release; None where that is refused."""
    with tempfile.TemporaryDirectory() as place, chdir(place), own_ledgers(Path(place)):
        Path("people.csv").write_text("ill\n" + "yes\nno\n" * (ROWS // 2) + "yes\n")
        Path("people.json").write_text(SCHEMA)
        how = ("--method", "independent", "--eps", 0.1)
        first = run(*GENERATE, *how, "--out", "first")
        assert first.exit_code == 0, first.output
        second = run(*GENERATE, *how, "--neighbours", "replace", "--out", "second")
        if second.exit_code:
            return None
        told = len(Path("second/synthetic.csv").read_text().splitlines()) - 1
    if told != ROWS:
        return None
    return f"add-remove at eps 0.1 keeps the number of rows private; replace printed it: {told}"


if __name__ == "__main__":
    found = attack()
    sys.stdout.write(f"{found or 'refused: the ledger has one relation'}\n")
    sys.exit(found is not None)

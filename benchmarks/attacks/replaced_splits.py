"""Does a release with one hold-out reveal what another one under replace promises to hide?

Both tables differ in one replaced row. A release that holds nothing out promises to protect it; a
second one, with a hold-out, has exactly as many rows as it leaves. Were both on one ledger, whose
total says eps 0.72 or so, then the number of the second one's rows would distinguish them every
time. So would two salts, since every folder draws its own, and two shares.

    python -m benchmarks.attacks.replaced_splits [RUNS]
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import chdir
from pathlib import Path

from benchmarks.attacks.relation import own_ledgers, run

ROWS = 500
RUNS = 1
SCHEMA = '{"columns": [{"kind": "integer", "name": "a", "lower": 0, "upper": 999}]}'
HOW = ("--schema", "../people.json", "--method", "independent", "--eps", 0.3, "-q")
GENERATE = ("generate", "--data", "../people.csv", *HOW, "--neighbours", "replace")


def release(folder: Path, share: float) -> int | None:
    """The number of rows that a release in a folder publishes; None where it is refused."""
    folder.mkdir(exist_ok=True)
    with chdir(folder):
        done = run(*GENERATE, "--holdout", share, "--out", f"out-{share}", "--force")
        if done.exit_code:
            assert "holdout" in done.stderr, done.output
            return None
        return len(Path(f"out-{share}/synthetic.csv").read_text().splitlines()) - 1


def write(place: Path, last: int) -> None:
    """A table whose last row is replaced; its file stays the same one."""
    rows = [*range(ROWS - 1), last]
    (place / "people.csv").write_text("a\n" + "".join(f"{row}\n" for row in rows))


def distinguished(place: Path) -> str | None:
    """How the second release distinguishes two neighbours."""
    write(place, 0)
    if release(place / "here", 0.0) is None:
        raise AssertionError("the first release must be there")
    found = []
    for last in range(ROWS, ROWS + 12):
        write(place, last)
        size = release(place / "here", 0.5)
        if size is None:
            return None
        found.append(size)
    if len(set(found)) == 1:
        return None
    return f"after a release of all rows one with a hold-out has {min(found)} or {max(found)} rows"


def splits(place: Path) -> str | None:
    """How many hold-outs one ledger allows, by other shares and by another folder's salt."""
    write(place, 0)
    shares = [release(place / "shares", share) for share in (0.4, 0.2, 0.0)]
    allowed = [size for size in shares if size is not None]
    if len(allowed) > 1:
        return f"three hold-outs publish {', '.join(map(str, allowed))} rows on one ledger"
    if release(place / "salts", 0.4) is not None:
        return "two folders with a salt each publish a number of rows each on one ledger"
    return None


def attack(runs: int = RUNS) -> str | None:
    """What two hold-outs on one ledger gave out; None where the second one was refused."""
    for number in range(runs):
        for how in (distinguished, splits):
            with tempfile.TemporaryDirectory() as name, own_ledgers(Path(name)):
                place = Path(name).resolve()
                (place / "people.json").write_text(SCHEMA)
                if found := how(place):
                    return f"{found} (run {number + 1})"
    return None


if __name__ == "__main__":
    found = attack(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS)
    sys.stdout.write(f"{found or 'refused: a ledger has one hold-out under replace'}\n")
    sys.exit(found is not None)

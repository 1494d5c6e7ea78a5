"""Random mutants of the product, and which tests catch each.

The deliberate bugs of mutations.py were chosen by people who knew the tests. These are drawn by a
seed: a comparison changed, a constant moved by one, ``and`` swapped with ``or``, ``not`` removed, a
sum made a difference, a statement deleted, two arguments swapped. Only lines that tests cover take
part, and a mutant is tried on all the tests that cover its line; none stops at the first failure,
so that the killers of two states of the tests can be compared.

    pytest -n 0 --cov --cov-context=test --cov-report= tests/records   # writes .coverage
    python benchmarks/random_mutants.py .coverage --count 100 --seed 28 --out before.jsonl
    python benchmarks/random_mutants.py --again before.jsonl --out after.jsonl

The last line tries again only those mutants whose killers are gone, on the files where these were.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import sqlite3
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from mutations import PACKAGE, ROOT, copied

SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}
# What is only read: texts (3.11 misplaces what lies inside), types, and their defaults.
SKIPPED = (ast.JoinedStr, ast.AnnAssign, ast.arguments)


@dataclass(frozen=True)
class RandomMutant:
    """One edit: the text from ``start`` to ``end`` (UTF-8 bytes) of a file becomes ``new``."""

    file: str
    line: int
    kind: str
    start: int
    end: int
    old: str
    new: str

    def apply(self, text: bytes) -> bytes:
        """The mutated text.

        Raises:
            LookupError: the snippet does not stand there any more.
        """
        if text[self.start : self.end].decode() != self.old:
            raise LookupError(
                f"{self.file}:{self.line}: {self.old!r} does not stand there any more"
            )
        return text[: self.start] + self.new.encode() + text[self.end :]


@dataclass
class Outcome:
    """The tests that were run on a mutant, and those of them that failed."""

    mutant: RandomMutant
    run: int
    killers: list[str] = field(default_factory=list)
    note: str = ""


def changes(node: ast.AST) -> Iterator[tuple[str, str]]:
    """The ways to mutate one node: a name of the change and the new text."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPPED:
        swapped = SWAPPED[type(node.ops[0])]()
        new = ast.Compare(node.left, [swapped, *node.ops[1:]], node.comparators)
        yield "comparison", f"({ast.unparse(new)})"
    elif isinstance(node, ast.BoolOp):
        yield "and/or", f"({ast.unparse(ast.BoolOp(SWAPPED[type(node.op)](), node.values))})"
    elif isinstance(node, ast.BinOp) and type(node.op) in SWAPPED:
        new = ast.BinOp(node.left, SWAPPED[type(node.op)](), node.right)
        yield "arithmetic", f"({ast.unparse(new)})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not", f"({ast.unparse(node.operand)})"
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield "constant", f"({node.value!r} + 1)"
        yield "constant", f"({node.value!r} - 1)"
    elif isinstance(node, ast.Call) and len(node.args) > 1:
        swapped_args = [node.args[1], node.args[0], *node.args[2:]]
        yield "arguments", ast.unparse(ast.Call(node.func, swapped_args, node.keywords))
    elif isinstance(node, ast.AugAssign | ast.Raise) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ):
        yield "statement", "pass"


def sites(file: str, text: bytes, lines: set[int]) -> Iterator[RandomMutant]:
    """Every mutant of a file whose line is one of these."""
    starts = [0]
    for row in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(row))
    left: list[ast.AST] = [ast.parse(text)]
    while left:
        node = left.pop()
        left += [child for child in ast.iter_child_nodes(node) if not isinstance(child, SKIPPED)]
        if not isinstance(node, ast.expr | ast.stmt) or node.lineno not in lines:
            continue
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        old = text[start:end].decode()
        for kind, new in changes(node):
            yield RandomMutant(file, node.lineno, kind, start, end, old, new)


def lines_in(bits: bytes) -> list[int]:
    """The numbers of the bits that are set: so coverage keeps lines where it keeps no branches."""
    return [
        8 * place + bit for place, byte in enumerate(bits) for bit in range(8) if byte >> bit & 1
    ]


def covering(data: Path) -> dict[str, dict[int, set[str]]]:
    """The tests that run each line of each product file, by a file of coverage with contexts."""
    found: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    with sqlite3.connect(data) as store:
        files = dict(store.execute("SELECT id, path FROM file"))
        tests = dict(store.execute("SELECT id, context FROM context WHERE context <> ''"))
        arcs = store.execute("SELECT file_id, context_id, tono FROM arc WHERE tono > 0")
        bits = store.execute("SELECT file_id, context_id, numbits FROM line_bits")
        rows = [*arcs, *((f, c, line) for f, c, held in bits for line in lines_in(held))]
    for file, test, line in rows:
        path = Path(files[file])
        path = (path.relative_to(ROOT) if path.is_absolute() else path).as_posix()
        if test in tests and path.endswith(".py") and path.split("/")[0] in PACKAGE:
            found[path][line].add(tests[test].rsplit("|", 1)[0])
    return found


def draw(
    covered: dict[str, dict[int, set[str]]], count: int, seed: int, most: int, rooms: Sequence[str]
) -> list[RandomMutant]:
    """Mutants of lines that at most so many tests cover; every kind is equally likely."""
    found: dict[str, list[RandomMutant]] = defaultdict(list)
    for file in sorted(covered):
        lines = {line for line, tests in covered[file].items() if len(tests) <= most}
        if file.startswith(tuple(rooms)):
            for mutant in sites(file, (ROOT / file).read_bytes(), lines):
                found[mutant.kind].append(mutant)
    rng = random.Random(seed)
    drawn: dict[RandomMutant, None] = {}
    while len(drawn) < min(count, sum(map(len, found.values()))):
        drawn[rng.choice(found[rng.choice(sorted(found))])] = None
    return list(drawn)


def try_on(mutant: RandomMutant, tests: Sequence[str], copy: Path, seconds: float) -> Outcome:
    """Make the edit in the copy, run all the tests, and undo the edit."""
    file = copy / mutant.file
    text, status = file.read_bytes(), file.stat()
    file.write_bytes(mutant.apply(text))
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy / "site"),
        "PYTHONSAFEPATH": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-rfE", "-p", "no:cacheprovider"]
    command += ["-p", "no:xdist", "--timeout=60", "-o", "addopts=--import-mode=importlib"]
    outcome = Outcome(mutant, len(tests))
    try:
        done = subprocess.run(
            [*command, *tests],
            cwd=copy,
            env=environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        for row in done.stdout.splitlines():
            if row.startswith(("FAILED ", "ERROR ")):
                outcome.killers.append(row.split(" ", 1)[1].split(" - ")[0])
        if done.returncode not in (0, 1) and not outcome.killers:
            outcome.note = (done.stdout[-200:] + done.stderr[-200:]).strip()
    except subprocess.TimeoutExpired:
        outcome.note = "timeout"
    finally:
        file.write_bytes(text)
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    return outcome


def read(path: Path) -> list[Outcome]:
    """The outcomes of a run."""
    rows = [json.loads(row) for row in path.read_text(encoding="utf-8").splitlines()]
    return [Outcome(RandomMutant(**row.pop("mutant")), **row) for row in rows]


def collected(files: Sequence[str]) -> set[str]:
    """The tests that there are now in these files."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    command += ["-p", "no:xdist", "-o", "addopts=--import-mode=importlib", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return {line for line in done.stdout.splitlines() if "::" in line}


def without_killer(before: Sequence[Outcome]) -> list[tuple[RandomMutant, list[str]]]:
    """The mutants that were caught by tests that are gone, and the files of these to try again."""
    places = {id(one): sorted({test.split("::")[0] for test in one.killers}) for one in before}
    there = {file for files in places.values() for file in files if (ROOT / file).exists()}
    present = collected(sorted(there))
    return [
        (one.mutant, [file for file in places[id(one)] if file in there])
        for one in before
        if one.killers and present.isdisjoint(one.killers)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("coverage", type=Path, nargs="?", help="a file of coverage, with contexts")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rooms", nargs="+", default=[""], help="folders that they lie in")
    parser.add_argument("--most", type=int, default=120, help="tests that may cover a line")
    parser.add_argument("--seconds", type=float, default=300, help="for the tests of one mutant")
    parser.add_argument("--again", type=Path, help="the outcomes of an earlier state of the tests")
    parser.add_argument("--out", type=Path, required=True, help="where outcomes are appended")
    given = parser.parse_args()
    if bool(given.coverage) == bool(given.again):
        parser.error("give a file of coverage, or --again")
    if given.again:
        before = read(given.again)
        tries = without_killer(before)
        print(f"{len(tries)} of {sum(bool(one.killers) for one in before)} lost their killers")
    else:
        covered = covering(given.coverage)
        chosen = draw(covered, given.count, given.seed, given.most, given.rooms)
        tries = [(one, sorted(covered[one.file][one.line])) for one in chosen]
    caught = 0
    with copied() as copy:
        for mutant, tests in tries:
            outcome = try_on(mutant, tests, copy, given.seconds)
            caught += bool(outcome.killers)
            with given.out.open("a", encoding="utf-8") as out:
                out.write(json.dumps(asdict(outcome)) + "\n")
            fate = f"{len(outcome.killers)} of {outcome.run}" if outcome.killers else "SURVIVED"
            place = f"{mutant.file}:{mutant.line}"
            print(f"{place} {mutant.old!r} -> {mutant.new!r}: {fate} {outcome.note}", flush=True)
    print(f"{caught} of {len(tries)} caught")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Fuzz everything that reads what somebody else wrote: schemas, tables, releases, command lines.

A target takes bytes. It may refuse them with an error of marginalsyn's own; anything else that it
raises is a finding. Inputs are mutated from seeds and from what reached new lines: by atheris
(https://github.com/google/atheris) where it is installed, else by a small loop of our own over
lines seen by sys.settrace.

    python benchmarks/fuzz.py --minutes 10
    python benchmarks/fuzz.py --minutes 1 release-json weights
    python benchmarks/fuzz.py --minutes 2 values-csv values-frame values-parquet values-duckdb
    python benchmarks/fuzz.py --replay              # the corpus, once

Findings are written to tests/corpus/TARGET/, where the tests replay them.
"""

from __future__ import annotations

import argparse
import base64
import copy
import hashlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from fuzz_targets import CORPUS, TARGETS, parsed, run_target, seeds

MOST_BYTES = 20_000
_TOKENS = [b"\x00", b"\xff", b'"', b"\n", b"\r", b",", b"NaN", b"1e999", b"-1", b"[", b"{", b"../"]
_VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1, 2, 3.5, 10**9, 2**63, -(2**63), 1e308, float("nan"), -1e-9),
    *(
        "",
        "a",
        "\x00",
        "\ud800",
        "é",
        "../x",
        "A" * 300,
        [],
        {},
        [[]],
        [None],
        {"": ""},
        ["a", "a"],
    ),
]


def mutate(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """One or a few changes: of a JSON value where there is one, of words, lines, or bytes."""
    start = 1 if data[:1] and data[:1] not in b'{["' and data[1:2] in (b"{", b"[") else 0
    for _ in range(rng.choice((1, 1, 2, 4))):
        value = parsed(data[start:]) if rng.random() < 0.8 else None
        if value is not None:
            changed = _mutate_json(value, rng)
            try:
                data = data[:start] + json.dumps(changed).encode()
                continue
            except (ValueError, RecursionError):
                pass
        data = _mutate_bytes(data, rng, others)
    return data[:MOST_BYTES]


def _mutate_json(value: Any, rng: random.Random) -> Any:
    """Change one place of a JSON value: replace, remove, double, or rename."""
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        items = node.items() if isinstance(node, dict) else enumerate(node)
        for key, child in items:
            places.append((node, key))
            if isinstance(child, dict | list):
                walk(child)

    if not isinstance(value, dict | list) or not value or rng.random() < 0.02:
        return copy.deepcopy(rng.choice(_VALUES))
    walk(value)
    node, key = rng.choice(places)
    way = rng.random()
    if way < 0.55:
        other, place = rng.choice(places)
        node[key] = rng.choice(_VALUES) if rng.random() < 0.7 else copy.deepcopy(other[place])
    elif way < 0.75:
        del node[key]
    elif isinstance(node, list):
        node.insert(rng.randrange(len(node) + 1), copy.deepcopy(node[key]))
    else:
        other, place = rng.choice(places)
        node[str(place) if rng.random() < 0.7 else rng.choice(["", "x", "é"])] = copy.deepcopy(
            node[key]
        )
    return value


def _mutate_bytes(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    if not data:
        return rng.choice(_TOKENS)
    at, size = rng.randrange(len(data)), rng.choice((1, 1, 4, 32))
    way = rng.randrange(7)
    if way == 0:
        return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
    if way == 1:
        return data[:at] + rng.choice(_TOKENS) + data[at:]
    if way == 2:
        return data[:at] + data[at + size :]
    if way == 3:
        return data[:at] + data[at : at + size] * rng.choice((2, 3, 20)) + data[at + size :]
    if way == 4:
        other = rng.choice(others)
        return data[:at] + other[rng.randrange(len(other) + 1) :]
    if way == 5:
        numbers = list(re.finditer(rb"-?\d+(\.\d+)?", data))
        if numbers:
            found = rng.choice(numbers)
            new = rng.choice([b"0", b"-1", b"1e400", b"NaN", b"", b"99999999999999999999", b"0.5"])
            return data[: found.start()] + new + data[found.end() :]
    lines = data.split(b"\n")
    rng.shuffle(lines) if rng.random() < 0.3 else lines.insert(
        rng.randrange(len(lines)), rng.choice(lines)
    )
    return b"\n".join(lines)


# -- engines --------------------------------------------------------------------------------------


class Lines:
    """The lines of marginalsyn that a call runs through."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, int]] = set()

    def trace(self, frame: FrameType, event: str, arg: object) -> Any:
        name = frame.f_code.co_filename
        if not any(part in name for part in ("/marginalsyn/", "/cli/", "/plugins/")):
            return None
        if event == "line":
            self.seen.add((name, frame.f_lineno))
        return self.trace

    def of(self, call: Callable[[], Any]) -> tuple[Any, set[tuple[str, int]]]:
        """What a call returns, and its lines."""
        self.seen = set()
        sys.settrace(self.trace)
        try:
            result = call()
        finally:
            sys.settrace(None)
        return result, self.seen


def hunt(name: str, seconds: float, seed: int) -> dict[str, Any]:
    """Mutate inputs for so long, keeping those that reach new lines; return what was found."""
    rng, lines = random.Random(f"{seed} {name}"), Lines()
    pool = seeds(name)
    known: set[tuple[str, int]] = set()
    findings: dict[str, bytes] = {}
    tried, ends = 0, time.monotonic() + seconds

    def attempt(data: bytes) -> bool:
        nonlocal tried
        tried += 1
        if name.startswith("values-"):
            # What reaches new lines there is the type, of which every one is a seed.
            problem, seen = run_target(name, data), set()
        else:
            problem, seen = lines.of(lambda: run_target(name, data))
        new = not seen <= known
        known.update(seen)
        if problem is not None:
            findings.setdefault(problem.split(":  ")[0].partition(": ")[0], data)
        return new

    # Where time is short, not always the same ones.
    for data in rng.sample(pool, len(pool)):
        if time.monotonic() < ends:
            attempt(data)
    while pool and time.monotonic() < ends:
        # Newer inputs are nearer to what is not reached yet.
        place = (
            int(len(pool) * (1 - rng.random() ** 2))
            if rng.random() < 0.7
            else rng.randrange(len(pool))
        )
        data = mutate(pool[min(place, len(pool) - 1)], rng, pool)
        if attempt(data):
            pool.append(data)
    return {"target": name, "inputs": tried, "lines": len(known), "findings": findings}


def hunt_with_atheris(name: str, seconds: float, seed: int) -> dict[str, Any]:
    """The same, with atheris choosing the inputs; in this process, which it ends."""
    import atheris

    with atheris.instrument_imports(include=["marginalsyn"], enable_loader_override=False):
        import marginalsyn.host
        import marginalsyn.release.folder
        import marginalsyn.table.schema  # noqa: F401
    findings: dict[str, bytes] = {}
    rng, pool = random.Random(seed), seeds(name)
    state = {"inputs": 0}
    started = time.monotonic()

    def report() -> None:
        told = {k: base64.b64encode(v).decode() for k, v in findings.items()}
        print(json.dumps({"target": name, **state, "findings": told}), flush=True)

    def one(data: bytes) -> None:
        state["inputs"] += 1
        problem = run_target(name, data)
        if problem is not None:
            findings.setdefault(problem.partition(": ")[0], data)
        if time.monotonic() - started > seconds:
            report()
            os._exit(0)

    def own(data: bytes, most: int, number: int) -> bytes:
        rng.seed(number)
        return mutate(data, rng, pool)[:most]

    with tempfile.TemporaryDirectory() as folder:
        for number, data in enumerate(pool):
            (Path(folder) / str(number)).write_bytes(data)
        options = [f"-max_total_time={int(seconds)}", f"-max_len={MOST_BYTES}", f"-seed={seed + 1}"]
        options.append(f"-artifact_prefix={folder}/")
        atheris.Setup([sys.argv[0], *options, folder], one, custom_mutator=own)
        atheris.Fuzz()
    raise AssertionError("atheris ends the process")


def has_atheris() -> bool:
    """Whether atheris is installed."""
    from importlib.util import find_spec

    return find_spec("atheris") is not None


def _hunt_apart(name: str, seconds: float, seed: int, engine: str) -> dict[str, Any]:
    """Hunt in a process of its own, which may die: that is a finding, too."""
    command = [sys.executable, __file__, "--child", name, "--minutes", str(seconds / 60)]
    command += ["--seed", str(seed), "--engine", engine]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    told = [line for line in done.stdout.splitlines() if line.startswith('{"target"')]
    if not told:
        died = {f"process died with {done.returncode}": b""}
        print(done.stderr[-1500:], file=sys.stderr)
        return {"target": name, "inputs": 0, "findings": died}
    found = json.loads(told[-1])
    found["findings"] = {k: base64.b64decode(v) for k, v in found["findings"].items()}
    return found


def replay() -> Iterator[tuple[str, str | None]]:
    """Every case of the corpus, and what is wrong with it now."""
    for path in sorted(CORPUS.glob("*/*")):
        yield f"{path.parent.name}/{path.name}", run_target(path.parent.name, path.read_bytes())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []], metavar="TARGET")
    parser.add_argument("--minutes", type=float, default=5.0, help="for all targets together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engine", choices=["atheris", "lines"], default=None)
    parser.add_argument("--replay", action="store_true", help="run the corpus once")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    engine = given.engine or ("atheris" if has_atheris() else "lines")
    if given.child:
        own = engine == "lines" or given.child.startswith("values-")
        hunter = hunt if own else hunt_with_atheris
        found = hunter(given.child, given.minutes * 60, given.seed)
        told = {k: base64.b64encode(v).decode() for k, v in found["findings"].items()}
        print(json.dumps({**found, "findings": told}))
        return 0
    if given.replay:
        wrong = [(case, problem) for case, problem in replay() if problem]
        print("\n".join(f"{case}: {problem}" for case, problem in wrong) or "nothing found")
        return 1 if wrong else 0
    names = given.targets or [name for name in TARGETS if name != "values-spark"]
    print(f"engine: {engine}\n\n| target | inputs | findings |\n|---|---|---|", flush=True)
    total, wrong = 0, 0
    for name in names:
        found = _hunt_apart(name, given.minutes * 60 / len(names), given.seed, engine)
        for problem, data in found["findings"].items():
            folder = CORPUS / name
            folder.mkdir(parents=True, exist_ok=True)
            (folder / hashlib.sha256(data).hexdigest()[:12]).write_bytes(data)
            print(f"{name}: {problem}", file=sys.stderr)
        total, wrong = total + found["inputs"], wrong + len(found["findings"])
        print(f"| {name} | {found['inputs']:,} | {len(found['findings'])} |", flush=True)
    print(f"\n{total:,} inputs, {wrong} findings")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

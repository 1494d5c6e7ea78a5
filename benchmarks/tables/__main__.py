"""Many methods on the same splits: runs in chunks that add up in one results file.

    python benchmarks/tables --tables heart adult --eps 0.25 0.5 1 2 4 --runs 10 --minutes 9
    python benchmarks/tables --coded adult=ADULT.csv,ADULT.json,income>50K --methods aim auto
    python benchmarks/tables --methods dpmm-mst dpsynth-swift --python dpmm=PY dpsynth=PY
    python benchmarks/tables --report
    python benchmarks/tables --kept-out --runs 2

A run is one release of one method on one split. Runs that the results file has are not made again,
so the same line goes on where the last one stopped; a run that failed or took too long is noted
with its reason. Run r uses split r, the same for every method. Noise is what each tool draws.
``--report`` writes the tables (median and spread between releases) and the picture. ``--kept-out``
runs our methods on the tables that had no part in choosing a default, with a results file of their
own, and writes whether `auto` is within 3% of the best of them in two-way TV and within .003 in
excess.

Peers run in environments of their own, named by ``--python TOOL=PATH``: dpmm, smartnoise
(smartnoise-synth), opendp (``opendp[mbi,polars]``), dpsynth (its requirements; its checkout is
named by ``DPSYNTH`` in the environment). All get the same codes and the same (eps, delta).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tables.cases import KEPT_OUT, Case, bundled, coded

RESULTS = Path(__file__).parents[1] / "results" / "tables.jsonl"


def case_of(where: list[str]) -> Case:
    """The case that words name: ``NAME SPLIT`` or ``NAME CSV DOMAIN LABEL SPLIT``."""
    name, *files, split = where
    return coded(name, *files, int(split)) if files else bundled(name, int(split))


def main() -> None:
    """Run what is missing, or write the report."""
    from tables.judging import judge
    from tables.making import OURS, line, make, python_of
    from tables.report import write, write_goals

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="*", default=[])
    parser.add_argument("--coded", nargs="*", default=[], metavar="NAME=CSV,DOMAIN,LABEL")
    parser.add_argument("--methods", nargs="+", default=list(OURS))
    parser.add_argument("--eps", nargs="+", type=float)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=9, help="begin no run after so long")
    parser.add_argument("--limit", type=float, default=300, help="seconds that one run may take")
    parser.add_argument("--python", nargs="*", default=[], metavar="TOOL=PATH")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--kept-out", action="store_true")
    args = parser.parse_args()
    if args.kept_out:
        args.tables = args.tables or list(KEPT_OUT)
    args.results = args.results or (
        RESULTS.with_name("kept_out.jsonl") if args.kept_out else RESULTS
    )
    args.eps = args.eps or ([0.5, 1, 2] if args.kept_out else [0.25, 0.5, 1, 2, 4])
    if args.report:
        (write_goals if args.kept_out else write)(args.results)
        return
    places = [[name] for name in args.tables]
    for told in args.coded:
        name, _, files = told.partition("=")
        places.append([name, *files.split(",")])
    until, pythons = time.monotonic() + 60 * args.minutes, python_of(args.python)
    known = read(args.results)
    for run in range(args.runs):
        for place in places:
            case = None
            for method in args.methods:
                budgets = [e for e in args.eps if (place[0], method, e, run) not in known]
                if not budgets or time.monotonic() > until:
                    continue
                where = [*place, str(run)]
                case = case or case_of(where)
                made = make(case, method, sorted(budgets), where, pythons, args.limit)
                for eps, found in made.items():
                    facts = {"table": place[0], "method": method, "eps": eps, "run": run}
                    if isinstance(found, str):
                        facts["failed"] = found
                    else:
                        codes, cost = found
                        facts |= {**judge(case, codes), **cost, "delta": case.delta}
                    with args.results.open("a", encoding="utf-8") as handle:
                        handle.write(line(facts))
                    print(line(facts), end="", flush=True)
    if args.kept_out:
        write_goals(args.results)


def read(path: Path) -> set[tuple[str, str, float, int]]:
    """The runs that the results file has."""
    if not path.exists():
        return set()
    lines = [json.loads(one) for one in path.read_text(encoding="utf-8").splitlines()]
    return {(one["table"], one["method"], one["eps"], one["run"]) for one in lines}


if __name__ == "__main__":
    main()

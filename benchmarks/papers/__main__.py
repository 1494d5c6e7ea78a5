"""The papers' tables and figures by one command.

    python -m benchmarks.papers 003 --data FOLDER --quick
    python -m benchmarks.papers 003 --data FOLDER --cache 003.jsonl --minutes 10   # repeat
    python -m benchmarks.papers 002 --exhibits "Table 3.2" --runs 3
    python -m benchmarks.papers 001 --report --cache 001.jsonl
    python -m benchmarks.papers 003 --report --cache 003.jsonl --exhibits "Figure 4" --picture 4.png

000 and 001 are Ghalebikesabi et al. (the first version, arXiv 2108.10934v1, and UAI 2022), 002 is
Diesendruck's dissertation (2019), 003 is Zhou et al. (ICML 2024). FOLDER holds the tables that are
not bundled, under the names that a run without them prints; it never downloads anything.
``--quick`` takes few tables, budgets and releases: minutes instead of hours. With ``--cache`` what
was found is kept, so that the same line goes on where the last one stopped.
"""

from __future__ import annotations

import argparse
import importlib
import warnings
from pathlib import Path

from benchmarks.papers.exhibits import Ask, report, run
from benchmarks.papers.picture import draw

PAPERS = ("000", "001", "002", "003")


def main() -> None:
    """Run what is missing and print the report."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("paper", choices=PAPERS)
    parser.add_argument("--data", type=Path, help="folder with the tables that are not bundled")
    parser.add_argument("--quick", action="store_true", help="few places and releases")
    parser.add_argument("--exhibits", nargs="+", default=[], help='such as "Table 2"')
    parser.add_argument("--places", default="", help="only places that contain this text")
    parser.add_argument("--runs", type=int, help="releases of each place [10; 2 with --quick]")
    parser.add_argument("--minutes", type=float, default=1e6, help="start no run after these")
    parser.add_argument("--cache", type=Path, help="a file of JSON lines that keeps what was found")
    parser.add_argument("--report", action="store_true", help="run nothing, print what is kept")
    parser.add_argument("--picture", type=Path, help="draw what is over budgets into this file")
    args = parser.parse_args()
    if args.data is not None and not args.data.is_dir():
        parser.error(f"--data ({args.data}) must be a folder")
    if args.report and args.cache is None:
        parser.error("--report needs the --cache that holds what was found")
    if args.runs is not None and args.runs < 1:
        parser.error(f"--runs ({args.runs}) must be 1 or more")
    warnings.simplefilter("ignore")
    paper = importlib.import_module(f"benchmarks.papers.paper_{args.paper}")
    ask = Ask(data=args.data, quick=args.quick)
    wanted = [
        job
        for job in paper.jobs(ask)
        if (not args.exhibits or job.exhibit in args.exhibits) and args.places in job.place
    ]
    if args.exhibits and not wanted:
        known = sorted({job.exhibit for job in paper.jobs(ask)})
        parser.error(f"--exhibits {args.exhibits} must be some of: {', '.join(known)}")
    runs = 0 if args.report else args.runs or (2 if args.quick else 10)
    found = run(wanted, runs=runs, minutes=args.minutes, cache=args.cache)
    print(report(paper, wanted, found, ask))
    if args.picture is not None and not draw(wanted, found, args.picture):
        parser.error(f"--picture ({args.picture}) has nothing to draw: take exhibits over budgets")


if __name__ == "__main__":
    main()

"""Runs of a paper's exhibits, what was found of them, and the verdict beside what was printed."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

Key = tuple[str, str]
Found = dict[Key, dict[int, dict[str, float]]]


@dataclass(frozen=True, kw_only=True)
class Ask:
    """What the command line asks of a paper.

    Attributes:
        data: the folder with tables that are not bundled, if any.
        quick: few places.
    """

    data: Path | None = None
    quick: bool = False


@dataclass(frozen=True)
class Job:
    """One place of an exhibit.

    Attributes:
        exhibit: such as "Table 2".
        place: the table, budget and whatever else tells it from the exhibit's other places.
        find: the figures of one run, by the run's number.
        most: more runs than these make no sense.
    """

    exhibit: str
    place: str
    find: Callable[[int], Mapping[str, float]]
    most: int = 10**6


class Paper(Protocol):
    """What a paper's module tells."""

    TITLE: str
    # By exhibit, place and measure: the figure that the paper prints.
    PUBLISHED: Mapping[tuple[str, str, str], float]
    # Measures of which more is better.
    MORE: frozenset[str]

    def jobs(self, ask: Ask) -> Iterable[Job]:
        """All places whose tables are at hand."""

    def missing(self, ask: Ask) -> Sequence[str]:
        """The tables that are not, and what becomes of their places."""

    def remarks(self, found: Found) -> Sequence[str]:
        """What the figures say together."""


def run(jobs: Sequence[Job], *, runs: int, minutes: float, cache: Path | None) -> Found:
    """Do the runs that are not kept yet, run after run, until the minutes are over."""
    found = read(cache)
    end = time.monotonic() + 60 * minutes
    for number in range(runs):
        for job in jobs:
            key = (job.exhibit, job.place)
            if number in found.get(key, {}) or number >= job.most:
                continue
            if time.monotonic() > end:
                return found
            started = time.process_time()
            told = {name: float(value) for name, value in job.find(number).items()}
            found.setdefault(key, {})[number] = told
            seconds = time.process_time() - started
            print(f"{job.exhibit}, {job.place}, run {number}: {seconds:.1f} s", file=sys.stderr)
            if cache is not None:
                line = {"exhibit": job.exhibit, "place": job.place, "run": number, "found": told}
                with cache.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({**line, "seconds": round(seconds, 2)}) + "\n")
    return found


def read(cache: Path | None) -> Found:
    """What was found before."""
    found: Found = {}
    if cache is None or not cache.exists():
        return found
    for text in cache.read_text(encoding="utf-8").splitlines():
        line: dict[str, Any] = json.loads(text)
        place = found.setdefault((line["exhibit"], line["place"]), {})
        place[line["run"]] = line["found"]
    return found


def verdict(printed: float | None, values: np.ndarray, more: bool) -> str:
    """Ours against the paper's figure, by two standard errors of ours.

    Example:
        >>> verdict(0.5, np.array([0.4, 0.41, 0.39]), more=False)
        'better'
        >>> verdict(0.5, np.array([0.4]), more=True)
        'worse, one release'
        >>> verdict(None, np.array([0.4]), more=True)
        'no figure at hand'
    """
    held = values[np.isfinite(values)]
    if printed is None:
        return "no figure at hand"
    if not held.size:
        return "not defined"
    gap = (float(held.mean()) - printed) * (1 if more else -1)
    if held.size == 1:
        return ("better" if gap > 0 else "worse" if gap < 0 else "par") + ", one release"
    error = float(held.std(ddof=1)) / math.sqrt(held.size)
    return "par" if abs(gap) <= 2 * error else "better" if gap > 0 else "worse"


def report(paper: Paper, jobs: Sequence[Job], found: Found, ask: Ask) -> str:
    """A Markdown table for each exhibit, what is missing, and what the figures say together."""
    parts = [f"# {paper.TITLE}"]
    for exhibit in dict.fromkeys(job.exhibit for job in jobs):
        lines = [
            f"## {exhibit}\n",
            "| place | measure | paper | ours | releases | verdict |",
            "|---|---|---|---|---|---|",
        ]
        for job in jobs:
            runs = found.get((exhibit, job.place), {}) if job.exhibit == exhibit else {}
            for measure in dict.fromkeys(name for told in runs.values() for name in told):
                values = np.array([told[measure] for told in runs.values() if measure in told])
                printed = paper.PUBLISHED.get((exhibit, job.place, measure))
                shown = "–" if printed is None else f"{printed:.4g}"
                said = verdict(printed, values, measure in paper.MORE)
                cells = [job.place, measure, shown, mean_and_spread(values), str(len(values)), said]
                lines.append(f"| {' | '.join(cells)} |")
        parts.append("\n".join(lines) if len(lines) > 3 else f"## {exhibit}\n\nnothing was run")
    said = [f"* {one}" for one in (*paper.remarks(found), *paper.missing(ask))]
    return "\n\n".join([*parts, "\n".join(said)])


def mean_and_spread(values: np.ndarray) -> str:
    """The mean, and the standard deviation between releases where there are several.

    Example:
        >>> mean_and_spread(np.array([0.1, 0.2]))
        '0.15 ± 0.0707'
    """
    if len(values) < 2:
        return f"{float(values[0]):.3g}" if len(values) else ""
    return f"{float(values.mean()):.3g} ± {float(values.std(ddof=1)):.2g}"


def mean_of(found: Found, exhibit: str, place: str, measure: str) -> float:
    """The mean over runs of one figure; not a number where there is none."""
    values = [told[measure] for told in found.get((exhibit, place), {}).values() if measure in told]
    return float(np.mean(values)) if values else math.nan

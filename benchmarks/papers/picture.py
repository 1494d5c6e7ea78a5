"""A picture of exhibits over budgets: a panel for a table, a line for a measure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.papers.exhibits import Found, Job

# "heart, eps 0.25": a table and a budget, and nothing else.
_PLACE = re.compile(r"([^,]+), eps ([\d.]+)")
COLUMNS = 3


def draw(jobs: Sequence[Job], found: Found, path: Path) -> int:
    """Draw what was found, over eps, and return the number of panels; none draws nothing."""
    panels: dict[tuple[str, str], dict[str, dict[float, float]]] = {}
    for job in jobs:
        place = _PLACE.fullmatch(job.place)
        for told in found.get((job.exhibit, job.place), {}).values() if place else ():
            lines = panels.setdefault((job.exhibit, place[1]), {})  # type: ignore[index]
            for measure in told:
                runs = found[job.exhibit, job.place].values()
                mean = float(np.mean([run[measure] for run in runs if measure in run]))
                lines.setdefault(measure, {})[float(place[2])] = mean  # type: ignore[index]
    if not panels:
        return 0
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    down = -(-len(panels) // COLUMNS)
    figure, axes = plt.subplots(
        down, COLUMNS, figsize=(3.3 * COLUMNS, 2.5 * down), squeeze=False, layout="constrained"
    )
    for box in axes.flat[len(panels) :]:
        box.axis("off")
    for box, ((exhibit, table), lines) in zip(axes.flat, panels.items(), strict=False):
        for measure, points in lines.items():
            box.plot(*zip(*sorted(points.items()), strict=True), ".-", label=measure)
        box.set_title(f"{exhibit}, {table}", size=9)
        box.set_xlabel("eps", size=8)
        box.tick_params(labelsize=8)
        box.legend(frameon=False, fontsize=7)
    figure.savefig(path, dpi=110)
    return len(panels)

"""Draws docs/images/support-points.png: what each private form makes of a two-dimensional mixture.

python benchmarks/support_points_picture.py [docs/images/support-points.png]
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from support_points_energy import released

from marginalsyn.plugins.points.energy import energy_distance
from marginalsyn.plugins.points.support import support_points
from marginalsyn.privacy.budget import Budget

LEVELS = (0.5, 1.0, 5.0)
POINTS = 50
CHAIN = {"steps": 50_000, "burn": 10_000, "chains": 1}
FORMS = {
    "released potential\n(support-points-gp)": ("support-points-gp", {}),
    "herding\n(support-points-herding)": ("support-points-herding", {}),
    "Metropolis-Hastings,\nroot energy": ("support-points", CHAIN),
    "Metropolis-Hastings,\nenergy": ("support-points", {**CHAIN, "score": "energy"}),
}


def mixture(rows: int = 2000) -> np.ndarray:
    """A ring, a ridge and a cluster."""
    rng = np.random.default_rng(3)
    kind = rng.choice(3, rows, p=[0.4, 0.35, 0.25])
    angle = rng.uniform(0, 2 * np.pi, rows)
    ring = np.column_stack([0.3 + 0.18 * np.cos(angle), 0.65 + 0.18 * np.sin(angle)])
    along = rng.uniform(0, 1, rows)
    ridge = np.column_stack([0.45 + 0.45 * along, 0.1 + 0.5 * along])
    places = np.choose(kind[:, None], [ring, ridge, np.array([0.8, 0.85])])
    return np.clip(places + 0.025 * rng.standard_normal((rows, 2)), 0, 1)


def main() -> None:
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images/support-points.png")
    rows = mixture()
    figure, axes = plt.subplots(
        len(LEVELS), len(FORMS) + 1, figsize=(2.3 * (len(FORMS) + 1), 2.35 * len(LEVELS))
    )
    best = support_points(rows, POINTS, np.random.default_rng(0), starts=4)
    for line, eps in zip(axes, LEVELS, strict=True):
        for axis in line:
            axis.scatter(*rows.T, s=1, color="0.8", linewidths=0)
            axis.set(xlim=(0, 1), ylim=(0, 1), xticks=[], yticks=[], aspect="equal")
        line[0].set_ylabel(f"eps = {eps:g}", fontsize=11)
        line[0].scatter(*best.T, s=9, color="black")
        line[0].set_xlabel(f"energy {energy_distance(rows, best):.4f}", fontsize=8)
        for axis, (method, options) in zip(line[1:], FORMS.values(), strict=True):
            points = released(rows, method, Budget(eps=eps), 1, points=POINTS, **options)
            axis.scatter(*points.T, s=9, color="tab:red")
            axis.set_xlabel(f"energy {energy_distance(rows, points):.4f}", fontsize=8)
    for axis, title in zip(
        axes[0], ["data, and support points\n(not private)", *FORMS], strict=True
    ):
        axis.set_title(title, fontsize=8)
    figure.tight_layout()
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=110)


if __name__ == "__main__":
    main()

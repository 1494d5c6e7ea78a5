"""Trade-off curves on the worst tables that are known, beside the claimed ones, as Markdown.

python benchmarks/tight_audits.py                        # noise as users get it
python benchmarks/tight_audits.py aim mst --draws 200000
python benchmarks/tight_audits.py --seed 1 --draws 1000000   # the same laws, many times as fast
"""

from __future__ import annotations

import argparse
import math

from curves import draw_curve

from marginalsyn.plugins.audit.canaries import cases_of
from marginalsyn.plugins.audit.scoring import gaussian_eps
from marginalsyn.plugins.audit.worst import BUDGETS, worst_of
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.privacy.noise import make_noise
from marginalsyn.privacy.zcdp import DEFAULT_DELTA
from marginalsyn.registry import GENERATORS

METHODS = (
    "aim",
    "all-marginals",
    "clique-tree",
    "fixed-marginals",
    "independent",
    "mst",
    "privbayes",
    "support-points-herding",
)
HEAD = (
    "method | neighbours | claimed eps | rho | mu | exact | measured | bound | zCDP bound | "
    "eps of the worst pair / claimed | draws"
)


def main() -> None:
    """Print one line for each method, relation and eps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("methods", nargs="*", default=METHODS)
    parser.add_argument("--draws", type=int, default=20_000)
    parser.add_argument("--seed", type=int)
    given = parser.parse_args()
    print(f"| {HEAD} |\n|{' --- |' * (HEAD.count('|') + 1)}", flush=True)
    for method in given.methods:
        for relation in Neighbours:
            first = None
            for eps in BUDGETS:
                (case, *_) = cases_of(GENERATORS, method, eps=eps, neighbours=[relation])
                worst = worst_of(case, first=first)
                first = worst.place
                # A selection is drawn one at a time.
                draws = given.draws // 10 if worst.selection else given.draws
                curve = draw_curve(worst, make_noise(given.seed), draws)
                exact = math.sqrt(worst.share)
                pair = gaussian_eps(exact * math.sqrt(2 * worst.charged), DEFAULT_DELTA)
                print(
                    f"| {method} | {relation} | {eps:g} | {worst.charged:.4g} | "
                    f"{curve.claimed:.4g} | {exact:.3f} | {curve.measured:.3f} | "
                    f"{curve.bound:.3f} | {curve.rho:.3f} | {pair / eps:.3f} | {draws:,} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()

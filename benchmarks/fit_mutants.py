"""Deliberate bugs in what a fit makes of noisy answers: nothing leaks, the rows are wrong."""

from __future__ import annotations

from mutants import Mutant

COLUMN_COUNTS = "marginalsyn/graphical/column_counts.py"
SETTLED = "tests/graphical/test_column_counts.py"

FITS = (
    Mutant(
        "shapes-not-weighed",
        "even and spiky columns are settled alike, whatever the answers say",
        COLUMN_COUNTS,
        "shares = np.exp(np.array(evidence) - max(evidence))",
        "shares = np.ones(len(evidence))",
        (SETTLED,),
    ),
    Mutant(
        "surplus-off-every-count-alike",
        "what the answers' sum shows of the noise is taken off sure counts too",
        COLUMN_COUNTS,
        "(total - values.sum()) * variance / variance.sum()",
        "(total - values.sum()) / values.size",
        (SETTLED,),
    ),
    Mutant(
        "noise-thought-half",
        "settled counts follow noise that the answers' law explains",
        COLUMN_COUNTS,
        "sigma = np.sqrt(variance * (",
        "sigma = 0.5 * np.sqrt(variance * (",
        (SETTLED,),
    ),
)

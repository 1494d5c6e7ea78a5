"""Deliberate bugs in what is made of noisy answers: nothing leaks, rows or intervals are wrong."""

from __future__ import annotations

from mutants import Mutant

COLUMN_COUNTS = "marginalsyn/graphical/shrunken_fit.py"
SETTLED = "tests/graphical/test_column_counts.py"
LIMITS = "tests/answers/test_limits.py"

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
    Mutant(
        "measured-share-ignored",
        "what a release never measured gets an interval, as narrow as if it had been",
        "marginalsyn/answers/estimation.py",
        "return np.asarray(self.measured_share >= ANSWERED)",
        "return np.ones(len(self.value), dtype=bool)",
        (LIMITS, "-k", "triple"),
    ),
    Mutant(
        "unmeasured-rest-forgotten",
        "what was measured in part gets the interval of what was measured whole",
        "marginalsyn/answers/estimation.py",
        "self.unmeasured = left * (UNMEASURED**2 if isinstance(evidence, Evidence) else 0.0)",
        "self.unmeasured = left * 0.0",
        (LIMITS, "-k", "usually"),
    ),
    Mutant(
        "combined-whatever-was-measured",
        "tables that cannot vary in a term give it a narrow interval",
        "marginalsyn/answers/combining.py",
        "- within < _TOO_LITTLE * sampling:",
        "- within < -1e9:",
        ("tests/answers/test_combining.py", "-k", "vary"),
    ),
)

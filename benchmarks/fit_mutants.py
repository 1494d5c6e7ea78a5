"""Deliberate bugs in what is made of noisy answers: nothing leaks, rows or intervals are wrong."""

from __future__ import annotations

from mutants import Mutant

COLUMN_COUNTS = "marginalsyn/graphical/shrunken_fit.py"
SETTLED = "tests/graphical/test_column_counts.py"
CHAINS, CHAIN_MODEL = (f"marginalsyn/graphical/{name}.py" for name in ("row_chains", "chain_model"))
CHAIN_LAW = "tests/graphical/test_row_chains.py"
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
    Mutant(
        "chain-forgets-what-cannot-be",
        "sweeps draw rows that the schema rules out",
        CHAINS,
        "table[mask] = IMPOSSIBLE",
        "table[mask] = 0.0",
        (CHAIN_LAW, "-k", "impossible"),
    ),
    Mutant(
        "chain-follows-noise",
        "a chain's potentials go to the answers, noise included",
        CHAINS,
        "found -= self._pull * (",
        "found -= 0.0 * (",
        (CHAIN_LAW, "-k", "shrunk"),
    ),
    Mutant(
        "chain-reads-one-column-twice",
        "a sweep takes another column's code for that of a table's first",
        CHAINS,
        "others += [v for v in scope if v != column]",
        "others += [scope[0] for v in scope if v != column]",
        (CHAIN_LAW, "-k", "law"),
    ),
    Mutant(
        "condition-lost-in-sweeps",
        "rows of a condition wander off it while they are swept",
        CHAIN_MODEL,
        "self.chain.sweep(rows, rng, self.known)\n        return rows",
        "self.chain.sweep(rows, rng)\n        return rows",
        (CHAIN_LAW, "-k", "impossible or given"),
    ),
    Mutant(
        "chain-without-need",
        "auto sweeps where an exact model holds all that pays, or noise leaves nothing to gain",
        "marginalsyn/generators/clique_tree.py",
        "return beyond if swept < WORTH * exact else shares",
        "return beyond",
        ("tests/generators/test_chain_releases.py", "-k", "stays"),
    ),
)

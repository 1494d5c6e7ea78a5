"""Deliberate bugs in what is made of noisy answers: nothing leaks, rows or intervals are wrong."""

from __future__ import annotations

from mutants import Mutant

COLUMN_COUNTS = "marginalsyn/graphical/shrunken_fit.py"
SETTLED = "tests/graphical/test_column_counts.py"
CHAINS, CHAIN_MODEL = (f"marginalsyn/graphical/{name}.py" for name in ("row_chains", "chain_model"))
CHAIN_LAW = "tests/graphical/test_row_chains.py"
LIMITS = "tests/answers/test_limits.py"
LEANING = "tests/graphical/test_reference.py"
REFERENCES = "tests/operations/test_references.py"
COMPARED = "marginalsyn/operations/references.py"

FITS = (
    Mutant(
        "shapes-not-weighed",
        "even and spiky columns are settled alike, whatever the answers say",
        COLUMN_COUNTS,
        "found = np.exp(self.evidence - self.evidence.max())",
        "found = np.ones(len(self.evidence))",
        (SETTLED,),
    ),
    Mutant(
        "reference-is-the-private-table",
        "the private table's own rows, in another order, are taken for a public reference",
        COMPARED,
        "            _refuse_private(reference, source, schema, rows, asked.reference_overlaps)\n",
        "            pass\n",
        (REFERENCES, "-k", "refused_before_any_charge"),
    ),
    Mutant(
        "parts-of-the-private-table-pass",
        "a reference that holds a part of the private rows is taken for public",
        COMPARED,
        "if not overlaps and _share_rows(",
        "if False and _share_rows(",
        (REFERENCES, "-k", "refused_before_any_charge"),
    ),
    Mutant(
        "held-out-rows-as-reference",
        "the comparison with a reference forgets the rows that are held out",
        "marginalsyn/operations/origins.py",
        'kept=self.kept.model_copy(update={"holdout": 0.0})',
        "kept=self.kept",
        (REFERENCES, "-k", "held_out"),
    ),
    Mutant(
        "seeded-release-as-reference",
        "a seeded release, whose noise can be taken away, is leaned on",
        COMPARED,
        "if not statement.private and not seeded:",
        "if False:",
        (REFERENCES, "-k", "seeded_release"),
    ),
    Mutant(
        "wrong-reference-believed",
        "a reference is leaned on in columns that the answers refute",
        "marginalsyn/graphical/reference.py",
        "if settled and np.mean([one.trusted for one in settled.values()]) >= _LIKELY:",
        "if settled:",
        (REFERENCES, "-k", "costs_nothing"),
    ),
    Mutant(
        "refuted-pairs-kept",
        "a pair of a reference is leaned on though its answers are likelier without it",
        COLUMN_COUNTS,
        "    if sum(gains.values()) < 0:\n",
        "    return set()\n    if sum(gains.values()) < 0:\n",
        (LEANING, "-k", "refute"),
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
        "marginalsyn/answers/imputations.py",
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
        "others += rest",
        "others += [self.scopes[i][0] for _ in rest]",
        (CHAIN_LAW, "-k", "law"),
    ),
    Mutant(
        "condition-lost-in-sweeps",
        "rows of a condition wander off it while they are swept",
        CHAIN_MODEL,
        "self.chain.sweep(rows, rng, self.known)",
        "self.chain.sweep(rows, rng)",
        (CHAIN_LAW, "-k", "impossible or given"),
    ),
    Mutant(
        "rows-drawn-alone",
        "rows of a chain are not drawn together, so that a large table loses the shares of codes",
        CHAIN_MODEL,
        "if self.expected.any() and not self.known:",
        "if False:",
        (CHAIN_LAW, "-k", "however_many"),
    ),
    Mutant(
        "rare-cells-kept-empty",
        "rows that are drawn together stay away from cells of less than a row",
        CHAINS,
        "FIRM * np.minimum(aims, 1.0 / np.maximum(aims, 1.0))",
        "FIRM / np.maximum(aims, 1.0)",
        (CHAIN_LAW, "-k", "rare"),
    ),
    Mutant(
        "own-row-counted",
        "a row that is drawn with others counts itself, and leaves its code too often",
        CHAINS,
        "chances_of.ravel(), np.exp(firmness)",
        "chances_of.ravel(), np.ones_like(firmness)",
        (CHAIN_LAW, "-k", "law_that_is_said"),
    ),
    Mutant(
        "steps-run-away",
        "potentials of cells without rows move as far as the gaps of large cells take them",
        CHAINS,
        "np.clip(steps, -_FARTHEST, _FARTHEST)",
        "steps",
        (CHAIN_LAW, "-k", "run_away"),
    ),
    Mutant(
        "chain-worse-than-its-start",
        "a chain that came no nearer than the exact model is released all the same",
        "marginalsyn/generators/clique_tree.py",
        'if notes["chain"]["used"]:',
        "if notes:",
        ("tests/generators/test_chain_releases.py", "-k", "no_nearer"),
    ),
    Mutant(
        "chain-without-need",
        "auto sweeps where an exact model holds all that pays, or noise leaves nothing to gain",
        "marginalsyn/generators/clique_tree.py",
        "return beyond if swept < exact else shares",
        "return beyond",
        ("tests/generators/test_chain_releases.py", "-k", "stays"),
    ),
)

"""Deliberate privacy bugs that were found in other people's releases, or here.

PATE-GAN implementations: Ganev, Annamalai and De Cristofaro 2024 (arXiv 2406.13985) count nineteen
violations in six of them; those that this code could have are here.
"""

from __future__ import annotations

from mutants import Mutant

PATEGAN = "plugins/networks/pategan.py"
TEACHERS = "plugins/networks/pategan.py"
CHOOSING = "marginalsyn/generators/batch_selection.py"
KEPT = "tests/release/test_kept_rules.py"
EXACT = (
    "tests/plugins/audit/test_exact.py::test_the_answers_cost_what_is_claimed_on_the_worst_tables"
)
BUGS = "tests/plugins/audit/test_published_bugs.py"

PUBLISHED = (
    # PATE-GAN implementations
    Mutant(
        "teachers-share-rows",
        "every teacher sees every row",
        TEACHERS,
        "        yield vectors, key.integers(marks[part], teachers)\n",
        "        for owner in range(teachers):\n"
        "            yield vectors, np.full(len(vectors), owner)\n",
        ("tests/plugins/networks/test_pategan.py", "-k", "for_every_key"),
    ),
    Mutant(
        "teachers-from-the-post-stream",
        "which teacher owns a row comes from the stream that the release reveals",
        PATEGAN,
        "visit.noise.key()",
        "visit.noise.post",
        ("tests/plugins/networks/test_pategan.py", "-k", "release"),
    ),
    Mutant(
        "votes-noise-inverted",
        "1 / lambda is taken for lambda",
        PATEGAN,
        "return gaussian_sigma(self.votes_rho * (1 - 1e-12), l2=self.reach(self.config.queries))",
        "return 1 / gaussian_sigma(self.votes_rho * (1 - 1e-12), "
        "l2=self.reach(self.config.queries))",
        ("tests/plugins/networks/test_pategan.py", "-k", "cost_is_fixed"),
    ),
    Mutant(
        "votes-paid-once",
        "the budget is spent anew by every query",
        PATEGAN,
        "l2=self.reach(self.config.queries))",
        "l2=self.reach(1))",
        ("tests/plugins/networks/test_pategan.py", "-k", "cost_is_fixed"),
    ),
    Mutant(
        "votes-paid-per-round",
        "the budget of the votes is spent anew in every round",
        PATEGAN,
        "l2=self.reach(self.config.queries))",
        "l2=self.reach(-(-self.config.queries // self.config.rounds)))",
        ("tests/plugins/networks/test_pategan.py", "-k", "cost_is_fixed"),
    ),
    Mutant(
        "student-sees-exact-votes",
        "the student learns from the votes without their noise",
        PATEGAN,
        "student.learn(space, asked, noisy / count)",
        "student.learn(space, asked, votes / count)",
        (BUGS, "-k", "side_door"),
    ),
    Mutant(
        "stop-when-votes-agree",
        "training ends when the votes say so, as a moments accountant's data-dependent bound does",
        PATEGAN,
        "            votes, reach = teachers.votes(space, asked), self.reach(queries)\n",
        "            votes, reach = teachers.votes(space, asked), self.reach(queries)\n"
        "            if not votes.any():\n                break\n",
        (BUGS, "-k", "side_door"),
    ),
    Mutant(
        "teachers-counted-from-rows",
        "the number of teachers follows from the exact number of rows",
        PATEGAN,
        "round(total / config.teacher_rows)",
        "round(int(visit.counts(())) / config.teacher_rows)",
        (BUGS, "-k", "side_door"),
    ),
    Mutant(
        "labels-from-rows",
        "the one-way shares that the generator starts from are exact",
        "plugins/networks/adversarial.py",
        "shares = shares_of([one for one in measured if one.columns], counted[0])",
        "exact = [m.__class__(columns=m.columns, values=visit.counts(m.columns), sigma=m.sigma)\n"
        "                 for m in measured]\n"
        "        shares = shares_of(exact, counted[0])",
        (BUGS, "-k", "side_door"),
    ),
    # marginals
    Mutant(
        "rho-taken-for-sigma",
        "one-way marginals get rho for the scale of their noise",
        "marginalsyn/generators/independent.py",
        "return gaussian_sigma(share, l2=self.budget.neighbours.l2)",
        "return share",
        ("tests/generators/test_independent.py",),
    ),
    Mutant(
        "exact-selection-in-mst",
        "the tree's edges are those of the largest exact errors",
        "marginalsyn/generators/mst.py",
        "            a, b = open_[pick]\n",
        "            a, b = open_[int(np.argmax(scores))]\n",
        (f"{EXACT}[mst]",),
    ),
    Mutant(
        "exact-selection-in-aim",
        "a round measures the marginal of the largest exact score",
        CHOOSING,
        "columns=[small[pick]]",
        "columns=[small[int(np.argmax(scores))]]",
        (BUGS, "-k", "measures_what"),
    ),
    Mutant(
        "aim-without-the-relation",
        "AIM's selections forget the factor 2 of a replaced row",
        CHOOSING,
        "\n        law = ExponentialMechanism(eps, sensitivity=self._l1 * unit)",
        "\n        law = ExponentialMechanism(eps, sensitivity=unit)",
        (f"{EXACT}[aim]",),
    ),
    Mutant(
        "mst-without-the-relation",
        "MST's selections forget the factor 2 of a replaced row",
        "marginalsyn/generators/mst.py",
        "sensitivity=self.budget.neighbours.l1)",
        "sensitivity=1.0)",
        (f"{EXACT}[mst]",),
    ),
    Mutant(
        "aim-without-its-noise-term",
        "AIM's scores do not take off the error that noise alone gives",
        CHOOSING,
        "whole_scores(weights, self._truth.errors(model, small), noise)",
        "whole_scores(weights, self._truth.errors(model, small), 0 * noise)",
        (BUGS, "-k", "aim_scores"),
    ),
    Mutant(
        "aim-without-weights",
        "AIM's scores do not weigh the candidates",
        CHOOSING,
        "weights = np.array([self._candidates[q] for q in small])",
        "weights = np.ones(len(small))",
        (BUGS, "-k", "aim_scores"),
    ),
    Mutant(
        "unsigned-counts",
        "differences of unsigned counts wrap around",
        "marginalsyn/generators/candidate_errors.py",
        "                answer -= counts[q]\n",
        "                answer = np.rint(answer).astype(np.uint64)\n"
        "                answer -= counts[q].astype(np.uint64)\n",
        ("tests/generators/test_candidate_errors.py", "-k", "brute_force"),
    ),
    # training
    Mutant(
        "average-clipped",
        "a lot's average gradient is clipped in place of each row's, as in a DPWGAN",
        "marginalsyn/weights/dp_sgd.py",
        "            total += weight * network.clipped_sum(rows, 1.0, training.clip_norm)\n",
        "            total += weight * network.clipped_sum(rows, 1.0, 1e6)\n"
        "            length = max(float(np.linalg.norm(total)), 1e-300)\n"
        "            total *= min(1.0, training.clip_norm / length)\n",
        (BUGS, "-k", "clipped"),
    ),
    # encoding
    Mutant(
        "types-inferred-for-columns",
        "a column of objects becomes text as soon as one of its values is",
        "marginalsyn/table/arrow.py",
        "    return _objects(series)\n\n\ndef _typed(",
        "    return pa.array([None if v is None else str(v) for v in series], pa.string())\n\n\n"
        "def _typed(",
        ("tests/table/test_rows_alone.py", "-k", "one_object_moves_no_other or one_by_one"),
    ),
    # noise
    Mutant(
        "float-coefficients",
        "coefficients are published with continuous noise on them",
        "marginalsyn/weights/coefficients.py",
        "        return noisy * grid\n",
        "        return beta + (noisy - rounded) * grid\n",
        ("tests/plugins/audit/test_testkit_lowest_bits.py", "-k", "coefficients_are_functions"),
    ),
    # the ledger
    Mutant(
        "any-relation-on-one-ledger",
        "a run for replaced rows is charged to a ledger that promised to hide their number",
        "marginalsyn/records/totals.py",
        "    if Neighbours.ADD_REMOVE in broken:\n",
        "    if False:\n",
        ("tests/records/test_ledger.py", "-k", "one_relation"),
    ),
    # what is told
    Mutant(
        "best-and-worst-marginals-swapped",
        "the verdict names the table with the worst marginals as the one with the best",
        "marginalsyn/evaluation/verdict.py",
        "    best = min(errors, key=lambda case: errors[case]",
        "    best = max(errors, key=lambda case: errors[case]",
        (BUGS, "-k", "verdict"),
    ),
    Mutant(
        "best-and-worst-models-swapped",
        "the verdict names the table whose models lose most as the best",
        "marginalsyn/evaluation/verdict.py",
        "best, worst = min(known, key=known.__getitem__), max(",
        "worst, best = min(known, key=known.__getitem__), max(",
        (BUGS, "-k", "verdict"),
    ),
    # Rules between columns
    Mutant(
        "mapping-from-private-rows",
        "the mapping of a dependency is read off private rows without a charge",
        "marginalsyn/host.py",
        "public = with_mappings(made.schema or schema, made.frame)",
        'public = with_mappings(made.schema or schema, table.unprotected("rules").frame())',
        (KEPT, "-k", "mapping"),
    ),
    Mutant(
        "rules-skipped-in-sample",
        "rows that are drawn later, and points, need not keep the rules",
        "marginalsyn/release/sampling.py",
        "return _kept(found, schema, rng, conditions or {})",
        "return found",
        (KEPT, "-k", "drawn_later"),
    ),
    Mutant(
        "rules-unchecked",
        "a release is written though its rows break a rule",
        "marginalsyn/release/linked.py",
        "for text, count in broken_in(tree, table, tables).items()",
        "for text, count in {}.items()",
        (KEPT, "-k", "linked"),
    ),
    Mutant(
        "possible-cells-ruled-out",
        "cells some of whose values break a rule count as impossible, with the rows in them",
        "marginalsyn/table/rules.py",
        "return self.no & ~self.yes & ~self.unknown",
        "return self.no & ~self.unknown",
        ("tests/table/test_rules.py", "-k", "random or inside_a_bin"),
    ),
)

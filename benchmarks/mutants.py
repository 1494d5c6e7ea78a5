"""The list of deliberate privacy bugs that benchmarks/mutations.py tries."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One bug.

    Attributes:
        name: in kebab-case.
        breaks: what it breaks, in words.
        file: the module that is edited.
        old, new: the snippet, which occurs once, and what takes its place.
        tests: arguments of pytest.
    """

    name: str
    breaks: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


DOORS = "tests/conformance/test_doors.py"
TAPE = "tests/conformance/test_side_doors.py"
INDEPENDENT = f"{TAPE}::test_generators_have_no_side_door[independent, a strange row]"
REPLACED = f"{TAPE}::test_generators_have_no_side_door[independent, a replaced row]"

MUTANTS = (
    # noise
    Mutant(
        "half-noise",
        "a marginal gets half the noise that it pays for",
        "marginalsyn/private/visit.py",
        "values = self.noise.gaussian(counts, sigma * whole)",
        "values = self.noise.gaussian(counts, sigma * whole / 2)",
        (INDEPENDENT,),
    ),
    Mutant(
        "half-laplace",
        "Laplace noise of half the scale",
        "marginalsyn/noise/noise.py",
        'return _opendp("laplace", counts, float(_scales(scale, "scale", scalar=True)))',
        'return _opendp("laplace", counts, float(_scales(scale, "scale", scalar=True)) / 2)',
        ("tests/noise/test_noise.py", "-k", "laplace"),
    ),
    Mutant(
        "float-noise",
        "secure noise from a generator of numpy, rounded",
        "marginalsyn/noise/noise.py",
        'return _opendp("gaussian", counts, float(sigmas))',
        "return counts + np.rint(self.numpy.normal(0.0, sigmas, counts.shape)).astype(np.int64)",
        ("tests/noise/test_noise.py", "-k", "post_processing"),
    ),
    Mutant(
        "doubled-coefficient",
        "the exponential mechanism is twice as sharp as it pays for",
        "marginalsyn/noise/selection.py",
        "rate = Fraction(eps) * grid / (2 * (Fraction(sensitivity) + 2 * grid))",
        "rate = Fraction(eps) * grid / (Fraction(sensitivity) + 2 * grid)",
        ("tests/noise/test_noise.py", "-k", "neighbours or softmax"),
    ),
    Mutant(
        "uncounted-rounding",
        "the rounding of scores is not counted in their sensitivity",
        "marginalsyn/noise/selection.py",
        "rate = Fraction(eps) * grid / (2 * (Fraction(sensitivity) + 2 * grid))",
        "rate = Fraction(eps) * grid / (2 * Fraction(sensitivity))",
        ("tests/noise/test_noise.py", "-k", "neighbours or rounding"),
    ),
    Mutant(
        "noise-elsewhere",
        "a generator draws protective noise of its own",
        "marginalsyn/generators/independent.py",
        'measurements.append(visit.measure(columns, self.sigma, purpose="one-way marginal"))',
        'measurements.append(visit.measure(columns, self.sigma, purpose="one-way marginal"))\n'
        "            visit.noise.post.laplace(0.0, self.sigma)",
        (DOORS,),
    ),
    Mutant(
        "greedy-lots",
        "lots hold twice the share of rows that is accounted for",
        "marginalsyn/noise/noise.py",
        "return np.flatnonzero(words < np.uint64(int(math.ldexp(rate, 64))))",
        "return np.flatnonzero(words < np.uint64(int(math.ldexp(min(2 * rate, 0.99), 64))))",
        ("tests/plugins/test_dp_mlp.py", "-k", "lots"),
    ),
    Mutant(
        "noise-skipped-on-an-empty-lot",
        "a step without private rows gets no noise",
        "marginalsyn/networks/dp_sgd.py",
        "        lot = noise.lot(len(private), training.rate)\n",
        "        lot = noise.lot(len(private), training.rate)\n"
        "        if not len(lot):\n            return np.zeros(network.size)\n",
        ("tests/plugins/test_dp_mlp.py", "-k", "depend_on_the_lot"),
    ),
    Mutant(
        "unclipped-row",
        "gradients are not clipped",
        "marginalsyn/networks/dp_sgd.py",
        "clipped = clipping.compute_clip_weights(clip_norm, norms)",
        "clipped = 1.0 + 0.0 * norms * clip_norm",
        ("tests/plugins/test_dp_mlp.py", "-k", "moves_the_sum or per_row"),
    ),
    Mutant(
        "strange-gradient-kept",
        "a gradient that is no number takes part in the sum",
        "marginalsyn/networks/dp_sgd.py",
        "sound = tf.where(finite[:, None], x, tf.zeros_like(x))",
        "sound = x",
        ("tests/generators/test_dpgan.py", "-k", "counts_as_zero"),
    ),
    Mutant(
        "teachers-by-position",
        "rows go to PATE-GAN's teachers by where they stand, so that one row moves all others",
        "marginalsyn/networks/teachers.py",
        "        marks = key.marks(words, ranks)\n",
        "        marks = key.marks(np.arange(len(words), dtype=np.uint64)[:, None], 0 * ranks)\n",
        ("tests/generators/test_pategan.py", "-k", "one_row"),
    ),
    Mutant(
        "one-teacher-for-a-replaced-row",
        "a replaced row is taken to change one teacher; it may change two",
        "marginalsyn/networks/teachers.py",
        "return neighbours.l1 * math.sqrt(queries)",
        "return math.sqrt(queries)",
        ("tests/generators/test_pategan.py", "-k", "one_row_moves_votes"),
    ),
    Mutant(
        "places-by-position",
        "where in its bin a value lies is said by where its row stands",
        "marginalsyn/networks/heads.py",
        "marks(words, ranks(words))",
        "marks(words * 0, np.arange(len(words)))",
        ("tests/generators/test_dpgan.py", "-k", "one_row_moves or places_are"),
    ),
    Mutant(
        "chain-by-the-public-stream",
        "support points walk by the stream that the release shows",
        "marginalsyn/generators/support_points.py",
        'moves = need_secret(visit.noise.secret(), "support points")',
        "moves: Any = visit.noise.post",
        (
            "tests/audit/test_testkit_streams.py",
            "tests/conformance/test_doors.py",
            "-k",
            "support_points or streams",
        ),
    ),
    # sensitivity
    Mutant(
        "replace-counts-as-one",
        "replacing a row is taken to move a marginal as far as adding one",
        "marginalsyn/budget/charges.py",
        "return 1.0 if self is Neighbours.ADD_REMOVE else math.sqrt(2)",
        "return 1.0",
        (REPLACED,),
    ),
    Mutant(
        "replace-counts-as-one-in-l1",
        "the same for sums of absolute values",
        "marginalsyn/budget/charges.py",
        "return 1.0 if self is Neighbours.ADD_REMOVE else 2.0",
        "return 1.0",
        ("tests/budget/test_budget.py", "-k", "sensitivity"),
    ),
    Mutant(
        "replace-is-paid-as-one",
        "a visit pays for a marginal as if rows were only added or removed",
        "marginalsyn/private/visit.py",
        "rho = gaussian_rho(sigma, self.neighbours.l2)",
        "rho = gaussian_rho(sigma)",
        ("tests/private/test_door.py", "-k", "replacing_a_row_costs"),
    ),
    Mutant(
        "unweighted-selection",
        "AIM's selection forgets that its scores are weighted",
        "marginalsyn/generators/candidate_errors.py",
        "float(unit * whole)",
        "float(unit * whole / weights.max())",
        (f"{TAPE}::test_generators_have_no_side_door[aim, a strange row]",),
    ),
    Mutant(
        "batch-of-half-scores",
        "the scores that a batch is chosen by say that they move half as far",
        "marginalsyn/generators/candidate_errors.py",
        "astype(np.int64), 2.0**PLAIN_BITS",
        "astype(np.int64), 2.0 ** (PLAIN_BITS - 1)",
        ("tests/generators/test_batches.py", "-k", "move_by_one"),
    ),
    Mutant(
        "one-price-for-a-batch",
        "every choice of a batch is drawn as if the whole batch's price were its own",
        "marginalsyn/generators/choosing.py",
        "scores[left], eps=eps, sensitivity=self._l1 * unit",
        "scores[left], eps=eps * picks, sensitivity=self._l1 * unit",
        ("tests/generators/test_batches.py", "-k", "own_price"),
    ),
    Mutant(
        "auto-counts-rows",
        "auto chooses what it measures by the exact number of rows",
        "marginalsyn/generators/auto.py",
        "weight, star = self.label_weight(look), self.star(look)",
        "weight, star = self.label_weight(look), self.star(look)\n"
        "            star = star if int(visit.counts(())) % 2 else None",
        (f"{TAPE}::test_generators_have_no_side_door[auto, a strange row]",),
    ),
    Mutant(
        "half-an-embedding",
        "kernel mean embedding takes half the sensitivity when a row is replaced",
        "marginalsyn/points/waves.py",
        "return neighbours.l1 * longest",
        "return longest",
        ("tests/points/test_embedding.py", "-k", "sensitivity_at_most"),
    ),
    Mutant(
        "free-embedding",
        "the waves' sums get half of the noise that is paid for",
        "marginalsyn/generators/kme.py",
        "visit.gaussian(sums, self.sigma, l2=l2, purpose=",
        "visit.gaussian(sums, self.sigma / 2, l2=l2 / 2, purpose=",
        ("tests/points/test_embedding.py", "-k", "noise_of_the_sums"),
    ),
    Mutant(
        "quiet-histogram",
        "a histogram's noise is that of one row more, also where one is replaced",
        "marginalsyn/generators/histogram.py",
        "np.nextafter(self.budget.neighbours.l1 / self.budget.pure, np.inf)",
        "np.nextafter(1.0 / self.budget.pure, np.inf)",
        ("tests/points/test_embedding.py", "-k", "one_pure_charge"),
    ),
    Mutant(
        "two-cells",
        "a row is counted in its own cell and in the first",
        "marginalsyn/points/grid.py",
        "np.add.at(found, self.places(points), weights)",
        "np.add.at(found, self.places(points), weights); found[0] += len(points)",
        ("tests/points/test_embedding.py", "-k", "one_cell"),
    ),
    Mutant(
        "sharp-herding",
        "herding takes half the sensitivity when a row is replaced",
        "marginalsyn/generators/support_points_herding.py",
        "sensitivity = space.diameter / 2.0 if added else space.diameter",
        "sensitivity = space.diameter / 2.0",
        ("tests/generators/test_support_points.py", "-k", "herding"),
    ),
    Mutant(
        "sharp-support-points",
        "the exponent of support points is doubled",
        "marginalsyn/generators/support_points.py",
        "return self.eps_each / (2.0 * math.sqrt(2.0 * diameter))",
        "return self.eps_each / math.sqrt(2.0 * diameter)",
        ("tests/generators/test_support_points.py", "-k", "exact_law"),
    ),
    Mutant(
        "laplace-for-l2",
        "Laplace noise on coefficients is scaled to their Euclidean norm, as published",
        "marginalsyn/weights/coefficients.py",
        "return (math.sqrt(self.dim) * self.l2 / self._grid + self.dim * (1 + _SUMS)) * _UP",
        "return (self.l2 / self._grid + self.dim * (1 + _SUMS)) * _UP",
        ("tests/weights/test_coefficients.py",),
    ),
    Mutant(
        "coin-not-tossed",
        "K-norm noise keeps every proposal: its balls are those of another norm",
        "marginalsyn/noise/k_norm.py",
        "for i in np.flatnonzero(u < chance + error):",
        "for i in range(len(u)):\n        return [int(v) for v in proposals[i]]",
        ("tests/noise/test_knorm.py", "-k", "lattices or kept"),
    ),
    Mutant(
        "proposal-rounded-up",
        "K-norm noise's proposal falls off faster than the law that it must lie above",
        "marginalsyn/noise/k_norm.py",
        "return Fraction(math.isqrt((a << shift) ** 2 // dim), b << shift)",
        "return Fraction(math.isqrt((a << shift) ** 2 // dim) + 1, b << shift)",
        ("tests/noise/test_knorm.py", "-k", "below_the_law"),
    ),
    Mutant(
        "uncounted-grid",
        "rounding coefficients to the grid is not counted in their sensitivity",
        "marginalsyn/weights/coefficients.py",
        "return (self.l2 / self._grid + math.sqrt(self.dim) * (1 + _SUMS)) * _UP",
        "return self.l2 / self._grid * _UP",
        ("tests/weights/test_coefficients.py", "-k", "moves or move"),
    ),
    Mutant(
        "float-gamma-noise",
        "coefficients get noise in floating point, of the right law",
        "marginalsyn/weights/coefficients.py",
        "noisy = visit.k_norm(rounded, self._rate, l2=self._whole_l2, purpose=purpose)\n",
        "visit.k_norm(rounded, self._rate, l2=self._whole_l2, purpose=purpose)\n"
        "            z = visit.noise.post.standard_normal(self.dim)\n"
        "            length = visit.noise.post.gamma(self.dim, self.scale)\n"
        "            return beta + z * (length / np.linalg.norm(z))\n",
        ("tests/audit/test_testkit_lowest_bits.py", "-k", "beta-noised and gamma"),
    ),
    Mutant(
        "float-scores",
        "AIM's scores are differences of large numbers in floating point",
        "marginalsyn/generators/candidate_errors.py",
        "    apart = [round(e * unit) - round(b * unit) for e, b in "
        "zip(errors, baselines, strict=True)]\n",
        "    apart = [round((e - b) * unit) for e, b in zip(errors, baselines, strict=True)]\n",
        ("tests/generators/test_candidate_errors.py", "-k", "allowance"),
    ),
    Mutant(
        "loose-solver",
        "an inexact solution of the regression is not counted in its sensitivity",
        "marginalsyn/weights/logistic.py",
        "return (reach + 2 * tolerance) / penalty * (1 + 1e-12)",
        "return reach / penalty * (1 + 1e-12)",
        ("tests/weights/test_coefficients.py", "-k", "undone"),
    ),
    Mutant(
        "features-of-any-length",
        "numbers are not clipped to their bounds",
        "marginalsyn/table/encoding.py",
        "        (prepared >= column.upper, 1.0),\n",
        "",
        ("tests/table/test_codec.py", "-k", "unit"),
    ),
    Mutant(
        "codes-beyond-their-scale",
        "a missing value keeps a place, beyond the end of its column's scale",
        "marginalsyn/table/vectors.py",
        "np.where(self.choice > 0, off, slope * self.place + shift)",
        "slope * self.place + shift",
        ("tests/weights/test_coefficients.py", "-k", "reaches_further"),
    ),
    # accounting
    Mutant(
        "missing-charge",
        "rows are opened without a charge",
        "marginalsyn/private/door.py",
        "            self.ledger.charge(\n                purse.charges,\n",
        "            dict(\n                charges=purse.charges,\n",
        ("tests/private/test_door.py", "-k", "Charge or charges or spent"),
    ),
    Mutant(
        "charge-after-measurement",
        "the ledger is written when the visit ends",
        "marginalsyn/private/door.py",
        "            self.ledger.charge(\n                purse.charges,\n",
        "            visit = Visit(self._rows, self.codec, purse, noise)\n"
        "            end = visit.close\n"
        "            visit.close = lambda: (\n"  # type: ignore[method-assign]
        "                end(), self.ledger.charge(purse.charges, run=run, delta=delta)\n"
        "            )\n"
        "            return visit\n"
        "            self.ledger.charge(\n                purse.charges,\n",
        ("tests/private/test_door.py", "-k", "spent"),
    ),
    Mutant(
        "overdraft",
        "a visit may spend more than was prepaid",
        "marginalsyn/private/purse.py",
        "if self._prepaid[pot] and covers(",
        "if self._prepaid[pot] or covers(",
        ("tests/private/test_door.py", "-k", "overspending or bounded"),
    ),
    Mutant(
        "bounded-range-for-all",
        "every pure mechanism is priced like a selection, at a quarter",
        "marginalsyn/budget/charges.py",
        "return rho if cost.bounded_range else 4 * rho",
        "return rho",
        ("tests/budget/test_budget.py", "-k", "rho or pure"),
    ),
    Mutant(
        "cheap-groups",
        "an add-remove charge counts twice, not four times, where rows are replaced",
        "marginalsyn/budget/charges.py",
        "return ZCDP(rho=4 * cost.rho)",
        "return ZCDP(rho=2 * cost.rho)",
        ("tests/budget/test_budget.py", "-k", "group"),
    ),
    Mutant(
        "replace-counts-for-add-remove",
        "a charge calibrated for replaced rows is added up as one for added rows",
        "marginalsyn/budget/composition.py",
        "if charge.neighbours is Neighbours.REPLACE and neighbours is Neighbours.ADD_REMOVE:",
        "if False:",
        ("tests/budget/test_budget.py", "-k", "replace"),
    ),
    Mutant(
        "asymptotic-called-exact",
        "a guarantee that holds only in the limit is called exact",
        "marginalsyn/budget/composition.py",
        'guarantee="asymptotic" if any(c.guarantee == "asymptotic" for c in charges) else "exact",',
        'guarantee="exact",',
        ("tests/budget/test_budget.py", "-k", "asymptotic"),
    ),
    Mutant(
        "any-delta",
        "a delta that publishes whole rows is accepted",
        "marginalsyn/budget/zcdp.py",
        "if delta >= LARGEST_DELTA and not allow_large:",
        "if False:",
        ("tests/budget/test_budget.py", "-k", "delta"),
    ),
    Mutant(
        "free-weights",
        "an estimator that charges nothing is handed the private rows",
        "marginalsyn/host.py",
        'view = None if private or table is None else table.unprotected("weights")',
        'view = None if table is None else table.unprotected("weights")',
        ("tests/test_weighting.py", "-k", "charges_nothing"),
    ),
    Mutant(
        "bought-bounds-forgotten",
        "what the schema's bounds were bought for is not in the total",
        "marginalsyn/host.py",
        "        bought=schema.charges,\n        charges=visit.charges[own:],\n"
        "        total=total,\n",
        "        charges=visit.charges[own:],\n",
        ("tests/test_host.py", "-k", "bought"),
    ),
    Mutant(
        "stopped-for-nothing",
        "a run that stopped by itself counts as if it had spent nothing",
        "marginalsyn/host.py",
        "    keeper.pause(table.ledger, paid)\n",
        "    keeper.pause(table.ledger, [])\n",
        ("tests/cli/test_go_on.py", "-k", "rest"),
    ),
    Mutant(
        "reopened-over-the-cap",
        "a run that stopped goes on although the cap has no room for it",
        "marginalsyn/private/ledger.py",
        "            refuse(others, whole.charges, whole.unit, self.void_earlier_promises)\n",
        "",
        ("tests/cli/test_go_on.py", "-k", "settled"),
    ),
    # private categories
    Mutant(
        "low-threshold",
        "a text of one row is told more often than delta says",
        "marginalsyn/budget/set_union.py",
        "        yield gaussian_tail(scale, threshold - whole)\n",
        "        yield gaussian_tail(scale, threshold)\n",
        ("tests/budget/test_set_union.py", "-k", "least"),
    ),
    Mutant(
        "one-value-persons",
        "the threshold is that of persons with one row",
        "marginalsyn/budget/set_union.py",
        "        yield min(1.0, float(np.max(large + others * rare)) * _UP)\n",
        "        yield min(1.0, float(large[0]) * _UP)\n",
        ("tests/budget/test_set_union.py", "-k", "rows"),
    ),
    Mutant(
        "told-below-threshold",
        "texts below the threshold are told, too",
        "marginalsyn/private/visit.py",
        "np.flatnonzero(noisy >= threshold)",
        "np.flatnonzero(noisy >= 0)",
        ("tests/private/test_categories.py", "-k", "nowhere"),
    ),
    Mutant(
        "quiet-texts",
        "the counts of texts get half the noise that they pay for",
        "marginalsyn/private/visit.py",
        "noisy = bare.gaussian(counts, sigma * whole)",
        "noisy = bare.gaussian(counts, sigma * whole / 2)",
        ("tests/private/test_categories.py", "-k", "chance"),
    ),
    Mutant(
        "free-delta",
        "the chance that a text of one row is told is not charged",
        "marginalsyn/private/categories.py",
        "for cost in (ZCDP(rho=rho), Approximate(eps=0, delta=len(lengths) * self.delta)):",
        "for cost in (ZCDP(rho=rho),):",
        ("tests/private/test_categories.py", "-k", "pays"),
    ),
    # the ledger
    Mutant(
        "ledger-not-synced",
        "a charge may still be in memory when the rows are read",
        "marginalsyn/release/durable.py",
        "            view = view[os.write(handle, view) :]\n        os.fsync(handle)\n",
        "            view = view[os.write(handle, view) :]\n",
        ("tests/private/test_ledger.py", "-k", "synced"),
    ),
    Mutant(
        "cap-outside-the-lock",
        "the cap is checked before the lock is taken",
        "marginalsyn/private/ledger.py",
        "        with self._file.locked() as book:\n"
        "            relation = refuse(book, charges, unit, self.void_earlier_promises)\n",
        "        relation = refuse(self.read(), charges, unit, self.void_earlier_promises)\n"
        "        with self._file.locked() as book:\n",
        ("tests/private/test_ledger.py", "-k", "side_by_side"),
    ),
    Mutant(
        "locks-trusted",
        "the cap is not checked again after writing, although a lock may be lost",
        "marginalsyn/private/ledger.py",
        "            self._check_alone(expected)\n",
        "",
        ("tests/faults/test_faults.py", "-m", "slow", "-k", "lost"),
    ),
    Mutant(
        "spoilt-ledger-restarts",
        "a ledger that cannot be read counts as empty",
        "marginalsyn/private/book.py",
        "            raise LedgerError("
        'distrust(path, f"line {number} is not the record it should be"))\n',
        "            return Book(data=data)\n",
        ("tests/private/test_ledger.py", "-k", "spoilt"),
    ),
    Mutant(
        "two-relations",
        "a run for replace may follow a promise for add-remove",
        "marginalsyn/private/ledger_rules.py",
        "    if contradicts(book, charges) and not void:\n",
        "    if contradicts(book, charges) and void is None:\n",
        ("tests/private/test_ledger.py", "-k", "one_relation"),
    ),
    Mutant(
        "own-delta-not-counted",
        "a cap does not count the deltas that charges have of their own",
        "marginalsyn/budget/filters.py",
        "    if not covers(cap.own_delta, spent.delta):\n        return False\n",
        "",
        ("tests/private/test_filters.py", "-k", "own"),
    ),
    Mutant(
        "chain-not-checked",
        "a ledger is read although a line was changed or taken out",
        "marginalsyn/private/book.py",
        "    if strict and problem:\n        raise LedgerError(distrust(path, problem))\n",
        "",
        ("tests/private/test_ledger_chain.py",),
    ),
    # what is let out
    Mutant(
        "count-in-an-error",
        "an error message tells the exact number of rows",
        "marginalsyn/private/visit.py",
        '"rows (private under add-remove) must be',
        'f"rows ({int(self.counts(()))}, private under add-remove) must be',
        ("tests/private/test_door.py", "-k", "public_under_replace"),
    ),
    Mutant(
        "foreign-text-in-an-error",
        "the text of a foreign exception, which may quote rows, is shown",
        "marginalsyn/errors.py",
        'failed ({type(error).__name__}); this is a fault of the method, not of the "\n',
        'failed ({error}); this is a fault of the method, not of the "\n',
        ("tests/test_host.py", "-k", "foreign"),
    ),
    Mutant(
        "engine-quotes-rows",
        "the engine's complaint about a CSV file, which quotes a row, is shown",
        "marginalsyn/table/engine.py",
        "raise DataError(_text_problem(name, str(error))) from None",
        "raise DataError(_text_problem(name, str(error)) + str(error)) from None",
        ("tests/private/test_sources.py", "-k", "quoting"),
    ),
    Mutant(
        "exact-rows-in-the-statement",
        "the statement's notes tell the exact number of rows",
        "marginalsyn/generators/independent.py",
        'notes={"estimated_rows": estimated, "estimated_rows_sd": spread},',
        'notes={"estimated_rows": int(visit.counts(())), "estimated_rows_sd": spread},',
        (INDEPENDENT,),
    ),
    Mutant(
        "message-depends-on-rows",
        "an empty table is reported",
        "marginalsyn/generators/independent.py",
        '        progress.report("estimate")\n',
        '        progress.report("estimate" if visit.counts(()) else "nothing")\n',
        (f"{TAPE}::test_generators_have_no_side_door[independent, the first row]",),
    ),
    Mutant(
        "run-time-published",
        "diagnostics, the run time among them, go into the statement",
        "marginalsyn/host.py",
        "        notes=synthesis.notes,\n",
        '        notes={**synthesis.notes, **synthesis.diagnostics, "seconds": seconds},\n',
        ("tests/test_host.py", "-k", "run_time"),
    ),
    Mutant(
        "seed-not-marked",
        "a seeded run is stated like a private one",
        "marginalsyn/release/statement.py",
        '    seeded = seeded or any(line.origin == "seed" for line in lines)\n',
        "    seeded = False\n",
        ("tests/test_host.py", "-k", "seed"),
    ),
    Mutant(
        "seeded-weights-not-marked",
        "weights drawn from a seed do not mark the release",
        "marginalsyn/release/statement.py",
        "            seeded=self.seeded or (noise is not None and not noise.private),\n",
        "            seeded=self.seeded,\n",
        ("tests/release/test_statement.py", "-k", "seeded_step"),
    ),
    Mutant(
        "laws-of-weights-not-listed",
        "the laws that weights were drawn from do not enter the statement",
        "marginalsyn/weights/columns.py",
        "        samplers=[*weighted.samplers, *(",
        "        samplers=[*(",
        ("tests/release/test_statement.py", "-k", "estimators"),
    ),
    Mutant(
        "one-weighting-counted",
        "a certificate gives each weighting the whole confidence",
        "marginalsyn/certificates/certificate.py",
        "    reach = sums.before(len(counted))\n",
        "    reach = sums.before(1)\n",
        ("tests/certificates/test_certificate.py", "-k", "are_counted"),
    ),
    Mutant(
        "later-weights-taken-for-earlier-ones",
        "bounds for weights that were chosen by looking at the certificate are as tight as others",
        "marginalsyn/certificates/certificate.py",
        "reach if digest in before else sums.later()",
        "reach",
        ("tests/certificates/test_certificate.py", "-k", "wider_bounds"),
    ),
    Mutant(
        "half-the-reach-of-an-excess",
        "a measured excess gets noise for half of what one person moves it by",
        "marginalsyn/certificates/excess_plan.py",
        "        moved = 1 if self.neighbours is Neighbours.ADD_REMOVE else 2\n",
        "        moved = 0.5 if self.neighbours is Neighbours.ADD_REMOVE else 1\n",
        ("tests/certificates/test_measured.py", "-k", "extremal"),
    ),
    Mutant(
        "replaced-row-moves-an-excess-once",
        "a replaced row is taken to move a measured excess as an added one does",
        "marginalsyn/certificates/excess_plan.py",
        "        moved = 1 if self.neighbours is Neighbours.ADD_REMOVE else 2\n",
        "        moved = 1\n",
        ("tests/certificates/test_measured.py", "-k", "extremal"),
    ),
    Mutant(
        "weakest-law-does-not-decide",
        "a statement's guarantee is what the charges say, whatever was drawn",
        "marginalsyn/release/derivation.py",
        "return weakest([charged, *(line.worth for line in lines), *",
        "return weakest([charged, *",
        ("tests/release/test_statement.py", "-k", "weakest"),
    ),
    Mutant(
        "libraries-of-other-runs",
        "every installed library stands in the statement, used or not",
        "marginalsyn/release/derivation.py",
        "return list(dict.fromkeys([*ALWAYS, *BASE, *drew, *adds, *libraries]))",
        'return list(dict.fromkeys([*ALWAYS, *BASE, *drew, *adds, *libraries, "mbi", "jax"]))',
        ("tests/release/test_statement.py", "-k", "library or libraries"),
    ),
    Mutant(
        "unpaid-law",
        "a draw by the noise is not counted",
        "marginalsyn/private/visit.py",
        "        entry, before = self._purse.entries[-1], self._used.counts()\n",
        "        entry, before = {}, self._used.counts()\n",
        ("tests/release/test_statement.py", "-k", "generators_laws and independent"),
    ),
    Mutant(
        "weights-not-private-published",
        "weights of an unprotected estimator go into the release",
        "marginalsyn/weights/columns.py",
        "    if not weighted.private:\n",
        "    if False:\n",
        ("tests/test_weighting.py", "-k", "not_private"),
    ),
    Mutant(
        "drafted-schema-accepted",
        "a schema that was drafted from rows is published without a word",
        "marginalsyn/host.py",
        "    if schema.drafted_from_data and not accept_nonprivate_schema:\n",
        "    if False:\n",
        ("tests/test_host.py", "-k", "drafted"),
    ),
    Mutant(
        "unseen-category-added",
        "bought or drafted, a category that only the rows have becomes part of the domain",
        "marginalsyn/private/door.py",
        "        source = open_source(data, table=table, sep=sep, encoding=schema.encoding)\n",
        "        source = open_source(data, table=table, sep=sep, encoding=schema.encoding)\n"
        "        schema = _widened(schema, data)\n",
        (INDEPENDENT,),
    ),
    # one row re-encodes the others
    Mutant(
        "type-of-a-whole-column",
        "objects are read as the one type that fits them all",
        "marginalsyn/table/arrow.py",
        "    return _objects(series)\n\n\ndef _typed",
        "    try:\n        return pa.array(series, from_pandas=True)\n"
        "    except (pa.ArrowException, TypeError):\n"
        "        return pa.array([str(value) for value in series])\n\n\ndef _typed",
        ("tests/table/test_rows_alone.py", "-k", "objects"),
    ),
    Mutant(
        "type-of-a-whole-folder",
        "Parquet files of differing types are read as one that fits them all",
        "marginalsyn/private/sources.py",
        "                if kind != types[column]:\n",
        "                if False:\n",
        ("tests/private/test_sources.py", "-k", "other_types"),
    ),
    # held-out rows
    Mutant(
        "holdout-leaks",
        "visits see the held-out rows",
        "marginalsyn/private/rows.py",
        "        if not self._holdout.share:\n            return table\n",
        "        if not self._holdout.share or not held_out:\n            return table\n",
        ("tests/private/test_door.py", "-k", "parts or removing"),
    ),
    Mutant(
        "holdout-by-position",
        "rows are held out by position although rows may be added, or sorted",
        "marginalsyn/private/holdout.py",
        "    digest = ",
        '    key = ibis.row_number().cast("string")\n    digest = ',
        ("tests/private/test_door.py", "-k", "removing or order_of_rows"),
    ),
    Mutant(
        "fresh-holdout-every-time",
        "a row held out of one release is used in the next",
        "marginalsyn/release/workspace.py",
        "return self._known_salt(source) or secrets.token_hex(16)",
        "return secrets.token_hex(16)",
        ("tests/release/test_workspace.py",),
    ),
    # release folders
    Mutant(
        "amended-without-a-hash",
        "a file is added to a release without its hash",
        "marginalsyn/release/folder.py",
        '    sealed = statement.model_copy(update={"files": files})\n',
        "    known = {n: h for n, h in files.items() if n != WEIGHTS}\n"
        '    sealed = statement.model_copy(update={"files": known})\n',
        ("tests/release/test_folder.py", "-k", "amend"),
    ),
    Mutant(
        "hashes-not-checked",
        "a changed file is read as if it were the release's",
        "marginalsyn/release/folder.py",
        "            if folders.sha256(path) != self.recorded[name]:\n",
        "            if False:\n",
        ("tests/release/test_folder.py", "-k", "changed"),
    ),
    Mutant(
        "pickles-welcome",
        "a release from a stranger may run code",
        "marginalsyn/release/arrays.py",
        'return {m.filename.removesuffix(".npy"): _member(archive, m) for m in members}\n',
        "return dict(np.load(path, allow_pickle=True))\n",
        (DOORS, "tests/release/test_folder.py", "-k", "hostile or unpickles"),
    ),
    Mutant(
        "links-followed",
        "a link in a release folder is followed out of it",
        "marginalsyn/release/staging.py",
        "        status = path.lstat()\n",
        "        status = path.stat()\n",
        ("tests/release/test_folder.py", "-k", "links"),
    ),
    Mutant(
        "charges-not-added-up",
        "a statement's total is believed without its charges",
        "marginalsyn/release/statement.py",
        "            if not math.isclose(stated, added, rel_tol=1e-6, abs_tol=1e-15)\n",
        "            if False\n",
        ("tests/release/test_folder.py", "-k", "doctored or dropped"),
    ),
    Mutant(
        "evaluation-into-a-release",
        "an evaluation, which is not private, may be written into a release",
        "marginalsyn/evaluation/evaluation.py",
        "    if inside:\n",
        "    if False:\n",
        ("tests/evaluation/test_evaluation.py", "-k", "release or folder"),
    ),
    # runs that go on
    Mutant(
        "answer-told-before-kept",
        "a mechanism has an answer that its run could lose",
        "marginalsyn/private/journal.py",
        "self._journal.append(Answer(question, value, laws, heard()))",
        "pass",
        ("tests/private/test_journal.py", "-k", "told_again or tells_no_more"),
    ),
    Mutant(
        "exact-counts-in-a-journal",
        "a journal keeps the question beside its answer",
        "marginalsyn/private/journal.py",
        '"question": answer.question,',
        '"question": answer.question, "asked": [0],',
        ("tests/private/test_journal.py", "-k", "tells_no_more"),
    ),
    Mutant(
        "resumed-from-other-rows",
        "a run goes on although its rows have changed",
        "marginalsyn/private/keeper.py",
        "if trace != run.card.trace:",
        "if False:",
        ("tests/private/test_journal.py", "-k", "cannot_go_on or synthesizer"),
    ),
    Mutant(
        "journal-not-flushed",
        "an answer is told before it is on the disk",
        "marginalsyn/release/durable.py",
        "        os.fsync(handle)\n    except BaseException:",
        "    except BaseException:",
        ("tests/private/test_journal.py", "-k", "on_the_disk"),
    ),
)

# Used by the mutant unseen-category-added.
WIDENED = """

def _widened(schema: Schema, data: object) -> Schema:
    import pandas as pd

    from marginalsyn.table.columns import CategoricalColumn

    columns = list(schema.columns)
    for n, column in enumerate(columns):
        if isinstance(data, pd.DataFrame) and isinstance(column, CategoricalColumn):
            more = [v for v in data[column.name].dropna().unique() if v not in column.categories]
            categories = (*column.categories, *more)
            columns[n] = column.model_copy(update={"categories": categories})
    return schema.model_copy(update={"columns": tuple(columns)})
"""

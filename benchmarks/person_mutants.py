"""Deliberate bugs in what is promised to persons, for benchmarks/mutations.py."""

from __future__ import annotations

from mutants import Mutant

TRAPS = "tests/sources/test_persons.py"
BOUGHT = "tests/drafting/test_person_columns.py"
WEIGHTS = "tests/weights/test_persons.py"

SURVEY = "tests/access/test_survey_weights.py"

PERSONS = (
    Mutant(
        "survey-weights-not-clipped",
        "survey weights are clipped at three times their bound",
        "marginalsyn/sources/persons.py",
        "    inside = ibis.greatest(ibis.least(known, weight.bound), 0.0)\n",
        "    inside = ibis.greatest(ibis.least(known, 3 * weight.bound), 0.0) / 3\n",
        (SURVEY, "-k", "clipped_weights"),
    ),
    Mutant(
        "survey-weights-above-the-bound",
        "a row at the bound counts twice what the noise is for",
        "marginalsyn/access/rows.py",
        "            return Weighing(persons.SHARE, np.arange(persons.PARTS + 1))\n",
        "            return Weighing(persons.SHARE, 2 * np.arange(persons.PARTS + 1))\n",
        (SURVEY, "-k", "one_row_more"),
    ),
    Mutant(
        "person-rows-not-shared",
        "each row of a person weighs one",
        "marginalsyn/sources/persons.py",
        "    found[2 * rows] = WHOLE // rows\n",
        "    found[2 * rows] = WHOLE\n",
        (TRAPS, "-k", "add_up_to_one"),
    ),
    Mutant(
        "person-bound-not-enforced",
        "ten times as many rows of a person are counted",
        "marginalsyn/sources/persons.py",
        "kept = found.filter(found[_PLACE] < unit.max_rows)",
        "kept = found.filter(found[_PLACE] < 10 * unit.max_rows)",
        (TRAPS, "-k", "traps_of_sql"),
    ),
    Mutant(
        "nobody-is-a-person",
        "rows without an id are taken for one person's",
        "marginalsyn/sources/persons.py",
        "found = found.filter(found[_PERSON].notnull()).view()",
        'found = found.mutate(**{_PERSON: ibis.coalesce(found[_PERSON], "")}).view()',
        (TRAPS, "-k", "traps_of_sql"),
    ),
    Mutant(
        "ids-are-trimmed",
        "two spellings of an id are one person",
        "marginalsyn/sources/persons.py",
        "found = table.mutate(**{_PERSON: keyed(table[unit.column], engine)}).view()",
        "text = written(table[unit.column]).strip()\n"
        "    found = table.mutate(**{_PERSON: keyed(text, engine)}).view()",
        (TRAPS, "-k", "traps_of_sql"),
    ),
    Mutant(
        "person-share-by-rounding",
        "shares of a person are rounded to the nearest, and add up to more than one",
        "marginalsyn/sources/persons.py",
        "    found[2 * rows + 1] = WHOLE // rows + 1\n",
        "    found[2 * rows + 1] = WHOLE // rows + 2\n",
        (TRAPS, "-k", "add_up_to_one"),
    ),
    Mutant(
        "person-order-without-hash",
        "ties in the order are decided by the scan",
        "marginalsyn/sources/persons.py",
        "order = [*first, table[_HASH], *[table[name] for name in columns], table[_TWIN]]",
        "order = [*first] or [table[_HASH]]",
        (TRAPS, "-k", "no_other_person or traps_of_sql"),
    ),
    Mutant(
        "person-number-per-row",
        "every row is a person who is sampled by itself",
        "marginalsyn/sources/persons.py",
        "number = ibis.dense_rank().over(ibis.window(order_by=kept[_PERSON]))",
        "number = ibis.row_number().over(ibis.window(order_by=kept[_PERSON]))",
        (TRAPS, "-k", "traps_of_sql"),
    ),
    Mutant(
        "max-rows-scores-unscaled",
        "ranks of persons are selected by as if each person were a million",
        "marginalsyn/purchases/quantiles.py",
        "scores / visit.whole",
        "scores / 1",
        (BOUGHT, "-k", "exponential"),
    ),
    Mutant(
        "two-units-add-up",
        "what was bought for persons is added to what is bought for rows",
        "marginalsyn/host.py",
        "        if before != protected:\n",
        "        if False and before != protected:\n",
        (BOUGHT, "-k", "two_units"),
    ),
    Mutant(
        "person-gradients-not-weighted",
        "each row of a sampled person adds a whole clipped gradient",
        "marginalsyn/weights/dp_sgd.py",
        "            yield float(weight), self._rows[rows[self._weights[rows] == weight]]",
        "            yield 1.0, self._rows[rows[self._weights[rows] == weight]]",
        (WEIGHTS, "-k", "samples_sums"),
    ),
    Mutant(
        "person-label-gradients-not-weighted",
        "each row of a person adds a whole clipped gradient of the label's chances",
        "marginalsyn/weights/label_correction.py",
        "added = part.weight * network.clipped_sum(",
        "added = network.clipped_sum(",
        (WEIGHTS, "-k", "clipping_norm"),
    ),
    Mutant(
        "person-weights-dropped",
        "rows come without what they weigh: each counts as a person",
        "marginalsyn/access/rows.py",
        "None if weighing is None else weighing.weights[codes[0]] / self.whole,",
        "None if weighing is None else np.ones(len(values)),",
        (WEIGHTS, "-k", "weigh_one_person"),
    ),
    Mutant(
        "person-regression-not-weighted",
        "each row of a person pulls at the coefficients as a person",
        "marginalsyn/table/features.py",
        "        return FeatureRows(self, *weighted_codes(rows))",
        "        return FeatureRows(self, weighted_codes(rows)[0])",
        (WEIGHTS, "-k", "masses or coefficients"),
    ),
    Mutant(
        "person-scores-not-weighted",
        "each row of a person moves PrivBayes' score by one",
        "marginalsyn/generators/dependence.py",
        "np.bincount(cells, weights, minlength=total.size)",
        "np.bincount(cells, minlength=total.size)",
        (WEIGHTS, "-k", "scores_of_parents"),
    ),
    Mutant(
        "certificate-of-one-row",
        "a certificate's noise is that of one row of a person",
        "plugins/research/moment_certificate.py",
        "        return 1 if unit is None else unit.max_rows",
        "        return 1",
        (WEIGHTS, "-k", "sums_of_a_certificate"),
    ),
)

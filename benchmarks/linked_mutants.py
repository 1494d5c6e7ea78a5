"""Deliberate bugs in how linked tables are counted, for benchmarks/mutations.py."""

from __future__ import annotations

from mutants import Mutant

FORESTS = "tests/sources/test_linked_views.py"
RUNS = "tests/linked/test_linked_runs.py"
TABLES = "tests/linked/test_linked_table.py"
PERSONS_TABLE = "tests/linked/test_persons_table.py"
EVALUATED = "tests/evaluation/test_linked.py"

LINKED = (
    Mutant(
        "children-bound-not-enforced",
        "ten times as many children of a parent are counted",
        "marginalsyn/sources/linked_views.py",
        "counted = coded.filter(coded[_PLACE] < table.max_children)",
        "counted = coded.filter(coded[_PLACE] < 10 * table.max_children)",
        (FORESTS, "-k", "plain_computation"),
    ),
    Mutant(
        "children-share-nothing",
        "each path of a person weighs one",
        "marginalsyn/sources/persons.py",
        "AMOUNT: even + more",
        "AMOUNT: found[AMOUNT]",
        (FORESTS, "-k", "shared_exactly"),
    ),
    Mutant(
        "children-share-too-much",
        "shares of a person's unit add up to more than it",
        "marginalsyn/sources/persons.py",
        'found["rank"] < spare',
        'found["rank"] <= spare',
        (FORESTS, "-k", "shared_exactly"),
    ),
    Mutant(
        "person-there-twice",
        "two rows of the root with one key are counted as two persons",
        "marginalsyn/sources/linked_views.py",
        "found = found.filter(found[_TURN] == 0).view()\n        return self.side(",
        "found = found.filter(found[_TURN] >= 0).view()\n        return self.side(",
        (FORESTS, "-k", "shared_exactly"),
    ),
    Mutant(
        "shared-key-goes-to-one-parent",
        "rows of a key under two parents are counted for one of them, who takes the other's",
        "marginalsyn/sources/linked_views.py",
        "            joined = found.join(right, found[KEY] == right[LINK])",
        '            found = found.distinct(on=[KEY], keep="first").view()\n'
        "            joined = found.join(right, found[KEY] == right[LINK])",
        (FORESTS, "-k", "whoever or two_parents"),
    ),
    # one charge, one visit, several views
    Mutant(
        "view-spends-the-whole",
        "what a view may spend is not taken out of what was charged, and is spent again",
        "marginalsyn/access/prepaid_budget.py",
        "[*self._spent[pot], *(part._amounts[pot] for part in self._parts)]",
        "[*self._spent[pot]]",
        (FORESTS, "-k", "all_views_is_one_entry"),
    ),
    Mutant(
        "view-outlives-its-visit",
        "a view still gives counts when the visit that paid for it is over",
        "marginalsyn/access/prepaid_budget.py",
        "if self.closed or (self._whole_budget is not None and self._whole_budget.closed):",
        "if self.closed:",
        (FORESTS, "-k", "all_views_is_one_entry"),
    ),
    Mutant(
        "stopped-in-a-view-for-nothing",
        "a run on linked tables that stopped counts as if its views had spent nothing",
        "marginalsyn/access/prepaid_budget.py",
        "sums = {pot: math.fsum(self._paid(pot)) * (1 + 1e-15)",
        "sums = {pot: math.fsum(self._spent[pot]) * (1 + 1e-15)",
        (RUNS, "-k", "first_counts"),
    ),
    Mutant(
        "resumed-on-another-table",
        "a run on linked tables goes on although one of them has changed",
        "marginalsyn/sources/source.py",
        "traces = [source.trace for source in sources]",
        "traces = [source.trace for source in [*sources][:1]]",
        (RUNS, "-k", "same_questions"),
    ),
    Mutant(
        "persons-asked-on-other-tables",
        "weights of linked tables go on although a table has changed",
        "marginalsyn/access/linked_tables.py",
        "return trace_of(self._owner._sources)",
        "return None",
        (RUNS, "-k", "persons_are_asked"),
    ),
    Mutant(
        "resumed-with-more-to-spend",
        "a run goes on with a larger budget than was charged, and its new answers are free",
        "marginalsyn/records/runs.py",
        '_FREE = {"version", "day", "post"}',
        '_FREE = {"version", "day", "post", "eps", "charges"}',
        (RUNS, "-k", "same_questions"),
    ),
    Mutant(
        "resumed-under-another-schema",
        "answers about one schema are taken for answers about another",
        "marginalsyn/host.py",
        '        "schema": digest(schema),\n        **({"reference"',
        '        **({"reference"',
        (RUNS, "-k", "same_questions"),
    ),
    Mutant(
        "resumed-with-other-rows-drawn",
        "a run that goes on draws its rows from a stream of its own",
        "marginalsyn/host.py",
        "_as_rows(synthesis, config, schema, visit.noise)",
        "_as_rows(synthesis, config, schema, noise)",
        (RUNS, "-k", "not_yet_written"),
    ),
    Mutant(
        "children-of-nobody-released",
        "tables are released although their keys do not fit together",
        "marginalsyn/host.py",
        'return "; ".join(tree_problems(schema, made.frames))',
        'return ""',
        (RUNS, "-k", "fit_together"),
    ),
    Mutant(
        "certificate-of-linked-tables-unchecked",
        "a changed certificate of a release of linked tables passes",
        "marginalsyn/certificates/measured.py",
        "            if found:\n",
        "            if found or is_linked_release(path):\n",
        (TABLES, "-k", "certificate"),
    ),
    Mutant(
        "person-row-for-each-child",
        "a person of the root's own columns has a row for each row below",
        "marginalsyn/sources/linked_views.py",
        'counts = named.group_by("of").aggregate(number=ibis._.count())',
        "counts = named.mutate(number=1)",
        (PERSONS_TABLE, "-k", "one_row_more or same_of_persons"),
    ),
    Mutant(
        "fresh-sample-splits-persons",
        "the yardstick of linked tables takes rows of a person for rows of strangers",
        "plugins/reports/marginal_errors.py",
        "        if groups is None:\n",
        "        if groups is None or True:\n",
        (EVALUATED, "-k", "rows_of_a_person_together"),
    ),
)

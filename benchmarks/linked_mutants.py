"""Deliberate bugs in how linked tables are counted, for benchmarks/mutations.py."""

from __future__ import annotations

from mutants import Mutant

FORESTS = "tests/sources/test_linked_views.py"
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
        "found = found.filter(found[_TURN] == 0).view()\n            found = self._encoded(",
        "found = found.filter(found[_TURN] >= 0).view()\n            found = self._encoded(",
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
    Mutant(
        "certificate-of-linked-tables-unchecked",
        "a changed certificate of a release of linked tables passes",
        "marginalsyn/certificates/verification.py",
        "    if found:\n        return found\n",
        "    if found or is_linked_release(path):\n        return found\n",
        (TABLES, "-k", "certificate"),
    ),
    Mutant(
        "person-row-for-each-child",
        "a person of the root's own columns has a row for each row below",
        "marginalsyn/access/person_rows.py",
        "            counts = forest.numbers(child)\n",
        "            counts = forest.tables[child.name].select(of=child.link).mutate(number=1)\n",
        (PERSONS_TABLE, "-k", "one_row_more"),
    ),
    Mutant(
        "fresh-sample-splits-persons",
        "the yardstick of linked tables takes rows of a person for rows of strangers",
        "marginalsyn/evaluation/marginals.py",
        "        if groups is None:\n",
        "        if groups is None or True:\n",
        (EVALUATED, "-k", "rows_of_a_person_together"),
    ),
)

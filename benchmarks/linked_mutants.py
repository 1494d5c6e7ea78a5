"""Deliberate bugs in how linked tables are counted, for benchmarks/mutations.py."""

from __future__ import annotations

from mutants import Mutant

FORESTS = "tests/sources/test_linked_views.py"

LINKED = (
    Mutant(
        "children-bound-not-enforced",
        "ten times as many children of a parent are counted",
        "marginalsyn/sources/linked_views.py",
        "kept = coded.filter(coded[_PLACE] < table.max_children)",
        "kept = coded.filter(coded[_PLACE] < 10 * table.max_children)",
        (FORESTS, "-k", "plain_computation"),
    ),
    Mutant(
        "children-share-nothing",
        "each path of a person weighs one",
        "marginalsyn/sources/shares.py",
        "AMOUNT: even + more",
        "AMOUNT: found[AMOUNT]",
        (FORESTS, "-k", "shared_exactly"),
    ),
    Mutant(
        "children-share-too-much",
        "shares of a person's unit add up to more than it",
        "marginalsyn/sources/shares.py",
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
)

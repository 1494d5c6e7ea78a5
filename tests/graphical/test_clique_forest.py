"""The forest of cliques: what a pair adds at most, and where ways cross."""

from __future__ import annotations

import numpy as np

from marginalsyn.graphical.junction_tree import CliqueForest, count_cells


def test_what_columns_add_is_bounded():
    rng = np.random.default_rng(0)
    for _ in range(150):
        sizes = rng.integers(2, 6, 9).tolist()
        cliques = [
            tuple(sorted(rng.choice(9, 2, replace=False).tolist()))
            for _ in range(int(rng.integers(0, 9)))
        ]
        forest = CliqueForest(sizes, cliques)
        assert forest.cells == count_cells(sizes, cliques)
        for k in (1, 2, 3):
            more = tuple(sorted(rng.choice(9, k, replace=False).tolist()))
            assert count_cells(sizes, [*cliques, more]) <= forest.cells + forest.added(more)
        for a, b in cliques:
            assert forest.parts[a] == forest.parts[b]
            assert forest.growth[a, b] == forest.added((a, b)) == 0


def test_ways_and_regions_of_a_chain():
    chain = CliqueForest([2] * 6, [(i, i + 1) for i in range(4)])
    assert len(chain.way(0, 4)) == 4
    assert chain.growth[0, 2] == 4, "column 0 joins the one clique that holds column 2"
    assert np.isinf(chain.growth[0, 5]), "column 5 is a part of its own"
    inside = chain.regions(chain.way(0, 2))
    assert inside[0] == inside[1] == inside[2] == -1
    assert inside[3] != -1
    assert inside[4] == inside[3] != inside[5]

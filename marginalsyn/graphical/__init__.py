"""Private-PGM: fits graphical models to noisy marginals, queries them and samples from them.

May touch: table, contract. No private rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginalsyn.lazy import faces

if TYPE_CHECKING:
    from marginalsyn.graphical.bayes_net import BayesNet, Node, Parent
    from marginalsyn.graphical.clique_forest import CliqueForest
    from marginalsyn.graphical.compression import (
        Compression,
        Merge,
        compress_column,
        identity,
        with_shares,
    )
    from marginalsyn.graphical.conditional import ConditionalDraws
    from marginalsyn.graphical.estimation import (
        draw_possible,
        estimate_total,
        impossible_rows,
        is_distribution,
        known_total,
        project_to_simplex,
        redraw,
        round_counts,
        warn_of_noise,
        zeros_of,
    )
    from marginalsyn.graphical.model import Fitted
    from marginalsyn.graphical.one_way import (
        L1_PER_CELL,
        OneWay,
        draw_frame,
        noise_l1,
        summarise_one_way,
    )
    from marginalsyn.graphical.private_pgm import fit_mbi, load_mbi, mbi_model, tables_of
    from marginalsyn.graphical.soft_rows import SoftTable, fit_rows

__getattr__, __dir__ = faces(__name__)

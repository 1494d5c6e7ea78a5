"""Neural networks: dense layers, private gradient steps, adversarial training.

May touch: graphical, table, noise, budget.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginalsyn.lazy import faces

if TYPE_CHECKING:
    from marginalsyn.networks.adversarial import (
        AdversarialTraining,
        Maker,
        MakerNetwork,
        PrivateVectors,
        train_adversarially,
    )
    from marginalsyn.networks.dense import (
        Adam,
        check_layers,
        check_number,
        forward,
        layers_of,
        pack_layers,
        unpack_layers,
    )
    from marginalsyn.networks.dp_sgd import (
        Persons,
        Training,
        private_gradient,
        train,
    )
    from marginalsyn.networks.heads import Heads, shares_of
    from marginalsyn.networks.per_row import RowNetwork, Tilt, build_network, choose_engine
    from marginalsyn.networks.teachers import (
        FeatureSpace,
        RandomFeatures,
        Student,
        Teachers,
        deal_rows,
        vote_reach,
    )
    from marginalsyn.networks.tensorflow_engine import Network, chunk_rows
    from marginalsyn.networks.weighted_generator import Head, WeightedGenerator

__getattr__, __dir__ = faces(__name__)

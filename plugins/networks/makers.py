"""What the adversarial networks share: checks of their knobs, and stored models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from marginalsyn.contract import (
    Calibrated,
    GeneratorConfig,
    Measurement,
    Model,
    Synthesis,
    check_rows,
    option,
)
from marginalsyn.errors import ReleaseError
from marginalsyn.generators.marginals import ROWS, whole_rows
from marginalsyn.graphical.estimation import warn_of_noise
from marginalsyn.plugins.networks.adversarial import Maker
from marginalsyn.plugins.networks.dense import check_layers, check_number, forward, unpack_layers
from marginalsyn.plugins.networks.heads import Heads
from marginalsyn.table.codec import Codec

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from marginalsyn.access.visit import Visit
    from marginalsyn.table.schema import Schema

COUNTS = "one-way marginals"

ANCHOR = option(
    3.0, "How strongly the generator is pulled towards the one-way marginals. Costs no privacy."
)
GENERATOR_HIDDEN = option((64,), "Number of units in each hidden layer of the generator.")
LATENT = option(16, "Number of random inputs that the generator turns into one row.")
GENERATOR_RATE = option(0.002, "Learning rate of the generator (Adam).")


def read_maker(model: Model, schema: Schema) -> Maker:
    """The generator network in a release's model; the file is not trusted."""
    given, latent = model.meta.get("given"), model.meta.get("latent")
    known = isinstance(given, list) and set(map(str, given)) <= set(schema.names)
    if not known or not isinstance(latent, int) or not 0 <= latent <= 10**6:
        raise ReleaseError("model must name the given columns and the number of latent numbers")
    return Maker.read(schema, given or (), latent, model.arrays)


def sample_maker(
    model: Model, schema: Schema, rows: int | None, rng: np.random.Generator
) -> pd.DataFrame:
    """More rows from a stored generator network, at no cost in privacy."""
    maker = read_maker(model, schema)
    count = model.meta.get("rows", 0) if rows is None else rows
    check_rows(count)
    return Codec(schema).decode(maker.possible_codes(count, rng), rng)


def score_rows(network: str, model: Model, schema: Schema, frame: pd.DataFrame) -> np.ndarray:
    """The output of a stored network for every row, from codes."""
    heads = Heads.read(schema, model.arrays)
    layers = unpack_layers(network, model.arrays, heads.width, 1)
    return forward(layers, heads.rows(Codec(schema).encode(frame), None))[:, 0]


@dataclass(frozen=True, kw_only=True)
class MakerConfig(GeneratorConfig):
    """What the configs of adversarial networks have.

    ``ranges`` are the least and the most of its numbers; None is a number that is not given.
    """

    requires = ("tensorflow",)
    reads_bare = True
    scores: ClassVar[Literal["log-odds", "critic"] | None] = "log-odds"
    layers: ClassVar[Sequence[str]] = ("generator_hidden",)
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {}

    rows: int | None = ROWS

    sample = staticmethod(sample_maker)

    def __post_init__(self) -> None:
        check_rows(self.rows)
        for name in self.layers:
            check_layers(name, getattr(self, name))
        for name, (least, most) in self.ranges.items():
            if (value := getattr(self, name)) is not None:
                check_number(name, value, least, most)


class MakerGenerator(Calibrated):
    """What adversarial networks do alike."""

    def draw(
        self,
        visit: Visit,
        maker: Maker,
        measured: Sequence[Measurement],
        counted: tuple[float, float],
        scorer: Mapping[str, np.ndarray],
        meta: Mapping[str, Any],
        notes: Mapping[str, Any],
    ) -> Synthesis:
        """Draw rows from a trained generator network and pack what the release holds.

        Args:
            visit: gives the codec and draws the rows.
            maker: the generator network.
            measured: the noisy counts that are released with it.
            counted: the estimated number of rows, and its standard deviation.
            scorer: the packed layers of the discriminator or student.
            meta: what is known of the model with its sizes.
            notes: for the statement.
        """
        config, (total, spread) = self.config, counted
        estimated = whole_rows(total)
        rows = estimated if config.rows is None else config.rows
        codes = maker.possible_codes(rows, visit.noise.post)
        return Synthesis(
            frame=visit.codec.decode(codes, visit.noise.post),
            measurements=measured,
            model=Model(
                kind=config.name,
                arrays={**maker.arrays, **scorer},
                meta={"rows": estimated, "latent": config.latent, **meta},
            ),
            warnings=warn_of_noise(total, spread) if spread else (),
            notes={"estimated_rows": estimated, "estimated_rows_sd": spread, **notes},
        )

"""What the adversarial networks share: checks of their knobs, and stored models."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from marginalsyn.contract import check_rows
from marginalsyn.errors import ReleaseError
from marginalsyn.networks import Heads, Maker, check_layers, check_number, forward, unpack_layers
from marginalsyn.table import Codec

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from marginalsyn.contract import Model
    from marginalsyn.table import Schema

COUNTS = "one-way marginals"


def check_network_knobs(
    config: Any, layers: Iterable[str], ranges: Iterable[tuple[str, float, float]]
) -> None:
    """Refuse hidden layers and numbers out of their range; None is a number that is not given."""
    check_rows(config.rows)
    for name in layers:
        check_layers(name, getattr(config, name))
    for name, least, most in ranges:
        value = getattr(config, name)
        if value is not None:
            check_number(name, value, least, most)


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

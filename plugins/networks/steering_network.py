"""A generator network for rows of a schema, trained on weighted synthetic rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from marginalsyn.graphical.estimation import draw_possible
from marginalsyn.plugins.networks.heads import Heads
from marginalsyn.plugins.networks.weighted_generator import Head, WeightedGenerator

if TYPE_CHECKING:
    from marginalsyn.progress import Progress
    from marginalsyn.steering.steering import SteeredRows
    from marginalsyn.table.schema import Schema

TEMPERATURE = 0.5
# Rows made for each that is wanted: the margins are set by drawing among them.
SPARE = 4


def made(
    source: SteeredRows,
    schema: Schema,
    loss: str,
    rows: int,
    rng: np.random.Generator,
    options: Mapping[str, Any],
    progress: Progress,
) -> np.ndarray:
    """Train on weighted rows; codes of several times as many rows as are wanted."""
    shares = {
        name: np.bincount(source.codes[:, number], source.weights, minlength=size)
        for number, (name, size) in enumerate(schema.domain.items())
    }
    heads = Heads(schema, shares)
    choices = sum(head.choices for head in heads.heads)
    trained = WeightedGenerator(loss=loss, **options).fit(
        heads.rows(source.codes, rng),
        source.weights,
        rng,
        head=head_of(heads),
        outputs=sum(head.outputs for head in heads.heads),
        draws=choices,
        report=lambda done: progress.report("train", fraction=0.9 * done),
    )

    def codes(count: int) -> np.ndarray:
        outputs, gumbel = trained(count, rng), rng.gumbel(size=(count, choices))
        columns = []
        for head in heads.heads:
            own, outputs = np.split(outputs, [head.outputs], axis=1)
            noise, gumbel = np.split(gumbel, [head.choices], axis=1)
            columns.append(head.codes(own, noise))
        return np.column_stack(columns).astype(np.int32)

    return draw_possible(schema, SPARE * rows, codes, rng)


def head_of(heads: Heads) -> Head:
    """Outputs and uniform numbers as the vectors of rows: hard choices with soft gradients."""

    def vectors(outputs: Any, uniform: Any, _: Any) -> Any:
        gumbel = -jnp.log(-jnp.log(jnp.clip(uniform, 1e-7, 1 - 1e-7)))
        parts, out, pick = [], 0, 0
        for head in heads.heads:
            own = outputs[:, out : out + head.outputs]
            noise = gumbel[:, pick : pick + head.choices]
            out, pick = out + head.outputs, pick + head.choices
            present: Any = 1.0
            if head.choices:
                soft = jax.nn.softmax((own[:, int(head.ordered) :] + noise) / TEMPERATURE)
                hard = jax.nn.one_hot(jnp.argmax(soft, axis=1), head.choices)
                chosen = soft + jax.lax.stop_gradient(hard - soft)
                if not head.ordered:
                    parts.append(chosen - head.shares)
                    continue
                present = chosen[:, :1]
            place = jax.scipy.special.erf(own[:, :1] / math.sqrt(2.0))
            parts.append(present * place)
            if head.choices:
                parts.append(chosen[:, 1:] - head.shares[head.levels :])
        return jnp.concatenate(parts, axis=1)

    return vectors

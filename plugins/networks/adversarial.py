"""A generator network against a privately trained discriminator.

Only the discriminator's steps see private rows (:mod:`marginalsyn.weights.dp_sgd`): whatever the
generator learns, it learns from the discriminator and from public numbers, as post-processing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd

from marginalsyn.access.visit import Visit
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
from marginalsyn.graphical.estimation import draw_possible, known_total, warn_of_noise
from marginalsyn.plugins.networks.heads import Head, Heads, shares_of
from marginalsyn.plugins.networks.tensorflow_engine import Network, load_tensorflow
from marginalsyn.progress import Progress
from marginalsyn.table.codec import Codec
from marginalsyn.table.schema import Schema
from marginalsyn.weights.dense import (
    Layers,
    check_layers,
    check_number,
    first_parameters,
    forward,
    is_numbers,
    layers_of,
    pack_layers,
    shapes_of,
    split,
    unpack_layers,
)

TEMPERATURE = 0.5
BATCH = 256
"""Rows in a step of a maker."""


@dataclass(frozen=True)
class Layout:
    """What a maker's inputs and outputs stand for.

    Attributes:
        heads: of the columns.
        given: positions of the columns that rows are made for, drawn from their shares.
        latent: how many random numbers all columns share.
    """

    heads: Heads
    given: tuple[int, ...]
    latent: int

    @cached_property
    def made(self) -> dict[int, Head]:
        """The heads of the columns that are made, by position."""
        return {p: head for p, head in enumerate(self.heads.heads) if p not in self.given}

    @cached_property
    def sizes(self) -> tuple[int, int]:
        """How many inputs and outputs there are."""
        own = sum(head.ordered for head in self.made.values())
        blocks = sum(self.heads.heads[p].width for p in self.given)
        return own + self.latent + blocks, sum(head.outputs for head in self.made.values())

    @cached_property
    def choices(self) -> int:
        """How many alternatives all made columns have together."""
        return sum(head.choices for head in self.made.values())

    def draw_given(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Draw codes of the given columns, each from its shares."""
        shares = [self.heads.heads[p].shares for p in self.given]
        drawn = [rng.choice(len(own), rows, p=own / own.sum()) for own in shares]
        return np.array(drawn, dtype=np.int32).reshape(len(shares), rows).T

    def draw_inputs(
        self, codes: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """The inputs for rows with the given codes, and the Gumbel noise of their choices."""
        rows, heads = len(codes), self.heads.heads
        own = sum(head.ordered for head in self.made.values())
        normal = rng.standard_normal((rows, own + self.latent))
        gumbel = rng.gumbel(size=(rows, self.choices))
        blocks = [heads[p].rows(codes[:, k], rng.random(rows)) for k, p in enumerate(self.given)]
        return np.hstack([normal, *blocks]), gumbel

    def parts(self, outputs: Any, gumbel: Any) -> Iterator[tuple[int, Head, Any, Any]]:
        """Every made column's position and head, with its own outputs and noise."""
        out, pick = 0, 0
        for position, head in self.made.items():
            own = outputs[:, out : out + head.outputs]
            yield position, head, own, gumbel[:, pick : pick + head.choices]
            out, pick = out + head.outputs, pick + head.choices


@dataclass(frozen=True)
class Maker:
    """A generator network that makes rows: all that is needed to sample, in plain numpy.

    Every ordered column starts as a normal number of its own and every choice from its column's
    shares, so that an untrained maker gives independent columns; layers of tanh units, which also
    see the shared numbers and the vector of the given columns, bend them.

    Attributes:
        layout: of inputs and outputs.
        skip: the linear map from inputs to outputs.
        layers: the network whose outputs are added to that.
    """

    layout: Layout
    skip: np.ndarray
    layers: Layers

    def codes(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Draw rows of codes."""
        layout = self.layout
        given = layout.draw_given(rows, rng)
        inputs, gumbel = layout.draw_inputs(given, rng)
        outputs = forward(self.layers, inputs) + inputs @ self.skip
        codes = np.empty((rows, len(layout.heads.heads)), dtype=np.int32)
        codes[:, list(layout.given)] = given
        for position, head, own, noise in layout.parts(outputs, gumbel):
            codes[:, position] = head.codes(own, noise)
        return codes

    def possible_codes(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Draw rows of codes that are not structural zeros."""
        schema = self.layout.heads.schema
        return draw_possible(schema, rows, lambda count: self.codes(count, rng), rng)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays that a release's model stores."""
        named = {"generator.skip": self.skip, **pack_layers("generator", self.layers)}
        return {**self.layout.heads.arrays, **named}

    @classmethod
    def read(
        cls, schema: Schema, given: Sequence[str], latent: int, arrays: Mapping[str, np.ndarray]
    ) -> Maker:
        """Undo ``arrays``; they may come from an untrusted file."""
        places = tuple(schema.names.index(name) for name in given)
        layout = Layout(Heads.read(schema, arrays), places, latent)
        inputs, outputs = layout.sizes
        skip = arrays.get("generator.skip")
        if skip is None or not is_numbers(skip, (inputs, outputs)):
            raise ReleaseError(f"model (generator.skip) must be {inputs} by {outputs} numbers")
        return cls(layout, skip, unpack_layers("generator", arrays, inputs, outputs))


class MakerNetwork:
    """A maker in training.

    Args:
        layout: of inputs and outputs.
        hidden: units of the hidden layers.
        rng: draws the first parameters.
    """

    def __init__(self, layout: Layout, hidden: Sequence[int], rng: np.random.Generator) -> None:
        self.layout = layout
        inputs, outputs = layout.sizes
        self._layer_shapes = shapes_of([inputs, *hidden, outputs])
        self.shapes = [(inputs, outputs), *self._layer_shapes]
        skip, bias, out, own = np.zeros((inputs, outputs)), [np.empty(0)], 0, 0
        for head in layout.made.values():
            if head.ordered:
                skip[own, out] = 1.0
                own += 1
            bias.append(np.concatenate([np.zeros(int(head.ordered)), head.odds]))
            out += head.outputs
        first = first_parameters(self._layer_shapes, rng, 0.5)
        first[first.size - outputs :] = np.concatenate(bias)
        self.parameters = np.concatenate([skip.ravel(), first])

    def maker(self, parameters: np.ndarray | None = None) -> Maker:
        """The maker with these parameters, or with the current ones."""
        flat = self.parameters if parameters is None else parameters
        skip, *_ = split(flat, self.shapes)
        return Maker(self.layout, skip, layers_of(flat[skip.size :], self._layer_shapes))

    def gradient_against(
        self, network: Network, anchor: float = 0.0
    ) -> Callable[[int, np.random.Generator], Any]:
        """A function that returns the gradient of the maker's loss on ``count`` fresh rows.

        The loss is softplus(-log-odds), or minus the critic's value, plus ``anchor`` times how far
        the rows' single columns stray from the public shares.
        """
        tf, layout = load_tensorflow(), self.layout
        variables = [tf.Variable(part) for part in split(self.parameters, self.shapes)]
        inputs, _ = layout.sizes
        blocks = {p: layout.heads.heads[p].width for p in layout.given}

        @tf.function(
            autograph=False,
            input_signature=[
                tf.TensorSpec((None, inputs), tf.float64),
                tf.TensorSpec((None, layout.choices), tf.float64),
            ],
        )
        def step(drawn: Any, gumbel: Any) -> Any:
            with tf.GradientTape() as tape:
                values = drawn
                skip, *rest = variables
                for kernel, bias in zip(rest[:-2:2], rest[1:-2:2], strict=True):
                    values = tf.tanh(values @ kernel + bias)
                outputs = values @ rest[-2] + rest[-1] + drawn @ skip
                start = inputs - sum(blocks.values())
                parts, strays = {}, []
                for position, width in blocks.items():
                    parts[position] = drawn[:, start : start + width]
                    start += width
                for position, head, own, noise in layout.parts(outputs, gumbel):
                    parts[position] = head.tensor(tf, own, noise, TEMPERATURE)
                    if anchor:
                        strays.append(head.stray(tf, parts[position]))
                rows = tf.concat([parts[p] for p in sorted(parts)], axis=1)
                scores = network.model(rows, training=True)[:, 0]
                losses = -scores if network.loss == "critic" else tf.nn.softplus(-scores)
                loss = tf.reduce_mean(losses)
                if strays:
                    loss += anchor * tf.add_n(strays)
            slopes = tape.gradient(loss, variables, unconnected_gradients="zero")
            return tf.concat([tf.reshape(slope, [-1]) for slope in slopes], 0)

        def gradient(count: int, rng: np.random.Generator) -> np.ndarray:
            for variable, part in zip(variables, split(self.parameters, self.shapes), strict=True):
                variable.assign(part)
            codes = layout.draw_given(count, rng)
            return step(*layout.draw_inputs(codes, rng)).numpy()

        return gradient


COUNTS = "one-way marginals"

ANCHOR = option(
    3.0, "How strongly the generator is pulled towards the one-way marginals. Costs no privacy."
)
GENERATOR_HIDDEN = option((64,), "Number of units in each hidden layer of the generator.")
LATENT = option(16, "Number of random inputs that the generator turns into one row.")
GENERATOR_RATE = option(0.002, "Learning rate of the generator (Adam).")


def sample_maker(
    model: Model, schema: Schema, rows: int | None, rng: np.random.Generator
) -> pd.DataFrame:
    """More rows from a stored generator network, at no cost in privacy; the file is not trusted."""
    given, latent = model.meta.get("given"), model.meta.get("latent")
    known = isinstance(given, list) and set(map(str, given)) <= set(schema.names)
    if not known or not isinstance(latent, int) or not 0 <= latent <= 10**6:
        raise ReleaseError("model must name the given columns and the number of latent numbers")
    maker = Maker.read(schema, given or (), latent, model.arrays)
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

    def count(
        self,
        visit: Visit,
        progress: Progress,
        marginals: Sequence[tuple[str, ...]],
        sigma: float,
    ) -> tuple[list[Measurement], tuple[float, float], Heads]:
        """Measure what the networks' scales and the number of rows are taken from.

        Returns:
            The measurements, the number of rows with its standard deviation, and the heads.
        """
        progress.report("measure", text=COUNTS)
        measured = [visit.measure(columns, sigma, purpose=COUNTS) for columns in marginals]
        visit.review(measured)
        counted = known_total(visit, measured)
        shares = shares_of([one for one in measured if one.columns], counted[0])
        return measured, counted, Heads(self.schema, shares)

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

"""A generator network against a privately trained discriminator.

Only the discriminator's steps see private rows (:mod:`marginalsyn.plugins.networks.dp_sgd`): whatever the
generator learns, it learns from the discriminator and from public numbers, as post-processing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalsyn.errors import ReleaseError
from marginalsyn.graphical.estimation import draw_possible
from marginalsyn.plugins.networks.dense import (
    Adam,
    Layers,
    first_parameters,
    forward,
    is_numbers,
    layers_of,
    load_tensorflow,
    pack_layers,
    shapes_of,
    split,
    unpack_layers,
)
from marginalsyn.plugins.networks.dp_sgd import Inputs, Network, Training, joint_gradient
from marginalsyn.plugins.networks.heads import Heads

if TYPE_CHECKING:
    from marginalsyn.privacy.noise import Noise
    from marginalsyn.privacy.streams import Key
    from marginalsyn.table.schema import Schema

TEMPERATURE = 0.5
MOST_FAKES = 1024


@dataclass(frozen=True)
class Maker:
    """A generator network that makes rows: all that is needed to sample, in plain numpy.

    Every ordered column starts as a normal number of its own and every choice from its column's
    shares, so that an untrained maker gives independent columns; layers of tanh units, which also
    see ``latent`` shared numbers and the vector of the given columns, bend them.

    Attributes:
        heads: of the columns.
        given: positions of the columns that rows are made for, drawn from their shares.
        latent: how many random numbers all columns share.
        skip: the linear map from inputs to outputs.
        layers: the network whose outputs are added to that.
    """

    heads: Heads
    given: tuple[int, ...]
    latent: int
    skip: np.ndarray
    layers: Layers

    @property
    def made(self) -> list[int]:
        """Positions of the columns that are made."""
        return _made(self.heads, self.given)

    def codes(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Draw rows of codes."""
        given = draw_given(self.heads, self.given, rows, rng)
        inputs, gumbel = draw_inputs(self.heads, self.given, self.latent, given, rng)
        outputs = forward(self.layers, inputs) + inputs @ self.skip
        codes = np.empty((rows, len(self.heads.heads)), dtype=np.int32)
        codes[:, list(self.given)] = given
        out, picks = 0, 0
        for position in self.made:
            head = self.heads.heads[position]
            codes[:, position] = head.codes(
                outputs[:, out : out + head.outputs], gumbel[:, picks : picks + head.choices]
            )
            out, picks = out + head.outputs, picks + head.choices
        return codes

    def possible_codes(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Draw rows of codes that are not structural zeros."""
        return draw_possible(self.heads.schema, rows, lambda count: self.codes(count, rng), rng)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays that a release's model stores."""
        named = {"generator.skip": self.skip, **pack_layers("generator", self.layers)}
        return {**self.heads.arrays, **named}

    @classmethod
    def read(
        cls, schema: Schema, given: Sequence[str], latent: int, arrays: Mapping[str, np.ndarray]
    ) -> Maker:
        """Undo ``arrays``; they may come from an untrusted file."""
        heads = Heads.read(schema, arrays)
        places = tuple(schema.names.index(name) for name in given)
        inputs, outputs = _sizes(heads, places, latent)
        skip = arrays.get("generator.skip")
        if skip is None or not is_numbers(skip, (inputs, outputs)):
            raise ReleaseError(f"model (generator.skip) must be {inputs} by {outputs} numbers")
        return cls(heads, places, latent, skip, unpack_layers("generator", arrays, inputs, outputs))


def draw_given(
    heads: Heads, given: Sequence[int], rows: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw codes of the given columns, each from its shares."""
    drawn = [
        rng.choice(len(heads.heads[p].shares), rows, p=_normalised(heads.heads[p].shares))
        for p in given
    ]
    return np.array(drawn, dtype=np.int32).reshape(len(given), rows).T


def draw_inputs(
    heads: Heads, given: Sequence[int], latent: int, codes: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """A maker's inputs for rows with the given codes, and the Gumbel noise of its choices."""
    made = [heads.heads[p] for p in _made(heads, given)]
    rows = len(codes)
    normal = rng.standard_normal((rows, sum(head.ordered for head in made) + latent))
    gumbel = rng.gumbel(size=(rows, sum(head.choices for head in made)))
    blocks = [heads.heads[p].rows(codes[:, k], rng.random(rows)) for k, p in enumerate(given)]
    return np.hstack([normal, *blocks]), gumbel


class MakerNetwork:
    """A maker in training.

    Args:
        heads: of the columns.
        given: positions of the columns that rows are made for.
        latent: how many random numbers all columns share.
        hidden: units of the hidden layers.
        rng: draws the first parameters.
    """

    def __init__(
        self,
        heads: Heads,
        given: Sequence[int],
        latent: int,
        hidden: Sequence[int],
        rng: np.random.Generator,
    ) -> None:
        self.heads, self.given, self.latent = heads, tuple(given), latent
        inputs, outputs = _sizes(heads, self.given, latent)
        self._layer_shapes = shapes_of([inputs, *hidden, outputs])
        self.shapes = [(inputs, outputs), *self._layer_shapes]
        skip, bias, out, own = np.zeros((inputs, outputs)), [], 0, 0
        for position in _made(heads, self.given):
            head = heads.heads[position]
            if head.ordered:
                skip[own, out] = 1.0
                own += 1
            bias.append(np.concatenate([np.zeros(int(head.ordered)), head.odds]))
            out += head.outputs
        first = first_parameters(self._layer_shapes, rng, 0.5)
        first[first.size - outputs :] = np.concatenate([np.empty(0), *bias])
        self.parameters = np.concatenate([skip.ravel(), first])

    def maker(self, parameters: np.ndarray | None = None) -> Maker:
        """The maker with these parameters, or with the current ones."""
        flat = self.parameters if parameters is None else parameters
        skip, *_ = split(flat, self.shapes)
        layers = layers_of(flat[skip.size :], self._layer_shapes)
        return Maker(self.heads, self.given, self.latent, skip, layers)

    def gradient_against(
        self, network: Network, anchor: float = 0.0
    ) -> Callable[[int, np.random.Generator], Any]:
        """A function that returns the gradient of the maker's loss on ``count`` fresh rows.

        The loss is softplus(-log-odds), or minus the critic's value, plus ``anchor`` times how far
        the rows' single columns stray from the public shares.
        """
        tf, heads, given = load_tensorflow(), self.heads, self.given
        variables = [tf.Variable(part) for part in split(self.parameters, self.shapes)]
        inputs, _ = self.shapes[0]
        picks = sum(heads.heads[p].choices for p in _made(heads, given))
        blocks = {p: heads.heads[p].width for p in given}

        @tf.function(
            autograph=False,
            input_signature=[
                tf.TensorSpec((None, inputs), tf.float64),
                tf.TensorSpec((None, picks), tf.float64),
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
                parts, out, pick, strays = {}, 0, 0, []
                for position in given:
                    parts[position] = drawn[:, start : start + blocks[position]]
                    start += blocks[position]
                for position in _made(heads, given):
                    head = heads.heads[position]
                    parts[position] = head.tensor(
                        tf,
                        outputs[:, out : out + head.outputs],
                        gumbel[:, pick : pick + head.choices],
                        TEMPERATURE,
                    )
                    out, pick = out + head.outputs, pick + head.choices
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
            codes = draw_given(heads, given, count, rng)
            found: np.ndarray = step(*draw_inputs(heads, given, self.latent, codes, rng)).numpy()
            return found

        return gradient


@dataclass(frozen=True, kw_only=True)
class AdversarialTraining:
    """Public knobs of adversarial training.

    Attributes:
        training: of the discriminator; its steps are the only ones that cost privacy.
        settle: the share of these steps that come after the maker is finished.
        batch: rows in a step of the maker.
        moves: the maker's steps after each of the discriminator's.
        learning_rate: of the maker.
        anchor: how strongly the maker's single columns are held to their public shares.
        bound: a critic's parameters stay within it (Arjovsky et al. 2017), None for no bound.
    """

    training: Training
    settle: float
    batch: int
    moves: int
    learning_rate: float
    anchor: float
    bound: float | None = None


class PrivateVectors:
    """Private rows as a discriminator's inputs, computed from codes when a step needs them.

    For a given key a row's vector is a function of that row alone, so adding or removing one row
    changes a step's sum by one clipped gradient.
    """

    def __init__(self, heads: Heads, codes: np.ndarray, key: Key) -> None:
        self._heads, self._codes, self._key = heads, codes, key
        self._marks, self._looks = heads.marks(codes, key), 0

    def __len__(self) -> int:
        return len(self._codes)

    def __getitem__(self, positions: np.ndarray) -> np.ndarray:
        self._looks += 1
        codes, marks = self._codes[positions], self._marks[positions]
        return self._heads.keyed_rows(codes, self._key, marks, self._looks)


def train_adversarially(
    network: Network,
    making: MakerNetwork,
    private: Inputs,
    knobs: AdversarialTraining,
    noise: Noise,
    report: Callable[[int], None],
) -> Maker:
    """Train both; return the maker, averaged over the second half of its steps.

    Once the maker is finished, the discriminator goes on training against its rows and ends as the
    average over the second half of these last steps: its log-odds are about the rows that are
    released.
    """
    rng, training = noise.post, knobs.training
    adam = Adam(network.size, training.learning_rate)
    making_adam = Adam(making.parameters.size, knobs.learning_rate)
    gradient = making.gradient_against(network, knobs.anchor)
    alone = min(training.steps, max(1, round(knobs.settle * training.steps)))
    shared = training.steps - alone
    path, kept = np.zeros(making.parameters.size), 0
    network_path, network_kept = np.zeros(network.size), 0
    maker = making.maker()
    for step in range(training.steps):
        report(step)
        fakes = making.heads.rows(maker.codes(min(training.lot, MOST_FAKES), rng), rng)
        move = adam.move(joint_gradient(network, private, fakes, training, noise))
        parameters = network.parameters - move
        if knobs.bound is not None:
            parameters = np.clip(parameters, -knobs.bound, knobs.bound)
        network.assign(parameters)
        if step < shared:
            for _ in range(knobs.moves):
                slope = gradient(knobs.batch, rng)
                making.parameters = making.parameters - making_adam.move(slope)
            if step >= shared // 2:
                path, kept = path + making.parameters, kept + 1
            maker = making.maker(path / kept if step == shared - 1 else None)
        elif step >= shared + alone // 2:
            network_path, network_kept = network_path + parameters, network_kept + 1
    network.assign(network_path / network_kept)
    return maker


def _made(heads: Heads, given: Sequence[int]) -> list[int]:
    return [p for p in range(len(heads.heads)) if p not in given]


def _sizes(heads: Heads, given: Sequence[int], latent: int) -> tuple[int, int]:
    """Inputs and outputs of a maker."""
    made = [heads.heads[p] for p in _made(heads, given)]
    inputs = sum(head.ordered for head in made) + latent + sum(heads.heads[p].width for p in given)
    return inputs, sum(head.outputs for head in made)


def _normalised(shares: np.ndarray) -> np.ndarray:
    return shares / shares.sum()

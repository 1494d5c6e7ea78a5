"""A generator network against a privately trained discriminator.

Only the discriminator's steps see private rows (:mod:`marginalsyn.weights.dp_sgd`): whatever the
generator learns, it learns from the discriminator and from public numbers, as post-processing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

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
from marginalsyn.graphical.estimation import draw_possible, warn_of_noise
from marginalsyn.plugins.networks.heads import Heads
from marginalsyn.plugins.networks.tensorflow_engine import Network, load_tensorflow
from marginalsyn.table.codec import Codec
from marginalsyn.weights.dense import (
    Adam,
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
from marginalsyn.weights.dp_sgd import Inputs, Training, joint_gradient

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.access.visit import Visit
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
        anchor: how strongly the maker's single columns are kept near their public shares.
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

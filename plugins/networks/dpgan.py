"""DPGAN: a generative adversarial network whose discriminator is trained by noised steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np

from marginalsyn.access.visit import Visit
from marginalsyn.contract import Plan, Synthesis, option
from marginalsyn.plugins.networks.adversarial import (
    ANCHOR,
    BATCH,
    COUNTS,
    GENERATOR_HIDDEN,
    GENERATOR_RATE,
    LATENT,
    Layout,
    Maker,
    MakerConfig,
    MakerGenerator,
    MakerNetwork,
    score_rows,
)
from marginalsyn.plugins.networks.heads import Heads
from marginalsyn.plugins.networks.tensorflow_engine import Network
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import ZCDP, Charge, Neighbours, SubsampledGaussian
from marginalsyn.privacy.composition import find_noise_multiplier
from marginalsyn.privacy.noise import Noise
from marginalsyn.privacy.streams import Key
from marginalsyn.privacy.zcdp import gaussian_sigma
from marginalsyn.progress import Progress
from marginalsyn.table.schema import Schema
from marginalsyn.weights.dense import Adam, layers_of, pack_layers
from marginalsyn.weights.dp_sgd import Inputs, Training, joint_gradient
from marginalsyn.weights.per_row import chunk_rows

PURPOSE = "gradients of the discriminator"
MOST_FAKES = 1024
# Where no marginals are asked for: what counting the rows may cost, under add-remove.
TOTAL_SHARE = 0.02


@dataclass(frozen=True, kw_only=True)
class DPGANConfig(MakerConfig):
    """A generative adversarial network with a privately trained discriminator (Xie et al. 2018).

    Every step of the discriminator draws a Poisson lot of private rows at a public rate, clips
    each row's gradient, sums, adds one Gaussian noise, for an empty lot too, and divides by a
    public number; generated rows are free. The generator sees the discriminator only. A share of
    the budget measures one-way marginals: they say how many rows there are, scale the networks'
    inputs, and give the independent columns that the generator starts from. The noise is found
    from the budget; steps, rate and stopping are public.

    The last steps train the discriminator against the finished generator, so that its log-odds can
    serve as weights (method ``discriminator``) at no further cost; with ``loss="wasserstein"``,
    the loss of Arjovsky et al. 2017 that Xie et al. use, its values are no log-odds.

    Example:
        >>> DPGANConfig(steps=100, loss="wasserstein").name
        'dpgan'
    """

    name = "dpgan"
    summary = "adversarial network, discriminator trained by DP-SGD"
    audit_options = {
        "steps": 2,
        "rate": 1.0,
        "hidden": (2,),
        "generator_hidden": (2,),
        "latent": 1,
        "clip_norm": 1e-3,
    }
    layers = ("hidden", "generator_hidden")
    ranges = {
        "steps": (1, 100_000),
        "rate": (1e-6, 1),
        "marginals": (0, 0.9),
        "anchor": (0, 1e6),
        "settle": (0, 0.9),
        "latent": (0, 1024),
        "clip_norm": (1e-6, 1e6),
        "learning_rate": (1e-6, 1),
        "generator_rate": (1e-6, 1),
        "moves": (1, 1000),
        "bound": (1e-6, 1e6),
    }

    loss: Literal["non-saturating", "wasserstein"] = option(
        "non-saturating",
        "Training loss: non-saturating (the discriminator estimates log-odds and can give "
        "weights) or wasserstein.",
    )
    steps: int = option(300, "Number of training steps of the discriminator. Each costs privacy.")
    rate: float = option(
        0.1, "Share of the private rows sampled in each step; choose less for millions of rows."
    )
    marginals: float = option(
        0.2, "Share of the budget for one-way marginals. 0 only counts the rows."
    )
    anchor: float = ANCHOR
    settle: float = option(
        0.25, "Share of the steps that train the discriminator against the finished generator."
    )
    hidden: tuple[int, ...] = option(
        (64,), "Number of units in each hidden layer of the discriminator."
    )
    generator_hidden: tuple[int, ...] = GENERATOR_HIDDEN
    latent: int = LATENT
    clip_norm: float = option(2.0, "Clip the gradient of each row to this norm.")
    learning_rate: float = option(0.01, "Learning rate of the discriminator (Adam).")
    generator_rate: float = GENERATOR_RATE
    moves: int = option(
        1,
        "Number of training steps of the generator per step of the discriminator. Costs no "
        "privacy.",
    )
    bound: float = option(0.3, "Clip every parameter of a wasserstein critic to this size.")

    score = staticmethod(partial(score_rows, "discriminator"))

    def configure(self, schema: Schema, budget: Budget) -> DPGAN:
        return DPGAN(config=self, schema=schema, budget=budget)


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
    config: DPGANConfig,
    training: Training,
    noise: Noise,
    report: Callable[[int], None],
) -> Maker:
    """Train both; return the maker, averaged over the second half of its steps.

    The discriminator's steps, those of ``training``, are the only ones that cost privacy. A
    critic's parameters stay within a bound (Arjovsky et al. 2017).

    Once the maker is finished, the discriminator goes on training against its rows and ends as the
    average over the second half of these last steps: its log-odds are about the rows that are
    released.
    """
    rng, critic = noise.post, config.loss == "wasserstein"
    adam = Adam(network.size, training.learning_rate)
    making_adam = Adam(making.parameters.size, config.generator_rate)
    anchor = config.anchor if config.marginals else 0.0
    gradient = making.gradient_against(network, anchor)
    alone = min(training.steps, max(1, round(config.settle * training.steps)))
    shared = training.steps - alone
    path, kept = np.zeros(making.parameters.size), 0
    network_path, network_kept = np.zeros(network.size), 0
    maker = making.maker()
    for step in range(training.steps):
        report(step)
        fakes = making.layout.heads.rows(maker.codes(min(training.lot, MOST_FAKES), rng), rng)
        move = adam.move(joint_gradient(network, private, fakes, training, noise))
        parameters = network.parameters - move
        if critic:
            parameters = np.clip(parameters, -config.bound, config.bound)
        network.assign(parameters)
        if step < shared:
            for _ in range(config.moves):
                slope = gradient(BATCH, rng)
                making.parameters = making.parameters - making_adam.move(slope)
            if step >= shared // 2:
                path, kept = path + making.parameters, kept + 1
            maker = making.maker(path / kept if step == shared - 1 else None)
        elif step >= shared + alone // 2:
            network_path, network_kept = network_path + parameters, network_kept + 1
    network.assign(network_path / network_kept)
    return maker


@dataclass(frozen=True, kw_only=True)
class DPGAN(MakerGenerator):
    """Calibrated: counts, and sampled Gaussian steps. Rows are made for drawn ``given`` columns."""

    config: DPGANConfig
    given: tuple[str, ...] = ()

    @property
    def first_marginals(self) -> list[tuple[str, ...]]:
        """The marginals that are measured first."""
        if self.config.marginals:
            return [(name,) for name in self.schema.names]
        if self.given:
            return [(name,) for name in self.given]
        return [()] if self.budget.neighbours is Neighbours.ADD_REMOVE else []

    @property
    def counts_rho(self) -> float:
        return (
            self.budget.rho * (self.config.marginals or TOTAL_SHARE)
            if self.first_marginals
            else 0.0
        )

    @property
    def counts_sigma(self) -> float | None:
        """The noise in a cell of what is measured first."""
        if not self.first_marginals:
            return None
        share = self.counts_rho / len(self.first_marginals) * (1 - 1e-12)
        return gaussian_sigma(share, l2=self.budget.neighbours.l2)

    @cached_property
    def noise_multiplier(self) -> float:
        budget, config = self.budget, self.config
        return find_noise_multiplier(
            budget.eps, budget.delta, budget.neighbours, config.rate, config.steps, self.counts_rho
        )

    @property
    def cost(self) -> tuple[Charge, ...]:
        config, budget = self.config, self.budget
        cost = SubsampledGaussian(
            noise_multiplier=self.noise_multiplier, rate=config.rate, steps=config.steps
        )
        steps = budget.charge("DP-SGD", PURPOSE, cost, {"clip_norm": config.clip_norm})
        if not self.first_marginals:
            return (steps,)
        purpose = COUNTS if config.marginals else "counts"
        details = {"sigma": self.counts_sigma, "marginals": len(self.first_marginals)}
        part = ZCDP(rho=self.counts_rho)
        return (budget.charge("discrete Gaussian", purpose, part, details), steps)

    @property
    def facts(self) -> dict[str, Any]:
        """Public numbers for the statement."""
        config = self.config
        return {
            "loss": config.loss,
            "steps": config.steps,
            "rate": config.rate,
            "clip_norm": config.clip_norm,
            "noise_multiplier": self.noise_multiplier,
            "counts_sigma": self.counts_sigma,
            "given": list(self.given),
        }

    @property
    def plan(self) -> Plan:
        first_marginals = self.first_marginals
        return Plan(
            split={"counts": self.counts_rho} if first_marginals else {},
            workload=[columns for columns in first_marginals if columns],
            facts=self.facts,
        )

    def __call__(self, visit: Visit, *, progress: Progress) -> Synthesis:
        config, rng = self.config, visit.noise.post
        scores = "critic" if config.loss == "wasserstein" else "log-odds"

        # Measure.
        measured, counted, heads = self.count(
            visit, progress, self.first_marginals, self.counts_sigma or 0.0
        )

        # Train: every private row enters here, through clipped and noised sums alone.
        progress.report("train", fraction=0.0, text="TensorFlow")
        training = Training(
            rate=config.rate,
            steps=config.steps,
            lot=max(1, round(config.rate * counted[0])),
            clip_norm=config.clip_norm,
            noise_multiplier=self.noise_multiplier,
            learning_rate=config.learning_rate,
        )
        network = Network(
            heads.width,
            config.hidden,
            rng,
            chunk_rows(training.lot),
            loss=scores,
            bias=1.0,
        )
        given = tuple(self.schema.names.index(name) for name in self.given)
        layout = Layout(heads, given, config.latent)
        making = MakerNetwork(layout, config.generator_hidden, rng)

        def report(step: int) -> None:
            progress.report("train", fraction=step / config.steps, text=f"step {step}")

        visit.pay_all(PURPOSE)
        maker = train_adversarially(
            network,
            making,
            PrivateVectors(heads, visit.all_rows().values, visit.noise.key()),
            config,
            training,
            visit.noise,
            report,
        )

        # Generate: post-processing from here on.
        progress.report("generate")
        discriminator = layers_of(network.parameters, network.shapes)
        return self.draw(
            visit,
            maker,
            measured,
            counted,
            scorer=pack_layers("discriminator", discriminator),
            meta={"given": list(self.given), "scores": scores},
            notes={"lot": training.lot, **self.facts},
        )


@dataclass(frozen=True, kw_only=True)
class DPCGANConfig(DPGANConfig):
    """A conditional adversarial network, trained privately (Torkzadehmahani et al. 2019).

    As :class:`~marginalsyn.plugins.networks.dpgan.DPGANConfig`, but rows are made *for* a value of
    one column, the label by default: its noisy counts, a small charge of their own, say how often
    each value is asked for, and both networks see the value. So the label's shares are those of the
    counts, and a rare class is not lost. A schema without a label, or with nothing else, is
    generated as ``dpgan`` does.

    Example:
        >>> DPCGANConfig(condition="sex").condition
        'sex'
    """

    name = "dpcgan"
    summary = "adversarial network conditional on the label, trained by DP-SGD"

    condition: str | None = option(
        None, "The column that the generator is conditioned on. [default: the label]"
    )

    def configure(self, schema: Schema, budget: Budget) -> DPGAN:
        return DPGAN(config=self, schema=schema, budget=budget, given=self.given(schema))

    def given(self, schema: Schema) -> tuple[str, ...]:
        """The columns that rows are made for."""
        name = schema.label if self.condition is None else schema.column(self.condition).name
        return (name,) if name is not None and len(schema.names) > 1 else ()

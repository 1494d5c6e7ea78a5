"""DPGAN: a generative adversarial network whose discriminator is trained by noised steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

from marginalsyn.contract import Plan, Synthesis, option
from marginalsyn.graphical.estimation import known_total
from marginalsyn.plugins.networks.adversarial import (
    ANCHOR,
    COUNTS,
    GENERATOR_HIDDEN,
    GENERATOR_RATE,
    LATENT,
    AdversarialTraining,
    MakerConfig,
    MakerGenerator,
    MakerNetwork,
    PrivateVectors,
    score_rows,
    train_adversarially,
)
from marginalsyn.plugins.networks.heads import Heads, shares_of
from marginalsyn.plugins.networks.tensorflow_engine import Network
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import ZCDP, Charge, Neighbours, SubsampledGaussian
from marginalsyn.privacy.composition import find_noise_multiplier
from marginalsyn.privacy.zcdp import gaussian_sigma
from marginalsyn.weights.dense import layers_of, pack_layers
from marginalsyn.weights.dp_sgd import Training
from marginalsyn.weights.per_row import chunk_rows

if TYPE_CHECKING:
    from marginalsyn.access.visit import Visit
    from marginalsyn.progress import Progress
    from marginalsyn.table.schema import Schema

PURPOSE = "gradients of the discriminator"
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
        critic = config.loss == "wasserstein"

        # Measure: what the networks' scales and the number of rows are taken from.
        progress.report("measure", text=COUNTS)
        measured = [
            visit.measure(c, self.counts_sigma or 0.0, purpose=COUNTS) for c in self.first_marginals
        ]
        visit.review(measured)
        total, spread = known_total(visit, measured)
        heads = Heads(self.schema, shares_of([m for m in measured if m.columns], total))

        # Train: every private row enters here, through clipped and noised sums alone.
        progress.report("train", fraction=0.0, text="TensorFlow")
        training = Training(
            rate=config.rate,
            steps=config.steps,
            lot=max(1, round(config.rate * total)),
            clip_norm=config.clip_norm,
            noise_multiplier=self.noise_multiplier,
            learning_rate=config.learning_rate,
        )
        network = Network(
            heads.width,
            config.hidden,
            rng,
            chunk_rows(training.lot),
            loss="critic" if critic else "log-odds",
            bias=1.0,
        )
        given = [self.schema.names.index(name) for name in self.given]
        making = MakerNetwork(heads, given, config.latent, config.generator_hidden, rng)
        knobs = AdversarialTraining(
            training=training,
            settle=config.settle,
            batch=256,
            moves=config.moves,
            learning_rate=config.generator_rate,
            anchor=config.anchor if config.marginals else 0.0,
            bound=config.bound if critic else None,
        )

        def report(step: int) -> None:
            progress.report("train", fraction=step / config.steps, text=f"step {step}")

        visit.pay_all(PURPOSE)
        maker = train_adversarially(
            network,
            making,
            PrivateVectors(heads, visit.all_rows().values, visit.noise.key()),
            knobs,
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
            (total, spread),
            scorer=pack_layers("discriminator", discriminator),
            meta={"given": list(self.given), "scores": "critic" if critic else "log-odds"},
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

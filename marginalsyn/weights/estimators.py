"""What every weight estimator shares: the two faces of the contract and what a run hands back.

An estimator gives every synthetic row the logarithm of an importance weight: an estimate of
p_D(x) / p_G(x), how much likelier the row is among the private rows than among the synthetic ones.
With a classifier's odds that a row is private, the ratio is odds x N_G / N_D.

A *config* holds public knobs only; ``configure(target, allowance)`` is arithmetic on public things
and returns a calibrated *estimator* with its ``cost``. The estimator is called with a paid
:class:`~marginalsyn.private.visit.Visit`. Charging, post-processing, diagnostics and writing are
the host's (:mod:`marginalsyn.weighting`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self, runtime_checkable

from marginalsyn.budget import DEFAULT_DELTA, Budget, Neighbours, check_delta, eps_of
from marginalsyn.contract import build_config
from marginalsyn.errors import PluginError, UsageError
from marginalsyn.registry import WEIGHTS, find

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from marginalsyn.budget import Charge
    from marginalsyn.contract import Model
    from marginalsyn.private import Unprotected, Visit
    from marginalsyn.progress import Progress
    from marginalsyn.release import Release
    from marginalsyn.table import Schema


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """What an estimator may spend, in whichever unit its mechanism is priced.

    Attributes:
        rho: for a concentrated mechanism.
        pure: the eps of a pure mechanism.
        eps: with ``delta``, for a mechanism that has only that.
        neighbours: the relation that the cost must hold for.

    Example:
        >>> Allowance.of(Budget(eps=0.5)).pure, round(Allowance.of_rho(0.02).pure, 6)
        (0.5, 0.2)
    """

    eps: float
    delta: float
    rho: float
    pure: float
    neighbours: Neighbours

    @classmethod
    def of(cls, budget: Budget) -> Self:
        """A budget of the weights' own: each unit is worth all of (eps, delta)."""
        return cls(
            eps=budget.eps,
            delta=budget.delta,
            rho=budget.rho,
            pure=budget.eps,
            neighbours=budget.neighbours,
        )

    @classmethod
    def of_json(cls, fields: Mapping[str, Any]) -> Self:
        """The allowance whose fields these are."""
        return cls(**{**fields, "neighbours": Neighbours(fields["neighbours"])})

    @classmethod
    def of_rho(
        cls,
        rho: float,
        delta: float = DEFAULT_DELTA,
        neighbours: Neighbours = Neighbours.ADD_REMOVE,
    ) -> Self:
        """A share of a larger budget, given in rho: each unit is worth that much of it.

        A pure mechanism of eps^2 / 2 = rho has this price in zCDP, so that the total grows alike
        whichever mechanism is used.
        """
        if not (rho > 0 and math.isfinite(rho)):
            raise UsageError(f"rho ({rho}) of the weights must be a number above 0")
        check_delta(delta, allow_large=True)
        pure = math.sqrt(2 * rho)
        while pure * pure / 2 > rho:
            pure = math.nextafter(pure, 0.0)
        eps = eps_of(rho, delta)
        return cls(
            eps=max(eps, pure), delta=delta, rho=rho, pure=pure, neighbours=Neighbours(neighbours)
        )


@dataclass(frozen=True, kw_only=True)
class Target:
    """The rows to be weighted and all else that is public about them.

    Attributes:
        frame: the synthetic rows, typed by ``schema``.
        schema: what is publicly known of the columns.
        rows: a public estimate of the number of private rows.
        release: the release that the rows are from, if any.
    """

    frame: pd.DataFrame
    schema: Schema
    rows: float
    release: Release | None = None

    @classmethod
    def of(cls, release: Release) -> Self:
        """The rows of a release; its generator's estimate of the number of private rows, if any."""
        frame = release.frame()
        told = release.statement.notes.get("estimated_rows")
        rows = float(told) if isinstance(told, int | float) and told > 0 else float(len(frame))
        return cls(frame=frame, schema=release.schema, rows=rows, release=release)


@dataclass(frozen=True, kw_only=True)
class LogWeights:
    """What a run hands back. All but ``diagnostics`` is post-processing of charged measurements.

    Attributes:
        values: one natural logarithm of p_D / p_G per synthetic row, finite.
        score: the same for any rows of the schema, as post-processing; used by calibration.
        warnings: lines that readers should see first.
        notes: JSON values for the privacy statement; may be published.
        diagnostics: JSON values for the curator's eyes only.
    """

    values: np.ndarray
    score: Callable[[pd.DataFrame], np.ndarray] | None = None
    warnings: Sequence[str] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)
    diagnostics: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What a budget buys, told before it is spent. Nothing in it depends on private rows.

    Attributes:
        noise: the standard deviation of the noise in a log-weight, root mean square over the rows;
            None where it cannot be told.
        kept: the share of the true log ratio that regularisation leaves, if that can be told.
        scaled: whether the log-weights will be the log ratio itself, not only up to a constant.
        scores: whether the run will hand back a ``score`` for other rows.
        facts: JSON values by name.
        warnings: lines that the curator should see first.
        uncalibrated: why the scores are no log-weights before calibration, if they are not: the
            host refuses the run unless it is asked to calibrate.
    """

    noise: float | None = None
    kept: float | None = None
    scaled: bool = False
    scores: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    uncalibrated: str = ""


@runtime_checkable
class WeightEstimator(Protocol):
    """A calibrated estimator: it says what it costs and runs on a visit paid for that cost.

    It is called with a paid visit; with None where ``cost`` is empty; and with the unprotected
    rows where its config says ``private = False``. Optional: ``prepare(progress=...)`` loads what
    may be missing, before anything is charged; ``rehearse(noise, progress=...)`` gives the standard
    deviation of the noise in a log-weight, found by a run on synthetic rows alone.
    """

    @property
    def cost(self) -> Sequence[Charge]: ...

    @property
    def outlook(self) -> Outlook: ...

    def __call__(self, rows: Visit | Unprotected | None, *, progress: Progress) -> LogWeights: ...


class WeightConfig(Protocol):
    """Public knobs of an estimator: a frozen, keyword-only dataclass of JSON values.

    ``name`` is the plugin id, ``reference`` the paper. A field is made with
    :func:`marginalsyn.contract.option`, whose help becomes the help of the flag of the same
    name. ``private`` is False for an estimator that reads rows without protection: its weights
    never enter a release. Optional: ``requires`` (extras or distributions that must be installed)
    and ``reads`` (False where no private row is read, so that the private table is not needed).

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True, kw_only=True)
        ... class MyConfig:
        ...     name = "mine"
        ...     summary = "one line about it"
        ...     reference = "Me 2024"
        ...     private = True
        ...     def configure(self, target, allowance): ...
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    reference: ClassVar[str]
    private: ClassVar[bool]

    def configure(self, target: Target, allowance: Allowance) -> WeightEstimator: ...


class Scorer(Protocol):
    """A generator's config class whose releases carry a scorer, for the ``discriminator`` weights.

    The scorer is part of the release's :class:`~marginalsyn.contract.Model`: arrays and JSON
    that ``score`` reads, written with the rows. To offer it is to vouch that its parameters are
    post-processing of what the release's charges paid for: trained by charged steps alone, without
    normalisation over private batches and without choosing among checkpoints on private rows.

    ``scores`` is ``"log-odds"`` where the score of a row is the logarithm of the odds that it is
    private rather than synthetic, up to a constant, and ``"critic"`` where it is the value of a
    Wasserstein critic, which is no density ratio; ``"scores"`` in the model's meta, where it is
    given, says so of one release.

    Example:
        >>> class MyGANConfig:
        ...     scores = "log-odds"
        ...     @classmethod
        ...     def score(cls, model, schema, frame): ...
    """

    scores: ClassVar[Literal["log-odds", "critic"]]

    @classmethod
    def score(cls, model: Model, schema: Schema, frame: pd.DataFrame) -> np.ndarray: ...


def make_weights(method: str, options: Mapping[str, Any] | None = None) -> WeightConfig:
    """Build an estimator's config from its plugin id and its options.

    Args:
        method: such as ``"beta-noised"``.
        options: fields of the config by name, as JSON values.

    Raises:
        UsageError: an unknown option (with close matches), or a value of the wrong type.
        PluginError: an unknown or broken plugin.
        MissingExtraError: an extra is not installed.

    Example:
        >>> make_weights("beta-noised", {"penalty": 10}).penalty
        10.0
    """
    return build_config(find(WEIGHTS, method), options)  # type: ignore[return-value]


def check_values(log_weights: LogWeights, rows: int, method: str) -> None:
    """Raise PluginError unless there is one finite log-weight per row."""
    import numpy as np

    values = np.asarray(log_weights.values)
    if values.shape != (rows,) or values.dtype.kind != "f" or not np.isfinite(values).all():
        raise PluginError(
            f"weight method '{method}' broke its contract: it must give {rows} finite log-weights"
        )

"""The contract of all mechanisms: what they are given, their two classes, what they return.

A *recipe*, or config, holds public knobs only; ``configure`` is arithmetic on public things and a
budget, and returns a calibrated *mechanism*, a generator or a weight estimator, that says what it
costs. It is then called with a paid :class:`~marginalsyn.access.visit.Visit`: rows cannot be seen
before the ledger holds the charge. All else is the host's (:mod:`marginalsyn.host`).

Example:
    >>> from marginalsyn.generators.aim import AIMConfig
    >>> aim = AIMConfig(degree=3).configure(schema, Budget(eps=1))
    >>> [charge.mechanism for charge in aim.cost]
    ['aim']
    >>> from marginalsyn.access.private_table import PrivateTable
    >>> from marginalsyn.progress import Silent
    >>> with PrivateTable.open(frame, schema).charge(aim.cost, noise=make_noise()) as visit:
    ...     synthesis = aim(visit, progress=Silent())
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self

import numpy as np
from pydantic import TypeAdapter, ValidationError

from marginalsyn.errors import PluginError, UsageError
from marginalsyn.registry import GENERATORS, WEIGHTS, find
from marginalsyn.validation import explain, like

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.access.visit import Visit
    from marginalsyn.privacy.budget import Budget
    from marginalsyn.privacy.charges import Charge
    from marginalsyn.progress import Progress
    from marginalsyn.release.folder import Release
    from marginalsyn.table.schema import Schema
    from marginalsyn.weights.columns import Bought


MAX_ROWS = 10**9
# The purpose of a marginal that was not measured: it follows from earlier answers, for free.
KNOWN = "known"


class Recipe(Protocol):
    """Public knobs of a mechanism: a frozen, keyword-only dataclass of JSON values.

    ``name`` is the plugin id. A field is made with :func:`option`, whose help becomes the help of
    the flag of the same name. ``configure`` is arithmetic on public things. The rest has defaults,
    for a plugin without this base class, too (:class:`Duties`).

    Attributes:
        requires: extras or distributions that must be installed.
        private: False for an estimator that reads rows without protection: its weights never enter
            a release.
        reads: False where no private row is read, so that the private table is not needed.
        exceeds_budget: whether the calibration asked for, a paper's own, costs more than the
            budget; the statement says what.
        counts_persons: whether its promise holds for persons who weigh one each as it does for
            rows: it draws on what is linear in counts, or on the weighted rows of a visit, of which
            a person's weigh one together.
        needs_label: a schema without a label is refused beforehand; audits take one that has it.
        uses_label: audits run it with a label and without.
        takes_reference: it shrinks its answers to the reference tables of a visit.
        takes_margins: the most columns of a public margin that its rows then have; 0 if none. It
            then reads rows through linear counts alone, which may be those of survey weights.
        serves_strata: it serves pairs within the values of the schema's ``by``, too.
        audit_options: options by name that make a run quick: ``marginalsyn audit`` tests the claim
            of a config with these.
    """

    name: ClassVar[str]
    summary: ClassVar[str] = ""
    requires: ClassVar[Sequence[str]] = ()
    private: ClassVar[bool] = True
    reads: ClassVar[bool] = True
    exceeds_budget: ClassVar[bool] = False
    counts_persons: ClassVar[bool] = False
    needs_label: ClassVar[bool] = False
    uses_label: ClassVar[bool] = False
    takes_reference: ClassVar[bool] = False
    takes_margins: ClassVar[int] = 0
    serves_strata: ClassVar[bool] = False
    audit_options: ClassVar[Mapping[str, Any]] = {}


class Mechanism(Protocol):
    """Calibrated: it says what it costs and what that buys, and runs on a visit paid for.

    As a base class it costs nothing and plans nothing.
    """

    @property
    def cost(self) -> Sequence[Charge]:
        return ()

    @property
    def plan(self) -> Plan:
        return Plan()

    def prepare(self, *, progress: Progress) -> None:
        """Load what may be missing, before anything is charged."""
        del progress


class GeneratorConfig(Recipe, Protocol):
    """Public knobs of a generator.

    Attributes:
        rows: the number of synthetic rows; None takes the estimated number.
        reads_bare: whether ``sample``, and ``score`` if there is one, need none of ``requires``.
        scores: of a :class:`Scorer`.
        sample_where: draws rows that agree with conditions, if it can do so without rejecting any.
    """

    rows: int | None = None
    reads_bare: ClassVar[bool] = False
    scores: ClassVar[Literal["log-odds", "critic"] | None] = None
    sample_where: ClassVar[Any] = None

    def configure(self, schema: Schema, budget: Budget) -> Generator: ...

    @classmethod
    def sample(
        cls, model: Model, schema: Schema, rows: int | None, rng: np.random.Generator
    ) -> pd.DataFrame: ...


class Generator(Mechanism, Protocol):
    """A calibrated generator."""

    def __call__(self, visit: Visit, *, progress: Progress) -> Synthesis: ...


@dataclass(frozen=True, kw_only=True)
class Calibrated(Generator):
    """A generator that spends a budget on rows of a schema: by default, all of it in zCDP.

    Attributes:
        exact: whether all that it draws comes from ``visit.measure``, ``visit.draw`` with
            ``visit.gaussian``, or selections, so that it is charged in mu and may spend
            ``budget.gaussian``.
    """

    exact: ClassVar[bool] = False

    config: Any
    schema: Schema
    budget: Budget

    @property
    def cost(self) -> tuple[Charge, ...]:
        """What the whole run costs."""
        cost = self.budget.gaussian_cost if self.exact else None
        return (self.budget.charge(self.config.name, "generate", cost),)


class WeightConfig(Recipe, Protocol):
    """Public knobs of a weight estimator; ``reference`` is the paper.

    It gives every synthetic row the logarithm of an importance weight: an estimate of
    p_D(x) / p_G(x), how much likelier the row is among the private rows than among the synthetic
    ones. With a classifier's odds that a row is private, the ratio is odds x N_G / N_D.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True, kw_only=True)
        ... class MyConfig(WeightConfig):
        ...     name = "mine"
        ...     summary = "one line about it"
        ...     reference = "Me 2024"
        ...     def configure(self, target, budget): ...
    """

    reference: ClassVar[str] = ""

    def configure(self, target: Target, budget: Budget) -> WeightEstimator: ...


class WeightEstimator(Mechanism, Protocol):
    """A calibrated estimator of weights.

    It is called with a paid visit; with None where ``cost`` is empty; and with the unprotected
    rows where its config says ``private = False``.

    Attributes:
        rehearse: ``rehearse(noise, progress=...)`` gives the standard deviation of the noise in a
            log-weight, found by a run on synthetic rows alone, if there is such a run.
    """

    rehearse: ClassVar[Any] = None

    def __call__(self, rows: Any, *, progress: Progress) -> LogWeights: ...


class Scorer(Protocol):
    """A generator's config class whose releases carry a scorer, for the ``discriminator`` weights.

    The scorer is part of the release's :class:`~Model`: arrays and JSON
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


class _Defaults(GeneratorConfig, WeightConfig, WeightEstimator):  # type: ignore[misc]
    """What the base classes say of all that a plugin may leave out."""


_DEFAULTS = _Defaults()  # type: ignore[abstract]


@dataclass(frozen=True)
class Duties:
    """A plugin's attributes, with the base classes' defaults: a plugin need not subclass them.

    Example:
        >>> Duties(object()).counts_persons
        False
    """

    plugin: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plugin, name, getattr(_DEFAULTS, name))


@dataclass(frozen=True, kw_only=True)
class Target:
    """The rows to be weighted and all else that is public about them.

    Attributes:
        frame: the synthetic rows, typed by ``schema``.
        schema: what is publicly known of the columns.
        rows: a public estimate of the number of private rows; of persons, if they are the unit.
        release: the release that the rows are from, if any.
    """

    frame: pd.DataFrame
    schema: Schema
    rows: float
    release: Release | None = None

    @classmethod
    def of(cls, release: Release) -> Self:
        """The rows of a release; its generator's estimate of the number of private rows, if any."""
        target = cls(frame=release.frame(), schema=release.schema, rows=0.0, release=release)
        rows = target.estimated
        if rows is None:
            rows = float(target.persons.sum())
        return replace(target, rows=rows)

    @property
    def estimated(self) -> float | None:
        """The generator's estimate of the number of private rows, or persons, if it has one."""
        if self.release is None:
            return None
        counted = "estimated_rows" if self.schema.unit is None else "estimated_persons"
        noted = self.release.statement.notes.get(counted)
        return float(noted) if isinstance(noted, int | float) and noted > 0 else None

    @property
    def persons(self) -> np.ndarray:
        """How many persons each row stands for: one of the k rows of a person for 1/k."""
        unit = self.schema.unit
        if unit is None or unit.max_rows == 1:
            return np.ones(len(self.frame))
        return 1 / np.maximum(self.frame[unit.count].astype("float64").to_numpy(), 1.0)

    @property
    def masses(self) -> np.ndarray | None:
        """What each row counts where private rows of a person weigh one together; their mean is 1.

        None where all rows count alike. Rows are drawn as a table has them, a person with k rows k
        times as often: so each counts 1/k.
        """
        if self.schema.unit is None or self.schema.unit.max_rows == 1:
            return None
        found = self.persons
        return found / found.mean() if len(found) else found


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How accurate the weights will be, known before anything is spent: nothing in it is private.

    Attributes:
        split: what each purpose may spend, as rho.
        workload: the marginals that a generator serves.
        model_mb: the predicted size of the largest model, if it is known.
        noise: the standard deviation of the noise in a log-weight, root mean square over the rows;
            None if it is unknown.
        kept: the share of the true log ratio that regularisation leaves, if it is known.
        scaled: whether log-weights will be the log ratio itself, not only up to a constant.
        scores: whether the run will hand back a ``score`` for other rows.
        uncalibrated: why the scores are no log-weights before calibration, if they are not: the
            host refuses the run unless it is asked to calibrate.
        facts: JSON values by name.
        warnings: lines that the curator should see first.
    """

    split: Mapping[str, float] = field(default_factory=dict)
    workload: Sequence[tuple[str, ...]] = ()
    model_mb: float | None = None
    noise: float | None = None
    kept: float | None = None
    scaled: bool = False
    scores: bool = False
    uncalibrated: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    warnings: Sequence[str] = ()


@dataclass(frozen=True)
class Measurement:
    """A noisy marginal: counts over ``columns`` and the standard deviation of their noise.

    What is measured has one ``sigma``; cells that were added up have one each.

    Attributes:
        columns: names, in the order of the axes of ``values``.
        values: counts with noise, shaped by the columns' sizes.
        sigma: the standard deviation of the noise: one number, or one for every cell.
        purpose: what it was measured for.
    """

    columns: tuple[str, ...]
    values: np.ndarray
    sigma: float | np.ndarray
    purpose: str = ""


@dataclass(frozen=True, kw_only=True)
class Model:
    """What a release stores so that more rows can be drawn later. Arrays and JSON, never pickles.

    ``kind`` is the id of the generator whose ``sample`` reads it.
    """

    kind: str
    arrays: Mapping[str, np.ndarray]
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def followers(self) -> Sequence[str]:
        """The columns that the model leaves out, since they follow from others."""
        return [str(name) for name in self.meta.get("followers", ())]


@dataclass(frozen=True, kw_only=True)
class Synthesis:
    """What a run hands back. All but ``diagnostics`` is post-processing of charged measurements.

    ``notes`` (JSON) go into the privacy statement and may be published; ``diagnostics`` (JSON) may
    depend on private rows without noise and go to the curator's evaluation folder only. ``schema``
    is that of the rows, where the run bought what the given one left open.
    """

    frame: pd.DataFrame
    measurements: Sequence[Measurement] = ()
    model: Model | None = None
    warnings: Sequence[str] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    schema: Schema | None = None


@dataclass(frozen=True, kw_only=True)
class LinkedSynthesis(Synthesis):
    """What a run on linked tables hands back; its ``frame`` has the persons.

    Attributes:
        frames: the rows of every table, with keys.
        measurements: the noisy marginals by view.
    """

    frames: Mapping[str, pd.DataFrame]
    measurements: Mapping[str, Sequence[Measurement]]  # type: ignore[assignment]
    model: Model


@dataclass(frozen=True, kw_only=True)
class LogWeights:
    """What a run hands back. All but ``diagnostics`` is post-processing of charged measurements.

    Attributes:
        values: one natural logarithm of p_D / p_G per synthetic row, finite.
        score: the same for any rows of the schema, as post-processing; used by calibration.
        warnings: lines that readers should see first.
        notes: JSON values for the privacy statement; may be published.
        diagnostics: JSON values for the curator's eyes only.
        measurements: answers that were bought and may serve again; written with the weights.
        fixed: whether public options and the schema alone decide what is bought. Otherwise the
            choice depends on the release, and reveals something about it where the answers serve.
        reused: answers bought earlier, whose cost the release's statement shall count, too.
    """

    values: np.ndarray
    score: Callable[[pd.DataFrame], np.ndarray] | None = None
    warnings: Sequence[str] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)
    diagnostics: Mapping[str, Any] = field(default_factory=dict)
    measurements: Sequence[Measurement] = ()
    fixed: bool = False
    reused: Sequence[Bought] = ()

    def problem(self, rows: int) -> str:
        """Return how the values break the contract: one finite number for each row. Else ""."""
        values = np.asarray(self.values)
        fine = values.shape == (rows,) and values.dtype.kind == "f" and np.isfinite(values).all()
        return "" if fine else f"it must give {rows} finite log-weights"


def option(default: Any, help: str, **metadata: Any) -> Any:
    """A config field with the help text of its flag.

    ``choices`` (a tuple), ``flag`` (False keeps it off the command line) may be given too.
    """
    if isinstance(default, list | dict):
        raise TypeError("config fields are immutable: give a tuple")
    return field(default=default, metadata={"help": help, **metadata})


def check_rows(rows: int | None) -> None:
    """Refuse a number of synthetic rows that cannot be drawn; None is the estimated number."""
    whole = isinstance(rows, Integral) and not isinstance(rows, bool)
    if rows is not None and not (whole and 1 <= rows <= MAX_ROWS):
        raise UsageError(f"rows ({rows}) must be a whole number from 1 to {MAX_ROWS:,}")


def build_config(kind: Any, options: Mapping[str, Any] | None = None) -> Any:
    """Build a config of the given class; its name, options that are missing get their defaults."""
    try:
        known = [field.name for field in fields(kind)]
    except TypeError:
        raise PluginError(
            f"plugin ({kind!r}) must be a dataclass of its options, with a name and configure(): "
            "subclass GeneratorConfig or WeightConfig of marginalsyn.contract"
        ) from None
    for name in options or {}:
        if name not in known:
            listed = f"{', '.join(known) or 'none'}{like(name, known)}"
            raise UsageError(f"option ({name}) of {kind.name} must be one of: {listed}")
    try:
        return TypeAdapter(kind).validate_python(dict(options or {}))
    except ValidationError as error:
        raise UsageError(f"options of {kind.name}: {explain(error)}") from None


# Options that releases of earlier versions record, each with the one value that is still what runs.
RETIRED: dict[str, dict[str, Any]] = {"support-points": {"kernel": "random-walk", "coupling": 0}}


def make_config(method: str, options: Mapping[str, Any] | None = None) -> GeneratorConfig:
    """Build a generator's config from its plugin id and its options.

    Args:
        method: such as ``"independent"``.
        options: fields of the config by name, as JSON values.

    Raises:
        UsageError: an unknown option (with close matches), or a value of the wrong type.
        PluginError: an unknown or broken plugin.

    Example:
        >>> make_config("independent", {"rows": 100}).rows
        100
    """
    retired = RETIRED.get(method, {})
    kept = {k: v for k, v in (options or {}).items() if k not in retired or retired[k] != v}
    return build_config(find(GENERATORS, method), kept)


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
    return build_config(find(WEIGHTS, method), options)


def config_to_json(config: Recipe) -> dict[str, Any]:
    """The public knobs as JSON values; :func:`build_config` builds it again."""
    return plain({field.name: getattr(config, field.name) for field in fields(config)})  # type: ignore[arg-type]


def plain(value: Any) -> Any:
    """Turn arrays, numpy numbers and tuples into JSON values; NaN and infinities into None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)

"""What every generator shares: the two faces of the contract and what a run hands back.

A *config* holds public knobs only; ``configure(schema, budget)`` is arithmetic and returns a
calibrated *generator* with its ``cost``. The generator is then called with a paid
:class:`~marginalsyn.private.visit.Visit`: rows cannot be seen before the ledger holds the charge.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from pydantic import TypeAdapter, ValidationError

from marginalsyn.errors import UsageError
from marginalsyn.validation import explain

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from marginalsyn.budget import Budget, Charge
    from marginalsyn.private import Visit
    from marginalsyn.progress import Progress
    from marginalsyn.table import Schema


MAX_ROWS = 10**9


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """A noisy marginal: counts over ``columns`` and the standard deviation of their noise.

    What is measured has one ``sigma``; cells that were added up have one each.
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


@dataclass(frozen=True, kw_only=True)
class Synthesis:
    """What a run hands back. All but ``diagnostics`` is post-processing of charged measurements.

    ``notes`` (JSON) go into the privacy statement and may be published; ``diagnostics`` (JSON) may
    depend on private rows without noise and go to the curator's evaluation folder only.
    """

    frame: pd.DataFrame
    measurements: Sequence[Measurement] = ()
    model: Model | None = None
    warnings: Sequence[str] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)
    diagnostics: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What ``--dry-run`` prints: nothing in it depends on private rows.

    ``split`` maps a purpose to the rho that it may spend; ``workload`` lists the marginals,
    ``model_mb`` is the predicted size of the largest model where that can be told.
    """

    split: Mapping[str, float] = field(default_factory=dict)
    workload: Sequence[tuple[str, ...]] = ()
    model_mb: float | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    warnings: Sequence[str] = ()


@runtime_checkable
class Generator(Protocol):
    """A calibrated mechanism: it says what it costs and runs on a visit paid for that cost."""

    @property
    def cost(self) -> Sequence[Charge]: ...

    def __call__(self, visit: Visit, *, progress: Progress) -> Synthesis: ...


class GeneratorConfig(Protocol):
    """Public knobs of a generator: a frozen, keyword-only dataclass of JSON values.

    ``name`` is the plugin id. A field's ``metadata["help"]`` becomes the help of the flag of the
    same name. ``rows`` is the number of synthetic rows; None takes the estimated number. Optional:
    ``requires`` (extras or distributions that must be installed), ``reads_bare`` (true where
    ``sample``, and ``score`` if there is one, need none of these), ``exceeds_budget`` (true where
    the calibration asked for, a paper's own, costs more than the budget: the statement says what),
    and ``audit_options`` (options by name that make a run quick: ``marginalsyn audit`` tests the
    claim of a config with these).
    """

    name: ClassVar[str]
    summary: ClassVar[str]

    def configure(self, schema: Schema, budget: Budget) -> Generator: ...

    def plan(self, schema: Schema, budget: Budget) -> Plan: ...

    @classmethod
    def sample(
        cls, model: Model, schema: Schema, rows: int | None, rng: np.random.Generator
    ) -> pd.DataFrame: ...


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


def build_config(kind: Any, options: Mapping[str, Any] | None = None) -> GeneratorConfig:
    """Build a config of the given class; its name, options that are missing get their defaults."""
    known = [field.name for field in fields(kind)]
    for name in options or {}:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            listed = ", ".join(known) or "none"
            raise UsageError(f"option ({name}) of {kind.name} must be one of: {listed}{hint}")
    try:
        return TypeAdapter(kind).validate_python(dict(options or {}))
    except ValidationError as error:
        raise UsageError(f"options of {kind.name}: {explain(error)}") from None

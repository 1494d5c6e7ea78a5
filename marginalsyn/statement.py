"""The privacy statement of a release: what was spent, on what, and what the guarantee is."""

from __future__ import annotations

import datetime
import math
import platform
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import metadata
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from marginalsyn.budget import Charge, Neighbours, Total, compose
from marginalsyn.errors import MarginalsynError
from marginalsyn.noise import Noise

SEEDED = "seeded, not private"
"""What ``noise`` says when the protective noise can be recomputed from a seed."""
ANOTHER_TOOL = "another tool"
"""What ``generator`` says of rows that were made elsewhere."""

_UNITS = {
    Neighbours.ADD_REMOVE: (
        "one row of the private table: tables that differ by adding or removing one row are "
        "protected from being told apart; the number of rows is private"
    ),
    Neighbours.REPLACE: (
        "the values of one row of the private table: tables that differ by replacing one row are "
        "protected from being told apart; the number of rows is public"
    ),
}
_TRAINING_UNIT = (
    "the values of one row of the training part, which a hash of each row's own content tells from "
    "the rows held out: tables that differ by replacing one row of that part by another that falls "
    "into it, too, are protected from being told apart; the number of its rows is public"
)
_WITNESSES = ("marginalsyn", "numpy", "pandas", "opendp", "dp-accounting", "mbi", "jax")


class Statement(BaseModel):
    """The contents of ``privacy.json``. Everything in it may be published.

    ``eps`` and ``delta`` are the total of ``charges`` under ``neighbours``, converted at
    ``target_delta`` (the total's delta is 0 where every charge is pure). ``payments`` are the
    single measurements that the charges paid for. ``holdout`` is the share of rows that were held
    out: under replace, the promise is then for the other rows, as ``unit`` says. ``files`` maps
    each other file of the release to its SHA-256.

    Example:
        >>> statement = Release.read("release").statement      # doctest: +SKIP
        >>> statement.eps, statement.guarantee                  # doctest: +SKIP
        (2.0, 'exact')
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    version: Literal[1] = 1
    generator: str
    parameters: dict[str, Any] = Field(default_factory=dict)
    unit: str
    neighbours: Neighbours
    holdout: float = Field(default=0.0, ge=0, lt=1)
    eps: float = Field(ge=0)
    delta: float = Field(ge=0, lt=1)
    rho: float | None = Field(default=None, ge=0)
    target_delta: float = Field(ge=0, lt=1)
    guarantee: Literal["exact", "asymptotic"]
    why: str
    noise: str
    seeded: bool
    schema_drafted: bool
    warnings: tuple[str, ...] = ()
    charges: tuple[Charge, ...]
    payments: tuple[dict[str, Any], ...] = ()
    notes: dict[str, Any] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)
    created: datetime.date | None = None
    files: dict[str, str] = Field(default_factory=dict)

    @property
    def private(self) -> bool:
        """Whether the noise was drawn so that the guarantee holds."""
        return not self.seeded

    @property
    def foreign(self) -> bool:
        """Whether the rows were made elsewhere, so that the guarantee does not cover them."""
        return self.generator == ANOTHER_TOOL

    def total(self) -> Total:
        """Re-add the charges."""
        return compose(self.charges, self.target_delta, self.neighbours)

    def problems(self) -> list[str]:
        """Where the statement contradicts its own charges and payments; empty when it does not."""
        try:
            total = self.total()
        except MarginalsynError as error:
            return [f"charges cannot be added up: {error}"]
        problems = [
            f"{name} ({stated}) must be {added}, which the charges add up to"
            for name, stated, added in (
                ("eps", self.eps, total.eps),
                ("delta", self.delta, total.delta),
            )
            if not math.isclose(stated, added, rel_tol=1e-6, abs_tol=1e-15)
        ]
        if self.unit != (unit := unit_of(self.neighbours, self.holdout)):
            problems.append(f"unit must read as it does for {self.neighbours}: {unit}")
        if self.guarantee != total.guarantee:
            problems.append(f"guarantee ({self.guarantee}) must be {total.guarantee}")
        if self.seeded != (self.noise == SEEDED):
            problems.append(f"noise ({self.noise}) contradicts seeded ({self.seeded})")
        return problems

    def extended(
        self,
        *,
        charges: Iterable[Charge] = (),
        payments: Iterable[Mapping[str, Any]] = (),
        warnings: Iterable[str] = (),
        notes: Mapping[str, Any] | None = None,
        noise: Noise | None = None,
    ) -> Statement:
        """Add what a later step on the same release (weights, say) has spent and says.

        Args:
            charges: the step's charges; the total is added up anew.
            payments: the step's single measurements.
            warnings: lines that readers should see first.
            notes: JSON values, merged over those that are there.
            noise: what drew the step's noise; a seeded one marks the whole release.

        Returns:
            A new statement; this one is not changed.
        """
        seeded = self.seeded or (noise is not None and not noise.private)
        return state(
            generator=self.generator,
            parameters=self.parameters,
            charges=[*self.charges, *charges],
            payments=[*self.payments, *payments],
            neighbours=self.neighbours,
            holdout=self.holdout,
            target_delta=self.target_delta,
            noise=SEEDED if seeded else self.noise,
            seeded=seeded,
            schema_drafted=self.schema_drafted,
            warnings=[*self.warnings, *warnings],
            notes={**self.notes, **(notes or {})},
            created=self.created,
        )

    def to_json(self) -> str:
        """Render ``privacy.json``."""
        return self.model_dump_json(indent=2) + "\n"


def state(
    *,
    generator: str,
    parameters: Mapping[str, Any],
    charges: Sequence[Charge],
    payments: Iterable[Mapping[str, Any]],
    neighbours: Neighbours,
    target_delta: float,
    noise: str,
    seeded: bool,
    schema_drafted: bool,
    holdout: float = 0.0,
    warnings: Iterable[str] = (),
    notes: Mapping[str, Any] | None = None,
    created: datetime.date | None = None,
) -> Statement:
    """Write the statement of a run: add up its charges and say in words what they guarantee."""
    total = compose(charges, target_delta, neighbours)
    loud = list(warnings)
    if schema_drafted:
        loud.insert(0, _DRAFTED)
    if seeded:
        loud.insert(0, _SEEDED)
    return Statement(
        generator=generator,
        parameters=plain(parameters),
        unit=unit_of(neighbours, holdout),
        neighbours=neighbours,
        holdout=holdout,
        eps=total.eps,
        delta=total.delta,
        rho=total.rho,
        target_delta=target_delta,
        guarantee=total.guarantee,
        why=_why(
            total,
            charges,
            foreign=generator == ANOTHER_TOOL,
            seeded=seeded,
            schema_drafted=schema_drafted,
        ),
        noise=noise,
        seeded=seeded,
        schema_drafted=schema_drafted,
        warnings=tuple(dict.fromkeys(loud)),
        charges=tuple(charges),
        payments=tuple(plain(payment) for payment in payments),
        notes=plain(notes or {}),
        versions=_versions(),
        created=created,
    )


def unit_of(neighbours: Neighbours, holdout: float) -> str:
    """Say what is protected. Under replace, a row must be replaced on its side of the split.

    Which side is a function of the row alone, so a row that changes sides changes the training
    part's size, which that relation makes public.
    """
    if holdout and neighbours is Neighbours.REPLACE:
        return _TRAINING_UNIT
    return _UNITS[neighbours]


def today() -> datetime.date:
    """The date in UTC: a statement carries no time of day, which a run's length would show in."""
    return datetime.datetime.now(datetime.UTC).date()


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


_SEEDED = (
    "NOT PRIVATE: the noise was drawn from a seed, so whoever knows or guesses the seed can "
    "remove it. For research only; do not publish."
)
_DRAFTED = (
    "The schema was drafted from the private data: its categories and bounds are not protected "
    "by the guarantee."
)
_ROWS_TOO = (
    "All else in this folder is computed from what the mechanisms gave out and from public "
    "knowledge."
)
_ROWS_NOT = "The rows were made by another tool: what they give away is outside the guarantee."


def _why(
    total: Total, charges: Sequence[Charge], *, foreign: bool, seeded: bool, schema_drafted: bool
) -> str:
    """The guarantee in words, with what it leaves out."""
    if not charges:
        text = "Nothing was measured on private rows." if not foreign else _ROWS_NOT
    elif total.guarantee == "exact":
        text = (
            "Every mechanism's privacy loss is bounded for every pair of neighbouring tables, and "
            "the losses are added up by a composition theorem. "
        )
        text += _ROWS_TOO if not foreign else _ROWS_NOT
    else:
        names = ", ".join(sorted({c.mechanism for c in charges if c.guarantee == "asymptotic"}))
        text = (
            f"The stated numbers hold only in the limit for: {names}. For a finite table the true "
            "privacy loss may be larger than stated."
        )
        text += f" {_ROWS_NOT}" if foreign else ""
    if schema_drafted:
        text += " The schema, drafted from the private data, is outside the guarantee."
    if seeded:
        text += " The noise was seeded: as published, this folder is not private."
    return text


@cache
def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _WITNESSES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found

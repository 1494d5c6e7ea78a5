"""The privacy statement of a release: what was spent on what, and the resulting guarantee."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from marginalsyn.contract import plain
from marginalsyn.errors import MarginalsynError
from marginalsyn.people.tree import PersonUnit
from marginalsyn.privacy.charges import Charge, Guarantee, Neighbours
from marginalsyn.privacy.composition import Total, compose
from marginalsyn.privacy.noise import Noise, Sampler, merge
from marginalsyn.release import derivation
from marginalsyn.release.derivation import SEEDED
from marginalsyn.release.earlier import as_written
from marginalsyn.table.frames import PLAIN_TEXT, TextForm
from marginalsyn.table.unit import SurveyWeight, Unit

__all__ = ["ANOTHER_TOOL", "SEEDED", "Statement", "state", "today"]

ANOTHER_TOOL = "another tool"
"""What ``generator`` says of rows that were made elsewhere."""

_UNITS = {
    Neighbours.ADD_REMOVE: (
        "one row of the private table: tables that differ by adding or removing one row are "
        "hard to distinguish; the number of rows is private"
    ),
    Neighbours.REPLACE: (
        "the values of one row of the private table: tables that differ by replacing one row are "
        "hard to distinguish; the number of rows is public"
    ),
}
_PERSONS = {
    (Neighbours.ADD_REMOVE, False): (
        "tables that differ by adding or removing all rows of one person are hard to distinguish; "
        "the number of persons is private, and so is the number of rows"
    ),
    (Neighbours.REPLACE, False): (
        "tables that differ by replacing all rows of one person by those of another are hard to "
        "distinguish; the number of persons is public, the number of rows is private"
    ),
    (Neighbours.REPLACE, True): (
        "tables that differ by replacing all rows of one person of the training part by those of "
        "another who falls into that part, too, are hard to distinguish; a hash of what names a "
        "person tells the part from the persons held out; the number of its persons is public, the "
        "number of rows is private"
    ),
}
_TRAINING_UNIT = (
    "the values of one row of the training part, which a hash of each row's own content tells from "
    "the rows held out: tables that differ by replacing one row of that part by another that falls "
    "into it, too, are hard to distinguish; the number of its rows is public"
)


class Statement(BaseModel):
    """The contents of ``privacy.json``. Everything in it may be published.

    ``eps`` and ``delta`` are the total of ``charges`` under ``neighbours``, converted at
    ``target_delta`` (the total's delta is 0 where every charge is pure). ``mu`` and ``rho`` are the
    total in GDP and in zCDP, where every charge has a price in it. ``payments`` are the
    single measurements that the charges paid for, each with the ``laws`` that its noise was
    drawn from. ``samplers`` lists these laws, ``libraries`` what else took part. ``guarantee``
    (the weakest of charges and laws), ``noise`` and ``versions`` follow from them, and
    ``problems`` derives them again. ``persons`` (in linked tables ``family``) are protected,
    if not rows.
    ``holdout`` is the share of rows that were held out: under replace, the promise is then for
    the other rows, as ``unit`` says, and ``split`` is a hash of what picked them, if that cannot be
    guessed. ``files`` maps each other file of the release to its
    SHA-256.

    Example:
        >>> from marginalsyn.release.folder import Release
        >>> statement = Release.read("release").statement
        >>> round(statement.eps, 6), statement.charges[0].guarantee
        (2.0, 'exact')
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    version: Literal[2] = 2
    generator: str
    parameters: dict[str, Any] = Field(default_factory=dict)
    unit: str
    persons: Unit | None = None
    family: PersonUnit | None = None
    survey: SurveyWeight | None = None
    neighbours: Neighbours
    holdout: float = Field(default=0.0, ge=0, lt=1)
    split: str | None = None
    eps: float = Field(ge=0)
    delta: float = Field(ge=0, lt=1)
    rho: float | None = Field(default=None, ge=0)
    mu: float | None = Field(default=None, ge=0)
    target_delta: float = Field(ge=0, lt=1)
    guarantee: Guarantee
    why: str
    noise: str
    seeded: bool
    schema_drafted: bool
    warnings: tuple[str, ...] = ()
    charges: tuple[Charge, ...]
    payments: tuple[dict[str, Any], ...] = ()
    samplers: tuple[Sampler, ...] = ()
    libraries: dict[str, str] = Field(default_factory=dict)
    notes: dict[str, Any] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)
    created: datetime.date | None = None
    files: dict[str, str] = Field(default_factory=dict)

    @property
    def private(self) -> bool:
        """Whether the noise was drawn so that the guarantee holds."""
        return not self.seeded and self.guarantee != "none"

    @property
    def foreign(self) -> bool:
        """Whether the rows were made elsewhere, so that the guarantee does not cover them."""
        return self.generator == ANOTHER_TOOL

    def total(self) -> Total:
        """Re-add the charges; the guarantee is the weakest of theirs and of what was drawn."""
        total = self._charged()
        weak = derivation.guarantee_of(total.guarantee, self.samplers, self.seeded)
        return replace(total, guarantee=weak)

    def _charged(self) -> Total:
        return compose(self.charges, self.target_delta, self.neighbours)

    def problems(self) -> list[str]:
        """Contradictions between the statement and its own charges and payments; empty if there are
        none.
        """
        try:
            total = self._charged()
        except MarginalsynError as error:
            return [f"charges cannot be added up: {error}"]
        problems = [
            f"{name} ({stated}) must be {getattr(total, name)}, which the charges add up to"
            for name in ("eps", "delta", "mu", "rho")
            # Statements of earlier versions have no mu.
            if (stated := getattr(self, name)) is not None
            and not math.isclose(stated, getattr(total, name) or 0.0, rel_tol=1e-6)
        ]
        known = self.persons or self.family
        unit = unit_of(self.neighbours, self.holdout, known, self.survey, self.notes)
        if self.unit not in (unit, as_written(unit)):
            problems.append(f"unit must read as it does for {self.neighbours}: {unit}")
        silent = [line for line in derivation.described(self.notes) if line not in self.why]
        problems += [f"why must say: {line}" for line in silent]
        return problems + derivation.problems(self, total.guarantee)

    def extended(
        self,
        *,
        charges: Iterable[Charge] = (),
        payments: Iterable[Mapping[str, Any]] = (),
        samplers: Iterable[Sampler] = (),
        libraries: Mapping[str, str] | None = None,
        warnings: Iterable[str] = (),
        notes: Mapping[str, Any] | None = None,
        noise: Noise | None = None,
    ) -> Statement:
        """Add what a later step on the same release (weights, say) has spent and says.

        Args:
            charges: the step's charges; the total is added up again.
            payments: the step's single measurements.
            samplers: the laws that its noise was drawn from.
            libraries: what else took part, and what it did.
            warnings: lines that readers should see first.
            notes: JSON values, merged over those that are there.
            noise: what drew the step's noise; a seeded one marks the whole release.

        Returns:
            A new statement; this one is not changed.
        """
        same = (
            *("generator", "parameters", "neighbours", "holdout", "split", "survey", "created"),
            *("target_delta", "schema_drafted", "versions"),
        )
        return state(
            **{name: getattr(self, name) for name in same},
            charges=[*self.charges, *charges],
            payments=[*self.payments, *payments],
            samplers=[*self.samplers, *samplers],
            libraries={**self.libraries, **(libraries or {})},
            persons=self.persons or self.family,
            seeded=self.seeded or (noise is not None and not noise.private),
            warnings=[*self.warnings, *warnings],
            notes={**self.notes, **(notes or {})},
        )

    def with_form(self, form: TextForm) -> Statement:
        """The statement of a release whose text files are written in this form."""
        noted = {**self.notes, "text": form.to_json()} if form != PLAIN_TEXT else self.notes
        return self.model_copy(update={"notes": noted})

    def to_json(self) -> str:
        """Render ``privacy.json``."""
        silent = {
            n for n in ("persons", "family", "survey", "split", "mu") if getattr(self, n) is None
        }
        return self.model_dump_json(indent=2, exclude=silent) + "\n"


def state(
    *,
    generator: str,
    parameters: Mapping[str, Any],
    charges: Sequence[Charge],
    payments: Iterable[Mapping[str, Any]],
    neighbours: Neighbours,
    target_delta: float,
    schema_drafted: bool,
    holdout: float = 0.0,
    split: str | None = None,
    persons: Unit | PersonUnit | None = None,
    survey: SurveyWeight | None = None,
    samplers: Iterable[Sampler] = (),
    libraries: Mapping[str, str] | None = None,
    seeded: bool = False,
    warnings: Iterable[str] = (),
    notes: Mapping[str, Any] | None = None,
    created: datetime.date | None = None,
    versions: Mapping[str, str] | None = None,
    total: Total | None = None,
    bought: Sequence[Charge] = (),
) -> Statement:
    """Write the statement of a run: add up its charges and say in words what they guarantee.

    ``seeded`` is true in any case where a sampler was. ``versions`` are those of earlier steps.
    ``total`` is what the charges add up to, where that is known already; ``bought`` are those of a
    schema whose bounds were bought, which come first.
    """
    charges = [*bought, *charges]
    total = total or compose(charges, target_delta, neighbours)
    lines = merge([*derivation.bought(bought), *samplers])
    seeded = seeded or any(line.origin == "seed" for line in lines)
    guarantee = derivation.guarantee_of(total.guarantee, lines, seeded)
    used = derivation.libraries_used(lines, libraries or {}, charges)
    loud = list(warnings)
    if schema_drafted:
        loud.insert(0, _DRAFTED)
    if seeded:
        loud.insert(0, _SEEDED)
    return Statement(
        generator=generator,
        parameters=plain(parameters),
        unit=unit_of(neighbours, holdout, persons, survey, notes or {}),
        survey=survey,
        persons=persons if isinstance(persons, Unit) else None,
        family=persons if isinstance(persons, PersonUnit) else None,
        neighbours=neighbours,
        holdout=holdout,
        split=split or None,
        eps=_readable(total.eps),
        delta=_readable(total.delta),
        rho=_readable(total.rho),
        mu=_readable(total.mu),
        target_delta=target_delta,
        guarantee=guarantee,
        why=_why(
            guarantee,
            charges,
            lines,
            rows_not=derivation.outside(notes or {}) if generator == ANOTHER_TOOL else "",
            references=derivation.described(notes or {}),
            seeded=seeded,
            schema_drafted=schema_drafted,
        ),
        noise=derivation.noise_of(lines, seeded),
        seeded=seeded,
        schema_drafted=schema_drafted,
        warnings=tuple(dict.fromkeys(loud)),
        charges=tuple(charges),
        payments=tuple(plain(payment) for payment in payments),
        samplers=tuple(lines),
        libraries=dict(libraries or {}),
        notes=plain(notes or {}),
        versions=derivation.versions_of(used, versions or {}),
        created=created,
    )


def _readable(amount: Any) -> Any:
    """An amount in nine digits, rounded up: 2 in place of 1.9999999999997877.

    What lies above by no more than the error of a sum in floating point is rounded off. The charges
    keep every digit, and ``problems`` adds them up again.
    """
    if not amount or not math.isfinite(amount):
        return amount
    exact = decimal.Decimal(repr(float(amount)))
    step = decimal.Decimal(1).scaleb(exact.adjusted() - 8)
    exact -= exact * decimal.Decimal("1e-13")
    return float(exact.quantize(step, rounding=decimal.ROUND_CEILING))


def unit_of(
    neighbours: Neighbours,
    holdout: float,
    persons: Unit | PersonUnit | None = None,
    survey: SurveyWeight | None = None,
    notes: Mapping[str, Any] = MappingProxyType({}),
) -> str:
    """Say what is protected. Under replace, a row and its replacement must be on the same side of
    the split.

    Which side is a function of the row alone, so a row that changes sides changes the training
    part's size, which that relation makes public.
    """
    if survey is not None:
        return f"{unit_of(neighbours, holdout, persons)}; {survey.text}"
    if any("rows" in margin for margin in notes.get("margins", ())):
        text, _, number = unit_of(neighbours, holdout, persons).rpartition("; ")
        private = neighbours is Neighbours.ADD_REMOVE
        return f"{text}; {'a public margin states how many were counted' if private else number}"
    if persons is not None:
        relation = _PERSONS[neighbours, bool(holdout) and neighbours is Neighbours.REPLACE]
        return f"{persons.text}: {relation}"
    if holdout and neighbours is Neighbours.REPLACE:
        return _TRAINING_UNIT
    return _UNITS[neighbours]


def today() -> datetime.date:
    """The date in UTC. A statement has no time of day, which could reveal how long the run took."""
    return datetime.datetime.now(datetime.UTC).date()


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
_SHORT = {
    "rounded": "The stated numbers hold up to the bits that are lost by: {names}.",
    "computational": (
        "The stated numbers hold against readers who cannot tell these from true chance: {names}."
    ),
    "asymptotic": (
        "The stated numbers hold only in the limit for: {names}. For a finite table the true "
        "privacy loss may be larger than stated."
    ),
    "none": "The stated numbers promise nothing, because of: {names}.",
}


def _why(
    guarantee: Guarantee,
    charges: Sequence[Charge],
    lines: Sequence[Sampler],
    *,
    rows_not: str,
    references: Sequence[str],
    seeded: bool,
    schema_drafted: bool,
) -> str:
    """The guarantee in words, with what it leaves out."""
    if not charges:
        text = rows_not or "Nothing was measured on private rows."
    elif guarantee == "exact":
        text = (
            "Every mechanism's privacy loss is bounded for every pair of neighbouring tables, and "
            "the losses are added up by a composition theorem. "
        )
        text += rows_not or _ROWS_TOO
    else:
        weak = [c.mechanism for c in charges if c.guarantee == guarantee]
        weak += [line.law for line in lines if line.worth == guarantee]
        names = ", ".join(sorted(set(weak))) or "noise from a seed"
        text = f"{_SHORT[guarantee].format(names=names)}"
        text += f" {rows_not}" if rows_not else ""
    text = " ".join([text, *references])
    if schema_drafted:
        text += " The schema, drafted from the private data, is outside the guarantee."
    if seeded:
        text += " The noise was seeded: as published, this folder is not private."
    return text

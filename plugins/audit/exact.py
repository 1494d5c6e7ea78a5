"""Checks without chance: exact laws and exact sensitivities, each a number with its bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from marginalsyn.progress import Progress, Silent

if TYPE_CHECKING:
    from marginalsyn.plugins.audit.worst import Measured

SLACK = 1e-6
"""Of a bound, for rounding: rows in single precision, sums, square roots."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One number that must not exceed its bound.

    Attributes:
        name: what is checked, in a few words.
        methods: the generators and estimators that rest on it; none means all.
        value: what was computed.
        bound: what it may be at most.
        how: where the number comes from.
    """

    name: str
    methods: tuple[str, ...] = ()
    value: float
    bound: float = 1.0
    how: str

    @property
    def holds(self) -> bool:
        """Whether the bound is kept; a number that is none keeps nothing."""
        return bool(self.value <= self.bound * (1 + SLACK))

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return {**asdict(self), "holds": self.holds}


def run_checks(
    methods: Sequence[str] = (),
    progress: Progress | None = None,
    measured: Sequence[Measured] | None = None,
) -> list[Check]:
    """All checks, or those on which the named methods rest.

    Args:
        methods: their names; all by default.
        progress: reports what happens.
        measured: what :func:`~marginalsyn.plugins.audit.worst.measure` found; by default it is
            asked at eps 1, without the methods that load a network library.

    Example:
        >>> [check.name for check in run_checks(["mst"]) if not check.holds]
        []
    """
    from marginalsyn.plugins.audit.worst import answers, measure

    progress = progress or Silent()
    families = _families()
    found: list[Check] = []
    if measured is None:
        measured = measure(methods, budgets=(1.0,), trained=False, progress=progress)
    found += answers(measured)
    for done, (names, family) in enumerate(families):
        progress.report("exact checks", fraction=done / len(families), text=family.__name__)
        if not methods or not names or set(names) & set(methods):
            found += family()
    return [c for c in found if not methods or not c.methods or set(c.methods) & set(methods)]


def _families() -> list[tuple[tuple[str, ...], Callable[[], list[Check]]]]:
    from marginalsyn.plugins.audit import exact_common, exact_points, exact_weights

    rooms = (exact_points, exact_weights, exact_common)
    return [family for room in rooms for family in room.FAMILIES]

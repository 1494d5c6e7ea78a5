"""Answers that were bought with weights join what a release tells: they are noisy marginals, too.

The model of the bootstrap is fitted to those about the columns in question, as far as it hardly
grows by them; all of them correct estimates. Weights that come from anything else cannot be
replayed: they are named, and not used.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from marginalsyn.answers.evidence import Evidence
from marginalsyn.answers.looks import look_of
from marginalsyn.graphical import model as pgm
from marginalsyn.weights.bought import check_bought, read_bought

if TYPE_CHECKING:
    from marginalsyn.contract import Measurement
    from marginalsyn.release.folder import Release

# A model that grows by more than this is not fitted again and again in good time.
_MOST_GROWTH = 1.25
# Weights of these methods do not come from noisy answers about the private rows.
_FREE = ("none",)


def join(
    evidence: Evidence, release: Release, wanted: Sequence[Collection[str]]
) -> tuple[Evidence, list[str]]:
    """What a release tells with all that its weights were bought with, and what is to be said.

    Args:
        evidence: of the release alone.
        release: with weights or without.
        wanted: the columns of every question.
    """
    columns = weight_methods(release)
    if not columns:
        return evidence, []
    raked = {name for name, (_, bought) in columns.items() if bought}
    notes = [
        f"the weights {name} ({method}) are not used: they come from no noisy marginals, so that "
        "they cannot be replayed; estimates are those of the release without them"
        for name, (method, bought) in columns.items()
        if not bought and method not in _FREE
    ]
    if not raked:
        return evidence, notes
    measured: list[Measurement] = []
    for one in read_bought(release):
        check_bought(one, release)
        measured += [m for m in one.measurements if m.columns]
    joined = with_measured(evidence, measured, wanted)
    both = [name for name in sorted(raked) if columns[name][0] != "rake"]
    notes.append(
        f"{len(measured)} marginals that were bought for the weights {', '.join(sorted(raked))} "
        "are used as answers beside the release's own"
        + (f"; what else made {', '.join(both)} is not" if both else "")
    )
    return joined, notes


def weight_methods(release: Release) -> dict[str, tuple[str, bool]]:
    """For every column of weights its method, and whether its answers were kept."""
    told = release.statement.notes.get("weights")
    entries = told if isinstance(told, dict) else {}
    frame = release.weights()
    names = [] if frame is None else [str(name) for name in frame]
    files = release.statement.files
    return {
        name: (
            str(entries.get(name, {}).get("method", "unknown")),
            f"{name}.answers.json" in files,
        )
        for name in names
    }


def raked_column(release: Release) -> str | None:
    """The column of weights that a naive fit would use here: one that answers stand behind."""
    return next((name for name, (_, bought) in weight_methods(release).items() if bought), None)


def with_measured(
    evidence: Evidence, measured: Sequence[Measurement], wanted: Sequence[Collection[str]] = ()
) -> Evidence:
    """The same release with more noisy marginals of its table, its model fitted again."""
    looks = [
        replace(look_of(m, evidence.compression, evidence.domain), held=False, bought=True)
        for m in measured
    ]

    own = [look.columns for look in evidence.looks if look.held]
    limit = _MOST_GROWTH * pgm.model_mb(evidence.domain, own)
    held: set[int] = set()
    # A network's tables hold what it was made of; more answers correct estimates alone.
    for place, look in enumerate(looks if evidence.structure is None else ()):
        more = [*own, look.columns]
        if not any({*look.columns} <= {*columns} for columns in wanted):
            continue
        if pgm.model_mb(evidence.domain, more) <= limit:
            own = more
            held.add(place)
    joined = tuple(replace(look, held=place in held) for place, look in enumerate(looks))
    found = replace(evidence, looks=(*evidence.looks, *joined))
    return found.refitted() if held else found

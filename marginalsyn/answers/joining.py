"""Answers that were bought with weights join a release's own: they are noisy marginals, too.

The model of the bootstrap is fitted to those about the columns in question, as far as it hardly
grows by them; all of them correct estimates. Weights that come from anything else cannot be
replayed: they are named, and not used.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from marginalsyn.answers.evidence import Evidence
from marginalsyn.answers.noisy_marginals import NoisyMarginal
from marginalsyn.graphical import model as pgm
from marginalsyn.release.linked import PersonsRelease, TableRelease
from marginalsyn.weights.columns import check_bought, columns_of, read_bought

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
    """The evidence with all answers that weights were bought with, and notes on them.

    ``wanted`` are the columns of every question.
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
    # Weights of linked tables are bought about persons with the first rows of each.
    persons = isinstance(release, TableRelease)
    weighted = PersonsRelease.read(release.path) if persons else release
    for one in read_bought(weighted):
        check_bought(one, weighted)
        own = (
            release.named(one.measurements)
            if isinstance(release, TableRelease)
            else one.measurements
        )
        # Those of columns that follow from others are left: the release's own say as much.
        measured += [m for m in own if m.columns and not {*m.columns} & {*evidence.followers}]
    joined = with_measured(evidence, measured, wanted)
    both = [name for name in sorted(raked) if columns[name][0] != "rake"]
    notes.append(
        f"{len(measured)} marginals that were bought for the weights {', '.join(sorted(raked))} "
        "are used as answers with the release's own"
        + (f"; what else made {', '.join(both)} is not" if both else "")
    )
    return joined, notes


def weight_methods(release: Release) -> dict[str, tuple[str, bool]]:
    """For every column of weights its method, and whether its answers were kept."""
    entries = columns_of(release)
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
    marginals = [
        replace(
            NoisyMarginal.of(m, evidence.compression, evidence.domain), fitted=False, bought=True
        )
        for m in measured
    ]

    own = [m.columns for m in evidence.marginals if m.fitted]
    limit = _MOST_GROWTH * pgm.model_mb(evidence.domain, own)
    kept: set[int] = set()
    # A network's tables hold what it was made of; more answers correct estimates alone.
    for place, marginal in enumerate(() if evidence.structure.nodes else marginals):
        more = [*own, marginal.columns]
        if not any({*marginal.columns} <= {*columns} for columns in wanted):
            continue
        if pgm.model_mb(evidence.domain, more) <= limit:
            own = more
            kept.add(place)
    joined = tuple(
        replace(marginal, fitted=place in kept) for place, marginal in enumerate(marginals)
    )
    found = replace(evidence, marginals=(*evidence.marginals, *joined))
    return found.refitted() if kept else found

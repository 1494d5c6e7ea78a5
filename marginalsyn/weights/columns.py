"""Weight columns of a release: their names, their budget, and how they are written."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from marginalsyn.errors import PluginError, ReleaseError, UsageError
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Charge
from marginalsyn.privacy.laws import Sampler
from marginalsyn.privacy.noise import Noise
from marginalsyn.privacy.zcdp import rho_of
from marginalsyn.release.folder import LOG, WEIGHTS, Release
from marginalsyn.weights.bought import Bought

BEFORE = "total_before_weights"
# Digests of the answers whose cost the statement counts.
COUNTED = "answers"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, kw_only=True)
class WeightColumn:
    """A column of weights with all that is to be said of it.

    ``facts`` may be published where the estimator is private; ``diagnostics`` never. ``bought`` are
    answers that this column paid for, ``reused`` those that another one had paid for.
    """

    name: str
    weights: np.ndarray
    log_weights: np.ndarray
    facts: dict[str, Any]
    charges: tuple[Charge, ...] = ()
    payments: Sequence[dict[str, Any]] = ()
    samplers: Sequence[Sampler] = ()
    libraries: Mapping[str, str] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    private: bool = True
    diagnostics: dict[str, Any] = field(default_factory=dict)
    bought: Bought | None = None
    reused: Sequence[Bought] = ()


def share_of(release: Release, share: float, cap: tuple[float, float] | None = None) -> Budget:
    """A share, in rho, of a total given at the start: the ledger's cap, else the release's own.

    Args:
        release: what the weights are for.
        share: above 0 and at most 1 (of a cap) or 10 (of what the release spent).
        cap: the ledger's (eps, delta), if there is one.

    Example:
        >>> from marginalsyn.release.folder import Release
        >>> release = Release.read("release")
        >>> round(share_of(release, 0.1).rho / release.statement.rho, 6)
        0.1
    """
    if not 0 < share <= (1 if cap else 10):
        raise UsageError(f"share ({share}) must be above 0 and at most 1, such as 0.1")
    statement = release.statement
    eps, delta = cap or _before(release)
    if not eps > 0:
        raise UsageError(
            f"share ({share}) has no total to refer to: nothing was spent on these rows and the "
            "ledger has no cap; give the weights a budget with --eps"
        )
    return Budget.of_rho(
        share * rho_of(eps, delta), statement.target_delta or delta, statement.neighbours
    )


def check_column(release: Release, name: str, force: bool) -> None:
    """Refuse a name that cannot be a column's, or is one's already."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"name ({name!r}) of the weights must be up to 64 letters, digits, - and _"
        )
    found = release.weights()
    if found is not None and name in found and not force:
        raise UsageError(
            f"column ({name}) must not be in the release yet: take another --name, process its raw "
            f"log-weights anew with --reuse {name} (free), or add --force to spend again"
        )


def publish(
    release: Release,
    weighted: WeightColumn,
    *,
    noise: Noise | None = None,
    files: dict[str, bytes] | None = None,
) -> Release:
    """Write a column into a release and say in its statement what it cost; whole or not at all.

    Args:
        release: as it was read before the run.
        weighted: what :func:`weigh` or :func:`reprocess` gave.
        noise: what drew the run's noise.
        files: further files by name, such as a resampled table.

    Raises:
        PluginError: the weights are not private.
        ReleaseError: the rows were replaced meanwhile, or the folder cannot be written.
    """
    if not weighted.private:
        raise PluginError(
            f"weights ({weighted.name}) are not private and must not be written into a release"
        )
    # Read again: another command may have added a column since.
    fresh = release.reopen()
    rows = release.frame_file
    if fresh.statement.files.get(rows) != release.statement.files[rows]:
        raise ReleaseError(f"release ({release.path}) was replaced meanwhile; run weight again")
    table = fresh._weight_columns()
    columns = {} if table is None else {str(key): table[key].to_numpy() for key in table}
    columns[weighted.name] = weighted.weights
    columns[weighted.name + LOG] = weighted.log_weights
    kept = weighted.bought.files(weighted.name) if weighted.bought is not None else {}
    # What was paid for another release is told by this one's statement too, but once.
    counted = {one for facts in columns_of(fresh).values() for one in facts.get(COUNTED, ())}
    others = [one for one in weighted.reused if one.digest not in counted]
    told = [weighted.bought] if weighted.bought is not None else weighted.reused
    facts = {**weighted.facts, **({COUNTED: [one.digest for one in told]} if told else {})}
    return fresh.amend(
        {WEIGHTS: weights_csv(columns), **kept, **(files or {})},
        charges=[*weighted.charges, *(c for one in others for c in one.charges)],
        payments=[*weighted.payments, *(p for one in others for p in one.payments)],
        samplers=[*weighted.samplers, *(line for one in others for line in one.samplers)],
        libraries={
            **{name: what for one in others for name, what in one.libraries.items()},
            **weighted.libraries,
        },
        warnings=weighted.warnings,
        notes={
            "weights": {**columns_of(fresh), weighted.name: facts},
            BEFORE: list(_before(fresh)),
        },
        noise=noise,
    )


def weights_csv(columns: dict[str, np.ndarray]) -> bytes:
    """The columns as CSV whose numbers read back exactly."""
    handle = io.BytesIO()
    pd.DataFrame(columns).to_csv(handle, index=False, lineterminator="\n", encoding="utf-8")
    return handle.getvalue()


def columns_of(release: Release) -> dict[str, Any]:
    """What the statement says of each column of weights."""
    told = release.statement.notes.get("weights", {})
    if not isinstance(told, dict):
        return {}
    return {str(name): facts for name, facts in told.items() if isinstance(facts, dict)}


def _before(release: Release) -> tuple[float, float]:
    """What the release had spent before its first weights, so that shares do not grow."""
    statement = release.statement
    told = statement.notes.get(BEFORE)
    if isinstance(told, list) and len(told) == 2 and all(type(n) in (int, float) for n in told):
        return float(told[0]), float(told[1])
    return statement.eps, statement.target_delta

"""From raw log-weights to a column of weights: post-processing and diagnostics, all of it free."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from marginalsyn.access.visit import Visit
from marginalsyn.contract import LogWeights, Target, plain
from marginalsyn.errors import PluginError, UsageError
from marginalsyn.privacy.charges import Charge
from marginalsyn.release.folder import Release, preflight
from marginalsyn.weights.columns import Bought, WeightColumn, check_column, columns_of
from marginalsyn.weights.effectiveness import cautions, diagnose
from marginalsyn.weights.processing import Processing, calibrate


def finish_column(
    found: LogWeights,
    *,
    target: Target,
    name: str,
    processing: Processing,
    public: pd.DataFrame | None,
    facts: dict[str, Any],
    scaled: bool,
    charges: tuple[Charge, ...] = (),
    visit: Visit | None = None,
    noise: float | None = None,
    private: bool = True,
    holdout: float = 0.0,
) -> WeightColumn:
    """Post-process and diagnose; none of it sees private rows."""
    raw = np.asarray(found.values, dtype=np.float64)
    values = raw
    if processing.calibrate != "none" and public is not None:
        if found.score is None:
            raise PluginError(f"method '{facts['method']}' must hand back a score")
        values = calibrate(raw, found.score(public), raw, processing.calibrate)
    weights = processing.apply(values, scaled=scaled)
    power = processing.power(values, scaled=scaled)
    measured = diagnose(weights, power * values, target.frame, target.schema)
    notes = dict(found.notes)
    smooth, clip = processing.smooth != "none", processing.clip is not None
    if scaled and (processing.normalises(scaled) or power != 1 or smooth or clip):
        notes["unbiased"] = "no: normalised, tempered, smoothed or clipped weights are not unbiased"
    facts = {
        **facts,
        "scaled": scaled,
        "processing": {**processing.to_json(), "temper": power},
        "diagnostics": measured,
        "notes": notes,
    }
    return WeightColumn(
        name=name,
        weights=weights,
        log_weights=raw,
        facts=plain(facts),
        charges=charges,
        payments=visit.payments if visit else (),
        samplers=visit.samplers if visit else (),
        libraries=visit.libraries if visit else {},
        warnings=[*found.warnings, *cautions(measured, name, noise)],
        private=private,
        diagnostics=dict(found.diagnostics),
        bought=_bought(found, charges, visit, holdout, target.release),
        reused=found.reused,
    )


def _bought(
    found: LogWeights,
    charges: tuple[Charge, ...],
    visit: Visit | None,
    holdout: float,
    release: Release | None,
) -> Bought | None:
    """The answers that serve again, with all that a statement says of them.

    Which answers they are may follow from what the release cost: then they cost that as well.
    """
    if visit is None or not found.measurements:
        return None
    paid = None if found.fixed or release is None else release.statement
    return Bought(
        measurements=found.measurements,
        charges=(*(paid.charges if paid else ()), *charges),
        payments=[*(paid.payments if paid else ()), *visit.payments],
        samplers=[*(paid.samplers if paid else ()), *visit.samplers],
        libraries={**(paid.libraries if paid else {}), **visit.libraries},
        neighbours=visit.neighbours,
        holdout=holdout,
    )


def reprocess(
    release: Release, column: str, *, name: str, processing: Processing, force: bool = False
) -> WeightColumn:
    """Post-process the raw log-weights of a column again, as another column; costs nothing.

    Example:
        >>> from marginalsyn.access.private_table import PrivateTable
        >>> from marginalsyn.release.folder import Release
        >>> from marginalsyn.contract import make_weights
        >>> from marginalsyn.host import weigh
        >>> from marginalsyn.weights.columns import publish
        >>> release, noise = Release.read("release"), make_noise()
        >>> table, budget = PrivateTable.open(frame, schema), Budget(eps=1)
        >>> weighted = weigh(release, make_weights("beta-noised"), budget, table, noise=noise)
        >>> release = publish(release, weighted, noise=noise)
        >>> half = Processing(temper=0.5)
        >>> tempered = reprocess(release, "beta-noised", name="half", processing=half)
        >>> tempered.name
        'half'
    """
    raw = release.log_weights()
    if raw is None or column not in raw:
        listed = "none" if raw is None else ", ".join(raw.columns)
        raise UsageError(f"column ({column}) must be one of the release's weights: {listed}")
    check_column(release, name, force)
    preflight(release.path, force=True)
    earlier = dict(columns_of(release).get(column, {}))
    if processing.calibrate != "none":
        raise UsageError(
            "calibrate cannot be used on weights that exist: it needs more than raw log-weights. "
            "Run weight again with --calibrate"
        )
    found = LogWeights(values=raw[column].to_numpy(), notes=earlier.get("notes", {}))
    facts = {
        "method": earlier.get("method", column),
        "parameters": earlier.get("parameters", {}),
        "cost": [],
        "from": column,
        "expected_noise": earlier.get("expected_noise"),
        "kept_share": earlier.get("kept_share"),
    }
    return finish_column(
        found,
        target=Target.of(release),
        name=name,
        processing=processing,
        public=None,
        facts=facts,
        scaled=bool(earlier.get("scaled", False)),
        noise=earlier.get("expected_noise"),
    )

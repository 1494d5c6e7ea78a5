"""Weight columns of a release: names, budget, files, and the answers that they were bought with.

A release whose weights were fitted to answers has ``COLUMN.answers.json`` and
``COLUMN.answers.npz``, so that they serve again for nothing. Whoever weights another release with
them publishes what they cost in its statement, once; the source's ledger has it already.

From raw log-weights to a column there is post-processing and diagnostics, all of it free.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from pydantic import TypeAdapter

from marginalsyn.access.visit import Visit
from marginalsyn.contract import LogWeights, Measurement, Target, plain
from marginalsyn.errors import PluginError, ReleaseError, UsageError
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Charge, Neighbours
from marginalsyn.privacy.gdp import mu_of
from marginalsyn.privacy.noise import Noise, Sampler
from marginalsyn.release.folder import LOG_WEIGHT, WEIGHT, WEIGHTS, Release, preflight, weights_file
from marginalsyn.release.staging import (
    as_written,
    dump_arrays,
    measurement_problems,
    pack,
    unpack_measurements,
)
from marginalsyn.weights.effectiveness import cautions, diagnose
from marginalsyn.weights.processing import Processing, calibrate

BEFORE = "total_before_weights"
# Digests of the answers whose cost the statement counts.
COUNTED = "answers"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
ANSWERS = ".answers"


@dataclass(frozen=True, kw_only=True)
class Bought:
    """Noisy marginals with what they cost; everything in it may be published.

    Attributes:
        measurements: the answers; one over no columns is the number of rows, where it is public.
        charges, payments, samplers, libraries: what a statement says of them.
        neighbours: the relation that the charges are about.
        holdout: the share of the rows that they are not about.
    """

    measurements: Sequence[Measurement]
    charges: tuple[Charge, ...] = ()
    payments: Sequence[Mapping[str, Any]] = ()
    samplers: Sequence[Sampler] = ()
    libraries: Mapping[str, str] = field(default_factory=dict)
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    holdout: float = 0.0

    @property
    def digest(self) -> str:
        """By which the same answers are known again."""
        found = hashlib.sha256()
        for one in self.measurements:
            head = [*one.columns, repr(np.shape(one.values)), repr(one.sigma)]
            found.update(json.dumps(head).encode())
            found.update(np.asarray(one.values, dtype=np.float64).tobytes())
        return found.hexdigest()

    def files(self, column: str) -> dict[str, bytes]:
        """The pair of files that keeps them next to a column of weights."""
        index, arrays = pack(self.measurements)
        facts = {
            "measurements": index,
            "charges": [charge.model_dump(mode="json") for charge in self.charges],
            "payments": list(self.payments),
            "samplers": [sampler.model_dump(mode="json") for sampler in self.samplers],
            "libraries": dict(self.libraries),
            "neighbours": str(self.neighbours),
            "holdout": self.holdout,
        }
        text = json.dumps(plain(facts), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        handle = io.BytesIO()
        dump_arrays(handle, arrays)
        stem = column + ANSWERS
        return {f"{stem}.json": text.encode(), f"{stem}.npz": handle.getvalue()}


@dataclass(frozen=True, kw_only=True)
class WeightColumn:
    """A column of weights, what it cost and the facts about it.

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
    """A share, in mu^2, of a total given at the start: the ledger's cap, else the release's own.

    Args:
        release: what the weights are for.
        share: above 0 and at most 1 (of a cap) or 10 (of what the release spent).
        cap: the ledger's (eps, delta), if there is one.

    Example:
        >>> from marginalsyn.release.folder import Release
        >>> release = Release.read("release")
        >>> round((share_of(release, 0.1).mu / release.statement.mu) ** 2, 6)
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
    return Budget.of_mu(
        math.sqrt(share) * mu_of(eps, delta), statement.target_delta or delta, statement.neighbours
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
            f"log-weights again with --reuse {name} (free), or add --force to spend again"
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
    # The order is that of writing: the last one is recommended.
    listed = {name: facts for name, facts in columns_of(fresh).items() if name != weighted.name}
    tables = {WEIGHTS: weights_csv({WEIGHT: weighted.weights})}
    own = {weighted.name: (weighted.weights, weighted.log_weights)}
    before, raw = fresh.weights(), fresh.log_weights()
    if before is not None and raw is not None:
        # An earlier version wrote them, all into one file.
        own |= {n: (before[n].to_numpy(), raw[n].to_numpy()) for n in raw if n in listed}
    for name, (weights, logs) in own.items():
        tables[weights_file(name)] = weights_csv({WEIGHT: weights, LOG_WEIGHT: logs})
    kept = weighted.bought.files(weighted.name) if weighted.bought is not None else {}
    # What was paid for another release is in this one's statement too, but once.
    counted = {one for facts in columns_of(fresh).values() for one in facts.get(COUNTED, ())}
    others = [one for one in weighted.reused if one.digest not in counted]
    used = [weighted.bought] if weighted.bought is not None else weighted.reused
    facts = {**weighted.facts, **({COUNTED: [one.digest for one in used]} if used else {})}
    return fresh.amend(
        {**tables, **kept, **(files or {})},
        charges=[*weighted.charges, *(c for one in others for c in one.charges)],
        payments=[*weighted.payments, *(p for one in others for p in one.payments)],
        samplers=[*weighted.samplers, *(line for one in others for line in one.samplers)],
        libraries={
            **{name: what for one in others for name, what in one.libraries.items()},
            **weighted.libraries,
        },
        warnings=weighted.warnings,
        notes={"weights": {**listed, weighted.name: facts}, BEFORE: list(_before(fresh))},
        noise=noise,
    )


def weights_csv(columns: dict[str, np.ndarray]) -> bytes:
    """The columns as CSV whose numbers read back exactly."""
    handle = io.BytesIO()
    pd.DataFrame(columns).to_csv(handle, index=False, lineterminator="\n", encoding="utf-8")
    return handle.getvalue()


def columns_of(release: Release) -> dict[str, Any]:
    """What the statement says of each column of weights."""
    notes = release.statement.notes.get("weights", {})
    columns = notes if isinstance(notes, dict) else {}
    return {str(name): facts for name, facts in columns.items() if isinstance(facts, dict)}


def _before(release: Release) -> tuple[float, float]:
    """What the release had spent before its first weights, so that shares do not grow."""
    statement = release.statement
    spent = statement.notes.get(BEFORE)
    if isinstance(spent, list) and len(spent) == 2 and all(type(n) in (int, float) for n in spent):
        return float(spent[0]), float(spent[1])
    return statement.eps, statement.target_delta


def read_bought(release: Release) -> list[Bought]:
    """All answers that a release's weights were bought with, each once."""
    stems = [
        name.removesuffix(".json")
        for name in release.statement.files
        if name.endswith(f"{ANSWERS}.json")
    ]
    found = {one.digest: one for one in (_read(release, stem) for stem in stems)}
    if not found:
        raise UsageError(
            f"release ({release.path}) must hold answers that weights were bought with: weight it "
            "with --method rake first"
        )
    return list(found.values())


def check_bought(bought: Bought, release: Release) -> None:
    """Refuse answers about other rows or another relation than the release's."""
    statement = release.statement
    if bought.neighbours is not statement.neighbours:
        raise UsageError(
            f"answers (bought under {bought.neighbours}) must be under the release's relation, "
            f"{statement.neighbours}"
        )
    if bought.holdout != statement.holdout and not statement.foreign:
        raise UsageError(
            f"answers (with {bought.holdout:g} of the rows held out) must be about the rows that "
            f"the release is about ({statement.holdout:g} held out)"
        )
    problems = measurement_problems(bought.measurements, release.schema)
    domain = release.schema.domain
    for one in bought.measurements:
        if np.shape(one.values) != tuple(domain.get(name, 0) for name in one.columns):
            problems.append(f"answers over ({', '.join(one.columns)}) must have its codes")
        if not np.isfinite(one.values).all() or not np.isfinite(one.sigma).all():
            problems.append(f"answers over ({', '.join(one.columns)}) must be finite")
        if one.columns and not np.all(np.asarray(one.sigma) > 0):
            problems.append(f"answers over ({', '.join(one.columns)}) must have noise")
    if problems:
        raise ReleaseError(f"answers must fit the schema of the release: {problems[0]}")


def _read(release: Release, stem: str) -> Bought:
    index, arrays = release.attached(stem)
    with as_written(f"{stem}.json"):
        return Bought(
            measurements=unpack_measurements(index["measurements"], arrays),
            charges=TypeAdapter(tuple[Charge, ...]).validate_python(index["charges"]),
            payments=[dict(payment) for payment in index["payments"]],
            samplers=TypeAdapter(list[Sampler]).validate_python(index["samplers"]),
            libraries={str(key): str(value) for key, value in index["libraries"].items()},
            neighbours=Neighbours(index["neighbours"]),
            holdout=float(index["holdout"]),
        )


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

"""Marginals that weights were bought with: kept beside them, so that they serve again for nothing.

A release whose weights were fitted to answers holds ``COLUMN.answers.json`` and
``COLUMN.answers.npz``. Whoever weights another release with them publishes what they cost in its
statement, once; the source's ledger has it already.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from marginalsyn.contract import Measurement, plain
from marginalsyn.errors import ReleaseError, UsageError
from marginalsyn.privacy.charges import Charge, Neighbours
from marginalsyn.privacy.laws import Sampler
from marginalsyn.release.arrays import (
    dump_arrays,
    measurement_problems,
    pack,
    unpack_measurements,
)
from marginalsyn.release.folder import Release

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
        """The pair of files that keeps them beside a column of weights."""
        index, arrays = pack(self.measurements)
        told = {
            "measurements": index,
            "charges": [charge.model_dump(mode="json") for charge in self.charges],
            "payments": list(self.payments),
            "samplers": [sampler.model_dump(mode="json") for sampler in self.samplers],
            "libraries": dict(self.libraries),
            "neighbours": str(self.neighbours),
            "holdout": self.holdout,
        }
        text = json.dumps(plain(told), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        handle = io.BytesIO()
        dump_arrays(handle, arrays)
        stem = column + ANSWERS
        return {f"{stem}.json": text.encode(), f"{stem}.npz": handle.getvalue()}


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
    try:
        return Bought(
            measurements=unpack_measurements(index["measurements"], arrays),
            charges=TypeAdapter(tuple[Charge, ...]).validate_python(index["charges"]),
            payments=[dict(payment) for payment in index["payments"]],
            samplers=TypeAdapter(list[Sampler]).validate_python(index["samplers"]),
            libraries={str(key): str(value) for key, value in index["libraries"].items()},
            neighbours=Neighbours(index["neighbours"]),
            holdout=float(index["holdout"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, ValidationError) as error:
        where = release.path / f"{stem}.json"
        raise ReleaseError(f"file ({where}) must describe answers: {error}") from None

"""What a release's answers tell of a quantity, whether they are marginals or a noisy potential."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from marginalsyn.answers import fields, means
from marginalsyn.answers.atoms import Atoms
from marginalsyn.answers.evidence import Each, Evidence
from marginalsyn.answers.fields import FieldEvidence, FieldLine
from marginalsyn.answers.means import Linear, weigh
from marginalsyn.answers.projection import project
from marginalsyn.errors import UsageError

if TYPE_CHECKING:
    from marginalsyn.release.folder import Release

AnyEvidence = Evidence | FieldEvidence
Line = Linear | FieldLine


def read(release: Release, each: Each, rng: np.random.Generator) -> AnyEvidence:
    """What a release tells.

    Raises:
        UsageError: it holds no noisy answer whose error is known.
    """
    if release.statement.generator == fields.METHOD:
        unit = release.statement.persons
        if unit is not None and unit.max_rows > 1 and each == "row":
            raise UsageError(
                f"each (row) must be person (--each person): the potential that {fields.METHOD} "
                "released counts each person once, and does not tell how many rows they have"
            )
        return FieldEvidence.of(release, rng)
    return Evidence.of(release, each)


def atoms_of(evidence: AnyEvidence, columns: Sequence[str], rng: np.random.Generator) -> Atoms:
    """Combinations of codes of some columns, or rows."""
    if isinstance(evidence, FieldEvidence):
        return evidence.atoms(columns)
    return Atoms.of(evidence, columns, rng)


def weights_of(evidence: AnyEvidence, atoms: Atoms) -> np.ndarray:
    """The share of every combination, or row."""
    if isinstance(evidence, FieldEvidence):
        return evidence.weights
    return atoms.weights(evidence)


def tell(
    evidence: AnyEvidence, atoms: Atoms, weights: np.ndarray, influence: np.ndarray
) -> tuple[Sequence[Line], np.ndarray]:
    """Estimates of the told part of every column of ``influence``, and that part at every atom."""
    if isinstance(evidence, FieldEvidence):
        return fields.tell(evidence, atoms.columns, influence)
    functions, projected = project(evidence, atoms, weights, influence)
    return [weigh(evidence, function) for function in functions], projected


def joint_noise(evidence: AnyEvidence, lines: Sequence[Line], about: np.ndarray) -> np.ndarray:
    """The covariance that privacy noise gives several estimates; see :mod:`means`."""
    if isinstance(evidence, FieldEvidence):
        return fields.joint_noise(evidence, lines, about)  # type: ignore[arg-type]
    return means.joint_noise(evidence, lines, about)  # type: ignore[arg-type]

"""Given the stream that a release shows, how far does one row move what the noise must hide?

A noise with fixed answers runs `pategan` and `dpgan` on a table and on the same table without its
first row, and looks at the private numbers that were to be noised. Where a stream says by position
which teacher owns a row and where in its bin a value lies, all rows after the first change theirs.
And two runs that share nothing but the stream for post-processing, of which `pategan` publishes 128
consecutive draws as ``student.0.bias``, must not give rows to the same teachers.

    python -m benchmarks.attacks.streams
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.host import generate
from marginalsyn.plugins.audit.testkit.generators import example_frame, example_schema
from marginalsyn.plugins.audit.testkit.tape import Tape
from marginalsyn.plugins.networks.dpgan import DPGANConfig
from marginalsyn.plugins.networks.pategan import PATEGANConfig
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.noise import SecureNoise
from marginalsyn.records.ledger import Ledger

ROWS = 400
PATE = PATEGANConfig(
    queries=120, rounds=2, teachers=200, features=16, generator_hidden=(2,), latent=1, moves=1
)
GAN = DPGANConfig(
    steps=3, rate=1.0, hidden=(16,), generator_hidden=(2,), latent=1, clip_norm=0.01, anchor=0.0
)


class Shared(Tape):
    """Fixed answers and a known stream for post-processing; all else from the system."""

    def key(self) -> Any:
        return SecureNoise().key()

    def secret(self) -> Any:
        return SecureNoise().secret()


def asked(config: Any, frame: Any, tape: Tape, law: str) -> list[np.ndarray]:
    """The private numbers of a run that were to get noise of a law."""
    table = PrivateTable.open(frame, example_schema(), ledger=Ledger(None))
    generate(table, config, Budget(eps=2), noise=tape)
    return [question.values for question in tape.questions if question.law.question == law]


def moved(config: Any, law: str, skip: int) -> list[float]:
    """How far the first row moves each vector of numbers, in Euclidean norm."""
    frame = example_frame(ROWS)
    tables = [asked(config, part, Tape(), law)[skip:] for part in (frame, frame.iloc[1:])]
    return [float(np.linalg.norm(a - b)) for a, b in zip(*tables, strict=True)]


def figures() -> dict[str, float]:
    """What is measured: each is at most 1 where the promise holds."""
    columns = len(example_schema().names)
    votes = max(moved(PATE, "rounded", columns)) / np.sqrt(PATE.queries / PATE.rounds)
    # Sums are whole multiples of the clipping norm's 2^-20; rounding may add half a one to each.
    sums = max(moved(GAN, "rounded", 0)) / (2.0**20 + 2 * 500)
    runs = [asked(PATE, example_frame(ROWS), Shared(), "rounded")[columns] for _ in range(2)]
    return {
        "votes moved by one row less, times the claim": votes,
        "clipped sum moved by one row less, times the claim": sums,
        "votes told by the stream that is published (2: yes)": 2.0 * np.array_equal(*runs),
    }


def attack() -> str | None:
    """What was found against the promise."""
    found = [f"{what}: {value:.3g}" for what, value in figures().items() if value > 1]
    return "; ".join(found) or None


def main() -> int:
    found = figures()
    for what, value in found.items():
        print(f"{what}: {value:.3g}")
    return int(max(found.values()) > 1)


if __name__ == "__main__":
    sys.exit(main())

"""The Markov chains' kernels, one file each, in blackjax's shape.

A kernel's file has its state, ``init`` and ``step``, and a builder binds them to a law for
:mod:`marginalsyn.points.driver`. ``step(rng, state, law, ...)`` is pure: it leaves the state that
it is given as it was. The loop behind it is compiled and runs many steps at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from marginalsyn.points.kernels.kernel import Kernel

if TYPE_CHECKING:
    from marginalsyn.points.law import Law

KernelName = Literal["random-walk", "mala"]


def build_walk(law: Law, points: int, name: KernelName = "random-walk") -> Kernel[Any]:
    """The named kernel for sets of ``points`` points under a law on rows."""
    from marginalsyn.points.kernels import mala, random_walk

    walk: Any = mala if name == "mala" else random_walk
    return Kernel(
        law,
        start=lambda rng: walk.init(law.space.uniform(points, rng), law),
        step=lambda rng, state, steps, beta, size: walk.step(
            rng, state, law._replace(coefficient=beta), steps, size=size
        ),
        mean=lambda state: state.points.mean(axis=0),
    )

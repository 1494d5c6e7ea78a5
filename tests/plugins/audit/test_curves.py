"""Measured trade-off curves reach the claimed ones, and a scale that is too small passes them."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from marginalsyn import Neighbours
from marginalsyn.plugins.audit.canaries import cases_of
from marginalsyn.plugins.audit.worst import worst_of
from marginalsyn.privacy.noise import SeededNoise
from marginalsyn.registry import GENERATORS


def load() -> ModuleType:
    """The benchmark's module."""
    place = Path(__file__).parents[3] / "benchmarks" / "curves.py"
    spec = importlib.util.spec_from_file_location("curves", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["curves"] = module
    spec.loader.exec_module(module)
    return module


CURVES = load()


def curve_of(method: str, relation: Neighbours, draws: int, factor: float = 1.0) -> Any:
    (case, *_) = cases_of(GENERATORS, method, eps=4.0, neighbours=[relation])
    worst = worst_of(case)
    if factor != 1:
        asked = [
            tuple(replace(one, law=type(one.law)(one.law.sigma * factor)) for one in pair)
            for pair in worst.asked
        ]
        worst = replace(worst, asked=asked)
    return CURVES.draw_curve(worst, SeededNoise(3), draws, alpha=1e-6)


@pytest.mark.parametrize("relation", Neighbours)
def test_counts_are_told_apart_as_often_as_is_claimed(relation) -> None:
    found = curve_of("independent", relation, 100_000)
    assert found.measured == pytest.approx(1, abs=0.04)
    assert 0.9 < found.bound <= 1
    assert found.rho <= 1


def test_half_the_noise_is_caught_by_the_curve() -> None:
    found = curve_of("independent", Neighbours.ADD_REMOVE, 20_000, factor=0.5)
    assert found.measured == pytest.approx(2, abs=0.1)
    assert found.bound > 1.5
    assert found.rho > 1


def test_selections_enter_the_claimed_curve() -> None:
    found = curve_of("mst", Neighbours.ADD_REMOVE, 4_000)
    assert 0.8 < found.measured < 1.15
    assert found.bound <= 1


def test_the_claimed_curve_of_counts_is_a_gaussians() -> None:
    (case, *_) = cases_of(GENERATORS, "independent", eps=4.0, neighbours=[Neighbours.REPLACE])
    worst = worst_of(case)
    claim = CURVES.Claimed.of(worst)
    for seldom in (0.1, 0.5, 0.9):
        assert claim.mu(seldom) == pytest.approx(np.sqrt(2 * worst.charged), rel=1e-4)

"""What a plan predicts, beside what runs of ``benchmarks/wide_table.py`` took."""

from __future__ import annotations

import pytest

from marginalsyn import datasets
from marginalsyn.generators.forecast import forecast

# Columns, whether by batches, processor seconds and MB; of 50,000 rows (results/wide.md).
RUNS = ((200, True, 34.3, 661), (200, False, 13.3, 535))
RUNS += ((500, True, 69.1, 1015), (500, False, 63.4, 841))


@pytest.mark.parametrize(("columns", "batches", "seconds", "memory"), RUNS)
def test_a_forecast_is_within_a_factor_of_two(
    columns: int, batches: bool, seconds: float, memory: float
) -> None:
    sizes = datasets.load("adult").schema.domain
    own = [size for name, size in sizes.items() if name != "fnlwgt"]
    survey = {f"c{j}": own[j % len(own)] for j in range(columns)}
    told = forecast(survey, 50_000, batches=batches)
    for found, name in ((seconds, "predicted seconds"), (memory, "predicted MB")):
        assert 0.5 <= told[name] / found <= 2.0

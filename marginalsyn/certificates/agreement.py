"""Whether two sets of published numbers agree, up to what machines round differently."""

from __future__ import annotations

import math
from typing import Any


def agree(one: Any, two: Any) -> bool:
    """Equality up to the rounding that differs between machines."""
    if isinstance(one, dict) and isinstance(two, dict):
        return set(one) == set(two) and all(agree(one[key], two[key]) for key in one)
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(agree, one, two))
    numbers = isinstance(one, int | float) and isinstance(two, int | float)
    if numbers and not isinstance(one, bool) and not isinstance(two, bool):
        return math.isclose(one, two, rel_tol=1e-6, abs_tol=1e-9)
    return bool(one == two)

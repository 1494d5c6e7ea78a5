"""Defaults that the commands and the Python functions share; importing them is light."""

from __future__ import annotations

from typing import Final

# Of a release and what is done with it.
RELEASE: Final = "release"
EVALUATION: Final = "evaluation"
STEERED: Final = "steered"
FORMAT: Final = "csv"
DELTA: Final = 1e-9

# How a password reaches a PostgreSQL server that is not to be typed again.
PASSWORD: Final = "set PGPASSWORD, or keep it in ~/.pgpass"

# What a salt begins with that picks rows by content and number among equals. Earlier versions
# chose by content alone: their releases have salts without it, and other rows held out.
SPLIT_RULE: Final = "numbered-"

# Of weights.
WEIGHTS: Final = "auto"
SHARE: Final = 0.1
SMOOTH: Final = "none"
CALIBRATE: Final = "none"

# Of steering.
STEER: Final = "rows"

# Of an evaluation.
DEGREE: Final = 3
REPEATS: Final = 5
DRAWS: Final = 1000
SHADOW: Final = 0
SEED: Final = 0

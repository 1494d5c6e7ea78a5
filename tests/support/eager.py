"""TensorFlow without graphs: compiling a network takes a second, a few steps of it take none."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest


@contextlib.contextmanager
def eagerly() -> Iterator[None]:
    """Functions of TensorFlow run line by line; what they compute is the same."""
    tf = pytest.importorskip("tensorflow")
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(False)

"""Dense layers in plain numpy: what a release stores of a network, and all that sampling needs.

Training runs on TensorFlow; a trained network is a list of kernels and biases, and passing rows
through it takes nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from marginalsyn.errors import ReleaseError, UsageError

Layers = Sequence[tuple[np.ndarray, np.ndarray]]
"""A kernel and a bias for every layer; tanh between them, nothing after the last."""

_CHUNK = 8192
MOST_LAYERS, MOST_UNITS = 8, 1024


def forward(layers: Layers, x: np.ndarray) -> np.ndarray:
    """Pass rows through the layers, some thousands at a time; return the last layer's outputs."""
    parts = []
    for start in range(0, max(len(x), 1), _CHUNK):
        values = x[start : start + _CHUNK]
        for kernel, bias in layers[:-1]:
            values = np.tanh(values @ kernel + bias)
        kernel, bias = layers[-1]
        parts.append(values @ kernel + bias)
    return np.concatenate(parts)


def shapes_of(widths: Sequence[int]) -> list[tuple[int, ...]]:
    """Kernel and bias shapes of dense layers between the given widths."""
    found = []
    for width, units in pairwise(widths):
        found += [(width, units), (units,)]
    return found


def first_parameters(
    shapes: Sequence[tuple[int, ...]], rng: np.random.Generator, bias: float = 0.0
) -> np.ndarray:
    """Draw kernels as Glorot does, biases within ``bias`` of zero; the last layer starts at zero.

    With zero biases tanh layers are odd functions, which cannot see products of centred inputs.
    """
    parts = []
    for shape in shapes[:-2]:
        bound = math.sqrt(6.0 / max(sum(shape), 1)) if len(shape) == 2 else bias
        parts.append(rng.uniform(-bound, bound, math.prod(shape)) if bound else np.zeros(shape))
    return np.concatenate([*parts, *(np.zeros(math.prod(shape)) for shape in shapes[-2:])])


def split(parameters: np.ndarray, shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """Cut one flat vector into arrays of the given shapes."""
    ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
    parts = np.split(parameters, ends)
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def layers_of(parameters: np.ndarray, shapes: Sequence[tuple[int, ...]]) -> Layers:
    """Cut one flat vector into layers."""
    arrays = split(parameters, shapes)
    return list(zip(arrays[::2], arrays[1::2], strict=True))


def pack_layers(name: str, layers: Layers) -> dict[str, np.ndarray]:
    """Layers as named arrays of a release's model."""
    found = {}
    for number, (kernel, bias) in enumerate(layers):
        found[f"{name}.{number}.kernel"] = np.asarray(kernel)
        found[f"{name}.{number}.bias"] = np.asarray(bias)
    return found


def unpack_layers(name: str, arrays: Mapping[str, np.ndarray], inputs: int, outputs: int) -> Layers:
    """Undo :func:`pack_layers`; the arrays may come from an untrusted file."""
    layers: list[tuple[np.ndarray, np.ndarray]] = []
    width = inputs
    while f"{name}.{len(layers)}.kernel" in arrays:
        kernel = arrays[f"{name}.{len(layers)}.kernel"]
        bias = arrays.get(f"{name}.{len(layers)}.bias")
        units = kernel.shape[1] if kernel.ndim == 2 else -1
        if bias is None or not (is_numbers(kernel, (width, units)) and is_numbers(bias, (units,))):
            break
        layers.append((kernel, bias))
        width = units
    else:
        if layers and width == outputs:
            return layers
    raise ReleaseError(
        f"model ({name}) must hold finite kernels and biases from {inputs} inputs to "
        f"{outputs} outputs"
    )


def check_layers(name: str, units: Any) -> None:
    """Refuse no hidden layers, too many of them, or sizes out of range."""
    sound = isinstance(units, list | tuple) and 1 <= len(units) <= MOST_LAYERS
    whole = sound and all(isinstance(u, int | np.integer) and u is not True for u in units)
    if not whole or not all(1 <= u <= MOST_UNITS for u in units):
        raise UsageError(
            f"{name} ({units}) must be 1 to {MOST_LAYERS} layers of 1 to {MOST_UNITS} units each"
        )


def check_number(name: str, value: Any, least: float, most: float, *, whole: bool = False) -> None:
    """Refuse anything but a number within the bounds; NaN is refused."""
    kinds = (int,) if whole else (int, float)
    number = isinstance(value, (*kinds, np.integer, np.floating)) and not isinstance(value, bool)
    if not number or not least <= value <= most or (whole and value != int(value)):
        what = "be a whole number that lies" if whole else "lie"
        raise UsageError(f"{name} ({value}) must {what} between {least:g} and {most:g}")


def is_numbers(values: object, shape: tuple[int, ...]) -> bool:
    """Whether an array, perhaps from an untrusted file, holds finite floats of a shape."""
    if not isinstance(values, np.ndarray) or values.dtype.kind != "f" or values.shape != shape:
        return False
    return bool(np.isfinite(values).all())


class Adam:
    """Adam (Kingma and Ba 2015), for gradients that are noisy or public."""

    def __init__(self, size: int, rate: float) -> None:
        self.rate, self.count = rate, 0
        self.first, self.second = np.zeros(size), np.zeros(size)

    def move(self, gradient: np.ndarray) -> np.ndarray:
        """The step to take against a gradient."""
        self.count += 1
        self.first = 0.9 * self.first + 0.1 * gradient
        self.second = 0.99 * self.second + 0.01 * gradient**2
        first = self.first / (1 - 0.9**self.count)
        second = self.second / (1 - 0.99**self.count)
        return self.rate * first / (np.sqrt(second) + 1e-12)

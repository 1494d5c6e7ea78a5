"""MNIST from its four files, whole or as pictures of 7 x 7 points."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from marginalsyn.datasets import Dataset
from marginalsyn.table.columns import CategoricalColumn
from marginalsyn.table.numeric import ContinuousColumn
from marginalsyn.table.schema import Schema

FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
SIDE = 28
# Pictures of the small stand-in's parts: to train on, to test on.
FEW = (6000, 1000)


def load(name: str, folder: Path, *, side: int) -> Dataset:
    """The pictures with the published split; fewer of them where they are made smaller."""
    parts = []
    for images, labels, few in ((*FILES[:2], FEW[0]), (*FILES[2:], FEW[1])):
        pictures = read(folder / images)
        digits = read(folder / labels)
        if side != SIDE:
            step = SIDE // side
            squares = pictures[:few].reshape(-1, side, step, side, step)
            pictures, digits = squares.mean(axis=(2, 4)), digits[:few]
        names = [f"p{row}_{column}" for row in range(side) for column in range(side)]
        values = pictures.reshape(len(pictures), -1).astype(float)
        frame = pd.DataFrame(values, columns=names)
        parts.append(frame.assign(digit=digits.astype(str)))
    bins = 2 if side == SIDE else 4
    numbers = [ContinuousColumn(name=one, lower=0, upper=255, bins=bins) for one in names]
    digit = CategoricalColumn(name="digit", categories=tuple("0123456789"), other=False)
    schema = Schema(columns=(*numbers, digit), label="digit")
    said = f"MNIST, {side} x {side}"
    return Dataset(name=name, train=parts[0], test=parts[1], schema=schema, description=said)


def read(path: Path) -> np.ndarray:
    """The numbers of an IDX file of bytes, in its own shape.

    The fourth byte says how many axes there are; each has its length in four bytes.
    """
    content = path.read_bytes()
    if content[:3] != b"\x00\x00\x08":
        raise SystemExit(f"--data ({path}) must be an unpacked IDX file of bytes")
    axes = content[3]
    shape = tuple(np.frombuffer(content, ">u4", axes, 4).astype(int).tolist())
    start = 4 + 4 * axes
    if len(content) != start + int(np.prod(shape)):
        raise SystemExit(f"--data ({path}) must hold as many bytes as its head says: cut short?")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)

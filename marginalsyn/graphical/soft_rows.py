"""Fitting a table of soft rows to noisy marginals, for workloads too dense for a graphical model.

Each of K rows holds one distribution per column (a softmax); the table's marginal over some columns
is N/K times the sum over rows of the products. Adam minimises the squared error to the noisy
marginals, weighted by their precision (the relaxation of Aydore et al. 2021, in plain numpy).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from marginalsyn.contract import Measurement
from marginalsyn.progress import Progress

_STEP, _BETA1, _BETA2 = 0.1, 0.9, 0.999
_BATCH_CELLS = 1_000_000


@dataclass(frozen=True)
class SoftTable:
    """K rows of one distribution per column, each row standing for ``total / K`` real ones."""

    probabilities: Mapping[str, np.ndarray]
    total: float

    def marginal(self, columns: Sequence[str]) -> np.ndarray:
        """The table's counts over ``columns``."""
        parts = [self.probabilities[c] for c in columns]
        return self.total / len(parts[0]) * _joint(parts)

    def marginals(self, queries: Iterable[Sequence[str]]) -> dict[tuple[str, ...], np.ndarray]:
        """The table's counts over several sets of columns."""
        return {tuple(columns): self.marginal(columns) for columns in queries}

    def rows(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw ``n`` rows of codes: from every soft row equally often, up to one."""
        k = len(next(iter(self.probabilities.values())))
        source = np.concatenate([np.repeat(np.arange(k), n // k), rng.permutation(k)[: n % k]])
        return self._draw(rng.permutation(source), rng)

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """As :meth:`rows`, but every row on its own: a sample, with a sample's variation."""
        k = len(next(iter(self.probabilities.values())))
        return self._draw(rng.integers(0, k, n), rng)

    def _draw(self, source: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A row of codes from each of these soft rows."""
        n = len(source)
        columns = []
        for probabilities in self.probabilities.values():
            cumulative = np.cumsum(probabilities, axis=1)[source]
            draw = rng.random((n, 1)) * cumulative[:, -1:]
            columns.append((cumulative > draw).argmax(axis=1))
        return np.stack(columns, axis=1).astype(np.int32)


def fit_rows(
    domain: Mapping[str, int],
    measurements: Sequence[Measurement],
    *,
    total: float,
    rng: np.random.Generator,
    soft_rows: int = 1000,
    steps: int = 1000,
    progress: Progress | None = None,
) -> SoftTable:
    """Fit ``soft_rows`` rows to the measurements by ``steps`` steps of Adam.

    Where the marginals have too many cells to visit all at every step, each step takes a random
    batch of them.

    Args:
        domain: Sizes of the columns.
        measurements: Noisy marginals with the deviation of their noise.
        total: The number of rows that the table stands for.
        rng: Draws the start and the batches.
    """
    from scipy.special import softmax

    logits = {c: rng.normal(0, 0.5, (soft_rows, size)) for c, size in domain.items()}
    # Every column begins near its noisy one-way shares.
    for m in measurements:
        if len(m.columns) == 1:
            counts = np.maximum(np.asarray(m.values, float), 0) + 1.0
            logits[m.columns[0]] += np.log(counts / counts.sum())
    targets = [(m, np.asarray(m.values, float) / total, _weight(m, total)) for m in measurements]
    scale = sum(w for _, _, w in targets)
    moments = {c: (np.zeros_like(x), np.zeros_like(x)) for c, x in logits.items()}
    batches = _batches([np.size(m.values) for m in measurements], rng)
    for t in range(1, steps + 1):
        soft = {c: softmax(x, axis=1) for c, x in logits.items()}
        gradient = {c: np.zeros_like(x) for c, x in soft.items()}
        for i in next(batches):
            m, target, weight = targets[i]
            parts = [soft[c] for c in m.columns]
            residual = (_joint(parts) / soft_rows - target) * (weight / scale)
            for c, g in zip(m.columns, _backward(parts, residual), strict=True):
                gradient[c] += g
        rate = _STEP * min(1.0, 2.0 * (1 - t / (steps + 1)))
        for c, x in logits.items():
            p, g = soft[c], gradient[c]
            g = p * (g - (g * p).sum(axis=1, keepdims=True))
            first, second = moments[c]
            first += (1 - _BETA1) * (g - first)
            second += (1 - _BETA2) * (g * g - second)
            ahead = np.sqrt(second / (1 - _BETA2**t)) + 1e-12
            x -= rate * (first / (1 - _BETA1**t)) / ahead
        if progress is not None and t % 50 == 0:
            progress.report("estimate", fraction=t / steps, text=f"step {t} of {steps}")
    return SoftTable({c: softmax(x, axis=1) for c, x in logits.items()}, float(total))


def _weight(m: Measurement, total: float) -> float:
    """The precision (one over the variance) of a measurement's shares."""
    return float((total / np.sqrt(np.mean(np.square(m.sigma)))) ** 2)


def _joint(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Sum over rows of the outer products of their distributions."""
    if len(parts) == 1:
        return parts[0].sum(axis=0)
    shape = tuple(p.shape[1] for p in parts)
    out = np.zeros((math.prod(shape[:-1]), shape[-1]))
    for block in _blocks(len(parts[0]), len(out)):
        out += _outer([p[block] for p in parts[:-1]]).T @ parts[-1][block]
    return out.reshape(shape)


def _backward(parts: Sequence[np.ndarray], residual: np.ndarray) -> list[np.ndarray]:
    """The gradient of <residual, joint> for each part."""
    if len(parts) == 1:
        return [np.broadcast_to(residual, parts[0].shape)]
    grads = [np.empty_like(p) for p in parts]
    for j, part in enumerate(parts):
        others = [p for i, p in enumerate(parts) if i != j]
        turned = np.moveaxis(residual, j, -1).reshape(-1, part.shape[1])
        for block in _blocks(len(part), len(turned)):
            grads[j][block] = _outer([p[block] for p in others]) @ turned
    return grads


def _blocks(rows: int, width: int) -> list[slice]:
    """Row blocks whose outer products stay small."""
    step = max(1, _BATCH_CELLS // max(width, 1))
    return [slice(i, i + step) for i in range(0, rows, step)]


def _outer(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Row-wise outer products, flattened."""
    out = parts[0]
    for p in parts[1:]:
        out = (out[:, :, None] * p[:, None, :]).reshape(len(out), -1)
    return out


def _batches(sizes: Sequence[int], rng: np.random.Generator) -> Iterator[list[int]]:
    """Yield the marginals of every step, each marginal as often as any other."""
    while True:
        batch: list[int] = []
        size = 0
        for i in rng.permutation(len(sizes)) if sum(sizes) > _BATCH_CELLS else range(len(sizes)):
            if batch and size + sizes[i] > _BATCH_CELLS:
                yield batch
                batch, size = [], 0
            batch.append(int(i))
            size += sizes[i]
        if batch:
            yield batch

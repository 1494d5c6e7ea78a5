"""Coefficients by Newton's method from noisy sums: what several steps say, shrunk by a prior."""

from __future__ import annotations

import math

import numpy as np

# Prior variances of a block's coefficients that are tried.
PRIORS = np.exp(np.linspace(math.log(1e-7), math.log(10.0), 24))


def secant(
    fallen: np.ndarray, moved: np.ndarray, image: np.ndarray, deviation: float
) -> np.ndarray:
    """What to add to the Hessian (the outer product) so that it explains the last step.

    Private rows may vary more along it than released ones do. The estimate is noisy: it is shrunk
    towards no change.
    """
    expected = float(moved @ image)
    if expected <= 0:
        return np.zeros_like(moved)
    ratio = float(fallen @ moved) / expected
    error = math.sqrt(2) * deviation * float(np.linalg.norm(moved)) / expected
    ratio = min(max((ratio - 1) / (1 + error**2), 0.0), 20.0)
    return math.sqrt(ratio / expected) * image


def pool(
    asked: list[np.ndarray], places: list[np.ndarray], hessian: np.ndarray, noise: float
) -> tuple[np.ndarray, float]:
    """What the steps say together of H times the best coefficients, and the variance of its noise.

    The last step's word has noise alone; an earlier one's may be off by what lies between, which
    shows where it is more than noise.
    """
    said = [slopes + hessian @ place for slopes, place in zip(asked, places, strict=True)]
    off = [max(0.0, float(np.mean((one - said[-1]) ** 2)) - 2 * noise) for one in said[:-1]]
    trust = np.array([1 / (noise + one) for one in (*off, 0.0)])
    return trust @ np.array(said) / trust.sum(), 1 / float(trust.sum())


def shrink(
    hessian: np.ndarray, said: np.ndarray, noise: float, variances: np.ndarray
) -> np.ndarray:
    """The coefficients' mean, given H u + noise and their prior variances."""
    spread = (hessian * variances) @ hessian + hessian + noise * np.eye(len(hessian))
    return variances.reshape(-1, *([1] * (said.ndim - 1))) * (
        hessian @ np.linalg.solve(spread, said)
    )


def posterior_mean(
    hessian: np.ndarray,
    said: np.ndarray,
    noise: float,
    groups: np.ndarray,
    least: tuple[float, ...],
    usual: float,
) -> tuple[np.ndarray, np.ndarray]:
    """The mean under the prior variances, one a group, with the most evidence.

    Where noise is large, evidence hardly tells small variances from large ones, under which noise
    would be taken for huge log ratios. So variances come from a law of their own: the mean square
    of a log ratio is exponential with the mean that is usual.
    """
    count = int(groups[-1]) + 1
    priors = np.full(count, PRIORS[8])
    fixed = hessian + noise * np.eye(len(hessian))
    own = [hessian[:, groups == at] @ hessian[groups == at] for at in range(count)]
    sizes = np.bincount(groups)

    def evidence(variances: np.ndarray) -> float:
        spread = fixed + sum(v * part for v, part in zip(variances, own, strict=True))
        factor = np.linalg.cholesky(spread)
        half = np.linalg.solve(factor, said)
        rare = float(sizes @ variances) / usual
        return float(-np.log(np.diag(factor)).sum() - half @ half / 2) - rare

    for _ in range(2 if count > 1 else 1):
        for at in range(count):
            tried = [np.where(np.arange(count) == at, one, priors) for one in PRIORS]
            priors = max(tried, key=evidence)
    priors = np.maximum(priors, np.array(least[:count]))
    return shrink(hessian, said, noise, priors[groups]), priors

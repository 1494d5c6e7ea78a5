"""A tilt of the label's chances fitted to clipped, noised sums of private rows' gradients.

All sums are over all rows: plain Gaussian mechanisms. One person moves a clipped sum by the
clipping norm (add-remove), or by twice that (replace). What is done with a noisy sum is free.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from marginalsyn.access.visit import Visit
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.weights.conditional import Conditional, LabelRows
from marginalsyn.weights.dense import split
from marginalsyn.weights.logistic import EFFECT
from marginalsyn.weights.per_row import RowNetwork, build_network
from marginalsyn.weights.prediction import INFORMATION, RANGE

# Sums are rounded to multiples of the clipping norm's 2^-20.
GRID_BITS = 20
CLIP_QUANTILE = 0.9
LINEAR_STEPS, NETWORK_STEPS = 6, 20
# How far the log-odds move in a step of Newton's method, at most, root mean square.
_TRUST = 1.0
# The least prior variance of hidden units' coefficients, times their number.
_LEAST_HIDDEN = 0.3
_SCALE = 2.0
_RATE = 0.5
# How far the log-odds move at most, root mean square, by what a step does to the units' inputs.
_TURN = 0.15
# Prior variances of a block's coefficients that are tried.
_PRIORS = np.exp(np.linspace(math.log(1e-7), math.log(10.0), 24))
# A mean square of a log ratio below this shows nowhere.
_LEAST_SQUARE = 1e-4
# Half of the logarithm of the range that four in five predictions of what is missing lie in.
_SPREAD = math.log(RANGE[1] / RANGE[0]) / 2

Ask = Callable[[RowNetwork, Callable[[LabelRows], np.ndarray], float, float], np.ndarray]
"""A noisy clipped sum: the network, the inputs made of rows, the clipping norm, sigma over it."""


def whole_l2(neighbours: Neighbours, parameters: int) -> float:
    """How far one person moves a sum that was rounded to the grid, in steps of it.

    Rounding moves each coordinate of two sums by half a step each. Two more steps a coordinate
    cover floating point, for twenty million rows at the worst: blocks of 1,024 rows have errors of
    2^-43 of the norms that they add, and blocks are added with their errors carried.
    """
    return neighbours.l1 * 2.0**GRID_BITS * (1 + 1e-9) + 3 * math.sqrt(parameters)


def clipped_total(
    network: RowNetwork,
    rows: Iterable[LabelRows],
    inputs: Callable[[LabelRows], np.ndarray],
    clip_norm: float,
) -> np.ndarray:
    """The weighted sum of all rows' clipped gradients, the errors of adding up carried along."""
    total, rest = np.zeros(network.size), np.zeros(network.size)
    for part in rows:
        added = part.weight * network.clipped_sum(inputs(part), part.labels, clip_norm) + rest
        after = total + added
        rest = added - (after - total)
        total = after
    return total


def ask_privately(visit: Visit, rows: Iterable[LabelRows], purpose: str) -> Ask:
    """Sums of private rows, each paid for and noised on the grid with Gaussian noise.

    Where persons are counted each row's clipped gradient is weighted; the rows of a person weigh 1
    together, so the sum of all of theirs is no longer than the clipping norm.
    """

    def ask(
        network: RowNetwork,
        inputs: Callable[[LabelRows], np.ndarray],
        clip_norm: float,
        multiplier: float,
    ) -> np.ndarray:
        grid = clip_norm * 2.0**-GRID_BITS
        sums = np.zeros(network.size, dtype=np.int64)
        # A resumed run reads its first answers from the journal.
        if not visit.noise.known:
            total = clipped_total(network, rows, inputs, clip_norm)
            sums = np.rint(total / grid).astype(np.int64)
        l2 = whole_l2(visit.neighbours, network.size)
        return visit.draw(visit.gaussian(multiplier * l2), sums, l2=l2, purpose=purpose) * grid

    return ask


def ask_publicly(rows: LabelRows, neighbours: Neighbours, rng: np.random.Generator) -> Ask:
    """The same of rows that are public, with noise of the same size: for rehearsals."""

    def ask(
        network: RowNetwork,
        inputs: Callable[[LabelRows], np.ndarray],
        clip_norm: float,
        multiplier: float,
    ) -> np.ndarray:
        total = clipped_total(network, [rows], inputs, clip_norm)
        return total + rng.normal(0.0, multiplier * neighbours.l1 * clip_norm, network.size)

    return ask


@dataclass(frozen=True)
class Fitted:
    """A residual f: the outputs it gives for rows, and what is known of the fit."""

    outputs: Callable[[LabelRows], np.ndarray]
    clip_norms: tuple[float, ...]
    priors: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class LabelCorrection:
    """How a residual is fitted: all of it public.

    Args:
        conditional: q(y | x).
        neighbours: the relation, which says how far a person moves a sum.
        rho: what the sums may cost together.
        units: hidden units; 0 fits a residual that is linear in the inputs.
        steps: of the network, after those of its last layer.
        engine: that clips.
        missing: what the released rows are predicted to lack of the information on the label, in
            nats; by default as much as a usual table has on a label of two values.
    """

    conditional: Conditional
    neighbours: Neighbours
    rho: float
    units: int = 0
    steps: int = NETWORK_STEPS
    engine: str = "numpy"
    missing: float = INFORMATION * math.log(2)

    @property
    def multipliers(self) -> tuple[float, ...]:
        """The noise of each sum over how far one person moves it; 1 / (2 m^2) is its rho."""
        share = 0.5 if self.units else 1.0
        found = [math.sqrt(LINEAR_STEPS / (2 * share * self.rho))] * LINEAR_STEPS
        if self.units:
            found += [math.sqrt(self.steps / (2 * (1 - share) * self.rho))] * self.steps
        # A hair above, so that the prices add up to the budget at most.
        return tuple(one * (1 + 1e-12) for one in found)

    def fit(self, ask: Ask, rng: np.random.Generator, report: Callable[[int], None]) -> Fitted:
        """The residual; ``rng`` draws what is no secret."""
        if not self.units:
            size = self.conditional.width + 1
            coefficients, clip, priors = self._newton(ask, _plain, (size,), report)
            return Fitted(lambda rows: _ones(rows.inputs) @ coefficients, (clip,), priors)
        return self._network(ask, rng, report)

    def outlook(self) -> tuple[float, float]:
        """The noise in a log-weight, and the share kept of a gain, of the part that is linear.

        For a log ratio spread evenly over the inputs with a root mean square of one half.
        """
        bends, noise, ratio = self._signal(EFFECT)
        share = ratio / (1 + ratio)
        deviation = math.sqrt(float(np.sum((share / bends) ** 2 * (bends + noise))))
        return deviation, float(np.average(share, weights=bends))

    def foresee(self, effect: float) -> float:
        """The share kept of a gain by the part that is linear, what may be seen at all included.

        Priors are chosen by the evidence: where a log ratio with this root mean square adds little
        to it, the weights stay at 1.
        """
        bends, _, ratio = self._signal(effect)
        evidence = float(np.sum(ratio - np.log1p(ratio))) / 2
        share = float(np.average(ratio / (1 + ratio), weights=bends))
        return share * -math.expm1(-evidence)

    def _signal(self, effect: float) -> tuple[np.ndarray, float, np.ndarray]:
        """Curvatures and noise; the signal's variance over the noise's, in each direction."""
        bends, noise = self._bends
        return bends, noise, bends**2 * (effect**2 / len(bends)) / (bends + noise)

    @cached_property
    def _bends(self) -> tuple[np.ndarray, float]:
        """The curvatures of the coefficients at first, and the variance of the noise in a sum."""
        made = self.conditional
        x = _ones(made.sample[0].inputs)
        clip = self._first_clip(x)
        hessian, _ = self._curvature(x, np.zeros(x.shape[1] * made.outputs), clip)
        bends = np.maximum(np.linalg.eigvalsh(hessian), 1e-12)
        return bends, (self.neighbours.l1 * clip * self.multipliers[0]) ** 2 / LINEAR_STEPS

    def _first_clip(self, x: np.ndarray) -> float:
        """The clipping norm where no chance is tilted yet."""
        rows, masses = self.conditional.sample
        chances = np.exp(rows.logs)
        offsets = _offsets(chances, self.conditional.tilt.scores)
        return _quantile(_norms(x, offsets), chances * masses[:, None])

    # -- Newton's method on coefficients of fixed inputs ------------------------------------------

    def _newton(
        self,
        ask: Ask,
        inputs: Callable[[LabelRows], np.ndarray],
        blocks: tuple[int, ...],
        report: Callable[[int], None],
        least: tuple[float, ...] = (0.0, 0.0),
    ) -> tuple[np.ndarray, float, tuple[float, ...]]:
        """Coefficients of the inputs and of 1, the clipping norm, and the priors.

        Every step gives (the noisy gradient) + H u, which is H times the best coefficients up to
        noise; what they say together is shrunk by a prior whose variances have the most evidence.
        """
        made = self.conditional
        x, outputs, rng = _ones(inputs(made.sample[0])), made.outputs, np.random.default_rng(0)
        network = build_network(
            self.engine, x.shape[1] - 1, (), rng, loss=made.tilt, outputs=outputs
        )
        clip = self._first_clip(x)
        groups = np.repeat(np.arange(len(blocks)), [outputs * size for size in blocks])
        square = max(2 * self.missing, _LEAST_SQUARE)
        now = np.zeros(x.shape[1] * outputs)
        asked = []
        places = []
        last: tuple[np.ndarray, np.ndarray, np.ndarray, float] | None = None
        turns = []
        priors = np.full(len(blocks), _PRIORS[0])
        for step, multiplier in enumerate(self.multipliers[:LINEAR_STEPS]):
            report(step)
            network.assign(now)
            reach = self.neighbours.l1 * clip * multiplier
            slopes = -ask(network, inputs, clip, multiplier)
            hessian, shift = self._curvature(x, now, clip)
            asked.append(slopes - shift)
            places.append(now)
            if last is not None:
                foreseen, moved, image, before = last
                turns.append(_secant(foreseen - asked[-1], moved, image, math.hypot(reach, before)))
            for turn in turns:
                hessian = hessian + np.outer(turn, turn)
            said, noise = _pool(asked, places, hessian, reach * reach)
            found, priors = _posterior_mean(hessian, said, noise, groups, least, square)
            moved = found - now
            size = float(np.sqrt(np.mean((x @ moved.reshape(-1, outputs)) ** 2)))
            if size > _TRUST:
                moved = moved * (_TRUST / size)
            last = hessian @ (found - now), moved, hessian @ moved, math.sqrt(noise)
            now = now + moved
        return now.reshape(-1, outputs), clip, tuple(float(one) for one in priors)

    def _curvature(
        self, x: np.ndarray, now: np.ndarray, clip: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """What the sum changes by with the coefficients, and what it is where they are right."""
        tilt, outputs = self.conditional.tilt, self.conditional.outputs
        rows, masses = self.conditional.sample
        chances = tilt.chances(x @ now.reshape(-1, outputs), rows.logs)
        offsets = _offsets(chances, tilt.scores)
        kept = chances * masses[:, None] * (clip / np.maximum(clip, _norms(x, offsets)))
        shift = x.T @ np.einsum("nk,nkm->nm", kept, offsets)
        wide = x.shape[1]
        hessian = np.zeros((wide, outputs, wide, outputs))
        for a in range(outputs):
            for b in range(a + 1):
                both = np.einsum("nk,nk,nk->n", kept, offsets[:, :, a], offsets[:, :, b])
                hessian[:, a, :, b] = hessian[:, b, :, a] = (x * both[:, None]).T @ x
        return hessian.reshape(wide * outputs, wide * outputs), shift.ravel()

    # -- all layers -------------------------------------------------------------------------------

    def _network(self, ask: Ask, rng: np.random.Generator, report: Callable[[int], None]) -> Fitted:
        """Half of the budget for the last layer on random units, half for all layers together."""
        made, units = self.conditional, self.units
        rows, masses = made.sample
        wide, outputs = made.width, made.outputs
        kernel = rng.normal(0.0, _SCALE / math.sqrt(wide + 1), (wide, units))
        bias = rng.uniform(-_SCALE, _SCALE, units)

        def inputs(part: LabelRows) -> np.ndarray:
            return np.hstack([part.inputs, np.tanh(part.inputs @ kernel + bias)])

        # The constant belongs to the last block.
        least = (0.0, _LEAST_HIDDEN / (wide + units))
        last, first_clip, priors = self._newton(ask, inputs, (wide, units + 1), report, least)
        direct, top, offset = last[:wide], last[wide:-1], last[-1]
        network = build_network(
            self.engine, wide, (units,), rng, loss=made.tilt, outputs=outputs, skip=True
        )
        clip, kept = first_clip, []
        for step, multiplier in enumerate(self.multipliers[LINEAR_STEPS:]):
            report(LINEAR_STEPS + step)
            parts = (kernel, bias, top, offset, direct)
            network.assign(np.concatenate([part.ravel() for part in parts]))
            hidden = np.tanh(rows.inputs @ kernel + bias)
            chances = made.tilt.chances(network.outputs(rows.inputs), rows.logs)
            offsets = _offsets(chances, made.tilt.scores)
            if step % 5 == 0:
                norms = _joint_norms(rows.inputs, hidden, top, offsets)
                clip = _quantile(norms, chances * masses[:, None])
            noisy = -ask(network, _plain, clip, multiplier)
            slopes = split(noisy, [part.shape for part in parts])
            # By the end about so much noise is left in the mean of the steps.
            noise = (self.neighbours.l1 * clip * multiplier) ** 2 * 2 / self.steps
            curve = masses * np.einsum("nk,nkm,nkm->n", chances, offsets, offsets) / outputs
            x = np.column_stack([rows.inputs, hidden, np.ones(len(rows))])
            now = np.vstack([direct, top, offset])
            asked = np.vstack([slopes[4], slopes[2], slopes[3]])
            hessian = (x * curve[:, None]).T @ x
            variances = np.repeat(priors, [wide, units + 1])
            aim = _shrink(hessian, asked + hessian @ now, noise, variances)
            now = now + _RATE * min(1.0, (step + 1) / 3) * (aim - now)
            # A unit's inputs are white: its curvature is a number.
            bends = (curve @ (1.0 - hidden**2) ** 2) * np.sum(top**2, axis=1)
            prior = 1.0 / (wide + 1)
            share = _RATE * bends * prior / (bends**2 * prior + bends + noise)
            # Units that are alike would each make up for the whole of what is off.
            before = hidden @ top
            moved = np.tanh(rows.inputs @ (kernel + share * slopes[0]) + bias + share * slopes[1])
            size = float(np.sqrt(np.mean((moved @ top - before) ** 2)))
            share = share * min(1.0, _TURN / max(size, 1e-12))
            kernel, bias = kernel + share * slopes[0], bias + share * slopes[1]
            direct, top, offset = now[:wide], now[wide:-1], now[-1]
            if step >= self.steps // 2:
                kept.append([kernel, bias, top, offset, direct])
        mean = [np.mean([one[at] for one in kept], axis=0) for at in range(5)]
        network.assign(np.concatenate([part.ravel() for part in mean]))
        return Fitted(lambda part: network.outputs(part.inputs), (first_clip, clip), priors)


def _plain(rows: LabelRows) -> np.ndarray:
    return rows.inputs


def _ones(x: np.ndarray) -> np.ndarray:
    return np.column_stack([x, np.ones(len(x))])


def _offsets(chances: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """For every row and class: its scores less the mean ones."""
    return scores[None] - (chances @ scores)[:, None, :]  # type: ignore[no-any-return]


def _norms(x: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The gradient's norm for every row and class."""
    lengths = np.linalg.norm(x, axis=1)[:, None]
    return lengths * np.linalg.norm(offsets, axis=2)  # type: ignore[no-any-return]


def _joint_norms(
    x: np.ndarray, hidden: np.ndarray, top: np.ndarray, offsets: np.ndarray
) -> np.ndarray:
    """The norm of all layers' gradient together, for every row and class."""
    last = (
        np.sum(offsets**2, axis=2) * (1 + np.sum(x**2, axis=1) + np.sum(hidden**2, axis=1))[:, None]
    )
    back = np.einsum("nkm,um->nku", offsets, top) * (1.0 - hidden**2)[:, None, :]
    first = np.sum(back**2, axis=2) * (1 + np.sum(x**2, axis=1))[:, None]
    return np.sqrt(last + first)  # type: ignore[no-any-return]


def _quantile(values: np.ndarray, weights: np.ndarray) -> float:
    """The clipping norm: the weighted quantile of norms."""
    flat, heavy = values.ravel(), weights.ravel()
    order = np.argsort(flat)
    reached = np.cumsum(heavy[order])
    place = int(np.searchsorted(reached, CLIP_QUANTILE * reached[-1]))
    return max(float(flat[order][min(place, len(order) - 1)]), 1e-6)


def _secant(
    fallen: np.ndarray, moved: np.ndarray, image: np.ndarray, deviation: float
) -> np.ndarray:
    """What to add to the Hessian (the outer product) so that it explains the last step.

    Private rows may vary more along it than released ones do. ``fallen`` is by how much the slopes
    are lower than they were expected to be before the step: against a sum that the step follows,
    noise that happened to be large there would fall like a curve. The estimate is noisy
    (``deviation``): it is shrunk towards no change.
    """
    expected = float(moved @ image)
    if expected <= 0:
        return np.zeros_like(moved)
    ratio = float(fallen @ moved) / expected
    error = deviation * float(np.linalg.norm(moved)) / expected
    ratio = min(max((ratio - 1) / (1 + error**2), 0.0), 20.0)
    return math.sqrt(ratio / expected) * image


def _pool(
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


def _shrink(
    hessian: np.ndarray, said: np.ndarray, noise: float, variances: np.ndarray
) -> np.ndarray:
    """The coefficients' mean, given H u + noise and their prior variances."""
    spread = (hessian * variances) @ hessian + hessian + noise * np.eye(len(hessian))
    return variances.reshape(-1, *([1] * (said.ndim - 1))) * (
        hessian @ np.linalg.solve(spread, said)
    )


def _posterior_mean(
    hessian: np.ndarray,
    said: np.ndarray,
    noise: float,
    groups: np.ndarray,
    least: tuple[float, ...],
    square: float,
) -> tuple[np.ndarray, np.ndarray]:
    """The mean over the prior variances, one a group, and the means of these variances.

    Where noise is large, evidence hardly tells small variances from large ones, under which noise
    would be taken for huge log ratios. So variances come from a law of their own: the logarithm of
    the mean square of a log ratio has Laplace's law around that of ``square``. And the variance of
    the last group is averaged over: the best one alone takes every lucky sum for a signal.
    """
    count = int(groups[-1]) + 1
    priors = np.full(count, _PRIORS[8])
    fixed = hessian + noise * np.eye(len(hessian))
    own = [hessian[:, groups == at] @ hessian[groups == at] for at in range(count)]
    sizes = np.bincount(groups)

    def evidence(variances: np.ndarray) -> float:
        spread = fixed + sum(v * part for v, part in zip(variances, own, strict=True))
        factor = np.linalg.cholesky(spread)
        half = np.linalg.solve(factor, said)
        rare = float(np.abs(np.log(sizes * variances / square)).sum()) / _SPREAD
        return float(-np.log(np.diag(factor)).sum() - half @ half / 2) - rare

    for at in [*range(count)] * min(count, 2):
        tried = np.where(np.arange(count) == at, _PRIORS[:, None], priors)
        logs = np.array([evidence(one) for one in tried])
        priors = tried[logs.argmax()]
    shares = np.exp(logs - logs.max())
    shares /= shares.sum()
    tried = np.maximum(tried, np.array(least[:count]))
    means = [_shrink(hessian, said, noise, one[groups]) for one in tried]
    return shares @ np.array(means), shares @ tried

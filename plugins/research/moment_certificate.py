"""The certificate: a publishable bound on the excess loss, on real rows, of models from a release.

Sums of x_j y and of x_j x_k over the private rows are released once, with discrete Gaussian noise,
at a small charge; the constant is among the features, so the number of rows comes with them. They
and the synthetic rows give upper bounds of the moment errors that hold together with a stated
confidence, and those the certificates of :mod:`marginalsyn.certificates.excess`.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.access.visit import Visit
from marginalsyn.certificates.certifying import (
    CONFIDENCE,
    MOMENTS,
    VACUOUS,
    agree,
    buy,
    check_origin,
    to_file,
    weights_digest,
)
from marginalsyn.certificates.excess import MomentErrors, bound_excess
from marginalsyn.certificates.linear_models import GRID, Frame
from marginalsyn.contract import plain
from marginalsyn.errors import ReleaseError
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Charge, Neighbours, covers
from marginalsyn.privacy.noise import Noise
from marginalsyn.privacy.zcdp import gaussian_rho, gaussian_sigma
from marginalsyn.progress import Progress, Silent
from marginalsyn.records.resume import RunRecorder
from marginalsyn.release.folder import Release
from marginalsyn.release.staging import as_written, dump_arrays, load_arrays
from marginalsyn.table.design import ABSENT, CodedRows
from marginalsyn.table.unit import Unit

FACTS, ARRAYS = MOMENTS, "certificate.npz"
RADII = (0.5, 1.0, 2.0, 3.0)
# In the statement's notes: the weightings that were there before the noise was drawn.
COUNTED = "certificate_counts"
PURPOSE = "moments for a certificate"
# Half of the allowed misses for weights that were there before the noise, half for all others.
HALF = (1 - CONFIDENCE) / 2
# Of either half, the part for the number of rows, which all bounds are divided by.
_ROWS = 0.25
# The radius whose certificate the split of the budget serves best.
_AIM = 2.0
_BATCH = 2**14


@dataclass(frozen=True)
class MomentPlan:
    """What is measured: the noise on both kinds of sums, fixed by public things.

    ``label_sigma`` is in units of 1/1024, ``product_sigma`` in units of 1/1024^2.
    """

    frame: Frame
    neighbours: Neighbours
    label_rho: float
    product_rho: float

    @classmethod
    def of(cls, frame: Frame, rho: float, neighbours: Neighbours) -> MomentPlan:
        """Split rho (mu^2 / 2) between the kinds so that the certificate of radius 2 is smallest.

        Its terms are B s_1 / sqrt(rho_1) and B^2/4 s_2 / sqrt(rho_2) for sensitivities s.
        """
        label, product = _reach(frame, neighbours)
        first, second = (_AIM * label) ** (2 / 3), (_AIM**2 / 4 * product) ** (2 / 3)
        share = first / (first + second)
        return cls(frame, neighbours, rho * share, rho * (1 - share))

    @property
    def label_l2(self) -> float:
        """How far one person moves the sums of x_j y."""
        return self.most * _reach(self.frame, self.neighbours)[0] * GRID * (1 + 1e-12)

    @property
    def product_l2(self) -> float:
        """How far one person moves the sums of x_j x_k, j <= k."""
        return self.most * _reach(self.frame, self.neighbours)[1] * GRID**2 * (1 + 1e-12)

    @property
    def most(self) -> int:
        """How many rows of a person are counted: each adds its own vectors to the sums.

        Rows count whole here, so that the bounds are about rows. The products of two persons' rows
        are not negative either, so that under replace the same factor holds.
        """
        unit = self.frame.schema.unit
        return 1 if unit is None else unit.max_rows

    @property
    def label_sigma(self) -> float:
        return gaussian_sigma(self.label_rho, self.label_l2)

    @property
    def product_sigma(self) -> float:
        return gaussian_sigma(self.product_rho, self.product_l2)

    def cost(self, budget: Budget, weightings: int = 1) -> Charge:
        """The charge for both, with how many weightings the certificate will count."""
        details = {
            "label_sigma": self.label_sigma,
            "product_sigma": self.product_sigma,
            "features": self.frame.width,
            "weightings": weightings,
        }
        return budget.gaussian_charge(PURPOSE, details)

    def measure(self, visit: Visit, progress: Progress) -> Sums:
        """Add up both kinds in one pass, and add the noise."""
        width = self.frame.width
        upper = np.triu_indices(width)
        label = np.zeros(width, dtype=np.int64)
        product = np.zeros(len(upper[0]), dtype=np.int64)
        progress.report("measure", text="sums of products")
        for rows in visit.batches(size=_BATCH, units=True, absent=ABSENT, weighted=True):
            one, two = add_up(self.frame, rows.values)
            label += one
            product += two[upper]
        return Sums(
            visit.draw(visit.gaussian(self.label_sigma), label, l2=self.label_l2, purpose=PURPOSE),
            visit.draw(
                visit.gaussian(self.product_sigma), product, l2=self.product_l2, purpose=PURPOSE
            ),
            self.label_sigma,
            self.product_sigma,
        )


def add_up(frame: Frame, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Exact sums over rows of x_j y (in 1/1024) and of x_j x_k (in 1/1024^2)."""
    y = frame.labels(units)
    # Whole numbers in floats: exact below 2^53, and matrices of floats are multiplied fast.
    x = frame.integers(units).astype(float)[y != 0]
    label = x.T @ y[y != 0]
    return np.rint(label).astype(np.int64), np.rint(x.T @ x).astype(np.int64)


def _reach(frame: Frame, neighbours: Neighbours) -> tuple[float, float]:
    """How far one person moves the sums, for features of size 1.

    With r = max ||x||: ||y x|| <= r. Of the products j <= k the squares sum to
    (||x||^4 + sum x_j^4) / 2 <= (r^4 + r^2) / 2. When one person replaces another, the labels'
    sums move by at most 2r; as <xx', zz'> = (x.z)^2 >= 0, and likewise on the diagonal, the squares
    of the products' moves add up to at most twice that.
    """
    r = frame.norm
    products = math.sqrt((r**4 + r**2) / 2)
    if neighbours is Neighbours.ADD_REMOVE:
        return r, products
    return 2 * r, math.sqrt(2) * products


@dataclass(frozen=True)
class Sums:
    """The noisy sums, which may be published; the last product is the number of labelled rows."""

    label: np.ndarray
    product: np.ndarray
    label_sigma: float
    product_sigma: float

    @property
    def rows(self) -> tuple[float, float]:
        """The number of labelled rows: an estimate and a lower bound."""
        estimate = float(self.product[-1]) / GRID**2
        return estimate, estimate - _ROWS_REACH * self._spread

    def errors(
        self, frame: Frame, synthetic: CodedRows, weightings: int | None
    ) -> MomentErrors | None:
        """Upper bounds of the moment errors, which hold together with half of the confidence.

        With e the synthetic mean, S the real sum and N the real number of rows, the error is
        |S - e N| / N, and the noisy S - e N has two independent noises, which are sub-Gaussian
        with variances s^2 and e^2 s_N^2 where e does not depend on them. Where it may, the bounds
        on S and N themselves bound S - e N for every e. None where even the number of rows is lost
        in the noise.

        Args:
            frame: the features.
            synthetic: the rows, with their weights.
            weightings: how many were fixed before the noise was drawn. Every sum of every one is
                counted, for their differences have a noise of their own. None for a weighting that
                may have been chosen by looking at these sums: all such are covered at once.
        """
        x, y, masses = frame.features(synthetic)
        estimate, least = self.rows
        if least <= 0 or not len(x):
            return None
        share = masses / masses.sum()
        e_label = (share * y) @ x
        e_product = ((x * share[:, None]).T @ x)[np.triu_indices(frame.width)][:-1]

        # The number of sums, without the number of rows.
        count = (weightings or 1) * (len(self.label) + len(self.product) - 1)
        far = _deviations(count, HALF * (1 - _ROWS))

        def within(sigma: float, e: np.ndarray) -> np.ndarray:
            if weightings is None:
                return far * sigma + _ROWS_REACH * self._spread * np.abs(e)
            return far * np.hypot(sigma, e * self._spread)

        label = np.abs(self.label / GRID - e_label * estimate)
        label += within(math.hypot(self.label_sigma, 0.5) / GRID, e_label)
        product = np.abs(self.product[:-1] / GRID**2 - e_product * estimate)
        product += within(self._spread, e_product)
        # No two means of numbers in [-1, 1] differ by more than 2.
        worst = [min(2.0, float(part.max(initial=0.0)) / least) for part in (label, product)]
        return MomentErrors(worst[0], {2: worst[1]})

    @property
    def _spread(self) -> float:
        """The noise of a sum of products, and so of the number of rows."""
        # Rounding adds less than a quarter of a step to a noise's variance proxy.
        return math.hypot(self.product_sigma, 0.5) / GRID**2


def _deviations(count: int, beta: float) -> float:
    """What ``count`` sub-Gaussian noises exceed, on either side, with a chance of at most beta."""
    return math.sqrt(2 * math.log(2 * count / beta))


# How many standard deviations the number of rows may be off.
_ROWS_REACH = _deviations(1, HALF * _ROWS)


def certify_release(
    table: PrivateTable,
    release: Release,
    budget: Budget,
    *,
    noise: Noise,
    label: str | None = None,
    progress: Progress | None = None,
    recorder: RunRecorder | None = None,
) -> Release:
    """Charge, measure the sums, and write a certificate into the release.

    Args:
        table: the rows that the release was made from.
        release: gets the files ``certificate.json`` and ``certificate.npz``.
        budget: the budget of the sums, on top of what was spent.
        noise: protects the rows.
        label: the column that models predict; the schema's when not given.
        progress: reports what happens.
        recorder: keeps what was paid for until the certificate is written, and when resuming.

    Returns:
        The amended release.

    Example:
        >>> from marginalsyn.access.private_table import PrivateTable
        >>> release, table = Release.read("release"), PrivateTable.open(frame, schema)
        >>> certified = certify_release(table, release, Budget(eps=0.1), noise=make_noise())
        >>> certified.statement.eps > release.statement.eps
        True
    """
    check_origin(table, release, budget)
    frame = Frame.of(release.schema, label)
    design = MomentPlan.of(frame, budget.gaussian, budget.neighbours)
    counted = [{"of": name, "sha256": digest} for name, digest, _ in _tables(release)]
    if recorder is not None and recorder.resume and recorder.id:
        # Weights that came since the run was charged are bounded as all later ones are.
        counted = recorder.read_facts().get("counted", counted)

    def files(sums: Sums) -> dict[str, bytes]:
        arrays = {
            "label": sums.label,
            "product": sums.product,
            "sigmas": np.array([sums.label_sigma, sums.product_sigma]),
        }
        handle = io.BytesIO()
        dump_arrays(handle, arrays)
        return {
            FACTS: to_file(describe(release, frame, sums, counted)),
            ARRAYS: handle.getvalue(),
        }

    return buy(
        table,
        release,
        budget,
        design.cost(budget, len(counted)),
        measure=lambda visit: design.measure(visit, progress or Silent()),
        files=files,
        facts={"label": frame.label, "counted": counted},
        notes={COUNTED: counted},
        noise=noise,
        recorder=recorder,
        # A person's rows each move the sums; the plan counts all that are counted of a person.
        persons=True,
    )


def renew(release: Release) -> Release:
    """Recompute the certificate from the sums that were paid for, for new weights. Costs nothing.

    Weights that came after the sums may have been chosen by looking at them. Their bounds hold for
    whatever weights at once, so that however often this is done the confidence stays as stated.
    """
    facts, sums = read(release)
    frame = Frame.of(release.schema, facts["label"])
    return release.amend({FACTS: to_file(describe(release, frame, sums, _counted(release)))})


def describe(
    release: Release, frame: Frame, sums: Sums, counted: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The contents of ``certificate.json``: a function of released things only.

    Args:
        release: whose rows and weights are certified.
        frame: the features.
        sums: the noisy sums.
        counted: the weightings that were there before the noise was drawn, by name and hash.
    """
    estimate, least = sums.rows
    before = {one.get("sha256") for one in counted}
    labels = release.schema.column(frame.label).labels()
    return plain(
        {
            "version": 2,
            "meaning": (
                "For every logistic regression whose coefficients' absolute values (that of the "
                "constant included) sum to at most the radius, and whose mean log loss on the "
                "synthetic rows is the least possible under that limit: its mean log loss on the "
                "real rows exceeds the least possible by at most the bound. All bounds of all "
                "weightings hold together with the confidence stated: those that are counted were "
                "there before the noise was drawn, and the bounds of all others hold for every "
                "weighting at once, however it was chosen. A loss that is larger by g on the "
                "synthetic rows adds g. It says nothing of accuracy or of other rows."
            ),
            "features": (
                "numbers scaled by the schema's bounds to [-1, 1] in steps of 1/1024, two values "
                "as -1 and 1, more values one-hot, missing numbers as 0 with an indicator, and a "
                "constant 1"
            ),
            **({"real_rows": _real_rows(release.schema.unit)} if release.schema.unit else {}),
            "label": frame.label,
            "positive": labels[frame.positive],
            "confidence": CONFIDENCE,
            "feature_names": frame.names,
            "rows_estimate": estimate,
            "rows_least": max(least, 0.0),
            "no_information_from": VACUOUS,
            "certificates": [
                {
                    **_entry(
                        name,
                        digest,
                        sums.errors(frame, table, len(counted) if digest in before else None),
                    ),
                    "counted": digest in before,
                }
                for name, digest, table in _tables(release)
            ],
        }
    )


def _real_rows(unit: Unit) -> str:
    return (
        f"those that are counted, at most {unit.max_rows} of a person: a person more or less moves "
        "the sums by so many rows, and the noise protects all of them"
    )


def _counted(release: Release) -> list[dict[str, Any]]:
    """The weightings that were there before the noise: the rows at least."""
    noted = release.statement.notes.get(COUNTED)
    if isinstance(noted, list) and noted and all(isinstance(one, dict) for one in noted):
        return noted
    rows = release.statement.files[release.frame_file]
    return [{"of": "rows", "sha256": rows}]


def _tables(release: Release) -> Iterator[tuple[str, str, CodedRows]]:
    """The synthetic rows without weights, then with each column of them."""
    table = CodedRows.of(release.frame(), release.schema)
    yield "rows", release.statement.files[release.frame_file], table
    weights = release.weights()
    for name in weights if weights is not None else ():
        column = np.asarray(weights[name], dtype=np.float64)  # type: ignore[index]
        yield str(name), weights_digest(column), table.weigh(column)


def _entry(name: str, digest: str, errors: MomentErrors | None) -> dict[str, Any]:
    """The certificates of one weighting; bounds of None say nothing at all."""
    entry: dict[str, Any] = {"of": name, "sha256": digest}
    if errors is None:
        return {**entry, "label_error": None, "product_error": None, "radii": []}
    found = [bound_excess(radius, errors.label, errors.products) for radius in RADII]
    return {
        **entry,
        "label_error": errors.label,
        "product_error": errors.products[2],
        "radii": [
            {"radius": c.radius, "bound": c.bound, "eta": c.eta, "informative": c.informative}
            for c in found
        ],
    }


def read(release: Release) -> tuple[dict[str, Any], Sums]:
    """The certificate of a release and its sums, both still unchecked."""
    if FACTS not in release.statement.files:
        raise ReleaseError(
            f"release ({release.path}) must hold a certificate: buy one with "
            "`marginalsyn certify --eps 0.1`"
        )
    with as_written(f"{FACTS} and {ARRAYS}"):
        facts = dict(release._json(FACTS))
        arrays = load_arrays(release._file(ARRAYS))
        sigmas = arrays["sigmas"].astype(float)
        label, product = arrays["label"], arrays["product"]
        if label.dtype.kind != "i" or product.dtype.kind != "i" or not (sigmas > 0).all():
            raise ValueError("sums must be whole numbers with noise")
        return facts, Sums(label, product, float(sigmas[0]), float(sigmas[1]))


def problems(release: Release) -> list[str]:
    """What is wrong with a release's certificate, found by recomputing it."""
    if FACTS not in release.statement.files:
        return []
    facts, sums = read(release)
    frame = Frame.of(release.schema, facts.get("label"))
    if (len(sums.label), len(sums.product)) != (frame.width, frame.width * (frame.width + 1) // 2):
        return [f"{ARRAYS} must hold the sums of the schema's {frame.width} features"]
    fresh = describe(release, frame, sums, _counted(release))
    found = []
    old = {entry.get("of"): entry for entry in facts.get("certificates", ())}
    new = {entry["of"]: entry for entry in fresh["certificates"]}
    for name, entry in new.items():
        if name not in old:
            continue  # weights that came after it: they have none yet
        if old[name].get("sha256") != entry["sha256"]:
            found.append(
                f"{FACTS} must be about the weights '{name}' as they are: write it again (free) "
                "with `marginalsyn certify`"
            )
        elif not agree(old[name], entry):
            found.append(f"{FACTS} must say of '{name}' what {ARRAYS} and the rows give")
    if set(old) - set(new):
        found.append(f"{FACTS} must be about weights that are there: write it again")
    rest = {key: value for key, value in fresh.items() if key != "certificates"}
    if not agree({key: facts.get(key) for key in rest}, rest):
        found.append(f"{FACTS} must say what {ARRAYS} and the schema give")
    paid = [c for c in release.statement.charges if c.purpose == PURPOSE]
    promised = paid[-1].details.get("weightings", 1) if paid else 1
    if len(_counted(release)) != promised:
        found.append(
            f"notes ({COUNTED}) must name as many weightings as the charge counted ({promised})"
        )
    return found + _unpaid(release, frame, sums)


def _unpaid(release: Release, frame: Frame, sums: Sums) -> list[str]:
    """The problem, if any, that the charges do not cover noise of the size that the sums claim."""
    statement = release.statement
    design = MomentPlan.of(frame, 1.0, statement.neighbours)
    needed = gaussian_rho(sums.label_sigma, design.label_l2)
    needed += gaussian_rho(sums.product_sigma, design.product_l2)
    paid = sum(c.rho or 0.0 for c in statement.charges if c.purpose == PURPOSE)
    if covers(paid, needed):
        return []
    return [f"charges (rho {paid:.6g}) must cover what {ARRAYS} cost (rho {needed:.6g})"]

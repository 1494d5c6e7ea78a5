"""The certificate: a publishable bound on the excess loss, on real rows, of models from a release.

Sums of x_j y and of x_j x_k over the private rows are released once, with discrete Gaussian noise,
at a small charge. They and the synthetic rows give upper bounds of the moment errors that hold
together with a stated confidence, and those the certificates of
:mod:`marginalsyn.certificates.excess`.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from marginalsyn.access.private_table import PrivateTable
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
from marginalsyn.certificates.linear_models import Frame
from marginalsyn.contract import plain
from marginalsyn.errors import MarginalsynError, ReleaseError
from marginalsyn.plugins.research.noisy_moments import PURPOSE, MomentPlan, Sums
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import covers
from marginalsyn.privacy.noise import Noise
from marginalsyn.privacy.zcdp import gaussian_rho
from marginalsyn.progress import Progress, Silent
from marginalsyn.records.resume import RunRecorder
from marginalsyn.release.folder import Release
from marginalsyn.release.staging import dump_arrays, load_arrays
from marginalsyn.table.design import CodedRows
from marginalsyn.table.unit import Unit

FACTS, ARRAYS = MOMENTS, "certificate.npz"
RADII = (0.5, 1.0, 2.0, 3.0)
# In the statement's notes: the weightings that were there before the noise was drawn.
COUNTED = "certificate_counts"


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
    budget = recorder.as_charged(budget) if recorder else budget
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
    reach = sums.before(len(counted))
    estimate, least = sums.rows(reach)
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
                        sums.errors(frame, table, reach if digest in before else sums.later()),
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
    try:
        facts = dict(release._json(FACTS))
        arrays = load_arrays(release._file(ARRAYS))
        sigmas = arrays["sigmas"].astype(float)
        label, product = arrays["label"], arrays["product"]
        if label.dtype.kind != "i" or product.dtype.kind != "i" or not (sigmas > 0).all():
            raise ValueError("sums must be whole numbers with noise")
        return facts, Sums(label, product, float(sigmas[0]), float(sigmas[1]))
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ReleaseError(f"{FACTS} and {ARRAYS} must be a certificate: {error}") from None


def problems(release: Release) -> list[str]:
    """What is wrong with a release's certificate, found by recomputing it."""
    if FACTS not in release.statement.files:
        return []
    try:
        facts, sums = read(release)
        frame = Frame.of(release.schema, facts.get("label"))
        if (len(sums.label), len(sums.product)) != (
            frame.width,
            frame.width * (frame.width + 1) // 2,
        ):
            return [f"{ARRAYS} must hold the sums of the schema's {frame.width} features"]
        fresh = describe(release, frame, sums, _counted(release))
    except MarginalsynError as error:
        return [str(error)]
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

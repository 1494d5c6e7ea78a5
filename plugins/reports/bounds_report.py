"""The report of bounds: guarantees for every linear model, not only for those that were tried."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from marginalsyn.certificates.certifying import MOMENTS, VACUOUS
from marginalsyn.certificates.excess import MomentErrors, bound_excess, fit_in_ball, mean_loss
from marginalsyn.certificates.excess_plan import true_excess
from marginalsyn.certificates.linear_models import Frame
from marginalsyn.certificates.measured import MEASURED, model_of, read_measured
from marginalsyn.errors import UsageError
from marginalsyn.evaluation.reports import (
    Block,
    Blocks,
    Case,
    Fact,
    Options,
    RealData,
    Report,
    called,
    each_variant,
)
from marginalsyn.evaluation.view import Fold, Item, Note, Table
from marginalsyn.plugins.reports.marginal_errors import marginal_errors
from marginalsyn.progress import Progress
from marginalsyn.release.folder import Release
from marginalsyn.release.staging import as_written
from marginalsyn.table.design import CodedRows, scaled_slots

# Combinations of columns whose products are averaged; more would take minutes.
MOST_COMBINATIONS = 20_000


def moment_errors(
    frame: Frame, real: CodedRows, synthetic: CodedRows, *, orders: Sequence[int] = (2, 4)
) -> MomentErrors:
    """Exact differences between two tables, the synthetic one's weights counted.

    The k-fold products of the features of a set of columns are powers of its numbers times
    indicators, so one pass over the rows per set gives them all. Orders with too many sets are
    left out, and so is every order after them.

    Example:
        >>> table = CodedRows.of(frame, schema)
        >>> round(moment_errors(Frame.of(schema), table, table).label, 9)
        0.0
    """
    x_r, y_r, m_r = frame.features(real)
    x_s, y_s, m_s = frame.features(synthetic)
    if not len(x_r) or not len(x_s):
        raise UsageError("both tables must have rows with a label")
    masses = np.concatenate([m_r / m_r.sum(), -m_s / m_s.sum()])
    x, y = np.vstack([x_r, x_s]), np.concatenate([y_r, y_s])
    label = float(np.abs((masses * y) @ x).max())
    products = {}
    groups = _groups(frame, x)
    worst = 0.0
    for order in orders:
        # No more are listed than show that there are too many: of wide tables there are millions.
        listed = itertools.chain(_sets(groups, order - 1), _sets(groups, order))
        sets = list(itertools.islice(listed, MOST_COMBINATIONS + 1))
        if len(sets) > MOST_COMBINATIONS:
            break
        for powers in sets:
            worst = max(worst, _largest(powers, groups, masses))
        products[order] = worst
    return MomentErrors(label, products)


@dataclass(frozen=True)
class _Group:
    """The features of one column: a number with powers of its own, indicators, or both.

    ``on`` is which indicator a row has; the last value stands for none.
    """

    number: np.ndarray | None
    powers: int
    on: np.ndarray | None
    indicators: int


def _groups(frame: Frame, x: np.ndarray) -> list[_Group]:
    groups, position = [], 0
    for _, column in frame.columns:
        slots = scaled_slots(column)
        block = x[:, position : position + slots.width]
        position += slots.width
        number = None
        if slots.scale:
            number, block = np.ascontiguousarray(block[:, 0]), block[:, 1:]
        on = None
        if block.shape[1]:
            on = np.where(block.any(axis=1), block.argmax(axis=1), block.shape[1])
        # The square of -1 and 1 is the constant.
        groups.append(_Group(number, 99 if column.numeric else 1, on, block.shape[1]))
    return groups


def _sets(groups: Sequence[_Group], order: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Groups with the power (0 for the indicators) that their features enter a product with.

    The constant fills up what is missing to ``order``, so that lower products are among these;
    only those of exactly this order are given here. An indicator is its own square.
    """
    options = []
    for j, group in enumerate(groups):
        if group.on is not None:
            options.append((j, 0))
        if group.number is not None:
            options += [(j, power) for power in range(1, min(order, group.powers) + 1)]
    for size in range(1, order + 1):
        for chosen in itertools.combinations(options, size):
            distinct = len({j for j, _ in chosen}) == size
            if distinct and sum(max(power, 1) for _, power in chosen) == order:
                yield chosen


def _largest(
    powers: Sequence[tuple[int, int]], groups: Sequence[_Group], masses: np.ndarray
) -> float:
    """The largest difference in mean of the products of one set."""
    values, widths = masses, []
    index = None
    for j, power in powers:
        group = groups[j]
        for _ in range(power):
            values = values * group.number
        if not power and group.on is not None:
            widths.append(group.indicators + 1)
            index = group.on if index is None else index * widths[-1] + group.on
    if index is None:
        return abs(float(values.sum()))
    sums = np.bincount(index, weights=values, minlength=math.prod(widths)).reshape(widths)
    inside = sums[tuple(slice(width - 1) for width in widths)]
    return float(np.abs(inside).max(initial=0.0))


@dataclass(frozen=True)
class PaperBounds:
    """The theorems of Zhou et al. 2024 with the constants of their proofs written out."""

    lipschitz: float
    logistic: float

    @property
    def vacuous(self) -> bool:
        return min(self.lipschitz, self.logistic) >= VACUOUS


def paper_bounds(features: int, norm: float, degree: int, error: float) -> PaperBounds:
    """Theorems 3.1 and 3.2: excess <= 4 eta + 2 ||phi|| (1 + 1/R)^k (m max(1, tau))^k nu.

    Here k = degree - 1, R = max(1, tau sqrt(m)), ||phi|| = ln(1 + e^R), and eta is the error of a
    Bernstein polynomial of degree k on [-R, R]: 5R / (2 sqrt(k)) for any 1-Lipschitz loss (3.1),
    R^2 / (8k) for the logistic one (3.2; the interval's length enters squared).

    Args:
        features: m.
        norm: tau, the bound on ||w||_2.
        degree: d, of the marginals that are preserved; 2 or more.
        error: nu, the largest normalised l1 error of a marginal of up to d columns.

    Example:
        >>> paper_bounds(10, 1.0, 4, 0.001).vacuous
        True
    """
    if degree < 2:
        raise UsageError(f"degree ({degree}) must be 2 or more for the theorems")
    k, reach = degree - 1, max(1.0, norm * math.sqrt(features))
    size = reach + math.log1p(math.exp(-reach))
    spread = 2 * size * (1 + 1 / reach) ** k * (features * max(1.0, norm)) ** k * error
    return PaperBounds(
        lipschitz=4 * 2.5 * reach / math.sqrt(k) + spread, logistic=4 * reach**2 / (8 * k) + spread
    )


RADII = (1.0, 2.0, 3.0, 5.0)
PAPER_DEGREES = (2, 3, 4)


class BoundsReport(Report):
    """The certified bound on excess empirical risk, from exact moments, and the true excess."""

    name = "bounds"
    title = "Bounds"
    summary = "certificates of the excess risk of linear models, next to the truth"
    place = 60
    scope = "release"
    on_terminal = False

    def compute(
        self, case: Case, ground: RealData, options: Options, progress: Progress
    ) -> Block | None:
        if ground.label is None:
            return None
        try:
            frame = Frame.of(ground.schema, ground.label)
            variants = []
            for weights, table in case.variants():
                progress.report("bounds", text=f"{case.name} {weights or ''}")
                variants.append(_certificates(frame, table, ground, weights))
        except UsageError as error:
            found: dict[str, Any] = {"refused": str(error)}
        else:
            found = {
                "refused": None,
                "label": frame.label,
                "features": frame.width,
                "variants": variants,
                "paper": _paper(case, ground),
            }
        return {**found, "measured": _measured(case, ground), "aim": _aim(case.release)}

    def facts(self, block: Block) -> Iterable[Fact]:
        for variant in block.get("variants", ()):
            for entry in variant["radii"]:
                item = called(f"radius {entry['radius']:g}", variant["weights"])
                for metric in ("bound", "excess"):
                    yield Fact(item, metric, entry[metric])
        for entry in block.get("measured", ()):
            for metric in ("lower", "excess", "upper"):
                yield Fact(f"measured, {_about(entry)}", metric, entry[metric])

    def show(self, blocks: Blocks, combined: Block | None = None) -> Iterator[Item]:
        yield _CERTIFIED
        for case, block in blocks.items():
            if block["refused"]:
                yield Note(f"{case}: no certificate. {block['refused']}")
        certified = {case: block for case, block in blocks.items() if not block["refused"]}
        rows = [
            (f"{name}, radius {entry['radius']:g}", entry["excess"], _bound(entry), entry["degree"])
            for name, variant in each_variant(certified)
            for entry in variant["radii"]
        ]
        if rows:
            head = ("table and limit", "measured excess", "certificate", "degree")
            yield Table(head, rows, fold="Certificates of all tables")
        keys = ("worst_l1", "lipschitz", "logistic")
        papers = [
            (f"{case}, {entry['degree']}-way", *map(entry.get, keys), "vacuous" * entry["vacuous"])
            for case, block in certified.items()
            for entry in block["paper"]
        ]
        if papers:
            columns = ("preserved marginals", "worst l1 error", "theorem 3.1", "theorem 3.2", "")
            title = "The theorems of Zhou et al. 2024 with their constants written out"
            yield Fold(title, [Note(_THEOREMS), Table(columns, papers)])
        for case, block in blocks.items():
            if block.get("measured"):
                yield f"{case}: the measured certificates of the release, next to the truth."
                yield _measured_table(block["measured"])
        yield from (_aim_bounds(b["aim"], case) for case, b in blocks.items() if b["aim"])

    def publish(self, release: Release) -> Block | None:

        found: dict[str, Any] = {"aim": _aim(release), "certificate": None}
        found["measured"] = [_short(entry) for entry in read_measured(release)]
        if MOMENTS in release.statement.files:
            facts = release._json(MOMENTS)
            found["certificate"] = {k: v for k, v in facts.items() if k != "feature_names"}
        return found if any(found.values()) else None

    def show_public(self, block: Block) -> Iterator[Item]:
        certificate = block["certificate"]
        if certificate:
            yield certificate["meaning"]
            yield Note(
                f"Label: {certificate['label']}; positive: {certificate['positive']}. "
                f"Confidence: {certificate['confidence']:g}. Features: {certificate['features']}."
            )
            entries = certificate["certificates"]
            rows = [
                (f"{entry['of']}, radius {limit['radius']:g}", _bound(limit))
                for entry in entries
                for limit in entry["radii"]
            ]
            rows += [(entry["of"], "no information") for entry in entries if not entry["radii"]]
            yield Table(("table and limit", "excess log loss at most"), rows)
        if block["measured"]:
            yield _MEASURED
            yield _measured_table(block["measured"])
        if block["aim"]:
            yield _aim_bounds(block["aim"], "the model")


def _bound(limit: Mapping[str, Any]) -> Any:
    return limit["bound"] if limit["informative"] else "no information"


def _short(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A measured certificate without its model."""
    return {key: value for key, value in entry.items() if key != "coefficients"}


def _certificates(
    frame: Any, table: CodedRows, ground: RealData, weights: str | None
) -> dict[str, Any]:
    """The certificate and the measured excess of one weighting, for every radius."""
    errors = moment_errors(frame, ground.reference, table)
    x, y, masses = frame.features(table)
    real_x, real_y, _ = frame.features(ground.reference)
    entries = []
    start = real_start = None
    for radius in RADII:
        own = fit_in_ball(x, y, radius, masses=masses, start=start)
        fit_real = partial(fit_in_ball, real_x, real_y, radius, start=real_start)
        real = ground.once(("ball", frame.label, radius), fit_real)
        start, real_start = own.w, real.w
        found = bound_excess(radius, errors.label, errors.products, gap=own.gap)
        entries.append(
            {
                "radius": radius,
                "excess": mean_loss(real_x, real_y, own.w) - real.loss,
                "bound": found.bound,
                "informative": found.informative,
                "degree": found.degree,
                "eta": found.eta,
                "gap": own.gap,
            }
        )
    return {
        "weights": weights,
        "label_error": errors.label,
        "product_errors": {str(k): v for k, v in errors.products.items()},
        "radii": entries,
    }


def _measured(case: Case, ground: RealData) -> list[dict[str, Any]]:
    """The measured certificates of a release, each with the excess that it bounds."""

    found: list[dict[str, Any]] = []
    if case.release is None:
        return found
    for entry in read_measured(case.release):
        with as_written(MEASURED):
            excess = true_excess(model_of(case.release.schema, entry), ground.reference)
        found.append({**_short(entry), "excess": excess})
    return found


def _about(entry: Mapping[str, Any]) -> str:
    """The model of a measured certificate, and what it is compared with."""
    within = f", within {entry['within']:g}" if entry["within"] else ""
    free = ", free intercept" if entry["free_intercept"] else ""
    return f"{entry['label']} from {entry['of']}, ridge {entry['ridge']:g}{within}{free}"


def _measured_table(entries: Sequence[Mapping[str, Any]]) -> Table:
    """One line a certificate; with the truth where it is known."""
    keys = ["lower", *(["excess"] if all("excess" in entry for entry in entries) else []), "upper"]
    rows = [
        [_about(e), e["loss"], *("no information" if e[k] is None else e[k] for k in keys)]
        for e in entries
    ]
    names = {"lower": "at least", "excess": "true excess", "upper": "at most"}
    return Table(["model and limit", "loss", *(names[key] for key in keys)], rows)


def _paper(case: Case, ground: RealData) -> list[dict[str, Any]]:
    """The published theorems at ||w||_2 <= 1, from the worst marginals of each degree."""
    from marginalsyn.plugins.reports.marginals_report import affordable_degree

    domain = ground.schema.domain
    degree = affordable_degree(len(domain), max(PAPER_DEGREES))
    errors = marginal_errors(ground.reference.codes, case.synthetic.codes, domain, degree=degree)
    found = []
    for d in PAPER_DEGREES:
        if d > degree:
            break
        worst = max(e for q, e in errors.items() if len(q) <= d)
        bounds = paper_bounds(len(domain) - 1, 1.0, d, worst)
        own = {"degree": d, "worst_l1": worst, **asdict(bounds), "vacuous": bounds.vacuous}
        found.append(own)
    return found


def _aim(release: Release | None) -> dict[str, Any] | None:
    """AIM's own bounds on marginals, which its releases hold."""
    bounds = release.statement.notes.get("bounds") if release is not None else None
    if not isinstance(bounds, dict) or not bounds.get("marginals"):
        return None
    return {"confidence": bounds.get("confidence"), "marginals": list(bounds["marginals"])}


def _aim_bounds(aim: Mapping[str, Any], case: str) -> Fold:
    rows = [
        (" × ".join(m["columns"]), m["l1"], "measured" if m["measured"] else "")
        for m in sorted(aim["marginals"], key=operator.itemgetter("l1"))
    ]
    confidence = f"{aim['confidence']:g}"
    return Fold(
        f"Bounds on the marginals of {case}, from noisy measurements (McKenna et al. 2022)",
        [
            Note(f"All hold together with confidence {confidence}. They may be published."),
            Table(("marginal", "l1 error at most", ""), rows),
        ],
    )


_MEASURED = (
    "A measured certificate is about one model: the linear one that has the least loss, ridge "
    "included, on these rows. How much more it loses on the real rows than the best model does "
    "was measured with noise, and lies between the two bounds, each with confidence 0.95. Where a "
    "limit is given, it is compared with the models whose log-odds (or predictions, in halves of "
    "the label's range) are that close to its own on every row that the schema allows. "
    "Coefficients and the noisy answer are in measured.json."
)
_CERTIFIED = (
    "A certificate bounds how much worse, on the real rows, the best model for the synthetic rows "
    "is than the best one for the real rows, among all logistic regressions whose coefficients' "
    "absolute values sum to at most the radius. Here it is computed from exact moments and so not "
    "for publication; marginalsyn certify makes one that is."
)
_THEOREMS = (
    "For one coded feature per column and coefficients of Euclidean length 1 at most. A bound of "
    "ln 2 or more is vacuous: a model that always says one half is as good."
)

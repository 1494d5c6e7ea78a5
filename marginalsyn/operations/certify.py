"""``certify``: a bound that readers of a release may rely on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from marginalsyn.errors import UsageError
from marginalsyn.operations.groups import OfRelease, OfTable, Paid, Spending, later_delta
from marginalsyn.operations.operation import (
    DRY_RUN,
    PYTHON,
    Columns,
    Facts,
    Result,
    Session,
    option,
)
from marginalsyn.operations.origins import describe_total, find_table
from marginalsyn.registry import needed_part

if TYPE_CHECKING:
    from marginalsyn.certificates.excess_plan import MeasuredPlan
    from marginalsyn.operations import release as releases  # noqa: F401
    from marginalsyn.privacy.budget import Budget
    from marginalsyn.release.folder import Release

_measured = partial(option, panel="Measured certificate")
# An upper bound above this share of what is no news, on a model without excess, is of no use.
_USEFUL = 0.1


@dataclass(frozen=True, kw_only=True)
class Certify(Paid, OfTable, OfRelease["releases.Release"]):
    """Certify how much worse models from a release can be on the real rows.

    Measures noisy sums of products of the real rows' features and label, and writes a bound into
    the release: how large, at most, the excess log loss of a logistic regression of bounded size is
    on the real rows, with confidence 0.95. Readers can check the bound, and `verify` does.

    With --measured it buys another certificate: how much worse the release's own model is than the
    best one, between two bounds. Each of the two holds with confidence 0.95, and both together in
    about 90% of certificates. It is refused where it is predicted to say next to nothing.

    Returns:
        The release with its certificate; ``attached("certificate")`` holds it, and
        ``marginalsyn.certificates.read_measured`` gives the measured ones.
    """

    examples = """
    # a certificate for the last release, at a small charge
    marginalsyn certify --eps 0.1
    # what the noise will be; reads nothing, spends nothing
    marginalsyn certify release --eps 0.1 --dry-run
    # for weights that were added later; free
    marginalsyn certify release
    # how much worse the release's own model is than the best, between two bounds
    marginalsyn certify --measured --eps 0.3
    marginalsyn certify --measured --eps 0.3 --ridge 0.0001 --within 5
    """

    eps: float | None = option(
        None,
        "The privacy budget of the certificate, on top of the release's. Without it, an existing "
        "certificate is recomputed from its noisy sums, which costs nothing.",
        panel="Budget",
        metavar="EPS",
    )
    delta: float | None = later_delta()
    label: str | None = option(None, "The column that models predict.", metavar="COLUMN")
    measured: bool = _measured(
        False,
        "Measure the excess itself, of the one linear model that has the least loss on the "
        "synthetic rows: a bound from above and one from below, close to the truth. Logistic "
        "regression for two classes, least squares for a number. May be bought more than once.",
    )
    ridge: float | None = _measured(
        None,
        "Of that model: RIDGE/2 times its squared coefficients is added to the mean loss. The "
        "smaller, the wider the bounds. [default=0.001]",
        metavar="RIDGE",
    )
    within: float | None = _measured(
        None,
        "Compare only with models whose log-odds (or predictions, in halves of the label's "
        "range) are within R of its own on every row that the schema allows: narrow bounds at a "
        "small ridge. [default=all models]",
        metavar="R",
    )
    free_intercept: bool = _measured(False, "Leave the constant out of the ridge; needs --within.")
    weights: str | None = _measured(
        None, "Of the model for the rows with this column of weights.", metavar="COLUMN"
    )
    force: bool = option(
        False,
        "Pay for a new certificate even if there is one already, or, with --measured, if it is "
        "predicted to say next to nothing.",
    )

    def plan(self, session: Session = PYTHON) -> Result[Any]:
        """Show how large the noise would be, without reading or spending anything."""
        from marginalsyn.certificates.linear_models import GRID, Frame

        release = self.read_table()
        budget = self._budget(release)
        if self.measured:
            return self._plan_measured(release, budget)
        plan = _moments().MomentPlan.of(
            Frame.of(release.schema, self.label), budget.gaussian, budget.neighbours
        )
        rows = len(release.frame())
        facts = {
            "label": plan.frame.label,
            "features": plan.frame.width,
            "rho": budget.rho,
            "noise_in_label_means": plan.label_sigma / GRID / rows,
            "noise_in_product_means": plan.product_sigma / GRID**2 / rows,
        }
        shown = Facts([(name.replace("_", " "), value) for name, value in facts.items()])
        return Result(plan, facts, [shown], notes=[DRY_RUN])

    def plan_certificate(self) -> Result[Any]:
        """How noisy a certificate would be, as `marginalsyn certify --dry-run` shows; free."""
        return self.plan()

    def run(self, session: Session = PYTHON) -> Result[Any]:
        """Charge, measure, write; without a budget, compute again from what was paid for."""
        from marginalsyn.certificates.certifying import MOMENTS
        from marginalsyn.certificates.measured import certify_measured

        release = self.read_table()
        extras = (self.delta, self.label, self.seed)
        if self.eps is None and not self.measured and extras == (None, None, None):
            self._about()
            return _result(_moments().renew(release))
        budget = self._budget(release)
        if MOMENTS in release.statement.files and not (self.measured or self.force):
            raise UsageError(
                f"release ({release.path.name}) has a certificate: leave --eps out to compute it "
                "again for new weights (free), or add --force to buy another"
            )
        table = find_table(self, release, release.schema)
        if table is None:
            raise UsageError(
                f"release ({release.path.name}) was not made in this workspace: name the table "
                "that it was made from with --data or --dataset"
            )
        if self.measured:
            self._check_use(self._measured_plan(release, budget))
            buy: Any = partial(certify_measured, **self._about())
        else:
            buy = _moments().certify_release
        with self.paying(session, table) as tools:
            if (recorder := tools["recorder"]) is not None:
                recorder.options["release"] = str(release.path)
            rows = table.open(budget.neighbours)
            done = buy(rows, release, budget, label=self.label, **tools)
        found = _measured_result(done) if self.measured else _result(done)
        found.notes = [*found.notes, *describe_total(table.ledger, done.statement)]
        return found

    def _about(self) -> dict[str, Any]:
        """The options of a measured certificate that were given; they go with --measured."""
        names = ("ridge", "within", "free_intercept", "weights")
        given = {name: getattr(self, name) for name in names}
        given = {name: value for name, value in given.items() if value not in (None, False)}
        if given and not self.measured:
            name, value = next(iter(given.items()))
            raise UsageError(f"--{name.replace('_', '-')} ({value}) must come with --measured")
        return given

    def _budget(self, release: Release) -> Budget:
        self._about()
        if self.eps is None:
            what, usual = ("a measured", 0.3) if self.measured else ("a", 0.1)
            raise UsageError(
                f"--eps must be given to buy {what} certificate, such as --eps {usual}"
            )
        return Spending(eps=self.eps, delta=self.delta).budget(release)

    def _measured_plan(self, release: Release, budget: Budget) -> MeasuredPlan:
        from marginalsyn.certificates.excess_plan import MeasuredPlan
        from marginalsyn.certificates.measured import fitted

        about = self._about()
        model = fitted(release, label=self.label, free=about.pop("free_intercept", False), **about)
        return MeasuredPlan(model, budget.neighbours, budget.gaussian)

    def _check_use(self, plan: MeasuredPlan) -> None:
        """Refuse to pay for bounds that would be wide even if the model were the best there is."""
        upper = plan.expected(0.0)["upper"]
        if (
            self.force
            or self.resume
            or (upper is not None and upper <= _USEFUL * plan.model.vacuous)
        ):
            return
        least = "none" if upper is None else f"about {upper:.3g}"
        raise UsageError(
            f"--eps ({self.eps:g}) must be larger for this certificate to say something of "
            f"{plan.model.problem.frame.label}: even if no model were better than the release's, "
            f"the upper bound would be {least}, where {plan.model.vacuous:.3g} is no news. "
            "--dry-run shows what an --eps buys; a larger --ridge or --within R narrows it; "
            "--force pays nevertheless"
        )

    def _plan_measured(self, release: Release, budget: Budget) -> Result[Any]:
        """What the bounds would be, in the median, by what the truth may be."""
        plan = self._measured_plan(release, budget)
        model = plan.model
        truths = [0.0, *(model.vacuous * share for share in (0.001, 0.003, 0.01, 0.03, 0.1))]
        rows = [{"excess": truth, **plan.expected(truth)} for truth in truths]
        facts = {
            "label": model.problem.frame.label,
            "features": model.problem.width,
            "rho": budget.rho,
            "noise": plan.sigma,
            "expected": rows,
        }
        head = ("if the excess is", "at least", "at most")
        cells = [[_short(row[name]) for name in ("excess", "lower", "upper")] for row in rows]
        return Result(plan, facts, [Columns(head, cells, right=head)], notes=[DRY_RUN])


def _moments() -> Any:
    """What buys and reads the certificate from noisy moments."""
    from marginalsyn.certificates.certifying import MOMENT_CERTIFICATE

    return needed_part(MOMENT_CERTIFICATE, "a certificate without --measured")


def _result(release: Release) -> Result[Any]:
    """The bounds, and what was spent."""
    facts, _ = _moments().read(release)
    shown = {name: facts[name] for name in ("confidence", "certificates")}
    head = ("certificate of", "||w||_1 at most", "excess log loss at most")
    rows = [
        (entry["of"], limit["radius"], _short(limit["bound"] if limit["informative"] else None))
        for entry in facts["certificates"]
        for limit in entry["radii"] or [{"radius": "any", "informative": False}]
    ]
    return _paid(release, shown, Columns(head, rows, right=head[1:]))


def _measured_result(release: Release) -> Result[Any]:
    """The last measured certificate, and what was spent."""
    from marginalsyn.certificates.measured import read_measured

    entry = read_measured(release)[-1]
    within = entry["within"]
    pairs = [
        ("model of", f"{entry['label']}, from {entry['of']}, ridge {entry['ridge']:g}"),
        ("compared with", f"models within {within:g} of it" if within else "all models"),
        (f"excess {entry['loss']} at most", _short(entry["upper"])),
        (f"excess {entry['loss']} at least", _short(entry["lower"])),
    ]
    if within and entry["upper_over_all"] is not None:
        pairs.append(("at most, over all models", _short(entry["upper_over_all"])))
    shown = {name: value for name, value in entry.items() if name != "coefficients"}
    return _paid(release, {"certificate": shown}, Facts(pairs))


def _paid(release: Release, shown: Mapping[str, Any], text: Facts | Columns) -> Result[Any]:
    statement = release.statement
    spent = {"release": str(release.path), "eps": statement.eps, "delta": statement.delta}
    notes = [f"this release:    {statement.total()}"]
    return Result(release, {**spent, **shown}, [text], statement.warnings, notes)


def _short(bound: float | None) -> object:
    return float(f"{bound:.4g}") if bound is not None else "no information"

"""``marginalsyn certify``: a bound that readers of a release may rely on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marginalsyn.cli import group, options, resuming, screen
from marginalsyn.cli.bundles import bundle, option
from marginalsyn.cli.inputs import read_release
from marginalsyn.errors import UsageError
from marginalsyn.operations.origins import PrivateInput, find_origin, rows_of

if TYPE_CHECKING:
    from marginalsyn.privacy.budget import Budget
    from marginalsyn.release.folder import Release


@dataclass(frozen=True, kw_only=True)
class Measuring:
    """What a measured certificate is about."""

    panel = "Measured certificate"

    measured: bool = option(
        "--measured",
        is_flag=True,
        help="Measure the excess itself, of the one linear model that has the least loss on the "
        "synthetic rows: a bound from above and one from below, close to the truth. Logistic "
        "regression for two classes, least squares for a number. May be bought more than once.",
    )
    ridge: float | None = option(
        "--ridge",
        type=float,
        metavar="RIDGE",
        help="Of that model: RIDGE/2 times its squared coefficients is added to the mean loss. The "
        "smaller, the wider the bounds. [default=0.001]",
    )
    within: float | None = option(
        "--within",
        type=float,
        metavar="R",
        help="Compare only with models whose log-odds (or predictions, in halves of the label's "
        "range) are within R of its own on every row that the schema allows: narrow bounds at a "
        "small ridge. [default=all models]",
    )
    free_intercept: bool = option(
        "--free-intercept",
        is_flag=True,
        help="Leave the constant out of the ridge; needs --within.",
    )
    weights: str | None = option(
        "--weights",
        metavar="COLUMN",
        help="Of the model for the rows with this column of weights.",
    )


@group.command(
    examples="""
    # a certificate for the last release, at a small charge
    marginalsyn certify --eps 0.1
    # what the noise will be; reads nothing, spends nothing
    marginalsyn certify release --eps 0.1 --dry-run
    # for weights that were added later; free
    marginalsyn certify release
    # how much worse the release's own model is than the best, between two bounds
    marginalsyn certify --measured --eps 0.3
    marginalsyn certify --measured --eps 0.3 --ridge 0.0001 --within 5
    """,
)
@options.release
@bundle(
    options.Source,
    without=("holdout", "unit", "max_rows", "order", "accept_nonprivate_schema", "label"),
)
@bundle(
    options.Spending,
    only=("eps", "delta"),
    eps={
        "required": False,
        "help": "The privacy budget of the certificate, on top of the release's. Without it, an "
        "existing certificate is recomputed from its noisy sums, which costs nothing.",
    },
    delta=options.LATER,
)
@options.model_label
@bundle(Measuring)
@bundle(
    options.Running,
    dry_run={"help": "Show how large the noise would be, without reading or spending anything."},
)
@bundle(
    options.Output,
    only=("force", "quiet", "as_json"),
    force={"help": "Pay for a new certificate even if there is one already."},
)
def certify(
    release: Path | None,
    source: options.Source,
    spending: options.Spending,
    label: str | None,
    measuring: Measuring,
    running: options.Running,
    output: options.Output,
) -> None:
    """Certify how much worse models from a release can be on the real rows.

    Measures noisy sums of products of the real rows' features and label, and writes a bound into
    the release: how large, at most, the excess log loss of a logistic regression of bounded size is
    on the real rows, with confidence 0.95. Readers can check the bound, and `verify` does.

    With --measured it buys another certificate: how much worse the release's own model is than the
    best one, between two bounds.
    """
    from marginalsyn.certificates.certificate import FACTS, renew

    if source.schema_path is not None:
        raise UsageError(f"--schema ({source.schema_path}) is not needed: a release has its schema")
    notes, dry_run, seed = screen.Notes(output.quiet), running.dry_run, running.seed
    found = read_release(release)
    _check(measuring)
    if measuring.measured and spending.eps is None:
        raise UsageError("--eps must be given to buy a measured certificate, such as --eps 0.3")
    if spending.eps is None:
        if spending.delta is not None or label is not None or dry_run or seed is not None:
            raise UsageError("--eps must be given to buy a certificate, such as --eps 0.1")
        _show(renew(found), notes, output.as_json)
        return
    bought = FACTS in found.statement.files and not measuring.measured
    if bought and not (output.force or dry_run):
        raise UsageError(
            f"release ({found.path.name}) has a certificate: leave --eps out to write it anew for "
            "new weights (free), or add --force to buy another"
        )
    budget = spending.budget(found)
    if dry_run:
        if measuring.measured:
            _show_measuring(found, label, measuring, budget, output.as_json)
        else:
            _show_plan(found, label, budget, output.as_json)
        return
    origin = find_origin(found.schema, rows_of(found), source)
    if origin is None:
        raise UsageError(
            f"release ({found.path.name}) was not made in this workspace: name the table that it "
            "was made from with --data or --dataset"
        )
    done = _buy(found, budget, label, measuring, origin, seed, notes)
    (_show_measured if measuring.measured else _show)(done, notes, output.as_json)


def _check(measuring: Measuring) -> None:
    """Options of a measured certificate go with --measured."""
    if measuring.measured:
        return
    for name, value in _of(measuring).items():
        if value not in (None, False):
            raise UsageError(f"--{name.replace('_', '-')} ({value}) must come with --measured")


def _of(measuring: Measuring) -> dict[str, Any]:
    """The arguments of a measured certificate."""
    given = {name: value for name, value in vars(measuring).items() if value is not None}
    del given["measured"]
    return given


def _buy(
    release: Release,
    budget: Budget,
    label: str | None,
    measuring: Measuring,
    source: PrivateInput,
    seed: int | None,
    notes: screen.Notes,
) -> Release:
    """Charge, measure, write."""
    from marginalsyn.certificates.certificate import certify_release
    from marginalsyn.certificates.measured import certify_measured
    from marginalsyn.cli.accounting import accounted, show_total, warn_of_seed
    from marginalsyn.privacy.noise import make_noise

    warn_of_seed(seed, notes)
    ledger = source.ledger()
    keeper = resuming.keep(source.key, source.workspace, notes)
    keeper.options["release"] = str(release.path)
    with accounted(ledger, keeper), keeper, notes.progress() as progress:
        buy: Any = certify_release
        if measuring.measured:
            buy = partial(certify_measured, **_of(measuring))
        done = buy(
            source.open(ledger, budget.neighbours),
            release,
            budget,
            noise=make_noise(seed),
            label=label,
            progress=progress,
            keeper=keeper,
        )
    show_total(ledger, notes, done.statement)
    return done


def _show_plan(release: Release, label: str | None, budget: Budget, as_json: bool) -> None:
    from marginalsyn.certificates.moments import GRID, Frame
    from marginalsyn.certificates.noisy_moments import MomentPlan

    design = MomentPlan.of(Frame.of(release.schema, label), budget.rho, budget.neighbours)
    rows = len(release.frame())
    facts: dict[str, Any] = {
        "label": design.frame.label,
        "features": design.frame.width,
        "rho": budget.rho,
        "noise_in_label_means": design.label_sigma / GRID / rows,
        "noise_in_product_means": design.product_sigma / GRID**2 / rows,
    }
    if as_json:
        screen.write_json(facts)
        return
    screen.write_facts([(name.replace("_", " "), value) for name, value in facts.items()])
    screen.Notes().say(screen.DRY_RUN)


def _show_measuring(
    release: Release, label: str | None, measuring: Measuring, budget: Budget, as_json: bool
) -> None:
    """What the bounds would be, in the median, by what the truth may be."""
    from marginalsyn.certificates.excess_plan import MeasuredPlan
    from marginalsyn.certificates.measured import fitted

    given = _of(measuring)
    given["free"] = given.pop("free_intercept")
    model = fitted(release, label=label, **given)
    plan = MeasuredPlan(model, budget.neighbours, budget.rho)
    truths = [0.0, *(model.vacuous * share for share in (0.001, 0.003, 0.01, 0.03, 0.1))]
    rows = [{"excess": truth, **plan.expected(truth)} for truth in truths]
    if as_json:
        screen.write_json(
            {
                "label": model.problem.frame.label,
                "features": model.problem.width,
                "rho": budget.rho,
                "noise": plan.sigma,
                "expected": rows,
            }
        )
        return
    head = ("if the excess is", "at least", "at most")
    screen.write_table(
        head,
        [(_short(r["excess"]), _short(r["lower"]), _short(r["upper"])) for r in rows],
        right=head,
    )
    screen.Notes().say(screen.DRY_RUN)


def _show_measured(release: Release, notes: screen.Notes, as_json: bool) -> None:
    """The last measured certificate, and what was spent."""
    from marginalsyn.certificates.measured import read_measured

    entry = read_measured(release)[-1]
    if as_json:
        told = {k: v for k, v in entry.items() if k != "coefficients"}
        screen.write_json({**_spent(release), "certificate": told})
    else:
        within = entry["within"]
        rows: list[tuple[str, object]] = [
            ("model of", f"{entry['label']}, from {entry['of']}, ridge {entry['ridge']:g}"),
            ("compared with", f"models within {within:g} of it" if within else "all models"),
            (f"excess {entry['loss']} at most", _short(entry["upper"])),
            (f"excess {entry['loss']} at least", _short(entry["lower"])),
        ]
        if within and entry["upper_over_all"] is not None:
            rows.append(("at most, over all models", _short(entry["upper_over_all"])))
        screen.write_facts(rows)
    notes.warn_all(release.statement.warnings)
    notes.say(f"this release:    {release.statement.total()}")


def _spent(release: Release) -> dict[str, Any]:
    """The release and what it cost."""
    statement = release.statement
    return {"release": str(release.path), "eps": statement.eps, "delta": statement.delta}


def _short(bound: float | None) -> object:
    return float(f"{bound:.4g}") if bound is not None else "no information"


def _show(release: Release, notes: screen.Notes, as_json: bool) -> None:
    """The bounds, and what was spent."""
    from marginalsyn.certificates.certificate import read

    facts, _ = read(release)
    if as_json:
        shown = {name: facts[name] for name in ("confidence", "certificates")}
        screen.write_json({**_spent(release), **shown})
    else:
        screen.write_table(
            ("certificate of", "||w||_1 at most", "excess log loss at most"),
            [
                (entry["of"], limit["radius"], _bound(limit))
                for entry in facts["certificates"]
                for limit in entry["radii"] or [{"radius": "any", "informative": False}]
            ],
            right=("||w||_1 at most", "excess log loss at most"),
        )
    notes.warn_all(release.statement.warnings)
    notes.say(f"this release:    {release.statement.total()}")


def _bound(limit: dict[str, Any]) -> object:
    return _short(limit["bound"] if limit["informative"] else None)

"""``marginalsyn certify``: a bound that readers of a release may rely on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from marginalsyn.cli import options, resuming, screen
from marginalsyn.cli.bundles import bundle
from marginalsyn.cli.group import Command
from marginalsyn.cli.inputs import read_release
from marginalsyn.curator import PrivateInput, find_origin, rows_of
from marginalsyn.errors import UsageError

if TYPE_CHECKING:
    from marginalsyn.budget import Budget
    from marginalsyn.release import Release


@click.command(
    cls=Command,
    examples="""
    # a certificate for the last release, at a small charge
    marginalsyn certify --eps 0.1
    # what the noise will be; reads nothing, spends nothing
    marginalsyn certify release --eps 0.1 --dry-run
    # for weights that were added later; free
    marginalsyn certify release
    """,
)
@options.release
@bundle(options.Source, without=("holdout", "accept_nonprivate_schema", "label"))
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
@click.option("--label", metavar="COLUMN", help="The column that models predict.")
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
    running: options.Running,
    output: options.Output,
) -> None:
    """Certify how much worse models from a release can be on the real rows.

    Measures noisy sums of products of the real rows' features and label, and writes a bound into
    the release: how large, at most, the excess log loss of a logistic regression of bounded size is
    on the real rows, with confidence 0.95. Readers can check the bound, and `verify` does.
    """
    from marginalsyn.certificates import FACTS, renew

    if source.schema_path is not None:
        raise UsageError(f"--schema ({source.schema_path}) is not needed: a release has its schema")
    notes, dry_run, seed = screen.Notes(output.quiet), running.dry_run, running.seed
    found = read_release(release)
    if spending.eps is None:
        if spending.delta is not None or label is not None or dry_run or seed is not None:
            raise UsageError("--eps must be given to buy a certificate, such as --eps 0.1")
        _show(renew(found), notes, output.as_json)
        return
    if FACTS in found.statement.files and not (output.force or dry_run):
        raise UsageError(
            f"release ({found.path.name}) has a certificate: leave --eps out to write it anew for "
            "new weights (free), or add --force to buy another"
        )
    budget = spending.budget(found)
    if dry_run:
        _show_plan(found, label, budget, output.as_json)
        return
    origin = find_origin(found.schema, rows_of(found), source)
    if origin is None:
        raise UsageError(
            f"release ({found.path.name}) was not made in this workspace: name the table that it "
            "was made from with --data or --dataset"
        )
    _show(_buy(found, budget, label, origin, seed, notes), notes, output.as_json)


def _buy(
    release: Release,
    budget: Budget,
    label: str | None,
    source: PrivateInput,
    seed: int | None,
    notes: screen.Notes,
) -> Release:
    """Charge, measure, write."""
    from marginalsyn.certificates import certify_release
    from marginalsyn.cli.accounting import accounted, show_total, warn_of_seed
    from marginalsyn.noise import make_noise

    warn_of_seed(seed, notes)
    ledger = source.ledger()
    keeper = resuming.keep(source.key, source.workspace, notes)
    keeper.options["release"] = str(release.path)
    with accounted(ledger, keeper), keeper, notes.progress() as progress:
        done = certify_release(
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
    from marginalsyn.certificates import GRID, Frame, MomentPlan

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
    screen.Notes().say("Dry run: nothing was read, nothing was spent.")


def _show(release: Release, notes: screen.Notes, as_json: bool) -> None:
    """The bounds, and what was spent."""
    from marginalsyn.certificates import read

    facts, _ = read(release)
    if as_json:
        screen.write_json(
            {
                "release": str(release.path),
                "eps": release.statement.eps,
                "delta": release.statement.delta,
                "confidence": facts["confidence"],
                "certificates": facts["certificates"],
            }
        )
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
    for warning in release.statement.warnings:
        notes.warn(warning)
    notes.say(f"this release:    {release.statement.total()}")


def _bound(limit: dict[str, Any]) -> object:
    return float(f"{limit['bound']:.4g}") if limit["informative"] else "no information"

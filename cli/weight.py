"""``marginalsyn weight``: private importance weights for the rows of a release."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from marginalsyn.cli import options, resuming, screen
from marginalsyn.cli.generate import EVALUATION
from marginalsyn.cli.methods import MethodCommand
from marginalsyn.errors import UsageError
from marginalsyn.registry import WEIGHTS

if TYPE_CHECKING:
    from marginalsyn.noise import Noise
    from marginalsyn.private import Keeper, Ledger
    from marginalsyn.release import Release
    from marginalsyn.weights import WeightColumn


@click.command(
    cls=MethodCommand,
    kind=WEIGHTS,
    preferred=("beta-noised",),
    examples="""
    # a tenth of what the last release spent buys weights for its rows
    marginalsyn weight --method dp-mlp
    # the noise that a budget buys, for every method; reads nothing, spends nothing
    marginalsyn weight --dry-run --eps 0.5
    # an own budget; an unweighted table drawn from the weighted rows
    marginalsyn weight release --method beta-debiased --eps 0.5 --noise gaussian
    marginalsyn weight release --method beta-noised --resample systematic
    # the same weights with their extremes tamed: free, for the raw ones are kept
    marginalsyn weight release --reuse beta-noised --name tempered --temper 0.5
    # rows that another tool made
    marginalsyn weight rows.csv --schema people.schema.json --data people.csv --eps 1
    # which weights a release has, and which methods there are
    marginalsyn weight release --list
    """,
)
@options.release
@options.source
@options.separator
@options.ledger
@click.option(
    "--accept-nonprivate-schema",
    is_flag=True,
    panel="Source",
    help="Accept a schema that was drafted from the data. The privacy statement will say so.",
)
@click.option(
    "--eps",
    type=float,
    metavar="EPS",
    panel="Budget",
    help="The privacy budget of the weights: a new charge, on top of the release's.",
)
@click.option(
    "--share",
    type=float,
    metavar="SHARE",
    panel="Budget",
    help="Instead of --eps: spend this share (in rho) of the ledger's cap, or of what the release "
    "spent if there is no cap. [default=0.1]",
)
@click.option(
    "--delta",
    type=float,
    metavar="DELTA",
    panel="Budget",
    help="The delta of (eps, delta). [default=that of the release]",
)
@click.option(
    "--allow-large-delta", is_flag=True, panel="Budget", help="Accept a delta of 1e-6 or more."
)
@click.option(
    "--method",
    metavar="NAME",
    panel="Method",
    help="The weight estimator to run; `marginalsyn plugins --kind weights` lists them. "
    "[default=beta-noised] Add --help to see its own options.",
)
@click.option(
    "--name",
    metavar="COLUMN",
    panel="Method",
    help="The name of the new column. [default=the method's name]",
)
@click.option(
    "--non-private",
    is_flag=True,
    panel="Method",
    help="Allow a method without any privacy protection, for research. Its weights go to a "
    "separate file, never into the release.",
)
@click.option(
    "--reuse",
    metavar="COLUMN",
    panel="Afterwards",
    help="Post-process this column's raw log-weights again, as a new column (--name). Costs no "
    "privacy.",
)
@click.option(
    "--normalise/--no-normalise",
    default=None,
    panel="Afterwards",
    help="Scale the weights to mean 1. [default=yes, unless the method estimates the ratio itself]",
)
@click.option(
    "--temper",
    type=float,
    metavar="TAU",
    panel="Afterwards",
    help="Raise the weights to this power: below 1 they vary less and correct less. [default=1, or "
    "less if the effective sample size would fall below a quarter of the rows]",
)
@click.option(
    "--smooth",
    type=click.Choice(["none", "psis"]),
    default="none",
    show_default=True,
    panel="Afterwards",
    help="psis: replace the largest weights by quantiles of a Pareto distribution fitted to them.",
)
@click.option(
    "--clip",
    type=float,
    metavar="MOST",
    panel="Afterwards",
    help="Cap every weight at this many times the mean.",
)
@click.option(
    "--calibrate",
    type=click.Choice(["none", "beta", "isotonic"]),
    default="none",
    show_default=True,
    panel="Afterwards",
    help="Calibrate the classifier behind the weights on the rows of --public.",
)
@click.option(
    "--public",
    type=options.PATH,
    metavar="FILE",
    panel="Afterwards",
    help="Real rows that are public, as CSV or Parquet; never the private table or any part of it.",
)
@click.option(
    "--resample",
    type=click.Choice(["systematic", "stratified", "duplication"]),
    panel="Afterwards",
    help="Also write an unweighted table, whose rows are drawn in proportion to the weights.",
)
@click.option(
    "--rows",
    type=click.IntRange(min=1),
    metavar="N",
    panel="Afterwards",
    help="The number of rows of that table. [default=as many as the release has]",
)
@click.option(
    "--out",
    type=options.PATH,
    metavar="PATH",
    help="The release folder for rows that another tool made [default=release], or the file of "
    "--non-private weights.",
)
@click.option(
    "--list",
    "listing",
    is_flag=True,
    help="List the release's weight columns and the available methods.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Show how accurate the weights would be, without spending anything.",
)
@resuming.option
@options.force
@options.seed
@options.quiet
@options.as_json
@click.pass_context
def weight(
    ctx: click.Context,
    release: Path | None,
    data: str | None,
    schema_path: Path | None,
    dataset: str | None,
    sep: str | None,
    ledger_path: Path | None,
    void_earlier_promises: bool,
    accept_nonprivate_schema: bool,
    eps: float | None,
    share: float | None,
    delta: float | None,
    allow_large_delta: bool,
    method: str | None,
    name: str | None,
    non_private: bool,
    reuse: str | None,
    normalise: bool | None,
    temper: float | None,
    smooth: str,
    clip: float | None,
    calibrate: str,
    public: Path | None,
    resample: str | None,
    rows: int | None,
    out: Path | None,
    listing: bool,
    dry_run: bool,
    resume: bool,
    force: bool,
    seed: int | None,
    quiet: bool,
    as_json: bool,
    **knobs: Any,
) -> None:
    """Add private importance weights to the rows of a release.

    A weight says how much more likely a row is among the private rows than among the synthetic
    ones. Where the generator got something wrong, a weighted fit on the release comes closer to a
    fit on the private rows, if the budget is large enough to see the error; `--dry-run` shows
    whether it is. Weights are a new charge on the source's ledger. Each run adds a column to
    `weights.csv`, and the statement records its cost and the release's new total.
    """
    from marginalsyn.budget import Budget
    from marginalsyn.cli import weight_screen
    from marginalsyn.cli.accounting import accounted, warn_of_seed
    from marginalsyn.cli.origin import open_origin, recall_origin
    from marginalsyn.cli.weight_source import (
        allow,
        find_target,
        make_release,
        read_public,
        remember_source,
        rows_of,
    )
    from marginalsyn.contract import make_weights
    from marginalsyn.noise import make_noise
    from marginalsyn.weighting import reprocess, weigh
    from marginalsyn.weights import Processing

    if eps is not None and share is not None:
        raise UsageError("--eps and --share both give the budget; give one of them")
    if rows is not None and resample is None:
        raise UsageError(f"--rows ({rows}) is for --resample")
    notes = screen.Notes(quiet)
    after = _Afterwards(resample=resample, rows=rows, seed=seed, notes=notes, as_json=as_json)
    processing = Processing(
        normalise=normalise,
        temper=temper,
        smooth=smooth,  # type: ignore[arg-type]
        clip=clip,
        calibrate=calibrate,  # type: ignore[arg-type]
    )
    target, found = find_target(release, schema_path)
    if listing:
        weight_screen.write_list(found, as_json)
        return
    if reuse is not None:
        old = _written(found, release)
        again = reprocess(
            old, reuse, name=name or f"{reuse}-again", processing=processing, force=force
        )
        after.publish(old, again)
        return

    command = ctx.command
    assert isinstance(command, MethodCommand)
    origin = recall_origin(
        target.schema,
        rows_of(found),
        data=data,
        dataset=dataset,
        ledger_path=ledger_path,
        void_earlier_promises=void_earlier_promises,
        sep=sep,
    )
    source, kept = origin or (None, None)
    config = None
    if not dry_run:
        method = method or command.default_method()
        config = make_weights(method, command.values(method, knobs))
    free = config is not None and not (config.private and getattr(config, "reads", True))
    budget = allow(found, source, eps, share, delta, allow_large_delta, free=free)
    if config is None:
        names = [method] if method else command.methods()
        chosen = {one: partial(command.values, one, knobs if method else {}) for one in names}
        weight_screen.write_outlook(target, budget, chosen, as_json)
        return
    known = read_public(public, target, source)
    warn_of_seed(seed, notes)
    noise = make_noise(seed)
    ledger = source.ledger() if source is not None else None
    keeper = None
    if source is not None and not free:
        if not resuming.taken_up(ctx):
            resuming.hint(source.key, source.workspace, notes)
        keeper = resuming.keeper_of(ctx, source.key, source.workspace, notes)
        if resume and eps is None:
            # A share of what was the total then.
            budget = Budget.of_json(keeper.told["allowance"])
    with (
        accounted(ledger, keeper) if ledger else nullcontext(),
        keeper or nullcontext(),
        notes.progress() as progress,
    ):
        needed = getattr(config, "reads", True)
        table = None
        if source and kept and ledger and needed:
            table = open_origin(source, kept, ledger, budget.neighbours)
        if found is None:
            config.configure(target, budget)
            found = make_release(target, out, force)
            remember_source(found, source, kept)
            if keeper is not None:
                keeper.options.update(release=str(found.path), schema_path=None, out=None)
        weighted = weigh(
            found,
            config,
            budget,
            table,
            noise=noise,
            name=name or "",
            processing=processing,
            public=known,
            progress=progress,
            force=force,
            accept_nonprivate_schema=accept_nonprivate_schema,
            non_private=non_private,
            keeper=keeper,
        )
        progress.report("write", text=str(found.path))
        if not weighted.private:
            after.keep_apart(found, weighted, out, force)
            return
        after.publish(found, weighted, noise=noise, ledger=ledger, keeper=keeper)


@dataclass(frozen=True, kw_only=True)
class _Afterwards:
    """What is done once there are weights."""

    resample: str | None
    rows: int | None
    seed: int | None
    notes: screen.Notes
    as_json: bool

    def publish(
        self,
        release: Release,
        weighted: WeightColumn,
        *,
        noise: Noise | None = None,
        ledger: Ledger | None = None,
        keeper: Keeper | None = None,
    ) -> None:
        """Write the weights into the release and tell what they are worth."""
        from marginalsyn.cli import weight_screen
        from marginalsyn.weights import publish

        files = self._resampled(release, weighted) if self.resample else {}
        done = publish(release, weighted, noise=noise if weighted.charges else None, files=files)
        if keeper is not None:
            keeper.finish()
        weight_screen.show_release(done, weighted, sorted(files), ledger, self.notes, self.as_json)

    def keep_apart(
        self, release: Release, weighted: WeightColumn, out: Path | None, force: bool
    ) -> None:
        """Write weights that protect nobody into a file for the curator."""
        from marginalsyn.cli import weight_screen
        from marginalsyn.cli.files import replace_file
        from marginalsyn.release import LOG
        from marginalsyn.weights import weights_csv

        name = f"{release.path.name}.{weighted.name}.not-private.csv"
        file = out or Path(EVALUATION) / name
        if release.path in file.resolve().parents:
            raise UsageError(f"--out ({file}) must lie outside the release: it is not private")
        if file.exists() and not force:
            raise UsageError(
                f"file ({file}) must not exist yet; add --force, or name another --out"
            )
        columns = {
            weighted.name: weighted.weights,
            weighted.name + LOG: weighted.log_weights,
        }
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, lambda handle: handle.write(weights_csv(columns)))
        weight_screen.show_file(file, weighted, self.notes, self.as_json)

    def _resampled(self, release: Release, weighted: WeightColumn) -> dict[str, bytes]:
        """The unweighted table, as a file of the release."""
        import io

        import numpy as np

        from marginalsyn.table import resample, write_csv, write_parquet

        suffix = Path(release.frame_file).suffix
        rng = np.random.default_rng(self.seed)
        picked = resample(weighted.weights, self.resample, rng, self.rows)  # type: ignore[arg-type]
        frame = release.frame().iloc[picked].reset_index(drop=True)
        handle = io.BytesIO()
        (write_csv if suffix == ".csv" else write_parquet)(frame, handle)
        return {f"resampled-{weighted.name}{suffix}": handle.getvalue()}


def _written(found: Release | None, path: Path | None) -> Release:
    if found is None:
        raise UsageError(f"--reuse needs a release with weights; {path} is a plain table")
    return found

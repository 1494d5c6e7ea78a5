"""``marginalsyn weight``: private importance weights for the rows of a release."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from marginalsyn import defaults
from marginalsyn.cli import options, resuming, screen
from marginalsyn.cli.bundles import bundle, option
from marginalsyn.cli.methods import MethodCommand
from marginalsyn.errors import UsageError
from marginalsyn.registry import WEIGHTS

if TYPE_CHECKING:
    from marginalsyn.operations.origins import PrivateInput
    from marginalsyn.privacy.noise import Noise
    from marginalsyn.records.ledger import Ledger
    from marginalsyn.records.run_recorder import RunRecorder
    from marginalsyn.release.folder import Release
    from marginalsyn.weights.columns import WeightColumn
    from marginalsyn.weights.processing import Processing


@dataclass(frozen=True, kw_only=True)
class Column:
    """How a column of weights is made, and its name."""

    panel = "Method"

    method: str | None = option(
        "--method",
        metavar="NAME",
        help="The weight estimator to run; `marginalsyn plugins --kind weights` lists them. "
        f"[default={defaults.WEIGHTS}] Add --help to see its own options.",
    )
    name: str | None = option(
        "--name",
        metavar="COLUMN",
        help="The name of the new column. [default=the method's name]",
    )
    non_private: bool = option(
        "--non-private",
        is_flag=True,
        help="Allow a method without any privacy protection, for research. Its weights go to "
        "a separate file, never into the release.",
    )


@dataclass(frozen=True, kw_only=True)
class Afterwards:
    """What is done with log-weights once they are there."""

    panel = "Afterwards"

    reuse: str | None = option(
        "--reuse",
        metavar="COLUMN",
        help="Post-process this column's raw log-weights again, as a new column (--name). "
        "Costs no privacy.",
    )
    normalise: bool | None = option(
        "--normalise/--no-normalise",
        default=None,
        help="Scale the weights to mean 1. [default=yes, unless the method estimates the "
        "ratio itself]",
    )
    temper: float | None = option(
        "--temper",
        type=float,
        metavar="TAU",
        help="Raise the weights to this power: below 1 they vary less and correct less. "
        "[default=1, or less if the effective sample size would fall below a quarter of "
        "the rows]",
    )
    smooth: str = option(
        "--smooth",
        type=click.Choice(["none", "psis"]),
        default=defaults.SMOOTH,
        help="psis: replace the largest weights by quantiles of a Pareto distribution fitted to "
        "them.",
    )
    clip: float | None = option(
        "--clip",
        type=float,
        metavar="MOST",
        help="Cap every weight at this many times the mean.",
    )
    calibrate: str = option(
        "--calibrate",
        type=click.Choice(["none", "beta", "isotonic"]),
        default=defaults.CALIBRATE,
        help="Calibrate the classifier behind the weights on the rows of --public.",
    )
    public: Path | None = option(
        "--public",
        type=options.PATH,
        metavar="FILE",
        help="Real rows that are public, as CSV or Parquet; never the private table or any "
        "part of it.",
    )
    resample: str | None = option(
        "--resample",
        type=click.Choice(["systematic", "stratified", "duplication"]),
        help="Also write an unweighted table, whose rows are drawn in proportion to the weights.",
    )
    rows: int | None = option(
        "--rows",
        type=click.IntRange(min=1),
        metavar="N",
        help="The number of rows of that table. [default=as many as the release has]",
    )

    def processing(self) -> Processing:
        """What makes weights out of log-weights."""
        from marginalsyn.weights.processing import Processing

        return Processing(
            normalise=self.normalise,
            temper=self.temper,
            smooth=self.smooth,  # type: ignore[arg-type]
            clip=self.clip,
            calibrate=self.calibrate,  # type: ignore[arg-type]
        )


@click.command(
    cls=MethodCommand,
    kind=WEIGHTS,
    preferred=(defaults.WEIGHTS,),
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
@bundle(
    options.Source,
    without=("holdout", "unit", "max_rows", "order"),
    label={"help": "The label column of a file of rows, if it is not the schema's."},
)
@bundle(
    options.Spending,
    neighbours={
        "default": None,
        "help": "For rows that another tool made: which tables must be hard to tell apart, those "
        "that differ by one row added or removed, or by one row replaced. [default=add-remove; "
        "that of the release]",
    },
    eps={
        "required": False,
        "help": "The privacy budget of the weights: a new charge, on top of the release's.",
    },
    delta=options.LATER,
)
@bundle(Column)
@bundle(Afterwards, "after")
@bundle(
    options.Output,
    without=("table_format",),
    out={
        "metavar": "PATH",
        "help": "With --non-private: the CSV file of the weights. Otherwise, for rows that another "
        "tool made: the new release folder [default=release]. Private weights of a release go into "
        "its own weights.csv.",
    },
)
@click.option(
    "--list",
    "listing",
    is_flag=True,
    help="List the release's weight columns and the available methods.",
)
@bundle(
    options.Running,
    dry_run={"help": "Show how accurate the weights would be, without spending anything."},
)
@click.pass_context
def weight(
    ctx: click.Context,
    release: Path | None,
    source: options.Source,
    spending: options.Spending,
    column: Column,
    after: Afterwards,
    output: options.Output,
    listing: bool,
    running: options.Running,
    **knobs: Any,
) -> None:
    """Add private importance weights to the rows of a release.

    A weight says how much more likely a row is among the private rows than among the synthetic
    ones. Where the generator got something wrong, a weighted fit on the release comes closer to a
    fit on the private rows, if the budget is large enough to see the error; `--dry-run` shows
    whether it is. Weights are a new charge on the source's ledger. Each run adds a column to
    `weights.csv`, and the statement records its cost and the release's new total.
    """
    from marginalsyn.cli import weight_files, weight_screen
    from marginalsyn.cli.accounting import accounted, warn_of_seed
    from marginalsyn.cli.inputs import release_path
    from marginalsyn.cli.weight_cautions import find_cautions
    from marginalsyn.contract import Duties, make_weights
    from marginalsyn.host import weigh
    from marginalsyn.operations.linked import find_persons
    from marginalsyn.operations.origins import find_origin, rows_of
    from marginalsyn.operations.spending import allowance
    from marginalsyn.operations.weighting import read_public, write_apart
    from marginalsyn.privacy.budget import Budget
    from marginalsyn.privacy.noise import make_noise
    from marginalsyn.release.linked import PersonsRelease
    from marginalsyn.weights.finishing import reprocess

    if after.rows is not None and after.resample is None:
        raise UsageError(f"--rows ({after.rows}) can only be given with --resample")
    notes, processing = screen.Notes(output.quiet), after.processing()
    path = release_path(release)
    target, findings = weight_files.read_target(path, source.schema_path, source.label)
    found = target.release
    cautions = find_cautions(target, findings, source.label)
    if listing:
        weight_screen.write_list(found, output.as_json)
        return
    write = partial(_write, after=after, output=output, seed=running.seed, notes=notes)
    if after.reuse is not None:
        if found is None:
            raise UsageError(f"--reuse needs a release with weights; {path} is a plain table")
        weight_files.refuse_out(output)
        name = column.name or f"{after.reuse}-again"
        again = reprocess(found, after.reuse, name=name, processing=processing, force=output.force)
        write(found, again)
        return

    command = ctx.command
    assert isinstance(command, MethodCommand)
    origin: PrivateInput | None
    if isinstance(found, PersonsRelease):
        if after.resample is not None:
            raise UsageError(
                "--resample must not be given for linked tables: read the weights with the rows, "
                "in Python by LinkedRelease.weights_of(TABLE)"
            )
        origin = find_persons(found, source)
    else:
        origin = find_origin(target.schema, rows_of(found), source)
    method, config = column.method, None
    if not running.dry_run:
        method = method or command.default_method()
        config = make_weights(method, command.values(method, knobs))
    free = config is not None and not (config.private and Duties(config).reads)
    budget = allowance(
        found,
        origin,
        eps=spending.eps,
        share=spending.share,
        delta=spending.delta,
        neighbours=spending.neighbours,
        allow_large_delta=spending.allow_large_delta,
        free=free,
    )
    if config is None:
        names = [method] if method else command.methods()
        chosen = {one: partial(command.values, one, knobs if method else {}) for one in names}
        weight_screen.write_outlook(target, budget, chosen, cautions, output.as_json)
        return
    public, private = read_public(after.public, target.schema, origin), config.private
    file = folder = None
    if not private and column.non_private:
        file = weight_files.file_apart(path, target, column.name or config.name, output)
    elif private and found is None:
        folder = weight_files.release_folder(output)
        config.configure(target, budget)
    elif private:
        weight_files.refuse_out(output)
    cautions.tell(notes, ahead=False)
    warn_of_seed(running.seed, notes)
    noise = make_noise(running.seed)
    ledger = origin.ledger() if origin is not None else None
    keeper = None
    if origin is not None and not free:
        keeper = resuming.keep(origin.key, origin.workspace, notes)
        if running.resume and spending.eps is None:
            # A share of what was the total then.
            budget = Budget.of_json(keeper.read_facts()["allowance"])
    with (
        accounted(ledger, keeper) if ledger else nullcontext(),
        keeper or nullcontext(),
        notes.progress() as progress,
    ):
        table = None
        if origin is not None and Duties(config).reads:
            table = origin.open(ledger, budget.neighbours)
        relation = budget.neighbours
        adopted = weight_files.adopted(target, findings, folder, relation, output.force, ledger)
        with adopted as made:
            if folder is not None and origin is not None:
                origin.remember(made)
            if folder is not None and keeper is not None:
                keeper.options.update(release=str(made.path), schema_path=None, out=None)
            weighted = weigh(
                made,
                config,
                budget,
                table,
                noise=noise,
                name=column.name or "",
                processing=processing,
                public=public,
                progress=progress,
                force=output.force,
                accept_nonprivate_schema=source.accept_nonprivate_schema,
                non_private=column.non_private,
                keeper=keeper,
                target=target if target.release is made else None,
                ahead=lambda plan: weight_screen.tell_ahead(plan, notes),
            )
            progress.report("write", text=str(file or made.path))
            if file is None:
                write(made, weighted, noise=noise, ledger=ledger, keeper=keeper)
                return
        write_apart(file, weighted)
        weight_screen.show_file(file, weighted, notes, output.as_json)


def _write(
    release: Release,
    weighted: WeightColumn,
    *,
    after: Afterwards,
    output: options.Output,
    seed: int | None,
    notes: screen.Notes,
    noise: Noise | None = None,
    ledger: Ledger | None = None,
    keeper: RunRecorder | None = None,
) -> None:
    """Write the weights into the release and say what they are worth."""
    from marginalsyn.cli import weight_screen
    from marginalsyn.operations.weighting import resampled
    from marginalsyn.weights.columns import publish

    files = resampled(release, weighted, after.resample, after.rows, seed)
    done = publish(release, weighted, noise=noise if weighted.charges else None, files=files)
    if keeper is not None:
        keeper.finish()
    weight_screen.show_release(done, weighted, sorted(files), ledger, notes, output.as_json)

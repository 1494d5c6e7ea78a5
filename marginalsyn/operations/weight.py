"""``weight``: private importance weights for the rows of a release."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from marginalsyn import defaults
from marginalsyn.errors import UsageError
from marginalsyn.operations.files import TABLES, check_new, rows_in
from marginalsyn.operations.groups import (
    OfRelease,
    OfSchema,
    OfTable,
    Paid,
    Spending,
    later_delta,
    read_share,
    release_path,
)
from marginalsyn.operations.operation import (
    PYTHON,
    Result,
    Session,
    default_method,
    how_many,
    methods,
    option,
)
from marginalsyn.operations.origins import find_table
from marginalsyn.registry import WEIGHTS

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.contract import Plan, Target, WeightConfig
    from marginalsyn.operations import release as releases  # noqa: F401
    from marginalsyn.operations.origins import FoundTable, Input
    from marginalsyn.operations.weight_output import Cautions
    from marginalsyn.privacy.budget import Budget
    from marginalsyn.privacy.charges import Charge
    from marginalsyn.privacy.noise import Noise
    from marginalsyn.release.folder import Release
    from marginalsyn.table.schema import Schema
    from marginalsyn.weights.columns import WeightColumn

# Shares that are compared, and by how many nats (of a table without a label, by what share of the
# error) the next larger one has to be better.
SHARES, WORTH_MORE = (0.1, 0.2, 0.3, 0.5), 0.003

_method = partial(option, panel="Method")
_afterwards = partial(option, panel="Afterwards")


@dataclass(frozen=True, kw_only=True)
class Weight(Paid, Spending, OfSchema, OfTable, OfRelease["releases.Release"]):
    """Add private importance weights to the rows of a release.

    A weight says how much more likely a row is among the private rows than among the synthetic
    ones. Where the generator got something wrong, a weighted fit on the release comes closer to a
    fit on the private rows, if the budget is large enough to see the error. Before it spends, the
    command says what weights would gain and cost. Where the gain may be none it asks, or stops
    where it cannot ask, unless --eps, --share or --yes insists. Weights are a new charge on the
    source's ledger. `weights.csv` has the weights of the latest run, `weights-NAME.csv` those of
    each.

    Returns:
        The release with its new column.
    """

    kind = WEIGHTS
    preferred = (defaults.WEIGHTS,)
    everyday = (
        *("data", "schema", "eps", "share", "method", "name"),
        *("listing", "dry_run", "resume", "as_json"),
    )
    examples = """
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
    """

    schema: str | Path | None = option(
        None,
        "The public schema (JSON) of a file of rows; a release has its own.",
        panel="Source",
        metavar="FILE",
        python=False,
    )
    label: str | None = option(
        None,
        "The label column of a file of rows, if it is not the schema's.",
        panel="Source",
        metavar="COLUMN",
        python=False,
    )
    eps: float | None = option(
        None,
        "The privacy budget of the weights: a new charge, on top of the release's. An amount that "
        "is given, here or by --share, is spent. Without one, weights are bought where they are "
        "predicted to gain, or with --yes.",
        panel="Budget",
        metavar="EPS",
    )
    share: float | str | None = option(
        None,
        "Instead of --eps: spend this share (in mu^2) of the ledger's cap, or of what the release "
        "spent if there is no cap. 'auto' takes the share from 0.1 to 0.5 after which more is "
        f"predicted to gain little. [default={defaults.SHARE:g}]",
        panel="Budget",
        metavar="SHARE|auto",
        type=str,
        parse=read_share,
    )
    delta: float | None = later_delta()
    neighbours: Literal["add-remove", "replace"] | None = option(  # type: ignore[assignment]
        None,
        "For rows that another tool made: which tables must be hard to distinguish, those that "
        "differ by one row added or removed, or by one row replaced. [default=add-remove; that "
        "of the release]",
        panel="Budget",
        python=False,
    )
    method: str = _method(
        defaults.WEIGHTS,
        "The weight estimator to run; `marginalsyn plugins --kind weights` lists them. "
        f"[default={defaults.WEIGHTS}] Add --help to see its own options.",
        default=None,
        metavar="NAME",
        python="The weight estimator; `marginalsyn plugins --kind weights` lists them.",
    )
    options: Mapping[str, Any] | None = _method(
        None, "The method's own options by name.", shell=False
    )
    name: str | None = _method(
        None, "The name of the new column. [default=the method's name]", metavar="COLUMN"
    )
    non_private: bool = _method(
        False,
        "Allow a method without any privacy protection, for research. Its weights go to "
        "a separate file, never into the release.",
    )
    reuse: str | None = _afterwards(
        None,
        "Post-process this column's raw log-weights again, as a new column (--name). "
        "Costs no privacy.",
        metavar="COLUMN",
    )
    normalise: bool | None = _afterwards(
        None,
        "Scale the weights to mean 1. [default=yes, unless the method estimates the ratio itself]",
    )
    temper: float | None = _afterwards(
        None,
        "Raise the weights to this power: below 1 they vary less and correct less. "
        "[default=1, or less if the effective sample size would fall below a quarter of "
        "the rows]",
        metavar="TAU",
    )
    smooth: Literal["none", "psis"] = _afterwards(
        defaults.SMOOTH,
        "psis: replace the largest weights by quantiles of a Pareto distribution fitted to them.",
    )
    clip: float | None = _afterwards(
        None, "Cap every weight at this many times the mean.", metavar="MOST"
    )
    calibrate: Literal["none", "beta", "isotonic"] = _afterwards(
        defaults.CALIBRATE, "Calibrate the classifier behind the weights on the rows of --public."
    )
    public: pd.DataFrame | str | Path | None = _afterwards(
        None,
        "Real rows that are public, as CSV or Parquet; never the private table or any part of it.",
        metavar="FILE",
    )
    resample: Literal["systematic", "stratified", "duplication"] | None = _afterwards(
        None, "Also write an unweighted table, whose rows are drawn in proportion to the weights."
    )
    rows: int | None = how_many(
        "The number of rows of that table. [default=as many as the release has]", panel="Afterwards"
    )
    out: str | Path | None = option(
        None,
        "With --non-private: the CSV file of the weights. Otherwise, for rows that another tool "
        "made: the new release folder [default=release]. Private weights of a release go into its "
        "own weights.csv.",
        metavar="PATH",
    )
    force: bool = option(False, "Overwrite what exists.")
    listing: bool = option(
        False,
        "List the release's weight columns and the available methods.",
        flags=("--list",),
        python=False,
    )
    yes: bool = option(False, "Spend without being asked, whatever is predicted.", panel="Budget")

    def plan(self, session: Session = PYTHON) -> Result[Any]:
        """Show how accurate the weights would be, without spending anything."""
        from marginalsyn.operations.weight_output import outlook

        target, cautions = self._target()
        budget = self._budget(target, find_table(self, target.release, target.schema))
        chosen = {self.method: self.options} if self.method else dict.fromkeys(methods(WEIGHTS))
        return outlook(cautions, budget, chosen)

    def run(self, session: Session = PYTHON) -> Result[Any]:
        """Charge, estimate, write the weights into the release or, unprotected, into a file."""
        from marginalsyn.contract import Duties, make_weights, plain
        from marginalsyn.host import weigh
        from marginalsyn.operations import weight_output
        from marginalsyn.operations.other_rows import adopted
        from marginalsyn.privacy.budget import Budget
        from marginalsyn.weights.columns import reprocess
        from marginalsyn.weights.processing import Processing

        target, cautions = self._target()
        steps = {known.name: getattr(self, known.name) for known in fields(Processing)}
        release, processing = target.release, Processing(**steps)
        if self.listing:
            return weight_output.listed(release)
        if self.reuse is not None:
            if release is None:
                raise UsageError(f"--reuse needs a release with weights; {self.release} has none")
            self._refuse_out()
            name, force = self.name or f"{self.reuse}-again", self.force
            again = reprocess(release, self.reuse, name=name, processing=processing, force=force)
            return weight_output.written(*self._publish(release, again), None, session)
        config = make_weights(self.method or default_method(type(self)), self.options)
        reads = Duties(config).reads
        free = not (config.private and reads)
        table = find_table(self, release, target.schema)
        origin, ledger = (table.origin, table.ledger) if table is not None else (None, None)
        budget = self._budget(target, table, free=free)
        public = self._public(target.schema, origin)
        file, folder = self._places(target, config, budget)
        for line in cautions.warnings(ahead=False):
            session.warn(line)
        with self.paying(session, table, keeps=not free) as tools:
            recorder = tools["recorder"]
            if self.resume and self.eps is None and recorder is not None and recorder.id:
                # A share of what was the total then.
                budget = Budget.of_json(recorder.read_facts()["allowance"])
            relation = release.statement.neighbours if release is not None else budget.neighbours
            private = table.open(relation) if table is not None and reads else None
            with adopted(target, cautions.changed, folder, relation, self.force, ledger) as made:
                if folder is not None and origin is not None:
                    origin.remember(made)
                if folder is not None and recorder is not None:
                    recorder.options.update(release=str(made.path), schema=None, out=None)
                try:
                    weighted = weigh(
                        made,
                        config,
                        budget,
                        private,
                        **tools,
                        name=self.name or "",
                        processing=processing,
                        public=public,
                        force=self.force,
                        accept_nonprivate_schema=self.accept_nonprivate_schema or made.accepted,
                        non_private=self.non_private,
                        target=target if target.release is made else None,
                        ahead=partial(self._ask, session, budget),
                    )
                except _Declined as declined:
                    facts = {"release": str(made.path), "column": None}
                    facts["facts"] = plain(declined.args[0].facts)
                    note = "nothing was spent, and no weights were written"
                    return Result(made, facts, notes=[note])
                tools["progress"].report("write", text=str(file or made.path))
                if file is None:
                    found = self._publish(made, weighted, tools["noise"])
        if file is None:
            return weight_output.written(*found, ledger, session)
        return weight_output.for_research(release, file, weighted)

    def plan_weights(self) -> Result[Plan]:
        """How accurate weights would be, as `marginalsyn weight --dry-run` shows; spends nothing.

        Example:
            >>> from marginalsyn import Release
            >>> Release.read("release").plan_weights(eps=1.0).noise > 0
            True
        """
        from marginalsyn.contract import make_weights
        from marginalsyn.host import calibrate

        target, _ = self._target()
        budget = self._budget(target, find_table(self, target.release, target.schema))
        config = make_weights(self.method, self.options)
        return Result(calibrate(config, target, budget)[0].plan)

    def _target(self) -> tuple[Target, Cautions]:
        """The rows to be weighted, and what is known of them before anything is spent."""
        from marginalsyn.contract import Target
        from marginalsyn.operations.other_rows import read_target
        from marginalsyn.operations.weight_output import Cautions
        from marginalsyn.release.linked import LinkedRelease, PersonsRelease

        if self.rows is not None and self.resample is None:
            raise UsageError(f"--rows ({self.rows}) can only be given with --resample")
        if not isinstance(self.release, str | Path | None):
            release = self.release
            if isinstance(release, LinkedRelease):
                release = PersonsRelease(release.path, release.statement, release)
            target = Target.of(release)
            return target, Cautions(target, None)
        target, findings = read_target(release_path(self.release), self.schema, self.label)
        if self.resample is not None and isinstance(target.release, PersonsRelease):
            raise UsageError(
                "--resample must not be given for linked tables: read the weights with the rows, "
                "in Python by LinkedRelease.weights_of(TABLE)"
            )
        own = target.schema.label
        if target.release is not None and self.label not in (None, own):
            raise UsageError(
                f"--label ({self.label}) is for files of rows: the label of a release is that of "
                f"its schema ({own or 'none'}). Make or adopt the release with --label"
            )
        return target, Cautions(target, findings)

    def _ask(self, session: Session, budget: Budget, plan: Plan, charges: Sequence[Charge]) -> None:
        """Say what weights would gain and cost; stop where the gain may be none, unless insisted.

        Whoever gives the amount, or resumes what is paid for, has decided.
        """
        from marginalsyn.operations.weight_output import say_ahead
        from marginalsyn.privacy.charges import show_number
        from marginalsyn.weights.prediction import pays

        say_ahead(plan, session)
        if not charges or self.resume:
            return
        mu = f" (mu {show_number(budget.mu, 3)})" if budget.mu else ""
        cost = f"eps {show_number(budget.eps, 3)}{mu}"
        session.say(f"cost: {cost}, a new charge")
        given = self.eps is not None or self.share not in (None, "auto")
        if self.yes or given or pays(plan.facts) is not False:
            return
        if not session.agrees(
            f"The gain may be none. Spend {cost} all the same?",
            f"--eps must be given, or --yes, to buy these weights: the gain may be none, so "
            f"nothing was spent. They would cost {cost}",
        ):
            raise _Declined(plan)

    def _public(self, schema: Schema, origin: Input | None) -> pd.DataFrame | None:
        """Rows that are no secret; never those of the private source."""
        from marginalsyn.sources.identity import same_source
        from marginalsyn.table.codec import Codec

        if self.public is None:
            return None
        file = self.public if isinstance(self.public, str | Path) else None
        if file is not None and origin is not None and same_source(file, origin.key):
            raise UsageError(f"--public ({self.public}) must not be the private table")
        return Codec(schema).conform(rows_in(self.public))

    def _budget(self, target: Target, table: FoundTable | None, free: bool = False) -> Budget:
        """What weights may spend: a budget of their own, or a share of the total.

        A method that needs none is still configured with one: it is ``free``.
        """
        from marginalsyn.privacy.budget import Budget
        from marginalsyn.privacy.gdp import mu_of
        from marginalsyn.weights.columns import share_of

        release = target.release
        own = release.statement.neighbours if release is not None else self.neighbours
        if self.neighbours not in (None, own):
            raise UsageError(
                f"--neighbours ({self.neighbours}) must be {own}, as in the release: leave it out"
            )
        if self.eps is not None and self.share is not None:
            raise UsageError("--eps and --share both give the budget; give one of them")
        if self.eps is not None:
            return self.budget(release)
        if self.delta is not None:
            raise UsageError(
                f"--delta ({self.delta:g}) can only be given with --eps: a share takes the "
                "release's delta"
            )
        if free and self.share is None:
            return Budget(eps=1.0)
        if release is None:
            raise UsageError(
                "--eps must be given for rows that another tool made: there is no total to take a "
                "share of"
            )
        cap = table.ledger.read().cap if table is not None and table.origin is not None else None
        limit = (cap.eps, cap.delta) if cap is not None and cap.eps is not None else None
        if isinstance(self.share, str):
            if self.share != "auto":
                raise UsageError(f"--share ({self.share}) must be a number, such as 0.1, or auto")
            room = 1.0
            if limit and table:
                spent = max(table.ledger.total(limit[1]).eps, 1e-9)  # there may be no charge
                room = 1 - (mu_of(spent, limit[1]) / mu_of(*limit)) ** 2
            shares = [one for one in SHARES if one <= room] or SHARES[:1]
            return self._worthwhile(target, [share_of(release, one, limit) for one in shares])
        return share_of(release, defaults.SHARE if self.share is None else self.share, limit)

    def _worthwhile(self, target: Target, budgets: Sequence[Budget]) -> Budget:
        """The budget after which the next larger one is predicted to gain little more."""
        from marginalsyn.contract import make_weights

        config = make_weights(self.method or default_method(type(self)), self.options)
        best, before = budgets[0], -math.inf
        for budget in budgets:
            facts = config.configure(target, budget).plan.facts
            found = facts.get("predicted_gain", facts.get("predicted_share"))
            if found is None:
                raise UsageError(
                    f"--share (auto) must be a number for method {config.name}, whose gain is not "
                    "predicted"
                )
            if found[1] - before < WORTH_MORE:
                break
            best, before = budget, found[1]
        return best

    def _places(
        self, target: Target, config: WeightConfig, budget: Budget
    ) -> tuple[Path | None, Path | None]:
        """The file of weights that protect nobody, and the folder of a new release."""
        from marginalsyn.release.folder import preflight

        release = target.release
        if not config.private and self.non_private:
            # Never in a release.
            path = release.path if release is not None else Path(str(self.release))
            stem = path.name if release is not None else path.stem
            name = f"{stem}.{self.name or config.name}.not-private.csv"
            file = Path(self.out) if self.out is not None else Path(defaults.EVALUATION) / name
            if release is not None and path in file.resolve().parents:
                raise UsageError(f"--out ({file}) must lie outside the release: it is not private")
            if file.is_dir() or file.resolve() == path.resolve():
                raise UsageError(f"--out ({file}) must be a file of its own, such as weights.csv")
            check_new(file, self.force)
            return file, None
        if config.private and release is None:
            folder = Path(self.out or defaults.RELEASE)
            if folder.suffix in TABLES:
                raise UsageError(
                    f"--out ({folder}) must be a folder, such as {folder.with_suffix('')}: private "
                    "weights are written with their rows and a statement of what they cost"
                )
            preflight(folder, self.force)
            config.configure(target, budget)
            return None, folder
        if config.private:
            self._refuse_out()
        return None, None

    def _refuse_out(self) -> None:
        """Refuse --out where the weights go into the release that they are of."""
        if self.out is not None:
            raise UsageError(
                f"--out ({self.out}) must be left out: private weights of a release go into its "
                "own weights.csv. It is for rows that another tool made, and for --non-private"
            )

    def _publish(
        self, release: Release, weighted: WeightColumn, noise: Noise | None = None
    ) -> tuple[Release, WeightColumn, Sequence[str]]:
        """Write the weights into the release; return it with their column and further files."""
        from marginalsyn.operations.weight_output import resampled
        from marginalsyn.weights.columns import publish

        files = resampled(release, weighted, self.resample, self.rows, self.seed)
        noise = noise if weighted.charges else None
        return publish(release, weighted, noise=noise, files=files), weighted, sorted(files)


class _Declined(Exception):  # noqa: N818
    """The user did not want to spend on what this plan predicts."""

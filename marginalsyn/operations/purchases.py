"""What costs privacy on a release, as methods: weights and certificates."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from marginalsyn import defaults, release
from marginalsyn.errors import UsageError
from marginalsyn.operations.origins import Named, find_origin, rows_of
from marginalsyn.signatures import spoken

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.access.private_table import PrivateTable
    from marginalsyn.certificates.noisy_moments import MomentPlan
    from marginalsyn.contract import Plan
    from marginalsyn.operations.opening import Opened
    from marginalsyn.operations.tables import Table
    from marginalsyn.progress import Progress


class Purchases(release.Release):
    """A release whose owner can buy more for it: see :class:`marginalsyn.Release`."""

    # The table that this release was fitted to in this process.
    _table: PrivateTable | None = None

    @spoken
    def weight(
        self,
        data: pd.DataFrame | str | Path | None = None,
        *,
        method: str = defaults.WEIGHTS,
        options: Mapping[str, Any] | None = None,
        eps: float | None = None,
        share: float | None = None,
        delta: float | None = None,
        allow_large_delta: bool = False,
        name: str | None = None,
        reuse: str | None = None,
        normalise: bool | None = None,
        temper: float | None = None,
        smooth: Literal["none", "psis"] = defaults.SMOOTH,
        clip: float | None = None,
        calibrate: Literal["none", "beta", "isotonic"] = defaults.CALIBRATE,
        public: pd.DataFrame | str | Path | None = None,
        resample: Literal["systematic", "stratified", "duplication"] | None = None,
        rows: int | None = None,
        non_private: bool = False,
        out: str | Path | None = None,
        dataset: str | None = None,
        sep: str | None = None,
        ledger: str | Path | None = None,
        void_earlier_promises: bool = False,
        accept_nonprivate_schema: bool = False,
        force: bool = False,
        resume: bool = False,
        seed: int | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Add private importance weights to the rows, as ``marginalsyn weight`` does.

        Args:
            data: the private rows; see the class.
            method: the weight estimator; ``marginalsyn plugins --kind weights`` lists them.
            options: the method's own options by name.
            eps: the budget of the weights, on top of the release's.
            share: instead: a share (in rho) of the ledger's cap, or of what the release spent.
                Without either it is 0.1.
            delta: goes with ``eps``; the release's by default.
            allow_large_delta: take a delta of 1e-6 or more.
            name: of the column; the method's name by default.
            reuse: post-process this column's raw log-weights again, as a new column; free.
            normalise, temper, smooth, clip, calibrate: see
                :class:`~marginalsyn.weights.processing.Processing`.
            public: real rows that are public, to calibrate on; never any of the private table.
            resample: also write an unweighted table, drawn in proportion to the weights.
            rows: of that table.
            non_private: allow a method without protection, for research. Its weights are written
                to ``out`` (a file in ./evaluation by default) and never into the release.
            out: only with ``non_private``.
            dataset, sep, ledger, void_earlier_promises, accept_nonprivate_schema: of the table.
            force: replace a column of this name; what it cost stays spent.
            resume: go on with the same run that was charged and interrupted, at no further charge.
            seed: for research: reproducible and **not private**.
            progress: told what happens.

        Returns:
            The release with its new column.
        """
        from marginalsyn.contract import Duties, make_weights
        from marginalsyn.host import weigh
        from marginalsyn.operations import opening, spending, weighting
        from marginalsyn.privacy.noise import make_noise
        from marginalsyn.weights.columns import publish
        from marginalsyn.weights.finishing import reprocess
        from marginalsyn.weights.processing import Processing

        if rows is not None and resample is None:
            raise UsageError(f"rows ({rows}) can only be given with resample")
        processing = Processing(
            normalise=normalise, temper=temper, smooth=smooth, clip=clip, calibrate=calibrate
        )
        if reuse is not None:
            again = name or f"{reuse}-again"
            found = reprocess(self, reuse, name=again, processing=processing, force=force)
            files = weighting.resampled(self, found, resample, rows, seed)
            return self._again(publish(self, found, files=files))
        config = make_weights(method, options)
        reads = Duties(config).reads
        opened = None
        if reads:
            named = _named(data, dataset, sep, ledger, void_earlier_promises)
            opened = self._opened(data, named)
        budget = spending.allowance(
            self,
            opened.origin if opened else None,
            eps=eps,
            share=share,
            delta=delta,
            allow_large_delta=allow_large_delta,
            free=not (config.private and reads),
        )
        rows_apart = weighting.read_public(public, self.schema, opened.origin if opened else None)
        apart = None
        if not config.private and non_private:
            apart = weighting.file_apart(self, self.path, name or config.name, out, force)
        elif out is not None:
            raise UsageError(
                f"out ({out}) must be left out: private weights go into the release's own "
                "weights.csv. It is for non_private=True"
            )
        noise = make_noise(seed)
        keeping = opening.keep(
            opened.table.ledger if opened and apart is None else None,
            _source(data, opened),
            "Release.weight",
            "weight(..., resume=True)",
            resume=resume,
        )
        with keeping as keeper:
            found = weigh(
                self,
                config,
                budget,
                opened.table if opened else None,
                noise=noise,
                name=name or "",
                processing=processing,
                public=rows_apart,
                progress=progress,
                force=force,
                accept_nonprivate_schema=accept_nonprivate_schema,
                non_private=non_private,
                keeper=keeper,
            )
            if apart is not None:
                weighting.write_apart(apart, found)
                return self
            files = weighting.resampled(self, found, resample, rows, seed)
            done = publish(self, found, noise=noise if found.charges else None, files=files)
            if keeper is not None:
                keeper.finish()
        return self._again(done)

    @spoken
    def plan_weights(
        self,
        *,
        method: str = defaults.WEIGHTS,
        options: Mapping[str, Any] | None = None,
        eps: float | None = None,
        share: float | None = None,
        delta: float | None = None,
        allow_large_delta: bool = False,
    ) -> Plan:
        """How accurate weights would be, as ``marginalsyn weight --dry-run`` tells; spends nothing.

        Example:
            >>> from marginalsyn import Release
            >>> Release.read("release").plan_weights(eps=1.0).noise > 0
            True
        """
        from marginalsyn.contract import Target, make_weights
        from marginalsyn.host import calibrate
        from marginalsyn.operations import spending

        origin = find_origin(self.schema, rows_of(self))
        budget = spending.allowance(
            self, origin, eps=eps, share=share, delta=delta, allow_large_delta=allow_large_delta
        )
        estimator, _ = calibrate(make_weights(method, options), Target.of(self), budget)
        plan: Plan = estimator.plan
        return plan

    @spoken
    def certify(
        self,
        data: pd.DataFrame | str | Path | None = None,
        *,
        eps: float | None = None,
        delta: float | None = None,
        label: str | None = None,
        measured: bool = False,
        ridge: float | None = None,
        within: float | None = None,
        free_intercept: bool = False,
        weights: str | None = None,
        dataset: str | None = None,
        sep: str | None = None,
        ledger: str | Path | None = None,
        void_earlier_promises: bool = False,
        force: bool = False,
        resume: bool = False,
        seed: int | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Certify how much worse models from the release can be on the real rows.

        As ``marginalsyn certify`` does. Without ``eps``, a certificate that is there is computed
        anew from its noisy sums, which costs nothing.

        Args:
            data: the private rows; see the class.
            eps: the budget of the certificate, on top of the release's.
            delta: goes with ``eps``; the release's by default.
            label: the column that models predict; the schema's by default.
            measured: measure the excess of the release's own linear model instead; the others go
                with it, as in :func:`marginalsyn.certificates.certify_measured`.
            ridge: of that model, for one row.
            within: compare it only with models whose predictions are this close to its own.
            free_intercept: leave its constant out of the ridge.
            weights: of the rows that it is fitted to.
            dataset, sep, ledger, void_earlier_promises: of the table.
            force: pay for a new certificate even if there is one already.
            resume: go on with the same run that was charged and interrupted.
            seed: for research: reproducible and **not private**.
            progress: told what happens.

        Returns:
            The release with its certificate; ``attached("certificate")`` holds it, and
            ``marginalsyn.certificates.read_measured`` gives the measured ones.
        """
        from marginalsyn.certificates.certificate import FACTS, certify_release, renew
        from marginalsyn.certificates.measured import certify_measured
        from marginalsyn.operations import opening, spending
        from marginalsyn.privacy.noise import make_noise

        about: dict[str, Any] = {
            "ridge": ridge,
            "within": within,
            "free_intercept": free_intercept or None,
            "weights": weights,
        }
        about = {name: value for name, value in about.items() if value is not None}
        if about and not measured:
            raise UsageError(f"{next(iter(about))} must come with measured=True")
        if eps is None:
            if measured or any(value is not None for value in (data, dataset, delta, label, seed)):
                raise UsageError("eps must be given to buy a certificate, such as eps=0.1")
            return self._again(renew(self))
        if FACTS in self.statement.files and not force and not measured:
            raise UsageError(
                f"release ({self.path.name}) has a certificate: leave eps out to write it anew for "
                "new weights (free), or add force=True to buy another"
            )
        budget = spending.budget_for(self, eps=eps, delta=delta)
        opened = self._opened(data, _named(data, dataset, sep, ledger, void_earlier_promises))
        if opened is None:
            raise UsageError(
                f"release ({self.path.name}) was not made in this workspace: name the table that "
                "it was made from with data or dataset"
            )
        keeping = opening.keep(
            opened.table.ledger,
            _source(data, opened),
            "Release.certify",
            "certify(..., resume=True)",
            resume=resume,
        )
        with keeping as keeper:
            buy: Any = partial(certify_measured, **about) if measured else certify_release
            done = buy(
                opened.table,
                self,
                budget,
                noise=make_noise(seed),
                label=label,
                progress=progress,
                keeper=keeper,
            )
        return self._again(done)

    @spoken
    def plan_certificate(
        self, *, eps: float, delta: float | None = None, label: str | None = None
    ) -> MomentPlan:
        """How noisy a certificate would be, as ``certify --dry-run`` tells; spends nothing."""
        from marginalsyn.certificates.moments import Frame
        from marginalsyn.certificates.noisy_moments import MomentPlan
        from marginalsyn.operations import spending

        budget = spending.budget_for(self, eps=eps, delta=delta)
        return MomentPlan.of(Frame.of(self.schema, label), budget.rho, budget.neighbours)

    def __getstate__(self) -> dict[str, Any]:
        # A release in a file must not take the private rows along.
        return {name: held for name, held in vars(self).items() if name != "_table"}

    def _opened(self, data: Table | None, named: Named) -> Opened | None:
        from marginalsyn.operations import opening

        return opening.open_table(self, data, named, self._table)

    def _again(self, done: release.Release) -> Self:
        """The release after a step, which knows its table still."""
        made = type(self)(done.path, done.statement, done.schema)
        made._table = self._table
        return made


def _named(
    data: Table | None,
    dataset: str | None,
    sep: str | None,
    ledger: str | Path | None,
    void_earlier_promises: bool,
) -> Named:
    """What the caller says of the private table."""
    return Named(
        data=str(data) if isinstance(data, str | Path) else None,
        dataset=dataset,
        sep=sep,
        ledger_path=Path(ledger) if ledger is not None else None,
        void_earlier_promises=void_earlier_promises,
    )


def _source(data: Table | None, opened: Opened | None) -> Table:
    """The source's name, or its rows where it has none."""
    if opened is not None and opened.origin is not None:
        return opened.origin.key
    return data if data is not None else ""

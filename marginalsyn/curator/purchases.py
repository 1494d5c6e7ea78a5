"""What costs privacy on a release, as methods: weights and certificates."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from marginalsyn import defaults, release
from marginalsyn.curator.origins import find_origin, rows_of
from marginalsyn.errors import UsageError
from marginalsyn.operations.certify import Certify
from marginalsyn.operations.groups import Named
from marginalsyn.operations.operation import PYTHON, method
from marginalsyn.signatures import spoken

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.certificates import MomentPlan
    from marginalsyn.contract import Plan
    from marginalsyn.private import PrivateTable
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
        from marginalsyn.curator import spending, weighting
        from marginalsyn.curator.opening import find_table
        from marginalsyn.host import weigh
        from marginalsyn.noise import make_noise
        from marginalsyn.weights import Processing, publish, reprocess

        if rows is not None and resample is None:
            raise UsageError(f"rows ({rows}) can only be given with resample")
        processing = Processing(
            normalise=normalise, temper=temper, smooth=smooth, clip=clip, calibrate=calibrate
        )
        if reuse is not None:
            again = name or f"{reuse}-again"
            found = reprocess(self, reuse, name=again, processing=processing, force=force)
            files = weighting.resampled(self, found, resample, rows, seed)
            return self.after(publish(self, found, files=files))
        config = make_weights(method, options)
        reads = Duties(config).reads
        opened = None
        if reads:
            named = Named(
                data=str(data) if isinstance(data, str | Path) else None,
                dataset=dataset,
                sep=sep,
                ledger=ledger,
                void_earlier_promises=void_earlier_promises,
            )
            opened = find_table(self, named, data)
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
        keeper = None
        if opened and apart is None:
            keeper = PYTHON.keep(opened, "Release.weight", resume=resume)
        with keeper or nullcontext():
            found = weigh(
                self,
                config,
                budget,
                opened.open() if opened else None,
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
        return self.after(done)

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
        from marginalsyn.curator import spending
        from marginalsyn.host import calibrate

        origin = find_origin(self.schema, rows_of(self))
        budget = spending.allowance(
            self, origin, eps=eps, share=share, delta=delta, allow_large_delta=allow_large_delta
        )
        estimator, _ = calibrate(make_weights(method, options), Target.of(self), budget)
        plan: Plan = estimator.plan
        return plan

    certify = method(Certify)

    @spoken
    def plan_certificate(
        self, *, eps: float, delta: float | None = None, label: str | None = None
    ) -> MomentPlan:
        """How noisy a certificate would be, as ``certify --dry-run`` tells; spends nothing."""
        plan: MomentPlan = Certify(self, eps=eps, delta=delta, label=label).plan().value
        return plan

    def __getstate__(self) -> dict[str, Any]:
        # A release in a file must not take the private rows along.
        return {name: held for name, held in vars(self).items() if name != "_table"}

    def after(self, done: release.Release) -> Self:
        """The release after a step, which knows its table still."""
        made = type(self)(done.path, done.statement, done.schema)
        made._table = self._table
        return made

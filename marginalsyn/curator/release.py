"""The release as people hold it in Python: what the commands do with a release, as its methods."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from marginalsyn import defaults, release
from marginalsyn.operations.certify import Certify
from marginalsyn.operations.export import Export
from marginalsyn.operations.operation import method, part
from marginalsyn.operations.report import Report
from marginalsyn.operations.sample import Sample
from marginalsyn.operations.steer import Steer
from marginalsyn.operations.weight import Weight
from marginalsyn.signatures import spoken

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.evaluation import Evaluation
    from marginalsyn.private import PrivateTable
    from marginalsyn.progress import Progress


class Release(release.Release):
    """A release folder, with the commands as methods; their options have the same names here.

    What costs privacy names its private table as the commands do: by ``data`` (a frame, a path or
    an address) or ``dataset``, or not at all where this folder's workspace remembers it. With a
    frame, ``ledger`` names the file that is charged; without one only the release's statement
    knows of the charge. Methods that change the release return the changed one, as in
    ``release = release.weight(...)``.

    Example:
        >>> from marginalsyn import Release
        >>> release = Release.read("release")
        >>> weighted = release.weight(frame, method="beta-noised", eps=1.0)
        >>> list(weighted.weights()), round(weighted.statement.eps, 2) > 2
        (['beta-noised'], True)
    """

    # The table that this release was fitted to in this process.
    _table: PrivateTable | None = None

    weight = method(Weight)
    certify = method(Certify)
    steer = method(Steer)
    sample = method(Sample)
    report = method(Report)
    export = method(Export)
    plan_weights = part(
        Weight,
        Weight.plan_weights,
        "method",
        "options",
        "eps",
        "share",
        "delta",
        "allow_large_delta",
    )
    plan_certificate = part(Certify, Certify.plan_certificate, "eps", "delta", "label")

    @classmethod
    @spoken
    def read(cls, path: str | Path) -> Self:
        """Open a release folder.

        Raises:
            ReleaseError: it is not a release, or its statement is invalid.
        """
        return super().read(path)

    @spoken
    def evaluate(
        self,
        real: pd.DataFrame | str | Path | None = None,
        *,
        train: pd.DataFrame | str | Path | None = None,
        dataset: str | None = None,
        in_sample: bool = False,
        label: str | None = None,
        degree: int = defaults.DEGREE,
        workload: Sequence[Sequence[str]] | None = None,
        models: Sequence[str] = (),
        baselines: Sequence[str] = (),
        reports: Sequence[str] | None = None,
        repeats: int = defaults.REPEATS,
        draws: int = defaults.DRAWS,
        shadow: int = defaults.SHADOW,
        seed: int = defaults.SEED,
        out: str | Path | None = None,
        force: bool = False,
        progress: Progress | None = None,
    ) -> Evaluation:
        """Compare the rows with real ones, and models trained on them with real ones. NOT PRIVATE.

        As ``marginalsyn evaluate`` does; :func:`marginalsyn.evaluate` explains the arguments and
        compares several tables.

        Args:
            real: rows that the generator did not see; by default those held out of the table that
                the release came from.
            train: the rows that it saw, to go with ``real``.
            dataset: a bundled table instead.
            in_sample: test on rows that the generator saw; every result says so.
            label, degree, workload, models, baselines, reports: what is computed.
            repeats, draws, shadow, seed: how often, and from which seed.
            out: also write the evaluation into this folder.
            force: replace what lies there.
            progress: told what is being done.
        """
        from marginalsyn.curator.comparison import Cases, find_real
        from marginalsyn.evaluation import choose_reports
        from marginalsyn.evaluation import evaluate as compare

        has_label = bool(label or self.schema.label)
        chosen = choose_reports(reports, has_label=has_label).values()
        name = self.path.name
        found = find_real(
            Cases({name: self}, self.schema, releases=[self]),
            real=real,
            train=train,
            dataset=dataset,
            in_sample=in_sample,
            tests=any(report.needs_test for report in chosen),
        )
        made = compare(
            {name: self},
            found.test,
            self.schema,
            train=found.train,
            label=label,
            in_sample=in_sample,
            degree=degree,
            workload=workload,
            models=models,
            reports=reports,
            repeats=repeats,
            baselines=baselines,
            draws=draws,
            shadow=shadow,
            seed=seed,
            title=f"{name} against {found.title}",
            progress=progress,
        )
        made = found.told(made)
        if out is not None:
            made.write(out, force=force)
        return made

    def after(self, found: Any) -> Any:
        """What a step returned; a release still knows its table."""
        if not isinstance(found, release.Release):
            return found
        made = type(self)(found.path, found.statement, found.schema)
        made._table = self._table
        return made

    def __getstate__(self) -> dict[str, Any]:
        # A release in a file must not take the private rows along.
        return {name: value for name, value in vars(self).items() if name != "_table"}

    def __repr__(self) -> str:
        return f"Release({str(self.path)!r}: {self.statement.generator}, {self.statement.total()})"

    def _repr_html_(self) -> str:
        from marginalsyn.curator.cards import release_card

        return release_card(self)

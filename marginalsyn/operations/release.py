"""The release as people hold it in Python: what the commands do with a release, as its methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from marginalsyn import defaults
from marginalsyn.errors import ReleaseError, UsageError
from marginalsyn.operations.purchases import Purchases
from marginalsyn.signatures import spoken

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.evaluation.evaluation import Evaluation
    from marginalsyn.evaluation.publication import Publication
    from marginalsyn.plugins.exchange.formats import Exported
    from marginalsyn.progress import Progress


class Release(Purchases):
    """A release folder, with the commands as methods; their options have the same names here.

    What costs privacy names its private table as the commands do: by ``data`` (a frame, a path or
    an address) or ``dataset``, or not at all where this folder's workspace remembers it. With a
    frame, ``ledger`` names the file that is charged; without one only the release's statement
    knows of the charge. Methods that change the release return it anew, as in
    ``release = release.weight(...)``.

    Example:
        >>> from marginalsyn import Release
        >>> release = Release.read("release")
        >>> weighted = release.weight(frame, method="beta-noised", eps=1.0)
        >>> list(weighted.weights()), round(weighted.statement.eps, 2) > 2
        (['beta-noised'], True)
    """

    @classmethod
    @spoken
    def read(cls, path: str | Path) -> Self:
        """Open a release folder.

        Raises:
            ReleaseError: it is not a release, or its statement is invalid.
        """
        return super().read(path)

    @spoken
    def steer(
        self,
        targets: Mapping[str, Any],
        *,
        method: Literal["rows", "mmd", "cross-entropy"] = defaults.STEER,
        rows: int | None = None,
        steps: int | None = None,
        out: str | Path = defaults.STEERED,
        seed: int | None = None,
        force: bool = False,
        progress: Progress | None = None,
    ) -> Self:
        """Make a release with margins that you state; free, as ``marginalsyn steer`` is.

        Args:
            targets: by column, the shares of its values: a list in the schema's order, or a dict by
                label. Public knowledge or a wish, never counted on the private rows.
            method: ``rows`` draws rows; the others train a generator network on the weighted rows.
            rows: how many; as many as the release has by default.
            steps: training steps of the generator network.
            out: the folder of the new release.
            seed: makes the draw repeatable; it protects nothing.
            force: replace a release of that name.
            progress: told what happens.
        """
        from marginalsyn.operations.steered import steer_release

        if not targets:
            raise UsageError("targets ({}) must name a column, such as {'label': [0.5, 0.5]}")
        made = steer_release(
            self,
            targets,
            method=method,
            rows=rows,
            steps=steps,
            out=Path(out),
            seed=seed,
            force=force,
            progress=progress,
        )
        made._table = self._table
        return made

    @spoken
    def sample(
        self,
        rows: int | None = None,
        *,
        where: str | Mapping[str, Any] | None = None,
        out: str | Path | None = None,
        seed: int | None = None,
        force: bool = False,
    ) -> pd.DataFrame:
        """Draw more rows; free, as ``marginalsyn sample`` is.

        Args:
            rows: how many; the release's estimate of the number of private rows by default, or of
                those that agree with ``where``.
            where: what the rows must hold: ``"sex=female,age=40..50"``, or by column a value, a
                pair (range), a list of values, or None for missing.
            out: also write them to this .csv or .parquet file.
            seed: makes the draw repeatable; it protects nothing.
            force: replace that file.
        """
        import numpy as np

        from marginalsyn.operations.files import check_table, write_table
        from marginalsyn.release.sampling import sample as draw
        from marginalsyn.table.made import complete

        path = Path(out) if out is not None else None
        check_table(path, force)
        frame = complete(draw(self, rows, np.random.default_rng(seed), where=where), self.schema)
        if path is not None:
            write_table(frame, path)
        return frame

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
        from marginalsyn.evaluation.evaluation import choose_reports
        from marginalsyn.evaluation.evaluation import evaluate as compare
        from marginalsyn.operations.comparison import Cases, find_real

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

    @spoken
    def report(self, *, out: str | Path | None = None, force: bool = False) -> Publication:
        """A page about the release that may be published, as ``marginalsyn report --public`` makes.

        Args:
            out: also write the page to this HTML file.
            force: replace that file.
        """
        from marginalsyn.certificates.verification import verify
        from marginalsyn.evaluation.publication import publish
        from marginalsyn.operations.files import check_new, write_text

        path = Path(out) if out is not None else None
        check_new(path, force)
        problems = verify(self.path)
        if problems:
            raise ReleaseError(
                f"release ({self.path}) must be whole before a page is made of it: {problems[0]}"
            )
        found = publish(self)
        if path is not None:
            write_text(path, found.to_html())
        return found

    @spoken
    def export(
        self,
        to: str,
        *,
        values: Mapping[str, str] | None = None,
        out: str | Path | None = None,
        force: bool = False,
    ) -> Exported:
        """The release in the form that another tool or an authority reads, as ``export`` gives it.

        Args:
            to: the name of the form; ``marginalsyn export --list`` lists them.
            values: what only the curator can say and the form asks for, by name: ``--set`` of the
                command.
            out: also write it here: to a file, or into a folder where there are several.
            force: replace what lies there.

        Returns:
            The contents of its files by name, and in ``lost`` what the form cannot say.
        """
        from marginalsyn.operations.files import write_exported
        from marginalsyn.plugins.exchange.formats import export as make

        found = make(self, to, values)
        if out is not None:
            write_exported(found, Path(out), force)
        return found

    def __repr__(self) -> str:
        return f"Release({str(self.path)!r}: {self.statement.generator}, {self.statement.total()})"

    def _repr_html_(self) -> str:
        from marginalsyn.operations.cards import release_card

        return release_card(self)

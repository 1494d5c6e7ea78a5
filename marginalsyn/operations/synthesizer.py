"""The whole way from private rows to a release as one estimator in scikit-learn's manner."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self

import ibis
import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from marginalsyn import defaults
from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import Synthesis, check_rows, config_to_json, make_config
from marginalsyn.errors import UsageError
from marginalsyn.evaluation.view import card, columns_line, stamp_of, statement_figures
from marginalsyn.host import digest, generate
from marginalsyn.operations.groups import OfPersons
from marginalsyn.operations.operation import PYTHON
from marginalsyn.operations.origins import FoundTable, frames_ledger, with_unit
from marginalsyn.operations.references import Given, lean_on
from marginalsyn.operations.release import Release
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.privacy.noise import make_noise
from marginalsyn.privacy.zcdp import DEFAULT_DELTA
from marginalsyn.progress import Progress
from marginalsyn.release.sampling import draw
from marginalsyn.release.statement import Statement
from marginalsyn.signatures import check_arguments, checked
from marginalsyn.table.arrow import ArrowStream, in_pandas
from marginalsyn.table.frames import FrameLayout
from marginalsyn.table.made import complete
from marginalsyn.table.schema import Schema


@dataclass(kw_only=True, eq=False, repr=False)
class Synthesizer(BaseEstimator):
    """Fit a private generator, sample rows at no further cost, write a release.

    Args:
        method: a generator's plugin id; ``marginalsyn plugins`` lists them.
        eps: what may be spent, with ``delta``.
        schema: the public schema, or the path of its JSON file. It must not be read off the data.
        unit: the column that identifies persons, to protect persons with all their rows; ``"row"``
            for rows where the schema has a unit.
        max_rows: how many rows of a person are counted at most, a public number.
        delta: a public constant; the default suits any table.
        neighbours: ``"add-remove"`` (the number of rows is private) or ``"replace"``.
        options: the method's own options by name, such as ``{"rows": 1000}``.
        seed: for research only: makes the run reproducible and **not private**.
        ledger: the path of the source's ledger; without one, only this fit is accounted for.
            ``marginalsyn.access.ledgers.open_ledger("people.csv").path`` is that of the command
            line.
        void_earlier_promises: charge for another neighbouring relation than the ledger's, or under
            replace another hold-out, too.
        accept_nonprivate_schema: take a schema drafted from the data; the statement says so. The
            release that this object writes need not be asked again.
        allow_large_delta: take a delta of 1e-6 or more.
        reference: a table to lean on where its rows and the answers agree, or a list of them:
            public rows (a frame, or the path of a file), or a release or its folder.
        reference_overlaps: take a reference that shares rows with the private table: all of it is
            public anyway.
        margins: counts or shares over one or two columns that are public, which the rows then have
            at no cost: a file, an entry such as ``{"columns": ["sex"], "counts": {"F": 51, "M":
            49}}``, or a list of them.
        by: one or two columns: every pair is also served within each of their values. By default
            the schema's.
        progress: where a fit reports its work; silent by default.

    Attributes:
        privacy_: the :class:`~marginalsyn.release.statement.Statement` of the last fit.
        synthetic_: the rows that the fit drew.
        measurements_: the noisy marginals.
        schema_: the schema of the rows.

    Example:
        >>> from marginalsyn import Synthesizer
        >>> synth = Synthesizer(method="independent", eps=2, schema=schema)
        >>> len(synth.fit(frame).sample(1000))
        1000
        >>> round(synth.release("new-release").statement.eps, 6)
        2.0
    """

    method: str = "auto"
    eps: float = 1.0
    schema: Schema | str | Path | None = None
    unit: str | None = None
    max_rows: int | None = None
    delta: float = DEFAULT_DELTA
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE
    options: Mapping[str, Any] | None = None
    seed: int | None = None
    ledger: str | Path | None = None
    void_earlier_promises: bool = False
    accept_nonprivate_schema: bool = False
    allow_large_delta: bool = False
    reference: Given | list[Given] | None = None
    reference_overlaps: bool = False
    margins: str | Path | Mapping[str, Any] | list[Any] | None = None
    by: str | list[str] | None = None
    progress: Progress | None = None
    # The table that it was fitted to; a file does not keep it.
    _table: PrivateTable | None = field(default=None, init=False)

    @checked
    def fit(
        self,
        X: pd.DataFrame | str | Path | ibis.Table | ArrowStream,
        y: Any = None,
        *,
        resume: bool = False,
        go_on: bool = False,
    ) -> Self:
        """Spend the budget on a table: charge the ledger, measure, estimate, draw rows.

        Args:
            X: the private rows: a frame of pandas, polars or another library that speaks Arrow, the
                path of a file, a database URL, or an Ibis table.
            y: the label column, where ``X`` is a frame without it: a Series, an array or a list of
                as many values. It takes the Series' name, else the schema's label.
            resume: go on with a fit of the same settings and rows that was charged to the same
                ledger and interrupted, at no further charge. Where a ledger is named, the answers
                of a fit are kept in the current folder's ``.marginalsyn/`` until it has ended.
            go_on: do not stop after the first counts where a column is nearly all missing, OTHER or
                clipped. A fit of the same settings that stopped there goes on with the answers that
                are paid for. Without a named ledger a fit never stops.

        Returns:
            Itself. A second fit spends again, on the same ledger where one is named.

        Raises:
            SchemaError: no schema, one drafted from data, or one that does not fit the table.
            BudgetError: the ledger's cap does not allow it.
            StoppedError: a column would have wasted the rest of the budget, which is not spent.
        """
        from marginalsyn.graphical.estimation import excluded_values

        check_arguments(type(self).__init__, self.get_params(deep=False))
        schema = self._public_schema().stratified(self.by or ())
        rows = in_pandas(X)
        layout = FrameLayout(X, rows)
        X = rows if y is None else _joined(rows, y, schema)
        if self.neighbours not in list(Neighbours):
            listed = " or ".join(map(repr, map(str, Neighbours)))
            raise UsageError(f"neighbours ({self.neighbours!r}) must be {listed}")
        budget = Budget(
            eps=self.eps,
            delta=self.delta,
            neighbours=Neighbours(self.neighbours),
            allow_large_delta=self.allow_large_delta,
        )
        for line in excluded_values(schema):
            warnings.warn(line, stacklevel=3)
        config = make_config(self.method, self.options)
        noise = make_noise(self.seed)
        ledger = frames_ledger(self)
        table = PrivateTable.open(X, schema, ledger=ledger)
        references = lean_on(
            self,
            config,
            X,
            schema,
            lambda part: PrivateTable.open(X, part).unprotected("compare with a reference").frame(),
            ledger=ledger,
            warn=warnings.warn,
        )
        name = str(X) if isinstance(X, str | Path) else ""
        recorder = PYTHON.keep(
            FoundTable(name, ledger, lambda relation: table),
            "Synthesizer.fit",
            resume=resume,
            go_on=go_on,
            options={
                "method": config.name,
                "parameters": config_to_json(config),
                "budget": budget.to_json(),
                "schema": digest(schema),
            },
        )
        with recorder or nullcontext():
            synthesis, statement = generate(
                table,
                config,
                budget,
                noise=noise,
                progress=self.progress,
                accept_nonprivate_schema=self.accept_nonprivate_schema,
                recorder=recorder,
                references=references,
            )
            if recorder is not None:
                recorder.finish()
        if synthesis.schema is not None:
            schema = synthesis.schema
            table = PrivateTable.open(X, schema, ledger=ledger)
        self.schema_ = schema
        self._layout = layout
        self.synthetic_ = layout.fill(complete(synthesis.frame, schema), schema)
        self.measurements_ = list(synthesis.measurements)
        self.privacy_: Statement = statement
        self.n_features_in_ = len(schema.names)
        self.feature_names_in_ = np.array(schema.names, dtype=object)
        # What may depend on private rows is for the evaluation folder of the command alone.
        self._synthesis: Synthesis = replace(synthesis, diagnostics={})
        self._rng = noise.post
        self._table = table
        return self

    @checked
    def sample(
        self,
        n: int | None = None,
        *,
        where: str | Mapping[str, Any] | None = None,
        seed: int | None = None,
    ) -> Any:
        """Draw rows from the fitted model; this is post-processing and costs nothing.

        Args:
            n: how many; None takes the estimated number.
            where: what the rows must have, as in :meth:`Release.sample`.
            seed: makes the draw repeatable, which is safe here.

        Returns:
            A frame of the library that was fitted, if that was pandas, polars or pyarrow, with its
            types of dates and categories.

        Raises:
            UsageError: the method keeps no model; ``synthetic_`` is all there is.
        """
        check_is_fitted(self, "privacy_")
        check_rows(n)
        model = self._synthesis.model
        if model is None:
            raise UsageError(
                f"method ({self.method}) must keep a model to draw more rows; use synthetic_, or "
                "fit with options={'rows': ...}"
            )
        rng = self._rng if seed is None else np.random.default_rng(seed)
        rows = draw(model, self.schema_, n, rng, where)
        made = complete(rows, self.schema_, part=where is not None)
        return self._layout.fill(made, self.schema_)

    @checked
    def release(
        self,
        path: str | Path,
        *,
        format: Literal["csv", "parquet"] = defaults.FORMAT,
        force: bool = False,
    ) -> Release:
        """Write the release folder: rows, schema, measurements, model and privacy statement.

        Args:
            path: a folder that does not exist yet.
            format: of the rows.
            force: replace a release of that name.

        Returns:
            The release. While this process lives it knows the table that it was fitted to, so
            that ``release.weight(eps=...)`` needs no more.
        """
        check_is_fitted(self, "privacy_")
        made = Release.write(
            self._synthesis, self.schema_, self.privacy_, path, format=format, force=force
        )
        made._table, made.accepted = self._table, self.accept_nonprivate_schema
        return made

    def __getstate__(self) -> dict[str, Any]:
        # A synthesizer in a file must not take the private rows along.
        return {name: value for name, value in super().__getstate__().items() if name != "_table"}

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        del kwargs
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def _repr_html_(self) -> str:
        facts = [("method", self.method), ("eps", self.eps)]
        if "privacy_" not in vars(self):
            return card("Synthesizer", "not fitted", figures=facts)
        stamp, warned = stamp_of(self.privacy_)
        rows = self._synthesis.frame.head(5).astype(object)
        rows = rows.where(rows.notna(), "")
        return card(
            "Synthesizer",
            f"fitted; its rows: {stamp}",
            warned=warned,
            figures=[
                *statement_figures(self.privacy_),
                ("synthetic rows", len(self.synthetic_)),
                ("columns", columns_line(self.schema_)),
            ],
            tables=[(list(map(str, rows)), rows.to_numpy().tolist())],
            warnings=self.privacy_.warnings,
        )

    def _public_schema(self) -> Schema:
        if self.schema is None:
            raise UsageError(
                "schema (None) must be given: it says what is publicly known of the columns. Draft "
                "one with marginalsyn.infer_schema(frame), then replace what it read off the rows "
                "by public knowledge"
            )
        schema = self.schema if isinstance(self.schema, Schema) else Schema.read(self.schema)
        schema = with_unit(schema, OfPersons(unit=self.unit, max_rows=self.max_rows))
        if not self.margins:
            return schema
        several = self.margins if isinstance(self.margins, list) else [self.margins]
        return schema.with_margins(several)


def _joined(X: Any, y: Any, schema: Schema) -> pd.DataFrame:
    """The rows with their label column, which was given separately."""
    if not isinstance(X, pd.DataFrame):
        raise UsageError(
            f"y goes with a DataFrame: the label of X ({X}) must be one of its own columns"
        )
    if isinstance(y, pd.DataFrame):
        if len(y.columns) != 1:
            raise UsageError("y (a DataFrame) must have one column")
        y = y.iloc[:, 0]
    if not isinstance(y, pd.Series | np.ndarray | list | tuple):
        raise UsageError(f"y (a {type(y).__name__}) must be a Series, an array or a list")
    if np.ndim(y) != 1 or len(y) != len(X):
        raise UsageError("y must hold one value for every row of X")
    if isinstance(y, pd.Series) and not y.index.equals(X.index):
        raise UsageError("y must have the index of X; to join them by position, give y.to_numpy()")
    name = (y.name if isinstance(y, pd.Series) else None) or schema.label
    if name is None:
        raise UsageError("y must be a Series with a name, or the schema must have a label")
    if name in X.columns:
        raise UsageError(f"y ({name!r}) must not be a column of X already; leave one of them out")
    return X.assign(**{str(name): y})

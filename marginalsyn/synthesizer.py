"""The whole way from private rows to a release as one estimator in scikit-learn's manner."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from marginalsyn.budget import DEFAULT_DELTA, Budget, Neighbours
from marginalsyn.contract import Synthesis, check_rows, make_config
from marginalsyn.errors import UsageError
from marginalsyn.host import generate
from marginalsyn.noise import make_noise
from marginalsyn.private import Keeper, Ledger, PrivateTable
from marginalsyn.progress import Progress
from marginalsyn.release import Release, Statement, Workspace, identify
from marginalsyn.sampling import draw
from marginalsyn.table import Schema, complete


class Synthesizer(BaseEstimator):
    """Fit a private generator, sample rows at no further cost, write a release.

    Args:
        method: a generator's plugin id; ``marginalsyn plugins`` lists them.
        eps: what may be spent, with ``delta``.
        schema: the public schema, or the path of its JSON file. It must not be read off the data.
        delta: a public constant; the default suits any table.
        neighbours: ``"add-remove"`` (the number of rows is private) or ``"replace"``.
        options: the method's own options by name, such as ``{"rows": 1000}``.
        seed: for research only: makes the run reproducible and **not private**.
        ledger: the path of the source's ledger; without one, only this fit is accounted for.
            ``marginalsyn.private.ledgers.open_ledger("people.csv").path`` is that of the command
            line.
        void_earlier_promises: charge for another neighbouring relation than the ledger's, too.
        accept_nonprivate_schema: take a schema drafted from the data; the statement says so.
        allow_large_delta: take a delta of 1e-6 or more.
        progress: told what a fit is doing; silent by default.

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

    def __init__(
        self,
        *,
        method: str = "independent",
        eps: float = 1.0,
        schema: Schema | str | Path | None = None,
        delta: float = DEFAULT_DELTA,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
        options: Mapping[str, Any] | None = None,
        seed: int | None = None,
        ledger: str | Path | None = None,
        void_earlier_promises: bool = False,
        accept_nonprivate_schema: bool = False,
        allow_large_delta: bool = False,
        progress: Progress | None = None,
    ) -> None:
        self.method = method
        self.eps = eps
        self.schema = schema
        self.delta = delta
        self.neighbours = neighbours
        self.options = options
        self.seed = seed
        self.ledger = ledger
        self.void_earlier_promises = void_earlier_promises
        self.accept_nonprivate_schema = accept_nonprivate_schema
        self.allow_large_delta = allow_large_delta
        self.progress = progress

    def fit(self, X: pd.DataFrame | str | Path, y: Any = None, *, resume: bool = False) -> Self:
        """Spend the budget on a table: charge the ledger, measure, estimate, draw rows.

        Args:
            X: the private rows with their label column: a frame, or the path of a CSV or Parquet
                file, or a database URL.
            y: ignored; the label is a column like the others.
            resume: go on with a fit of the same settings and rows that was charged to the same
                ledger and interrupted, at no further charge. Where a ledger is named, the answers
                of a fit are kept in the current folder's ``.marginalsyn/`` until it has ended.

        Returns:
            Itself. A second fit spends again, on the same ledger where one is named.

        Raises:
            SchemaError: no schema, one drafted from data, or one that does not fit the table.
            BudgetError: the ledger's cap does not allow it.
        """
        schema = self._public_schema()
        budget = Budget(
            eps=self.eps,
            delta=self.delta,
            neighbours=_neighbours(self.neighbours),
            allow_large_delta=self.allow_large_delta,
        )
        config = make_config(self.method, self.options)
        noise = make_noise(self.seed)
        ledger = Ledger(
            Path(self.ledger) if self.ledger is not None else None,
            void_earlier_promises=self.void_earlier_promises,
        )
        table = PrivateTable.open(X, schema, ledger=ledger)
        with self._keeper(X, resume) as keeper:
            synthesis, statement = generate(
                table,
                config,
                budget,
                noise=noise,
                progress=self.progress,
                accept_nonprivate_schema=self.accept_nonprivate_schema,
                keeper=keeper,
            )
            if keeper is not None:
                keeper.finish()
        self.schema_ = schema
        self.synthetic_ = complete(synthesis.frame, schema)
        self.measurements_ = list(synthesis.measurements)
        self.privacy_: Statement = statement
        self.n_features_in_ = len(schema.names)
        self.feature_names_in_ = np.array(schema.names, dtype=object)
        self._synthesis: Synthesis = synthesis
        self._rng = noise.post
        return self

    def sample(self, n: int | None = None) -> pd.DataFrame:
        """Draw rows from the fitted model; this is post-processing and costs nothing.

        Args:
            n: how many; None takes the estimated number.

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
        return complete(draw(model, self.schema_, n, self._rng), self.schema_)

    def release(
        self,
        path: str | Path,
        *,
        format: Literal["csv", "parquet"] = "csv",
        force: bool = False,
    ) -> Release:
        """Write the release folder: rows, schema, measurements, model and privacy statement.

        Args:
            path: a folder that does not exist yet.
            format: of the rows.
            force: replace a release of that name.
        """
        check_is_fitted(self, "privacy_")
        return Release.write(
            self._synthesis, self.schema_, self.privacy_, path, format=format, force=force
        )

    def _keeper(
        self, X: pd.DataFrame | str | Path, resume: bool
    ) -> Keeper | AbstractContextManager[None]:
        """What keeps the answers of a fit; nothing where its charge is forgotten as well."""
        if self.ledger is None:
            if resume:
                raise UsageError(
                    "resume (True) needs a ledger: without one, charges are forgotten when the "
                    "process "
                    "ends"
                )
            return nullcontext()
        return Keeper(
            Workspace.here().folder,
            command="Synthesizer.fit",
            source="DataFrame" if isinstance(X, pd.DataFrame) else identify(X),
            resume=resume,
            again="fit(..., resume=True)",
        )

    def _public_schema(self) -> Schema:
        if self.schema is None:
            raise UsageError(
                "schema (None) must be given: it says what is publicly known of the columns. Draft "
                "one with marginalsyn.infer_schema(frame), then replace what it read off the rows "
                "by public knowledge"
            )
        return self.schema if isinstance(self.schema, Schema) else Schema.read(self.schema)


def _neighbours(value: Neighbours | str) -> Neighbours:
    try:
        return Neighbours(value)
    except ValueError:
        listed = " or ".join(repr(str(relation)) for relation in Neighbours)
        raise UsageError(f"neighbours ({value!r}) must be {listed}") from None

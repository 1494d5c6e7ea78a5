"""The visit: how a mechanism queries private rows, once its charge is in the ledger."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalsyn.access.prepaid_budget import PrepaidBudget, bare_noise
from marginalsyn.access.rows import PrivateRows, RowBatch
from marginalsyn.contract import Measurement
from marginalsyn.errors import BudgetError, UsageError
from marginalsyn.libraries import record_libraries, took_part
from marginalsyn.privacy.charges import Charge, Neighbours
from marginalsyn.privacy.laws import DiscreteGaussian, Gaussian, Law
from marginalsyn.privacy.noise import UNRECORDED, Noise, Sampler, samplers, used_of
from marginalsyn.privacy.rounded_normal import RoundedGaussian
from marginalsyn.privacy.selection import union_delta
from marginalsyn.sources.counting import Columns
from marginalsyn.table.codec import Codec
from marginalsyn.table.schema import Schema

if TYPE_CHECKING:
    from marginalsyn.graphical.reference import Reference

Judge = Callable[[Sequence[Measurement], Schema], None]
BATCH_ROWS = 65536
# Distributions that are not named as ibis names the engine.
_ENGINES = {"postgres": "psycopg"}


class Visit:
    """Access to a private table for one mechanism, after its charge was recorded.

    ``counts``, ``batches`` and ``all_rows`` return exact values, which must not leave the
    mechanism. ``measure``, ``draw`` and ``texts`` first pay from the prepaid charges, then add
    noise; what they return may be published.

    Attributes:
        schema: the public description of the columns.
        codec: encodes and decodes rows.
        noise: draws protective noise; ``noise.post`` is for post-processing.
        neighbours: the relation that the charges are about.

    Example:
        >>> from marginalsyn.privacy.charges import ZCDP, Charge
        >>> from marginalsyn.access.private_table import PrivateTable
        >>> table = PrivateTable.open(frame, schema)
        >>> charge = Charge(mechanism="gaussian", cost=ZCDP(rho=0.01))
        >>> with table.charge([charge], noise=make_noise()) as visit:
        ...     noisy = visit.measure(["age", "ill"], sigma=10.0)
        >>> noisy.values.shape
        (10, 2)
    """

    def __init__(
        self,
        rows: PrivateRows,
        prepaid: PrepaidBudget,
        noise: Noise,
        views: Mapping[str, PrivateRows] = MappingProxyType({}),
    ) -> None:
        self.noise = noise
        self._source_rows, self._views = rows, views
        self._prepaid = prepaid
        self._maps: dict[str, np.ndarray] = {}
        self._used = used_of(noise)
        self._before = self._used.counts()
        # What was drawn for payments that name it, as opposed to what a mechanism drew itself.
        self._named: dict[str, int] = {}
        self._libraries: dict[str, str] = {}
        self._recording = contextlib.ExitStack()
        # Gets the first counts, and may stop the run.
        self.on_first_counts: Judge | None = None
        # Marginals that post-processing gives, which need not be measured.
        self.known: Sequence[Measurement] = ()
        # Tables that are public or paid for already, to shrink answers to.
        self.references: Sequence[Reference] = ()

    @property
    def codec(self) -> Codec:
        return self._source_rows.codec

    @property
    def schema(self) -> Schema:
        return self.codec.schema

    @property
    def neighbours(self) -> Neighbours:
        return self._prepaid.neighbours

    @property
    def charges(self) -> tuple[Charge, ...]:
        """What was charged for this visit."""
        return self._prepaid.charges

    @property
    def payments(self) -> list[dict[str, Any]]:
        """Every payment so far, as JSON: mechanism, purpose, columns, sigma or eps, rho, mu, laws.

        ``laws`` are those that the noise drew for the payment. A mechanism that draws itself pays
        for all that it drew, and for ``unrecorded`` noise where it drew nothing that was recorded.
        """
        drawn = self._used.since(self._before)
        own = [law for law, n in drawn.items() if n > self._named.get(law, 0)] or [UNRECORDED]
        return [{**entry, "laws": entry.get("laws") or own} for entry in self._prepaid.entries]

    @property
    def samplers(self) -> list[Sampler]:
        """The laws that the noise drew in this visit, in order of first use."""
        counts = self._used.since(self._before)
        unknown = sum(UNRECORDED in entry["laws"] for entry in self.payments)
        return samplers({**counts, **({UNRECORDED: unknown} if unknown else {})}, self._used.origin)

    @property
    def libraries(self) -> dict[str, str]:
        """The libraries that took part since the visit was entered, with what they did."""
        return dict(self._libraries)

    @property
    def remaining(self) -> float:
        """What is left for Gaussian draws: of GDP charges in mu^2 / 2, of others in rho."""
        return max(self._prepaid.left("mu"), self._prepaid.left("rho"))

    @property
    def remaining_eps(self) -> float:
        """What is left of the pure charges, in eps."""
        return self._prepaid.left("eps") + self._prepaid.left("range")

    @property
    def rows(self) -> int:
        """The number of rows, which is public under replace only."""
        if self.neighbours is not Neighbours.REPLACE:
            raise BudgetError(
                "rows (private under add-remove) must be estimated from noisy counts, "
                "or the run made with neighbours=replace"
            )
        return int(self.counts(()))

    @property
    def persons(self) -> bool:
        """Whether persons are counted: then counts are fractions, and rows cannot be seen."""
        return self._source_rows.unit is not None

    @contextlib.contextmanager
    def view(self, name: str, charges: Sequence[Charge]) -> Iterator[Visit]:
        """The same visit to one view of linked tables, which may pay so much of what was charged.

        Its payments are listed with those of the whole visit, and name the view.
        """
        found = copy.copy(self)
        found._source_rows, found._views = self._views[name], {}
        found._prepaid = self._prepaid.part(charges, name)
        try:
            yield found
        finally:
            found._source_rows.leave()
            found.close()

    def merged(self, maps: Mapping[str, np.ndarray]) -> Visit:
        """Return the same visit with codes merged: ``maps[column][code]`` is the new code.

        Counts and codes are of the merged codes; payments come from the same charges.
        """
        sizes = self._rows.sizes
        for name, codes in maps.items():
            if np.shape(codes) != (sizes[self.schema.column(name).name],):
                raise UsageError(f"map of {name!r} must have one new code for each of its codes")
        view = copy.copy(self)
        view._maps = {name: np.asarray(codes, dtype=np.intp) for name, codes in maps.items()}
        return view

    def counts(self, columns: Sequence[str]) -> np.ndarray:
        """The exact marginal, int64, shaped by the numbers of codes; no columns give the total.

        Where persons are counted, the rows of each weigh 1 together: then the counts are float64,
        multiples of 2^-20, so that sums of them are exact.
        """
        key = tuple(columns)
        return self.counts_many([key])[key]

    def counts_many(self, marginals: Sequence[Sequence[str]]) -> dict[Columns, np.ndarray]:
        """Several exact marginals in one pass over the rows."""
        found = self._rows.count([tuple(columns) for columns in marginals], self._maps)
        whole = self._rows.whole
        return found if whole == 1 else {key: values / whole for key, values in found.items()}

    def prepare(self, marginals: Sequence[Sequence[str]]) -> None:
        """Say which marginals will be counted or measured one after another.

        An engine elsewhere then counts all of them in one job; where rows are in this process
        there is nothing to gain. Exact counts stay behind the door.
        """
        self._rows.prepare([tuple(columns) for columns in marginals], self._maps)

    @property
    def whole(self) -> int:
        """What a row, or all rows of a person, add to counts in whole numbers; public."""
        return self._source_rows.whole

    def batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        size: int = BATCH_ROWS,
        units: bool = False,
        absent: float = 0.5,
        weighted: bool = False,
        person: bool = False,
    ) -> Iterator[RowBatch]:
        """The rows, at most ``size`` at a time: codes, weights, and which belong to one person.

        Where persons are counted, only who multiplies each row's part by its weight, or samples
        persons, may see rows: a person may have several. A sum over rows of weight times a vector
        moves by no more for one person than the longest vector.

        Args:
            columns: all by default.
            size: of a batch.
            units: give rows in [0, 1], float64, in place of codes: numbers clipped and scaled,
                other kinds as their code.
            absent: stands for a missing number there; one outside [0, 1] can be recognised.
            weighted: the caller's promise to count each row by its weight.
            person: also give a number that the rows of a person share, and the same promise for
                persons. Numbers run from 0 and say nothing else.
        """
        rows = self._rows if weighted or person else self._one_by_one
        return rows.batches(
            columns, self._maps, size=size, units=units, absent=absent, person=person
        )

    def all_rows(
        self, columns: Sequence[str] | None = None, *, weighted: bool = False, **how: Any
    ) -> RowBatch:
        """The rows that :meth:`batches` gives, all at once."""
        rows = self._rows if weighted or how.get("person") else self._one_by_one
        return rows.all_rows(columns, self._maps, **how)

    def measure(self, columns: Sequence[str], sigma: float, purpose: str = "") -> Measurement:
        """A noisy marginal: pay l2 / sigma in mu (or its rho), count, add Gaussian noise.

        Args:
            columns: of the marginal; none measures the number of rows.
            sigma: the noise's standard deviation in every cell.
            purpose: recorded in the statement.
        """
        names, whole = self._rows.names(columns), self._rows.whole
        law = self.gaussian(sigma)
        price = law.price(l2=self.neighbours.l2)
        shown: dict[str, Any] = {"columns": list(names), "sigma": float(sigma)}
        shown |= self._sensitivity({"l2": self.neighbours.l2})
        self._prepaid.pay(law.mechanism, **price, purpose=purpose, **shown)
        counts = self._rows.count([names], self._maps)[names]
        # Counts of persons are in parts of one; a power of two changes neither ratio nor cost.
        values = self._drawn(self.gaussian(sigma * whole), counts)
        if whole > 1:
            values = values / whole
        return Measurement(columns=names, values=values, sigma=float(sigma), purpose=purpose)

    def gaussian(self, sigma: float | np.ndarray) -> Gaussian:
        """The Gaussian law that the visit was charged for, for :meth:`draw`.

        Rounded Gaussian noise has a price in mu; a visit that was charged in zCDP alone draws
        discrete Gaussian noise, as runs of earlier versions did.
        """
        return RoundedGaussian(sigma) if self._prepaid.exact else DiscreteGaussian(sigma)

    def draw(
        self, law: Law, values: np.ndarray, *, purpose: str = "", **sensitivity: float | None
    ) -> Any:
        """Pay for a law of :mod:`marginalsyn.privacy.laws`, then draw from it.

        Args:
            law: with its parameters.
            values: whole numbers to which noise is added, or the scores of candidates, of which
                the index of one is returned.
            purpose: recorded in the statement.
            sensitivity: how much one person changes the values, by the name of the norm that the
                law's ``price`` asks for, such as ``l2``.
        """
        price = law.price(**sensitivity)
        shown = law.details(values) | self._sensitivity(sensitivity)
        self._prepaid.pay(law.mechanism, **price, purpose=purpose, **shown)
        return self._drawn(law, values)

    def texts(
        self,
        name: str,
        sigma: float,
        threshold: int,
        *,
        delta: float,
        length: int | None = None,
        purpose: str = "",
    ) -> dict[str, float]:
        """The noisy counts of a column's own texts, of those alone whose count is large enough.

        It costs a marginal's price, and ``delta``, the chance that a text of one person is listed.

        Args:
            name: of a column whose categories are private.
            sigma: the noise's standard deviation in every count.
            threshold: what a noisy count must reach, in parts of one person.
            delta: what :func:`marginalsyn.privacy.selection.union_delta` gives for it, or more.
            length: count the first so many characters of every text.
            purpose: recorded in the statement.
        """
        rows, whole = self._rows, self._rows.whole
        most = 1 if rows.unit is None else rows.unit.max_rows
        if union_delta(sigma, threshold, most, whole, self._prepaid.exact) > delta:
            raise BudgetError(
                f"threshold ({threshold}) must be large enough for delta {delta:g}: a text that "
                "one person has could be published"
            )
        self._prepaid.pay(
            "set union",
            **self.gaussian(sigma).price(l2=self.neighbours.l2),
            **self._sensitivity({"l2": self.neighbours.l2}),
            delta=delta,
            purpose=purpose,
            columns=[name],
            prefix=length,
            sigma=float(sigma),
            threshold=threshold / whole,
        )
        known = {} if self.noise.known else rows.texts(name, length)
        # Sorted, so that the rows' own order does not show.
        labels = sorted(known)
        counts = np.array([known[label] for label in labels], dtype=np.int64)
        bare = bare_noise(self.noise)

        def draw() -> np.ndarray:
            noisy = bare.draw(self.gaussian(sigma * whole), counts)
            kept = [(labels[i], int(noisy[i])) for i in np.flatnonzero(noisy >= threshold)]
            return np.frombuffer(json.dumps(kept).encode(), dtype=np.uint8)

        # What stays below the threshold is written nowhere, not even into the journal.
        with self._naming():
            found = self.noise.answer("set union", draw)
        return {label: count / whole for label, count in json.loads(found.tobytes())}

    def review(self, measured: Sequence[Measurement]) -> None:
        """Show the first noisy counts, before the rest of the budget is spent.

        Raises:
            StoppedError: a column would waste it, and nobody said to go on.
        """
        if self.on_first_counts is not None:
            self.on_first_counts(measured, self.schema)

    def spent(self) -> list[Charge]:
        """What was paid so far, as charges that take the place of those prepaid."""
        return self._prepaid.spent()

    def recoded(self, schema: Schema) -> Visit:
        """The same visit under a schema whose categories were bought in it.

        The schema's own charges already list what the noise has drawn so far.
        """
        if schema.unit != self.schema.unit:
            raise ValueError("schema must protect the same persons, or rows, as the visit's own")
        self._before, self._named = self._used.counts(), {}
        view = copy.copy(self)
        view._source_rows = self._rows.recoded(Codec(schema))
        return view

    def pay(
        self,
        mechanism: str,
        *,
        mu: float | None = None,
        rho: float | None = None,
        eps: float | None = None,
        purpose: str = "",
        **details: Any,
    ) -> None:
        """Pay for a mechanism that draws its own noise through ``noise``.

        If it draws in any other way than through ``noise``, it must call :meth:`drew`.
        """
        self._prepaid.pay(mechanism, mu=mu, rho=rho, eps=eps, purpose=purpose, **details)

    def drew(self, law: str) -> None:
        """Record an answer that a mechanism drew itself, under its name in ``noise.LAWS``."""
        self._used.note(law)

    def pay_all(self, purpose: str = "") -> None:
        """Spend at once the charges that are not GDP, zCDP or pure (subsampled Gaussians)."""
        self._prepaid.pay_all(purpose)

    def close(self) -> None:
        """End the visit: from now on it gives no rows and takes no payments."""
        self._prepaid.closed = True

    def __enter__(self) -> Visit:
        self._libraries = self._recording.enter_context(record_libraries())
        return self

    def __exit__(self, *_: object) -> None:
        if engine := self._source_rows.engine:
            took_part("ibis-framework", "asks the engine for the private rows")
            took_part(_ENGINES.get(engine, engine), "reads the private rows")
        self._recording.close()
        self._source_rows.leave()
        self.close()

    def _sensitivity(self, found: Mapping[str, float | None]) -> dict[str, float | None]:
        """What a payment in mu also records, so that its price can be derived from it."""
        return dict(found) if self._prepaid.exact else {}

    def _drawn(self, law: Law, values: np.ndarray) -> Any:
        with self._naming():
            return self.noise.draw(law, values)

    @contextlib.contextmanager
    def _naming(self) -> Iterator[None]:
        """Record the laws that the noise draws from in this block in the last payment."""
        entry, before = self._prepaid.entries[-1], self._used.counts()
        yield
        drawn = self._used.since(before)
        entry["laws"] = list(drawn) or [UNRECORDED]
        for law, count in drawn.items():
            self._named[law] = self._named.get(law, 0) + count

    @property
    def _rows(self) -> PrivateRows:
        self._prepaid.check_open()
        return self._source_rows

    @property
    def _one_by_one(self) -> PrivateRows:
        """The rows, for those who bound the influence of single rows and not that of persons."""
        if self.persons:
            raise UsageError(
                "unit (persons) allows counts only: rows are not seen one by one, since a person "
                "may have several"
            )
        return self._rows

"""The visit: how a mechanism queries private rows, once its charge is in the ledger."""

from __future__ import annotations

import contextlib
import copy
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalsyn.contract import Measurement
from marginalsyn.errors import BudgetError, UsageError
from marginalsyn.libraries import took_part, witnessed
from marginalsyn.privacy.charges import Charge, Neighbours
from marginalsyn.privacy.laws import UNRECORDED, Sampler, samplers, used_of
from marginalsyn.privacy.set_union import union_delta
from marginalsyn.privacy.zcdp import gaussian_rho, k_norm_eps
from marginalsyn.records.journal import bare_noise
from marginalsyn.table.codec import Codec

if TYPE_CHECKING:
    from marginalsyn.access.prepaid_budget import PrepaidBudget
    from marginalsyn.access.rows import PrivateRows
    from marginalsyn.privacy.noise import Noise
    from marginalsyn.sources.counting import Columns
    from marginalsyn.table.schema import Schema

BATCH_ROWS = 65536
# Distributions that are not named as ibis names the engine.
_ENGINES = {"postgres": "psycopg"}


class Visit:
    """Access to a private table for one mechanism, after its charge was recorded.

    ``counts``, ``codes`` and ``batches`` return exact values, which must not leave the mechanism.
    ``measure``, ``gaussian``, ``laplace``, ``k_norm`` and ``select`` first pay from the prepaid
    charges, then add noise; what they return may be published.

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

    def __init__(self, rows: PrivateRows, codec: Codec, purse: PrepaidBudget, noise: Noise) -> None:
        self.codec = codec
        self.noise = noise
        self._source_rows = rows
        self._purse = purse
        self._maps: dict[str, np.ndarray] = {}
        self._used = used_of(noise)
        self._before = self._used.counts()
        # What was drawn for payments that name it, as opposed to what a mechanism drew itself.
        self._named: dict[str, int] = {}
        self._libraries: dict[str, str] = {}
        self._hearing = contextlib.ExitStack()
        # Told of the first counts, which it may answer by stopping the run.
        self.judge: Callable[[Sequence[Measurement], Schema], None] | None = None
        # Marginals that post-processing tells, which need not be measured.
        self.known: Sequence[Measurement] = ()

    @property
    def schema(self) -> Schema:
        return self.codec.schema

    @property
    def neighbours(self) -> Neighbours:
        return self._purse.neighbours

    @property
    def charges(self) -> tuple[Charge, ...]:
        """What was charged for this visit."""
        return self._purse.charges

    @property
    def payments(self) -> list[dict[str, Any]]:
        """Every payment so far, as JSON: mechanism, purpose, columns, sigma or eps, rho, laws.

        ``laws`` are those that the noise drew for the payment. A mechanism that draws itself pays
        for all that it drew, and for ``unrecorded`` noise where it drew nothing that was recorded.
        """
        drawn = self._used.since(self._before)
        own = [law for law, n in drawn.items() if n > self._named.get(law, 0)] or [UNRECORDED]
        return [{**entry, "laws": entry.get("laws", own)} for entry in self._purse.entries]

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
        """What is left of the zCDP charges, in rho."""
        return self._purse.left("rho")

    @property
    def remaining_eps(self) -> float:
        """What is left of the pure charges, in eps."""
        return self._purse.left("eps") + self._purse.left("range")

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

    def codes(self) -> np.ndarray:
        """All rows' codes, int32 of shape (rows, columns), in schema order."""
        return self._one_by_one.codes(self._maps)

    def batches(
        self, columns: Sequence[str] | None = None, size: int = BATCH_ROWS
    ) -> Iterator[np.ndarray]:
        """Codes of at most ``size`` rows at a time."""
        return self._one_by_one.batches(columns, size, self._maps)

    @property
    def whole(self) -> int:
        """What a row, or all rows of a person, add to counts in whole numbers; public."""
        return self._source_rows.whole

    def weighted_batches(
        self, columns: Sequence[str] | None = None, size: int = BATCH_ROWS
    ) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """Codes as :meth:`batches` gives them, with what each row weighs."""
        return self._rows.weighted_batches(columns, size, self._maps)

    def weighted_codes(self) -> tuple[np.ndarray, np.ndarray | None]:
        """All rows' codes, and what each weighs: the rows of a person weigh 1 together, exactly.

        None in place of the weights where rows are counted. A sum over rows of weight times a
        vector moves by no more for one person than the longest vector: that is for whoever asks.
        """
        none = np.empty((0, len(self._rows.sizes)), dtype=np.int32)
        found = list(self._rows.weighted_batches(None, BATCH_ROWS, self._maps))
        codes = np.concatenate([none, *(batch for batch, _ in found)])
        weights = [one for _, one in found if one is not None]
        if not self.persons:
            return codes, None
        return codes, np.concatenate([np.empty(0), *weights])

    def weighted_unit_batches(
        self,
        columns: Sequence[str] | None = None,
        size: int = BATCH_ROWS,
        absent: float = 0.5,
    ) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """Rows in [0, 1] as :meth:`unit_batches` gives them, with what each weighs."""
        return self._rows.weighted_unit_batches(columns, size, absent)

    def codes_by_person(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All rows' codes, what each weighs, and a number that the rows of one person share.

        For what samples persons. The numbers run from 0 and say nothing else.
        """
        if self.persons:
            codes, weights, numbers = self._rows.by_person()
            for position, name in enumerate(self._rows.sizes):
                if name in self._maps:
                    codes[:, position] = self._maps[name][codes[:, position]]
            return codes, weights, numbers
        codes = self._rows.codes(self._maps)
        return codes, np.ones(len(codes)), np.arange(len(codes))

    def unit_batches(
        self,
        columns: Sequence[str] | None = None,
        size: int = BATCH_ROWS,
        absent: float = 0.5,
    ) -> Iterator[np.ndarray]:
        """Rows in [0, 1], float64: numbers clipped and scaled, other kinds as their code.

        Missing numbers become ``absent``; choose a value outside [0, 1] to tell them apart.
        """
        return self._one_by_one.unit_batches(columns, size, absent)

    def measure(self, columns: Sequence[str], sigma: float, purpose: str = "") -> Measurement:
        """A noisy marginal: pay l2^2 / (2 sigma^2) in rho, count, add discrete Gaussian noise.

        Args:
            columns: of the marginal; none measures the number of rows.
            sigma: the noise's standard deviation in every cell.
            purpose: recorded in the statement.
        """
        names = self._rows.names(columns)
        rho = gaussian_rho(sigma, self.neighbours.l2)
        self._purse.pay(
            "gaussian", rho=rho, purpose=purpose, columns=list(names), sigma=float(sigma)
        )
        counts = self._rows.count([names], self._maps)[names]
        # Counts of persons are in parts of one; a power of two changes neither ratio nor cost.
        whole = self._rows.whole
        with self._naming():
            values = self.noise.gaussian(counts, sigma * whole)
        if whole > 1:
            values = values / whole
        return Measurement(columns=names, values=values, sigma=float(sigma), purpose=purpose)

    def gaussian(
        self,
        values: np.ndarray,
        sigma: float | np.ndarray,
        *,
        l2: float | None = None,
        whitened_l2: float | None = None,
        purpose: str = "",
    ) -> np.ndarray:
        """Integers plus discrete Gaussian noise.

        Args:
            values: integers of any shape.
            sigma: the noise's standard deviation, a number or one per value.
            l2: with one ``sigma``: how much one person changes ``values``, in Euclidean norm.
            whitened_l2: with an array: how much one person changes ``values / sigma``.
            purpose: recorded in the statement.
        """
        if np.ndim(sigma) == 0 and l2 is not None and whitened_l2 is None:
            rho = gaussian_rho(float(sigma), l2)
        elif np.ndim(sigma) > 0 and whitened_l2 is not None and l2 is None:
            rho = gaussian_rho(1.0, whitened_l2)
        else:
            raise ValueError("give l2 with one sigma, or whitened_l2 with an array of them")
        shown = [float(np.min(sigma)), float(np.max(sigma))]
        self._purse.pay(
            "gaussian",
            rho=rho,
            purpose=purpose,
            sigma=shown[0] if shown[0] == shown[1] else shown,
            cells=int(np.size(values)),
        )
        with self._naming():
            return self.noise.gaussian(values, sigma)

    def laplace(
        self, values: np.ndarray, scale: float, *, l1: float, purpose: str = ""
    ) -> np.ndarray:
        """Integers plus discrete Laplace noise, which costs ``l1 / scale`` in eps."""
        if not (scale > 0 and l1 >= 0):
            raise ValueError(f"scale ({scale}) must be above 0 and l1 ({l1}) not below")
        eps = math.nextafter(l1 / scale, math.inf)
        self._purse.pay(
            "laplace",
            eps=eps,
            purpose=purpose,
            scale=float(scale),
            cells=int(np.size(values)),
        )
        with self._naming():
            return self.noise.laplace(values, scale)

    def k_norm(
        self, values: np.ndarray, rate: float, *, l2: float, purpose: str = ""
    ) -> np.ndarray:
        """Integers plus exact K-norm noise, P(z) ~ exp(-rate ||z||_2): costs ``rate * l2`` in eps.

        Args:
            values: integers of any shape, at most ``knorm.MAX_DIM`` of them.
            rate: of the noise.
            l2: how much one person changes ``values``, in Euclidean norm.
            purpose: recorded in the statement.
        """
        self._purse.pay(
            "k-norm",
            eps=k_norm_eps(rate, l2),
            purpose=purpose,
            rate=float(rate),
            cells=int(np.size(values)),
        )
        with self._naming():
            return self.noise.k_norm(values, rate)

    def select(
        self, scores: np.ndarray, *, eps: float, sensitivity: float, purpose: str = ""
    ) -> int:
        """An index drawn by the exponential mechanism, which costs eps^2/8 in rho.

        Args:
            scores: one per candidate; higher is likelier.
            eps: P(i) is proportional to exp(eps * scores[i] / (2 * sensitivity)).
            sensitivity: the most that one person changes any score.
            purpose: recorded in the statement.
        """
        self._purse.pay(
            "exponential",
            eps=float(eps),
            bounded_range=True,
            purpose=purpose,
            candidates=int(np.size(scores)),
        )
        with self._naming():
            return self.noise.select(scores, eps=eps, sensitivity=sensitivity)

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

        It costs a marginal's rho and ``delta``, the chance that a text of one person is told.

        Args:
            name: of a column whose categories are private.
            sigma: the noise's standard deviation in every count.
            threshold: what a noisy count must reach, in parts of one person.
            delta: what :func:`marginalsyn.privacy.set_union.union_delta` gives for it, or more.
            length: count the first so many characters of every text.
            purpose: recorded in the statement.
        """
        rows, whole = self._rows, self._rows.whole
        most = 1 if rows.unit is None else rows.unit.max_rows
        if union_delta(sigma, threshold, most, whole) > delta:
            raise BudgetError(
                f"threshold ({threshold}) must be large enough for delta {delta:g}: a text that "
                "one person has could be told"
            )
        self._purse.pay(
            "set union",
            rho=gaussian_rho(sigma, self.neighbours.l2),
            delta=delta,
            purpose=purpose,
            columns=[name],
            prefix=length,
            sigma=float(sigma),
            threshold=threshold / whole,
        )
        known = {} if self.noise.known else rows.texts(name, length)
        # In an order that says nothing of the rows' own.
        labels = sorted(known)
        counts = np.array([known[label] for label in labels], dtype=np.int64)
        bare = bare_noise(self.noise)

        def draw() -> np.ndarray:
            noisy = bare.gaussian(counts, sigma * whole)
            kept = [(labels[i], int(noisy[i])) for i in np.flatnonzero(noisy >= threshold)]
            return np.frombuffer(json.dumps(kept).encode(), dtype=np.uint8)

        # What stays below the threshold is written nowhere, not even into the journal.
        with self._naming():
            told = self.noise.answer("set union", draw)
        return {label: count / whole for label, count in json.loads(told.tobytes())}

    def review(self, measured: Sequence[Measurement]) -> None:
        """Show the first noisy counts, before the rest of the budget is spent.

        Raises:
            StoppedError: a column would waste it, and nobody said to go on.
        """
        if self.judge is not None:
            self.judge(measured, self.schema)

    def spent(self) -> list[Charge]:
        """What was paid so far, as charges that take the place of those prepaid."""
        return self._purse.spent()

    def recoded(self, schema: Schema) -> Visit:
        """The same visit under a schema whose categories were bought in it.

        What the noise has drawn so far is told by the schema's own charges.
        """
        if schema.unit != self.schema.unit:
            raise ValueError("schema must protect the same persons, or rows, as the visit's own")
        self._before, self._named = self._used.counts(), {}
        view = copy.copy(self)
        view.codec = Codec(schema)
        view._source_rows = self._rows.recoded(view.codec)
        return view

    def pay(
        self,
        mechanism: str,
        *,
        rho: float | None = None,
        eps: float | None = None,
        purpose: str = "",
        **details: Any,
    ) -> None:
        """Pay for a mechanism that draws its own noise through ``noise``.

        If it draws in any other way than by the noise's methods, it must call :meth:`drew`.
        """
        self._purse.pay(mechanism, rho=rho, eps=eps, purpose=purpose, **details)

    def drew(self, law: str) -> None:
        """Record an answer that a mechanism drew itself, under its law in ``budget.laws``."""
        self._used.note(law)

    def pay_all(self, purpose: str = "") -> None:
        """Spend at once the charges that are neither zCDP nor pure (subsampled Gaussians)."""
        self._purse.pay_all(purpose)

    def close(self) -> None:
        """End the visit: from now on it gives no rows and takes no payments."""
        self._purse.closed = True

    def __enter__(self) -> Visit:
        self._libraries = self._hearing.enter_context(witnessed())
        return self

    def __exit__(self, *_: object) -> None:
        if engine := self._source_rows.engine:
            took_part("ibis-framework", "asks the engine for the private rows")
            took_part(_ENGINES.get(engine, engine), "reads the private rows")
        self._hearing.close()
        self._source_rows.leave()
        self.close()

    @contextlib.contextmanager
    def _naming(self) -> Iterator[None]:
        """Record the laws that the noise draws from in this block in the last payment."""
        entry, before = self._purse.entries[-1], self._used.counts()
        yield
        drawn = self._used.since(before)
        entry["laws"] = list(drawn) or [UNRECORDED]
        for law, count in drawn.items():
            self._named[law] = self._named.get(law, 0) + count

    @property
    def _rows(self) -> PrivateRows:
        self._purse.check_open()
        return self._source_rows

    @property
    def _one_by_one(self) -> PrivateRows:
        """The rows, for looks at single ones: what bounds their influence must be for persons."""
        if self.persons:
            raise UsageError(
                "unit (persons) allows counts only: rows are not seen one by one, since a person "
                "may have several"
            )
        return self._rows

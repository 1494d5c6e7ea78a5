"""What the generators based on Private-PGM share: knobs, one-way marginals, and the release."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from marginalsyn.access.visit import Visit
from marginalsyn.contract import (
    MAX_ROWS,
    Calibrated,
    GeneratorConfig,
    Measurement,
    Model,
    Synthesis,
    check_rows,
    option,
)
from marginalsyn.errors import UsageError
from marginalsyn.generators.batch_selection import NARROW, WIDE_MB
from marginalsyn.generators.workload import (
    FOR_WEIGHT,
    Columns,
    Workload,
    known_pairs,
    model_pairs,
    not_yet_known,
)
from marginalsyn.graphical import model as pgm
from marginalsyn.graphical.compression import Compression
from marginalsyn.graphical.estimation import draw_possible
from marginalsyn.graphical.exact_margins import eased, match, public_columns
from marginalsyn.graphical.one_way import OneWay, draw_frame, summarise_one_way
from marginalsyn.graphical.private_pgm import fit_mbi, load_mbi
from marginalsyn.graphical.reference import MODEL_MB
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.privacy.zcdp import gaussian_sigma
from marginalsyn.progress import Progress
from marginalsyn.table.codec import Codec
from marginalsyn.table.conditions import Condition
from marginalsyn.table.schema import Schema

ROWS = option(
    None, "Number of synthetic rows. [default: a noisy estimate of the number of private rows]"
)
MERGE = option(1.0, "How readily to merge rare codes that the noise would drown. 0 merges none.")
MAX_MODEL_MB = option(80.0, "Size limit of the fitted model, in MB.")
DEGREE = option(2, "Aim for all marginals of up to this many columns.")
WORKLOAD = option(None, "JSON file with the marginals to aim for and their weights.")
LABEL_WEIGHT = option(1.0, "Weight of the marginals that include the label column.")
ESTIMATORS = ("pulled", "built-in", "mbi")
ESTIMATOR = option(
    ESTIMATORS[0],
    "What fits the model: this package, with relations pulled towards none as far as noise may "
    "explain them (pulled) or by likelihood alone (built-in), or Private-PGM's own implementation, "
    "the mbi that is installed (extra mbi). mbi then answers for the model, too; it is slower.",
    choices=ESTIMATORS,
)
GIVEN = option((), "Columns that others are drawn given.", flag=False)
KNOWN_SETS = option((), "Sets of columns whose marginals need no measuring.", flag=False)
FOR = option(
    (),
    "A model that the release is for, such as 'income ~ age + sex' or 'income ~ .'; the option "
    "several times for several. The marginals of its label with each feature then count "
    "label_weight times, or 4 times where that is 1, and the schema's label no more than others.",
)
MAX_CELLS = option(1e6, "Size limit of a measured marginal, in cells.")


_RANGES = (
    ("degree", 1, 8),
    ("label_weight", 1e-6, 1e6),
    ("rounds", 1, 10**6),
    ("batch", 1, 10**4),
    ("max_cells", 1, 10**9),
    ("max_model_mb", 1e-3, 10**6),
    ("merge", 0, math.inf),
    ("one_way_share", 0.001, 0.999),
    ("select_share", 0.001, 0.999),
    ("label_share", 0, 0.99),
    ("soft_rows", 1, 10**6),
    ("steps", 1, 10**7),
    ("sweeps", 0, 10**5),
)


def check_knobs(config: Any) -> None:
    """Check that the knobs that a config has are within their ranges."""
    check_rows(config.rows)
    for name, least, most in _RANGES:
        value = getattr(config, name, None)
        if value is not None and not least <= value <= most:
            limit = f"at least {least:g}" if math.isinf(most) else f"from {least:g} to {most:g}"
            raise UsageError(f"{name} ({value}) must be {limit}")
    if config.estimator not in ESTIMATORS:
        raise UsageError(f"estimator ({config.estimator}) must be one of: {', '.join(ESTIMATORS)}")
    if config.estimator == "mbi":
        load_mbi()
    shares = [getattr(config, name, None) or 0.0 for name in ("one_way_share", "select_share")]
    if sum(shares) >= 1:
        raise UsageError(
            "one_way_share and select_share must add up to less than 1: the rest pays for the "
            "measurements"
        )


def sample_model(
    model: Model, schema: Schema, rows: int | None, rng: np.random.Generator
) -> pd.DataFrame:
    """More rows from a released model, at no cost in privacy."""
    fitted, compression = stored_model(model)
    return draw_frame(
        fitted, compression, schema, model.meta["rows"] if rows is None else rows, rng
    )


def sample_where(
    model: Model,
    schema: Schema,
    rows: int | None,
    rng: np.random.Generator,
    conditions: Mapping[str, Condition],
) -> pd.DataFrame:
    """Rows that agree with conditions, drawn from the model given these: exact, none rejected."""
    fitted, compression = stored_model(model)
    weights = {name: condition.weights for name, condition in conditions.items()}
    narrow, evidence = compression.narrowed(weights)
    known = fitted.given(evidence)
    count = whole_rows(known.total) if rows is None else rows

    def draw(n: int) -> np.ndarray:
        return narrow.refine(known.rows(n, rng), rng)

    codes = draw_possible(schema, count, draw, rng)
    for name, condition in conditions.items():
        if not (condition.weights[codes[:, schema.names.index(name)]] > 0).all():
            raise UsageError(
                f"where ({', '.join(conditions)}) must leave rows that the schema allows: too few "
                "or none were found"
            )
    frame = Codec(schema).decode(codes, rng)
    for name, condition in conditions.items():
        if condition.cuts:
            frame[name] = condition.decode(codes[:, schema.names.index(name)], rng)
    return frame


def store_model(fitted: pgm.Fitted, compression: Compression, *, kind: str, rows: int) -> Model:
    """What a release keeps of a fitted model, so that :func:`sample_model` can draw from it."""
    arrays, meta = fitted.arrays()
    return Model(
        kind=kind,
        arrays={**{f"pgm_{k}": v for k, v in arrays.items()}, **compression.arrays()},
        meta={"pgm": meta, "columns": list(compression.merges), "rows": rows},
    )


def stored_model(model: Model) -> tuple[pgm.Fitted, Compression]:
    """The fitted model that a release holds, and how its codes were merged."""
    from marginalsyn.graphical.chain_model import read_fitted  # it compiles

    own = {k.removeprefix("pgm_"): v for k, v in model.arrays.items() if k.startswith("pgm_")}
    fitted = read_fitted(own, model.meta["pgm"])
    return fitted, Compression.from_arrays(model.meta["columns"], model.arrays)


def whole_rows(total: float) -> int:
    """The estimated number of rows, rounded to a number that can be drawn."""
    return int(min(max(1, round(total)), MAX_ROWS))


def leaning(fitted: pgm.Fitted, one_way: OneWay) -> dict[str, Any]:
    """How much a release leans on its references, from 0 to 1, as post-processing of its answers.

    It is a mean over columns and over measured pairs, 0 for those that no reference has.
    """
    measured = {m.columns for m in one_way.measurements} | set(fitted.shrinkage)
    singles = [fitted.leaned.get(q, 0.0) for q in measured if len(q) == 1]
    pairs = [fitted.leaned.get(q, 0.0) for q in measured if len(q) > 1]
    each = {"columns": singles, "pairs": pairs}
    return {"leaned": {name: round(float(np.mean(v)), 3) for name, v in each.items() if v}}


# Tolerances of fits. A shrunken one comes as near to the rows in a third of the steps: what it
# still gains after that is far below the noise.
LIKELIEST, SHRUNKEN = 1e-3, 1e-2
# A reference may make a model larger by so much.
ROOM_MB = 4 * MODEL_MB


@dataclass(frozen=True, kw_only=True)
class MarginalConfig(GeneratorConfig):
    """What the configs of all generators of marginals have."""

    counts_persons = True
    takes_margins = 2
    audit_options = {"merge": 0.0}
    estimator = ESTIMATORS[0]

    rows: int | None = ROWS

    sample = staticmethod(sample_model)
    sample_where = staticmethod(sample_where)

    def __post_init__(self) -> None:
        check_knobs(self)


@dataclass(frozen=True, kw_only=True)
class WorkloadConfig(MarginalConfig):
    """The first knobs of a generator that serves a workload."""

    degree: int = DEGREE
    workload: str | None = WORKLOAD
    label_weight: float = LABEL_WEIGHT


@dataclass(frozen=True, kw_only=True)
class MarginalKnobs(WorkloadConfig):
    """The knobs of a generator that chooses which marginals to measure."""

    takes_reference = True
    serves_strata = True

    for_: tuple[str, ...] = FOR
    max_cells: float = MAX_CELLS
    max_model_mb: float = MAX_MODEL_MB
    merge: float = MERGE
    estimator: str = ESTIMATOR
    given: tuple[str, ...] = GIVEN
    known: tuple[tuple[str, ...], ...] = KNOWN_SETS


class MarginalGenerator(Calibrated):
    """What generators of marginals do alike: measure single columns, then larger marginals, fit."""

    exact = True

    def __post_init__(self) -> None:
        size = pgm.model_mb(self.schema.domain, self.known) if self.schema.margins else 0.0
        if size > (limit := self._limit or MODEL_MB):
            raise UsageError(
                f"margins (a model of {size:.3g} MB) must fit into {limit:g} MB, since no answer "
                "is left out of them: state fewer over two columns, or give columns fewer bins"
            )

    @property
    def _limit(self) -> float:
        """The size limit of the model in MB, if the method has one."""
        return float(getattr(self.config, "max_model_mb", 0.0))

    @property
    def asked_columns(self) -> list[str]:
        """The columns to be measured: no margin gives them; one, if the number of rows is open."""
        schema = self.schema
        public = public_columns(schema)
        left = [name for name in schema.names if name not in public]
        private = self.budget.neighbours is Neighbours.ADD_REMOVE and schema.public_rows is None
        return left or (schema.names[:1] if private else [])

    @property
    def known(self) -> tuple[Columns, ...]:
        """Sets of columns that need no measuring: they are public."""
        return tuple(m.columns for m in self.schema.public_margins)

    @property
    def asked_share(self) -> float:
        """The share of the columns that is measured: what the others would cost goes elsewhere."""
        return len(self.asked_columns) / max(len(self.schema.names), 1)

    def sigma_for(self, amount: float) -> float:
        """The noise on a table of counts that may cost so much of the budget's ``gaussian``."""
        return gaussian_sigma(amount, self.budget.neighbours.l2)

    def one_way(self, visit: Visit, progress: Progress, sigma: float, sigma_next: float) -> OneWay:
        """Measure every one-way marginal and merge the codes that ``sigma_next`` would drown.

        What is known of a column without measuring takes the place of an answer.

        Args:
            visit: the paid access to the table.
            progress: shows the stage.
            sigma: noise of the one-way marginals.
            sigma_next: noise that larger marginals will have, as far as it is known beforehand.
        """
        progress.report("measure", fraction=0.0, text="one-way marginals")
        known = {m.columns[0]: m for m in visit.known if len(m.columns) == 1}
        names = self.asked_columns
        visit.prepare([(name,) for name in names if name not in known])
        measured = [
            known.get(name) or visit.measure((name,), sigma, purpose="one-way") for name in names
        ]
        return summarise_one_way(visit, measured, sigma_next=sigma_next, merge=self.config.merge)

    def fit(
        self,
        one_way: OneWay,
        observed: Sequence[Measurement],
        *,
        estimator: str = "",
        warm: pgm.Fitted | None = None,
        tolerance: float | None = None,
        max_iters: int = 1000,
    ) -> pgm.Fitted:
        """Fit a model to measurements over merged codes, by the estimator that was asked for."""
        estimator = estimator or self.config.estimator
        if one_way.margins:
            observed = eased(observed)
        if estimator == "mbi":
            zeros = one_way.zeros_within(observed)
            return fit_mbi(one_way.domain, observed, one_way.total, zeros=zeros, warm=warm)
        shrinkage, prior = estimator == "pulled", None
        if shrinkage and one_way.references:
            limit = self._limit + ROOM_MB
            prior = one_way.reference.prior((m.columns for m in observed), limit)
        fitted = pgm.fit(
            one_way.domain,
            observed,
            total=one_way.total,
            zeros=one_way.zeros_within(observed),
            warm=None if shrinkage else warm,
            tolerance=tolerance or (SHRUNKEN if shrinkage else LIKELIEST),
            max_iters=max_iters,
            shrinkage=shrinkage,
            prior=prior,
        )
        return match(fitted, one_way.margins)

    def draw(
        self,
        visit: Visit,
        fitted: Any,
        one_way: OneWay,
        measurements: Sequence[Measurement],
        warnings: Sequence[str] = (),
        model: Model | None = None,
        **notes: Any,
    ) -> Synthesis:
        """Draw rows from the fitted model and pack what the release holds."""
        estimated, compression = whole_rows(one_way.total), one_way.compression
        if model is None:
            model = store_model(fitted, compression, kind=self.config.name, rows=estimated)
        n = estimated if self.config.rows is None else self.config.rows
        merged = {c: int(m.size) for c, m in compression.merges.items() if not m.trivial}
        return Synthesis(
            frame=draw_frame(fitted, compression, visit.schema, n, visit.noise.post),
            measurements=measurements,
            model=model,
            warnings=(*one_way.warnings, *warnings),
            notes={
                "estimated_rows": estimated,
                "merged_to": merged,
                **(leaning(fitted, one_way) if visit.references else {}),
                **notes,
            },
        )


@dataclass(frozen=True, kw_only=True)
class WorkloadGenerator(MarginalGenerator):
    """What generators do alike that choose, for a workload, which marginals to measure."""

    def __post_init__(self) -> None:
        super().__post_init__()
        model_pairs(
            self.config.for_, self.schema.names, self.schema.stand_ins
        )  # refuses what names no columns

    @property
    def known(self) -> tuple[Columns, ...]:
        """Sets of columns that need no measuring: known from earlier views, or public."""
        return (*self.config.known, *super().known)

    @property
    def columns_to_measure(self) -> int:
        """How many single columns have to be measured; at least 1, to divide by."""
        names: dict[tuple[str, ...], float] = {(name,): 1.0 for name in self.asked_columns}
        return max(len(not_yet_known(names, self.config.known)), 1)

    def known_pairs(self, visit: Visit, one_way: OneWay) -> list[Measurement]:
        """Pairs that need no measuring, over merged codes, as many as keep the model small."""
        return known_pairs(visit.known, one_way, self.model_mb)

    @property
    def model_mb(self) -> float:
        """The size limit of the model; of many columns, what hundreds of steps can go through."""
        given = self.config.max_model_mb
        return given if len(self.schema.names) <= NARROW else min(given, WIDE_MB)

    def workload(self, domain: Mapping[str, int]) -> Workload:
        """The marginals to serve, over the given (merged) domain."""
        knobs = self.config
        if knobs.workload is not None:
            load = Workload.read(knobs.workload, domain, self.schema.stand_ins)
        else:
            load = Workload.upto(domain, knobs.degree).about(knobs.given)
            load = Workload(not_yet_known(load.weights, self.known))
        load = load.favour(self.schema.by, max(len(domain) - 2, 1))
        if knobs.for_:
            factor = FOR_WEIGHT if knobs.label_weight == 1 else knobs.label_weight
            return load.aimed(model_pairs(knobs.for_, domain, self.schema.stand_ins), factor)
        return load.favour([self.schema.label or ""], knobs.label_weight)

    @property
    def purpose_facts(self) -> dict[str, list[str]]:
        """What the release is for, as a fact of the plan, if that was said."""
        facts = {"for": self.config.for_, "by": self.schema.by}
        return {name: list(given) for name, given in facts.items() if given}

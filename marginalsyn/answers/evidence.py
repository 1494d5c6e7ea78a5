"""Evidence of a release about its table: noisy marginals, their fitted model, replays of both.

A replay draws a table of the estimated size from the model, adds noise of the recorded deviations
to its measured marginals, and fits a model to these as the release did.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from marginalsyn.answers import bayes_nets, noisy_marginals
from marginalsyn.answers.bayes_nets import NO_NETWORK, NetworkModel, Structure
from marginalsyn.answers.code_combinations import (
    MOST_CELLS,
    ROWS,
    Bins,
    CodeCombinations,
    as_values,
    bin_middles,
)
from marginalsyn.answers.noisy_marginals import NoisyMarginal, fit, observed
from marginalsyn.answers.projection import project
from marginalsyn.contract import Measurement, Model
from marginalsyn.errors import UsageError
from marginalsyn.graphical import model as pgm
from marginalsyn.graphical.chain_model import ChainModel, extend, read_fitted
from marginalsyn.graphical.compression import Compression, Merge, identity, with_shares
from marginalsyn.graphical.estimation import estimate_total
from marginalsyn.graphical.exact_margins import public_answers
from marginalsyn.graphical.soft_rows import SoftTable, fit_rows
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.release.folder import Release
from marginalsyn.release.staging import as_written
from marginalsyn.table.keeping import Following
from marginalsyn.table.numeric import NumberColumn
from marginalsyn.table.schema import Schema

Target = Literal["population", "table"]
TARGETS = get_args(Target)
Each = Literal["row", "person"]
EACH = get_args(Each)
# A noisy count below so many deviations says nothing.
_DROWNED = 3.0


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The noisy marginals of a release with their model.

    Attributes:
        schema: what is publicly known of the columns.
        compression: which codes the model holds as one.
        fitted: the model, over merged codes.
        marginals: everything that was measured.
        known: the number of rows where it is public, else None.
        counted: where persons were counted, the column with the number of a person's rows, if
            questions are about rows; None where each that was counted counts once.
        structure: of a Bayesian network, empty where it is none.
        laplace: whether the noise has the law of Laplace; else it is Gaussian.
        followers: columns of the schema that the model leaves out, since they follow from others.
        shape_noise: of bought shapes, by column, one for every level.
    """

    schema: Schema
    compression: Compression
    fitted: pgm.Fitted | SoftTable
    marginals: tuple[NoisyMarginal, ...]
    known: float | None = None
    zeros: tuple[tuple[tuple[str, ...], np.ndarray], ...] = field(default=())
    counted: str | None = None
    structure: Structure = NO_NETWORK
    laplace: bool = False
    followers: tuple[str, ...] = ()
    shape_noise: Mapping[str, Sequence[float]] = field(default_factory=dict)
    # How far the population's shares may lie from those of the rows that stand in: not at all.
    drift: ClassVar[float] = 0.0

    @classmethod
    def of(cls, release: Release, each: Each = "row") -> Evidence:
        """Read a release; ``each`` counts once in its questions.

        Raises:
            UsageError: the release was not made from noisy marginals, so that nothing can be said.
        """
        model, statement = release.model(), release.statement
        kinds = {"pgm", "network", "soft0", "independent"}
        if model is None or not kinds & {model.kind, *model.meta, *model.arrays}:
            raise UsageError(
                f"release ({release.path.name}) must be made from noisy marginals: "
                f"{statement.generator} {_why_not(statement.generator)}; make the release with "
                "auto, aim, mst, clique-tree, privbayes, all-marginals, fixed-marginals or "
                "independent"
            )
        with as_written(f"model ({model.kind}) and measurements"):
            found = cls.read(model, release.measurements(), release.schema, statement.neighbours)
        noise: dict[Any, Any] = {
            c.details["column"]: c.details["sigma"]
            for c in statement.charges
            if c.mechanism == "numeric shape"
        }
        laplace = statement.parameters.get("noise") == "laplace"
        found = replace(found, laplace=laplace, shape_noise=noise)
        unit = statement.persons
        if unit is None or unit.max_rows == 1 or each == "person":
            return found
        return replace(found, counted=unit.count)

    @classmethod
    def read(
        cls, model: Model, measured: Sequence[Measurement], schema: Schema, neighbours: Neighbours
    ) -> Evidence:
        """The same from a release's parts."""
        modelled = schema.without(model.followers)
        if "merge0_groups" in model.arrays:
            columns = model.meta.get("columns", modelled.names)
            compression = Compression.from_arrays(columns, model.arrays)
        else:
            compression = identity(modelled.domain)
        structure, tables = NO_NETWORK, list[np.ndarray]()
        if "network" in model.meta:
            structure, tables = bayes_nets.read(model, compression)
            measured = structure.named(measured)
        sizes = structure.domain(compression.domain)
        marginals = tuple(NoisyMarginal.of(m, compression, sizes) for m in measured)
        zeros = compression.zeros_within(modelled, [m.columns for m in marginals])
        stated = schema.public_rows
        counted = float(model.meta["rows"]) if neighbours is Neighbours.REPLACE else stated
        fitted: pgm.Fitted | SoftTable

        def with_public(total: float) -> tuple[NoisyMarginal, ...]:
            exact = public_answers(schema, total)
            return (*marginals, *(NoisyMarginal.of(m, compression, sizes) for m in exact))

        if structure.nodes:
            singles = marginals[: len(marginals) - len(tables)]
            rows = counted or max(1.0, estimate_total(singles)[0])
            fitted = bayes_nets.model_of(structure, tables, compression.domain, rows)
        elif "pgm" in model.meta:
            own = {k.removeprefix("pgm_"): v for k, v in model.arrays.items() if k[:4] == "pgm_"}
            fitted = read_fitted(own, model.meta["pgm"])
        elif "soft0" in model.arrays:
            soft = {c: model.arrays[f"soft{j}"] for j, c in enumerate(compression.domain)}
            rows = counted or estimate_total(marginals)[0]
            fitted = SoftTable(soft, max(1.0, rows))
        else:
            rows = counted or max(1.0, estimate_total(marginals)[0])
            fitted = fit(compression, with_public(rows), zeros, counted)
        known = fitted.total if neighbours is Neighbours.REPLACE else stated
        return cls(
            schema=schema,
            compression=compression,
            fitted=fitted,
            marginals=with_public(known or estimate_total(marginals)[0]),
            known=known,
            zeros=zeros,
            structure=structure,
            followers=tuple(model.followers),
        )

    @cached_property
    def total(self) -> tuple[float, float]:
        """The number of rows and its standard deviation, from all marginals."""
        if self.known is not None:
            return self.known, 0.0
        found, spread = estimate_total(m for m in self.marginals if not m.public)
        return max(found, 1.0), spread

    @property
    def rows(self) -> int:
        """The estimated number of rows."""
        return max(1, round(self.total[0]))

    @cached_property
    def domain(self) -> dict[str, int]:
        """The model's sizes, coarse columns last."""
        return self.structure.domain(self.compression.domain)

    def base(self, name: str) -> str:
        """A column's own name, whether it is coarse or not."""
        return self.structure.base(name)

    def groups(self, name: str) -> np.ndarray:
        """The model's code, of a column or of a coarse one, for each full code of the column."""
        groups = self.compression.merges[self.base(name)].groups
        coarse = self.structure.coarse.get(name)
        return groups if coarse is None else coarse.groups[groups]

    def source(self, name: str) -> Following:
        """The column of the model that a column follows from, or is."""
        if name in self.followers:
            return self.schema.followers[name]
        return Following(name, np.arange(self.schema.column(name).size))

    def shares(self, columns: Sequence[str]) -> np.ndarray:
        """The model's share of every combination of full codes."""
        found = self.fitted.marginal(columns) / self.fitted.total
        return self.refined(columns, found)

    def refined(
        self, columns: Sequence[str], merged: np.ndarray, axes: Iterable[int] | None = None
    ) -> np.ndarray:
        """Counts or shares of merged codes, split among the codes of each, on all axes or some."""
        for axis in range(len(columns)) if axes is None else axes:
            merge = self.compression.merges[columns[axis]]
            if not merge.trivial:
                shape = [1] * merged.ndim
                shape[axis] = -1
                merged = merged.take(merge.groups, axis=axis) * merge.shares.reshape(shape)
        return merged

    # -- quantities --------------------------------------------------------------------------------

    def cells(self, columns: Sequence[str], rng: np.random.Generator) -> CodeCombinations:
        """All combinations of codes of some columns, or rows drawn from the model."""
        schema, merges = self.schema, self.compression.merges
        if math.prod(schema.column(c).size for c in columns) <= MOST_CELLS:
            return CodeCombinations.grid(schema, columns)
        codes = self.compression.refine(self.fitted.rows(ROWS, rng), rng)
        modelled = list(merges)
        codes = codes[:, [modelled.index(c) for c in columns]]
        values = as_values(schema, columns, codes)
        return CodeCombinations(tuple(columns), codes, values, None)

    def weights(self, cells: CodeCombinations) -> np.ndarray:
        """The model's share of every combination; rows that were drawn count alike."""
        if cells.shape is None:
            return np.full(len(cells.codes), 1.0 / len(cells.codes))
        return self.shares(cells.columns).ravel()

    def mean_estimates(
        self, cells: CodeCombinations, weights: np.ndarray, influence: np.ndarray
    ) -> tuple[list[noisy_marginals.Linear], np.ndarray]:
        """The measured part of each column of ``influence``: its mean's estimate, its values."""
        functions, projected = project(self, cells, weights, influence)
        return [noisy_marginals.weigh(self, function) for function in functions], projected

    def bins(self, name: str) -> Bins | None:
        """The bins of a numeric column; None for any other."""
        column = self.schema.column(name)
        if not isinstance(column, NumberColumn):
            return None
        source, mapping = self.source(name)
        shares = np.bincount(mapping, self.shares((source,)), column.size)
        return Bins.of(column, shares, self.shape_noise.get(name, ()))

    def joint_noise(self, lines: Sequence[noisy_marginals.Linear], about: np.ndarray) -> np.ndarray:
        """The covariance that privacy noise gives several estimates."""
        return noisy_marginals.joint_noise(self, lines, about)

    @property
    def table_rows(self) -> float:
        """The estimated number of the private table's rows, where persons were counted, too."""
        if self.counted is None:
            return self.total[0]
        column = self.schema.column(self.counted)
        assert isinstance(column, NumberColumn)
        shares = self.shares((self.counted,))[: column.levels]
        return self.total[0] * float(shares @ bin_middles(column))

    # -- replaying ---------------------------------------------------------------------------------

    def replay(self, target: Target, rng: np.random.Generator) -> Evidence:
        """The release of a table drawn from the model, or, for ``table``, of the model's own.

        Merged codes are split by the shares that the replay's own answers give them: rows of it
        vary as the release's do.
        """
        drawn = self.redrawn(target, rng)
        return replace(drawn, compression=self._split(drawn.marginals, with_shares)).refitted()

    @cached_property
    def steady(self) -> Evidence:
        """The same, with shares of codes that were measured as one that hardly follow their noise.

        How much each code's answer counts must not hang together with its noise: those that
        happen to be high would count more than others.
        """
        return replace(self, compression=self._split(self.marginals, _floored))

    def _split(
        self,
        marginals: Sequence[NoisyMarginal],
        split: Callable[[Merge, np.ndarray, float], Merge],
    ) -> Compression:
        """The same merges with the shares of codes as these answers have them."""
        merges = dict(self.compression.merges)
        for marginal in reversed(marginals):  # of several the first, as the release did
            (name, *others), groups = marginal.columns, marginal.groups[0]
            if not others and groups is not None and not marginal.bought:
                merges[name] = split(merges[name], marginal.values, marginal.sigma)
        return Compression(merges)

    def redrawn(self, target: Target, rng: np.random.Generator) -> Evidence:
        """The noisy marginals of a replay, with the model that they were drawn from."""
        rows = self.fitted.sample(self.rows, rng) if target == "population" else None
        marginals = tuple(
            replace(marginal, values=truth + self.noise(marginal, rng))
            for marginal, truth in zip(
                self.marginals, self._exact_marginals(rows, rng), strict=True
            )
        )
        found = replace(self, marginals=marginals)
        scale = {m.columns: found.total[0] / m.values.sum() for m in marginals if m.public}
        again = [
            replace(m, values=m.values * scale[m.columns]) if m.public else m for m in marginals
        ]
        return replace(found, marginals=tuple(again)) if scale else found

    def noise(self, marginal: NoisyMarginal, rng: np.random.Generator) -> np.ndarray:
        """Noise as a marginal has it."""
        shape = marginal.values.shape
        if self.laplace and not marginal.bought:
            return rng.laplace(0.0, marginal.sigma / math.sqrt(2.0), shape)
        return rng.normal(0.0, marginal.sigma, shape)

    def refitted(self, *, warm: bool = False) -> Evidence:
        """With a model fitted to these marginals as the release did.

        ``warm`` starts at the model that is there and takes few steps: what is left of the way
        moves an estimate by a tenth of its standard error, and its spread by a few percent.
        """
        if isinstance(self.fitted, SoftTable):
            return replace(self, fitted=self._softly(self.fitted))
        if self.structure.nodes:
            return replace(self, fitted=self._network())
        assert isinstance(self.fitted, pgm.Fitted)
        chain = self.fitted if isinstance(self.fitted, ChainModel) else None
        fitted = fit(
            self.compression,
            [m for m in self.marginals if chain is None or chain.tree_holds(m.columns)],
            self.zeros,
            self.known,
            pull=bool(self.fitted.shrinkage),
            warm=self.fitted if warm and chain is None else None,
        )
        if chain is not None:
            fitted = extend(
                fitted,
                observed(self.compression, self.marginals),
                zeros=self.zeros,
                sweeps=int(chain.convergence.get("sweeps", 0)),
                rng=np.random.default_rng(0),  # as everything else that marginals give
            )
        return replace(self, fitted=fitted)

    def _softly(self, before: SoftTable) -> SoftTable:
        """A table of as many soft rows, fitted to these marginals."""
        soft_rows = len(next(iter(before.probabilities.values())))
        return fit_rows(
            self.domain,
            observed(self.compression, self.marginals),
            total=self.total[0],
            rng=np.random.default_rng(0),  # where the descent starts
            soft_rows=soft_rows,
        )

    def _network(self) -> NetworkModel:
        """A network of the same structure with the tables that these marginals give."""
        own = [m for m in self.marginals if not m.bought]
        singles = own[: len(own) - len(self.structure.nodes)]
        total = self.known or max(1.0, estimate_total(singles)[0])
        return bayes_nets.fit_network(self.structure, own, self.compression, total)

    @property
    def refits(self) -> bool:
        """Whether its model is fitted again in good time: soft rows and chains are not."""
        return not isinstance(self.fitted, SoftTable | ChainModel)

    def _exact_marginals(
        self, rows: np.ndarray | None, rng: np.random.Generator
    ) -> list[np.ndarray]:
        """The exact marginals of drawn rows, else of the model."""
        if rows is not None:
            codes = rows if all(m.whole for m in self.marginals) else self._unmerged(rows, rng)
            return [self.count(rows, codes, marginal) for marginal in self.marginals]
        scale = self.rows / self.fitted.total
        wanted = self.fitted.marginals({m.columns for m in self.marginals})
        found = []
        for m in self.marginals:
            axes = [axis for axis, groups in enumerate(m.groups) if groups is not None]
            found.append(self.refined(m.columns, wanted[m.columns] * scale, axes))
        return found

    def _unmerged(self, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Codes of the schema for rows of merged codes, each row on its own."""
        out = np.array(rows)
        for place, merge in enumerate(self.compression.merges.values()):
            if merge.trivial:
                continue
            draws = rng.random(len(rows))
            for group in range(merge.size):
                own = rows[:, place] == group
                codes = np.flatnonzero(merge.groups == group)
                reach = np.cumsum(merge.shares[codes])
                found = np.searchsorted(reach[:-1], draws[own] * reach[-1], side="right")
                out[own, place] = codes[found]
        return out

    def count(self, rows: np.ndarray, codes: np.ndarray, marginal: NoisyMarginal) -> np.ndarray:
        """Counts over the cells of a marginal, of rows given by merged codes and by their own."""
        names, shape, places = list(self.compression.domain), marginal.values.shape, []
        for name, groups in zip(marginal.columns, marginal.groups, strict=True):
            place = names.index(self.base(name))
            if name in self.structure.coarse:
                places.append(self.structure.coarse[name].groups[rows[:, place]])
            else:
                places.append((rows if groups is None else codes)[:, place])
        found = np.bincount(np.ravel_multi_index(tuple(places), shape), minlength=math.prod(shape))
        return found.reshape(shape)


def _floored(merge: Merge, noisy: np.ndarray, sigma: float) -> Merge:
    """The merge with shares by noisy counts; all that noise drowns count alike."""
    counts = np.maximum(noisy, _DROWNED * sigma)
    return Merge(merge.groups, counts / np.bincount(merge.groups, counts)[merge.groups])


def _why_not(generator: str) -> str:
    """Why a generator's releases cannot be asked."""
    if generator == "support-points-gp":
        return "gives out a noisy potential, which `estimate` can ask, but no marginals"
    if generator.startswith("support-points"):
        return "gives out points, and no noisy count whose error were known"
    return (
        "gives out none: what noise did to a network's parameters cannot be seen in its rows, so "
        "that no interval can be computed from it"
    )


def measured_pairs(release: Release) -> list[tuple[tuple[str, str], float]]:
    """The pairs that a release's marginals hold, the best measured first, with their noise.

    That is the standard deviation that it gives the share of one of the pair's cells. A column may
    have been measured by groups of its codes: a cell is then one of groups.

    Example:
        >>> from marginalsyn import Release
        >>> measured_pairs(Release.read("release"))
        []
    """
    evidence = Evidence.of(release)
    precision: dict[tuple[str, str], float] = {}
    order = evidence.schema.names
    for marginal in evidence.marginals:
        sizes = {
            evidence.base(c): n
            for c, n in zip(marginal.columns, marginal.values.shape, strict=True)
        }
        ordered = sorted(sizes, key=order.index)
        for pair in itertools.combinations(ordered, 2):
            cells = math.prod(n for name, n in sizes.items() if name not in pair)
            precision[pair] = precision.get(pair, 0.0) + 1.0 / (marginal.sigma**2 * cells)
    found = [(pair, w**-0.5 / evidence.total[0]) for pair, w in precision.items()]
    return sorted(found, key=operator.itemgetter(1))

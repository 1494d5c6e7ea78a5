"""Bayesian networks as evidence: each column was measured with groups of its parents' codes.

A parent seen by groups of its codes is a *coarse* column: one that its own column determines. With
these columns the network is a graphical model like others, and its marginals are exact.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from marginalsyn.contract import Measurement, Model
from marginalsyn.errors import ReleaseError
from marginalsyn.generators.privbayes import conditional
from marginalsyn.graphical import model as pgm
from marginalsyn.graphical.bayes_net import BayesNet
from marginalsyn.graphical.compression import Compression
from marginalsyn.graphical.estimation import project_to_simplex

# No column of a schema has this in its name.
_MARK = "\x1f"


@dataclass(frozen=True)
class Coarse:
    """A column by groups: for each of its merged codes the group."""

    column: str
    groups: np.ndarray


@dataclass(frozen=True)
class Structure:
    """Columns with their parents, in a network's order; none of a model that is no network."""

    nodes: tuple[tuple[str, tuple[str, ...]], ...] = ()
    coarse: Mapping[str, Coarse] = field(default_factory=dict)

    @classmethod
    def of(cls, network: BayesNet, domain: Mapping[str, int]) -> Structure:
        """The structure of a stored network over merged codes."""
        names, nodes = list(domain), []
        coarse: dict[str, Coarse] = {}
        for node in network.nodes:
            parents = []
            for parent in node.parents:
                name = names[parent.column]
                if parent.size < domain[name]:
                    name = _name(Coarse(name, parent.groups), coarse)
                parents.append(name)
            nodes.append((names[node.column], tuple(parents)))
        return cls(tuple(nodes), coarse)

    def domain(self, merged: Mapping[str, int]) -> dict[str, int]:
        """The sizes of all columns, coarse ones last."""
        more = {name: int(own.groups.max()) + 1 for name, own in self.coarse.items()}
        return {**merged, **more}

    def named(self, measured: Sequence[Measurement]) -> list[Measurement]:
        """The measurements, singles first, with tables' axes under their coarse columns."""
        singles = len(measured) - len(self.nodes)
        found = list(measured[:singles])
        for (column, parents), m in zip(self.nodes, measured[singles:], strict=True):
            expected = (*(self.base(p) for p in parents), column)
            if tuple(m.columns) != expected:
                raise ReleaseError(
                    f"measurement over ({', '.join(m.columns)}) must be over "
                    f"({', '.join(expected)}), as the network has it"
                )
            found.append(
                Measurement(columns=(*parents, column), values=m.values, sigma=float(m.sigma))
            )
        return found

    def base(self, name: str) -> str:
        """A column's own name, whether it is coarse or not."""
        return self.coarse[name].column if name in self.coarse else name


NO_NETWORK = Structure()


def _name(own: Coarse, coarse: dict[str, Coarse]) -> str:
    """The name of a coarse column: two with the same groups are one."""
    names = (f"{own.column}{_MARK}{number}" for number in itertools.count())
    return next(
        name for name in names if np.array_equal(coarse.setdefault(name, own).groups, own.groups)
    )


@dataclass
class NetworkModel(pgm.Fitted):
    """A network as a graphical model, whose rows are of the columns without coarse ones."""

    columns: int = 0

    def rows(self, n: int, rng: np.random.Generator) -> np.ndarray:
        return super().rows(n, rng)[:, : self.columns]

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        return super().sample(n, rng)[:, : self.columns]


def read(model: Model, compression: Compression) -> tuple[Structure, list[np.ndarray]]:
    """The structure and the conditional tables that a release stores."""
    sizes = list(compression.domain.values())
    network = BayesNet.read(model.meta.get("network"), model.arrays, sizes)
    tables = [node.table for node in network.nodes]
    return Structure.of(network, compression.domain), tables


def model_of(
    structure: Structure, tables: Sequence[np.ndarray], merged: Mapping[str, int], total: float
) -> NetworkModel:
    """The graphical model of conditional tables, one for each node."""
    domain = structure.domain(merged)
    logs: dict[tuple[str, ...], np.ndarray] = {}
    with np.errstate(divide="ignore"):
        for name, own in structure.coarse.items():
            member = own.groups[:, None] == np.arange(domain[name])
            logs[own.column, name] = np.log(member.astype(float))
        for (column, parents), table in zip(structure.nodes, tables, strict=True):
            shape = [domain[c] for c in (*parents, column)]
            logs[*parents, column] = np.log(table).reshape(shape)
    return replace(NetworkModel.of_potentials(domain, logs, total), columns=len(merged))


def fit_network(
    structure: Structure, measured: Sequence[Measurement], compression: Compression, total: float
) -> NetworkModel:
    """The network that noisy counts give, as the generator makes it; singles come first."""
    singles = len(measured) - len(structure.nodes)
    alone = {m.columns[0]: compression.compress(m) for m in measured[:singles]}
    tables = []
    for (column, _), m in zip(structure.nodes, measured[singles:], strict=True):
        single = alone[column]
        share = project_to_simplex(np.asarray(single.values), total) / total
        tables.append(conditional(m, share, total, single))
    return model_of(structure, tables, compression.domain, total)

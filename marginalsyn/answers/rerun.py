"""Running a release's generator again, private choices included, on a table of its model.

Which marginals were measured depends on the table: those that looked strong in it. Replays take
them as given. Here the generator itself runs again, with the budget and the options that the
statement records, and makes its choices again. No private row is read, and nothing is charged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.answers.evidence import Evidence, Target
from marginalsyn.answers.joining import with_measured
from marginalsyn.contract import make_config
from marginalsyn.errors import UsageError
from marginalsyn.host import generate
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import GDP, ZCDP, Pure
from marginalsyn.privacy.noise import make_noise
from marginalsyn.table.codec import Codec
from marginalsyn.table.keeping import with_followers

if TYPE_CHECKING:
    from marginalsyn.release.folder import Release
    from marginalsyn.table.schema import Schema

# What chooses marginals by the rows; the marginals of all others are public.
SELECTING = ("aim", "auto", "clique-tree", "mst", "privbayes")
# Options that name files of the curator's.
_FILES = ("workload", "marginals")


@dataclass(frozen=True)
class Rerun:
    """A generator with its options and its budget."""

    method: str
    options: dict[str, Any]
    budget: Budget
    schema: Schema

    @classmethod
    def of(cls, release: Release) -> Rerun | None:
        """The generator of a release; None where it chose nothing.

        Raises:
            UsageError: it cannot be run again from the release alone.
        """
        statement = release.statement
        if statement.generator not in SELECTING:
            return None
        files = [name for name in _FILES if statement.parameters.get(name)]
        if files:
            raise UsageError(
                f"whole (--whole) needs the file that the curator gave as {files[0]} "
                f"({statement.parameters[files[0]]}), which is not in a release: leave --whole away"
            )
        options = {**statement.parameters, "rows": 1}
        schema = release.schema
        if schema.unit is not None and schema.unit.max_rows == 1:
            schema = schema.with_unit(None)  # each row that is drawn is a person
        return cls(statement.generator, options, _budget(release), schema)

    def __call__(self, evidence: Evidence, target: Target, rng: np.random.Generator) -> Evidence:
        """The noisy marginals of a release of a table that was drawn from this one's model."""
        merged = (evidence.fitted.sample if target == "population" else evidence.fitted.rows)(
            evidence.rows, rng
        )
        codes = evidence.compression.refine(merged, rng)
        own = self.schema.without(evidence.followers)
        frame = with_followers(Codec(own).decode(codes, rng), self.schema, evidence.followers)
        unit = self.schema.unit
        if unit is not None:  # all rows of a person are alike here: how they differ is not known
            often = np.maximum(frame[unit.count].to_numpy(int), 1)
            frame = frame.drop(columns=unit.count).assign(**{unit.column: np.arange(len(frame))})
            frame = frame.loc[np.repeat(frame.index, often)].reset_index(drop=True)
        synthesis, statement = generate(
            PrivateTable.open(frame, self.schema),
            make_config(self.method, self.options),
            self.budget,
            noise=make_noise(int(rng.integers(2**31))),
            accept_nonprivate_schema=True,
        )
        assert synthesis.model is not None
        found = Evidence.read(
            synthesis.model, synthesis.measurements, self.schema, statement.neighbours
        )
        bought = [
            replace(m, values=evidence.count(merged, codes, m) + evidence.noise(m, rng))
            for m in evidence.marginals
            if m.bought
        ]
        return with_measured(found, bought) if bought else found


def _budget(release: Release) -> Budget:
    """What the generator had: its charges, without those of weights and bought bounds."""
    statement = release.statement
    own = [
        cost.cost
        for cost in statement.charges
        if cost.mechanism == statement.generator
        and (statement.family is None or cost.purpose == f"generate {statement.family.root}")
    ]
    if len(own) == 1 and isinstance(own[0], ZCDP):
        return Budget.of_rho(own[0].rho, statement.target_delta, statement.neighbours)
    if len(own) == 1 and isinstance(own[0], GDP):
        return Budget.of_mu(own[0].mu, statement.target_delta, statement.neighbours)
    if own and all(isinstance(cost, Pure) for cost in own):
        eps = sum(cost.eps for cost in own if isinstance(cost, Pure))
        return Budget(eps=eps, delta=statement.target_delta, neighbours=statement.neighbours)
    raise UsageError(
        f"whole (--whole) needs the budget of {statement.generator}, which the statement must name "
        "as one charge: leave --whole away"
    )

"""Auto: chooses how to make a table's release from public facts and answers already paid for."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

from marginalsyn.access.visit import Visit
from marginalsyn.contract import Calibrated, Plan, Synthesis, option
from marginalsyn.generators.aim import AIM, AIMConfig
from marginalsyn.generators.batch_selection import NARROW
from marginalsyn.generators.clique_tree import SWEEPS, CliqueTree, CliqueTreeConfig
from marginalsyn.generators.fixed_marginals import FixedMarginalsConfig
from marginalsyn.generators.marginals import MarginalKnobs, OneWay, WorkloadConfig, whole_rows
from marginalsyn.generators.workload import Columns, model_pairs, strata_pairs
from marginalsyn.graphical.model import model_mb
from marginalsyn.graphical.one_way import summarise_one_way
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.zcdp import gaussian_sigma
from marginalsyn.progress import Progress
from marginalsyn.table.design import is_quantity
from marginalsyn.table.schema import Schema

# The label's weight where few rows rise above the noise, and where many do.
FEW, MANY = 30.0, 20.0
# How readily rare codes are merged where the answers do not decide it. Models of a number follow
# single far-out rows, so there noise among rare codes costs more.
FULL_MERGE = 1.0
# Rows over noise deviations: below, a table is tiny, whatever its number of rows.
TINY = 800.0
# And below so many the label's pairs are measured unjudged.
UNJUDGED = 30.0
# A larger model takes longer to fit, in proportion, and has no lower errors.
MODEL_MB = 10.0
# A chain of rows mostly converges in a third of so many sweeps.
MOST_SWEEPS = 300


@dataclass(frozen=True, kw_only=True)
class AutoConfig(MarginalKnobs):
    """Chooses by columns, estimated rows, label and budget; says what it chose and why.

    Example:
        >>> generator = AutoConfig().configure(schema, Budget(eps=1.0))
        >>> generator.plan.facts["chosen"]
        'clique-tree'
    """

    name = "auto"
    summary = "chooses by columns, estimated rows, label and budget; the default"

    label_weight: float | None = option(  # type: ignore[assignment]
        None,
        "Weight of the marginals that include the label column. [default: 20 to 30, more where few "
        "rows rise above the noise]",
    )
    max_model_mb: float = option(MODEL_MB, "Size limit of the fitted model, in MB.")
    merge: float | None = option(  # type: ignore[assignment]
        None,
        "How readily to merge rare codes that the noise would drown. 0 merges none. [default: 0.4 "
        "to 1.6, by what a column's pairs would cost; 1 of more than 40 columns and for a label "
        "that is a number]",
    )

    sweeps: int = option(MOST_SWEEPS, SWEEPS)

    def configure(self, schema: Schema, budget: Budget) -> Auto:
        """Choose what can be chosen before rows are read."""
        model_pairs(self.for_, schema.names, schema.stand_ins)
        return Auto(config=self, schema=schema, budget=budget)


class Auto(Calibrated):
    """The generator that public facts choose; the rest follows from the one-way marginals."""

    config: AutoConfig
    exact = True

    @property
    def wide(self) -> bool:
        """Whether the table has too many columns to judge all pairs once, with noise on each."""
        config = self.config
        return len(self.schema.names) > NARROW and config.workload is None and config.degree <= 2

    def tree(self, label_weight: float = MANY) -> CliqueTree:
        """The clique tree under the config's knobs; rare codes are merged as answers advise."""
        label = self.schema.label
        quantity = label is not None and is_quantity(self.schema.column(label))
        return self._chosen(CliqueTreeConfig, label_weight, FULL_MERGE if quantity else None)

    @property
    def wide_aim(self) -> AIM:
        """AIM by batches under the config's knobs."""
        return self._chosen(AIMConfig, 1.0, FULL_MERGE)

    def _chosen(self, kind: type[WorkloadConfig], label_weight: float, merge: float | None) -> Any:
        """A generator under the config's knobs, and these where they are not given."""
        theirs = {field.name for field in fields(kind)}
        knobs = {
            field.name: getattr(self.config, field.name)
            for field in fields(self.config)
            if field.name in theirs
        }
        if knobs["label_weight"] is None:
            knobs["label_weight"] = label_weight
        if knobs["merge"] is None:
            knobs["merge"] = merge
        return kind(**knobs).configure(self.schema, self.budget)

    @property
    def plan(self) -> Plan:
        """The plan of what is chosen, and why it is."""
        own = self.wide_aim.plan if self.wide else self.tree().plan
        facts = {
            "chosen": AIMConfig.name if self.wide else CliqueTreeConfig.name,
            "why": self._why(),
            **own.facts,
        }
        return replace(own, facts=facts)

    def __call__(self, visit: Visit, *, progress: Progress) -> Synthesis:
        """Measure single columns, choose the rest by them, and run it."""
        choice: dict[str, Any] = {"method": AIMConfig.name, "why": self._why()}
        if self.wide:
            made = self.wide_aim(visit, progress=progress)
        else:
            one_way = self.tree().measure_one_way(visit, progress=progress)
            weight, star = self.label_weight(one_way), self.star(one_way)
            if star:
                if self.config.merge is None:  # the shrunken fit tells noise from rows better
                    one_way = summarise_one_way(
                        visit, one_way.measurements, sigma_next=self.tree().guess, merge=0.0
                    )
                choice = {"method": FixedMarginalsConfig.name, "why": self._why(one_way)}
            else:
                choice = {
                    "method": CliqueTreeConfig.name,
                    "label_weight": weight,
                    "why": self._why(one_way, weight),
                }
            made = self.tree(weight).serve(visit, one_way, progress=progress, chosen=star)
        assert made.model is not None
        return replace(
            made,
            model=replace(made.model, kind=AutoConfig.name),
            notes={"choice": choice, **made.notes},
        )

    def label_weight(self, one_way: OneWay) -> float:
        """How much the label's pairs count: the more, the fewer rows rise above the noise."""
        if self.config.label_weight is not None:
            return self.config.label_weight
        noise = gaussian_sigma(
            self.budget.gaussian / (2 * max(len(one_way.domain), 1)), self.budget.neighbours.l2
        )
        lack = min(1.0, max(0.0, 1.0 - math.log10(max(one_way.total / noise, 1.0) / TINY * 10)))
        return round(MANY + (FEW - MANY) * lack, 2)

    def star(self, one_way: OneWay) -> list[Columns] | None:
        """The label with every column, where too few rows rise above the noise to judge pairs.

        Then what a selection would cost is worth more as less noise.
        """
        config, schema = self.config, self.schema
        if config.workload is not None or config.given or schema.derived or config.degree > 2:
            return None
        pairs = model_pairs(config.for_, one_way.domain, schema.stand_ins)
        pairs = pairs or strata_pairs(schema.by, one_way.domain)
        if schema.label and not pairs:
            others = [name for name in one_way.domain if name != schema.label]
            pairs = [tuple(c for c in one_way.domain if c in (n, schema.label)) for n in others]
        fits = model_mb(one_way.domain, pairs) <= config.max_model_mb
        few = one_way.total < UNJUDGED * self.tree().guess
        small = all(math.prod(one_way.domain[c] for c in q) <= config.max_cells for q in pairs)
        return pairs if pairs and few and fits and small else None

    def _why(self, one_way: OneWay | None = None, weight: float | None = None) -> str:
        """The choice in words, by what is known of the table so far."""
        columns, budget = len(self.schema.names), f"eps {self.budget.eps:g}"
        if self.wide:
            return (
                f"{columns} columns (more than {NARROW}): pairs are chosen by batches of "
                f"{self.wide_aim.batch}, each on what the model still gets wrong"
            )
        pairs = f"{columns} columns (up to {NARROW}): every marginal of the workload is judged"
        if self.config.workload is not None:
            pairs = f"a workload on {columns} columns: each of its marginals is judged"
        if one_way is None:
            rows = (
                "the estimated rows decide how much the label's pairs count, or that they are all"
            )
        else:
            rows = f"about {whole_rows(one_way.total):,} rows"
        counted = "the label's marginals"
        if self.config.for_:
            counted = f"the marginals of {', '.join(self.config.for_)}"
        elif self.schema.by:
            counted = f"the marginals of {' and '.join(self.schema.by)}"
        elif self.schema.label is None:
            return f"{pairs}; {budget}; no label, so all pairs count alike"
        if one_way is not None and self.star(one_way):
            return (
                f"{columns} columns; {rows} at {budget}, too few to judge pairs by: {counted} are "
                "measured, each with the same share"
            )
        if weight is None:
            return f"{pairs}; {budget}; {rows}"
        return f"{pairs}; {rows} at {budget}: {counted} count {weight:g} times"

"""The contract of reports: what they are given, and the block and section that they return.

A report is a class in the entry-point group ``marginalsyn.reports``. :meth:`Report.compute` turns
one synthetic table and the real rows into a JSON block; :meth:`Report.html` turns the blocks of all
tables into a section. The section is made of the blocks alone, so that every number on a page is
in the JSON too. :meth:`Report.publish` gives a block that may be published, from a release alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from marginalsyn.errors import UsageError
from marginalsyn.evaluation.fitness import Use

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from marginalsyn.evaluation.tstr import Trials
    from marginalsyn.progress import Progress
    from marginalsyn.release.folder import Release
    from marginalsyn.table.design import CodedRows
    from marginalsyn.table.schema import Schema

Block = Mapping[str, Any]
# Those of several tables, by the tables' names.
Blocks = Mapping[str, Block]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One synthetic table under evaluation, with any number of weights for its rows."""

    name: str
    synthetic: CodedRows
    frame: pd.DataFrame | None = None
    weights: Mapping[str, np.ndarray] = field(default_factory=dict)
    log_weights: Mapping[str, np.ndarray] = field(default_factory=dict)
    release: Release | None = None

    @property
    def eps(self) -> float | None:
        """The release's eps, where there is one."""
        return self.release.statement.eps if self.release is not None else None

    @property
    def generator(self) -> str | None:
        """The release's method, where there is one."""
        return self.release.statement.generator if self.release is not None else None

    def variants(self) -> list[tuple[str | None, CodedRows]]:
        """The rows without weights, then with each column of them."""
        return [
            (None, self.synthetic),
            *((name, self.synthetic.weigh(w)) for name, w in self.weights.items()),
        ]


@dataclass(frozen=True, kw_only=True)
class RealData:
    """The real rows.

    Attributes:
        schema: by which all tables are read.
        label: the column to predict, if there is one.
        reference: the rows that synthetic ones are compared with.
        fresh: real rows that neither the generator nor ``reference`` holds, if there are any.
        trials: how models are trained and tested; None where no model may be tested.
        uneven: how far ``fresh`` is from a random part of the rows, if by more than chance.
        cache: what several cases share.
    """

    schema: Schema
    label: str | None
    reference: CodedRows
    fresh: CodedRows | None
    trials: Trials | None
    uneven: str = ""
    cache: dict[Any, Any] = field(default_factory=dict)

    def unseen(self, report: str) -> CodedRows:
        """Rows that the generator did not see, for a report that cannot do without."""
        if self.fresh is None or not len(self.fresh):
            raise UsageError(
                f"report '{report}' needs rows that the generator saw and rows that it did not: "
                "hold some out with `marginalsyn generate --holdout`, or give both with --train "
                "and --real (train=..., real=...)"
            )
        return self.fresh


@dataclass(frozen=True, kw_only=True)
class Options:
    """What an evaluation may be told; a report takes what concerns it.

    Attributes:
        degree: the largest number of columns of a marginal.
        workload: marginals in place of all up to ``degree``.
        models: learners in place of the linear ones and the trees that suit the label.
        repeats: random splits, or seeds of what is random.
        seed: of splits, samples and learners; nothing here protects anybody.
        baselines: private training on real rows to compare with.
        draws: posterior draws of the Bayesian report.
        shadow: shadow releases of the report of membership inference; 0 for none.
    """

    degree: int = 3
    workload: tuple[tuple[str, ...], ...] | None = None
    models: tuple[str, ...] = ()
    repeats: int = 5
    seed: int = 0
    baselines: tuple[str, ...] = ()
    draws: int = 1000
    shadow: int = 0


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One line of the tidy table: a value of one table, by report, item and metric."""

    case: str
    report: str
    item: str
    metric: str
    value: float | None
    se: float | None = None


def called(name: str, weights: str | None) -> str:
    """What rows are called, with weights or without.

    Example:
        >>> called("rows", None), called("rows", "beta")
        ('rows', 'rows, weights beta')
    """
    return f"{name}, weights {weights}" if weights else name


def each_variant(blocks: Blocks) -> Iterator[tuple[str, Any]]:
    """What is in the blocks of every table and column of weights, by what these are called."""
    for case, block in blocks.items():
        for variant in block["variants"]:
            yield called(case, variant["weights"]), variant


class Verdict(NamedTuple):
    """What is said first of one table.

    Attributes:
        sentence: what there is to say, if anything.
        figures: a few values by name.
        uses: what the table is fit for, a word for each use.
        worst: lists of what is worst, by name.
    """

    sentence: str = ""
    figures: Mapping[str, Any] = {}
    uses: Sequence[Use] = ()
    worst: Mapping[str, Sequence[str]] = {}


class Report:
    """The base of reports: each method has a default that does nothing.

    Attributes:
        name: the plugin id.
        title: of the section.
        summary: one line for ``marginalsyn plugins``.
        place: sections are ordered by it.
        beside: whether its table is shown on the terminal where other reports show theirs.
        needs_test: whether it fits models that are tested on real rows.
        default: whether it is part of an evaluation that names no reports.
        requires: extras or distributions that must be installed.

    Example:
        >>> class Rows(Report):
        ...     name, title, summary = "rows", "Rows", "how many rows there are"
        ...     def compute(self, case, ground, options, progress):
        ...         return {"rows": len(case.synthetic)}
    """

    name: ClassVar[str]
    title: ClassVar[str]
    summary: ClassVar[str]
    place: ClassVar[int] = 100
    beside: ClassVar[bool] = True
    needs_test: ClassVar[bool] = False
    default: ClassVar[bool] = True
    requires: ClassVar[Sequence[str]] = ()

    def compute(
        self, case: Case, ground: RealData, options: Options, progress: Progress
    ) -> Block | None:
        """The block of one table, JSON values only; None where there is nothing to say."""
        return None

    def facts(self, case: str, block: Block) -> Iterable[Fact]:
        """The block's main numbers as lines of a table."""
        return ()

    def fact(
        self, case: str, item: str, metric: str, value: float | None, se: float | None = None
    ) -> Fact:
        """One of this report's :meth:`facts`."""
        return Fact(case=case, report=self.name, item=item, metric=metric, value=value, se=se)

    def verdict(self, block: Block) -> Verdict:
        """What is said first of a table, on the page and on the terminal; by default nothing."""
        return Verdict()

    def compare(self, blocks: Blocks) -> str:
        """Which of several tables is best, in a sentence; by default none."""
        return ""

    def combine(self, blocks: Blocks) -> Block | None:
        """What several tables' blocks say together; it goes into the JSON, too."""
        return None

    def table(self, blocks: Blocks) -> list[list[str]]:
        """The blocks as a table for the terminal, its head first; by default their facts."""
        from marginalsyn.evaluation.markup import number

        facts = [fact for case, block in blocks.items() for fact in self.facts(case, block)]
        rows = [
            [fact.case, fact.item, fact.metric, number(fact.value)]
            for fact in facts
            if fact.value is not None
        ]
        return [["table", "item", "metric", "value"], *rows] if rows else []

    def html(self, blocks: Blocks, combined: Block | None = None) -> Iterable[str]:
        """The section for the blocks of one or more tables, by name: a text, or its parts."""
        return ""

    def publish(self, release: Release) -> Block | None:
        """A block from nothing but a release: it may be published."""
        return None

    def public_html(self, block: Block) -> str:
        """The section for a block of :meth:`publish`."""
        return ""

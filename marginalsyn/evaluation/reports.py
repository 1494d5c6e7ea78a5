"""The contract of reports: what they are given, and what they compute and show.

A report is a class in the entry-point group ``marginalsyn.reports``. :meth:`Report.compute` turns
one synthetic table and the real rows into a JSON block; :meth:`Report.show` turns the blocks of all
tables into notes, tables and charts. They are made of the blocks alone, so that every number on a
page is in the JSON, too. :meth:`Report.publish` makes a block from a release alone: it may be
published.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from marginalsyn.errors import UsageError
from marginalsyn.evaluation.charts import Curves
from marginalsyn.evaluation.verdict import Verdict
from marginalsyn.evaluation.view import Item, Legend, Table, number

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from marginalsyn.evaluation.inputs import Trials
    from marginalsyn.evaluation.linked import LinkedCodes
    from marginalsyn.progress import Progress
    from marginalsyn.release.folder import Release
    from marginalsyn.table.design import CodedRows
    from marginalsyn.table.schema import Schema

Block = Mapping[str, Any]
# The blocks of several tables, by the tables' names.
Blocks = Mapping[str, Block]

# The charts have that many tones, not counting that of real rows.
MOST_CURVES = 5


@dataclass(frozen=True, kw_only=True)
class Case:
    """One synthetic table under evaluation, with any number of weights for its rows."""

    name: str
    synthetic: CodedRows
    frame: pd.DataFrame | None = None
    weights: Mapping[str, np.ndarray] = field(default_factory=dict)
    log_weights: Mapping[str, np.ndarray] = field(default_factory=dict)
    release: Release | None = None
    linked: LinkedCodes | None = None

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
        fresh: real rows that are neither the generator's nor in ``reference``, if there are any.
        trials: how models are trained and tested; None where no model may be tested.
        uneven: how far ``fresh`` is from a random part of the rows, if by more than chance.
        persons: of each reference row of one of linked tables, the person that it belongs to.
        linked: all linked tables, where persons are compared with all their rows.
        cache: what several cases share.
    """

    schema: Schema
    label: str | None
    reference: CodedRows
    fresh: CodedRows | None
    trials: Trials | None
    uneven: str = ""
    persons: np.ndarray | None = None
    linked: LinkedCodes | None = None
    cache: dict[Any, Any] = field(default_factory=dict)

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """What several cases share, made for the first of them."""
        if key not in self.cache:
            self.cache[key] = make()
        return self.cache[key]

    def unseen(self, report: str) -> CodedRows:
        """Rows that the generator did not see, for a report that cannot do without."""
        if self.fresh is None or not len(self.fresh):
            raise UsageError(
                f"report '{report}' needs rows that the generator saw and rows that it did not: "
                "hold some out with `marginalsyn generate --holdout`, or give both with --train "
                "and --real"
            )
        return self.fresh


@dataclass(frozen=True, kw_only=True)
class Options:
    """The knobs of an evaluation; a report takes those that concern it.

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


class Fact(NamedTuple):
    """One line of the tidy table: a value of one item by one metric, with its standard error."""

    item: str
    metric: str
    value: float | None
    se: float | None = None


def by_column(frame: pd.DataFrame | None) -> dict[str, np.ndarray]:
    """The columns of a frame of numbers by name; none where there is no frame."""
    return {} if frame is None else {str(name): frame[name].to_numpy(float) for name in frame}


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


class Report:
    """The base of reports. :meth:`compute` and :meth:`show` are enough; all have defaults.

    Attributes:
        name: the plugin id.
        title: of the section.
        summary: one line for ``marginalsyn plugins``.
        place: sections are ordered by it.
        on_terminal: whether its table is printed where other reports have tables, too.
        needs_test: whether it fits models that are tested on real rows.
        default: whether it is part of an evaluation that names no reports.
        scope: what it is about where tables are linked: each ``table``, the ``release``, which it
            is computed for once, with the root's table, or ``persons`` with all their rows.
        requires: extras or distributions that must be installed.

    Example:
        >>> class Rows(Report):
        ...     name, title, summary = "rows", "Rows", "how many rows there are"
        ...     def compute(self, case, ground, options, progress):
        ...         return {"rows": len(case.synthetic)}
        ...     def show(self, blocks, combined=None):
        ...         yield "How many rows there are."
        ...         rows = [(name, block["rows"]) for name, block in blocks.items()]
        ...         yield Table(("table", "rows"), rows)
    """

    name: ClassVar[str]
    title: ClassVar[str]
    summary: ClassVar[str]
    place: ClassVar[int] = 100
    on_terminal: ClassVar[bool] = True
    needs_test: ClassVar[bool] = False
    default: ClassVar[bool] = True
    scope: ClassVar[Literal["table", "release", "persons"]] = "table"
    requires: ClassVar[Sequence[str]] = ()

    def compute(
        self, case: Case, ground: RealData, options: Options, progress: Progress
    ) -> Block | None:
        """The block of one table, JSON values only; None where there is nothing to say."""
        return None

    def show(self, blocks: Blocks, combined: Block | None = None) -> Iterable[Item]:
        """What is shown of the blocks of one or more tables, by name; by default their facts."""
        table = self._facts_table(blocks)
        return [table] if table is not None else []

    def facts(self, block: Block) -> Iterable[Fact]:
        """The block's main numbers as lines of a tidy table; by default none."""
        return ()

    def brief(self, blocks: Blocks) -> Table | None:
        """The table to print on a terminal; by default the facts, else the first that is shown."""
        first = (item for item in self.show(blocks) if isinstance(item, Table) and item.rows)
        return self._facts_table(blocks) or next(first, None)

    def verdict(self, block: Block) -> Verdict:
        """What is said first of a table, on the page and on the terminal; by default nothing."""
        return Verdict()

    def compare(self, blocks: Blocks) -> str:
        """Which of several tables is best, in a sentence; by default none."""
        return ""

    def combine(self, blocks: Blocks) -> Block | None:
        """What several tables' blocks say together; it goes into the JSON, too."""
        return None

    def publish(self, release: Release) -> Block | None:
        """A block from nothing but a release: it may be published."""
        return None

    def show_public(self, block: Block) -> Iterable[Item]:
        """What is shown of a block of :meth:`publish`; by default the same as of other blocks."""
        return self.show({"release": block})

    def _facts_table(self, blocks: Blocks) -> Table | None:
        rows = [
            (case, fact.item, fact.metric, number(fact.value))
            for case, block in blocks.items()
            for fact in self.facts(block)
            if fact.value is not None
        ]
        return Table(("table", "item", "metric", "value"), rows) if rows else None


def curves_by_eps(found: Iterable[tuple[str, float, float, float]]) -> dict[str, list[list[float]]]:
    """Curves from (name, eps, value, standard error); none where all have one eps.

    Example:
        >>> curves_by_eps([("a", 1.0, 0.5, 0.1), ("a", 2.0, 0.25, 0.0), ("a", 2.0, 0.75, 0.0)])
        {'a': [[1.0, 0.5, 0.1], [2.0, 0.5, 0.25]]}
    """
    runs: dict[str, dict[float, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for name, eps, value, se in found:
        runs[name][eps].append((value, se))
    if len({eps for by_eps in runs.values() for eps in by_eps}) < 2:
        return {}
    return {
        name: [[eps, *_pooled(values)] for eps, values in sorted(by_eps.items())]
        for name, by_eps in runs.items()
    }


def show_by_eps(
    curves: Mapping[str, Sequence[Sequence[float]]], title: str, y_title: str
) -> Iterator[Item]:
    """The first curves with their key."""
    shown = dict(list(curves.items())[:MOST_CURVES])
    left_out = ", ".join(name for name in curves if name not in shown)
    caption = f"{title}. Releases of one generator and eps are averaged."
    caption += f" Not drawn: {left_out}." if left_out else ""
    tones = {name: i + 1 for i, name in enumerate(shown)}
    yield Legend(list(tones.items()))
    yield Curves(title, shown, tones, "eps", y_title, caption=caption)


def _pooled(found: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The mean over releases with their spread; a single release keeps its own error."""
    count = len(found)
    mean = sum(value for value, _ in found) / count
    if count == 1:
        return mean, found[0][1]
    spread = sum((value - mean) ** 2 for value, _ in found) / (count - 1)
    return mean, (spread / count) ** 0.5

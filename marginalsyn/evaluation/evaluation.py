"""Evaluation: marginal errors and the risk of models, for any synthetic table.

Everything here is computed from real rows without protection. It is for the curator.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, ValidationError

from marginalsyn import defaults
from marginalsyn.access.private_table import STAMP
from marginalsyn.contract import plain
from marginalsyn.errors import DataError, PluginError, UsageError
from marginalsyn.evaluation import headline
from marginalsyn.evaluation.inputs import check_options, make_case, make_ground, read_workload
from marginalsyn.evaluation.reports import Case, Options, RealData, Report
from marginalsyn.evaluation.verdict import FRESH, SHUFFLED, UNEVEN, Use, beware
from marginalsyn.evaluation.view import Page, Section, evaluation_card, number, render
from marginalsyn.people.tree import LinkedSchema
from marginalsyn.progress import Progress, Silent
from marginalsyn.registry import REPORTS, find, plugins
from marginalsyn.release.folder import Release
from marginalsyn.release.linked import LinkedRelease
from marginalsyn.release.staging import check_outside
from marginalsyn.table.arrow import in_pandas
from marginalsyn.table.schema import Schema

# From so many rows times codes on, linear algebra and trees may use every core.
THREADED_CELLS = 10**8
# Figures that the table of the two has.
LED = ("l1 error", "total variation", "excess risk", FRESH, SHUFFLED)
JSON_FILE, PAGE_FILE = "evaluation.json", "report.html"
FOOT = (
    "Computed from real rows without protection: keep it with them, and publish nothing of it. All "
    "numbers are in evaluation.json."
)


class Evaluation(BaseModel):
    """What an evaluation found. Not private: it depends on real rows without protection.

    Attributes:
        stamp: says so.
        title: of the page.
        real: what the real rows are: counts and protocol.
        cases: the synthetic tables, by name.
        verdict: two sentences for each table.
        uses: what each table is fit for: a word for each use, with its figures and its rule.
        worst: the worst columns, pairs and groups of each table, by name.
        titles: the reports' section titles, in the page's order.
        reports: every report's JSON block for each table.
        combined: what a report says of several tables together.
        comparison: two sentences on several tables.
        warnings: what was odd about the tables.
        linked: of linked tables, what was found of each by itself.

    Example:
        >>> found = evaluate(frame, frame, schema, reports=["marginals"])
        >>> found.to_frame().query("report == 'marginals'").empty
        False
        >>> print(found.write("evaluation").name)
        evaluation
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[2] = 2
    stamp: str = STAMP
    title: str
    real: dict[str, Any]
    cases: dict[str, dict[str, Any]]
    verdict: dict[str, list[str]]
    uses: dict[str, list[dict[str, Any]]] = {}
    worst: dict[str, dict[str, list[str]]] = {}
    titles: dict[str, str]
    reports: dict[str, dict[str, Any]]
    combined: dict[str, Any] = {}
    comparison: list[str] = []
    warnings: list[str] = []
    linked: dict[str, Evaluation] = {}

    def to_frame(self) -> pd.DataFrame:
        """The main numbers as a tidy table: case, report, item, metric, value, se."""
        lines = [
            (case, name, *fact)
            for name, blocks in self.reports.items()
            for case, block in blocks.items()
            for fact in _load(name).facts(block)
        ]
        columns = ["case", "report", "item", "metric", "value", "se"]
        found = [pd.DataFrame(lines, columns=columns)]
        found += [one.to_frame() for one in self.linked.values()]
        return pd.concat(found, ignore_index=True) if self.linked else found[0]

    def tables(self) -> list[list[list[str]]]:
        """The reports' tables for the terminal, heads first; those off it only without others."""
        found = []
        for report in map(_load, self.titles):
            table = report.brief(self.reports[report.name])
            if table is not None and table.rows:
                cells = [list(table.head), *([number(cell) for cell in row] for row in table.rows)]
                found.append((report.on_terminal, cells))
        shown = [cells for on_terminal, cells in found if on_terminal]
        shown = shown or [cells for _, cells in found]
        return shown + [cells for one in self.linked.values() for cells in one.tables()]

    def fitness(self) -> dict[str, list[Use]]:
        """What each table is fit for, by its name; linked tables are first judged together."""
        found = {name: list(map(Use.from_json, lines)) for name, lines in self.uses.items()}
        for one in self.linked.values():
            found |= one.fitness()
        return found

    def sentences(self) -> list[str]:
        """The verdict: on one table, on linked ones, or the comparison of several."""
        if len(self.cases) > 1:
            return self.comparison
        found = [sentence for sentences in self.verdict.values() for sentence in sentences]
        return found + [
            f"{name}: {line[:1].lower()}{line[1:]}"
            for name, one in self.linked.items()
            for line in one.sentences()
        ]

    def worst_named(self) -> dict[str, list[str]]:
        """What is worst, by what it is; empty where several releases are compared."""
        if len(self.cases) > 1:
            return {}
        found = {what: listed for named in self.worst.values() for what, listed in named.items()}
        for name, one in self.linked.items():
            found |= {f"{what} of {name}": listed for what, listed in one.worst_named().items()}
        return found

    def to_json(self) -> str:
        """Everything, as JSON."""
        left_out = None if self.linked else {"linked"}
        return self.model_dump_json(indent=1, exclude=left_out) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what :meth:`to_json` wrote."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            if first["loc"] == ("version",):
                raise DataError(
                    "evaluation must be of this version of marginalsyn: make it again with "
                    "`marginalsyn evaluate`"
                ) from None
            where = ".".join(str(part) for part in first["loc"])
            raise DataError(
                f"evaluation must be as marginalsyn wrote it: {where} {first['msg']}"
            ) from None

    def to_html(self) -> str:
        """One self-contained page."""
        figures = {}
        if len(self.cases) == 1:
            (facts,) = self.cases.values()
            figures = {k: v for k, v in facts["figures"].items() if not k.startswith(LED)}
        return render(
            Page(
                title=self.title,
                stamp=self.stamp,
                private=True,
                lead=self.sentences(),
                warnings=self.warnings,
                first=headline.first(self.fitness(), self.worst_named(), linked=bool(self.linked)),
                figures=figures,
                sections=self.sections(),
                foot=FOOT,
            )
        )

    def sections(self) -> list[Section]:
        """What the page shows below the verdict; of linked tables what each by itself has, too."""
        found = []
        fitness = {name: uses for name, uses in self.fitness().items() if name in self.cases}
        if headline.rules(fitness):
            charts = headline.yardsticks(fitness)
            found.append(Section("verdict", "The verdict and its yardsticks", [charts]))
        for name, title in self.titles.items():
            items = list(_load(name).show(self.reports[name], self.combined.get(name)))
            if items:
                found.append(Section(name, title, items))
        return found + [
            Section(f"{table}-{own.name}", f"{table}: {own.title}", own.items)
            for table, one in self.linked.items()
            for own in one.sections()
        ]

    def write(self, folder: str | PathLike[str], *, force: bool = False) -> Path:
        """Write ``evaluation.json`` and ``report.html`` into a folder, which is made if need be.

        An earlier evaluation is replaced; nothing else is, unless forced. Never into a release.

        Returns:
            The folder.
        """
        path = Path(folder)
        check_folder(path, force=force)
        files = {JSON_FILE: self.to_json(), PAGE_FILE: self.to_html()}
        try:
            path.mkdir(parents=True, exist_ok=True)
            for name, content in files.items():
                new = path / f".{name}.unfinished"
                new.write_text(content, encoding="utf-8")
                new.replace(path / name)
        except OSError as error:
            raise UsageError(f"folder ({path}) must be writable: {error.strerror}") from None
        return path

    def __repr__(self) -> str:
        found = [
            f"{name}: {', '.join(f'{use.word} {use.use}' for use in uses)}"
            for name, uses in self.fitness().items()
        ]
        return f"Evaluation({self.title!r}: {'; '.join(found)})"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return evaluation_card(self)


def evaluate(
    synthetic: pd.DataFrame | Release | LinkedRelease | Mapping[str, pd.DataFrame | Release],
    real: pd.DataFrame | Mapping[str, pd.DataFrame] | None,
    schema: Schema | LinkedSchema | None = None,
    *,
    weights: pd.DataFrame | pd.Series | np.ndarray | None = None,
    train: pd.DataFrame | Mapping[str, pd.DataFrame] | None = None,
    label: str | None = None,
    in_sample: bool = False,
    degree: int = defaults.DEGREE,
    workload: Sequence[Sequence[str]] | None = None,
    models: Sequence[str] = (),
    reports: Sequence[str] | None = None,
    repeats: int = defaults.REPEATS,
    baselines: Sequence[str] = (),
    draws: int = defaults.DRAWS,
    shadow: int = defaults.SHADOW,
    seed: int = defaults.SEED,
    title: str = "",
    progress: Progress | None = None,
) -> Evaluation:
    """Compare synthetic tables with real rows, and models trained on them with real ones.

    Linked tables are compared each by itself and all together, as persons with all their rows:
    ``synthetic`` is their release, or their frames by name with a :class:`LinkedSchema`, and
    ``real`` and ``train`` are frames by name, too.

    Args:
        synthetic: a frame (of pandas, polars or another library that speaks Arrow) or a release, or
            several by name.
        real: rows that the generator did not see. Models are tested on them.
        schema: by which all tables are read; that of the (first) release when not given.
        weights: of a frame's rows: one column per method. A release brings its own.
        train: the rows that the generator saw, if they are at hand. Marginals are compared with
            them, and the real models are trained on them. Without them ``real`` is split.
        label: the column to predict, where the schema's is not it.
        in_sample: ``real`` was seen by the generator; everything says so.
        degree: the largest number of columns of a marginal.
        workload: marginals in place of all up to ``degree``.
        models: learners by name, see :data:`marginalsyn.plugins.reports.baselines.LEARNERS`.
        reports: their names; all that are part of an evaluation by default.
        repeats: of random splits, or of what is random.
        baselines: ``dpsgd``, ``gradient``, ``pate``: private training on real rows.
        draws: of the posteriors of the report ``bayes``.
        shadow: shadow releases of the report ``membership``.
        seed: of splits, samples and learners.
        title: of the page.
        progress: gets reports of what is being done.

    Raises:
        UsageError: something that cannot be evaluated as asked.

    Example:
        >>> from marginalsyn import datasets, evaluate
        >>> heart = datasets.load("heart")
        >>> found = evaluate(heart.train, heart.test, heart.schema, reports=["marginals"])
        >>> found.real["reference_rows"]
        61
    """
    tables: Any = _in_pandas(synthetic)
    rows: Any = (_in_pandas(real), _in_pandas(train))
    tree = synthetic.tree if isinstance(synthetic, LinkedRelease) else schema
    if isinstance(tree, LinkedSchema):
        for name, given in (("workload", workload), ("weights", weights)):
            if given is not None:
                raise UsageError(f"{name} must not be given for linked tables: each has its own")
        named: Mapping[str, Any] = {}
    else:
        alone = tables.path.name if isinstance(tables, Release) else "synthetic"
        named = tables if isinstance(tables, Mapping) else {alone: tables}
        if not named:
            raise UsageError("synthetic must hold at least one table")
        if tree is None:
            tree = next((r.schema for r in named.values() if isinstance(r, Release)), None)
        if tree is None:
            raise UsageError("schema (None) must be given for rows that are no release")
    options = Options(
        degree=degree,
        workload=None if isinstance(tree, LinkedSchema) else read_workload(workload, tree),
        models=tuple(models),
        repeats=repeats,
        seed=seed,
        baselines=tuple(baselines),
        draws=draws,
        shadow=shadow,
    )
    check_options(options)
    same: Any = {"title": title, "progress": progress or Silent()}
    if isinstance(tree, LinkedSchema):
        from marginalsyn.evaluation.linked import evaluate_linked

        known: Any = {"label": label, "in_sample": in_sample, "reports": reports}
        return evaluate_linked(tables, rows, tree, options, **known, **same)
    chosen = choose_reports(reports, has_label=bool(label or tree.label))
    warnings: list[str] = []
    ground = make_ground(
        tree, label, rows[0], rows[1], options, in_sample=in_sample, warnings=warnings
    )
    cases = [make_case(name, table, tree, weights, warnings) for name, table in named.items()]
    return run_reports(cases, ground, chosen, options, warnings=warnings, **same)


def _in_pandas(given: Any) -> Any:
    """Frames of other libraries as those of pandas, by name or alone."""
    if isinstance(given, Mapping):
        return {name: _in_pandas(one) for name, one in given.items()}
    return in_pandas(given)


def choose_reports(names: Sequence[str] | None, *, has_label: bool = True) -> dict[str, Report]:
    """The reports asked for, or all default ones that can run, in the page's order."""
    if names is None:
        found = {}
        for plugin in plugins(REPORTS):
            if plugin.status == "ok":
                report = _load(plugin.name)
                if report.default and (has_label or not report.needs_test):
                    found[plugin.name] = report
    else:
        found = {name: _load(name) for name in names}
    return dict(sorted(found.items(), key=lambda item: item[1].place))


def check_folder(path: Path, *, force: bool = False) -> None:
    """Refuse a folder that an evaluation must not be written into."""
    check_outside(path, "an evaluation is not private")
    if path.exists() and not path.is_dir():
        raise UsageError(f"--out ({path}) must be a folder, not a file")
    for name in (JSON_FILE, PAGE_FILE):
        file = path / name
        if file.exists() and not force and STAMP not in _head(file):
            raise UsageError(
                f"file ({file}) must be an evaluation to be replaced; it is something else, so "
                "choose another folder with --out, or add --force"
            )


def _head(file: Path) -> str:
    try:
        with file.open("rb") as handle:
            return handle.read(2**16).decode("utf-8", "replace")
    except OSError:
        return ""


def _load(name: str) -> Report:
    """Load one report."""
    report = find(REPORTS, name)()
    if not isinstance(report, Report):
        raise PluginError(
            f"report '{name}' must be a class derived from marginalsyn.evaluation.reports.Report"
        )
    old = sorted({"html", "public_html", "table"} & set(dir(report)))
    if old:
        raise PluginError(
            f"report '{name}' must say what it shows by show, show_public and brief, as notes, "
            f"tables and charts: it still has {', '.join(old)}"
        )
    return report


def _threads(ground: RealData, cases: Sequence[Case]) -> AbstractContextManager[Any]:
    """Use one thread for small tables, where waiting threads cost more than they help."""
    from threadpoolctl import threadpool_limits  # scikit-learn brings it

    rows = max(len(ground.reference), *(len(case.synthetic) for case in cases))
    small = rows * sum(ground.schema.domain.values()) < THREADED_CELLS
    return threadpool_limits(1 if small else None)


def run_reports(
    cases: Sequence[Case],
    ground: RealData,
    reports: Mapping[str, Report],
    options: Options,
    *,
    title: str,
    warnings: Sequence[str],
    progress: Progress,
) -> Evaluation:
    """Compute every report for every table."""
    blocks: dict[str, dict[str, Any]] = {}
    combined: dict[str, Any] = {}
    for name, report in reports.items():
        if report.needs_test and ground.trials is None:
            raise UsageError(
                f"report '{name}' needs real rows that the generator did not see: give them with "
                "--real, or choose other reports"
            )
        found = {}
        for case in cases:
            with _threads(ground, cases):
                block = report.compute(case, ground, options, progress)
            if block is not None:
                found[case.name] = plain(block)
        if found:
            blocks[name] = found
            together = report.combine(found) if len(found) > 1 else None
            if together is not None:
                combined[name] = plain(together)
    verdicts = {
        case.name: [reports[n].verdict(b[case.name]) for n, b in blocks.items() if case.name in b]
        for case in cases
    }
    uses = {
        name: [use for v in found for use in (beware(v.uses, UNEVEN) if ground.uneven else v.uses)]
        for name, found in verdicts.items()
    }
    compared = [reports[n].compare(found) for n, found in blocks.items() if len(found) > 1]
    return Evaluation(
        title=title or f"Evaluation of {', '.join(case.name for case in cases)}",
        real={
            "reference_rows": len(ground.reference),
            "held_out_rows": len(ground.fresh) if ground.fresh is not None else None,
            "label": ground.label,
            "protocol": ground.trials.protocol if ground.trials is not None else None,
            "seed": options.seed,
        },
        cases={
            case.name: {
                "rows": len(case.synthetic),
                "weights": list(case.weights),
                "generator": case.generator,
                "eps": case.eps,
                "figures": plain({n: f for v in verdicts[case.name] for n, f in v.figures.items()}),
            }
            for case in cases
        },
        verdict={n: [v.sentence for v in found if v.sentence] for n, found in verdicts.items()},
        uses={name: [plain(use.to_json()) for use in found] for name, found in uses.items()},
        worst={
            name: {what: list(listed) for v in found for what, listed in v.worst.items()}
            for name, found in verdicts.items()
        },
        titles={name: reports[name].title for name in blocks},
        reports=json.loads(json.dumps(blocks)),
        combined=combined,
        comparison=[sentence for sentence in compared if sentence],
        warnings=list(warnings),
    )

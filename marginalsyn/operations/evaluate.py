"""``evaluate``: how close a release is to real rows, and what models lose by it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marginalsyn import defaults
from marginalsyn.errors import UsageError
from marginalsyn.operations.files import read_json
from marginalsyn.operations.groups import Reported, release_path
from marginalsyn.operations.operation import (
    PYTHON,
    Columns,
    Operation,
    Result,
    Sentence,
    Session,
    argument,
    option,
)

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.evaluation.evaluation import Evaluation
    from marginalsyn.progress import Progress
    from marginalsyn.release.folder import Release
    from marginalsyn.release.linked import LinkedRelease

MODELS = (
    "logistic, logistic-coded, svm, boosting, ridge, boosting-quantity, mlp, random-forest, rbf-svm"
)
# Columns of the reports' tables that hold texts.
TEXTS = ("trained on", "item", "metric")
# Arguments of ``marginalsyn.evaluate`` that are passed on as they are.
SAME = ("label", "in_sample", "degree", "workload", "reports", "repeats", "draws", "shadow", "seed")


def _names(text: str) -> tuple[str, ...] | None:
    """Names separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip()) or None


_rows = partial(option, panel="Rows")
_what = partial(option, panel="Comparison")
_listed = partial(_what, metavar="NAMES", default=None, parse=_names)


@dataclass(frozen=True)
class Evaluate(Reported, Operation["Evaluation"]):
    """Compare synthetic tables with real rows, and models trained on them with real ones.

    Says first what each table is fit for: descriptive tables, linear models, trees, rare groups.
    Shows how far the marginals are off, next to those of a fresh sample and of shuffled columns;
    how much models lose by being trained on the release, with and without its weights; and how much
    of that loss is explained. NOT PRIVATE: everything is computed from real rows without
    protection, for the curator alone. It spends no budget, so do not publish any of it.

    Returns:
        The evaluation; :func:`marginalsyn.evaluate` compares several tables.
    """

    everyday = (
        *("synthetic", "schema", "real", "train", "dataset", "label"),
        *("models", "reports", "out", "as_json"),
    )
    examples = """
    # the last release against the rows that were kept from its generator
    marginalsyn evaluate
    # several releases side by side
    marginalsyn evaluate release-1 release-2 --dataset heart --out comparison
    # any tool's rows; test.csv holds real rows that the tool did not see
    marginalsyn evaluate --synthetic foo.csv --weights w.csv --real test.csv --schema s.json
    # other models, and private training on the real rows to compare with
    marginalsyn evaluate --models logistic,random-forest --baselines dpsgd,pate
    # can anyone tell from the release whose rows are in it?
    marginalsyn evaluate --reports membership --shadow 16
    """

    releases: Release | Sequence[str] = argument(
        (),
        "The release folders. [default=the last one made here, else ./release]",
        nargs=-1,
        metavar="[RELEASE]...",
    )
    real: pd.DataFrame | str | Path | None = _rows(
        None,
        "Real rows that the generator did not see, for testing. [default=the held-out part of the "
        "table that the release came from]",
        metavar="FILE",
    )
    _: KW_ONLY
    synthetic: Sequence[str | Path] = _rows(
        (),
        "Synthetic rows from any tool, instead of a release: CSV or Parquet. May be repeated.",
        multiple=True,
        metavar="FILE",
        python=False,
    )
    weights: str | Path | None = _rows(
        None,
        "Weights for the rows of --synthetic: a CSV file, one column per method.",
        metavar="FILE",
        python=False,
    )
    schema: str | Path | None = _rows(
        None,
        "The schema that all tables follow. [default=the release's]",
        metavar="FILE",
        python=False,
    )
    train: pd.DataFrame | str | Path | None = _rows(
        None,
        "The real rows that the generator saw, to go with --real. Without it, --real is split.",
        metavar="FILE",
    )
    dataset: str | None = _rows(
        None,
        "A bundled table instead of --real; models are tested on its test part.",
        metavar="NAME",
    )
    in_sample: bool = _rows(
        False,
        "Test on rows that the generator saw, as some papers do. This flatters the release, and "
        "every result says so.",
    )
    label: str | None = _what(None, "The column to predict.", metavar="COLUMN")
    degree: int = _what(
        defaults.DEGREE, "Compare marginals of up to this many columns.", range=(1, 5)
    )
    workload: Sequence[Sequence[str]] | None = _what(
        None,
        'Compare only the marginals in this file: a JSON list such as [["age", "sex"]].',
        metavar="FILE",
        parse=read_json,
        python='Compare only these marginals, such as [["age", "sex"]].',
    )
    models: Sequence[str] = _listed(
        (),
        f"Models, separated by commas: {MODELS}. [default=the linear ones and the boosted trees "
        "that suit the label]",
        python=f"Models: {MODELS}. [default=the linear ones and the boosted trees that suit the "
        "label]",
    )
    baselines: Sequence[str] = _listed(
        (), "Also train privately on the real rows, at the release's eps: dpsgd, gradient, pate."
    )
    reports: Sequence[str] | None = _listed(
        None,
        "The reports to run, separated by commas; `marginalsyn plugins --kind reports` lists them. "
        "[default=all but the slow ones]",
        python="The reports to run; `marginalsyn plugins --kind reports` lists them. [default=all "
        "but the slow ones]",
    )
    repeats: int = _what(
        defaults.REPEATS,
        "How many times to repeat: with random splits of --real, or with other seeds.",
        range=(1, 1000),
    )
    draws: int = _what(
        defaults.DRAWS, "Posterior draws of the report `bayes`.", range=(40, 1_000_000)
    )
    shadow: int = _what(
        defaults.SHADOW,
        "How many shadow releases the report `membership` makes, such as 16. Each is one run of "
        "the release's method.",
        range=(0, 1000),
        metavar="N",
    )
    seed: int = option(
        defaults.SEED,
        "The seed of splits and samples. This is safe: an evaluation adds no protective noise.",
        range=(0, None),
        metavar="N",
    )
    out: str | Path | None = option(
        None,
        "Where evaluation.json and report.html go; an earlier evaluation is replaced.",
        default=defaults.EVALUATION,
        metavar="FOLDER",
        python="Also write evaluation.json and report.html into this folder; an earlier "
        "evaluation is replaced.",
    )
    force: bool = option(False, "Overwrite what exists.")

    def run(self, session: Session = PYTHON) -> Result[Any]:
        """Find the rows, compare, and write the evaluation if it has a place."""
        from marginalsyn.evaluation.evaluation import check_folder

        if self.out is not None:
            check_folder(Path(self.out), force=self.force)
        with session.progress(self.progress) as progress:
            progress.report("open")
            found = self._compare(progress)
            if self.out is not None:
                progress.report("write", text=str(self.out))
                found.write(self.out, force=self.force)
        text = list(blocks(found)) if session.shown else []
        place = f"{found.stamp}: {self.out}/report.html and {self.out}/evaluation.json"
        return Result(found, found.to_json(), text, found.warnings, [place])

    def _compare(self, progress: Progress) -> Evaluation:
        from marginalsyn.evaluation.evaluation import choose_reports, evaluate
        from marginalsyn.operations.comparison import find_cases, find_real, find_real_linked

        same: Any = {name: getattr(self, name) for name in SAME}
        same |= {"models": self.models or (), "baselines": self.baselines or ()}
        linked = self._linked()
        if linked is not None:
            test, train = find_real_linked(self, linked)
            title = f"{linked.path.name} against real tables"
            return evaluate(linked, test, train=train, title=title, progress=progress, **same)
        cases = find_cases(self)
        has_label = bool(self.label or cases.schema.label)
        chosen = choose_reports(self.reports, has_label=has_label).values()
        real = find_real(self, cases, any(report.needs_test for report in chosen))
        if len(listed := ", ".join(cases.tables)) > 60:
            listed = f"{len(cases.tables)} tables"
        found = evaluate(
            cases.tables,
            real.test,
            cases.schema,
            weights=cases.weights,
            train=real.train,
            title=f"{listed} against {real.title}",
            progress=progress,
            **same,
        )
        return found.model_copy(update={"warnings": [*real.warnings, *found.warnings]})

    def _linked(self) -> LinkedRelease | None:
        """The release of linked tables that is meant, if one is."""
        from marginalsyn.release.linked import LinkedRelease, is_linked_release

        given = self.releases
        if isinstance(given, LinkedRelease):
            return given
        if not isinstance(given, Sequence) or self.synthetic:
            return None
        paths = [release_path(path) for path in given or (None,)]
        found = [path for path in paths if is_linked_release(path)]
        if found and len(paths) > 1:
            raise UsageError(
                f"release ({found[0]}) must be evaluated by itself: it holds linked tables"
            )
        return LinkedRelease.read(found[0]) if found else None


def blocks(found: Evaluation) -> Iterator[str | Sentence | Columns]:
    """The verdict and its figures, what is worst by name, and the reports' tables."""
    from marginalsyn.evaluation.headline import figures, in_short, rule_sentences, words

    cases = found.fitness()
    yield Sentence(f"NOT PRIVATE: for the curator. {found.title}")
    if (table := words(cases)) is not None:
        yield ""
        yield Columns(*table)
    if (table := figures(cases, linked=bool(found.linked))) is not None:
        yield ""
        yield Columns(*table, right=table[0][1:])
    if cases:
        yield ""
    several = len(found.cases) > 1
    yield from map(Sentence, found.sentences())
    if not several:
        for uses in cases.values() if len(cases) == 1 else ():
            for name, text in in_short(uses).items():
                yield Sentence(f"{name.lower()}: {text}", indent="  ")
        for name, listed in found.worst_named().items():
            yield Sentence(f"worst {name}: {'; '.join(listed)}", indent="  ")
    for rule in rule_sentences(cases):
        yield Sentence(rule, indent="  ")
    for head, *rows in found.tables():
        yield ""
        yield Columns(head, rows, right=[name for name in head[1:] if name not in TEXTS])

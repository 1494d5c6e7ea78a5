"""``marginalsyn evaluate``: how close a release is to real rows, and what models lose by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from marginalsyn import defaults
from marginalsyn.cli import group, linked, options, screen
from marginalsyn.cli.bundles import bundle, option
from marginalsyn.cli.comparison import Rows, find_cases
from marginalsyn.cli.inputs import read_json, release_path

if TYPE_CHECKING:
    from marginalsyn.evaluation.evaluation import Evaluation

_TEXTS = ("trained on", "item", "metric")
# What is handed on as it was given.
AS_GIVEN = ("label", "degree", "repeats", "draws", "shadow", "seed")
MODELS = (
    "logistic, logistic-coded, svm, boosting, ridge, boosting-quantity, mlp, random-forest, rbf-svm"
)


@dataclass(frozen=True, kw_only=True)
class What:
    """What is computed of the tables."""

    panel = "Comparison"

    label: str | None = option("--label", metavar="COLUMN", help="The column to predict.")
    degree: int = option(
        "--degree",
        type=click.IntRange(1, 5),
        default=defaults.DEGREE,
        help="Compare marginals of up to this many columns.",
    )
    workload: Path | None = option(
        "--workload",
        type=options.PATH,
        metavar="FILE",
        help='Compare only the marginals in this file: a JSON list such as [["age", "sex"]].',
    )
    models: str = option(
        "--models",
        default="",
        show_default=False,
        metavar="NAMES",
        help=f"Models, separated by commas: {MODELS}. [default=the linear ones and the "
        "boosted trees that suit the label]",
    )
    baselines: str = option(
        "--baselines",
        default="",
        show_default=False,
        metavar="NAMES",
        help="Also train privately on the real rows, at the release's eps: dpsgd, gradient, pate.",
    )
    reports: str = option(
        "--reports",
        default="",
        show_default=False,
        metavar="NAMES",
        help="The reports to run, separated by commas; `marginalsyn plugins --kind reports` "
        "lists them. [default=all but the slow ones]",
    )
    repeats: int = option(
        "--repeats",
        type=click.IntRange(1, 1000),
        default=defaults.REPEATS,
        help="How many times to repeat: with random splits of --real, or with other seeds.",
    )
    draws: int = option(
        "--draws",
        type=click.IntRange(40, 1_000_000),
        default=defaults.DRAWS,
        help="Posterior draws of the report `bayes`.",
    )
    shadow: int = option(
        "--shadow",
        type=click.IntRange(0, 1000),
        default=defaults.SHADOW,
        metavar="N",
        help="How many shadow releases the report `membership` makes, such as 16. Each is "
        "one run of the release's method.",
    )
    seed: int = option(
        "--seed",
        type=click.IntRange(min=0),
        default=defaults.SEED,
        metavar="N",
        panel=None,
        help="The seed of splits and samples. This is safe: an evaluation adds no protective "
        "noise.",
    )


@group.command(
    examples="""
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
    """,
)
@click.argument(
    "releases",
    type=options.PATH,
    nargs=-1,
    metavar="[RELEASE]...",
    help="The release folders. [default=the last one made here, else ./release]",
)
@bundle(Rows)
@bundle(What)
@bundle(
    options.Output,
    without=("table_format",),
    out={
        "default": defaults.EVALUATION,
        "metavar": "FOLDER",
        "help": "Where evaluation.json and report.html go; an earlier evaluation is replaced.",
    },
)
def evaluate(releases: tuple[Path, ...], rows: Rows, what: What, output: options.Output) -> None:
    """Compare synthetic tables with real rows, and models trained on them with real ones.

    Says first what each table is fit for: descriptive tables, linear models, trees, rare groups.
    Shows how far the marginals are off, next to those of a fresh sample and of shuffled columns;
    how much models lose by being trained on the release, with and without its weights; and how much
    of that loss is explained. NOT PRIVATE: everything is computed from real rows without
    protection, for the curator alone. It spends no budget, so do not publish any of it.
    """
    from marginalsyn.evaluation.evaluation import check_folder, choose_reports
    from marginalsyn.evaluation.evaluation import evaluate as run
    from marginalsyn.operations.comparison import find_real
    from marginalsyn.release.linked import is_linked_release

    if not rows.synthetic and len(releases) <= 1:
        path = release_path(releases[0] if releases else None)
        if is_linked_release(path):
            linked.evaluate(path, rows, what.label, what.seed, output)
            return
    notes, out = screen.Notes(output.quiet), output.path
    check_folder(out, force=output.force)
    cases = find_cases(releases, rows)
    wanted = names(what.reports) or None
    has_label = bool(what.label or cases.schema.label)
    tests = any(r.needs_test for r in choose_reports(wanted, has_label=has_label).values())
    with notes.progress() as progress:
        progress.report("open")
        real = find_real(
            cases,
            real=rows.real,
            train=rows.train,
            dataset=rows.dataset,
            in_sample=rows.in_sample,
            tests=tests,
        )
        found = run(
            cases.tables,
            real.test,
            cases.schema,
            weights=cases.weights,
            train=real.train,
            in_sample=rows.in_sample,
            workload=read_json(what.workload) if what.workload else None,
            models=names(what.models),
            reports=wanted,
            baselines=names(what.baselines),
            **{name: getattr(what, name) for name in AS_GIVEN},
            title=f"{told(cases.tables)} against {real.title}",
            progress=progress,
        )
        found = real.told(found)
        progress.report("write", text=str(out))
        found.write(out, force=output.force)
    notes.warn_all(found.warnings)
    if output.as_json:
        screen.write(found.to_json())
    else:
        show(found)
    notes.say(f"{found.stamp}: {out}/report.html and {out}/evaluation.json")


def told(tables: Mapping[str, Any]) -> str:
    """The tables in a title."""
    listed = ", ".join(tables)
    return listed if len(listed) <= 60 else f"{len(tables)} tables"


def names(text: str) -> tuple[str, ...]:
    """Names separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def show(found: Evaluation) -> None:
    """The verdict and the two figures, what is worst by name, and the reports' tables."""
    from marginalsyn.evaluation.headline import figures, rules_told, words

    cases = found.fitness()
    screen.write_text(f"NOT PRIVATE: for the curator. {found.title}")
    for table, aligned in ((words(cases), False), (figures(cases), True)):
        if table is not None:
            head, rows = table
            screen.write("")
            screen.write_table(head, rows, right=head[1:] if aligned else ())
    if cases:
        screen.write("")
    several = len(found.cases) > 1
    for sentence in found.comparison if several else next(iter(found.verdict.values())):
        screen.write_text(sentence)
    if not several:
        for name, listed in next(iter(found.worst.values()), {}).items():
            screen.write_text(f"worst {name}: {'; '.join(listed)}", indent="  ")
    for told in rules_told(cases):
        screen.write_text(told, indent="  ")
    for head, *rows in found.tables():
        screen.write("")
        numbers = [name for name in head[1:] if name not in _TEXTS]
        screen.write_table(head, rows, right=numbers)

"""``marginalsyn evaluate``: how close a release is to real rows, and what models lose by it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from marginalsyn.cli import options, screen
from marginalsyn.cli.generate import EVALUATION
from marginalsyn.cli.group import Command

if TYPE_CHECKING:
    from marginalsyn.evaluation import Evaluation

_TEXTS = ("trained on", "item", "metric")
MODELS = "logistic, logistic-coded, svm, ridge, mlp, random-forest, rbf-svm"


@click.command(
    cls=Command,
    examples="""
    # the last release against the rows that were kept from its generator
    marginalsyn evaluate
    # several releases beside one another
    marginalsyn evaluate release-1 release-2 --dataset heart --out comparison
    # any tool's rows; test.csv holds real rows that the tool did not see
    marginalsyn evaluate --synthetic foo.csv --weights w.csv --real test.csv --schema s.json
    # other models, and private training on the real rows to compare with
    marginalsyn evaluate --models logistic,random-forest --baselines dpsgd,pate
    # can one tell from the release whose rows are behind it?
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
@click.option(
    "--synthetic",
    "tables",
    type=options.PATH,
    multiple=True,
    metavar="FILE",
    panel="Rows",
    help="Synthetic rows from any tool, instead of a release: CSV or Parquet. May be repeated.",
)
@click.option(
    "--weights",
    "weights_path",
    type=options.PATH,
    metavar="FILE",
    panel="Rows",
    help="Weights for the rows of --synthetic: a CSV file, one column per method.",
)
@click.option(
    "--schema",
    "schema_path",
    type=options.PATH,
    metavar="FILE",
    panel="Rows",
    help="The schema that all tables follow. [default=the release's]",
)
@click.option(
    "--real",
    "real_path",
    type=options.PATH,
    metavar="FILE",
    panel="Rows",
    help="Real rows that the generator did not see, for testing. [default=the held-out part of the "
    "table that the release came from]",
)
@click.option(
    "--train",
    "train_path",
    type=options.PATH,
    metavar="FILE",
    panel="Rows",
    help="The real rows that the generator saw, to go with --real. Without it, --real is split.",
)
@click.option(
    "--dataset",
    metavar="NAME",
    panel="Rows",
    help="A bundled table instead of --real; models are tested on its test part.",
)
@click.option(
    "--in-sample",
    is_flag=True,
    panel="Rows",
    help="Test on rows that the generator saw, as some papers do. This flatters the release, and "
    "every result says so.",
)
@click.option("--label", metavar="COLUMN", panel="What", help="The column to predict.")
@click.option(
    "--degree",
    type=click.IntRange(1, 5),
    default=3,
    show_default=True,
    panel="What",
    help="Compare marginals of up to this many columns.",
)
@click.option(
    "--workload",
    "workload_path",
    type=options.PATH,
    metavar="FILE",
    panel="What",
    help='Compare only the marginals in this file: a JSON list such as [["age", "sex"]].',
)
@click.option(
    "--models",
    default="",
    metavar="NAMES",
    panel="What",
    help=f"Models, separated by commas: {MODELS}. [default=the linear ones that suit the label]",
)
@click.option(
    "--baselines",
    default="",
    metavar="NAMES",
    panel="What",
    help="Also train privately on the real rows, at the release's eps: dpsgd, gradient, pate.",
)
@click.option(
    "--reports",
    default="",
    metavar="NAMES",
    panel="What",
    help="The reports to run, separated by commas; `marginalsyn plugins --kind reports` lists "
    "them. [default=all but the slow ones]",
)
@click.option(
    "--repeats",
    type=click.IntRange(1, 1000),
    default=5,
    show_default=True,
    panel="What",
    help="How many times to repeat: with random splits of --real, or with other seeds.",
)
@click.option(
    "--draws",
    type=click.IntRange(40, 1_000_000),
    default=1000,
    show_default=True,
    panel="What",
    help="Posterior draws of the report `bayes`.",
)
@click.option(
    "--shadow",
    type=click.IntRange(0, 1000),
    default=0,
    show_default=True,
    metavar="N",
    panel="What",
    help="How many shadow releases the report `membership` makes, such as 16. Each is one run of "
    "the release's method.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="The seed of splits and samples. This is safe: an evaluation adds no protective noise.",
)
@click.option(
    "--out",
    type=options.PATH,
    default=EVALUATION,
    show_default=True,
    metavar="FOLDER",
    help="Where evaluation.json and report.html go; an earlier evaluation is replaced.",
)
@options.force
@options.quiet
@options.as_json
def evaluate(
    releases: tuple[Path, ...],
    tables: tuple[Path, ...],
    weights_path: Path | None,
    schema_path: Path | None,
    real_path: Path | None,
    train_path: Path | None,
    dataset: str | None,
    in_sample: bool,
    label: str | None,
    degree: int,
    workload_path: Path | None,
    models: str,
    baselines: str,
    reports: str,
    repeats: int,
    draws: int,
    shadow: int,
    seed: int,
    out: Path,
    force: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Compare synthetic tables with real rows, and models trained on them with real ones.

    Shows how far the marginals are off, next to the error of sampling alone; how much linear models
    lose by being trained on the release, with and without its weights; and how much of that loss is
    explained. NOT PRIVATE: everything is computed from real rows without protection, for the
    curator alone. It spends no budget, so do not publish any of it.
    """
    from marginalsyn.cli.evaluate_source import find_cases, find_real, read_json
    from marginalsyn.evaluation import check_folder, choose_reports
    from marginalsyn.evaluation import evaluate as run

    notes = screen.Notes(quiet)
    check_folder(out, force=force)
    cases = find_cases(releases, tables, weights_path, schema_path, dataset)
    wanted = names(reports) or None
    has_label = bool(label or cases.schema.label)
    tests = any(r.needs_test for r in choose_reports(wanted, has_label=has_label).values())
    with notes.progress() as progress:
        progress.report("open")
        rows = find_real(
            cases,
            real_path=real_path,
            train_path=train_path,
            dataset=dataset,
            in_sample=in_sample,
            tests=tests,
        )
        found = run(
            cases.tables,
            rows.real,
            cases.schema,
            weights=cases.weights,
            train=rows.train,
            label=label,
            in_sample=rows.in_sample,
            degree=degree,
            workload=read_json(workload_path) if workload_path else None,
            models=names(models),
            reports=wanted,
            repeats=repeats,
            baselines=names(baselines),
            draws=draws,
            shadow=shadow,
            seed=seed,
            title=f"{told(cases.tables)} against {rows.title}",
            progress=progress,
        )
        progress.report("write", text=str(out))
        found.write(out, force=force)
    for warning in found.warnings:
        notes.warn(warning)
    if as_json:
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
    """The verdict, and one table of marginals and one of models."""
    screen.write(f"NOT PRIVATE: for the curator. {found.title}")
    several = len(found.cases) > 1
    for sentence in found.comparison if several else next(iter(found.verdict.values())):
        screen.write(sentence)
    tables = [rows for rows in (_marginals(found), _models(found)) if rows]
    for rows in tables or [_facts(found)]:
        if rows:
            screen.write("")
            numbers = [name for name in rows[0][1:] if name not in _TEXTS]
            screen.write_table(rows[0], rows[1:], right=numbers)


def _facts(found: Evaluation) -> list[list[str]]:
    """The main numbers of reports that have no table of their own here."""
    from marginalsyn.evaluation import number

    lines = found.to_frame().dropna(subset="value")
    rows = [
        [str(line.case), str(line.item), str(line.metric), number(line.value)]
        for line in lines.itertuples()
    ]
    return [["table", "item", "metric", "value"], *rows] if rows else []


def _marginals(found: Evaluation) -> list[list[str]]:
    """Mean total variation by degree."""
    from marginalsyn.evaluation import number
    from marginalsyn.plugins.report_marginals import floors

    blocks = found.reports.get("marginals", {})
    if not blocks:
        return []
    first = next(iter(blocks.values()))
    levels = [level["degree"] for level in first["variants"][0]["by_degree"]]
    rows = [["marginal error (TV)", *(f"{d}-way" for d in levels), "worst"]]

    def line(name: str, part: Mapping[str, Any]) -> list[str]:
        means = [number(level["mean_tv"]) for level in part["by_degree"]]
        return [name, *means, number(part["by_degree"][-1]["worst_tv"])]

    for case, block in blocks.items():
        for variant in block["variants"]:
            name = f"{case}, {variant['weights']}" if variant["weights"] else case
            rows.append(line(name, variant))
    rows += [line(name, sampling) for name, sampling in floors(blocks)]
    return rows


def _models(found: Evaluation) -> list[list[str]]:
    """Scores of every model and training table."""
    from marginalsyn.evaluation import with_error

    blocks = found.reports.get("tstr", {})
    rows: list[list[str]] = []
    seen: set[str] = set()
    models = {r["model"]: None for block in blocks.values() for r in block["results"]}
    for model, (case, block) in itertools.product(models, blocks.items()):
        for r in (r for r in block["results"] if r["model"] == model):
            real = r["trained_on"] == "real"
            if real and r["model"] in seen:
                continue
            seen.add(r["model"] if real else "")
            scores = [m for m in ("accuracy", "auc", "r2", "risk") if m in r["scores"]]
            if not rows:
                rows.append(["model", "trained on", *scores, "excess risk"])
            name = r["trained_on"] + (f", {r['weights']}" if r["weights"] else "")
            if len(blocks) > 1 and not real:
                name = f"{case}: {name}"
            excess = r["excess"].get("risk") if not real else None
            cells = [with_error(v["mean"], v["se"]) for v in (r["scores"][m] for m in scores)]
            last = with_error(excess["mean"], excess["se"]) if excess else ""
            rows.append([model, name, *cells, last])
    width = max((len(row) for row in rows), default=0)
    return [row + [""] * (width - len(row)) for row in rows]

"""What commands do with linked tables: one release with a file for each of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from marginalsyn.cli import options, screen
from marginalsyn.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.budget import Budget
    from marginalsyn.contract import GeneratorConfig
    from marginalsyn.curator import LinkedInput
    from marginalsyn.private import Ledger
    from marginalsyn.release import LinkedRelease


def generate(
    source: LinkedInput,
    config: GeneratorConfig,
    budget: Budget,
    persons: int | None,
    output: options.Output,
    running: options.Running,
) -> None:
    """Refuse what cannot work, then charge, model every view, and write a release."""
    from marginalsyn.cli.accounting import accounted, warn_of_seed
    from marginalsyn.linked import generate_linked, plan_views
    from marginalsyn.noise import make_noise
    from marginalsyn.release import LinkedRelease, preflight

    notes = screen.Notes(output.quiet)
    if running.resume:
        raise UsageError(
            "--resume (of linked tables) must not be given: their answers are not kept"
        )
    if running.dry_run:
        _show_plan(source, config, budget, output.as_json)
        return
    warn_of_seed(running.seed, notes)
    preflight(output.path, output.force)
    if source.kept.holdout:
        source = source.salted(source.workspace.holdout_salt(source.key, seed=running.seed))
    plan_views(source.tree, config, budget)
    ledger = source.ledger()
    with accounted(ledger), notes.progress() as progress:
        progress.report("open", text=source.title)
        made, statement = generate_linked(
            source.open(ledger),
            config,
            budget,
            noise=make_noise(running.seed),
            progress=progress,
            persons=persons,
            accept_nonprivate_schema=source.named.accept_nonprivate_schema,
        )
        progress.report("write", text=str(output.path))
        release = LinkedRelease.write(
            made.frames,
            made.measurements,
            made.model,
            source.tree,
            statement,
            output.path,
            format=output.table_format,  # type: ignore[arg-type]
            force=output.force,
        )
    try:
        source.remember(release)
    except (OSError, UsageError) as error:
        notes.warn(f"the release is written, but not remembered: {error}")
    sizes = {name: len(frame) for name, frame in made.frames.items()}
    if output.as_json:
        screen.write_json(_facts(release, sizes, ledger))
    else:
        screen.write(str(output.path))
    _say(release, sizes, source.title, ledger, notes)


def show(release: LinkedRelease, as_json: bool) -> None:
    """Describe a release of linked tables."""
    from marginalsyn.cli.show import USE, values_of

    statement, tables = release.statement, release.frames()
    if as_json:
        screen.write_json(
            {
                "release": str(release.path),
                "tables": {name: len(frame) for name, frame in tables.items()},
                "can_sample": True,
                "statement": statement.model_dump(mode="json"),
            }
        )
        return
    use = USE if statement.private else "For research only; do not publish."
    screen.write_facts(
        [
            ("Release", release.path),
            ("Tables", ", ".join(f"{n} ({len(f):,} rows)" for n, f in tables.items())),
            ("Made by", statement.generator),
            ("Guarantee", "none: seeded noise" if statement.seeded else statement.total()),
            ("Protects", statement.unit),
            ("Why", statement.why),
            ("Noise", statement.noise),
            ("Use", use),
            *([("Weights", _weights(release))] if release.weights() is not None else []),
        ]
    )
    rows: list[tuple[object, ...]] = []
    for table in release.tree.tables:
        if table.key:
            rows.append((table.name, table.key, "key", "made anew", ""))
        if table.link:
            about = f"of {table.parent}, at most {table.max_children} rows each"
            rows.append((table.name, table.link, "link", about, ""))
        rows += [(table.name, c.name, c.kind, values_of(c), c.size) for c in table.columns]
    screen.write("")
    screen.write_table(("table", "column", "kind", "values", "codes"), rows, right=("codes",))
    screen.write("")
    screen.write_table(
        ("charge", "for", "cost", "guarantee"),
        [(c.mechanism, c.purpose, c.cost, c.guarantee) for c in statement.charges],
    )
    notes = screen.Notes()
    for warning in statement.warnings:
        notes.warn(warning)


def _weights(release: LinkedRelease) -> str:
    """The columns of weights, in words."""
    weights, root = release.weights(), release.tree.root.name
    names = ", ".join(map(str, weights)) if weights is not None else "none"
    return f"{names} (weights.csv, a row for each row of {root}; what hangs on it weighs the same)"


def sample(
    release: LinkedRelease,
    persons: int | None,
    where: str | None,
    out: Path | None,
    seed: int | None,
    force: bool,
    quiet: bool,
) -> None:
    """Draw more persons with all their rows into a folder."""
    import numpy as np

    from marginalsyn.linked import sample_linked

    if out is None or out.suffix in (".csv", ".parquet"):
        raise UsageError(
            f"--out ({out}) must name a folder: linked tables are written to a file each"
        )
    if out.exists() and not force and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"--out ({out}) must not hold anything yet; add --force to replace it")
    notes = screen.Notes(quiet)
    with notes.progress() as progress:
        progress.report("sample")
        tables = sample_linked(release, persons, np.random.default_rng(seed), where=where)
    _write(tables, out)
    screen.write(str(out))
    told = ", ".join(f"{len(frame):,} rows of {name}" for name, frame in tables.items())
    notes.say(f"{told}; no privacy budget was spent.")


def _write(tables: dict[str, pd.DataFrame], out: Path) -> None:
    from marginalsyn.curator import write_table

    out.mkdir(parents=True, exist_ok=True)
    for name, frame in tables.items():
        write_table(frame, out / f"{name}.csv")


def _show_plan(source: LinkedInput, config: GeneratorConfig, budget: Budget, as_json: bool) -> None:
    """Print what a run would do; nothing is read or written."""
    from marginalsyn.linked import plan_views

    plans, tree = plan_views(source.tree, config, budget), source.tree
    if as_json:
        screen.write_json(
            {
                "source": source.title,
                "method": config.name,
                "eps": budget.eps,
                "delta": budget.delta,
                "rho": budget.rho,
                "unit": tree.family.text,
                "shares": dict(plans.shares),
            }
        )
        return
    facts: list[tuple[str, Any]] = [
        ("Source", source.title),
        ("Tables", ", ".join(table.name for table in tree.tables)),
        ("Method", config.name),
        ("Protects", tree.family.text),
        ("Budget", f"eps {budget.eps:g}, delta {budget.delta:g}, {budget.neighbours}"),
        ("", f"rho {budget.rho:.6g} (zCDP)"),
    ]
    for number, (view, share) in enumerate(plans.shares.items()):
        facts.append(("Split" if not number else "", f"{share:.0%} {view}"))
    screen.write_facts(facts)
    screen.Notes().say("Dry run: nothing was read, nothing was spent.")


def _facts(release: LinkedRelease, sizes: dict[str, int], ledger: Ledger) -> dict[str, Any]:
    """What ``--json`` prints after a run."""
    statement, total = release.statement, ledger.total()
    return {
        "release": str(release.path),
        "method": statement.generator,
        "tables": sizes,
        "eps": statement.eps,
        "delta": statement.delta,
        "neighbours": statement.neighbours,
        "guarantee": statement.guarantee,
        "seeded": statement.seeded,
        "warnings": list(statement.warnings),
        "ledger": {"path": str(ledger.path), "eps": total.eps, "delta": total.delta},
    }


def _say(
    release: LinkedRelease,
    sizes: dict[str, int],
    title: str,
    ledger: Ledger,
    notes: screen.Notes,
) -> None:
    """The summary on stderr, with what to do next."""
    from marginalsyn.cli.accounting import show_total

    for warning in release.statement.warnings:
        notes.warn(warning)
    told = ", ".join(f"{count:,} rows of {name}" for name, count in sizes.items())
    notes.say(f"{told}, by {release.statement.generator}, from {title}")
    notes.say(f"this release:    {release.statement.total()}")
    show_total(ledger, notes)
    notes.say(f"next: marginalsyn show {release.path}   marginalsyn verify {release.path}")


def evaluate(path: Path, rows: Any, label: str | None, seed: int, output: options.Output) -> None:
    """Compare a release of linked tables with real persons and all that hangs on them."""
    from marginalsyn.curator import UNNAMED, find_linked_origin
    from marginalsyn.evaluation import check_folder, evaluate_linked
    from marginalsyn.private import PrivateForest
    from marginalsyn.release import LinkedRelease

    notes, out = screen.Notes(output.quiet), output.path
    check_folder(out, force=output.force)
    release = LinkedRelease.read(path)

    def read(folder: Path, held_out: bool = False) -> dict[str, pd.DataFrame]:
        forest = PrivateForest.open(folder, release.tree)
        return forest.unprotected("evaluate").frames(held_out=held_out)

    with notes.progress() as progress:
        progress.report("open")
        if rows.real is not None:
            real = read(rows.real)
            train = read(rows.train) if rows.train is not None else None
        else:
            origin = find_linked_origin(release, UNNAMED)
            if origin is None:
                raise UsageError(
                    "real tables must be named with --real FOLDER: this folder does not know what "
                    "the release was made from"
                )
            view = origin.open().unprotected("evaluate the release")
            if not origin.kept.holdout and not rows.in_sample:
                raise UsageError(
                    "nobody was held out of the release: name other persons with --real FOLDER, or "
                    "add --in-sample, which flatters the release"
                )
            train = view.frames() if origin.kept.holdout else None
            real = view.frames(held_out=bool(origin.kept.holdout))
        progress.report("compare")
        found = evaluate_linked(
            release.frames(),
            real,
            release.tree,
            train=train,
            in_sample=rows.in_sample,
            label=label,
            title=f"{release.path.name} against real tables",
            seed=seed,
        )
        found.write(out, force=output.force)
    if output.as_json:
        screen.write(found.to_json())
    else:
        screen.write(f"NOT PRIVATE: for the curator. {found.title}")
        for sentence in found.sentences():
            screen.write(sentence)
        lines = [
            (group, *(screen_number(line[case]) for case in line if case != "marginals"))
            for group, line in found.blocks["errors"].items()
        ]
        first = next(iter(found.blocks["errors"].values()))
        screen.write("")
        heads = [case for case in first if case != "marginals"]
        screen.write_table(("mean error", *heads), lines, right=heads)
    notes.say(f"{found.stamp}: {out}/report.html and {out}/evaluation.json")


def screen_number(value: float | None) -> str:
    """A distance as the screen shows it."""
    return "n/a" if value is None else f"{value:.3f}"


def infer(folder: str, out: Path | None, sep: str | None, quiet: bool) -> None:
    """Draft the schema of the tables in a folder."""
    from marginalsyn.curator import draft_linked
    from marginalsyn.table import DRAFT_WARNING

    notes = screen.Notes(quiet)
    with notes.progress() as progress:
        progress.report("read", text=folder)
        draft = draft_linked(folder, sep=sep)
    if out is None:
        screen.write(draft.tree.to_json())
    else:
        draft.tree.write(out)
        screen.write(str(out))
    for table in draft.tree.tables:
        about = (
            f"{table.link} of {table.parent}" if table.parent else "the root: its rows are persons"
        )
        order = f", in the order of {table.order}" if table.order else ""
        notes.say(f"{table.name}: {about}{order}; {len(table.columns)} columns")
    for remark in draft.remarks:
        notes.warn(remark)
    notes.warn(DRAFT_WARNING)
    notes.say(
        "max_children is a public number that you know of such tables: it was not read off the rows"
    )

"""What commands do with linked tables: one release with a file for each of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from marginalsyn.cli import options, screen
from marginalsyn.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.contract import GeneratorConfig
    from marginalsyn.operations.linked import LinkedInput
    from marginalsyn.privacy.budget import Budget
    from marginalsyn.release.linked import LinkedRelease


def generate(
    source: LinkedInput,
    config: GeneratorConfig,
    budget: Budget,
    persons: int | None,
    output: options.Output,
    running: options.Running,
) -> None:
    """Refuse what cannot work, then charge, model every view, and write a release."""
    from marginalsyn.cli.accounting import accounted, facts, show_end, warn_of_seed
    from marginalsyn.linked.generating import generate_linked, plan_views
    from marginalsyn.privacy.noise import make_noise
    from marginalsyn.release.folder import preflight
    from marginalsyn.release.linked import LinkedRelease

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
        screen.write_json(facts(release, ledger, tables=sizes))
    else:
        screen.write(str(output.path))
    made_of = ", ".join(f"{count:,} rows of {name}" for name, count in sizes.items())
    said = f"{made_of}, by {statement.generator}, from {source.title}"
    show_end(release, said, release.path, ledger, notes)


def show(release: LinkedRelease, as_json: bool) -> None:
    """Describe a release of linked tables."""
    from marginalsyn.cli.show import USE, values_of, write_charges

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
    write_charges(statement)


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

    from marginalsyn.linked.release import sample_linked

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
    from marginalsyn.operations.files import write_table

    out.mkdir(parents=True, exist_ok=True)
    for name, frame in tables.items():
        write_table(frame, out / f"{name}.csv")


def _show_plan(source: LinkedInput, config: GeneratorConfig, budget: Budget, as_json: bool) -> None:
    """Print what a run would do; nothing is read or written."""
    from marginalsyn.linked.generating import plan_views

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
    screen.Notes().say(screen.DRY_RUN)


def evaluate(path: Path, rows: Any, label: str | None, seed: int, output: options.Output) -> None:
    """Compare a release of linked tables with real persons and all that hangs on them."""
    from marginalsyn.access.linked_tables import PrivateForest
    from marginalsyn.evaluation.evaluation import check_folder
    from marginalsyn.evaluation.linked import evaluate_linked
    from marginalsyn.operations.linked import find_linked_origin
    from marginalsyn.operations.origins import UNNAMED
    from marginalsyn.release.linked import LinkedRelease

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
            view, root = origin.open().unprotected("evaluate the release"), release.tree.root.name
            if not origin.kept.holdout and not rows.in_sample:
                raise UsageError(
                    "nobody was held out of the release: name other persons with --real FOLDER, or "
                    "add --in-sample, which flatters the release"
                )
            train = view.frames() if origin.kept.holdout else None
            real = view.frames(held_out=bool(origin.kept.holdout))
            if not rows.in_sample and train and not (len(real[root]) and len(train[root])):
                raise UsageError(
                    f"held-out persons ({len(real[root]):,}) must be some, and not all, to "
                    f"evaluate on. The release is written and paid for ({release.path}): name "
                    "other persons with --real FOLDER, or add --in-sample"
                )
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
    from marginalsyn.operations.linked_draft import draft_linked
    from marginalsyn.table.schema import DRAFT_WARNING

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


def check(source: LinkedInput, as_json: bool) -> None:
    """Count, for the curator alone, rows without a parent and keys that several rows share."""
    found = source.open().unprotected("check keys").keys()
    if as_json:
        screen.write_json({"stamp": "not private: for the curator", "tables": found})
        return
    heads = {"rows": "rows", "lost": "without a parent", "shared": "shared keys"}
    shown = [(name, *(sums.get(one, "") for one in heads)) for name, sums in found.items()]
    screen.write_table(("table", *heads.values()), shown, right=tuple(heads.values()))
    notes, tree = screen.Notes(), source.tree
    for table in tree.tables:
        if not (shared := found[table.name].get("shared")):
            continue
        if table.parent:
            if tree.children(table.name):
                notes.warn(
                    f"{shared:,} values of {table.key} stand under several rows of {table.parent}: "
                    "what is under them belongs to all of these. If it starts again at 1 for each, "
                    "write both keys into one column"
                )
        elif not table.rows_of:
            notes.warn(f"of the rows of {table.name} with the same {table.key} one is counted")
    notes.warn("exact counts of keys: not private, for the curator")

"""Writes ``docs/defaults.md``: why each default that is a number is so; ``--check`` compares.

python docs/generate_defaults.py
python docs/generate_defaults.py --check

Numbers and methods are read off the code. A reason here is for one number: where the code has
another, or one without a reason, this fails.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import fields
from importlib import import_module
from pathlib import Path

from marginalsyn.registry import GENERATORS, WEIGHTS, find, plugins

PAGE = Path(__file__).with_name("defaults.md")
HEAD = """# Defaults that are numbers

Written by `python docs/generate_defaults.py`; the suite checks that no number is missing or
has changed. *Chosen on* names the tables that had a part in the choice, *checked on* those that
had none; pages named `results/` are in `benchmarks/`. "Paper" means that the number is the
authors'; "none recorded" that nobody wrote down a measurement, so it may well be improved; "whole
runs" that the page has releases with this number, and none with another.
`benchmarks/tables` keeps a fixed list of tables out of all choices (`KEPT_OUT` in `cases.py`).
"""
NONE = "none recorded"
# What runs of whole methods check, on all their tables together, without varying the number.
TABLES = "whole runs: results/tables.md, results/kept_out.md"
GANS, POINTS = "whole runs: results/gans.md", "whole runs: results/support_points.md"
WEIGHING, SHAPES = "whole runs: results/weights.md", "whole runs: results/shapes.md"
NEVER = "no run: time alone"
LONG = "COMPAS, Berka's orders, the Massachusetts excerpt"
# By option and number: why, chosen on, checked on.
OPTIONS: dict[str, dict[tuple[str, float], tuple[str, str, str]]] = {
    "generators": {
        ("degree", 2): (
            "pairs carry most of what models need; triples cost far more noise",
            NONE,
            TABLES,
        ),
        ("max_model_mb", 10.0): (
            "a larger model takes longer in proportion, and had no lower errors",
            NONE,
            "NIST's excerpts: with more columns it leaves out pairs that would pay",
        ),
        ("max_model_mb", 80.0): ("memory and time of a fit", NONE, TABLES),
        ("max_cells", 1e6): ("8 MB a table: memory, not accuracy", "not on tables", TABLES),
        ("sweeps", 300.0): (
            "the chain stops by its own sampling error before; more is a bound on time",
            "the national excerpt",
            "80 to 160 sweeps were taken on the excerpts and on coded Adult",
        ),
        ("sweeps", 0.0): (
            "exact models unless a chain is asked for",
            "not on tables",
            "whole runs: results/tables.md, results/generators_scale.md",
        ),
        ("merge", 1.0): (
            "a code below three deviations of the next noise says nothing by itself",
            "not on tables: the noise's law",
            LONG + " (better than 0.4 on the last two)",
        ),
        ("label_weight", 1.0): (
            "no column counts more unless that is said",
            "not on tables",
            TABLES,
        ),
        ("one_way_share", 0.15): (
            "single columns decide the merging and the rows",
            NONE,
            "the bundled tables, within `auto`",
        ),
        ("one_way_share", 0.2): ("as above, for methods that choose less afterwards", NONE, TABLES),
        ("select_share", 0.1): (
            "judging all pairs once",
            NONE,
            "the bundled tables, within `auto`",
        ),
        ("select_share", 0.2): ("PrivBayes judges parents column by column", NONE, TABLES),
        ("soft_rows", 1000): ("rows that are fitted: time, not privacy", NONE, NEVER),
        ("steps", 1000): ("steps over these rows: time, not privacy", NONE, NEVER),
        ("theta", 4.0): ("average count over noise that a table must have", "paper", TABLES),
        ("parents", 3): ("more parents seldom pass the rule of theta", NONE, TABLES),
        ("candidates", 2000): ("sets of parents that are judged: time", NONE, TABLES),
        ("anchor", 3.0): ("how strongly rows are drawn to the noisy marginals", NONE, GANS),
        ("bound", 0.3): ("weights of a critic stay within it", NONE, GANS),
        ("clip_norm", 2.0): (
            "norm of a row's gradient: more noise with more",
            NONE,
            "results/gans.md",
        ),
        ("features", 128): ("random features of a teacher", NONE, "results/gans.md"),
        ("generator_rate", 0.002): (
            "step of the generator; costs no privacy",
            NONE,
            "results/gans.md",
        ),
        ("latent", 16): ("numbers that the generator starts from", NONE, "results/gans.md"),
        ("learning_rate", 0.01): ("step of the discriminator", NONE, "results/gans.md"),
        ("marginals", 0.2): ("share of the budget for marginals", NONE, "results/gans.md"),
        ("moves", 1): (
            "steps of the generator for one of the discriminator",
            NONE,
            "results/gans.md",
        ),
        ("moves", 20): ("steps of the generator a round of votes", NONE, "results/gans.md"),
        ("queries", 4000): (
            "votes: each costs the same; 16,000 take longer and are better",
            NONE,
            "Adult",
        ),
        ("rate", 0.1): ("share of rows in a step", NONE, "results/gans.md"),
        ("rounds", 40): ("rounds of votes", NONE, "results/gans.md"),
        ("settle", 0.25): (
            "share of the steps that are averaged at the end",
            NONE,
            "results/gans.md",
        ),
        ("steps", 300): ("noisy steps of the discriminator", NONE, "results/gans.md"),
        ("teacher_rows", 2.0): (
            "rows a teacher: many teachers, little noise",
            NONE,
            "results/gans.md",
        ),
        ("bandwidth_share", 0.1): (
            "share of the budget for the width",
            NONE,
            "results/support_points.md",
        ),
        ("bins", 24): ("grid of a potential", NONE, "results/support_points.md"),
        ("burn", 5000): ("steps before the chain counts", NONE, POINTS),
        ("candidates", 1024): (
            "places where a potential is asked",
            NONE,
            "results/support_points.md",
        ),
        ("cells", 1024): ("cells of a histogram", NONE, "results/support_points.md"),
        ("chains", 2): ("chains that are compared", NONE, POINTS),
        ("chains", 4): ("chains that are compared", "as usual for R-hat", POINTS),
        ("features", 500): (
            "waves: more cost time and no privacy",
            NONE,
            "results/support_points.md",
        ),
        ("kernel_width", 0.3): (
            "width over the largest distance",
            NONE,
            "results/support_points.md",
        ),
        ("p", 2.0): ("distances of the energy", NONE, POINTS),
        ("points", 50): ("points that a chain can still move", NONE, "results/support_points.md"),
        ("points", 200): ("points cost no privacy here", NONE, "results/support_points.md"),
        ("releases", 1): ("each costs the whole budget again", "not on tables", POINTS),
        ("steps", 20_000): ("steps of a chain", NONE, POINTS),
        ("total_share", 0.05): ("share of the budget for the number of rows", NONE, POINTS),
        ("total_share", 0.1): ("share of the budget for the number of rows", NONE, POINTS),
    },
    "weights": {
        ("clip_norm", 3.0): ("norm of a row's gradient", NONE, "results/weights.md"),
        ("decay", 0.01): ("not private: a ridge", NONE, WEIGHING),
        ("epochs", 60): ("not private: passes over the rows", NONE, WEIGHING),
        ("learning_rate", 0.01): ("step of the network", NONE, "results/weights.md"),
        ("marginals_share", 0.5): (
            "raking and the network share evenly",
            NONE,
            "whole runs: results/weights_new.md, results/label_weights.md",
        ),
        ("max_cells", 1500): ("cells that raking fits at once: time", NONE, "results/rake.md"),
        ("rounds", 4): ("choices of marginals to rake", NONE, "results/rake.md"),
        ("tolerance", 1e-6): ("when a regression has converged", "not on tables", WEIGHING),
    },
}
# Numbers that are no options, by module and name.
CONSTANTS: dict[str, tuple[object, str, str, str]] = {
    "generators.auto.FEW": (
        30.0,
        "the label's weight where few rows rise above the noise",
        NONE,
        TABLES,
    ),
    "generators.auto.MANY": (
        20.0,
        "the label's weight else: models of the label need its pairs",
        NONE,
        "results/defaults.md: 10 was as good or better on four of five",
    ),
    "generators.auto.FULL_MERGE": (
        1.0,
        "rare codes next to a label that is a number",
        NONE,
        "whole runs: the table diabetes in results/kept_out.md",
    ),
    "generators.auto.TINY": (
        800.0,
        "rows over noise below which a table is tiny",
        NONE,
        TABLES,
    ),
    "generators.auto.UNJUDGED": (
        30.0,
        "rows over noise below which nothing is judged",
        NONE,
        TABLES,
    ),
    "generators.batch_selection.NARROW": (
        40,
        "all pairs judged at once cost more with more",
        NONE,
        "whole runs: results/wide.md",
    ),
    "generators.workload.FOR_WEIGHT": (
        4.0,
        "pairs of a model that was named",
        NONE,
        "no run",
    ),
    "graphical.one_way.LEVELS": (
        (0.4, 0.6, 0.8, 1.0, 1.3, 1.6),
        "from what was best with few codes to what was best with many",
        LONG,
        "see results/defaults.md",
    ),
    "graphical.one_way.AFFORDED": (
        1.0,
        "noise on a column's mean pair, over the rows: beyond it no pair of the column pays",
        LONG,
        "see results/defaults.md",
    ),
    "graphical.shrunken_fit.COLUMN_STRENGTH": (0.01, "columns are shrunk before", NONE, TABLES),
    "graphical.shrunken_fit.TYPICAL": (
        0.5,
        "columns that say more of each other are rarer",
        NONE,
        TABLES,
    ),
    "purchases.shapes.Shapes.share": (0.05, "share of a run for shapes", NONE, SHAPES),
    "purchases.shapes.CLEAR": (
        4.0,
        "a cell by chance less than once in 30,000",
        "not on tables",
        SHAPES,
    ),
    "purchases.shapes.SEEN": (3.0, "parts that keep their own counts", NONE, SHAPES),
    "purchases.shapes.LAST_SHARE": (
        0.6,
        "share of the level that finds single values",
        NONE,
        SHAPES,
    ),
    "purchases.shapes.BINS": (32, "as many as automatic bins", "not on tables", SHAPES),
    "table.numeric.AUTO_BINS": (32, "few enough for pairs, many enough for models", NONE, TABLES),
    "generators.clique_tree.EXPECTED": (
        0.4,
        "the part of the other pairs that is expected to be measured next to strata",
        "the national excerpt by area, COMPAS by sex (0.25 is worse there)",
        "Telco by contract, Adult by race: results/nist.md",
    ),
    "generators.clique_tree.DEVIATION": (
        0.75,
        "between the power of chance and that of fixed ratios",
        "the national excerpt",
        "Massachusetts; not where a label counts more, by Adult: results/nist.md",
    ),
    "generators.clique_tree.MOST_FOR_STRATA": (
        0.9,
        "the other pairs keep a tenth at least",
        "not on tables",
        "whole runs: results/nist.md",
    ),
    "defaults.DELTA": (1e-9, "far below one over the rows of any table", "not on tables", TABLES),
    "defaults.SHARE": (0.1, "share of a budget for weights", "results/weights.md", WEIGHING),
}


def numbers(group: str) -> dict[tuple[str, float], list[str]]:
    """The methods that have a number as default of an option."""
    found = defaultdict(list)
    for name in sorted(plugin.name for plugin in plugins(group)):
        for field in fields(find(group, name)):
            if isinstance(field.default, int | float) and not isinstance(field.default, bool):
                found[field.name, field.default].append(name)
    return dict(sorted(found.items()))


def value_of(name: str) -> object:
    """The number that a dotted name has in the package."""
    for cut in (1, 2):
        parts = name.rsplit(".", cut)
        try:
            found = import_module(f"marginalsyn.{parts[0]}")
        except ModuleNotFoundError:
            continue
        for part in parts[1:]:
            found = getattr(found, part)
        return found
    raise SystemExit(f"{name} must be in the package")


def render() -> str:
    """The whole page."""
    parts, wrong = [HEAD], []
    for group, kind, title in (
        ("generators", GENERATORS, "Generators"),
        ("weights", WEIGHTS, "Weight estimators"),
    ):
        found, reasons = numbers(kind), OPTIONS[group]
        wrong += [
            f"{name} = {value} ({group}) must have a reason"
            for name, value in found.keys() - reasons
        ]
        wrong += [
            f"{name} = {value} ({group}) is in no method" for name, value in reasons.keys() - found
        ]
        lines = [
            f"| `{name}` | {value:g} | {', '.join(f'`{m}`' for m in methods)} | "
            + " | ".join(reasons.get((name, value), ("", "", "")))
            + " |"
            for (name, value), methods in found.items()
        ]
        head = "| option | default | methods | why | chosen on | checked on |\n" + "|---" * 6 + "|"
        parts.append("\n".join([f"## {title}", "", head, *lines, ""]))
    lines = []
    for name, (value, *why) in CONSTANTS.items():
        if value_of(name) != value:
            wrong.append(f"{name} = {value_of(name)} must have a reason; here it is {value}")
        lines.append(f"| `{name}` | {value} | {' | '.join(why)} |")
    head = "| number | value | why | chosen on | checked on |\n|---|---|---|---|---|"
    parts.append("\n".join(["## Numbers inside", "", head, *lines, ""]))
    if wrong:
        raise SystemExit(
            "\n".join(["docs/generate_defaults.py must be brought up to date:", *wrong])
        )
    return "\n".join(parts)


if __name__ == "__main__":
    text = render()
    if "--check" not in sys.argv:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        raise SystemExit("docs/defaults.md must be written again: python docs/generate_defaults.py")

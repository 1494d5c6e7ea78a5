"""Do weights pay? Tables x generators x budgets: models, marginals, coefficients; predicted, found.

    python benchmarks/weights_places.py --cache places.jsonl --tables heart telco --minutes 8
    python benchmarks/weights_places.py --cache places.jsonl --summary
    python benchmarks/weights_places.py --cache places.jsonl --picture predicted.svg
    python benchmarks/weights_places.py --cache new.jsonl --new --data FOLDER --runs 5

A tenth of the budget (in eps: .9 + .1 and 5.4 + .6) goes to the weights, which all weight the same
release; ``whole`` is the generator with all of it. What the runs of a chunk find is added to the
cache, a line of JSON each, and what is there is not done again. Measured on the table's own rows:

* ``linear``, ``boosted``: log loss on test rows of a logistic regression and of boosted trees, less
  that of the same model trained on the real train rows, in nats;
* ``l1 1`` to ``l1 3``: the l1 distance of the marginals of so many columns from the train rows',
  mean over all (of three columns: over 150 that are drawn once a table);
* ``coefficients``: mean squared difference of the linear model's coefficients from those of the
  model on train rows;
* ``effective``: the share of effective rows.

``auto`` is what ``weight --eps`` takes without a method, ``asked`` the same where the lower end of
the predicted gain is above zero, and the unweighted rows where it is not. ``--new`` takes the ten
places of ``weights_new.py``, which had no part in any setting. ``predicted`` is what the dry run
says the chosen method takes off the log loss (least, middle, most). ``--summary`` prints auto's
regret, means, paired differences with Holm's correction over all places of a comparison, and the
rank correlation of what was predicted with what was found. Tables of other institutions (``compas``
and those of ``weights_new.py``) are read from ``--data FOLDER``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from label_weights import parity
from rake import PARTS, Judge
from scipy import stats
from sklearn.linear_model import LogisticRegression
from tables import read_coded
from weights_new import NEW, load_new

from marginalsyn import datasets
from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import Target, make_config, make_weights
from marginalsyn.errors import MarginalsynError
from marginalsyn.host import generate, weigh
from marginalsyn.plugins.reports.marginal_errors import marginal_errors
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.noise import make_noise
from marginalsyn.release.folder import Release
from marginalsyn.table.codec import Codec
from marginalsyn.weights.prediction import pays

TABLES = (
    "heart", "german", "breast-cancer", "wine", "iris", "telco", "adult", "compas", "xor2", "xor3",
)  # fmt: skip
GENERATORS = ("independent", "mst", "aim", "auto", "support-points-gp")
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "linear": ("beta-noised", {"target": "label"}),
    "network": ("dp-mlp", {"engine": "numpy"}),
    "rake": ("rake", {}),
    "both": ("rake+dp-mlp", {}),
    "beta-noised": ("beta-noised", {}),
}
# What auto calls its choices.
CHOICES = {
    "beta-noised --target label": "linear",
    "dp-mlp": "network",
    "rake": "rake",
    "rake+dp-mlp": "both",
}
MEASURES = ("linear", "boosted", "l1 1", "l1 2", "l1 3", "coefficients", "effective")
# Of these a release's found gain says something; of a few hundred rows it is mostly chance.
LARGE = ("german", "telco", "adult", "compas", "xor2", "xor3")
MARKS = dict(zip(LARGE, "psD^xv", strict=True))
MOST_TRIPLES = 150
PLACE = ["table", "generator", "eps"]


class Places(Judge):
    """The real rows of a table, and all that is held against them."""

    def __init__(self, name: str, data: Any = None, light: bool = False) -> None:
        super().__init__(name, data)
        self.light = light
        columns = self.schema.names
        triples = list(itertools.combinations(columns, 3))
        rng = np.random.default_rng(0)
        if len(triples) > MOST_TRIPLES:
            triples = [triples[at] for at in rng.choice(len(triples), MOST_TRIPLES, replace=False)]
        pairs = list(itertools.combinations(columns, 2))
        self.workload = [*((name,) for name in columns), *pairs, *triples]
        self.coefficients = self.fit(self.train, np.ones(len(self.train)))

    def fit(self, codes: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """A linear model's coefficients; none where only one label is left."""
        y, x = codes[:, self.place], np.delete(codes, self.place, axis=1)
        model = LogisticRegression(C=1.0, max_iter=300)
        if not np.array_equal(np.unique(y), np.unique(self.train[:, self.place])):
            return np.array(np.nan)
        return model.fit(self.others.of_codes(x)[:, :-1], y, sample_weight=weights).coef_  # type: ignore[no-any-return]

    def __call__(self, codes: np.ndarray, weights: np.ndarray) -> list[float]:
        linear, boosted = self.losses(codes, weights)
        if self.light:
            own = linear - self.own[0], boosted - self.own[1]
            return [*(round(one, 6) for one in own), *[float("nan")] * (len(MEASURES) - 2)]
        errors = marginal_errors(
            codes, self.train, self.schema.domain, workload=self.workload, first_weights=weights
        )
        l1 = [np.mean([e for q, e in errors.items() if len(q) == many]) for many in (1, 2, 3)]
        apart = float(np.mean((self.fit(codes, weights) - self.coefficients) ** 2))
        effective = float(weights.sum() ** 2 / (weights**2).sum() / len(weights))
        own = self.own
        found = [linear - own[0], boosted - own[1], *map(float, l1), apart, effective]
        return [round(one, 6) for one in found]


def load(name: str, folder: Path | None, rows: int) -> Any:
    """A table, split; large ones by some of their rows."""
    if name.startswith("xor"):
        return parity(int(name[3:]))
    if name == "compas":
        if folder is None:
            return None
        files = folder / "paper_compas.csv", folder / "paper_compas_domain.json"
        table = read_coded(*map(str, files), "two_year_recid", 16)
        train, test = table.split(0)
        return SimpleNamespace(schema=table.schema, train=train, test=test)
    if (found := load_new(name, folder)) is not None:
        return found
    data = datasets.load(name)
    if len(data.train) <= rows:
        return data
    train = data.train.sample(rows, random_state=0).reset_index(drop=True)
    test = data.test.sample(rows // 2, random_state=0).reset_index(drop=True)
    return SimpleNamespace(schema=data.schema, train=train, test=test)


def run(judge: Places, generator: str, eps: int, seed: int) -> dict[str, Any]:
    """One release with all weights, one of the whole budget, and what was predicted."""
    table, codec = PrivateTable.open(judge.frame.train, judge.schema), Codec(judge.schema)
    config, (rows_eps, weights_eps) = make_config(generator), PARTS[eps]
    found = {}
    if not judge.light:
        whole, _ = generate(table, config, Budget(eps=eps), noise=make_noise(1000 * seed + 3))
        codes = codec.encode(whole.frame)
        found["whole"] = judge(codes, np.ones(len(codes)))
    noise = make_noise(1000 * seed + 1)
    synthesis, statement = generate(table, config, Budget(eps=rows_eps), noise=noise)
    codes, told, budget = codec.encode(synthesis.frame), {}, Budget(eps=weights_eps)
    found["unweighted"] = judge(codes, np.ones(len(codes)))
    with tempfile.TemporaryDirectory() as folder:
        release = Release.write(synthesis, judge.schema, statement, Path(folder) / "release")
        facts = make_weights("auto").configure(Target.of(release), budget).plan.facts
        told = {key: facts[key] for key in ("predicted", "chosen") if key in facts}
        for title, (method, options) in METHODS.items():
            if judge.light and title not in CHOICES.values():
                continue
            noise = make_noise(1000 * seed + 2)
            try:
                made = make_weights(method, options)
                weighted = weigh(release, made, budget, table, noise=noise)
            except MarginalsynError as error:
                told.setdefault("refused", {})[title] = str(error).splitlines()[0]
                continue
            found[title] = judge(codes, weighted.weights)
    found["auto"] = found[CHOICES[told["chosen"]]]
    found["asked"] = found["auto"] if pays(facts) else found["unweighted"]
    return {"found": found, "told": told}


def measure(args: argparse.Namespace) -> None:
    """Do the runs that the cache lacks, seed after seed, until the minutes are over."""
    end = time.monotonic() + 60 * args.minutes
    done = {(r["table"], r["generator"], r["eps"], r["run"]) for r in read(args.cache)}
    judges: dict[str, Places] = {}
    seeds = range(args.first, args.first + args.runs)
    for seed, name, generator, eps in itertools.product(
        seeds, args.tables, args.generators, args.eps
    ):
        if args.new and (name, generator, eps) not in NEW:
            continue
        if (name, generator, eps, seed) in done:
            continue
        if time.monotonic() > end:
            return
        if name not in judges:
            data = load(name, args.data, args.rows)
            if data is None:
                continue
            judges[name] = Places(name, data, args.light)
        started = time.process_time()
        line: dict[str, Any] = {"table": name, "generator": generator, "eps": eps, "run": seed}
        try:
            line |= run(judges[name], generator, eps, seed)
        except MarginalsynError as error:
            line["error"] = str(error).splitlines()[0]
        line["seconds"] = round(time.process_time() - started, 1)
        with args.cache.open("a") as file:
            file.write(json.dumps(line) + "\n")


def read(cache: Path) -> list[dict[str, Any]]:
    """The runs that are there."""
    return [json.loads(line) for line in cache.read_text().splitlines()] if cache.exists() else []


def long_table(runs: list[dict[str, Any]]) -> pd.DataFrame:
    """One line per run and weights."""
    return pd.DataFrame(
        [
            {key: run[key] for key in (*PLACE, "run")}
            | {"weights": weights}
            | dict(zip(MEASURES, values, strict=True))
            for run in runs
            for weights, values in run.get("found", {}).items()
        ]
    )


def holm(chances: np.ndarray) -> np.ndarray:
    """Holm's correction: chances that hold for all comparisons together.

    Example:
        >>> holm(np.array([0.01, 0.04, 0.03])).round(3).tolist()
        [0.03, 0.06, 0.06]
    """
    order = np.argsort(chances)
    steps = np.maximum.accumulate(chances[order] * np.arange(len(chances), 0, -1))
    held = np.empty(len(chances))
    held[order] = np.minimum(steps, 1.0)
    return held


def means(found: pd.DataFrame) -> str:
    """The measures of every place, means over its runs."""
    lines = [f"| table | generator | eps | runs | weights | {' | '.join(MEASURES)} |"]
    lines.append("|---" * (5 + len(MEASURES)) + "|")
    for (table, generator, eps, weights), rows in found.groupby([*PLACE, "weights"], sort=False):
        cells = " | ".join(f"{rows[measure].mean():.4f}" for measure in MEASURES)
        lines.append(f"| {table} | {generator} | {eps} | {len(rows)} | {weights} | {cells} |")
    return "\n".join(lines)


def compare(found: pd.DataFrame, most: float) -> str:
    """Over all places: how far weights are from none and from the whole budget, run by run."""
    lines = [
        "| weights | against | measure | places | mean difference "
        "| better in | by Holm | worse in | by Holm | worst place |",
        "|---" * 10 + "|",
    ]
    measures = MEASURES[:-1]
    for base in ("unweighted", "whole"):
        pairs = found.merge(found[found["weights"] == base], on=[*PLACE, "run"])
        pairs = pairs[~pairs["weights_x"].isin(["unweighted", "whole"])]
        for weights, rows in pairs.groupby("weights_x", sort=False):
            for measure in measures:
                gaps = (rows[f"{measure}_x"] - rows[f"{measure}_y"]).groupby(
                    [rows[name] for name in PLACE]
                )
                mean = gaps.mean().dropna()
                chances = np.array([_chance(part) for _, part in gaps])[gaps.mean().notna()]
                sure = holm(chances) < most
                worst = " ".join(map(str, mean.idxmax())) + f" {mean.max():+.4f}"
                cells = [
                    str(len(mean)),
                    f"{mean.mean():+.4f}",
                    str((mean < 0).sum()),
                    str((sure & (mean < 0).to_numpy()).sum()),
                    str((mean > 0).sum()),
                    str((sure & (mean > 0).to_numpy()).sum()),
                    worst,
                ]
                lines.append(f"| {weights} | {base} | {measure} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _chance(gaps: pd.Series) -> float:
    """Two-sided t-test of paired differences; 1 where there is no spread to judge by."""
    if len(gaps) < 2 or gaps.std() == 0:
        return 1.0
    return float(stats.ttest_1samp(gaps, 0.0).pvalue)


def predictions(runs: list[dict[str, Any]]) -> pd.DataFrame:
    """For every place and method that predicts: what was said, and what the log loss fell by."""
    lines = []
    for run in runs:
        if "found" not in run:
            continue
        for choice, triple in run["told"]["predicted"].items():
            title = CHOICES[choice]
            if title not in run["found"]:
                continue
            before, after = run["found"]["unweighted"], run["found"][title]
            gain = np.mean([before[0] - after[0], before[1] - after[1]])
            if np.isnan(gain):
                continue  # models of rows that lack a label
            spent = CHOICES[run["told"]["chosen"]]
            line = {key: run[key] for key in (*PLACE, "run")}
            line |= {"method": title, "chosen": title == spent, "gain": gain}
            lines.append(line | dict(zip(("least", "middle", "most"), triple, strict=True)))
    return pd.DataFrame(lines)


def by_place(found: pd.DataFrame, tables: Sequence[str] | None = None) -> pd.DataFrame:
    """Means over a place's runs, of the method that auto takes, or would take if it spent.

    A found gain of a small table is mostly chance, so its standard error goes with it.
    """
    if tables is not None:
        found = found[found["table"].isin(tables)]
    order = found["middle"] + found["chosen"]
    best = found.loc[order.groupby([found[name] for name in (*PLACE, "run")]).idxmax()]
    groups = best.groupby(PLACE)
    place = groups[["least", "middle", "most", "gain"]].mean()
    return place.assign(runs=groups.size(), error=groups["gain"].sem())


def predicted(runs: list[dict[str, Any]]) -> str:
    """The rank correlations of predicted with found gains, over places' means."""
    found = predictions(runs)
    if found.empty:
        return ""
    names = list(found["table"].unique())
    parts = {
        "all tables": names,
        "real tables": [n for n in names if not n.startswith("xor")],
        "800 rows or more": [n for n in names if n in LARGE],
        "real ones of these": [n for n in names if n in LARGE and not n.startswith("xor")],
        "a few hundred rows": [n for n in names if n not in LARGE],
    }
    place = by_place(found)
    lines = [
        "| auto would | places | gained over .001 | lost over .001 | mean | least | most |",
        "|---" * 7 + "|",
    ]
    for title, own in (
        ("spend", place[place["least"] > 0]),
        ("ask", place[place["least"] <= 0]),
    ):
        gain = own["gain"]
        told = f"{(gain > 0.001).sum()} | {(gain < -0.001).sum()} | {gain.mean():.4f}"
        lines.append(f"| {title} | {len(own)} | {told} | {gain.min():.4f} | {gain.max():.4f} |")
    lines += [
        "",
        "| places | number | rank correlation | found within the range |",
        "|---" * 4 + "|",
    ]
    for title, chosen in parts.items():
        place = by_place(found, chosen)
        if len(place) < 3:
            continue
        rank = stats.spearmanr(place["middle"], place["gain"]).statistic
        within = place["gain"].between(place["least"], place["most"])
        lines.append(f"| {title} | {len(place)} | {rank:.2f} | {within.mean():.0%} |")
    return "\n".join(lines)


def regret(found: pd.DataFrame) -> str:
    """How far auto is from the best of its methods, in the log loss (mean of both models)."""
    found = found.assign(loss=found[["linear", "boosted"]].mean(axis=1))
    losses = found.pivot_table(index=PLACE, columns="weights", values="loss", sort=False)
    methods = [name for name in CHOICES.values() if name in losses]
    best = losses[methods].min(axis=1)
    shown = losses[["unweighted", *methods, "auto", "asked"]].assign(
        regret=losses["auto"] - best,
        forgone=losses["asked"] - losses[["unweighted", *methods]].min(axis=1),
    )
    lines = [
        f"| {' | '.join([*PLACE, *shown])} |",
        "|---" * (len(PLACE) + len(shown.columns)) + "|",
    ]
    for place, row in shown.iterrows():
        lines.append(f"| {' | '.join([*map(str, place), *(f'{one:.4f}' for one in row)])} |")  # type: ignore[misc]
    lines.append(f"| mean | | | {' | '.join(f'{one:.4f}' for one in shown.mean())} |")
    within = (shown["regret"] <= 0.01).mean()
    return "\n".join([*lines, "", f"auto within .01 of its best method in {within:.0%} of places"])


def draw(runs: list[dict[str, Any]], path: Path) -> None:
    """A picture of predicted against found gains, a point a place of a thousand rows or so."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    place = by_place(predictions(runs)).reset_index()
    place = place[place["table"].isin(LARGE)]
    rank = stats.spearmanr(place["middle"], place["gain"]).statistic
    figure, axes = plt.subplots(figsize=(7.4, 4.4))
    colours = dict(zip(GENERATORS, mpl.color_sequences["tab10"], strict=False))
    for generator, rows in place.groupby("generator", sort=False):
        axes.plot([], [], "o", color=colours[generator], label=generator)
        for table, own in rows.groupby("table"):
            mark = MARKS[table]
            axes.plot(own["middle"], own["gain"], mark, color=colours[generator], markersize=6)
    for table in place["table"].unique():
        axes.plot([], [], MARKS[table], color="0.4", label=table)
    ends = np.linspace(0, place["middle"].max() * 1.2, 200)
    axes.plot(ends, ends, color="grey", linewidth=0.7)
    axes.axhline(0, color="grey", linewidth=0.5, linestyle=":")
    axes.set_xscale("symlog", linthresh=0.005)
    axes.set_xlim(-0.0005, place["middle"].max() * 1.3)
    axes.set_ylim(place["gain"].min() * 1.3 - 0.001, place["gain"].max() * 1.5)
    axes.set_yscale("symlog", linthresh=0.005)
    axes.set_xlabel("predicted fall of the log loss, nats")
    axes.set_ylabel("found, mean of both models")
    axes.set_title(f"{len(place)} places of 800 rows or more, rank correlation {rank:.2f}", size=9)
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.tight_layout()
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--cache", type=Path, required=True, help="a file of JSON lines")
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--generators", nargs="+", default=list(GENERATORS))
    parser.add_argument("--eps", type=int, nargs="+", default=[1, 6], choices=list(PARTS))
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first run's number")
    parser.add_argument("--rows", type=int, default=12_000, help="of a table, at most")
    parser.add_argument("--data", type=Path, help="folder with coded tables")
    parser.add_argument("--minutes", type=float, default=1e6, help="start no run after these")
    parser.add_argument("--summary", action="store_true", help="print what the cache holds")
    parser.add_argument("--picture", type=Path, help="draw predicted against found")
    parser.add_argument("--light", action="store_true", help="only the loss, only auto's methods")
    parser.add_argument("--new", action="store_true", help="the ten new places")
    args = parser.parse_args()
    if args.new:
        args.tables, args.generators = (list(dict.fromkeys(n[at] for n in NEW)) for at in (0, 1))
    warnings.simplefilter("ignore")
    if not (args.summary or args.picture):
        measure(args)
        return
    runs = [run for run in read(args.cache) if run["table"] in args.tables]
    for run in runs:
        if "error" in run:
            print(f"{run['table']} {run['generator']} {run['eps']}: {run['error']}")
    if args.picture:
        draw(runs, args.picture)
        return
    found = long_table(runs)
    if args.light:
        print(regret(found))
        return
    print("\n\n".join((regret(found), means(found), compare(found, 0.05), predicted(runs))))


if __name__ == "__main__":
    main()

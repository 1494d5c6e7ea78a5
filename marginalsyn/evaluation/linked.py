"""Evaluation of linked tables: numbers of children, errors across links, transitions, models.

Everything here is computed from real rows without protection. It is for the curator.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from marginalsyn.access.private_table import STAMP
from marginalsyn.errors import UsageError
from marginalsyn.evaluation.charts import Bar, Dots, Series, Shares
from marginalsyn.evaluation.evaluation import FOOT, write_evaluation
from marginalsyn.evaluation.linked_tables import MOST_CELLS, LinkedCodes, far, links_of
from marginalsyn.evaluation.page import render
from marginalsyn.evaluation.view import Group, Item, Legend, Page, Section, Table
from marginalsyn.people.tree import LinkedSchema
from marginalsyn.people.views import count_name

# What the release is compared with, by the names on the page.
RELEASE, RELINKED, REAL_RELINKED, FRESH = (
    "release",
    "release, relinked at random",
    "real tables, relinked at random",
    "other real rows",
)
CASES = (RELEASE, RELINKED, REAL_RELINKED, FRESH)
TONES = {RELEASE: 1, RELINKED: 2, REAL_RELINKED: 3, FRESH: 0}


@dataclass(frozen=True)
class LinkedEvaluation:
    """What an evaluation of linked tables found. Not private.

    Attributes:
        title: of the page.
        blocks: all numbers: ``degrees``, ``errors``, ``transitions``, ``models``, and ``facts``.
    """

    title: str
    blocks: Mapping[str, Any]
    stamp: str = STAMP

    def to_json(self) -> str:
        """Everything, as JSON."""
        values = {"stamp": self.stamp, "title": self.title, **self.blocks}
        return json.dumps(values, indent=1, ensure_ascii=False) + "\n"

    def to_html(self) -> str:
        """One self-contained page."""
        facts = self.blocks["facts"]
        flattered = "Compared with persons that the release saw: this flatters it."
        parts = {
            "degrees": ("Numbers of children", _show_degrees),
            "errors": ("Columns, and pairs of them within and across tables", _show_errors),
            "transitions": ("From row to row", _show_transitions),
            "models": ("Models of persons", _show_models),
        }
        page = Page(
            title=self.title,
            stamp=self.stamp,
            private=True,
            lead=self.sentences(),
            warnings=[flattered] if facts["in sample"] else (),
            figures={
                f"rows of {name}": f"{count:,} ({facts['real rows'][name]:,} real)"
                for name, count in facts["synthetic rows"].items()
            },
            sections=[
                Section(name, title, list(show(self.blocks[name])))
                for name, (title, show) in parts.items()
                if self.blocks[name] or name in ("degrees", "errors")
            ],
            foot=FOOT,
        )
        return render(page)

    def write(self, folder: str | Path, *, force: bool = False) -> Path:
        """Write ``evaluation.json`` and ``report.html`` into a folder; never into a release."""
        return write_evaluation(self, folder, force=force)

    def sentences(self) -> list[str]:
        """The verdict, a sentence for each part."""
        found = []
        for group, line in self.blocks["errors"].items():
            release, relinked = line[RELEASE], line[REAL_RELINKED]
            if "link" in group and relinked is not None:
                word = "below" if release < relinked else "not below"
                found.append(
                    f"{group}: error {release:.3f}, {word} that of real tables whose rows are "
                    f"linked at random ({relinked:.3f})"
                    + (f"; other real rows have {line[FRESH]:.3f}" if line[FRESH] else "")
                )
        degrees = self.blocks["degrees"]
        if degrees:
            worst = max(degrees, key=lambda link: degrees[link][RELEASE])
            found.append(
                f"Numbers of children are off by at most {degrees[worst][RELEASE]:.3f} "
                f"(total variation; {worst})"
            )
        return found


def evaluate_linked(
    tables: Mapping[str, pd.DataFrame],
    real: Mapping[str, pd.DataFrame],
    tree: LinkedSchema,
    *,
    train: Mapping[str, pd.DataFrame] | None = None,
    in_sample: bool = False,
    label: str | None = None,
    title: str = "linked tables",
    seed: int = 0,
) -> LinkedEvaluation:
    """Compare linked synthetic tables with real ones. NOT PRIVATE.

    Args:
        tables: the synthetic tables, by name.
        real: real tables of persons that the release did not see.
        tree: the schema of both.
        train: the real tables that it saw: what models trained on real rows are trained on, and
            how far other real rows are off.
        in_sample: ``real`` are the tables that it saw.
        label: a column of the root to predict from the children; by default the schema's label.
        title: of the page.
        seed: of random links and models; it protects nothing.

    Example:
        >>> from marginalsyn import LinkedRelease
        >>> release = LinkedRelease.read("clinic-release")
        >>> found = evaluate_linked(release.frames(), held_out, release.tree)
        >>> sorted(found.blocks)
        ['degrees', 'errors', 'facts', 'models', 'transitions']
    """
    rng = np.random.default_rng(seed)
    known = train if train is not None else real
    truth = LinkedCodes.of(known, tree)
    others = LinkedCodes.of(real, tree) if train is not None else None
    made = LinkedCodes.of(tables, tree)
    cases = dict(zip(CASES, (made, made.relinked(rng), truth.relinked(rng)), strict=False))
    if others is not None:
        cases[FRESH] = others
    blocks = {
        "facts": {
            "real rows": {name: len(frame) for name, frame in known.items()},
            "synthetic rows": {name: len(frame) for name, frame in tables.items()},
            "in sample": in_sample,
        },
        "degrees": _degrees(truth, cases, tree),
        "errors": _errors(truth, cases, tree),
        "transitions": _transitions(truth, cases, tree),
        "models": _models(made, truth, others, tree, label, seed),
    }
    return LinkedEvaluation(title, blocks)


def _degrees(
    truth: LinkedCodes, cases: Mapping[str, LinkedCodes], tree: LinkedSchema
) -> dict[str, Any]:
    """How far the numbers of children are off, and their shares."""
    found: dict[str, Any] = {}
    for table in tree.tables[1:]:
        name = count_name(table.name)

        shares = {}
        for case, linked in {"real": truth, **cases}.items():
            codes = linked.codes[str(table.parent)][name]
            shares[case] = np.bincount(codes, minlength=linked.sizes[name]) / max(len(codes), 1)
        real, made = shares["real"], shares[RELEASE]
        found[f"{table.name} of {table.parent}"] = {
            RELEASE: far(real, made),
            FRESH: far(real, shares[FRESH]) if FRESH in shares else None,
            "shares": {"real": real.tolist(), RELEASE: made.tolist()},
        }
    return found


def _errors(
    truth: LinkedCodes, cases: Mapping[str, LinkedCodes], tree: LinkedSchema
) -> dict[str, Any]:
    """Mean total variation of one- and two-way marginals, within tables and across links."""
    sums: dict[str, dict[str, list[float]]] = {}
    words = {1: "one link", 2: "two links", 3: "three links"}
    for table in tree.tables:
        real = truth.shares(table.name)
        found = {case: codes.shares(table.name) for case, codes in cases.items()}
        for key, share in real.items():
            links = links_of(tree, key)
            group = f"one column of {table.name}"
            if len(key) == 2:
                group = f"two columns of {table.name}"
            if links:
                top = tree.path(table.name)[-1 - links].name
                group = f"{top} x {table.name} ({words.get(links, f'{links} links')})"
            for case, shares in found.items():
                sums.setdefault(group, {}).setdefault(case, []).append(far(share, shares[key]))
    order = sorted(sums, key=lambda group: ("link" in group, group))
    return {
        group: {case: _mean(sums[group].get(case)) for case in CASES}
        | {"marginals": len(sums[group][RELEASE])}
        for group in order
    }


def _transitions(
    truth: LinkedCodes, cases: Mapping[str, LinkedCodes], tree: LinkedSchema
) -> dict[str, Any]:
    """How far transitions are off, and the share of rows that repeat the value before."""
    found: dict[str, Any] = {}
    for table in tree.tables[1:]:
        if table.order is None:
            continue
        real = truth.transitions(table.name)
        others = {case: codes.transitions(table.name) for case, codes in cases.items()}
        for key, (share, same) in real.items():
            line: dict[str, Any] = {"same, real": same}
            small = truth.sizes[key] ** 2 <= MOST_CELLS
            for case, other in others.items():
                line[case] = far(share, other[key][0]) if small else None
                line[f"same, {case}"] = other[key][1]
            found[key] = line
    return found


def _models(
    made: LinkedCodes,
    truth: LinkedCodes,
    others: LinkedCodes | None,
    tree: LinkedSchema,
    label: str | None,
    seed: int,
) -> dict[str, Any]:
    """Accuracy of models of a person's label, from the person's columns and the children."""
    schema = tree.root.schema
    wanted = label or (schema.label if schema is not None else None)
    if wanted is None:
        return {}
    name = f"{tree.root.name}.{wanted}"
    if name not in truth.codes[tree.root.name]:
        raise UsageError(f"label ({wanted!r}) must be a column of {tree.root.name}")
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.metrics import roc_auc_score

    test = others or truth
    found: dict[str, Any] = {"label": wanted}
    wanted_codes = test.codes[tree.root.name][name]
    common = int(np.bincount(wanted_codes).argmax())
    for case, linked in ((RELEASE, made), ("real rows", truth)):
        x, y = _features(linked, name), linked.codes[tree.root.name][name]
        if len(np.unique(y)) < 2 or len(np.unique(wanted_codes)) < 2:
            found[case] = None
            continue
        model = RandomForestClassifier(200, min_samples_leaf=5, random_state=seed).fit(x, y)
        scores = model.predict_proba(_features(test, name))
        at = list(model.classes_).index(common) if common in model.classes_ else 0
        found[case] = {
            "accuracy": float((model.classes_[scores.argmax(axis=1)] == wanted_codes).mean()),
            "auc": float(roc_auc_score(wanted_codes == common, scores[:, at])),
        }
    found["most common value"] = float((wanted_codes == common).mean())
    return found


def _features(linked: LinkedCodes, label: str) -> np.ndarray:
    """A person's other columns, and for every descendant table means and shares of its columns."""
    tree, root = linked.tree, linked.tree.root.name
    persons = len(linked.codes[root][label])
    columns = [codes for key, codes in linked.codes[root].items() if key != label]
    for table in tree.tables[1:]:
        owner = linked.parents[table.name]
        path = tree.path(table.name)
        for above in reversed(path[1:-1]):
            owner = linked.parents[above.name][owner]
        rows = np.maximum(np.bincount(owner, minlength=persons), 1)
        columns.append(np.bincount(owner, minlength=persons))
        for key, codes in linked.codes[table.name].items():
            columns.append(np.bincount(owner, codes, minlength=persons) / rows)
            for value in range(min(linked.sizes[key], 12)):
                columns.append(np.bincount(owner, codes == value, minlength=persons) / rows)
    return np.column_stack(columns)


def _mean(values: list[float] | None) -> float | None:
    return float(np.mean(values)) if values else None


def _show_degrees(degrees: Mapping[str, Any]) -> Iterator[Item]:
    yield "How many rows belong to one row of the table above, as shares of its rows."
    yield Legend([("real", 0), (RELEASE, 1)], bars=True)
    charts = []
    for link, line in degrees.items():
        shares = line["shares"]
        # At most a score of groups of numbers.
        count = len(shares["real"])
        step = -(-count // 20) if count > 25 else 1
        starts = range(0, count, step)
        labels = [str(k) if step == 1 else f"{k} to {k + step - 1}" for k in starts]
        labels[-1] += " or more" if step == 1 else ""
        series = [
            Series(name, [sum(shares[name][k : k + step]) for k in starts], tone)
            for tone, name in enumerate(("real", RELEASE))
        ]
        charts.append(Shares(link, labels, series))
    yield Group(charts, "grid")
    rows = [(link, line[RELEASE], line[FRESH]) for link, line in degrees.items()]
    yield Table(("total variation", RELEASE, FRESH), rows)


def _show_errors(errors: Mapping[str, Any]) -> Iterator[Item]:
    yield (
        "Mean total variation distance from the real rows: 0 is the same, 1 has nothing in "
        "common. Rows that are relinked at random keep each table as it is and lose what goes "
        "with what across tables. Other real rows show what sampling alone does."
    )
    keys = (*CASES, "marginals")
    rows = [(group, *(line[each] for each in keys)) for group, line in errors.items()]
    yield Table(("mean error", *keys), rows)
    yield Group([_dots(group, line, TONES) for group, line in errors.items()], "grid")


def _show_transitions(transitions: Mapping[str, Any]) -> Iterator[Item]:
    yield (
        "Two rows of a person that follow each other: how far their values are off (total "
        "variation of the pairs; n/a where there are too many), and how often the value is the "
        "same as before."
    )
    same = {"same, real": 0, f"same, {RELEASE}": 1, f"same, {RELINKED}": 2}
    keys = (RELEASE, RELINKED, FRESH, *same)
    rows = [(column, *map(line.get, keys)) for column, line in transitions.items()]
    yield Table(("column", *keys), rows)
    charts = [
        _dots(f"{column}: the same", line, same, line["same, real"])
        for column, line in transitions.items()
    ]
    yield Group(charts, "grid")


def _dots(
    title: str,
    line: Mapping[str, Any],
    tones: Mapping[str, int],
    reference: float | None = None,
) -> Dots:
    """The known values of one line, by what they are of."""
    known = {case: tone for case, tone in tones.items() if line[case] is not None}
    bars = [Bar(case.removeprefix("same, "), line[case], tone=tone) for case, tone in known.items()]
    return Dots(title, bars, reference)


def _show_models(models: Mapping[str, Any]) -> Iterator[Item]:
    yield (
        f"Random forests that predict {models['label']} of a person from the person's other "
        "columns and from numbers, means and shares of the rows that belong to the person, "
        "tested on real persons. The most common value alone has an accuracy of "
        f"{models['most common value']:.3f}."
    )
    cases = {case: models.get(case) or {} for case in ("real rows", RELEASE)}
    rows = [(case, line.get("accuracy"), line.get("auc")) for case, line in cases.items()]
    yield Table(("trained on", "accuracy", "area under the curve"), rows)

"""Evaluation of linked tables: numbers of children, errors across links, transitions, models.

Everything here is computed from real rows without protection. It is for the curator.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from marginalsyn.access.private_table import STAMP
from marginalsyn.errors import UsageError
from marginalsyn.evaluation.evaluation import write_evaluation
from marginalsyn.evaluation.linked_tables import MOST_CELLS, LinkedCodes, far, links_of
from marginalsyn.people.tree import LinkedSchema
from marginalsyn.people.views import count_name

# What the release is held against, by the names on the page.
RELEASE, RELINKED, REAL_RELINKED, FRESH = (
    "release",
    "release, relinked at random",
    "real tables, relinked at random",
    "other real rows",
)
CASES = (RELEASE, RELINKED, REAL_RELINKED, FRESH)


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
        told = {"stamp": self.stamp, "title": self.title, **self.blocks}
        return json.dumps(told, indent=1, ensure_ascii=False) + "\n"

    def to_html(self) -> str:
        """One self-contained page."""
        from marginalsyn.evaluation.linked_page import page

        return page(self)

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
        real: real tables of persons whom the release did not see.
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

        def share(told: LinkedCodes, name: str = name, parent: str = str(table.parent)) -> Any:
            codes = told.codes[parent][name]
            return np.bincount(codes, minlength=told.sizes[name]) / max(len(codes), 1)

        real = share(truth)
        made = share(cases[RELEASE])
        found[f"{table.name} of {table.parent}"] = {
            RELEASE: far(real, made),
            FRESH: far(real, share(cases[FRESH])) if FRESH in cases else None,
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
    held = test.codes[tree.root.name][name]
    for case, told in ((RELEASE, made), ("real rows", truth)):
        x, y = _features(told, name), told.codes[tree.root.name][name]
        if len(np.unique(y)) < 2 or len(np.unique(held)) < 2:
            found[case] = None
            continue
        model = RandomForestClassifier(200, min_samples_leaf=5, random_state=seed).fit(x, y)
        scores = model.predict_proba(_features(test, name))
        common = int(np.bincount(held).argmax())
        at = list(model.classes_).index(common) if common in model.classes_ else 0
        found[case] = {
            "accuracy": float((model.classes_[scores.argmax(axis=1)] == held).mean()),
            "auc": float(roc_auc_score(held == common, scores[:, at])),
        }
    found["most common value"] = float(np.bincount(held).max() / len(held))
    return found


def _features(told: LinkedCodes, label: str) -> np.ndarray:
    """A person's other columns, and for every descendant table means and shares of its columns."""
    tree, root = told.tree, told.tree.root.name
    persons = len(told.codes[root][label])
    columns = [codes for key, codes in told.codes[root].items() if key != label]
    for table in tree.tables[1:]:
        owner = told.parents[table.name]
        path = tree.path(table.name)
        for above in reversed(path[1:-1]):
            owner = told.parents[above.name][owner]
        rows = np.maximum(np.bincount(owner, minlength=persons), 1)
        columns.append(np.bincount(owner, minlength=persons))
        for key, codes in told.codes[table.name].items():
            columns.append(np.bincount(owner, codes, minlength=persons) / rows)
            for value in range(min(told.sizes[key], 12)):
                columns.append(np.bincount(owner, codes == value, minlength=persons) / rows)
    return np.column_stack(columns)


def _mean(values: list[float] | None) -> float | None:
    return float(np.mean(values)) if values else None

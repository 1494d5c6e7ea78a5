"""The page of an evaluation of linked tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from marginalsyn.evaluation.charts import Bar, Series, dots, key, overlay
from marginalsyn.evaluation.linked import FRESH, REAL_RELINKED, RELEASE, RELINKED
from marginalsyn.evaluation.markup import number
from marginalsyn.evaluation.page import Section, block, figure, grid, paragraph, render, table

if TYPE_CHECKING:
    from marginalsyn.evaluation.linked import LinkedEvaluation

CASES = (RELEASE, RELINKED, REAL_RELINKED, FRESH)
TONES = {RELEASE: 1, RELINKED: 2, REAL_RELINKED: 3, FRESH: 0}


def page(found: LinkedEvaluation) -> str:
    """One self-contained page."""
    blocks = found.blocks
    sections = [
        Section("degrees", "Numbers of children", _degrees(blocks["degrees"])),
        Section(
            "errors",
            "Columns, and pairs of them within and across tables",
            _errors(blocks["errors"]),
        ),
    ]
    if blocks["transitions"]:
        told = _transitions(blocks["transitions"])
        sections.append(Section("transitions", "From row to row", told))
    if blocks["models"]:
        sections.append(Section("models", "Models of persons", _models(blocks["models"])))
    facts = blocks["facts"]
    warnings = []
    if facts["in sample"]:
        warnings.append("Compared with persons whom the release saw: this flatters it.")
    return render(
        found.title,
        stamp=found.stamp,
        private=True,
        lead=found.sentences(),
        warnings=warnings,
        figures=[
            (f"rows of {name}", f"{count:,} ({facts['real rows'][name]:,} real)")
            for name, count in facts["synthetic rows"].items()
        ],
        sections=sections,
        foot=(
            "Computed from real rows without protection: keep it with them, and publish nothing of "
            "it. All numbers are in evaluation.json."
        ),
    )


def _degrees(degrees: Mapping[str, Any]) -> str:
    charts = []
    for link, line in degrees.items():
        shares = line["shares"]
        labels = [str(n) for n in range(len(shares["real"]))]
        labels[-1] += " or more"
        if len(labels) > 25:
            labels, shares = _grouped(shares)
        drawn = overlay(
            labels,
            [Series("real", shares["real"], 0), Series(RELEASE, shares[RELEASE], 1)],
            link,
        )
        charts.append(block(figure(drawn, link)))
    rows = [[link, number(line[RELEASE]), number(line[FRESH])] for link, line in degrees.items()]
    return (
        paragraph("How many rows hang on one row of the table above, as shares of its rows.")
        + key([("real", 0), (RELEASE, 1)], bars=True)
        + grid(charts)
        + table(["total variation", RELEASE, FRESH], rows)
    )


def _grouped(shares: Mapping[str, list[float]]) -> tuple[list[str], dict[str, list[float]]]:
    """Numbers of children in at most a score of groups."""
    step = -(-len(shares["real"]) // 20)
    starts = range(0, len(shares["real"]), step)
    labels = [f"{start} to {start + step - 1}" for start in starts]
    return labels, {
        name: [sum(values[start : start + step]) for start in starts]
        for name, values in shares.items()
    }


def _errors(errors: Mapping[str, Any]) -> str:
    rows = [
        [group, *(number(line[case]) for case in CASES), number(line["marginals"])]
        for group, line in errors.items()
    ]
    charts = []
    for group, line in errors.items():
        bars = [
            Bar(case, line[case], None, TONES[case]) for case in CASES if line[case] is not None
        ]
        charts.append(block(figure(dots(bars, None, group), group)))
    return (
        paragraph(
            "Mean total variation distance from the real rows: 0 is the same, 1 has nothing in "
            "common. Rows that are relinked at random keep each table as it is and lose what goes "
            "with what across tables. Other real rows show what sampling alone does."
        )
        + table(["mean error", *CASES, "marginals"], rows)
        + grid(charts)
    )


def _transitions(transitions: Mapping[str, Any]) -> str:
    rows = []
    charts = []
    for column, line in transitions.items():
        rows.append(
            [
                column,
                number(line[RELEASE]),
                number(line[RELINKED]),
                number(line.get(FRESH)),
                number(line["same, real"]),
                number(line[f"same, {RELEASE}"]),
                number(line[f"same, {RELINKED}"]),
            ]
        )
        bars = [Bar("real", line["same, real"], None, 0)]
        bars += [
            Bar(case, line[f"same, {case}"], None, TONES[case]) for case in (RELEASE, RELINKED)
        ]
        charts.append(block(figure(dots(bars, line["same, real"], column), f"{column}: the same")))
    return (
        paragraph(
            "Of two rows of a person that follow each other: how far their values are off (total "
            "variation of the pairs; n/a where there are too many), and how often the value is the "
            "same as before."
        )
        + table(
            [
                "column",
                RELEASE,
                RELINKED,
                FRESH,
                "same, real",
                f"same, {RELEASE}",
                f"same, {RELINKED}",
            ],
            rows,
        )
        + grid(charts)
    )


def _models(models: Mapping[str, Any]) -> str:
    rows = []
    for case in ("real rows", RELEASE):
        line = models.get(case)
        rows.append([case, *(number(line[m]) if line else "n/a" for m in ("accuracy", "auc"))])
    return paragraph(
        f"Random forests that predict {models['label']} of a person from the person's other "
        "columns and from numbers, means and shares of the rows that hang on the person, "
        "tested on real persons. The most common value alone has an accuracy of "
        f"{models['most common value']:.3f}."
    ) + table(["trained on", "accuracy", "area under the curve"], rows)

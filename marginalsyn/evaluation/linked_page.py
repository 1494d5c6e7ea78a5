"""The page of an evaluation of linked tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from marginalsyn.evaluation.charts import Bar, Series, dots, key, overlay
from marginalsyn.evaluation.evaluation import FOOT
from marginalsyn.evaluation.linked import CASES, FRESH, REAL_RELINKED, RELEASE, RELINKED
from marginalsyn.evaluation.page import Section, block, figure, grid, paragraph, render, table

if TYPE_CHECKING:
    from marginalsyn.evaluation.linked import LinkedEvaluation

TONES = {RELEASE: 1, RELINKED: 2, REAL_RELINKED: 3, FRESH: 0}


def page(found: LinkedEvaluation) -> str:
    """One self-contained page."""
    blocks, facts = found.blocks, found.blocks["facts"]
    parts = (
        ("degrees", "Numbers of children", _degrees),
        ("errors", "Columns, and pairs of them within and across tables", _errors),
        ("transitions", "From row to row", _transitions),
        ("models", "Models of persons", _models),
    )
    flattered = "Compared with persons whom the release saw: this flatters it."
    return render(
        found.title,
        stamp=found.stamp,
        private=True,
        lead=found.sentences(),
        warnings=[flattered] if facts["in sample"] else (),
        figures=[
            (f"rows of {name}", f"{count:,} ({facts['real rows'][name]:,} real)")
            for name, count in facts["synthetic rows"].items()
        ],
        sections=[
            Section(name, title, "".join(draw(blocks[name])))
            for name, title, draw in parts
            if blocks[name] or name in ("degrees", "errors")
        ],
        foot=FOOT,
    )


def _degrees(degrees: Mapping[str, Any]) -> Iterator[str]:
    yield paragraph("How many rows hang on one row of the table above, as shares of its rows.")
    yield key([("real", 0), (RELEASE, 1)], bars=True)
    charts = []
    for link, line in degrees.items():
        shares = line["shares"]
        labels = [str(n) for n in range(len(shares["real"]))]
        labels[-1] += " or more"
        if len(labels) > 25:
            labels, shares = _grouped(shares)
        series = [Series(name, shares[name], tone) for tone, name in enumerate(("real", RELEASE))]
        charts.append(block(figure(overlay(labels, series, link), link)))
    yield grid(charts)
    rows = [(link, line[RELEASE], line[FRESH]) for link, line in degrees.items()]
    yield table(["total variation", RELEASE, FRESH], rows)


def _grouped(shares: Mapping[str, list[float]]) -> tuple[list[str], dict[str, list[float]]]:
    """Numbers of children in at most a score of groups."""
    step = -(-len(shares["real"]) // 20)
    starts = range(0, len(shares["real"]), step)
    labels = [f"{start} to {start + step - 1}" for start in starts]
    return labels, {
        name: [sum(values[start : start + step]) for start in starts]
        for name, values in shares.items()
    }


def _errors(errors: Mapping[str, Any]) -> Iterator[str]:
    yield paragraph(
        "Mean total variation distance from the real rows: 0 is the same, 1 has nothing in "
        "common. Rows that are relinked at random keep each table as it is and lose what goes "
        "with what across tables. Other real rows show what sampling alone does."
    )
    keys = (*CASES, "marginals")
    rows = [(group, *(line[each] for each in keys)) for group, line in errors.items()]
    yield table(["mean error", *keys], rows)
    charts = []
    for group, line in errors.items():
        known = [case for case in CASES if line[case] is not None]
        bars = [Bar(case, line[case], None, TONES[case]) for case in known]
        charts.append(block(figure(dots(bars, None, group), group)))
    yield grid(charts)


def _transitions(transitions: Mapping[str, Any]) -> Iterator[str]:
    yield paragraph(
        "Of two rows of a person that follow each other: how far their values are off (total "
        "variation of the pairs; n/a where there are too many), and how often the value is the "
        "same as before."
    )
    same = {"real": 0, RELEASE: TONES[RELEASE], RELINKED: TONES[RELINKED]}
    keys = (RELEASE, RELINKED, FRESH, *(f"same, {case}" for case in same))
    rows = [(column, *map(line.get, keys)) for column, line in transitions.items()]
    yield table(["column", *keys], rows)
    charts = []
    for column, line in transitions.items():
        bars = [Bar(case, line[f"same, {case}"], None, tone) for case, tone in same.items()]
        charts.append(block(figure(dots(bars, line["same, real"], column), f"{column}: the same")))
    yield grid(charts)


def _models(models: Mapping[str, Any]) -> Iterator[str]:
    yield paragraph(
        f"Random forests that predict {models['label']} of a person from the person's other "
        "columns and from numbers, means and shares of the rows that hang on the person, "
        "tested on real persons. The most common value alone has an accuracy of "
        f"{models['most common value']:.3f}."
    )
    cases = {case: models.get(case) or {} for case in ("real rows", RELEASE)}
    rows = [(case, line.get("accuracy"), line.get("auc")) for case, line in cases.items()]
    yield table(["trained on", "accuracy", "area under the curve"], rows)

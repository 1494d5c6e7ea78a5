"""The evaluation as a whole: what goes in, what is refused, and that a page holds only its JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from marginalsyn import (
    Budget,
    Evaluation,
    PrivateTable,
    Schema,
    datasets,
    evaluate,
    make_noise,
    registry,
)
from marginalsyn.access.private_table import STAMP
from marginalsyn.cli.command import show
from marginalsyn.cli.screen import Notes
from marginalsyn.contract import make_config
from marginalsyn.errors import DataError, PluginError, UsageError
from marginalsyn.evaluation.evaluation import choose_reports
from marginalsyn.evaluation.reports import Fact, Report
from marginalsyn.evaluation.verdict import FIT, UNEVEN, Verdict
from marginalsyn.evaluation.view import number
from marginalsyn.host import generate
from marginalsyn.operations.evaluate import blocks
from marginalsyn.operations.operation import Result
from marginalsyn.operations.report import publish
from marginalsyn.plugins.audit.testkit.generators import example_frame, example_schema
from marginalsyn.plugins.research.moment_certificate import certify_release
from marginalsyn.release.folder import Release

SCHEMA = example_schema()
QUICK = ["privacy", "marginals"]


def make_release(folder: Path, eps: float = 1.0, name: str = "release", rows: int = 300) -> Release:
    table = PrivateTable.open(example_frame(rows), SCHEMA)
    made, statement = generate(
        table, make_config("independent"), Budget(eps=eps), noise=make_noise(int(eps * 10))
    )
    return Release.write(made, SCHEMA, statement, folder / name)


def weigh(release: Release, names: str = "w") -> Release:
    rng = np.random.default_rng(0)
    rows = len(release.frame())
    frame = pd.DataFrame({name: rng.gamma(2.0, 1.0, rows) for name in names.split()})
    return release.amend({"weights.csv": frame.to_csv(index=False).encode()})


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    folder = tmp_path_factory.mktemp("several")
    tables = {f"eps {e}": weigh(make_release(folder, e, f"r{e}")) for e in (0.5, 1.0)}
    return evaluate(
        tables,
        example_frame(150, 5),
        train=example_frame(300),
        reports=["privacy", "marginals", "tstr", "weights"],
        models=["logistic"],
        repeats=2,
    )


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    release = weigh(make_release(tmp_path_factory.mktemp("one")), "w v")
    return evaluate(
        release,
        example_frame(150, 5),
        train=example_frame(300),
        models=["logistic", "svm"],
        repeats=2,
    )


class TestInput:
    def test_identical_tables_have_no_error_and_no_excess(self) -> None:
        frame = example_frame(200)
        wanted = ["marginals", "tstr", "bounds"]
        found = evaluate(
            frame, example_frame(100, 1), SCHEMA, train=frame, reports=wanted, models=["logistic"]
        )
        lines = found.to_frame()
        errors = lines[lines.metric.isin(["mean_l1", "worst_l1", "mean_tv", "worst_tv"])].value
        assert len(errors) == 12
        assert (errors == 0).all()
        excess = lines[lines.metric.str.startswith("excess")].value
        assert len(excess) > 4
        assert excess.abs().max() < 1e-9
        bounds = found.reports["bounds"]["synthetic"]["variants"][0]
        assert bounds["label_error"] == pytest.approx(0, abs=1e-12)

    def test_values_that_the_schema_does_not_know(self) -> None:
        frame, real = example_frame(100), example_frame(100, 1)
        with pytest.raises(UsageError, match=r"column \(ill\) of the synthetic table .* '1'"):
            evaluate(frame.assign(ill="1"), real, SCHEMA)
        some = frame.copy()
        some.loc[:9, "ill"] = "perhaps"
        found = evaluate(some, real, SCHEMA, reports=QUICK)
        assert any("10 of 100" in warning for warning in found.warnings)
        with pytest.raises(UsageError) as refused:
            evaluate(frame, real.assign(ill="secret"), SCHEMA)
        assert "secret" not in str(refused.value)

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            (lambda k: k.update(synthetic=k["synthetic"].drop(columns="age")), "lacks age"),
            (lambda k: k.update(synthetic=k["synthetic"].iloc[:0]), "must have rows"),
            (lambda k: k.update(real=k["real"].iloc[:0]), "at least one"),
            (lambda k: k.update(real=None), "real"),
            (lambda k: k.update(schema=None), "schema"),
            (lambda k: k.update(label="nothing"), "must be one of"),
            (lambda k: k.update(degree=9), "degree"),
            (lambda k: k.update(repeats=0), "repeats"),
            (lambda k: k.update(workload=[["age", "nothing"]]), "nothing"),
            (lambda k: k.update(models=["nothing"]), "model"),
            (lambda k: k.update(baselines=["dpsgd"]), "release"),
            (lambda k: k.update(train=k["real"]), "train rows"),
            (lambda k: k.update(weights=np.ones(3)), "100 rows"),
            (lambda k: k.update(weights=np.full(100, np.nan)), "100 are missing"),
            (lambda k: k.update(weights=-np.ones(100)), "zero or more"),
            (lambda k: k.update(weights=np.zeros(100)), "not all zero"),
            (lambda k: k.update(synthetic={}), "at least one table"),
        ],
    )
    def test_clear_refusals(self, change: Any, said: str) -> None:
        knobs: dict[str, Any] = {
            "synthetic": example_frame(100),
            "real": example_frame(80, 1),
            "schema": SCHEMA,
        }
        change(knobs)
        with pytest.raises(UsageError, match=said):
            evaluate(**knobs)

    def test_in_sample_is_labelled_everywhere(self) -> None:
        frame = example_frame(100)
        found = evaluate(
            frame,
            frame,
            SCHEMA,
            in_sample=True,
            models=["logistic"],
            repeats=2,
            reports=["marginals", "tstr"],
        )
        assert found.real["protocol"] == "in-sample"
        assert "IN SAMPLE" in found.to_html()
        assert "its generator saw" in found.verdict["synthetic"][1]

    def test_without_test_rows_only_what_needs_none(self) -> None:
        frame = example_frame(100)
        found = evaluate(frame, None, SCHEMA, train=example_frame(90, 1), reports=QUICK)
        assert found.real["protocol"] is None
        with pytest.raises(UsageError, match="tstr"):
            evaluate(frame, None, SCHEMA, train=example_frame(90, 1))

    def test_too_many_marginals_are_left_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("marginalsyn.plugins.reports.marginals_report.MOST_MARGINALS", 3000)
        digits = datasets.load("digits")
        found = evaluate(
            digits.train[:40], digits.test[:40], digits.schema, degree=5, reports=["marginals"]
        )
        block = found.reports["marginals"]["synthetic"]
        assert (block["degree"], block["degree_asked"]) == (2, 5)
        assert len(block["overlays"]) == 24


class TestOutput:
    def test_json_reads_back(self, single: Evaluation) -> None:
        again = Evaluation.from_json(single.to_json())
        assert again == single
        assert again.to_html() == single.to_html()
        assert single.stamp == STAMP
        with pytest.raises(DataError, match="evaluation"):
            Evaluation.from_json('{"version": 1}')

    def test_frame(self, single: Evaluation) -> None:
        lines = single.to_frame()
        assert list(lines.columns) == ["case", "report", "item", "metric", "value", "se"]
        assert set(lines.report) == {
            "privacy",
            "numbers",
            "marginals",
            "tstr",
            "weights",
            "distances",
            "bounds",
        }
        auc = lines[(lines.item == "logistic: weighted, w") & (lines.metric == "auc")]
        assert len(auc) == 1
        assert auc.se.iloc[0] > 0

    def test_folder(self, single: Evaluation, tmp_path: Path) -> None:
        release = make_release(tmp_path)
        for inside in (release.path, release.path / "evaluation"):
            with pytest.raises(UsageError, match="release"):
                single.write(inside)
        folder = single.write(tmp_path / "evaluation")
        (folder / "other.txt").write_text("mine")
        single.write(folder)
        assert sorted(p.name for p in folder.iterdir()) == [
            "evaluation.json",
            "other.txt",
            "report.html",
        ]
        (folder / "report.html").write_text("mine")
        with pytest.raises(UsageError, match="something else"):
            single.write(folder)
        single.write(folder, force=True)
        (tmp_path / "file").write_text("")
        with pytest.raises(UsageError, match="not a file"):
            single.write(tmp_path / "file")


class _Texts(HTMLParser):
    """The texts of a page outside styles and axes; tooltips are texts, too."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.open: list[str] = []
        self.axis: list[int] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("meta", "link", "br"):
            return
        self.open.append(tag)
        if tag == "g" and dict(attrs).get("class") == "axis":
            self.axis.append(len(self.open))

    def handle_endtag(self, tag: str) -> None:
        if self.axis and self.axis[-1] == len(self.open):
            self.axis.pop()
        assert self.open.pop() == tag, "tags must nest"

    def handle_data(self, data: str) -> None:
        if "style" not in self.open and not self.axis:
            self.texts.append(data.replace("\N{NON-BREAKING HYPHEN}", "-"))


def leaves(value: Any) -> Iterator[Any]:
    """Every key and value of a JSON tree that is no container."""
    if isinstance(value, dict):
        yield from value
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)
    else:
        yield value


TOKEN = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]\d+)?")
# Numbers in fixed sentences: how things are defined, years of papers, fixed thresholds.
FIXED = {"0", "1", "2", "3.1", "3.2", "2022", "2024", "95", "0.5", "0.7", "1024"}
FIXED |= {str(share) for share in range(10, 100, 10)}  # deciles


def strange_numbers(page: str, data: Any) -> set[str]:
    """The numbers on a page that are not in its JSON."""
    reader = _Texts()
    reader.feed(page)
    assert not reader.open
    known = set(FIXED)
    for leaf in leaves(data):
        if isinstance(leaf, str):
            known.update(TOKEN.findall(leaf))
        elif leaf is not None:
            known.update(TOKEN.findall(number(leaf)))
            known.update(TOKEN.findall(f"{leaf:g}"))
    return {token for text in reader.texts for token in TOKEN.findall(text)} - known


class TestPage:
    def test_every_number_is_in_the_json(self, single: Evaluation, several: Evaluation) -> None:
        for found in (single, several):
            page = found.to_html()
            assert len(TOKEN.findall(page)) > 500
            assert strange_numbers(page, json.loads(found.to_json())) == set()

    def test_a_strange_number_would_be_found(self, single: Evaluation) -> None:
        page = single.to_html().replace("</main>", "<p>0.987654</p></main>")
        assert strange_numbers(page, json.loads(single.to_json())) == {"0.987654"}

    def test_it_needs_no_network_and_runs_nothing(self, single: Evaluation) -> None:
        page = single.to_html()
        assert not re.search(r"https?:|<script|javascript:|@import|url\(|srcset|<iframe", page)
        assert STAMP in page
        assert 'name="viewport"' in page
        assert "prefers-color-scheme" in page
        for section in single.titles:
            assert f'id="{section}"' in page

    def test_names_are_escaped(self) -> None:
        evil = "<b>&\"'"
        schema = SCHEMA.model_copy(
            update={"columns": tuple(c.model_copy() for c in SCHEMA.columns)}
        )
        data = json.loads(schema.to_json())
        data["columns"][2]["name"] = evil
        from marginalsyn.table.schema import Schema

        named = Schema(**data)
        frames = [example_frame(80, s).rename(columns={"age": evil}) for s in (0, 1)]
        found = evaluate({evil: frames[0]}, frames[1], named, reports=QUICK, title=evil)
        page = found.to_html()
        assert "<b>" not in page
        assert "&lt;b&gt;" in page
        _Texts().feed(page)

    def test_several_tables_are_compared(self, several: Evaluation) -> None:
        page = several.to_html()
        assert len(several.comparison) == 2
        assert "Excess risk against eps" in page
        curves = several.combined["tstr"]["excess_by_eps"]
        assert set(curves) == {"independent", "independent, w"}
        assert [point[0] for point in curves["independent"]] == pytest.approx([0.5, 1.0])


class TestPublication:
    def test_it_depends_on_the_release_alone(self, tmp_path: Path) -> None:
        table = PrivateTable.open(example_frame(300), SCHEMA)
        release = weigh(make_release(tmp_path))
        release = certify_release(table, release, Budget(eps=2), noise=make_noise(0))
        found = publish(release)
        assert set(found.reports) == {"answers", "privacy", "marginals", "weights", "bounds"}
        page = found.to_html()
        assert strange_numbers(page, json.loads(found.to_json())) == set()
        assert STAMP not in page
        assert "NOT PRIVATE" in page
        assert "seeded" in found.stamp
        for file in tmp_path.rglob("*.json"):
            assert file.is_relative_to(release.path)

    def test_a_private_release_may_be_published(self, tmp_path: Path) -> None:
        table = PrivateTable.open(example_frame(100), SCHEMA)
        made, statement = generate(
            table, make_config("independent"), Budget(eps=1), noise=make_noise()
        )
        release = Release.write(made, SCHEMA, statement, tmp_path / "r")
        page = publish(release).to_html()
        assert "may be published" in page
        assert "real" not in _key_names(page)


def _key_names(page: str) -> list[str]:
    return re.findall(r"</svg>([^<]*)</li>", page)


class TestPlugins:
    def test_a_stranger_s_report_takes_part(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        from marginalsyn.evaluation import evaluation

        class Rows(Report):
            name, title, summary, place = "rows", "Rows", "how many rows", 5

            def compute(self, case: Any, ground: Any, options: Any, progress: Any) -> Any:
                return {"rows": len(case.synthetic)}

            def facts(self, block: Any) -> Any:
                return [Fact("all", "rows there", block["rows"])]

            def verdict(self, block: Any) -> Verdict:
                return Verdict(f"It has {block['rows']} rows.", {"rows": block["rows"]})

            def compare(self, blocks: Any) -> str:
                return f"There are {len(blocks)} tables."

            def show(self, blocks: Any, combined: Any = None) -> Any:
                return [f"{name}: {b['rows']}" for name, b in blocks.items()]

        class Entry(EntryPoint):
            def load(self) -> Any:
                return Rows

        entry = Entry(name="rows", value="theirs:Rows", group=registry.REPORTS)
        theirs = registry.Plugin(
            name="rows", kind=registry.REPORTS, distribution="theirs", version="1", entry=entry
        )
        original = registry.plugins
        every = lambda kind=None: [*original(kind), theirs]  # noqa: E731
        monkeypatch.setattr(registry, "plugins", every)
        monkeypatch.setattr(evaluation, "plugins", every)
        assert "rows" in choose_reports(None)
        found = evaluate(
            example_frame(30), example_frame(30, 1), SCHEMA, reports=["rows", "marginals", "tstr"]
        )
        # On the terminal, too, whatever built-in reports stand beside it.
        show(Result(found, text=list(blocks(found))), Notes(), blocks=True)
        told = capsys.readouterr().out
        assert re.search(r"synthetic +all +rows there +30", told)
        assert "l1 error of marginals" in told
        assert "trained on" in told
        assert found.verdict["synthetic"][0] == "It has 30 rows."
        assert next(iter(found.cases["synthetic"]["figures"].items())) == ("rows", 30)
        pair = {"a": example_frame(30), "b": example_frame(20)}
        both = evaluate(pair, example_frame(30, 1), SCHEMA, reports=["rows"])
        assert both.comparison == ["There are 2 tables."]
        assert found.reports["rows"] == {"synthetic": {"rows": 30}}
        assert "<p>synthetic: 30</p>" in found.to_html()
        assert list(found.titles) == ["rows", "marginals", "tstr"]

    def test_what_is_no_report(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from marginalsyn.evaluation import evaluation

        monkeypatch.setattr(evaluation, "find", lambda kind, name: dict)
        with pytest.raises(PluginError, match=r"derived? from"):
            choose_reports(["x"])


def test_values_too_rare_for_bought_categories_are_no_mistake() -> None:
    """Most employers are in no list that a release can buy."""
    bought = {"kind": "categorical", "name": "employer", "categories": ["City"], "origin": "bought"}
    schema = Schema(columns=(bought, {"kind": "boolean", "name": "left"}))
    rare = [f"e{i}" for i in range(70)]
    real = pd.DataFrame({"employer": ["City"] * 30 + rare, "left": [True, False] * 50})
    made = real.assign(employer=["City"] * 30 + ["OTHER"] * 70)
    found = evaluate(made, real, schema, train=real.iloc[::-1][:90], reports=["marginals"])
    told = [line for line in found.warnings if "employer" in line]
    assert told == [
        "column employer: 70% of the real values are too rare for the categories that were bought, "
        "and count as the rest"
    ]
    public = Schema(columns=({**bought, "origin": "public"}, schema.columns[1]))
    with pytest.raises(UsageError, match="coded otherwise"):
        evaluate(made, real, public, reports=["marginals"])


def test_an_uneven_split_is_warned_of_and_lowers_the_words(tmp_path: Path) -> None:
    """A kind of row that is all on one side; a random split of the same rows is not warned of."""
    frame, rng = example_frame(1500), np.random.default_rng(8)
    kind = frame[SCHEMA.names[0]] == frame[SCHEMA.names[0]].mode()[0]
    made = make_release(tmp_path)
    sides = {"even": rng.random(len(frame)) < 0.3, "uneven": (rng.random(len(frame)) < 0.3) | kind}
    found = {
        name: evaluate(made, frame[held], train=frame[~held], reports=["marginals"])
        for name, held in sides.items()
    }
    assert not found["even"].warnings
    (warning,) = found["uneven"].warnings
    assert "by more than chance" in warning
    assert all(UNEVEN in use["note"] for use in found["uneven"].uses["release"])
    assert all(use["word"] != FIT for use in found["uneven"].uses["release"])
    assert not any(UNEVEN in use["note"] for use in found["even"].uses["release"])


def test_tails_that_warn_of_a_split_are_wider_than_those_of_a_random_one() -> None:
    """By brute force: where a tail is small, the binomial's is at least the hypergeometric's."""
    for rows, held in ((40, 8), (300, 60), (300, 150), (1000, 10)):
        for count in (1, 2, 5, rows // 4, rows // 2, rows):
            found = np.arange(min(count, held) + 1)
            for wide, true in (
                (stats.binom.cdf, stats.hypergeom.cdf),
                (
                    lambda k, *a: stats.binom.sf(k - 1, *a),
                    lambda k, *a: stats.hypergeom.sf(k - 1, *a),
                ),
            ):
                small = wide(found, count, held / rows) < 1e-3
                exact = true(found, rows, count, held)
                assert (exact <= wide(found, count, held / rows) + 1e-12)[small].all()

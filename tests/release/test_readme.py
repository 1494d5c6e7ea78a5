"""The README of a release folder says what is in it, what is promised, and how to use it."""

from __future__ import annotations

import hashlib
import html
import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from marginalsyn import Synthesizer
from marginalsyn.evaluation.view import statement_figures
from marginalsyn.operations.report import Verify
from marginalsyn.plugins.audit.testkit.generators import example_frame, example_schema
from marginalsyn.privacy.charges import show_number
from marginalsyn.release.folder import Release, check_folder
from marginalsyn.release.readme import INDEX, README, explain_release
from marginalsyn.table.frames import TextForm


@pytest.mark.parametrize("seed", [None, 1])
def test_it_says_what_the_statement_says(seed: int | None, tmp_path: Path) -> None:
    synth = Synthesizer(method="independent", eps=0.5, schema=example_schema(), seed=seed)
    release = synth.fit(example_frame(100)).release(tmp_path / "made")
    text = (release.path / README).read_text()
    assert README in release.statement.files
    if seed is not None:
        assert "must not be published" in text
        assert "eps 0.5" not in text
    else:
        assert release.statement.unit in text
        assert "**eps 0.5 and delta 1e-09**" in text
        assert f"{math.exp(release.statement.eps):.3g} times as likely" in text
    for name in release.schema.names:
        assert f"* `{name}`" in text
    named = re.findall(r'read_csv\("(.*?)"\)', text)
    assert len(pd.read_csv(release.path / named[0])) == len(release.frame())


def test_an_asymptotic_guarantee_is_no_plain_eps() -> None:
    fitted = Synthesizer(method="independent", eps=1, schema=example_schema())
    exact = fitted.fit(example_frame(50)).privacy_
    text = explain_release(
        exact.model_copy(update={"guarantee": "asymptotic"}), "{}", []
    ).to_markdown()
    assert "There is no plain eps" in text
    assert "times as likely" not in text


def test_dates_without_a_format_of_their_own_are_read_as_dates() -> None:
    synth = Synthesizer(method="independent", eps=1, schema=example_schema())
    columns = [{"name": "day", "kind": "date"}, {"name": "end", "kind": "date", "format": "%d.%m"}]
    privacy = synth.fit(example_frame(50)).privacy_
    text = explain_release(privacy, json.dumps({"columns": columns}), ["synthetic.csv"])
    loading = text.sections["How to read it"][0]
    assert 'date_format={"end": "%d.%m"}, parse_dates=["day", "end"]' in loading


def test_made_up_columns_and_encodings_are_called_what_they_are() -> None:
    synth = Synthesizer(method="independent", eps=1, schema=example_schema())
    privacy = synth.fit(example_frame(50)).privacy_
    made = [("id", "identifier"), ("weight", "standing")]
    known = json.dumps({"columns": [{"name": name, "kind": kind} for name, kind in made]})
    text = explain_release(privacy, known, ["synthetic.csv"]).to_markdown()
    assert "with the encoding UTF-8" in text
    assert "* `id` (identifier): made up for these rows; it names nobody" in text
    assert "* `weight` (standing): how many of the population a row stands for" in text
    form = TextForm(sep=";", encoding="cp1252")
    text = explain_release(privacy.with_form(form), known, ["synthetic.csv"]).to_markdown()
    assert "with the encoding 1252: Western European (Windows) and a semicolon" in text


def test_linked_tables_say_how_they_are_joined_and_the_first_is_read() -> None:
    synth = Synthesizer(method="independent", eps=1, schema=example_schema())
    privacy = synth.fit(example_frame(50)).privacy_
    tables = [
        {"name": "patients", "key": "pid", "schema": {"columns": [{"name": "d", "kind": "date"}]}},
        {"name": "drugs", "parent": "patients", "link": "pid", "schema": None},
    ]
    files = ["drugs.csv", "patients.csv"]
    text = explain_release(privacy, json.dumps({"tables": tables}), files).to_markdown()
    assert 'read_csv("patients.csv", parse_dates=["d"])' in text
    assert "`patients` (`pid` is its key):" in text
    assert "`drugs` (each row belongs to that of `patients` with its `pid`):" in text


def test_it_follows_the_weights_and_a_change_is_found(tmp_path: Path) -> None:
    synth = Synthesizer(method="independent", eps=2, schema=example_schema())
    release = synth.fit(example_frame(200)).release(tmp_path / "made")
    assert "No weights are needed" in (release.path / README).read_text()
    weighted = release.weight(eps=1, method="beta-noised")
    text = (weighted.path / README).read_text()
    assert "`beta-noised`" in text
    assert f"eps {show_number(weighted.statement.eps, 3)}" in text
    assert not check_folder(weighted.path)[0]
    (weighted.path / README).write_text(text + "eps 0")
    assert any(README in problem for problem in check_folder(weighted.path)[0])


@pytest.mark.parametrize(
    ("eps", "delta"), [(2.0741, 1.04e-9), (1.004, 1e-9), (0.12349, 3.333e-8), (7.9951, 9.51e-7)]
)
def test_what_people_read_is_never_less_than_what_was_spent(
    tmp_path: Path, eps: float, delta: float
) -> None:
    """Rounded to the nearest number, eps 2.0741 was 2.07, and so on the folder's page."""
    synth = Synthesizer(method="independent", eps=eps, delta=delta, schema=example_schema())
    release = synth.fit(example_frame(200)).release(tmp_path / "made")
    stated, text = release.statement, (release.path / README).read_text()
    said = re.search(
        r"eps ([\d.e-]+) and delta ([\d.e-]+)\*\*.* at most ([\d.e+]+) times", text, re.S
    )
    assert said is not None
    read = [float(one) for one in said.groups()]
    for shown, true in zip(read, (stated.eps, stated.delta, math.exp(stated.eps)), strict=True):
        assert true * (1 - 1e-8) <= shown <= true * 1.11
    page = (release.path / INDEX).read_text()
    assert f"<dd>{said[1]}</dd>" in page
    assert f"eps {show_number(stated.eps)}" in dict(statement_figures(stated))["privacy"]


def test_a_page_says_the_same_and_shows_rows_of_the_release_alone(tmp_path: Path) -> None:
    synth = Synthesizer(method="independent", eps=1, schema=example_schema())
    release = synth.fit(example_frame(200)).release(tmp_path / "made")
    page = (release.path / INDEX).read_text()
    assert INDEX in release.statement.files
    assert "may be published" in page
    assert "http" not in page
    rest = re.sub(r"<title>.*?</title>|<style>.*?</style>", "", page, flags=re.DOTALL)
    words = {*html.unescape(re.sub(r"<[^>]+>", " ", rest)).split()}
    # All that it says stands in the README or in the first rows.
    first = (release.path / "synthetic.csv").read_text().splitlines()[:6]
    readme = re.sub(r"[`*#]", " ", (release.path / README).read_text())
    frame = "Skip sections Synthetic rows may be published: computed release alone eps 1 1e-09"
    foot = "first Made folder alone. Charts every column: marginalsyn report . --public"
    assert words <= {*readme.split(), *" ".join(first).replace(",", " ").split()} | {
        *f"{frame} {foot}".split()
    }
    assert {*first[1].replace(",", " ").split()} <= words
    # Weights are added, and the page follows.
    weighted = release.weight(eps=1, method="beta-noised")
    assert "beta-noised" in (weighted.path / INDEX).read_text()
    assert not check_folder(weighted.path)[0]


def resealed(release: Release, name: str, change: Callable[[str], str]) -> Path:
    """The folder with one file changed and its new hash recorded, as a forger would."""
    text = (release.path / name).read_text()
    assert change(text) != text
    (release.path / name).write_text(change(text))
    recorded = json.loads((release.path / "privacy.json").read_text())
    recorded["files"][name] = hashlib.sha256((release.path / name).read_bytes()).hexdigest()
    (release.path / "privacy.json").write_text(json.dumps(recorded))
    return release.path


@pytest.fixture
def promising(tmp_path: Path) -> Release:
    synth = Synthesizer(method="independent", eps=2, schema=example_schema())
    return synth.fit(example_frame(200)).release(tmp_path / "made")


@pytest.mark.parametrize("name", [README, INDEX])
@pytest.mark.parametrize(
    ("said", "forged"), [("eps 2 ", "eps 0.2 "), ("7.39 times", "1.22 times"), ("one row", "all")]
)
def test_a_guarantee_in_other_words_is_an_error(
    promising: Release, name: str, said: str, forged: str
) -> None:
    folder = resealed(promising, name, lambda text: text.replace(said, forged))
    problems = Verify(release=folder).run().value
    assert problems == [f"{name} must state the guarantee in the words of privacy.json"]


def test_files_in_other_words_are_named_in_one_order(promising: Release) -> None:
    for name in (INDEX, README):
        folder = resealed(promising, name, lambda text: text.replace("7.39 times", "1.22 times"))
    found = [problem.split()[0] for problem in Verify(release=folder).run().value]
    assert found == [README, INDEX]


@pytest.mark.parametrize("name", [README, INDEX])
def test_what_a_curator_adds_is_named_and_no_error(promising: Release, name: str) -> None:
    def add(text: str) -> str:
        return text.replace("This folder", "Ask Ann for the code book. This folder", 1)

    before = Verify(release=promising.path).run()
    assert not any(name in warning for warning in before.warnings)
    found = Verify(release=resealed(promising, name, add)).run()
    assert found.value == []
    assert any(warning.startswith(f"{name} is not as this version") for warning in found.warnings)


def test_what_another_version_wrote_is_not_compared(
    promising: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("marginalsyn.release.folder.version", lambda _: "9.0.0")
    folder = resealed(promising, README, lambda text: text.replace("A smaller eps", "Less eps"))
    found = Verify(release=folder).run()
    assert found.value == []
    assert any("another version wrote it" in warning for warning in found.warnings)

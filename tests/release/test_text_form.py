"""A release that is written as the source's text file was, and read back by all who read it."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from click.testing import Result

from marginalsyn.errors import ReleaseError
from marginalsyn.release.folder import Release
from marginalsyn.release.readme import README
from marginalsyn.table.frames import PLAIN_TEXT, TextForm

COLUMNS = [
    {"kind": "categorical", "name": "Stadt", "categories": ["Köln", "Düren"], "other": False},
    {
        "kind": "continuous",
        "name": "Größe",
        "lower": 1000.0,
        "upper": 2000.0,
        "decimals": 1,
        "format": {"decimal": ",", "thousands": "."},
    },
    {
        "kind": "continuous",
        "name": "Kosten",
        "lower": 0.0,
        "upper": 90.0,
        "decimals": 2,
        "format": {"decimal": ",", "suffix": " EUR"},
    },
    {
        "kind": "date",
        "name": "Tag",
        "lower": "2020-01-01",
        "upper": "2020-12-31",
        "format": "%d.%m.%Y",
    },
]
ROWS = """Stadt;Größe;Kosten;Tag
Köln;1.234,5;1,20 EUR;01.02.2020
Düren;"1.999,0";9,00 EUR;13.02.2020
"""


@pytest.mark.parametrize(
    ("encoding", "codec", "form"),
    [
        ("utf-8", "utf-8-sig", TextForm(sep=";", mark=True)),
        ("cp1252", "cp1252", TextForm(sep=";", encoding="cp1252")),
        ("utf-16", "utf-16", TextForm(sep=";", encoding="utf-16", mark=True)),
    ],
)
def test_rows_are_written_as_they_came(
    encoding: str, codec: str, form: TextForm, run: Callable[..., Result], folder: Path
) -> None:
    source = folder / "haus.csv"
    source.write_bytes(ROWS.replace("\n", "\r\n").encode(codec))
    (folder / "s.json").write_text(json.dumps({"columns": COLUMNS, "encoding": encoding}))
    asked = ("--data", "haus.csv", "--schema", "s.json", "--method", "independent", "--eps", 2)
    run("generate", *asked, "--rows", 40, "--as-input", "--go-on")
    release = Release.read(folder / "release")
    assert release.text_form == form
    written = (release.path / "synthetic.csv").read_bytes()
    assert written.decode(codec).splitlines()[0] == "Stadt;Größe;Kosten;Tag"
    assert written[:3] == source.read_bytes()[:3]
    assert len(release.frame()) == 40
    assert "files verified" in run("verify").stdout
    run("export", "--to", "csvw", "--out", "web.json")
    (table,) = json.loads((folder / "web.json").read_text())["tables"]
    assert table["dialect"]["delimiter"] == ";"
    known = codecs.lookup(table["dialect"]["encoding"]).name
    assert known == codecs.lookup(encoding).name
    run("sample", "--rows", 5, "--out", "more.csv")
    assert (folder / "more.csv").read_bytes().decode(codec).startswith("Stadt;")
    if codec == "cp1252":
        run("evaluate", "--in-sample", "--reports", "marginals")
    # As the README has people load it.
    call = re.search(r"`pandas\.(read_csv\(.*?\))` in Python", (release.path / README).read_text())
    assert call is not None
    text = call[1].replace('"synthetic.csv"', repr(str(release.path / "synthetic.csv")))
    read = eval(text, {"read_csv": pd.read_csv})
    assert list(read) == ["Stadt", "Größe", "Kosten", "Tag"]
    assert read["Größe"].between(1000, 2000).all()
    assert pd.api.types.is_datetime64_any_dtype(read["Tag"])
    assert read["Tag"].dt.year.eq(2020).all()


def test_a_character_that_the_encoding_lacks_is_kept() -> None:
    form = TextForm(sep=";", encoding="latin-1")
    assert form.fitting("5 kg") == form
    assert form.fitting("5 €") == TextForm(sep=";", mark=True)


@pytest.mark.parametrize("note", [{"sep": ";;"}, {"mark": 1}, {"encoding": "rot13"}, {"x": 1}])
def test_a_form_that_nobody_wrote_is_refused(note: dict[str, object]) -> None:
    assert TextForm.of({}) == PLAIN_TEXT
    with pytest.raises(ReleaseError, match="note"):
        TextForm.of({"text": note})

"""The 41 mistakes of a new user: each message names what was wrong and what to do next."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

Run = Callable[..., Result]
ASKED = "--eps 1 --method independent"
FILES = {
    "people.csv": "id,age,sex,ill\n"
    + "".join(f"{n},{n % 60},{'mf'[n % 2]},{n % 3 == 0}\n" for n in range(90)),
    "semi.csv": "a;b;c\n" + "1,5;x;2\n2,5;y;3\n" * 20,
    "one.csv": "a\n" + "x\ny\n" * 30,
    "row.csv": "a,b\n1,x\n",
    "six.csv": "a,b\n" + "1,x\n2,y\n" * 3,
    "head.csv": "a,b\n",
    "empty.csv": "",
    "open.csv": 'a,b\n1,"x\n2,y\n',
    "twice.csv": "a,b,a\n1,2,3\n",
    "notes.txt": "Dear all,\nthis is no table\n",
    "picture.png": "\x89PNG",
    "doc.pdf": "%PDF-1.4",
    "broken.json": "{",
    "upper.json": json.dumps(
        {
            "columns": [
                {"kind": "integer", "name": "age", "lower": 0, "upper": 99},
                {"kind": "categorical", "name": "sex", "categories": ["M", "F"]},
                {"kind": "boolean", "name": "ill"},
            ],
            "drop": ["id"],
        }
    ),
    "typo.json": '{"columns": [{"kind": "interger", "name": "age", "lower": 0, "upper": 9}]}',
    "other.json": '{"columns": [{"kind": "boolean", "name": "smoker"}]}',
    "folder/readme.md": "nothing",
}
# What was typed; words that name the mistake; words that say what to do next.
MISTAKES = [
    # the file
    ("start peple.csv --yes", "peple.csv", "people.csv"),
    ("start nowhere/people.csv --yes", "nowhere", "existing file"),
    ("start folder --yes", "folder", "readme.md"),
    ("start empty.csv --yes", "empty.csv", "must not be empty"),
    ("start head.csv --yes", "head.csv", "at least one row"),
    ("start open.csv --yes", "open.csv", "close every quoted field"),
    ("start twice.csv --yes", "'a' occurs twice", "--rename-duplicates"),
    ("start picture.png --yes", "picture.png", ".csv"),
    ("start doc.pdf --yes", "doc.pdf", ".csv"),
    ("start https:///people.csv --yes", "https", "https://"),
    ("start one.csv --yes", "one.csv", "two columns or more"),
    ("start row.csv --yes", "row.csv", "at least 20 rows"),
    ("start six.csv --yes", "six.csv", "at least 20 rows"),
    ("start semi.csv --yes --sep ,", "semi.csv", "it seems to use ';'"),
    ("start people.csv --yes --sep ;;", "sep", "one"),
    ("start", "DATA", "--help"),
    # options
    ("start people.csv", "terminal", "--yes"),
    ("start people.csv --yes --eps zero", "eps", "is not a number."),
    ("start people.csv --yes --eps 1,5", "1,5", "1.5"),
    ("start people.csv --yes --eps 0", "0", "x>0"),
    ("start people.csv --yes --eps -1", "-1", "x>0"),
    ("start people.csv --yes --esp 1", "--esp", "--eps"),
    ("start people.csv --yes --label il", "il", "did you mean 'ill'"),
    ("start people.csv --yes --kind agee=integer", "agee", "did you mean 'age'"),
    ("start people.csv --yes --kind age=number", "number", "integer"),
    ("start people.csv --yes --kind age", "--kind", "NAME=KIND"),
    ("start people.csv --yes --kind sex=continuous", "sex", "--kind sex=categorical"),
    ("start people.csv --yes --missing age", "--missing", "NAME=VALUE"),
    ("start people.csv --yes --missing age=-9", "age", "--missing age=none"),
    ("start people.csv --yes --keep aeg", "aeg", "did you mean 'age'"),
    ("start people.csv --yes --unit idd --max-rows 3", "idd", "did you mean 'id'"),
    ("start people.csv --yes --unit id", "--unit", "--max-rows"),
    ("start people.csv --yes --method indpendent", "indpendent", "independent"),
    ("start people.csv --yes --holdout 20", "20", "0<=x<1"),
    ("strat people.csv", "strat", "start"),
    # the schema
    ("start people.csv --yes --public none.json", "none.json", "schema infer"),
    ("start people.csv --yes --public broken.json", "broken.json", "JSON"),
    ("start people.csv --yes --public typo.json", "interger", "integer"),
    ("start people.csv --yes --public other.json", "smoker", "drop"),
    (f"start people.csv --yes --public upper.json {ASKED}", "sex", "ignore_case"),
    (f"generate --data people.csv {ASKED}", "--schema", "schema infer"),
]


@pytest.fixture
def table(folder: Path) -> Path:
    (folder / "folder").mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_there_are_as_many_mistakes_as_were_tried() -> None:
    assert len(MISTAKES) == 41


@pytest.mark.parametrize(("typed", "names", "next_"), MISTAKES, ids=[one[0] for one in MISTAKES])
def test_a_mistake_is_named_with_what_to_do_next(
    table: Path, typed: str, names: str, next_: str
) -> None:
    from marginalsyn.cli.main import cli

    result = CliRunner().invoke(cli, shlex.split(typed))
    said = re.sub(r"[\s│╭╮╰╯─]+", " ", result.stderr)
    assert result.exit_code in (1, 2), result.output
    assert "Traceback" not in result.output
    assert isinstance(result.exception, SystemExit), result.exception
    assert names in said, said
    assert next_ in said, said
    assert len(said) < 1500
    # Nothing was spent or written.
    assert not (table / "release").exists()
    assert not list((table / ".marginalsyn").rglob("*.sqlite"))

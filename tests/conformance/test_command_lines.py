"""What commands print and write of two neighbouring tables is the same, byte for byte.

On a tape (:mod:`marginalsyn.plugins.audit.testkit.tape`) every answer is fixed, so what still
differs came past the noise: a line, an exit code, a file of a release. What the questions' private
numbers differ by is what was charged, and no more.
"""

from __future__ import annotations

import gc
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from marginalsyn import LinkedSchema, Schema, defaults
from marginalsyn.access.ledgers import all_ledgers
from marginalsyn.cli.main import cli
from marginalsyn.people.tree import LinkedTable
from marginalsyn.plugins.audit.testkit.tape import Costs, Question, Tape
from marginalsyn.privacy import noise
from marginalsyn.records.workspace import Workspace

COLUMNS: list[dict[str, Any]] = [
    {"kind": "integer", "name": "age", "lower": 0, "upper": 99, "bins": 5, "nullable": True},
    {"kind": "continuous", "name": "pay", "lower": 0, "upper": 900, "bins": 4, "nullable": True},
    {"kind": "categorical", "name": "ward", "categories": ["A", "B", "C"]},
    {"kind": "boolean", "name": "ill"},
    {"kind": "date", "name": "day", "lower": "2020-01-01", "upper": "2020-12-31", "bins": "month"},
]
OPEN = [*COLUMNS[:2], {**COLUMNS[2], "categories": "private"}, *COLUMNS[3:]]
# Rows that one table has more, at its beginning.
ODD: list[dict[str, str]] = [
    dict(age="1e300", pay="-inf", ward="A", ill="\u2028maybe", day="9999-99-99", id="n", w="1e99"),
    dict(age="37", pay="NaN", ward="B ", ill="TRUE", day="0001-01-01", id="new", w="60"),
]
GENERATE = ("generate", "--data", "DATA", "--schema", "s.json", "--out", "r")
SHOW = (("show", "r"), ("verify", "r", "--json"), ("ledger", "show"))
PERSON = ("--unit", "id", "--max-rows", "3", "--order", "day")
NEW = ("--out", "b.json")
LABEL = {"label": "ill", "positive": True}
BOUGHT = (*GENERATE[:4], "b.json", "--out", "r", "--eps", "1", "--method", "mst")

# By name: the kind of source, the schema's fields, and the commands before those of SHOW.
CASES: dict[str, tuple[str, dict[str, Any], list[tuple[str, ...]]]] = {
    "auto and strata": ("csv", {}, [(*GENERATE, "--eps", "2", "--by", "ward", "--json")]),
    "held out": ("csv", {}, [(*GENERATE, "--eps", "2", "--holdout", "0.3", "--format", "parquet")]),
    "rules": (
        "parquet",
        {"rules": ["missing(pay) iff age < 20", "ward determines ill"]},
        [(*GENERATE, "--eps", "2", "--method", "clique-tree", "--as-input")],
    ),
    "persons": (
        "jsonl",
        {"drop": ["w"]},
        [(*GENERATE, "--eps", "2", *PERSON)],
    ),
    "sequence": (
        "duckdb",
        {"drop": ["w"]},
        [
            (
                *GENERATE,
                *["--eps", "2", "--unit", "id", "--max-rows", "3", "--order", "day", "--sequence"],
            )
        ],
    ),
    "survey weights": (
        "xlsx",
        {"drop": ["id"], "survey_weight": {"column": "w", "bound": 50}},
        [(*GENERATE, "--eps", "2", "--keep-weights")],
    ),
    "weights": (
        "csv.bz2",
        LABEL,
        [
            (*GENERATE, "--eps", "2", "--method", "independent", "--weights", "0.3"),
            ("weight", "r", "--method", "rake", "--eps", "0.5", "--json"),
            ("certify", "r", "--measured", "--eps", "0.3", "--force"),
        ],
    ),
    "bounds": (
        "dta",
        {},
        [
            ("schema", "buy-bounds", "DATA", "s.json", "--eps", "0.3", *NEW),
            BOUGHT,
        ],
    ),
    "categories": (
        "feather",
        {"columns": OPEN},
        [
            ("schema", "buy-categories", "DATA", "s.json", "--eps", "1", *NEW),
            BOUGHT,
        ],
    ),
    "numbers of rows": (
        "tsv",
        {"drop": ["w"]},
        [
            (
                *[
                    "schema",
                    "buy-max-rows",
                    "DATA",
                    "s.json",
                    "--unit",
                    "id",
                    "--eps",
                    "1",
                    "--out",
                    "b.json",
                ],
            ),
            BOUGHT,
        ],
    ),
    "reference": (
        "json",
        {},
        [(*GENERATE, "--eps", "2", "--reference", "public.csv", "--shape", "pay")],
    ),
    "replace": ("csv", {}, [(*GENERATE, "--eps", "2", "--neighbours", "replace")]),
    "stopped and resumed": (
        "csv",
        {},
        [
            (*GENERATE, "--eps", "2", "--method", "aim", "--rounds", "4"),
            ("generate", "--resume", "--eps", "3"),
            ("generate", "--resume"),
        ],
    ),
}
QUICK = ("held out", "sequence")


def people(rows: int, seed: int) -> pd.DataFrame:
    r = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": r.integers(0, 100, rows).astype(str),
            "pay": np.round(r.random(rows) * 900, 2).astype(str),
            "ward": r.choice(list("ABC"), rows),
            "ill": r.choice(["true", "false"], rows),
            "day": [f"2020-{month:02d}-15" for month in r.integers(1, 13, rows)],
            "id": [f"p{number}" for number in r.integers(0, rows // 3, rows)],
            "w": np.round(r.random(rows) * 60, 1).astype(str),
        }
    ).astype(object)


def write(frame: pd.DataFrame, kind: str) -> str:
    """The rows as a source of this kind in the current folder, by the name for --data."""
    path = str(Path(f"people.{kind}").resolve())
    if kind == "duckdb":
        gc.collect()  # an earlier test's file may have had this name, and be open
        with duckdb.connect(path) as connection:
            connection.register("given", frame)
            connection.execute("CREATE TABLE people AS SELECT * FROM given")
        return f"duckdb://{path}?table=people"
    if kind == "xlsx":
        pytest.importorskip("openpyxl")
    if kind == "dta":
        pytest.importorskip("pyreadstat")
        frame.to_stata(path, write_index=False, version=118)
    elif kind in ("json", "jsonl"):
        frame.to_json(path, orient="records", lines=kind == "jsonl")
    elif kind in ("parquet", "feather", "xlsx"):
        index = {} if kind == "feather" else {"index": False}
        getattr(frame, {"xlsx": "to_excel"}.get(kind, f"to_{kind}"))(path, **index)
    else:
        frame.to_csv(path, index=False, sep="\t" if kind == "tsv" else ",")
    return path


class Interrupted(Tape):
    """A tape whose first run ends by Ctrl-C at its fifth question."""

    def _answer(self, question: Question, values: Any) -> Any:
        if self.seed == 3 and len(self.questions) == 5:
            for kept in (self.questions, self.public, self.drawn):
                kept.pop()
            raise KeyboardInterrupt
        return super()._answer(question, values)


def outputs(
    folder: Path,
    commands: list[tuple[str, ...]],
    prepare: Callable[[], str],
    kind: type[Tape],
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[dict[str, Any], list[Tape], list[Any]]:
    """What the commands let out in a folder of their own, their tapes, and what was charged."""
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MARGINALSYN_LEDGERS", str(folder / "ledgers"))
    salt = f"{defaults.SPLIT_RULE}{'0123456789abcdef' * 2}"
    monkeypatch.setattr(Workspace, "holdout_salt", lambda *given, **how: salt)
    tapes: list[Tape] = []

    def make(seed: int | None = None) -> Tape:
        tapes.append(kind(seed=3 + len(tapes)))
        return tapes[-1]

    for module in [noise, *sys.modules.values()]:
        if vars(module).get("make_noise") is not None and module.__name__.startswith("marginalsyn"):
            monkeypatch.setattr(module, "make_noise", make)
    data, said = prepare(), list[Any]()
    for command in (*commands, *SHOW):
        done = CliRunner().invoke(cli, [data if word == "DATA" else word for word in command])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
        said.append([command[0], done.exit_code, done.stdout, done.stderr])
    assert [code for _, code, *_ in said[-len(SHOW) :]] == [0] * len(SHOW), said
    text = json.dumps(said, ensure_ascii=False).replace(str(folder), "FOLDER")
    # Moments of the clock, durations that people see in private, random names of runs and ledgers.
    text = re.sub(r"\d+:\d+(:\d+)?Z?|\d+(\.\d+)? ?s\b", "TIME", text)
    text = re.sub(r"\b[0-9a-f]{16}\b|-[0-9a-f]{12}\.sqlite", "ID", text)
    files = {f"r/{p.name}": p.read_bytes() for p in sorted((folder / "r").iterdir())}
    files |= {p.name: p.read_bytes() for p in folder.glob("b.json")}
    charges = [charge for ledger in all_ledgers() for charge in ledger.read().charges]
    assert charges
    return {"said": text, **files}, tapes, charges


def compare(
    commands: list[tuple[str, ...]],
    tables: tuple[Callable[[], str], Callable[[], str]],
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[Tape] = Tape,
) -> None:
    (first, tapes, charges), (second, others, again) = (
        outputs(place / name, commands, prepare, kind, monkeypatch)
        for name, prepare in zip(("few", "more"), tables, strict=True)
    )
    assert first["said"] == second["said"]
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []
    assert charges == again
    assert [tape.public for tape in tapes] == [tape.public for tape in others]
    pairs = [(one.questions, two.questions) for one, two in zip(tapes, others, strict=True)]
    asked = [pair for pair in pairs for pair in zip(*pair, strict=True)]
    costs = Costs(asked=asked, charges=tuple(charges))
    assert 0 < costs.spent <= costs.charged * (1 + 1e-6)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in CASES]
)
@pytest.mark.parametrize("odd", [0, 1])
def test_commands_show_two_neighbours_alike(
    name: str, odd: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, fields, commands = CASES[name]
    rows = people(60, seed=1)
    more = pd.concat([pd.DataFrame([ODD[odd]]), rows], ignore_index=True)
    # A row is replaced by another, or there is one more.
    few = pd.concat([rows, pd.DataFrame([ODD[1 - odd]])]) if name == "replace" else rows

    def prepared(frame: pd.DataFrame) -> Callable[[], str]:
        def prepare() -> str:
            schema = {"columns": COLUMNS, "drop": ["id", "w"], **fields}
            Path("s.json").write_text(json.dumps(schema), encoding="utf-8")
            people(90, seed=2).drop(columns="day").to_csv("public.csv", index=False)
            return write(frame.reset_index(drop=True), kind)

        return prepare

    tape = Interrupted if name == "stopped and resumed" else Tape
    compare(commands, (prepared(few), prepared(more)), tmp_path, monkeypatch, tape)


VISITS = Schema(columns=(COLUMNS[4], COLUMNS[2], COLUMNS[0]))
TREE = LinkedSchema(
    (
        LinkedTable("patients", Schema(columns=(COLUMNS[3],)), key="id"),
        LinkedTable(
            *("visits", VISITS, "vid", "patients", "id"), max_children=3, order="day", max_gap=90
        ),
        LinkedTable(
            "drugs", Schema.from_domain({"code": 3}), parent="visits", link="vid", max_children=2
        ),
    )
)
LINKED = {"id": ["id", "ill"], "vid": ["vid", "id", "day", "ward", "age"], "code": ["vid", "code"]}
# Persons that one clinic has more: many rows and strange ones; a key that stands twice; no rows.
PERSONS: dict[str, tuple[list[Any], list[Any], list[Any]]] = {
    "strange": (
        [("ne\u0301w", "true")],
        [(f"v{n}", "ne\u0301w", day, "zz", "inf") for n, day in enumerate(["", "9999-01-01"] * 3)],
        [("v0", "1"), ("v0", "\x1f"), ("v5", "2"), ("v1", "0"), ("v1", "0")],
    ),
    "twice": (
        [("5x", "true"), ("5x", "false")],
        [("k", "5x", "2020-01-01", "A", "3"), ("k", "5x", "2020-01-02", "B", "4")],
        [("k", "1"), ("k", "2"), ("", "0")],
    ),
    "alone": ([("lone", "")], [], []),
}


@pytest.mark.slow
@pytest.mark.parametrize("more", PERSONS)
@pytest.mark.parametrize("held_out", ["0", "0.3"])
def test_commands_show_two_clinics_alike(
    more: str, held_out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = people(90, seed=4).assign(vid=[f"k{n}" for n in range(90)], code="1")
    tables = {"patients": rows.drop_duplicates("id"), "visits": rows, "drugs": rows[::2]}

    def prepared(added: tuple[list[Any], ...]) -> Callable[[], str]:
        def prepare() -> str:
            Path("clinic").mkdir()
            TREE.write("s.json")
            for (name, table), names, new in zip(
                tables.items(), LINKED.values(), added, strict=True
            ):
                both = [pd.DataFrame(new, columns=names), table[names]]
                pd.concat(both).to_csv(f"clinic/{name}.csv", index=False)
            return "clinic"

        return prepare

    commands = [(*GENERATE, "--eps", "2", "--holdout", held_out)]
    neighbours = prepared(([], [], [])), prepared(PERSONS[more])
    compare(commands, neighbours, tmp_path, monkeypatch)

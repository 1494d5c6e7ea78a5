"""A journal holds answers and public facts, durably, and nothing that subtracts to exact counts."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import Result

from marginalsyn import (
    Budget,
    Charge,
    Ledger,
    Neighbours,
    PrivateTable,
    Schema,
    Synthesizer,
    make_noise,
)
from marginalsyn.access.prepaid_budget import ReplayedNoise
from marginalsyn.contract import make_config
from marginalsyn.errors import DataError, LedgerError, UsageError
from marginalsyn.host import generate
from marginalsyn.privacy import noise
from marginalsyn.privacy.charges import ZCDP
from marginalsyn.privacy.laws import DiscreteGaussian, DiscreteLaplace, PoissonSample
from marginalsyn.privacy.noise import DRAWN
from marginalsyn.privacy.rounded_normal import RoundedGaussian
from marginalsyn.privacy.selection import ExponentialMechanism
from marginalsyn.records.resume import RunRecorder
from marginalsyn.records.runs import Answer, Journal, interrupted
from marginalsyn.release import folder as folders

Run = Callable[..., Result]
PEOPLE = ("generate", "--data", "people.csv", "--schema", "people.json", "--method", "independent")


def records(path: Path) -> list[tuple[dict[str, Any], bytes]]:
    """Every record of a journal, read without the code that writes it."""
    with closing(sqlite3.connect(path)) as db:
        tables = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        assert tables == [("records",)]
        rows = db.execute("SELECT head, body FROM records ORDER BY number").fetchall()
    return [(json.loads(head), body) for head, body in rows]


def change(path: Path, command: str) -> None:
    """Change a journal behind the back of the code that writes it."""
    with closing(sqlite3.connect(path)) as db, db:
        assert db.execute(command).rowcount == 1


def journal_in(folder: Path) -> Path:
    (path,) = (folder / ".marginalsyn" / "journals").glob("*.journal")
    return path


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Lets the n-th answer of the next run raise, or no answer where n is 0."""
    told = Journal.append

    def arm(number: int, error: type[BaseException] = KeyboardInterrupt) -> None:
        left = number

        def append(self: Journal, answer: Answer) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise error
            told(self, answer)

        monkeypatch.setattr(Journal, "append", append)

    return arm


ANSWERS = [
    np.array([[3, -1], [400, 2]]),
    np.array(7),
    np.array([2**40, -(2**62)]),
    np.array([], dtype=np.int64),
    np.array([0.1, -2.5e300]),
]


def written(path: Path) -> Journal:
    made = Journal.create(path, {"method": "x"})
    for number, value in enumerate(ANSWERS):
        made.append(Answer(f"question {number}", value, {"discrete Gaussian": number}))
    made.close()
    return made


def test_what_is_written_is_read(tmp_path: Path) -> None:
    written(tmp_path / "j")
    read = Journal.read(tmp_path / "j")
    assert read.facts == {"method": "x"}
    assert len(read) == len(ANSWERS)
    for number, value in enumerate(ANSWERS):
        found = read.answer(number)
        assert (found.question, found.laws) == (f"question {number}", {"discrete Gaussian": number})
        assert found.value.dtype == value.dtype
        assert np.array_equal(found.value, value)
        assert found.value.shape == value.shape


def test_a_journal_is_its_owner_s_alone(tmp_path: Path) -> None:
    made = Journal.create(tmp_path / "j", {"method": "x"})
    for file in tmp_path.iterdir():
        assert file.stat().st_mode & 0o077 == 0, file
    made.close()


def test_an_answer_whose_writing_was_cut_short_counts_for_nothing(tmp_path: Path) -> None:
    """The log as a process leaves it that is killed, cut at every place."""
    made = Journal.create(tmp_path / "j", {"method": "x"})
    for number, value in enumerate(ANSWERS):
        made.append(Answer(f"question {number}", value, {}))
    data, log = made.path.read_bytes(), Path(f"{made.path}-wal").read_bytes()
    made.close()
    found = []
    copy = tmp_path / "copy"
    for cut in range(len(log), 0, -517):
        copy.write_bytes(data)
        Path(f"{copy}-wal").write_bytes(log[:cut])
        try:
            read = Journal.read(copy)
        except LedgerError:
            found.append(-1)
            continue
        found.append(len(read))
        for number in range(len(read)):
            assert np.array_equal(read.answer(number).value, ANSWERS[number])
        read.append(Answer("again", ANSWERS[0], {}))
        read.close()
    assert found == sorted(found, reverse=True)
    assert set(found) == {*range(len(ANSWERS) + 1), -1}


def test_one_process_has_a_journal_at_a_time(tmp_path: Path) -> None:
    made = Journal.create(tmp_path / "j", {"method": "x"})
    with pytest.raises(UsageError, match="another process is working on it"):
        Journal.read(tmp_path / "j")
    made.append(Answer("q", ANSWERS[0], {}))
    made.close()
    assert len(Journal.read(tmp_path / "j")) == 1


@pytest.mark.parametrize(
    "command",
    [
        "UPDATE records SET body = body || x'00' WHERE number = 3",
        "UPDATE records SET head = replace(head, 'question', 'questiom') WHERE number = 3",
        "UPDATE records SET head = '{\"facts\": {}}' WHERE number = 0",
        "DELETE FROM records WHERE number = 3",
        "DELETE FROM records WHERE number = 0",
    ],
)
def test_a_changed_journal_is_not_trusted(tmp_path: Path, command: str) -> None:
    path = written(tmp_path / "j").path
    change(path, command)
    with pytest.raises(LedgerError, match="must be whole"):
        Journal.read(path)


def test_a_file_that_is_no_journal_is_not_trusted(tmp_path: Path) -> None:
    path = tmp_path / "j"
    # Also what the version before wrote, and a file that was just begun.
    for content in (b"something else\n", b"marginalsyn journal 1\n" + bytes(99), b""):
        path.unlink(missing_ok=True)
        path.write_bytes(content)
        with pytest.raises(LedgerError, match="must be whole"):
            Journal.read(path)


def test_an_answer_that_cannot_be_kept_is_not_told(tmp_path: Path) -> None:
    made = Journal.create(tmp_path / "j", {"post": "1"})
    noised = ReplayedNoise(make_noise(), made)
    (pages,) = made._db.execute("PRAGMA page_count").fetchone()
    made._db.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(LedgerError, match="is full"):
        noised.draw(DiscreteGaussian(2.0), np.zeros(9000, dtype=int))
    assert len(made) == 0
    made._db.execute("PRAGMA max_page_count=1000000")
    shown = noised.draw(DiscreteGaussian(2.0), np.zeros(3, dtype=int))
    made.close()
    assert np.array_equal(Journal.read(tmp_path / "j").answer(0).value, shown)


def ask(of: Any) -> list[Any]:
    """One question of every kind whose answer is told."""
    counts = np.array([5, 0, 9])
    return [
        of.draw(DiscreteGaussian(3.0), counts),
        of.draw(DiscreteGaussian(np.array([1.0, 2.0, 3.0])), counts),
        of.draw(DiscreteLaplace(2.0), counts),
        of.draw(RoundedGaussian(4.0), counts),
        of.draw(ExponentialMechanism(1.0, 1.0), np.array([1.0, 2.0])),
        of.answer("a chain's end", lambda: np.array([0.25])),
    ]


class Deaf:
    """A noise that must not be asked."""

    private, description, post_seed = True, "deaf", -1

    def __init__(self) -> None:
        self.used = make_noise().used


def test_kept_answers_are_told_again_and_not_drawn(tmp_path: Path) -> None:
    first = ReplayedNoise(make_noise(), Journal.create(tmp_path / "j", {"post": "ab"}))
    told = ask(first)
    first._journal.close()
    deaf: Any = Deaf()
    again = ReplayedNoise(deaf, Journal.read(tmp_path / "j"))
    assert again.known
    for one, other in zip(told, ask(again), strict=True):
        assert np.array_equal(one, other)
        assert type(one) is type(other)
    assert not again.known
    assert deaf.used.counts() == first.used.counts()
    with pytest.raises(AttributeError):
        again.draw(DiscreteLaplace(1.0), np.zeros(2, dtype=int))
    again._journal.close()
    # Post-processing goes on from the stream's beginning, as it was begun.
    fresh = ReplayedNoise(deaf, Journal.read(tmp_path / "j"))
    assert again.post.integers(2**60) == fresh.post.integers(2**60)


@pytest.mark.parametrize(
    "other",
    [
        lambda of: of.draw(DiscreteGaussian(3.5), np.array([5, 0, 9])),
        lambda of: of.draw(DiscreteGaussian(3.0), np.array([5, 0])),
        lambda of: of.draw(DiscreteLaplace(3.0), np.array([5, 0, 9])),
    ],
    ids=["scale", "shape", "law"],
)
def test_another_question_is_refused(tmp_path: Path, other: Callable[[Any], Any]) -> None:
    facts = {"post": "0", "version": "0.1"}
    made = Journal.create(tmp_path / "j", facts)
    ask(ReplayedNoise(make_noise(), made))
    made.close()
    again = ReplayedNoise(make_noise(), Journal.read(tmp_path / "j"))
    with pytest.raises(UsageError, match=r"written by marginalsyn 0\.1"):
        other(again)


def test_every_way_to_draw_is_kept_or_never_written(tmp_path: Path) -> None:
    """A law, or a method, that is added to the noise must be decided about here."""
    assert {law.name for law in DRAWN if not law.journaled} == {"Poisson sample"}
    methods = {"draw", "answer", "secret", "key"}
    public = {"private", "description", "post", "post_seed", "known", "used"}
    names = {n for n in dir(noise.SecureNoise()) if not n.startswith("_")}
    assert names == methods | public
    made = ReplayedNoise(make_noise(), Journal.create(tmp_path / "j", {"post": "0"}))
    assert {n for n in dir(made) if not n.startswith("_")} == {*names, "inner"}


def test_lots_keys_and_secret_streams_leave_no_trace(tmp_path: Path) -> None:
    made = Journal.create(tmp_path / "j", {"post": "0"})
    files = [made.path, Path(f"{made.path}-wal")]
    before = [file.read_bytes() for file in files]
    told = ReplayedNoise(make_noise(), made)
    told.draw(PoissonSample(0.5), 1000)
    told.key()
    told.secret().integers(2**60, size=100)
    assert [file.read_bytes() for file in files] == before
    made.close()


def table() -> tuple[pd.DataFrame, Schema]:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({name: rng.integers(0, 4, 300) for name in "abc"})
    return frame, Schema.from_domain(dict.fromkeys("abc", 4))


def test_a_journal_tells_no_more_than_the_release(tmp_path: Path) -> None:
    """Record by record: public facts, then the very answers that are published."""
    frame, schema = table()
    door = PrivateTable.open(frame, schema, ledger=Ledger(tmp_path / "l"))
    kept = RunRecorder(tmp_path, command="generate", source="DataFrame")
    synthesis, _ = generate(
        door, make_config("independent"), Budget(eps=1), noise=make_noise(), recorder=kept
    )
    kept.close()
    (facts, nothing), *answers = records(next((tmp_path / "journals").glob("*.journal")))
    assert nothing == b""
    assert set(facts) == {"facts"}
    assert set(facts["facts"]) == {
        *("method", "parameters", "eps", "delta", "neighbours", "schema"),
        *("command", "source", "charges", "seed", "post", "version", "day"),
    }
    assert len(answers) == len(synthesis.measurements)
    for (head, body), measured in zip(answers, synthesis.measurements, strict=True):
        assert set(head) == {"question", "laws", "libraries", "shape", "type", "stored"}
        assert len(head["question"]) == 32
        found = np.frombuffer(body, head["stored"]).reshape(head["shape"])
        assert np.array_equal(found, measured.values)
    # The question's fingerprint is that of public things: another table's is the same.
    other = PrivateTable.open(frame.head(3), schema, ledger=Ledger(tmp_path / "l2"))
    with RunRecorder(tmp_path / "two", command="generate", source="DataFrame") as two:
        generate(other, make_config("independent"), Budget(eps=1), noise=make_noise(), recorder=two)
    _, *others = records(next((tmp_path / "two" / "journals").glob("*.journal")))
    assert [head["question"] for head, _ in others] == [head["question"] for head, _ in answers]


# A run that notes in the system's own trace when it was charged, drew and got an answer.
TRACED = """
import os, sys
import numpy as np
from marginalsyn import Budget, PrivateTable, Schema, make_noise
from marginalsyn.contract import make_config
from marginalsyn.host import generate
from marginalsyn.privacy import noise
from marginalsyn.records.resume import RunRecorder
from marginalsyn.records.ledger import Ledger
from marginalsyn.access import visit
import pandas as pd

def noted(owner, name, said):
    original = getattr(owner, name)
    def call(*args, **how):
        found = original(*args, **how)
        os.access("/noted/" + said, 0)
        return found
    setattr(owner, name, call)

noted(Ledger, "charge", "charged")
noted(noise.SecureNoise, "draw", "drawn")
noted(visit.Visit, "measure", "told")
frame = pd.DataFrame({name: np.arange(300) % 4 for name in "abc"})
schema = Schema.from_domain(dict.fromkeys("abc", 4))
with RunRecorder(".", command="generate", source="DataFrame") as recorder:
    door = PrivateTable.open(frame, schema, ledger=Ledger("l"))
    generate(door, make_config("independent"), Budget(eps=1), noise=make_noise(), recorder=recorder)
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_answers_are_on_the_disk_before_anybody_has_them(folder: Path) -> None:
    """Charge, then every answer: drawn, written, flushed, told."""
    command = ["strace", "-f", "-y", "-e", "trace=access,faccessat,faccessat2,fsync,fdatasync"]
    trace = subprocess.run(
        [*command, sys.executable, "-c", TRACED], capture_output=True, text=True, check=True
    ).stderr
    events = re.findall(r"/noted/(\w+)|(sync)\(\d+<[^>]*\.journal", trace)
    happened = [noted or flushed for noted, flushed in events]
    assert happened.index("charged") < happened.index("drawn")
    answers = happened[happened.index("drawn") :]
    assert answers[:9] == ["drawn", "sync", "told"] * 3, answers


def test_ctrl_c_says_how_to_go_on(run: Run, people: Path, stopped: Callable[..., None]) -> None:
    stopped(3)
    said = run(*PEOPLE, "--eps", 1, code=130).stderr
    assert "The ledger was charged eps=1" in said
    assert "2 answers so far are kept: 'marginalsyn generate --resume'" in said
    stopped(0)
    shown = run("ledger", "show").stdout
    assert "Interrupted  generate independent" in shown
    told = json.loads(run("ledger", "show", "--json").stdout)
    assert [one["answers"] for one in told["interrupted"]] == [2]
    assert told["interrupted"][0]["id"] == told["entries"][0]["id"]
    # Another run is possible, and says what it need not have cost.
    hint = run(*PEOPLE, "--eps", 1, "--out", "other").stderr
    assert "'marginalsyn generate --resume' goes on with it at no further charge" in hint
    run("generate", "--resume")
    assert len(json.loads(run("ledger", "show", "--json").stdout)["entries"]) == 2
    assert "Interrupted" not in run("ledger", "show").stdout
    assert "interrupted" not in run(*PEOPLE, "--eps", 1, "--out", "third").stderr
    run("verify", "release")


def test_memory_that_runs_out_says_how_to_go_on(
    run: Run, people: Path, stopped: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped(2, MemoryError)
    said = run(*PEOPLE, "--eps", 1, code=1).stderr
    assert "ran out of memory" in said
    assert "marginalsyn generate --resume" in said
    stopped(0)
    with monkeypatch.context() as broken:

        def full(*args: Any, **kwargs: Any) -> None:
            raise OSError(28, "No space left on device")

        broken.setattr(folders.Release, "write", full)
        said = run("generate", "--resume", code=1).stderr
    assert "No space left" in said
    assert "marginalsyn generate --resume" in said
    run("generate", "--resume", "--out", "elsewhere")
    assert (people.parent / "elsewhere").exists()


def test_the_cap_is_not_asked_again(run: Run, people: Path, stopped: Callable[..., None]) -> None:
    stopped(2)
    run(*PEOPLE, "--eps", 1, code=130)
    stopped(0)
    run("ledger", "cap", "--data", "people.csv", "--eps", 0.5)
    run(*PEOPLE, "--eps", 0.1, "--out", "other", code=1)
    run("generate", "--resume")


def test_what_cannot_go_on_says_why(
    run: Run, people: Path, stopped: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "there is none" in run("generate", "--resume", code=2).stderr
    stopped(2)
    run(*PEOPLE, "--eps", 1, "--rows", 20, code=130)
    stopped(0)
    # Other options than those it was begun with.
    said = run("generate", "--resume", "--eps", 2, code=2).stderr
    assert "eps was 1.0, is 2.0" in said
    assert "method" in run("generate", "--resume", "--method", "mst", code=2).stderr
    assert (
        "there is none of this source"
        in run("generate", "--resume", "--dataset", "heart", code=2).stderr
    )
    # Another process is at work on it.
    path = journal_in(people.parent)
    with closing(Journal.read(path)):
        assert "there is none" in run("generate", "--resume", code=2).stderr
    # The rows have changed.
    text = people.read_text()
    about = people.stat()
    people.write_text(text + "1,2,3,A,yes\n")
    assert "has changed since" in run("generate", "--resume", code=1).stderr
    people.write_text(text)
    os.utime(people, ns=(about.st_atime_ns, about.st_mtime_ns))
    # A ledger that does not hold the charge.
    book = next((people.parent / ".marginalsyn" / "ledgers").glob("*.sqlite"))
    head = book.with_name(f"{book.name}.head")
    book.rename(book.with_suffix(".away"))
    assert "its end is missing" in run("generate", "--resume", code=1).stderr
    head.rename(head.with_suffix(".away"))
    assert "must hold the charge" in run("generate", "--resume", code=1).stderr
    book.with_suffix(".away").rename(book)
    head.with_suffix(".away").rename(head)
    run("generate", "--resume")


def test_held_out_rows_stay_held_out(run: Run, people: Path, stopped: Callable[..., None]) -> None:
    stopped(2)
    run(*PEOPLE, "--eps", 1, "--holdout", 0.5, code=130)
    stopped(0)
    (card,) = interrupted(people.parent / ".marginalsyn")
    assert card.card.salt
    run("generate", "--resume")
    memory = json.loads((people.parent / ".marginalsyn" / "workspace.json").read_text())
    assert memory["sources"][str(people.resolve())]["holdout_salt"] == card.card.salt


def test_one_copy_of_an_interrupted_run_goes_on(
    run: Run, people: Path, stopped: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = (*PEOPLE[:1], "--data", people, "--schema", people.with_suffix(".json"), *PEOPLE[5:])
    ledgers = people.parent / ".marginalsyn" / "ledgers"
    monkeypatch.setenv("MARGINALSYN_LEDGERS", str(ledgers))
    home, copy, late = (people.parent / name for name in ("home", "copy", "late"))
    home.mkdir()
    monkeypatch.chdir(home)
    stopped(3)
    run(*asked, "--eps", 1, code=130)
    assert "not ended: generate independent" in run("ledger", "verify").stderr
    shutil.copytree(home, copy)
    # The copy is interrupted in its turn, which its own copy shares.
    monkeypatch.chdir(copy)
    stopped(1)
    run("generate", "--resume", code=130)
    stopped(0)
    shutil.copytree(copy, late)
    monkeypatch.chdir(home)
    said = run("generate", "--resume", code=1).stderr
    assert "one charge pays for one release" in said
    assert "Begin a new run without --resume" in said
    assert not Path("release").exists()
    assert "Interrupted" not in run("ledger", "show", "--data", people).stdout
    monkeypatch.chdir(copy)
    assert "Interrupted" in run("ledger", "show", "--data", people).stdout
    run("generate", "--resume")
    for folder in (home, late):
        monkeypatch.chdir(folder)
        run("generate", "--resume", code=1)
        assert not Path("release").exists()
    (book,) = (Ledger(path).read() for path in ledgers.glob("*.sqlite"))
    assert len(book.entries) == 1
    assert "not ended" not in run("ledger", "verify").stderr
    # The way out.
    assert "is paid for" not in run(*asked, "--eps", 1).stderr


@pytest.mark.parametrize("late", [False, True])
def test_a_crash_while_a_run_is_resumed_loses_nothing(
    run: Run, people: Path, stopped: Callable[..., None], late: bool
) -> None:
    """Before the ledger knows the new number, and after."""
    stopped(3)
    run(*PEOPLE, "--eps", 1, code=130)
    stopped(0)
    with pytest.MonkeyPatch.context() as broken:
        original = Ledger.advance

        def crash(*args: Any, **how: Any) -> Any:
            if late:
                original(*args, **how)
            raise KeyboardInterrupt

        broken.setattr(Ledger, "advance", crash)
        run("generate", "--resume", code=130)
    run("generate", "--resume")
    run("verify", "release")


def test_a_run_whose_copy_was_faster_gives_nothing_out(
    run: Run, people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, original = people.parent / "copy", RunRecorder.seal

    def overtaken(self: RunRecorder) -> None:
        monkeypatch.setattr(RunRecorder, "seal", original)
        (path,) = Path(".marginalsyn/ledgers").glob("*.sqlite")
        shutil.copytree(people.parent / ".marginalsyn", copy)
        (card,) = copy.glob("journals/*.json")
        known = json.loads(card.read_text())["taken"]
        Ledger(path).advance(self.id, known, "another", 0)
        original(self)

    monkeypatch.setattr(RunRecorder, "seal", overtaken)
    said = run(*PEOPLE, "--eps", 1, code=1).stderr
    assert "one charge pays for one release" in said
    assert "goes on from there" not in said
    assert not Path("release").exists()


def test_a_run_that_was_complete_is_only_repeated(
    run: Run, people: Path, stopped: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(folders.Release, "write", lambda *args, **how: stop())
        run(*PEOPLE, "--eps", 1, code=130)
    path = journal_in(people.parent)
    whole = path.read_bytes()
    # A copy from before its last answer is refused, and so is a journal that lacks one.
    change(path, "DELETE FROM records WHERE number = (SELECT max(number) FROM records)")
    assert "one charge pays" in run("generate", "--resume", code=1).stderr
    path.write_bytes(whole)
    before = Journal.append
    monkeypatch.setattr(Journal, "append", lambda *args: pytest.fail("a new answer"))
    run("generate", "--resume")
    monkeypatch.setattr(Journal, "append", before)
    sealed = Journal.create(people.parent / "x.journal", {})
    sealed.sealed = True
    with pytest.raises(LedgerError, match="must hold every answer"):
        sealed.append(Answer("more", np.array(1), {}))


def stop() -> None:
    raise KeyboardInterrupt


def test_a_copy_from_before_a_run_stopped_by_itself_is_refused(folder: Path) -> None:
    """What it said of its first counts must not be drawn again for the same charge."""
    spent = [Charge(mechanism="m", cost=ZCDP(rho=0.01))]
    ledger = Ledger(folder / "l.jsonl")
    how: dict[str, Any] = {"noise": noise.make_noise(), "trace": "t", "run": "r", "delta": 1e-9}
    with RunRecorder(folder / "work", command="c") as first:
        made = first.start(ledger, spent, **how)
        assert made is not None
        shutil.copytree(folder / "work", folder / "copy")
        made.append(Answer("q", np.array(1), {}))
        first.pause(ledger, spent)
    with pytest.raises(LedgerError, match="one charge pays for one release"):
        RunRecorder(folder / "copy", command="c", resume=True).start(ledger, spent, **how)
    with RunRecorder(folder / "work", command="c", resume=True, go_on=True) as again:
        again.start(ledger, spent, **how)
        shutil.copytree(folder / "work", folder / "late")
        again.finish()
    assert ledger.read().not_ended() == []
    # Who begins anew there is not taken to the run that is lost.
    shutil.copytree(folder / "late", folder / "earlier")
    (card,) = (folder / "earlier" / "journals").glob("*.json")
    card.write_text(json.dumps({**json.loads(card.read_text()), "taken": [], "stopped": True}))
    assert not RunRecorder(folder / "earlier", command="c", go_on=True).resume


def test_a_run_goes_on_with_its_own_hold_out(folder: Path) -> None:
    spent = [Charge(mechanism="m", cost=ZCDP(rho=0.01), neighbours=Neighbours.REPLACE)]
    ledger = Ledger(folder / "l.jsonl")
    how: dict[str, Any] = {"noise": noise.make_noise(), "trace": "t", "run": "r", "delta": 1e-9}
    with RunRecorder(folder / "work", command="c") as first:
        first.start(ledger, spent, split="0.2 ab", **how)
    for other in ("", "0.4 ab"):
        with (
            pytest.raises(UsageError, match="holdout"),
            RunRecorder(folder / "work", command="c", resume=True) as again,
        ):
            again.start(ledger, spent, split=other, **how)
    with RunRecorder(folder / "work", command="c", resume=True) as again:
        assert again.start(ledger, spent, split="0.2 ab", **how) is not None


def test_a_process_that_waited_for_another_one_s_end_loses_no_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It found the run, and the other one has taken it up before it got the journal."""
    spent = [Charge(mechanism="m", cost=ZCDP(rho=0.01))]
    ledger = Ledger(folder / "l.jsonl")
    how: dict[str, Any] = {"noise": noise.make_noise(), "trace": "t", "run": "r", "delta": 1e-9}
    with RunRecorder(folder / "work", command="c") as first:
        first.start(ledger, spent, **how)
    read = Journal.read

    def later(path: Path, *, wait: float = 0.0) -> Journal:
        if wait:
            monkeypatch.setattr(Journal, "read", read)
            with RunRecorder(folder / "work", command="c", resume=True) as other:
                other.start(ledger, spent, **how)
        return read(path, wait=wait)

    monkeypatch.setattr(Journal, "read", later)
    with RunRecorder(folder / "work", command="c", resume=True) as again:
        assert again.start(ledger, spent, **how) is not None


def test_a_seeded_run_goes_on_to_the_same_bytes(
    run: Run, people: Path, stopped: Callable[..., None]
) -> None:
    run(*PEOPLE, "--eps", 1, "--seed", 5, "--out", "whole")
    stopped(3)
    run(*PEOPLE, "--eps", 1, "--seed", 5, code=130)
    stopped(0)
    run("generate", "--resume")
    for file in (people.parent / "whole").iterdir():
        assert file.read_bytes() == (people.parent / "release" / file.name).read_bytes()
    stopped(3)
    run(*PEOPLE, "--eps", 1, "--seed", 5, "--out", "other", code=130)
    assert "seed was 5, is 6" in run("generate", "--resume", "--seed", 6, code=2).stderr


def test_passwords_are_not_kept() -> None:
    from marginalsyn.cli.group import recordable
    from marginalsyn.records.workspace import identify

    given = {"data": "postgres://me:secret@host/db?table=t", "out": Path("release"), "eps": 1.0}
    kept = recordable(given, identify(given["data"]))
    assert kept == {"data": "postgres://me@host/db?table=t", "out": "release", "eps": 1.0}


def test_a_folder_of_somebody_else_is_no_hindrance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(*args: Any, **kwargs: Any) -> Journal:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Journal, "create", closed)
    frame, schema = table()
    door = PrivateTable.open(frame, schema, ledger=Ledger(tmp_path / "l"))
    said: list[str] = []
    kept = RunRecorder(tmp_path, command="generate", warn=said.append)
    generate(door, make_config("independent"), Budget(eps=1), noise=make_noise(), recorder=kept)
    assert "lost if it is interrupted" in said[0]
    assert len(door.ledger.read().entries) == 1


def test_synthesizer_goes_on(folder: Path, stopped: Callable[..., None]) -> None:
    frame, schema = table()
    synth = Synthesizer(method="independent", eps=1, schema=schema, ledger="ledger.jsonl")
    stopped(3)
    with pytest.raises(KeyboardInterrupt, match=r"fit\(\.\.\., resume=True\)"):
        synth.fit(frame)
    stopped(0)
    with closing(Journal.read(journal_in(folder))) as kept:
        first = kept.answer(0).value
    with pytest.raises(DataError, match="has changed since"):
        synth.fit(frame.head(299), resume=True)
    synth.fit(frame, resume=True)
    assert np.array_equal(synth.measurements_[0].values, first)
    assert len(Ledger("ledger.jsonl").read().entries) == 1
    with pytest.raises(UsageError, match="must have an interrupted run"):
        synth.fit(frame, resume=True)
    with pytest.raises(UsageError, match="needs a ledger"):
        Synthesizer(schema=schema).fit(frame, resume=True)


def test_a_frame_is_known_again_whatever_is_in_it() -> None:
    from marginalsyn.sources.source import trace_of_frame

    mixed = pd.DataFrame(
        {
            "a": [1, "x", None, True],
            "b": pd.date_range("2020-01-01", periods=4),
            "c": pd.Categorical(["u", "v", None, "u"]),
            "d": [[1], {2}, 3.5, np.nan],
        }
    )
    assert trace_of_frame(mixed) == trace_of_frame(mixed.copy(deep=True))
    for name in mixed:
        other = mixed.copy(deep=True)
        other[name] = other[name].to_numpy()[::-1]
        assert trace_of_frame(other) != trace_of_frame(mixed)


def test_bounds_go_on(run: Run, people: Path, stopped: Callable[..., None]) -> None:
    bounds = ("schema", "buy-bounds", "people.csv", "people.json", "--column", "income")
    bounds += ("--cells", 64)  # the default of thousands takes seconds to compile
    stopped(2)
    assert (
        "'marginalsyn schema buy-bounds --resume'"
        in run(*bounds, "--eps", 0.5, "--out", "new.json", code=130).stderr
    )
    stopped(0)
    run("schema", "buy-bounds", "--resume")
    assert Schema.read("new.json").charges


@pytest.mark.slow
def test_weights_that_came_in_between_are_not_counted_by_a_certificate(
    run: Run, people: Path, stopped: Callable[..., None]
) -> None:
    run(*PEOPLE, "--eps", 1)
    stopped(2)
    run("certify", "--eps", 0.5, code=130)
    stopped(0)
    run("weight", "--method", "none")
    run("certify", "--resume")
    facts = json.loads(Path("release/certificate.json").read_text())
    counted = {one["of"]: one["counted"] for one in facts["certificates"]}
    assert counted == {"rows": True, "none": False}
    run("verify")


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [("--eps", 0.5), ("--eps", 20, "--measured", "--ridge", 0.1)], ids=["", "measured"]
)
def test_a_certificate_goes_on(
    run: Run, people: Path, stopped: Callable[..., None], options: tuple[object, ...]
) -> None:
    run(*PEOPLE, "--eps", 1)
    stopped(2)
    said = run("certify", *options, code=130).stderr
    assert "'marginalsyn certify --resume'" in said
    stopped(0)
    run("certify", "--resume")
    run("verify")
    entries = json.loads(run("ledger", "show", "--json").stdout)["entries"]
    assert len(entries) == 2

"""A journal holds answers and public facts, durably, and nothing that subtracts to exact counts."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import Result

from marginalsyn import Budget, PrivateTable, Schema, Synthesizer, make_noise
from marginalsyn.access import visit
from marginalsyn.contract import make_config
from marginalsyn.errors import DataError, LedgerError, UsageError
from marginalsyn.host import generate
from marginalsyn.privacy import noise
from marginalsyn.privacy.charges import ZCDP, Charge, Neighbours
from marginalsyn.records import durable, journal, run_recorder
from marginalsyn.records.journal import MAGIC, Answer, Journal, ReplayedNoise
from marginalsyn.records.ledger import Ledger
from marginalsyn.records.run_recorder import RunRecorder
from marginalsyn.records.unfinished import interrupted
from marginalsyn.release import folder as folders

Run = Callable[..., Result]
PEOPLE = ("generate", "--data", "people.csv", "--schema", "people.json", "--method", "independent")


def records(path: Path) -> list[tuple[dict[str, Any], bytes]]:
    """Every record of a journal, taken apart without the code that reads it."""
    data, found = path.read_bytes(), []
    assert data.startswith(MAGIC)
    at = len(MAGIC)
    while at < len(data):
        length = int.from_bytes(data[at : at + 8], "little")
        head, _, body = data[at + 24 : at + 24 + length].partition(b"\n")
        found.append((json.loads(head), body))
        at += 24 + length
    assert at == len(data)
    return found


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


def test_a_torn_last_record_counts_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "j"
    data = written(path).path.read_bytes()
    before = len(data) - 24 - len(json.dumps(records(path)[-1][0])) - 1 - 16
    for cut in range(before, len(data)):
        path.write_bytes(data[:cut])
        assert len(Journal.read(path)) == len(ANSWERS) - 1
    for tail in (bytes(100), data[before:-1] + b"?"):
        path.write_bytes(data[:before] + tail)
        read = Journal.read(path)
        assert len(read) == len(ANSWERS) - 1
        read.append(Answer("again", ANSWERS[0], {}))
        assert np.array_equal(Journal.read(path).answer(len(ANSWERS) - 1).value, ANSWERS[0])


def test_a_changed_journal_is_not_trusted(tmp_path: Path) -> None:
    path = tmp_path / "j"
    data = bytearray(written(path).path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(LedgerError, match="must be whole"):
        Journal.read(path)
    path.write_bytes(b"something else\n")
    with pytest.raises(LedgerError, match="not a journal"):
        Journal.read(path)


def test_an_answer_that_cannot_be_kept_is_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Journal.create(tmp_path / "j", {"post": "1"})
    before = made.path.read_bytes()
    told = ReplayedNoise(make_noise(), made)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LedgerError, match="No space left"):
        told.gaussian(np.zeros(3, dtype=int), 2.0)
    monkeypatch.undo()
    assert made.path.read_bytes() == before
    assert told.gaussian(np.zeros(3, dtype=int), 2.0).shape == (3,)


def ask(of: Any) -> list[Any]:
    """One question of every kind whose answer is told."""
    counts = np.array([5, 0, 9])
    return [
        of.gaussian(counts, 3.0),
        of.gaussian(counts, np.array([1.0, 2.0, 3.0])),
        of.laplace(counts, 2.0),
        of.rounded_gaussian(counts, 4.0),
        of.select(np.array([1.0, 2.0]), eps=1.0, sensitivity=1.0),
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
    deaf: Any = Deaf()
    again = ReplayedNoise(deaf, Journal.read(tmp_path / "j"))
    assert again.known
    for one, other in zip(told, ask(again), strict=True):
        assert np.array_equal(one, other)
        assert type(one) is type(other)
    assert not again.known
    assert deaf.used.counts() == first.used.counts()
    with pytest.raises(AttributeError):
        again.laplace(np.zeros(2, dtype=int), 1.0)
    # Post-processing goes on from the stream's beginning, as it was begun.
    fresh = ReplayedNoise(deaf, Journal.read(tmp_path / "j"))
    assert again.post.integers(2**60) == fresh.post.integers(2**60)


@pytest.mark.parametrize(
    "other",
    [
        lambda of: of.gaussian(np.array([5, 0, 9]), 3.5),
        lambda of: of.gaussian(np.array([5, 0]), 3.0),
        lambda of: of.laplace(np.array([5, 0, 9]), 3.0),
    ],
    ids=["scale", "shape", "law"],
)
def test_another_question_is_refused(tmp_path: Path, other: Callable[[Any], Any]) -> None:
    facts = {"post": "0", "version": "0.1"}
    ask(ReplayedNoise(make_noise(), Journal.create(tmp_path / "j", facts)))
    again = ReplayedNoise(make_noise(), Journal.read(tmp_path / "j"))
    with pytest.raises(UsageError, match=r"written by marginalsyn 0\.1"):
        other(again)


def test_every_way_to_draw_is_told_or_never_kept() -> None:
    """A method that is added to the noise must be decided about here."""
    told = {"gaussian", "laplace", "rounded_gaussian", "select", "k_norm", "answer"}
    never = {"lot", "secret", "key"}
    public = {"private", "description", "post", "post_seed", "known", "used"}
    names = {n for n in dir(noise.SecureNoise()) if not n.startswith("_")}
    assert names <= told | never | public
    assert {n for n in vars(ReplayedNoise) if not n.startswith("_")} == (
        (told | never | public) - {"post", "used"}
    )


def test_lots_keys_and_secret_streams_leave_no_trace(tmp_path: Path) -> None:
    made = Journal.create(tmp_path / "j", {"post": "0"})
    before = made.path.read_bytes()
    told = ReplayedNoise(make_noise(), made)
    told.lot(1000, 0.5)
    told.key()
    told.secret().integers(2**60, size=100)
    assert made.path.read_bytes() == before


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
        door, make_config("independent"), Budget(eps=1), noise=make_noise(), keeper=kept
    )
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
    generate(
        other,
        make_config("independent"),
        Budget(eps=1),
        noise=make_noise(),
        keeper=RunRecorder(tmp_path / "two", command="generate", source="DataFrame"),
    )
    _, *others = records(next((tmp_path / "two" / "journals").glob("*.journal")))
    assert [head["question"] for head, _ in others] == [head["question"] for head, _ in answers]


def test_answers_are_on_the_disk_before_anybody_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Charge, then every answer: drawn, written, flushed, told; only then is something shown."""
    events: list[str] = []

    def noted(owner: Any, name: str, before: str = "", after: str = "") -> None:
        original = getattr(owner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            events.extend([before] if before else [])
            found = original(*args, **kwargs)
            events.extend([after] if after else [])
            return found

        monkeypatch.setattr(owner, name, call)

    noted(Ledger, "charge", after="charged")
    noted(noise.SecureNoise, "gaussian", after="drawn")
    noted(durable.os, "fsync", after="flushed")
    noted(visit.Visit, "measure", after="told")

    class Listener:
        def report(self, stage: str, **more: Any) -> None:
            events.append("shown")

    frame, schema = table()
    door = PrivateTable.open(frame, schema, ledger=Ledger(tmp_path / "l"))
    generate(
        door,
        make_config("independent"),
        Budget(eps=1),
        noise=make_noise(),
        progress=Listener(),
        keeper=RunRecorder(tmp_path, command="generate", source="DataFrame"),
    )
    assert events.index("charged") < events.index("drawn")
    assert events.count("drawn") == events.count("told") == 3
    pending = False
    for event in events:
        if event == "drawn":
            pending = True
        elif event == "flushed":
            pending = False
        assert not (pending and event in ("told", "shown")), events


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
    with run_recorder.FileLock(path.with_suffix(".lock")):
        assert "there is none" in run("generate", "--resume", code=2).stderr
    # The rows have changed.
    text = people.read_text()
    about = people.stat()
    people.write_text(text + "1,2,3,A,yes\n")
    assert "has changed since" in run("generate", "--resume", code=1).stderr
    people.write_text(text)
    os.utime(people, ns=(about.st_atime_ns, about.st_mtime_ns))
    # A ledger that does not hold the charge.
    book = next((people.parent / ".marginalsyn" / "ledgers").glob("*.jsonl"))
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
    (book,) = (Ledger(path).read() for path in ledgers.glob("*.jsonl"))
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
        (path,) = Path(".marginalsyn/ledgers").glob("*.jsonl")
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
    made = Journal.read(path)
    os.truncate(path, sum(made._spans[-2]))
    assert "one charge pays" in run("generate", "--resume", code=1).stderr
    path.write_bytes(whole)
    before = Journal.append
    monkeypatch.setattr(Journal, "append", lambda *args: pytest.fail("a new answer"))
    run("generate", "--resume")
    monkeypatch.setattr(Journal, "append", before)
    sealed = written(people.parent / "x.journal")
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
    from marginalsyn.cli.resuming import recordable
    from marginalsyn.records.workspace import identify

    given = {"data": "postgres://me:secret@host/db?table=t", "out": Path("release"), "eps": 1.0}
    kept = recordable(given, identify(given["data"]))
    assert kept == {"data": "postgres://me@host/db?table=t", "out": "release", "eps": 1.0}


def test_a_folder_of_somebody_else_is_no_hindrance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(*args: Any, **kwargs: Any) -> Journal:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(journal.Journal, "create", closed)
    frame, schema = table()
    door = PrivateTable.open(frame, schema, ledger=Ledger(tmp_path / "l"))
    said: list[str] = []
    kept = RunRecorder(tmp_path, command="generate", warn=said.append)
    generate(door, make_config("independent"), Budget(eps=1), noise=make_noise(), keeper=kept)
    assert "lost if it is interrupted" in said[0]
    assert len(door.ledger.read().entries) == 1


def test_synthesizer_goes_on(folder: Path, stopped: Callable[..., None]) -> None:
    frame, schema = table()
    synth = Synthesizer(method="independent", eps=1, schema=schema, ledger="ledger.jsonl")
    stopped(3)
    with pytest.raises(KeyboardInterrupt, match=r"fit\(\.\.\., resume=True\)"):
        synth.fit(frame)
    stopped(0)
    first = journal.Journal.read(journal_in(folder)).answer(0).value
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
@pytest.mark.parametrize("options", [(), ("--measured", "--ridge", 0.1)], ids=["", "measured"])
def test_a_certificate_goes_on(
    run: Run, people: Path, stopped: Callable[..., None], options: tuple[object, ...]
) -> None:
    run(*PEOPLE, "--eps", 1)
    stopped(2)
    said = run("certify", "--eps", 0.5, *options, code=130).stderr
    assert "'marginalsyn certify --resume'" in said
    stopped(0)
    run("certify", "--resume")
    run("verify")
    entries = json.loads(run("ledger", "show", "--json").stdout)["entries"]
    assert len(entries) == 2

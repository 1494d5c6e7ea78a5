"""Runs that are killed half way go on from their paid answers: the same release, charged once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from clinic_tables import TREE, clinic, write

from marginalsyn import Ledger
from marginalsyn.certificates.measured import verify

HEART = ("generate", "--dataset", "heart", "--eps", "1", "--quiet")
RESUME = ("generate", "--resume", "--quiet")

# A warm process forks one child per command; the child kills itself at a moment of the run. Its
# noise tells a fixed answer for every place in the run, so that two runs can be told apart.
CHILD = """
import json, os, signal, sys

import numpy as np
from marginalsyn import datasets
from marginalsyn.records import runs as journal
from marginalsyn.records import resume as recorder
from marginalsyn.records import ledger
from marginalsyn.access import prepaid_budget
from marginalsyn.privacy import noise
from marginalsyn.access import private_table as private
from marginalsyn.release import folder as release
from marginalsyn.plugins.audit.testkit import tape
from marginalsyn.operations import generate, weight
from marginalsyn.cli.main import main
from marginalsyn.generators import independent, privbayes
import marginalsyn.host, marginalsyn.plugins.weights.beta_noised

class Listed(tape.Tape):
    place = 0

    def turn(self):
        self._rng = np.random.default_rng([self.seed, self.place])
        self._noise = noise.SeededNoise(1000 + self.place)
        self.place += 1

    def draw(self, law, values):
        if law.journaled:
            self.turn()
        return super().draw(law, values)

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def armed(moment):
    name, _, count = moment.partition(" ")
    left = int(count or 1)
    owner, method = {
        "answer": (journal.Journal, "append"),
        "charge": (ledger.Ledger, "charge"),
        "charged": (ledger.Ledger, "charge"),
        "write": (release, "write_folder"),
        "written": (recorder.RunRecorder, "finish"),
    }[name]
    original = getattr(owner, method)
    before = name in ("charge", "write", "written")
    def call(*args, **kwargs):
        nonlocal left
        left -= 1
        if left == 0 and before:
            die()
        result = original(*args, **kwargs)
        if left == 0:
            die()
        return result
    setattr(owner, method, call)

make, started = noise.make_noise, prepaid_budget.ReplayedNoise.__init__
def begin(self, inner, kept, prepaid=None):
    inner.place = len(kept)
    started(self, inner, kept, prepaid)

for folder, moment, args in json.loads(sys.argv[1]):
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        os.environ["MARGINALSYN_LEDGERS"] = os.path.abspath(".marginalsyn/ledgers")
        os.dup2(os.open("said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), 2)
        os.dup2(2, 1)
        noise.make_noise = lambda seed=None: Listed() if seed is None else make(seed)
        prepaid_budget.ReplayedNoise.__init__ = begin
        if moment:
            armed(moment)
        sys.argv = ["marginalsyn", *args]
        code = 99
        try:
            main()
        except SystemExit as leaving:
            code = leaving.code or 0
        os._exit(code)
    _, status = os.waitpid(child, 0)
    print(json.dumps([folder, os.waitstatus_to_exitcode(status)]), flush=True)
"""

Step = tuple[Path, str, tuple[str, ...]]
KILLED = -signal.SIGKILL
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def play(steps: list[Step]) -> list[int]:
    """The exit codes of commands, each in a process of its own."""
    for folder, _, _ in steps:
        folder.mkdir(exist_ok=True)
    told = json.dumps([(str(folder), moment, args) for folder, moment, args in steps])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHILD, told], capture_output=True, text=True
    )
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('["/')]
    assert len(found) == len(steps), done.stderr
    return [code for _, code in found]


def contents(release: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(release.iterdir())}


def ledger(folder: Path) -> Ledger:
    (file,) = (folder / ".marginalsyn" / "ledgers").glob("*.sqlite")
    return Ledger(file)


def kept(folder: Path) -> list[str]:
    """What is left of journals."""
    found = (folder / ".marginalsyn" / "journals").iterdir()
    return sorted(file.suffix for file in found)


INDEPENDENT = (*HEART, "--method", "independent", "--rows", "60")
PRIVBAYES = (*HEART, "--method", "privbayes", "--rows", "40")
WEIGHTS = ("weight", "--method", "beta-noised", "--eps", "0.5", "--quiet")
AGAIN = ("weight", "--resume", "--quiet")


def killed_and_resumed(folder: Path, command: tuple[str, ...], *moments: str) -> list[Step]:
    """A run that is killed at each of the moments, going on in between and at last."""
    force = ("--force",) if moments[-1] == "written" else ()
    commands = [command, *[RESUME] * len(moments)]
    steps = [(folder, when, what) for when, what in zip((*moments, ""), commands, strict=True)]
    return [*steps[:-1], (folder, "", (*RESUME, *force))]


def check_generated(folder: Path, whole: Path) -> None:
    assert verify(folder / "release") == []
    assert contents(folder / "release") == contents(whole / "release")
    assert len(ledger(folder).read().entries) == 1
    assert kept(folder) == []


def check_codes(steps: list[Step], codes: list[int]) -> None:
    said = [(folder / "said").read_text() for folder, _, _ in steps]
    assert codes == [KILLED if moment else 0 for _, moment, _ in steps], said


@needs_fork
def test_killed_runs_go_on_to_the_same_release(tmp_path: Path) -> None:
    whole, once, twice = (tmp_path / name for name in ("whole", "once", "twice"))
    early = tmp_path / "early"
    steps: list[Step] = [
        (whole, "", INDEPENDENT),
        *killed_and_resumed(once, INDEPENDENT, "answer 7"),
        *killed_and_resumed(twice, INDEPENDENT, "answer 3", "answer 4"),
        (whole, "", WEIGHTS),
        (once, "answer 1", WEIGHTS),
        (once, "", AGAIN),
        # Before the charge there is nothing to go on with, and nothing was spent.
        (early, "charge", INDEPENDENT),
    ]
    codes = play([*steps, (early, "", RESUME)])
    assert codes.pop() == 2
    assert "--resume must have a run" in (early / "said").read_text()
    assert not list((early / ".marginalsyn" / "ledgers").glob("*.sqlite"))
    check_codes(steps, codes)
    found, made = contents(once / "release"), contents(whole / "release")
    assert "weights.csv" in made
    assert found == made
    assert len(ledger(once).read().entries) == 2
    assert len(ledger(twice).read().entries) == 1
    assert [kept(folder) for folder in (once, twice)] == [[], []]
    for name in ("synthetic.csv", "measurements.npz", "model.npz"):
        assert (twice / "release" / name).read_bytes() == made[name]


def of_a_clinic(folder: Path, *options: str) -> tuple[str, ...]:
    """A run on linked tables, which it writes."""
    if not (folder / "clinic").exists():
        write(folder, clinic(60), TREE)
    source = ("--data", str(folder / "clinic"), "--schema", str(folder / "clinic.schema.json"))
    run = ("generate", *source, "--method", "clique-tree", "--eps", "20", "--rows", "30")
    return (*run, "--go-on", "--quiet", *options)


def answers(release: Path) -> int:
    """How many answers a run had at least: each payment bought one."""
    return len(json.loads((release / "privacy.json").read_text())["payments"])


@needs_fork
def test_killed_runs_on_linked_tables_go_on_to_the_same_release(tmp_path: Path) -> None:
    whole, seeded = tmp_path / "whole", tmp_path / "seeded"
    command = of_a_clinic(tmp_path)
    research = (*command, "--seed", "3", "--holdout", "0.2")
    steps: list[Step] = [(whole, "", command), (seeded, "", research)]
    check_codes(steps, play(steps))
    # Anywhere: in the persons' view, in a later one, between two of them.
    first, second = (random.randrange(1, answers(whole / "release") // 2) for _ in range(2))
    steps = killed_and_resumed(tmp_path / "twice", command, f"answer {first}", f"answer {second}")
    steps += killed_and_resumed(tmp_path / "with seed", research, f"answer {first + second}")
    check_codes(steps, play(steps))
    check_generated(tmp_path / "twice", whole)
    check_generated(tmp_path / "with seed", seeded)


@pytest.mark.slow
@needs_fork
def test_killed_at_every_kind_of_moment_on_linked_tables(tmp_path: Path) -> None:
    whole, command = tmp_path / "whole", of_a_clinic(tmp_path)
    steps: list[Step] = [(whole, "", command)]
    check_codes(steps, play(steps))
    last = answers(whole / "release")
    steps = []
    moments = ["charged", "answer 1", f"answer {last // 2}", f"answer {last}", "write", "written"]
    moments += [f"answer {random.randrange(1, last)}" for _ in range(4)]
    for number, moment in enumerate(moments):
        steps += killed_and_resumed(tmp_path / str(number), command, moment)
    check_codes(steps, play(steps))
    for folder in {folder for folder, _, _ in steps}:
        check_generated(folder, whole)


@pytest.mark.slow
@needs_fork
def test_killed_at_every_kind_of_moment(tmp_path: Path) -> None:
    whole, tree = tmp_path / "whole", tmp_path / "tree"
    steps: list[Step] = [(whole, "", INDEPENDENT), (tree, "", PRIVBAYES)]
    for moment in ("charged", "answer 1", "answer 14", "write", "written"):
        steps += killed_and_resumed(tmp_path / moment, INDEPENDENT, moment)
    steps += killed_and_resumed(tmp_path / "tree-20", PRIVBAYES, "answer 20")
    check_codes(steps, play(steps))
    for folder in {folder for folder, _, _ in steps}:
        check_generated(folder, tree if folder.name.startswith("tree") else whole)


@pytest.mark.slow
@needs_fork
def test_fits_and_chains_go_on(tmp_path: Path) -> None:
    """What is computed from answers comes out the same; a chain is one answer, at its end."""
    methods = {
        "aim": (("--method", "aim", "--rows", "40", "--degree", "2"), ("answer 20",)),
        "mst": (("--method", "mst", "--rows", "40"), ("answer 16", "answer 30")),
        "points": (
            *(("--method", "support-points", "--points", "3", "--steps", "200", "--burn", "50"),),
            *(("answer 1",),),
        ),
    }
    steps: list[Step] = []
    for name, (options, moments) in methods.items():
        steps.append((tmp_path / name, "", (*HEART, *options)))
        for moment in moments:
            steps += killed_and_resumed(tmp_path / f"{name}-{moment}", (*HEART, *options), moment)
    check_codes(steps, play(steps))
    for folder in {folder for folder, _, _ in steps}:
        check_generated(folder, tmp_path / folder.name.partition("-")[0])


@pytest.mark.slow
@needs_fork
def test_weights_killed_at_every_kind_of_moment(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    steps: list[Step] = [(whole, "", INDEPENDENT), (whole, "", WEIGHTS)]
    for moment in ("charged", "written"):
        folder = tmp_path / moment
        force = ("--force",) if moment == "written" else ()
        steps += [(folder, "", INDEPENDENT), (folder, moment, WEIGHTS)]
        steps += [(folder, "", (*AGAIN, *force))]
    network = ("weight", "--method", "dp-mlp", "--steps", "4", "--hidden", "4", "--eps", "1")
    steps += [(whole, "", (*network, "--quiet"))]
    steps += [(tmp_path / "charged", "answer 3", (*network, "--quiet"))]
    steps += [(tmp_path / "charged", "", AGAIN)]
    check_codes(steps, play(steps))
    assert contents(tmp_path / "charged" / "release") == contents(whole / "release")
    assert len(ledger(tmp_path / "charged").read().entries) == 3
    assert len(ledger(tmp_path / "written").read().entries) == 2
    assert kept(tmp_path / "charged") == kept(tmp_path / "written") == []

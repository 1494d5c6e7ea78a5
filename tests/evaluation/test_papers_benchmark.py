"""The papers' tables by one command: verdicts, what is kept, and a place for every figure."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch):
    """The checkout's root and its benchmarks can be imported."""
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


def _module(name):
    return importlib.import_module(f"benchmarks.papers.{name}")


@pytest.fixture
def folder(tmp_path):
    """A coded table of the name of a paper's, and empty files under the other names."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, (200, 3))
    frame = pd.DataFrame({"sex": x[:, 0], "exng": x[:, 1], "cp": x[:, 2], "output": x[:, 0]})
    frame.to_csv(tmp_path / "paper_heart.csv", index=False)
    (tmp_path / "paper_heart_domain.json").write_text(json.dumps(dict.fromkeys(frame, 2)))
    return tmp_path


def test_verdict_is_by_two_standard_errors_and_by_direction():
    verdict = _module("exhibits").verdict
    near, far = np.array([0.5, 0.6, 0.4]), np.array([0.9, 0.91, 0.89])
    assert verdict(0.5, near, True) == verdict(0.5, near, False) == "par"
    assert verdict(0.5, far, True) == "better"
    assert verdict(0.5, far, False) == "worse"
    assert verdict(None, far, True) == "no figure at hand"
    assert verdict(0.5, np.array([np.nan]), True) == "not defined"


def test_runs_that_are_kept_are_not_made_again(tmp_path):
    exhibits = _module("exhibits")
    asked = []
    job = exhibits.Job("Table", "place", lambda run: asked.append(run) or {"a": run}, most=3)
    cache = tmp_path / "kept.jsonl"
    exhibits.run([job], runs=2, minutes=1, cache=cache)
    found = exhibits.run([job], runs=5, minutes=1, cache=cache)
    assert asked == [0, 1, 2]
    assert found["Table", "place"] == {0: {"a": 0.0}, 1: {"a": 1.0}, 2: {"a": 2.0}}
    assert not exhibits.run([job], runs=5, minutes=-1, cache=None)


@pytest.mark.parametrize("paper", ["000", "001", "002", "003"])
def test_every_printed_figure_has_its_place(paper, tmp_path):
    for name in ("adult", "churn", "compas", "dutch", "heart", "law"):
        (tmp_path / f"{name}.csv").touch()
        (tmp_path / f"{name}_domain.json").touch()
    for name in ("data_banknote_authentication.txt", "boston.csv", "spambase.csv"):
        (tmp_path / name).touch()
    (tmp_path / "california.csv").touch()
    for name in _module("mnist").FILES:
        (tmp_path / name).touch()
    module = _module(f"paper_{paper}")
    ask, bare = _module("exhibits").Ask(data=tmp_path), _module("exhibits").Ask()
    places = {(job.exhibit, job.place) for one in (ask, bare) for job in module.jobs(one)}
    assert len(places) > 10
    assert {key[:2] for key in module.PUBLISHED} <= places
    assert not [line for line in module.missing(ask) if line.startswith("not at hand")]
    # A table that a run asks for is used where it is there.
    if paper in ("000", "001"):
        asked = {name for name in module.NAMES if name in _module("tables").FILES}
        assert asked <= {place.split(",")[0] for _, place in places}


def test_the_command_prints_ours_beside_the_papers(folder):
    command = [sys.executable, "-m", "benchmarks.papers", "003", "--data", str(folder), "--quick"]
    command += ["--exhibits", "Table 2", "--places", "eps 2, published", "--runs", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("| heart, eps 2, pub")]
    assert len(lines) == 6
    assert all("one release" in line for line in lines)
    assert "| auc | 0.853 |" in done.stdout
    assert "not at hand: adult, churn, compas, dutch, law" in done.stdout


def test_bundled_tables_stand_in_for_the_authors():
    paper = _module("paper_003")
    assert paper.at_hand(None) == {"adult": "adult (bundled)", "heart": "heart (bundled)"}
    table = paper.load(None, "heart")
    assert table.label == "output"
    assert set(table.frame["output"]) == {0, 1}
    assert len(table.frame) == 297
    # Code 1 is the disease, as in the authors' table.
    assert table.frame["output"].sum() == 137
    train, test = table.split(0)
    assert 0.75 < paper.tstr(train, test, "output")["auc"] <= 1


def test_the_command_refuses_in_plain_words():
    command = [sys.executable, "-m", "benchmarks.papers", "003", "--data", "nowhere"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--data (nowhere) must be a folder" in done.stderr


def test_divergence_sees_a_shift_and_none():
    divergence = _module("paper_002").divergence
    rng = np.random.default_rng(1)
    target = rng.normal(size=(1500, 3))
    assert abs(divergence(target, rng.normal(size=(1500, 3)))) < 0.2
    # Normal laws a distance of 1 apart in each of three coordinates: 1.5.
    assert 1.2 < divergence(target, 1 + rng.normal(size=(1500, 3))) < 1.8


def test_a_mixture_is_judged_by_its_clouds():
    paper = _module("paper_000")
    rng = np.random.default_rng(0)
    points, fresh = paper.clouds(rng, 1000), paper.clouds(rng, 500)
    found = paper.judge_mixture(points, np.ones(1000), fresh)
    assert found["clouds found"] == 25
    assert found["rows in clouds"] > 0.99
    one = paper.judge_mixture(points, (points[:, 0] > 0.6).astype(float) + 1e-9, fresh)
    assert one["clouds found"] == 5
    assert one["WST"] > found["WST"]


def test_the_supplement_of_001_is_held_against_the_right_generator():
    printed = _module("printed_001")
    told, table = printed.published(), "Table 4 of the supplement"
    place = "iris, dpgan, eps 6, DP-MLP"
    assert told[table, place, "MLP AUC"] == 0.5181
    assert told[table, place, "beta MSE / None"] == pytest.approx(4.1112 / 2.0710)
    assert told[table, "iris, privbayes, eps 1, MLP", "WST / None"] == pytest.approx(
        0.1396 / 0.5055
    )
    assert told["Table 3", "mnist, dpcgan, eps 9.64, MLP", "MLP AUC"] == 0.8737
    place = "boston, privbayes, eps 1, DP-MLP"
    assert told["Table 2", place, "MLP MSE / None"] == pytest.approx(0.1877 / 0.1973)
    rows = printed.supplement().values()
    assert all(len(one["None"]) == len(one["Discriminator"]) + 1 for one in rows)


def _idx(path, values):
    head = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">u4").tobytes()
    path.write_bytes(head + values.astype(np.uint8).tobytes())


def test_pictures_are_read_with_the_published_split(tmp_path):
    mnist, tables = _module("mnist"), _module("tables")
    rng = np.random.default_rng(0)
    assert not tables.at_hand("mnist", tmp_path)
    pictures = rng.integers(0, 256, (30, 28, 28))
    digits = rng.integers(0, 10, 30)
    for part, name in ((slice(20), "train"), (slice(20, 30), "t10k")):
        _idx(tmp_path / f"{name}-images-idx3-ubyte", pictures[part])
        _idx(tmp_path / f"{name}-labels-idx1-ubyte", digits[part])
    assert tables.at_hand("mnist", tmp_path)
    whole = tables.load("mnist", tmp_path)
    assert whole.train.shape == (20, 785)
    assert whole.test["p3_4"].tolist() == pictures[20:, 3, 4].tolist()
    assert whole.test["digit"].tolist() == [str(one) for one in digits[20:]]
    small = tables.load("mnist 7 x 7", tmp_path)
    assert small.train.shape == (20, 50)
    assert small.train["p1_6"][2] == pytest.approx(pictures[2, 4:8, 24:28].mean())
    short = tmp_path / mnist.FILES[0]
    short.write_bytes(short.read_bytes()[:-1])
    with pytest.raises(SystemExit, match="cut short"):
        mnist.read(short)
    short.write_bytes(b"\x1f\x8b" + short.read_bytes()[2:])
    with pytest.raises(SystemExit, match="unpacked IDX file"):
        mnist.read(short)


@pytest.mark.slow
def test_several_classes_are_judged_one_by_one():
    tables, weighted = _module("tables"), _module("weighted")
    judge = weighted.Judge(tables.load("iris", None))
    assert len(judge.classes) == 3
    x, y = judge.xy(judge.test)
    assert len(judge.beta) == 3 * x.shape[1]
    own = (y[:, None] == np.arange(3)).astype(float)
    assert judge.auc(y, own) == 1
    assert judge.auc(y, -own) == 0
    # One class told from the rest and two not at all: (1 + 1/2 + 1/2) / 3.
    assert judge.auc(y, own * [1, 0, 0]) == pytest.approx(2 / 3)
    even = np.ones(len(judge.train))
    assert judge.scores(judge.train, even, 0)["MLP AUC"] > 0.9
    assert judge.posterior_auc(judge.train, even, 0) > 0.9
    # A class that the rows lack is not told apart, and nothing breaks.
    lacking = judge.train[judge.train[:, judge.place] != 0]
    assert judge.scores(lacking, np.ones(len(lacking)), 0)["forest AUC"] < 0.95

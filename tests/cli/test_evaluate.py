"""``evaluate``, ``report`` and ``certify`` as they are typed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
from click.testing import CliRunner, Result

from marginalsyn import Schema, Workspace, datasets
from marginalsyn.access.private_table import STAMP
from marginalsyn.certificates.measured import verify
from marginalsyn.cli.main import cli
from marginalsyn.release.folder import Release

Run = Callable[..., Result]
HEART = ("generate", "--dataset", "heart", "--method", "independent", "--eps", 5, "-q")
PEOPLE = ("generate", "--data", "people.csv", "--schema", "people.json", "--eps", 50, "-q")
PEOPLE += ("--method", "independent")
QUICK = ("--reports", "privacy,marginals,tstr", "--models", "logistic", "--repeats", 2)


def evaluation(folder: Path) -> dict:
    return json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))


class TestEvaluate:
    def test_several_releases(self, run: Run, folder: Path) -> None:
        for eps in (1, 10):
            run(*HEART[:-2], eps, "-q", "--out", f"r{eps}")
        shown = run("evaluate", "r1", "r10", *QUICK, "--out", "both")
        assert "r10 has the closest two-way tables" in shown.stdout
        assert set(evaluation(folder / "both")["cases"]) == {"r1", "r10"}
        page = (folder / "both" / "report.html").read_text(encoding="utf-8")
        assert "Excess risk against eps" in page

    def test_held_out_rows_of_ones_own_table(self, run: Run, people: Path) -> None:
        run(*PEOPLE, "--holdout", 0.4)
        space = Workspace.here()
        release = Release.read(people.parent / "release")
        known = space.of_rows(release.statement.files[release.frame_file])
        assert known is not None
        assert known[1].holdout == 0.4
        assert known[1].holdout_salt == space.read_last()["holdout_salt"]
        run("evaluate", *QUICK)
        found = evaluation(people.parent / "evaluation")["real"]
        assert found["protocol"] == "held-out"
        assert found["reference_rows"] + found["held_out_rows"] == 200
        assert found["held_out_rows"] > 40
        refused = run("evaluate", "--real", "people.csv", *QUICK, code=2)
        assert "leave it out" in refused.stderr

    def test_rows_that_the_generator_saw_are_refused(self, run: Run, people: Path) -> None:
        run(*PEOPLE)
        for more in ((), ("--real", "people.csv")):
            refused = run("evaluate", *QUICK, *more, code=2)
            assert "--in-sample" in refused.stderr
            assert "--holdout" in refused.stderr
            assert not (people.parent / "evaluation").exists()
        run("evaluate", "--reports", "privacy,marginals")
        assert evaluation(people.parent / "evaluation")["real"]["protocol"] is None
        run("evaluate", *QUICK, "--in-sample")
        assert evaluation(people.parent / "evaluation")["real"]["protocol"] == "in-sample"

    def test_a_release_keeps_its_own_held_out_rows(self, run: Run, people: Path) -> None:
        run(*PEOPLE, "--out", "all")
        run(*PEOPLE, "--out", "most", "--holdout", 0.4)
        # The last run held rows out, but the first release saw them.
        refused = run("evaluate", "all", *QUICK, code=2)
        assert "saw" in refused.stderr
        mixed = run("evaluate", "all", "most", *QUICK, code=2)
        assert "same rows held out" in mixed.stderr
        (people.parent / "most").rename(people.parent / "moved")
        run("evaluate", "moved", *QUICK)

    def test_any_tool_s_rows(self, run: Run, folder: Path) -> None:
        datasets.export("heart", ".")
        frame = pd.read_csv("heart-train.csv")
        frame[frame.columns[::-1]].assign(id=1).astype({"age": float}).to_csv("foo.csv")
        pd.DataFrame({"mine": range(1, len(frame) + 1)}).to_csv("w.csv", index=False)
        asked = ("evaluate", "--synthetic", "foo.csv", "--weights", "w.csv", *QUICK)
        asked += ("--real", "heart-test.csv", "--schema", "heart.schema.json")
        run(*asked, "--label", "sex")
        found = evaluation(folder / "evaluation")
        assert found["cases"]["foo"]["weights"] == ["mine"]
        assert found["real"]["protocol"] == "splits"
        assert found["real"]["label"] == "sex"
        run(*asked, "--train", "heart-train.csv")
        found = evaluation(folder / "evaluation")
        assert found["real"]["protocol"] == "held-out"
        plain = found["reports"]["marginals"]["foo"]["variants"][0]["by_degree"]
        assert [level["mean_tv"] for level in plain] == [0, 0, 0]

    def test_mistakes(self, run: Run, folder: Path) -> None:
        datasets.export("heart", ".")
        Path("foo.csv").write_bytes(Path("heart-train.csv").read_bytes())
        Path("bad.csv").write_text("a;b\n1;2\n")
        Path("w.csv").write_text("w\n1\n\n2\n")
        foo, heart = ("evaluate", "--synthetic", "foo.csv"), ("--dataset", "heart")
        for args, said in (
            (("evaluate",), "generate"),
            (foo, "--schema"),
            ((*foo, "--dataset", "nope"), "nope"),
            (("evaluate", "--synthetic", "none.csv", *heart), "none.csv"),
            ((*foo, "--schema", "heart.schema.json"), "--real"),
            ((*foo, *heart, "--weights", "w.csv"), "236 rows"),
            (("evaluate", "--weights", "w.csv"), "--synthetic"),
            ((*foo, "--train", "foo.csv"), "--schema"),
            (("evaluate", *heart, "--real", "foo.csv", "release"), "release"),
            ((*foo, *heart, "--reports", "x"), "x"),
            (("evaluate", "--synthetic", "bad.csv", *heart), "lacks"),
            (("report",), "marginalsyn evaluate"),
            (("report", "--public"), "generate"),
            (("certify", "--eps", "1"), "generate"),
        ):
            done = CliRunner().invoke(cli, list(args))
            assert done.exit_code in (1, 2), args
            assert said in done.stderr, args
            assert "Traceback" not in done.output
            assert not (folder / "evaluation").exists()

    def test_never_into_a_release(self, run: Run, folder: Path) -> None:
        run(*HEART)
        refused = run("evaluate", "--out", "release", code=2)
        assert "not private" in refused.stderr
        Path("mine").mkdir()
        Path("mine/report.html").write_text("mine")
        assert "something else" in run("evaluate", "--out", "mine", code=2).stderr
        assert Path("mine/report.html").read_text() == "mine"


class TestReport:
    def test_public(self, run: Run, folder: Path) -> None:
        run(*HEART)
        run("evaluate", *QUICK)
        run("report", "--public")
        page = (folder / "public-report.html").read_text(encoding="utf-8")
        assert "may be published" in page
        assert STAMP not in page
        run("report", "--public")  # its own page may be replaced
        (folder / "other.html").write_text("mine")
        assert "--force" in run("report", "--public", "--out", "other.html", code=2).stderr
        blocks = json.loads(run("report", "--public", "--json").stdout)
        assert set(blocks["reports"]) == {"answers", "privacy", "marginals"}


class TestCertify:
    def test_buy_verify_renew(self, run: Run, folder: Path) -> None:
        run(*HEART)
        plan = json.loads(run("certify", "--eps", 1, "--dry-run", "--json").stdout)
        assert plan["label"] == "disease"
        assert len(json.loads(run("ledger", "show", "--json").stdout)["entries"]) == 1
        shown = run("certify", "--eps", 1)
        assert "excess log loss at most" in shown.stdout
        assert len(json.loads(run("ledger", "show", "--json").stdout)["entries"]) == 2
        run("verify")
        assert "free" in run("certify", "--eps", 1, code=2).stderr
        run("certify")
        run("verify")
        assert len(json.loads(run("ledger", "show", "--json").stdout)["entries"]) == 2
        run("certify", "--eps", 1, "--force")
        assert len(json.loads(run("ledger", "show", "--json").stdout)["entries"]) == 3
        run("verify")

    def test_the_excess_itself(self, run: Run, folder: Path) -> None:
        run(*HEART)
        plan = json.loads(run("certify", "--measured", "--eps", 9, "--dry-run", "--json").stdout)
        assert plan["expected"][0]["excess"] == 0
        assert "--measured" in run("certify", "--eps", 1, "--within", 2, code=2).stderr
        shown = run("certify", "--measured", "--eps", 9, "--ridge", 0.1, "--seed", 1)
        assert "excess log loss at least" in shown.stdout
        told = json.loads(
            run(
                *("certify", "--measured", "--eps", 9, "--within", 1, "--seed", 1, "--json"),
                *("--label", "age"),
            ).stdout
        )
        assert told["certificate"]["loss"] == "squared error"
        run("verify")
        run("evaluate", *QUICK, "--reports", "bounds")
        block = evaluation(folder / "evaluation")["reports"]["bounds"]["release"]["measured"]
        assert [entry["label"] for entry in block] == ["disease", "age"]
        for entry in block:
            assert entry["upper"] is None or entry["lower"] <= entry["excess"] <= entry["upper"]
        run("report", "--public")
        assert "A measured certificate is about one model" in Path("public-report.html").read_text()

    def test_refusals(self, run: Run, folder: Path) -> None:
        run(*HEART)
        assert "--eps" in run("certify", "--label", "sex", code=2).stderr
        assert "marginalsyn certify --eps" in run("certify", code=1).stderr
        assert "two" in run("certify", "--eps", 1, "--label", "cp", code=2).stderr
        run("ledger", "cap", "--eps", 5.1)
        assert "cap" in run("certify", "--eps", 2, code=1).stderr
        assert verify(folder / "release") == []


def test_a_table_too_small_to_hold_rows_out_of(run: Run, tmp_path: Path) -> None:
    """Said with the release that was written; its marginals can be compared all the same."""
    (tmp_path / "few.json").write_text(Schema.from_domain({"age": 9}).to_json())
    (tmp_path / "few.csv").write_text("age\n3\n4\n")
    made = ("--data", "few.csv", "--schema", "few.json", "--holdout", 0.01, "--seed", 1)
    run("generate", *made, "--eps", 1, "--method", "independent")
    refused = run("evaluate", "--reports", "membership", "--label", "age", code=2)
    assert "held-out rows (none of 2) must be some" in refused.stderr
    assert str(tmp_path / "release") in refused.stderr
    run("evaluate", "--reports", "marginals")

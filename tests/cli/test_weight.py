"""``marginalsyn weight`` from the outside."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from stored_lines import lines_of

from marginalsyn.errors import UsageError
from marginalsyn.generators.independent import Independent
from marginalsyn.operations.operation import Session
from marginalsyn.operations.weight import Weight
from marginalsyn.plugins.weights.label_weights import LabelWeights
from marginalsyn.release.folder import Release


@pytest.fixture
def made(run, people, folder) -> Path:
    """A release of the people table, with a fifth of the rows held out."""
    run(
        "generate",
        *("--data", people, "--schema", "people.json", "--method", "independent"),
        *("--eps", 2, "--rows", 150, "--holdout", 0.2),
    )
    return folder / "release"


def columns(release: str | Path) -> list[str]:
    return list(Release.read(release).weights())


def stop(*args: object, **kwargs: object) -> None:
    raise KeyboardInterrupt


def ledger_entries(folder: Path) -> int:
    files = list((folder / ".marginalsyn" / "ledgers").glob("*.sqlite"))
    return sum(len(lines_of(file)) for file in files)


def test_it_stops_where_the_gain_may_be_none_unless_insisted(run, made, folder) -> None:
    """One rule: the lower end of what is predicted is above zero."""
    before = ledger_entries(folder)
    ahead = run("weight", "--dry-run", "--eps", 1)
    assert "predicted gain" in ahead.stdout
    assert "auto: takes" in ahead.stderr
    told = json.loads(run("weight", "--dry-run", "--method", "auto", "--eps", 1, "--json").stdout)
    least, middle, most = told["methods"][0]["facts"]["predicted_gain"]
    # On few rows one release may show a loss.
    assert least < 0 < middle < most
    stopped = run("weight")
    assert "--yes" in stopped.stderr
    assert "predicted: the log loss of models of the label falls by" in stopped.stderr
    assert json.loads(run("weight", "--json").stdout)["column"] is None
    assert Release.read(made).weights() is None
    assert ledger_entries(folder) == before
    assert run("ledger", "runs", "--json").stdout.strip() == "[]"
    for insisting in (("--yes",), ("--eps", 0.001, "--name", "small")):
        assert "a new charge:" in run("weight", *insisting).stderr
    assert columns(made) == ["auto", "small"]
    run("verify")


def test_on_a_terminal_it_asks(run, made, folder) -> None:
    asked = []

    class Terminal(Session):
        def agrees(self, question: str, otherwise: str) -> bool:
            asked.append(question)
            return len(asked) > 1

    before = ledger_entries(folder)
    assert Weight(release=made).run(Terminal()).value.weights() is None
    assert ledger_entries(folder) == before
    assert list(Weight(release=made).run(Terminal()).value.weights()) == ["auto"]
    assert ledger_entries(folder) > before
    assert len(asked) == 2
    # In Python nobody is asked: the amount has to be given.
    with pytest.raises(UsageError, match="--eps must be given"):
        Weight(release=made, name="again").run()


def test_rows_and_weights_share_one_budget_and_resume(run, people, folder, monkeypatch) -> None:
    how = ("generate", "--data", people, "--schema", "people.json", "--method", "independent")
    how = (*how, "--eps", 2, "--weights", 0.3)
    assert "in all" in run(*how, "--dry-run").stdout
    for at, stopping in enumerate((Independent, LabelWeights)):
        with monkeypatch.context() as patch:
            patch.setattr(stopping, "__call__", stop)
            run(*how, "--out", f"r{at}", code=130)
        run("generate", "--resume")
        made = Release.read(f"r{at}")
        assert list(made.weights()) == ["auto"]
        assert made.statement.eps == pytest.approx(2.0)
        assert len(made.statement.charges) > 1
        run("verify", f"r{at}")
    # Four charges, of two runs for each release; all of it refused where the cap has no room.
    assert ledger_entries(folder) >= 4
    run("ledger", "cap", "--eps", 3, "--data", people)
    before = ledger_entries(folder)
    run(*how, "--out", "r2", code=1)
    assert ledger_entries(folder) == before
    assert not Path("r2").exists()
    assert "--weights (2.0)" in run(*how[:-1], 2, "--out", "r3", code=2).stderr


@pytest.mark.parametrize("holdout", [(), ("--holdout", 0.2)])
def test_a_second_run_under_replace_shares_its_budget_too(run, people, folder, holdout) -> None:
    """The check of both charges ahead once took its rows for those of another hold-out."""
    how = ("generate", "--data", people, "--schema", "people.json", "--method", "independent")
    for at in range(2):
        run(
            *how,
            *holdout,
            "--eps",
            2,
            "--weights",
            0.3,
            "--neighbours",
            "replace",
            "--out",
            f"r{at}",
        )
        assert Release.read(f"r{at}").statement.eps == pytest.approx(2.0)


def test_weights_of_rows_that_follow_survey_weights_are_refused_before_a_charge(
    run, people, folder
) -> None:
    """They were refused once the rows were paid for, and the message said that nothing was."""
    schema = json.loads((folder / "people.json").read_text())
    numeric = next(c for c in schema["columns"] if c["kind"] in ("integer", "continuous"))
    schema["survey_weight"] = {"column": numeric["name"], "bound": 5}
    schema["columns"].remove(numeric)
    (folder / "survey.json").write_text(json.dumps(schema))
    how = ("generate", "--data", people, "--schema", "survey.json", "--eps", 2, "--weights", 0.3)
    assert "survey weights" in run(*how, code=2).stderr
    assert ledger_entries(folder) == 0
    assert not (folder / "release").exists()


@pytest.mark.tensorflow
def test_sampled_steps_share_no_budget_with_weights(run, people, folder) -> None:
    """They have no price in mu that would add up."""
    how = ("generate", "--data", people, "--schema", "people.json", "--method", "dpgan")
    assert "priced in mu" in run(*how, "--eps", 2, "--weights", 0.3, code=2).stderr


def test_a_share_is_found_by_prediction(run, made, folder) -> None:
    before = ledger_entries(folder)
    run("weight", "--share", "auto")
    assert ledger_entries(folder) == before
    spent = run("weight", "--share", "auto", "--yes").stderr
    assert "a new charge:" in spent
    assert "auto" in run("weight", "--share", "much", code=2).stderr
    run("ledger", "cap", "--eps", 3, "--ledger", "new.sqlite")
    empty = run("weight", "--share", "auto", "--ledger", "new.sqlite", "--name", "capped")
    assert "eps (0.0)" not in empty.stderr
    refused = run("weight", "--share", "auto", "--method", "beta-noised", code=2)
    assert "not predicted" in refused.stderr


def test_dry_run_spends_nothing_and_reads_nothing(run, made, folder, people) -> None:
    before = ledger_entries(folder)
    people.unlink()
    shown = run("weight", "--dry-run").stdout
    for method in ("beta-noised", "beta-debiased", "output-gaussian", "dp-mlp", "none"):
        assert method in shown
    told = json.loads(run("weight", "--dry-run", "--eps", 1, "--json").stdout)
    by_name = {row["method"]: row for row in told["methods"]}
    assert by_name["beta-noised"]["noise"] > 0
    assert 0 < by_name["beta-noised"]["kept"] < 1
    assert told["private_rows_estimate"] == pytest.approx(160, abs=60)
    assert by_name["discriminator"]["warnings"]
    one = json.loads(
        run(
            "weight", "--dry-run", "--method", "dp-mlp", "--steps", 2, "--hidden", 2, "--json"
        ).stdout
    )
    assert one["methods"][0]["noise"] > 0
    assert ledger_entries(folder) == before
    assert not (made / "weights.csv").exists()


def test_reuse_is_free(run, made, folder) -> None:
    run("weight", "--method", "beta-noised")
    before = ledger_entries(folder)
    result = run("weight", "--reuse", "beta-noised", "--temper", 0.5, "--name", "half")
    assert "no charge" in result.stderr
    assert "this release:    eps 2.10" in result.stderr
    run("weight", "--reuse", "beta-noised", "--clip", 1.5, "--smooth", "psis")
    assert ledger_entries(folder) == before
    assert columns(made) == ["beta-noised", "half", "beta-noised-again"]
    assert "must be one of" in run("weight", "--reuse", "nothing", code=2).stderr
    run("verify")


def test_a_list_and_a_second_column_of_a_name(run, made, folder) -> None:
    assert "no weights yet" in run("weight", "--list").stdout
    run("weight", "--method", "beta-noised")
    shown = run("weight", "release", "--list").stdout
    assert "rounded Gaussian: mu" in shown
    assert "dp-mlp" in shown
    before = ledger_entries(folder)
    refused = run("weight", "--method", "beta-noised", code=2)
    assert "--reuse beta-noised" in refused.stderr
    assert ledger_entries(folder) == before
    run("weight", "--method", "beta-noised", "--name", "other")
    run("weight", "--method", "beta-noised", "--force")
    # The one written last is recommended.
    assert columns(made) == ["other", "beta-noised"]
    own, alone = (pd.read_csv(made / f"weights{name}.csv") for name in ("-beta-noised", ""))
    assert alone["weight"].equals(own["weight"])
    # Another column under that name is found.
    alone.assign(weight=1.0).to_csv(made / "weights.csv", index=False)
    run("verify", code=1)


def test_non_private_weights_go_apart(run, made, folder) -> None:
    refused = run("weight", "--method", "logreg", code=2)
    assert "has no privacy protection" in refused.stderr
    result = run("weight", "--method", "logreg", "--non-private")
    assert "NOT PRIVATE" in result.stderr
    file = folder / "evaluation" / "release.logreg.not-private.csv"
    assert len(pd.read_csv(file)) == 150
    assert not (made / "weights.csv").exists()
    again = run("weight", "--method", "logreg", "--non-private", code=2)
    assert "--force" in again.stderr
    inside = run("weight", "--method", "logreg", "--non-private", "--out", made / "x.csv", code=2)
    assert "outside the release" in inside.stderr
    run("verify")


def test_rows_of_another_tool(run, people, folder) -> None:
    rows = pd.read_csv(people).drop(columns="id").sample(90, random_state=1)
    rows.to_csv("other.csv", index=False)
    how = ("weight", "other.csv", "--schema", "people.json", "--data", people)
    how = (*how, "--method", "beta-noised")
    assert "--eps must be given" in run(*how, code=2).stderr
    assert (
        "--schema"
        in run(
            "weight", "--method", "beta-noised", "other.csv", "--data", people, "--eps", 1, code=2
        ).stderr
    )
    result = run(*how, "--eps", 1, "--out", "weighted")
    assert "made by another tool" in run("show", "weighted").stderr
    assert "eps 1" in result.stderr
    run("verify", "weighted")
    assert "is there already" in run(*how, "--eps", 1, "--out", "weighted", code=1).stderr
    # The table is remembered, and the guarantee is not said to cover the rows.
    run("weight", "--method", "beta-noised", "weighted", "--name", "second", "--eps", 0.5)
    assert columns("weighted") == ["beta-noised", "second"]
    shown = run("show", "weighted").stdout
    assert "of all but the rows" in shown
    assert "as private as the tool that made them" in shown
    told = json.loads(Path("weighted/privacy.json").read_text())
    assert "the rows were made by another tool" in told["why"].lower()


def test_methods_that_cost_nothing_need_no_budget(run, people, folder) -> None:
    rows = pd.read_csv(people).drop(columns="id").sample(90, random_state=1)
    rows.to_csv("other.csv", index=False)
    how = ("weight", "other.csv", "--schema", "people.json")
    run(*how, "--method", "none")
    assert (pd.read_csv("release/weights.csv")["weight"] == 1).all()
    run("weight", "release", "--data", people, "--method", "logreg", "--non-private")
    assert Path("evaluation/release.logreg.not-private.csv").exists()
    assert columns("release") == ["none"]
    assert (
        "has no total"
        in run("weight", "--method", "beta-noised", "release", "--data", people, code=2).stderr
    )


def test_the_source_must_be_known(run, made, folder, monkeypatch) -> None:
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    missing = run("weight", "--method", "beta-noised", made, code=2)
    assert "name it with --data" in missing.stderr
    run("weight", "--method", "beta-noised", made, "--data", folder / "people.csv")
    run("weight", made, "--method", "none")
    assert columns(made) == ["beta-noised", "none"]


def test_what_was_held_out_of_an_older_or_moved_release_stays_so(
    run, made, folder, people, monkeypatch
) -> None:
    from marginalsyn.weights.coefficients import NoisyRegression

    moved = made.rename(folder / "moved")
    run(
        "generate",
        *("--data", people, "--schema", "people.json", "--method", "independent"),
        *("--eps", 2, "--rows", 150, "--out", "later"),
    )
    seen = []

    def spy(self, rows, *, progress):
        seen.append(len(rows.all_rows().values))
        raise KeyboardInterrupt

    monkeypatch.setattr(NoisyRegression, "__call__", spy)
    for release in ("later", moved, moved):
        source = ("--data", people) if len(seen) == 2 else ()
        stopped = run("weight", "--method", "beta-noised", release, *source, code=130)
        assert "that stands" in stopped.stderr
    assert seen[0] == 200
    assert seen[1] == seen[2]
    assert 120 < seen[1] < 190


def test_mistakes_are_explained_and_cost_nothing(run, made, folder) -> None:
    before = ledger_entries(folder)
    for options, text in (
        ("--eps 1 --share 0.1", "give one of them"),
        ("--delta 1e-9", "can only be given with --eps"),
        ("--rows 9", "can only be given with --resample"),
        ("--share -1", "share"),
        ("--temper 99", "temper"),
        ("--method beta-noise", "must be one of"),
        ("--penalti 3", "penalty"),
        ("--penalty -3", "penalty"),
        ("--crosses age", "crosses"),
        ("--calibrate beta", "--public"),
        ("--data a --dataset b", "two sources"),
    ):
        result = run("weight", "--method", "beta-noised", *options.split(), code=2)
        assert text in result.stderr, options
    assert "name" in run("weight", "--method", "beta-noised", "--name", "a b", code=2).stderr
    assert ledger_entries(folder) == before
    assert not (made / "weights.csv").exists()


def test_public_rows_calibrate_and_private_ones_may_not(run, made, people) -> None:
    pd.read_csv(people).iloc[::3].to_csv("public.csv", index=False)
    run("weight", "--method", "beta-noised", "--calibrate", "isotonic", "--public", "public.csv")
    refused = run(
        "weight",
        "--method",
        "beta-noised",
        "--name",
        "x",
        "--calibrate",
        "beta",
        "--public",
        people,
        code=2,
    )
    assert "must not be the private table" in refused.stderr


def test_away_from_its_ledger_the_release_s_own_charges_are_added(run, made, tmp_path) -> None:
    (made.parent / ".marginalsyn" / "ledgers").rename(tmp_path / "left-behind")
    result = run("weight", "--method", "beta-noised", "--eps", 0.5)
    assert "with the release's own charges, which this ledger does not hold" in result.stderr
    told = json.loads(
        run("weight", "--method", "beta-noised", "--eps", 0.5, "--name", "again", "--json").stdout
    )
    assert "with the release's own charges" in told["ledger"]
    ours = [line for line in result.stderr.splitlines() if line.startswith("source so far:   eps ")]
    assert float(ours[0].split("eps ")[1].split(",")[0]) > 2


def test_non_private_weights_of_another_tool_s_rows_go_to_the_file_named(
    run, people, folder
) -> None:
    rows = pd.read_csv(people).drop(columns="id").sample(90, random_state=1)
    rows.to_csv("other.csv", index=False)
    how = ("weight", "other.csv", "--schema", "people.json", "--data", people)
    how += ("--method", "logreg", "--non-private")
    result = run(*how, "--out", "w.csv")
    assert result.stdout.strip() == "w.csv"
    found = pd.read_csv("w.csv")
    assert list(found) == ["logreg", "logreg.log"]
    assert len(found) == 90
    assert not Path("release").exists()
    assert "--force" in run(*how, "--out", "w.csv", code=2).stderr
    run(*how, "--out", "w.csv", "--force")
    assert "a file of its own" in run(*how, "--out", "other.csv", "--force", code=2).stderr
    assert "a file of its own" in run(*how, "--out", folder, code=2).stderr
    # The file serves `evaluate`.
    run(
        "evaluate",
        *("--synthetic", "other.csv", "--weights", "w.csv", "--real", people, "--reports"),
        *("marginals", "--schema", "people.json", "--out", "judged"),
    )


def test_out_has_one_meaning_and_its_mistakes_leave_nothing(run, made, people, folder) -> None:
    rows = pd.read_csv(people).drop(columns="id").sample(90, random_state=1)
    rows.to_csv("other.csv", index=False)
    before, spent = set(folder.iterdir()), ledger_entries(folder)
    how = ("weight", "other.csv", "--schema", "people.json", "--data", people, "--eps", 1)
    how = (*how, "--method", "beta-noised")
    assert "must be a folder, such as w:" in run(*how, "--out", "w.csv", code=2).stderr
    assert "no privacy protection" in run(*how, "--out", "w", "--method", "logreg", code=2).stderr
    assert "name" in run(*how, "--out", "w", "--name", "a b", code=2).stderr
    assert (
        "must be left out"
        in run("weight", "--method", "beta-noised", "--out", "elsewhere", code=2).stderr
    )
    assert "must be left out" in run("weight", "--reuse", "x", "--out", "y", code=2).stderr
    assert set(folder.iterdir()) == before
    assert ledger_entries(folder) == spent


def test_a_stop_before_the_charge_leaves_no_release(run, people, folder, monkeypatch) -> None:
    """After the charge it stays, for --resume starts from it."""
    from marginalsyn import host
    from marginalsyn.weights.coefficients import NoisyRegression

    pd.read_csv(people).drop(columns="id").head(90).to_csv("other.csv", index=False)
    how = ("weight", "other.csv", "--schema", "people.json", "--data", people, "--eps", 1)
    how = (*how, "--method", "beta-noised")
    with monkeypatch.context() as patch:
        patch.setattr(host, "check_column", stop)
        run(*how, "--out", "w", code=130)
    assert not Path("w").exists()
    with monkeypatch.context() as patch:
        patch.setattr(NoisyRegression, "__call__", stop)
        assert "that stands" in run(*how, "--out", "w", code=130).stderr.lower()
    assert Path("w").is_dir()
    run("weight", "--method", "beta-noised", "--resume")
    assert columns("w") == ["beta-noised"]
    assert json.loads(run("ledger", "show", "--json").stdout)["eps"] <= 1 + 1e-9


@pytest.fixture
def parsed(monkeypatch) -> list[str]:
    """The schemas that were parsed."""
    from marginalsyn.table.schema import Schema

    found, original = [], Schema.from_json.__func__

    def noted(cls, text, *args, **kwargs):
        found.append(text)
        return original(cls, text, *args, **kwargs)

    monkeypatch.setattr(Schema, "from_json", classmethod(noted))
    return found


def test_generate_does_not_read_its_own_rows(run, people, parsed, monkeypatch) -> None:
    from marginalsyn.release.folder import Release

    monkeypatch.setattr(Release, "frame", lambda release: pytest.fail("the rows were read back"))
    how = ("generate", "--data", people, "--schema", "people.json", "--method", "independent")
    told = json.loads(run(*how, "--eps", 1, "--rows", 70, "--json").stdout)
    assert told["rows"] == 70
    assert len(parsed) == 1

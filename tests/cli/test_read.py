"""The commands that read: show, verify, sample, datasets, plugins."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import Result

from marginalsyn.release.folder import Release
from marginalsyn.release.sampling import sample
from marginalsyn.table.made import IdentifierColumn

Run = Callable[..., Result]


@pytest.fixture
def release(run: Run, folder: Path) -> Path:
    """A release of Heart in ./release."""
    run("generate", "--dataset", "heart", "--method", "independent", "--eps", 1, "--rows", 40)
    return folder / "release"


class TestShow:
    def test_text(self, run: Run, release: Path) -> None:
        shown = run("show").stdout
        assert "40 synthetic rows by independent" in shown
        assert "eps 1," in shown
        assert "one row of the private table" in shown
        assert "disease" in shown
        assert "one-way marginals" in shown
        assert shown == run("show", release).stdout

    def test_json(self, run: Run, release: Path) -> None:
        facts = json.loads(run("show", release, "--json").stdout)
        assert facts["rows"] == 40
        assert facts["can_sample"] is True
        assert facts["statement"]["generator"] == "independent"
        assert len(facts["columns"]) == 14

    def test_a_changed_table_is_not_shown(self, run: Run, release: Path) -> None:
        with (release / "synthetic.csv").open("a") as handle:
            handle.write("1\n")
        assert "hash" in run("show", code=1).stderr

    def test_the_last_release_of_the_workspace(self, run: Run, folder: Path) -> None:
        asked = ("generate", "--dataset", "heart", "--method", "independent", "--eps", 1)
        run(*asked, "--out", "elsewhere")
        assert "elsewhere" in run("show").stdout

    def test_nothing_there(self, run: Run, folder: Path) -> None:
        assert "marginalsyn generate" in run("show", code=1).stderr


class TestVerify:
    def test_good(self, run: Run, release: Path) -> None:
        assert "files verified; eps 1," in run("verify", release).stdout
        assert json.loads(run("verify", "--json").stdout)["problems"] == []

    @pytest.mark.parametrize("name", ["synthetic.csv", "schema.json", "measurements.npz"])
    def test_a_changed_file(self, run: Run, release: Path, name: str) -> None:
        (release / name).write_bytes((release / name).read_bytes() + b" ")
        assert name in run("verify", code=1).stdout
        assert name in json.loads(run("verify", "--json", code=1).stdout)["problems"][0]

    def test_a_statement_that_claims_too_little(self, run: Run, release: Path) -> None:
        file = release / "privacy.json"
        statement = json.loads(file.read_text())
        file.write_text(json.dumps({**statement, "eps": 0.01}))
        assert "eps (0.01)" in run("verify", code=1).stdout


class TestSample:
    def test_to_a_file(self, run: Run, release: Path, folder: Path) -> None:
        result = run("sample", "--rows", 500, "--out", "more.csv")
        assert result.stdout == "more.csv\n"
        assert "no privacy budget" in result.stderr
        more = pd.read_csv("more.csv")
        assert len(more) == 500
        assert list(more.columns) == list(pd.read_csv(release / "synthetic.csv").columns)
        assert len(json.loads(run("ledger", "show", "--json").stdout)["entries"]) == 1

    def test_to_stdout_and_seeded(self, run: Run, release: Path) -> None:
        first = run("sample", release, "--rows", 3, "--seed", 1).stdout
        assert first.count("\n") == 4
        assert first == run("sample", release, "--rows", 3, "--seed", 1).stdout

    def test_many_rows_in_lots(
        self, run: Run, release: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The shell keeps no lot; Python gives the same rows, whose identifiers count on."""
        monkeypatch.setattr("marginalsyn.release.sampling.LOT", 40)
        run("sample", release, "--rows", 100, "--seed", 1, "--out", "lots.csv")
        rows = pd.read_csv("lots.csv")
        assert len(rows) == 100
        drawn = sample(Release.read(release), 100, np.random.default_rng(1))
        assert rows.equals(pd.read_csv(io.StringIO(drawn.to_csv(index=False))))
        assert IdentifierColumn(name="id", pattern="P{n:03}").values(2, 41) == ["P041", "P042"]

    def test_parquet(self, run: Run, release: Path, folder: Path) -> None:
        run("sample", "--rows", 5, "--out", "more.parquet", "--quiet")
        assert len(pd.read_parquet("more.parquet")) == 5

    def test_refusals(self, run: Run, release: Path, folder: Path) -> None:
        (folder / "there.csv").touch()
        assert "--force" in run("sample", "--out", "there.csv", code=2).stderr
        assert ".parquet" in run("sample", "--out", "more.txt", code=2).stderr
        assert "no/more.csv" in run("sample", "--out", "no/more.csv", code=1).stderr
        run("sample", "--rows", 0, code=2)


class TestDatasets:
    def test_list(self, run: Run) -> None:
        shown = run("datasets", "list").stdout
        for name in ("adult", "heart", "german", "telco", "iris"):
            assert name in shown
        assert {table["name"] for table in json.loads(run("datasets", "list", "--json").stdout)} > {
            "adult"
        }

    def test_show(self, run: Run) -> None:
        assert "10.24432" in run("datasets", "show", "heart").stdout
        assert json.loads(run("datasets", "show", "heart", "--json").stdout)["rows"] == 297
        assert "did you mean heart" in run("datasets", "show", "hart", code=2).stderr

    def test_an_exported_table_can_be_generated_from(self, run: Run, folder: Path) -> None:
        written = run("datasets", "export", "heart", "--out", "t").stdout.split()
        assert "t/heart-train.csv" in written
        assert "--force" in run("datasets", "export", "heart", "--out", "t", code=2).stderr
        asked = ("generate", "--data", "t/heart-train.csv", "--schema", "t/heart.schema.json")
        run(*asked, "--method", "independent", "--eps", 1)


class TestPlugins:
    def test_list(self, run: Run) -> None:
        assert "independent" in run("plugins").stdout
        found = json.loads(run("plugins", "--kind", "generators", "--json").stdout)
        mine = next(plugin for plugin in found if plugin["name"] == "independent")
        assert mine["status"] == "ok"
        assert mine["kind"] == "generators"

    def test_a_broken_plugin_is_shown_and_harms_nothing(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from importlib import metadata

        from marginalsyn import registry

        entry = metadata.EntryPoint("bad", "no_such_module:Config", registry.GENERATORS)
        bad = registry.Plugin(
            name="bad", kind=registry.GENERATORS, distribution="bad", version="1", entry=entry
        )
        original = registry.plugins
        monkeypatch.setattr(registry, "plugins", lambda kind=None: [*original(kind), bad])
        shown = run("plugins").stdout
        assert "broken" in shown
        assert "no_such_module" in shown
        assert "independent" in shown

"""The commands that read: show, verify, sample, datasets, plugins."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from click.testing import Result

Run = Callable[..., Result]


@pytest.fixture
def release(run: Run, folder: Path) -> Path:
    """A release of Heart in ./release."""
    run("generate", "--dataset", "heart", "--method", "independent", "--eps", 1, "--rows", 40)
    return folder / "release"


class TestShow:
    def test_nothing_there(self, run: Run, folder: Path) -> None:
        assert "marginalsyn generate" in run("show", code=1).stderr


class TestVerify:
    def test_changed_files(self, run: Run, release: Path) -> None:
        assert "files verified; eps 1," in run("verify", release).stdout
        for name in ("synthetic.csv", "schema.json", "measurements.npz"):
            whole = (release / name).read_bytes()
            (release / name).write_bytes(whole + b" ")
            assert name in run("verify", code=1).stdout
            assert name in json.loads(run("verify", "--json", code=1).stdout)["problems"][0]
            if name == "synthetic.csv":
                assert "hash" in run("show", code=1).stderr
            (release / name).write_bytes(whole)
        # A statement that claims too little.
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

        run("sample", "--rows", 5, "--out", "more.parquet", "--quiet")
        assert len(pd.read_parquet("more.parquet")) == 5
        first = run("sample", release, "--rows", 3, "--seed", 1).stdout
        assert first.count("\n") == 4
        assert first == run("sample", release, "--rows", 3, "--seed", 1).stdout

    def test_refusals(self, run: Run, release: Path, folder: Path) -> None:
        (folder / "there.csv").touch()
        assert "--force" in run("sample", "--out", "there.csv", code=2).stderr
        assert ".parquet" in run("sample", "--out", "more.txt", code=2).stderr
        assert "no/more.csv" in run("sample", "--out", "no/more.csv", code=1).stderr


class TestDatasets:
    def test_list_and_show(self, run: Run) -> None:
        shown = run("datasets", "list").stdout
        for name in ("adult", "heart", "german", "telco", "iris"):
            assert name in shown
        assert "10.24432" in run("datasets", "show", "heart").stdout
        assert "did you mean 'heart'" in run("datasets", "show", "hart", code=2).stderr

    def test_an_exported_table_can_be_generated_from(self, run: Run, folder: Path) -> None:
        written = run("datasets", "export", "heart", "--out", "t").stdout.split()
        assert "t/heart-train.csv" in written
        assert "--force" in run("datasets", "export", "heart", "--out", "t", code=2).stderr
        asked = ("generate", "--data", "t/heart-train.csv", "--schema", "t/heart.schema.json")
        run(*asked, "--method", "independent", "--eps", 1)


class TestPlugins:
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

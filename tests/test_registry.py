"""Plugins are found, listed and refused; a broken one harms nothing."""

from __future__ import annotations

import sys

import pytest

from marginalsyn.errors import MissingExtraError, PluginError
from marginalsyn.registry import GENERATORS, REPORTS, WEIGHTS, find, plugins


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Put a made-up distribution with entry points on the path."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def add(distribution: str, entries: dict[str, str], module: str = "", extra: str = "") -> None:
        info = tmp_path / f"{distribution}-3.1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 3.1\n{extra}"
        )
        lines = "\n".join(f"{name} = {value}" for name, value in entries.items())
        (info / "entry_points.txt").write_text(f"[{WEIGHTS}]\n{lines}\n")
        (tmp_path / f"{distribution}_code.py").write_text(module)

    return add


def one(name: str):
    return next(plugin for plugin in plugins(WEIGHTS) if plugin.name == name)


def test_close_matches_are_suggested():
    with pytest.raises(PluginError, match="Did you mean independent"):
        find(GENERATORS, "independant")
    with pytest.raises(PluginError, match=r"report \('nothing'\) must be one of"):
        find(REPORTS, "nothing")


def test_listing_imports_nothing(install):
    install("lazy", {"lazy": "lazy_code:P"}, "raise RuntimeError('imported')")
    assert "lazy" in [plugin.name for plugin in plugins(WEIGHTS)]
    assert "lazy_code" not in sys.modules


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        ("import no_such_module_at_all", "ModuleNotFoundError: No module named 'no_such_module"),
        ("raise RuntimeError('boom')", "RuntimeError: boom"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("def broken(:", "SyntaxError"),
        ("", "AttributeError"),
    ],
)
def test_broken_plugin_is_shown_and_refused(install, monkeypatch, module, reason):
    install("bad", {"bad": "bad_code:P"}, module)
    monkeypatch.delitem(sys.modules, "bad_code", raising=False)
    assert one("bad").status == "broken"
    assert one("bad").reason.startswith(reason)
    assert one("bad").requires == ()
    with pytest.raises(PluginError, match="weight method 'bad' of bad is broken"):
        find(WEIGHTS, "bad")
    assert find(GENERATORS, "independent")


def test_missing_requirement_names_the_command(install):
    extra = (
        "Provides-Extra: gpu\n"
        'Requires-Dist: no-such-package>=2; extra == "gpu"\n'
        'Requires-Dist: numpy; extra == "cpu"\nProvides-Extra: cpu\n'
    )
    module = (
        "class Extra: requires = ('gpu', 'cpu')\n"
        "class Package: requires = 'also-not-there'\n"
        "class Fine: requires = ('cpu', 'pandas')\n"
    )
    entries = {name: f"needy_code:{name.title()}" for name in ("extra", "package", "fine")}
    install("needy", entries, module, extra)
    assert one("extra").status == one("package").status == "missing"
    assert one("extra").reason == 'install it with: pip install "needy[gpu]"'
    assert one("package").reason == 'install it with: pip install "also-not-there"'
    assert one("fine").status == "ok"
    assert one("extra").load().requires == ("gpu", "cpu")
    with pytest.raises(PluginError, match="needs gpu; install it with"):
        find(WEIGHTS, "extra")


def test_our_own_missing_extra_is_named(install, monkeypatch):
    install("ours", {"ours": "ours_code:P"}, "class P: requires = ('tensorflow',)")
    monkeypatch.setattr("marginalsyn.registry._OURS", "ours")
    monkeypatch.setattr("marginalsyn.registry._extras", lambda distribution: ("tensorflow",))
    monkeypatch.setattr("marginalsyn.registry._installed", lambda requirement: False)
    with pytest.raises(MissingExtraError, match=r"marginalsyn\[tensorflow\]"):
        find(WEIGHTS, "ours")


def test_one_name_from_two_distributions_is_a_conflict(install):
    install("first", {"twice": "first_code:P"}, "class P: pass")
    install("second", {"twice": "second_code:P"}, "class P: pass")
    rivals = [plugin for plugin in plugins(WEIGHTS) if plugin.name == "twice"]
    assert [plugin.status for plugin in rivals] == ["conflict", "conflict"]
    assert "also registered by second" in rivals[0].reason
    with pytest.raises(PluginError, match=r"more than once \(first, second\)"):
        find(WEIGHTS, "twice")


def test_public_names_are_importable():
    import marginalsyn

    for name in marginalsyn.__all__:
        assert getattr(marginalsyn, name) is not None
    assert dir(marginalsyn) == sorted(marginalsyn.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = marginalsyn.nonsense

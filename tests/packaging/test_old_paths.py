"""Import paths that version 0.1 documented keep working, with a warning."""

from __future__ import annotations

from importlib import import_module

import pytest

from marginalsyn.old_paths import MOVED

CASES = [
    (old, name if name != "*" else None)
    for old, names in MOVED.items()
    for name in names or (None,)
]


@pytest.mark.parametrize(("old", "name"), CASES)
def test_old_names_are_found_and_warn(old: str, name: str | None) -> None:
    module = import_module(f"marginalsyn.{old}")
    if name is not None:
        with pytest.warns(DeprecationWarning, match="is now in"):
            assert getattr(module, name) is not None


def test_other_names_are_not_found() -> None:
    from marginalsyn import table

    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        table.nothing  # noqa: B018
    with pytest.raises(ModuleNotFoundError):
        import_module("marginalsyn.budget.nothing")

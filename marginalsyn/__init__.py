"""Differentially private synthetic tables, and an honest account of what they lose.

Importing the package is light: each public name is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

    from marginalsyn.budget import Budget, Charge, Neighbours
    from marginalsyn.certificates import verify
    from marginalsyn.contract import make_config
    from marginalsyn.errors import MarginalsynError
    from marginalsyn.evaluation import Evaluation, evaluate
    from marginalsyn.host import generate, sample
    from marginalsyn.noise import make_noise
    from marginalsyn.private import Ledger, PrivateTable, infer_schema
    from marginalsyn.release import Release, Statement, Workspace
    from marginalsyn.synthesizer import Synthesizer
    from marginalsyn.table import Schema

    __version__: str
    datasets: ModuleType

_HOMES = {
    "Budget": "marginalsyn.budget",
    "Charge": "marginalsyn.budget",
    "Evaluation": "marginalsyn.evaluation",
    "Ledger": "marginalsyn.private",
    "MarginalsynError": "marginalsyn.errors",
    "Neighbours": "marginalsyn.budget",
    "PrivateTable": "marginalsyn.private",
    "Release": "marginalsyn.release",
    "Schema": "marginalsyn.table",
    "Statement": "marginalsyn.release",
    "Synthesizer": "marginalsyn.synthesizer",
    "Workspace": "marginalsyn.release",
    "evaluate": "marginalsyn.evaluation",
    "generate": "marginalsyn.host",
    "infer_schema": "marginalsyn.private",
    "make_config": "marginalsyn.contract",
    "make_noise": "marginalsyn.noise",
    "sample": "marginalsyn.host",
    "verify": "marginalsyn.certificates",
}

__all__ = [
    "Budget",
    "Charge",
    "Evaluation",
    "Ledger",
    "MarginalsynError",
    "Neighbours",
    "PrivateTable",
    "Release",
    "Schema",
    "Statement",
    "Synthesizer",
    "Workspace",
    "__version__",
    "datasets",
    "evaluate",
    "generate",
    "infer_schema",
    "make_config",
    "make_noise",
    "sample",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("marginalsyn")
    if name == "datasets":
        return import_module("marginalsyn.datasets")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)

"""Differentially private synthetic tables, and an honest account of what they lose.

Importing the package is light: each public name is imported when it is first used.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from inspect import isfunction
from typing import TYPE_CHECKING, Any

from marginalsyn.lazy import faces

if TYPE_CHECKING:
    from types import ModuleType

    from marginalsyn.answers import combine, estimate, impute
    from marginalsyn.budget import Budget, Charge, Neighbours
    from marginalsyn.certificates import verify
    from marginalsyn.contract import make_config
    from marginalsyn.curator import Release
    from marginalsyn.errors import MarginalsynError
    from marginalsyn.evaluation import Evaluation, evaluate
    from marginalsyn.host import generate
    from marginalsyn.linked import generate_linked, sample_linked
    from marginalsyn.noise import make_noise
    from marginalsyn.people import LinkedSchema
    from marginalsyn.private import Ledger, PrivateForest, PrivateTable, infer_schema
    from marginalsyn.release import LinkedRelease, Statement, Workspace, sample
    from marginalsyn.synthesizer import Synthesizer
    from marginalsyn.table import Schema, Unit

    __version__: str
    datasets: ModuleType

__all__ = [
    "Budget",
    "Charge",
    "Evaluation",
    "Ledger",
    "LinkedRelease",
    "LinkedSchema",
    "MarginalsynError",
    "Neighbours",
    "PrivateForest",
    "PrivateTable",
    "Release",
    "Schema",
    "Statement",
    "Synthesizer",
    "Unit",
    "Workspace",
    "__version__",
    "combine",
    "datasets",
    "estimate",
    "evaluate",
    "generate",
    "generate_linked",
    "impute",
    "infer_schema",
    "make_config",
    "make_noise",
    "sample",
    "sample_linked",
    "verify",
]


_find, _ = faces(__name__)


@cache
def _shown(name: str) -> Any:
    """A public name; errors of a function that is called by it speak Python."""
    found = _find(name)
    if not isfunction(found):
        return found
    from marginalsyn.signatures import in_python

    return in_python(found)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("marginalsyn")
    return import_module("marginalsyn.datasets") if name == "datasets" else _shown(name)


def __dir__() -> list[str]:
    return sorted(__all__)

"""Differentially private synthetic tables, and an honest account of what they lose.

Importing the package is light: each public name is imported when it is first used.
"""

from __future__ import annotations

import ast
import pkgutil
from functools import cache
from importlib import import_module
from inspect import isfunction
from typing import TYPE_CHECKING, Any

from marginalsyn import defaults as defaults

if TYPE_CHECKING:
    from types import ModuleType

    from marginalsyn.access.linked_tables import PrivateForest
    from marginalsyn.access.private_table import PrivateTable
    from marginalsyn.answers.answering import estimate
    from marginalsyn.answers.imputations import combine, impute
    from marginalsyn.certificates.measured import verify
    from marginalsyn.contract import make_config
    from marginalsyn.drafting.draft import infer_schema
    from marginalsyn.errors import MarginalsynError
    from marginalsyn.evaluation.evaluation import Evaluation, evaluate
    from marginalsyn.host import generate, generate_linked
    from marginalsyn.linked.drawing import sample_linked
    from marginalsyn.operations.buying import buy_bins, buy_bounds, buy_categories, buy_max_rows
    from marginalsyn.operations.release import LinkedRelease, Release
    from marginalsyn.operations.synthesizer import Synthesizer
    from marginalsyn.people.tree import LinkedSchema
    from marginalsyn.privacy.budget import Budget
    from marginalsyn.privacy.charges import Charge, Neighbours
    from marginalsyn.privacy.noise import make_noise
    from marginalsyn.records.ledger import Ledger
    from marginalsyn.records.workspace import Workspace
    from marginalsyn.release.sampling import sample
    from marginalsyn.release.statement import Statement
    from marginalsyn.table.schema import Schema
    from marginalsyn.table.unit import Unit

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
    "buy_bins",
    "buy_bounds",
    "buy_categories",
    "buy_max_rows",
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


@cache
def _homes() -> dict[str, str]:
    """The module of every public name: what the block for type checkers above imports."""
    tree = ast.parse(pkgutil.get_data(__name__, "__init__.py") or b"")
    lines = [line for block in tree.body if isinstance(block, ast.If) for line in block.body]
    return {
        shown.name: line.module
        for line in lines
        if isinstance(line, ast.ImportFrom) and line.module and line.module.startswith(__name__)
        for shown in line.names
    }


@cache
def _shown(name: str) -> Any:
    """A public name; errors of a function that is called by it speak Python."""
    if name not in _homes():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_homes()[name]), name)
    if not isfunction(found):
        return found
    from marginalsyn.signatures import speaking_python

    return speaking_python()(found)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("marginalsyn")
    return import_module("marginalsyn.datasets") if name == "datasets" else _shown(name)


def __dir__() -> list[str]:
    return sorted(__all__)

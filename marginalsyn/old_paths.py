"""Import paths that version 0.1 documented: they work, with a warning, until version 0.3."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# Old package or module, then its names by the module that has them now. "*" is the module itself.
MOVED: dict[str, dict[str, str]] = {
    "adapters": {
        name: f"plugins.exchange.{name}" for name in ("dpsynth", "mbi", "opendp", "smartnoise")
    },
    "adapters.mbi": {"*": "plugins.exchange.mbi"},
    "audit": {},
    "audit.auditing": {"*": "plugins.audit.auditing"},
    "audit.exact": {"*": "plugins.audit.exact"},
    "audit.testkit": {"check_plugin": "plugins.audit.testkit.plugin"},
    **{
        f"audit.testkit.{name}": {"*": f"plugins.audit.testkit.{name}"}
        for name in ("generators", "lowest_bits", "tape", "weights")
    },
    "budget": {
        **dict.fromkeys(("Charge", "Neighbours", "Pure", "ZCDP"), "privacy.charges"),
        "Budget": "privacy.budget",
        "compose": "privacy.composition",
        "gaussian_sigma": "privacy.zcdp",
    },
    "budget.laws": {"*": "privacy.laws"},
    "certificates.certificate": {"*": "plugins.research.moment_certificate"},
    "certificates.moments": {"*": "plugins.reports.bounds_report"},
    "certificates.noisy_moments": {"*": "plugins.research.moment_certificate"},
    "evaluation": {"Report": "evaluation.reports"},
    "evaluation.baselines": {"*": "plugins.reports.baselines"},
    "evaluation.column_charts": {"*": "plugins.reports.marginals_report"},
    "evaluation.membership": {"*": "plugins.reports.membership_report"},
    "evaluation.tstr": {"*": "plugins.reports.tstr"},
    "evaluation.learners": {"*": "plugins.reports.baselines"},
    "exchange": dict.fromkeys(("export_schema", "import_schema"), "plugins.exchange.schemas"),
    "graphical": {"project_to_simplex": "graphical.estimation"},
    "networks": {"WeightedGenerator": "plugins.networks.weighted_generator"},
    "noise": {"make_noise": "privacy.noise"},
    "points": {
        "energy_distance": "table.energy",
        "support_points": "plugins.points.fitting",
    },
    "privacy.recorded_laws": {"*": "privacy.noise"},
    "private": {
        "Ledger": "records.ledger",
        "PrivateTable": "access.private_table",
        "Visit": "access.visit",
        "open_ledger": "access.ledgers",
    },
    "steering": {"steer": "steering.steering"},
    "table": {
        **dict.fromkeys(("BooleanColumn", "CategoricalColumn", "OrdinalColumn"), "table.columns"),
        "Codec": "table.codec",
        **dict.fromkeys(("ContinuousColumn", "IntegerColumn"), "table.numeric"),
        "Schema": "table.schema",
    },
}


def names_of(old: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of an old module or package."""
    moved = MOVED[old]

    def __getattr__(name: str) -> Any:  # noqa: N807
        home = moved.get(name, moved.get("*", ""))
        if not home or name.startswith("__"):
            raise AttributeError(f"module 'marginalsyn.{old}' has no attribute {name!r}")
        warnings.warn(
            f"marginalsyn.{old}.{name} is now in marginalsyn.{home}; "
            "the old path goes with version 0.3",
            DeprecationWarning,
            stacklevel=3,
        )
        module = import_module(f"marginalsyn.{home}")
        return module if home.rpartition(".")[2] == name else getattr(module, name)

    return __getattr__


class OldPaths(MetaPathFinder, Loader):
    """Makes the modules that are gone, for those who import them by name."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        old = fullname.removeprefix("marginalsyn.")
        return ModuleSpec(fullname, self, is_package=True) if old in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__getattr__"] = names_of(module.__name__.removeprefix("marginalsyn."))


def install() -> None:
    """Look for old modules after all finders that are there."""
    if not any(isinstance(finder, OldPaths) for finder in sys.meta_path):
        sys.meta_path.append(OldPaths())

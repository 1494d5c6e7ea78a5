"""Finds plugins: generators, weight estimators, reports and commands, ours or others'.

Every plugin is an entry point, so the built-ins are found exactly as a third party's are. Listing
names imports nothing; asking for a plugin's ``status`` imports that plugin alone, and one that
fails is shown as broken with its reason and harms nothing else.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from marginalsyn.errors import MissingExtraError, PluginError, how_to_get

GENERATORS = "marginalsyn.generators"
WEIGHTS = "marginalsyn.weights"
REPORTS = "marginalsyn.reports"
COMMANDS = "marginalsyn.commands"
KINDS = (GENERATORS, WEIGHTS, REPORTS, COMMANDS)
# What a folder of plugins lends to the core: an engine, a reader of its own releases.
PARTS = "marginalsyn.parts"

Status = Literal["ok", "missing", "broken", "conflict"]

_OURS = "marginalsyn"


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """One registered plugin. ``load`` imports it, and so do ``status``, ``reason``, ``requires``.

    ``status`` is ``ok``, ``missing`` (a package in its ``requires`` is not installed), ``broken``
    (it fails to import) or ``conflict`` (another distribution registers the same name); for all
    but ``ok``, ``reason`` says why and what to do.
    """

    name: str
    kind: str
    distribution: str
    version: str
    entry: metadata.EntryPoint = field(repr=False)
    rivals: tuple[str, ...] = ()

    def load(self) -> Any:
        """Import the plugin and return its class, whether or not its requirements are there."""
        if self._failure is not None:
            raise PluginError(
                f"{_noun(self.kind)} '{self.name}' of {self.distribution} is broken: "
                f"{self._failure}"
            ) from self._outcome[1]
        return self._outcome[0]

    @property
    def status(self) -> Status:
        if self.rivals:
            return "conflict"
        if self._failure is not None:
            return "broken"
        return "missing" if self._absent else "ok"

    @property
    def reason(self) -> str:
        """Why the status is not ``ok``, and what to do; empty when it is."""
        if self.rivals:
            return f"also registered by {', '.join(self.rivals)}; uninstall all but one"
        if self._failure is not None:
            return self._failure
        return "" if not self._absent else f"install it with: {self._install}"

    @property
    def summary(self) -> str:
        """The plugin's own line about itself; empty when it cannot be imported."""
        return str(self.duty("summary", "") or "")

    @property
    def requires(self) -> tuple[str, ...]:
        """Extras of the plugin's distribution, or other distributions, that it needs to run."""
        requires = self.duty("requires", ())
        return (requires,) if isinstance(requires, str) else tuple(requires)

    def duty(self, name: str, default: Any) -> Any:
        """An attribute of the plugin, which need not have the base class that gives a default."""
        return getattr(self._outcome[0], name, default)

    @cached_property
    def _outcome(self) -> tuple[Any, BaseException | None]:
        try:
            return self.entry.load(), None
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a plugin's import may do anything, even sys.exit()
            return None, error

    @property
    def _failure(self) -> str | None:
        error = self._outcome[1]
        return None if error is None else f"{type(error).__name__}: {error}".rstrip(": ")

    @cached_property
    def _extras(self) -> Sequence[str]:
        return _extras(self.distribution)

    @cached_property
    def _absent(self) -> tuple[str, ...]:
        return tuple(
            name
            for name in self.requires
            if not _installed(f"{self.distribution}[{name}]" if name in self._extras else name)
        )

    @property
    def _install(self) -> str:
        extras = [name for name in self._absent if name in self._extras]
        others = [name for name in self._absent if name not in self._extras]
        wanted = [f'"{self.distribution}[{",".join(extras)}]"'] if extras else []
        names = " ".join([*wanted, *(f'"{name}"' for name in others)])
        where = how_to_get(extras[0]) if extras and self.distribution == _OURS else ""
        return f"pip install {names}{where}"


def entry_points(**wanted: str) -> metadata.EntryPoints:
    """The entry points of what is installed, read again where a folder of packages has changed."""
    folders = [Path(path).absolute() for path in sys.path]
    changed = tuple((str(f), f.stat().st_mtime_ns) for f in folders if f.exists())
    found: metadata.EntryPoints = _read(changed).select(**wanted)
    return found


@lru_cache(maxsize=4)
def _read(folders: tuple[tuple[str, int], ...]) -> Any:
    return metadata.entry_points()


def plugins(kind: str | None = None) -> list[Plugin]:
    """List the registered plugins of one kind, or of all, without importing any.

    Args:
        kind: one of ``KINDS``; None lists all.

    Returns:
        The plugins by kind and name; ours first where a name is registered more than once.

    Example:
        >>> [plugin.name for plugin in plugins(GENERATORS) if plugin.name == "independent"]
        ['independent']
    """
    found = []
    for group in KINDS if kind is None else (kind,):
        entries: dict[tuple[str, ...], metadata.EntryPoint] = {}
        for entry in entry_points(group=group):
            entries.setdefault((entry.name, *_owner(entry.dist)), entry)
        for (name, owner, version), entry in entries.items():
            rivals = tuple(sorted(d for n, d, _ in entries if n == name and d != owner))
            plugin = Plugin(
                name=name,
                kind=group,
                distribution=owner,
                version=version,
                entry=entry,
                rivals=rivals,
            )
            found.append(plugin)
    return sorted(
        found, key=lambda p: (KINDS.index(p.kind), p.name, p.distribution != _OURS, p.distribution)
    )


def find(kind: str, name: str, *, reading: bool = False) -> Any:
    """Import one plugin that can run.

    Args:
        kind: one of ``KINDS``.
        name: the plugin's id, such as ``"independent"``.
        reading: only to read what it made before, for which a plugin with a true ``reads_bare``
            needs none of its requirements.

    Returns:
        The object that the entry point names: for a generator, its config class.

    Raises:
        PluginError: unknown (with close matches), broken, in conflict, or lacking a package.
        MissingExtraError: an extra of marginalsyn itself is not installed.

    Example:
        >>> find(GENERATORS, "independent").__name__
        'IndependentConfig'
    """
    known = plugins(kind)
    chosen = next((plugin for plugin in known if plugin.name == name), None)
    if chosen is None:
        raise PluginError(_unknown(kind, name, sorted({plugin.name for plugin in known})))
    label = f"{_noun(kind)} '{name}'"
    if chosen.status == "conflict":
        owners = ", ".join((chosen.distribution, *chosen.rivals))
        raise PluginError(f"{label} is registered more than once ({owners}): {chosen.reason}")
    bare = reading and bool(chosen.duty("reads_bare", False))
    if chosen.status == "missing" and not bare:
        if chosen.distribution == _OURS and chosen._absent[0] in chosen._extras:
            raise MissingExtraError(label, chosen._absent[0])
        raise PluginError(f"{label} needs {', '.join(chosen._absent)}; {chosen.reason}")
    return chosen.load()


def part(name: str) -> Any:
    """What a folder of plugins lends to the core under a name; None where it is not installed.

    Example:
        >>> part("nobody lends this") is None
        True
    """
    for entry in entry_points(group=PARTS, name=name):
        try:
            return entry.load()
        except ModuleNotFoundError as error:
            if not entry.module.startswith(error.name or "?"):
                raise
    return None


def needed_part(name: str, what: str) -> Any:
    """The same, where ``what`` cannot do without it."""
    found = part(name)
    if found is None:
        raise PluginError(
            f"{what} needs a plugin that is not installed ('{name}' in the entry points "
            f"{PARTS}): install marginalsyn again"
        )
    return found


def _unknown(kind: str, name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=3)
    hint = f"Did you mean {' or '.join(close)}? " if close else ""
    listed = ", ".join(known) or "none is installed"
    return f"{_noun(kind)} ('{name}') must be one of: {listed}. {hint}See `marginalsyn plugins`."


def _noun(kind: str) -> str:
    names = ("method", "weight method", "report", "command")
    return dict(zip(KINDS, names, strict=True)).get(kind, "plugin")


@lru_cache
def _owner(distribution: metadata.Distribution | None) -> tuple[str, str]:
    """Its name and version: kept, because each is parsed out of a text with a whole README."""
    return (distribution.name, distribution.version or "?") if distribution else ("?", "?")


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _extras(distribution: str) -> Sequence[str]:
    if _version(distribution) is None:
        return ()
    return metadata.metadata(distribution).get_all("Provides-Extra") or ()


def _installed(requirement: str) -> bool:
    """Whether a requirement such as ``ibis-framework[pyspark]>=12; ...`` is there, extras too."""
    match = re.match(r"([A-Za-z0-9][\w.-]*)\s*(?:\[([^\]]*)\])?", requirement.strip())
    if match is None or _version(match[1]) is None:
        return False
    distribution, extras = match[1], re.split(r"\s*,\s*", match[2].strip()) if match[2] else []
    lines = metadata.requires(distribution) or []
    wanted = [re.compile(rf"""extra\s*==\s*['"]{re.escape(extra)}['"]""") for extra in extras]
    return all(_installed(line) for line in lines if any(marker.search(line) for marker in wanted))

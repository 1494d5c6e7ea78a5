"""The forms that ``marginalsyn export`` gives a release: one line a form, one file each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING

from marginalsyn.errors import UsageError

if TYPE_CHECKING:
    from marginalsyn.release.folder import Release


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What a form made of a release.

    Attributes:
        files: contents by plain name. A single one may go to stdout.
        lost: what the release holds and the form cannot say, one line each.
    """

    files: Mapping[str, bytes]
    lost: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Format:
    """One form of a release.

    Attributes:
        summary: one line about it.
        module: whose ``export(release, values)`` returns :class:`Exported`; ``values`` are the
            curator's, by name.
        call: the name of that function, where a module has several.
        fields: what only the curator can say, and may give with ``--set NAME=VALUE``, with help.
    """

    summary: str
    module: str
    call: str = "export"
    fields: Mapping[str, str] = field(default_factory=dict)


FORMATS: dict[str, Format] = {
    "mbi": Format(
        summary="domain, measurements and model for Private-PGM's mbi, as JSON and npz",
        module="marginalsyn.plugins.exchange.measured",
    ),
    "registry": Format(
        summary="a record for the DP Deployments Registry of OpenDP and NIST, as YAML",
        module="marginalsyn.plugins.exchange.described",
        fields={
            "curator": "who publishes the rows",
            "use": "what they are meant for",
            "region": "which region they describe, or whose laws apply",
            "name": "of the data product, if not by the table's title",
            "description": "in place of ours",
            "sector": "Technology, Healthcare, Education, Government, Energy or Finance",
            "author": "of the record, if not the curator",
            "source": "links to papers or to the data product",
        },
    ),
    "csvw": Format(
        summary="metadata of the CSV files for the web (W3C), as JSON",
        module="marginalsyn.plugins.exchange.described",
        call="csvw",
        fields={"license": "the licence, as an address"},
    ),
    "croissant": Format(
        summary="a Croissant description of the files (MLCommons), as JSON-LD",
        module="marginalsyn.plugins.exchange.described",
        call="croissant",
        fields={
            "license": "the licence, as an address",
            "url": "the address of the data set's page",
            "creator": "who publishes it",
            "name": "of the data set, if not by the table's title",
        },
    ),
}


def export(release: Release, to: str, values: Mapping[str, str] | None = None) -> Exported:
    """Give a release another form. Reads the release alone, so it costs no privacy.

    Args:
        release: what is exported.
        to: the name of a form: one of ``FORMATS``.
        values: what only the curator can say, by the names of the form's ``fields``.

    Example:
        >>> from marginalsyn.release.folder import Release
        >>> sorted(export(Release.read("release"), "mbi").files)
        ['parcel.json', 'parcel.npz']
    """
    if to not in FORMATS:
        raise UsageError(f"format ({to}) must be one of: {', '.join(FORMATS)}")
    form, given = FORMATS[to], dict(values or {})
    for name in given:
        if name not in form.fields:
            known = ", ".join(form.fields) or f"nothing: {to} needs nothing else"
            raise UsageError(f"field ({name}) of {to} must be one of: {known}")
    return getattr(import_module(form.module), form.call)(release, given)  # type: ignore[no-any-return]

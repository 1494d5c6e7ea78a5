"""``export``: a release in the form that another tool or an authority reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marginalsyn.errors import UsageError
from marginalsyn.operations.files import check_new, replace_file
from marginalsyn.operations.groups import OfRelease
from marginalsyn.operations.operation import PYTHON, Columns, Result, Session, option

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
        fields: what only the curator can say, and may give with ``--set NAME=VALUE``, with help.
    """

    summary: str
    fields: Mapping[str, str] = field(default_factory=dict)


FORMATS: dict[str, Format] = {
    "mbi": Format(
        summary="domain, measurements and model for Private-PGM's mbi, as JSON and npz",
    ),
    "registry": Format(
        summary="a record for the DP Deployments Registry of OpenDP and NIST, as YAML",
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
        fields={"license": "the licence, as an address"},
    ),
    "croissant": Format(
        summary="a Croissant description of the files (MLCommons), as JSON-LD",
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
    from marginalsyn.plugins.exchange import described, mbi

    if to not in FORMATS:
        raise UsageError(f"format ({to}) must be one of: {', '.join(FORMATS)}")
    form, given = FORMATS[to], dict(values or {})
    for name in given:
        if name not in form.fields:
            known = ", ".join(form.fields) or f"nothing: {to} needs nothing else"
            raise UsageError(f"field ({name}) of {to} must be one of: {known}")
    makers = {
        "mbi": mbi.export,
        "registry": described.export,
        "csvw": described.csvw,
        "croissant": described.croissant,
    }
    return makers[to](release, given)


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    """Names with values, out of texts such as ``NAME=VALUE``."""
    for text in texts:
        if not text.partition("=")[0] or "=" not in text:
            raise UsageError(f"--set ({text}) must look like NAME=VALUE")
    return dict(text.split("=", 1) for text in texts)


@dataclass(frozen=True)
class Export(OfRelease["Exported"]):
    """Give a release the form that another tool reads.

    Uses only what the release holds, so it spends no privacy budget and needs no private table.
    What the form cannot say is listed.

    Returns:
        The contents of its files by name, and in ``lost`` what the form cannot say.
    """

    shell = ("quiet",)
    examples = """
    # domain, measurements and model of the last release, for mbi, in ./release-mbi
    marginalsyn export --to mbi
    # what can be exported to
    marginalsyn export --list
    """

    to: str = option(
        None,
        f"The form: {', '.join(FORMATS)}. --list says what each is for.",
        choices=list(FORMATS),
        metavar="FORMAT",
        python="The name of the form; `marginalsyn export --list` lists them.",
    )
    _: KW_ONLY
    values: Mapping[str, str] | None = option(
        None,
        "What only you can say and the form asks for; --list names it. May be repeated.",
        flags=("--set",),
        multiple=True,
        parse=_pairs,
        metavar="NAME=VALUE",
        python="What only the curator can say and the form asks for, by name.",
    )
    out: str | Path | None = option(
        None,
        "The file to write, or the folder for a form of several files. [default=stdout for one "
        "file, else a folder named after the release and the form]",
        metavar="PATH",
        python="Also write it here: to a file, or into a folder where there are several.",
    )
    listing: bool = option(False, "List the forms.", flags=("--list",), python=False)
    force: bool = option(False, "Overwrite what exists.")

    def run(self, session: Session = PYTHON) -> Result[Any]:
        """Export, and write or show."""

        if self.listing:
            asked = [(name, form.summary, ", ".join(form.fields)) for name, form in FORMATS.items()]
            return Result(None, text=[Columns(("form", "what it is", "--set"), asked)])
        if self.to is None:
            raise UsageError(f"--to must name a form: {', '.join(FORMATS)}")
        source = self.read_release()
        found = export(source, self.to, self.values)
        if self.out is not None or (session.shown and len(found.files) > 1):
            place = Path(self.out) if self.out else Path(f"{source.path.name}-{self.to}")
            text = str(write_exported(found, place, self.force))
        else:
            text = next(iter(found.files.values())).decode() if session.shown else ""
        lost = [f"not in the export: {line}" for line in found.lost]
        return Result(found, None, [text], lost, ["no privacy budget was spent."])


def write_exported(found: Exported, place: Path, force: bool) -> Path:
    """Write an exported release: one file to its place, several into a folder of that name."""
    single = len(found.files) == 1
    paths = {place if single else place / name: data for name, data in found.files.items()}
    for path in paths:
        check_new(path, force)
    if not single:
        place.mkdir(parents=True, exist_ok=True)
    for path, data in paths.items():
        replace_file(path, lambda handle, data=data: handle.write(data))  # type: ignore[misc]
    return place

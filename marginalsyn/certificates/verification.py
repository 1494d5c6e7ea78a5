"""Verification of a whole release, from the folder alone."""

from __future__ import annotations

from pathlib import Path

from marginalsyn.certificates.certifying import MOMENT_CERTIFICATE, MOMENTS
from marginalsyn.certificates.measured import measured_problems
from marginalsyn.errors import MarginalsynError
from marginalsyn.registry import needed_part
from marginalsyn.release.folder import Release, check_folder
from marginalsyn.release.linked import is_linked_release
from marginalsyn.release.linked_table import TableRelease


def verify(path: str | Path) -> list[str]:
    """Check a release: hashes, files, the statement, rows against the schema, weights.

    The charges are added up again, and what the statement says of its guarantee, noise and versions
    is derived again from the laws and libraries that it records.

    Args:
        path: the release folder.

    Returns:
        What is wrong, one line each; an empty list when nothing is. That the noise was seeded or
        the schema drafted from data is no fault of the folder: ``statement.warnings`` says so.

    Example:
        >>> verify("release")
        []
    """
    found = check_folder(path)
    if found:
        return found
    try:
        release = (TableRelease if is_linked_release(path) else Release).read(path)
        return _moment_problems(release) + measured_problems(release)
    except MarginalsynError as error:
        return [str(error)]


def _moment_problems(release: Release) -> list[str]:
    """What is wrong with the certificate from noisy moments, where there is one."""
    if MOMENTS not in release.statement.files:
        return []
    found: list[str] = needed_part(MOMENT_CERTIFICATE, f"the check of {MOMENTS}").problems(release)
    return found

"""A PostgreSQL server of the tests' own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import servers


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """The address of a server that lives for these tests."""
    try:
        with servers.postgres() as address:
            yield address
    except LookupError as error:
        pytest.skip(str(error))

"""Every error that a user can cause. The command line turns each into a message and an exit code.

A message reads ``name (value) must be ...`` and says what to do next. It never depends on private
rows in a way that the budget does not cover.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class MarginalsynError(Exception):
    """A mistake or a limit that the user can do something about."""

    exit_code = 1
    # Whether the text says already what the run had spent when this stopped it.
    states_spending = False


def reason_of(error: BaseException) -> str:
    """The reason that the system gives for an error, or the error's own words."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error).strip()


class UsageError(MarginalsynError):
    """An option, a parameter or a file name that cannot be taken as given."""

    exit_code = 2


class SchemaError(UsageError):
    """A schema that contradicts itself or the table's layout."""


class DataError(MarginalsynError):
    """A data source that cannot be read as a table."""


class BudgetError(MarginalsynError):
    """A charge that the ledger's cap or a visit's prepaid cost does not cover."""


class LedgerError(BudgetError):
    """A ledger file that cannot be read, written or trusted; nothing may be measured without it."""


class ReleaseError(MarginalsynError):
    """A release folder that cannot be written, read or trusted."""


class PluginError(MarginalsynError):
    """A plugin that is unknown, broken, or breaks its contract."""


class MissingExtraError(MarginalsynError):
    """An optional dependency is needed; the message names the command that installs it."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(
            f"{what} needs the extra '{extra}'; install it with: "
            f'pip install "marginalsyn[{extra}]"{how_to_get(extra)}'
        )
        self.extra = extra


def how_to_get(extra: str) -> str:
    """What else is to be known about installing an extra on this Python."""
    if extra == "tensorflow" and sys.version_info >= (3, 12):
        return " under Python 3.11: TensorFlow Privacy has no release for newer ones"
    return ""


class StoppedError(MarginalsynError):
    """A run stopped by itself before it would have wasted the rest of its budget."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a run; the text says what the run had spent until then."""

    exit_code = 130


@contextmanager
def explained(spent: Callable[[], str], method: str = "") -> Iterator[None]:
    """Whatever stops the run inside, let its error say once what the run had spent.

    Args:
        spent: says what stands and how to go on; empty where nothing was spent.
        method: the plugin that runs inside, as messages name it: unforeseen errors are its faults.

    Example:
        >>> try:
        ...     with explained(lambda: "The ledger was charged eps=1; that stands."):
        ...         raise DataError("file (a.csv) must be readable")
        ... except DataError as error:
        ...     print(error)
        file (a.csv) must be readable
        The ledger was charged eps=1; that stands.
    """
    try:
        yield
    except Interrupted:
        raise
    except KeyboardInterrupt:
        raise Interrupted(f"stopped; nothing was written. {spent() or NOTHING}") from None
    except MarginalsynError as error:
        if not error.states_spending and (said := spent()):
            error.args = (f"{error}\n{said}",)
            error.states_spending = True
        raise
    except Exception as error:
        if failure := _failure(error, method):
            raise failure(f"{_reason(error, method)} {spent() or NOTHING}") from error
        raise


NOTHING = "Nothing was spent."


def _failure(error: Exception, method: str) -> type[MarginalsynError] | None:
    """The class that reports an unforeseen error; None if the error is for the developers."""
    if method:
        return PluginError
    return MarginalsynError if isinstance(error, MemoryError | OSError) else None


def _reason(error: Exception, method: str) -> str:
    if method and isinstance(error, MemoryError):
        return f"{method} ran out of memory."
    if method:
        # The text of a foreign exception may quote private values: it stays in the chain.
        return (
            f"{method} failed ({type(error).__name__}); this is a fault of the method, not of the "
            "data's layout."
        )
    if isinstance(error, OSError):
        where = f" ({error.filename})" if error.filename else ""
        return f"{error.strerror or type(error).__name__}{where}; nothing was written."
    return "out of memory; nothing was written."

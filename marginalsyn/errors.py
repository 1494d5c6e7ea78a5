"""Every error that a user can cause. The command line turns each into a message and an exit code.

A message reads ``name (value) must be ...`` and says what to do next. It never depends on private
rows in a way that the budget does not cover.
"""

from __future__ import annotations


class MarginalsynError(Exception):
    """A mistake or a limit that the user can do something about."""

    exit_code = 1


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
            f'pip install -c constraints.txt "marginalsyn[{extra}]"'
        )
        self.extra = extra

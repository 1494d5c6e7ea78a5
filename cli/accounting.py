"""Says what a run spent when something stops it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from marginalsyn.cli.failures import Interrupted
from marginalsyn.errors import MarginalsynError

if TYPE_CHECKING:
    from marginalsyn.cli.screen import Notes
    from marginalsyn.ledger import Ledger


@contextmanager
def accounted(ledger: Ledger) -> Iterator[None]:
    """Whatever stops the run inside, say whether the ledger was charged."""
    before = len(ledger.made)
    try:
        yield
    except KeyboardInterrupt as error:
        said = str(error) or f"stopped; nothing was written. {spent(ledger, before)}"
        raise Interrupted(said) from None
    except MarginalsynError as error:
        if len(ledger.made) > before and "ledger was charged" not in str(error):
            error.args = (f"{error}\n{spent(ledger, before)}",)
        raise
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        reason = f"{error.strerror or type(error).__name__}{where}"
        raise MarginalsynError(f"{reason}; nothing was written. {spent(ledger, before)}") from error


def spent(ledger: Ledger, before: int) -> str:
    """What this run was charged after the first ``before`` charges; other runs' do not count."""
    if len(ledger.made) == before:
        return "Nothing was spent."
    return f"The ledger was charged for this run: in total {ledger.total()}. That stands."


def warn_of_seed(seed: int | None, notes: Notes) -> None:
    """Loudly, also when quiet."""
    if seed is not None:
        notes.warn(
            f"--seed {seed}: whoever knows the seed can take the noise away again. The result is "
            "seeded, not private; for research only."
        )

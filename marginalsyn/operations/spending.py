"""What a step on a release may spend: a budget of its own, or a share of a total."""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginalsyn.defaults import SHARE
from marginalsyn.errors import UsageError
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.privacy.zcdp import DEFAULT_DELTA

if TYPE_CHECKING:
    from marginalsyn.operations.origins import PrivateInput
    from marginalsyn.release.folder import Release


def budget_for(
    release: Release | None,
    *,
    eps: float,
    delta: float | None = None,
    neighbours: str = Neighbours.ADD_REMOVE,
    allow_large_delta: bool = False,
) -> Budget:
    """The amount; what it does not say of a release's successor is as in the release.

    Example:
        >>> budget_for(None, eps=1.0).delta
        1e-09
    """
    known = release.statement if release is not None else None
    chosen = delta
    if chosen is None:
        chosen = (known.target_delta if known else 0) or DEFAULT_DELTA
    return Budget(
        eps=eps,
        delta=chosen,
        neighbours=known.neighbours if known else Neighbours(neighbours),
        allow_large_delta=allow_large_delta or delta is None,
    )


def allowance(
    release: Release | None,
    origin: PrivateInput | None,
    *,
    eps: float | None = None,
    share: float | None = None,
    delta: float | None = None,
    neighbours: str | None = None,
    allow_large_delta: bool = False,
    free: bool = False,
) -> Budget:
    """What weights may spend: a budget of their own, or a share of the total.

    Args:
        release: what the weights are for; None for rows that another tool made.
        origin: the private table, whose ledger may have a cap.
        eps: a budget of their own.
        share: of the ledger's cap, or of what the release spent.
        delta: goes with ``eps``.
        neighbours: of rows that another tool made; a release's is its own.
        allow_large_delta: take a delta of 1e-6 or more.
        free: the method needs no budget, but is configured with one.
    """
    if neighbours is not None and release is not None:
        own = release.statement.neighbours
        if Neighbours(neighbours) is not own:
            raise UsageError(
                f"--neighbours ({neighbours}) must be {own}, as in the release: leave it out"
            )
    if eps is not None and share is not None:
        raise UsageError("--eps and --share both give the budget; give one of them")
    if eps is not None:
        relation = neighbours or Neighbours.ADD_REMOVE
        return budget_for(
            release,
            eps=eps,
            delta=delta,
            neighbours=relation,
            allow_large_delta=allow_large_delta,
        )
    if delta is not None:
        raise UsageError(
            f"--delta ({delta:g}) can only be given with --eps: a share takes the release's delta"
        )
    if free and share is None:
        return Budget(eps=1.0)
    if release is None:
        raise UsageError(
            "--eps must be given for rows that another tool made: there is no total to take a "
            "share of"
        )
    from marginalsyn.weights.columns import share_of

    cap = origin.ledger().read().cap if origin is not None else None
    limit = (cap.eps, cap.delta) if cap is not None and cap.eps is not None else None
    return share_of(release, SHARE if share is None else share, limit)

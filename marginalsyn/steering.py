"""Steers a release to margins that are stated in public: post-processing, which costs nothing.

A user who wants half of the rows to be ill says so. Every row of the release is weighted by how
much likelier its values are under the stated margins (all at once by raking), and a new table is
made from the weighted rows: by drawing from them, or by a generator network trained on them
(Diesendruck et al. 2018). What the release holds besides the stated margins stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from marginalsyn import defaults
from marginalsyn.contract import Synthesis, check_rows
from marginalsyn.errors import MissingExtraError, UsageError
from marginalsyn.progress import Progress, Silent
from marginalsyn.registry import needed_part
from marginalsyn.release.folder import Release
from marginalsyn.release.sampling import sample
from marginalsyn.release.statement import Statement
from marginalsyn.table.codec import Codec
from marginalsyn.table.design import resample
from marginalsyn.table.keeping import record_redrawn
from marginalsyn.table.margins import code_of_label
from marginalsyn.table.schema import Schema
from marginalsyn.validation import first_of

METHODS = ("rows", "mmd", "cross-entropy")
# Fresh rows drawn from the release's model for each row that is wanted, at most, and in all.
MOST_FRESH = 30
MOST_ROWS = 2_000_000
_ROUNDS, _CLOSE = 1000, 1e-10

Margins = Mapping[str, np.ndarray]
"""For every steered column the share of each of its codes."""


def read_margins(stated: Mapping[str, Any], schema: Schema) -> dict[str, np.ndarray]:
    """Turn stated margins into shares of codes.

    Args:
        stated: for each column its shares: a list in the order of the column's codes (categories or
            bins, then OTHER and missing; what is left out at the end gets none), or a mapping from
            labels, of which those that are not named get none.
        schema: of the rows.

    Raises:
        UsageError: an unknown column or label, or shares that are not.

    Example:
        >>> read_margins({"ill": [0.5, 0.5]}, schema)
        {'ill': array([0.5, 0.5])}
    """
    if not stated:
        raise UsageError("target must name one column or more, such as label=0.5/0.5")
    found = {}
    for name, given in stated.items():
        column = schema.column(name)
        labels = column.labels()
        shares = np.zeros(len(labels))
        if isinstance(given, Mapping):
            for label, share in given.items():
                code = code_of_label(column, label)
                if code is None:
                    known = first_of(labels, 12)
                    raise UsageError(f"target ({name}: {label}) must be one of: {known}")
                shares[code] = _share(name, share)
        elif isinstance(given, Sequence) and not isinstance(given, str):
            if not 1 <= len(given) <= len(labels):
                raise UsageError(
                    f"target ({name}) must have at most {len(labels)} shares, in this order: "
                    f"{', '.join(labels)}"
                )
            shares[: len(given)] = [_share(name, share) for share in given]
        else:
            raise UsageError(f"target ({name}) must be a list of shares or a mapping of labels")
        if not math.isclose(shares.sum(), 1.0, abs_tol=0.005):
            raise UsageError(
                f"target ({name}) must have shares that sum to 1, not {shares.sum():g}"
            )
        found[name] = shares / shares.sum()
    return found


def rake(codes: np.ndarray, margins: Margins, schema: Schema) -> np.ndarray:
    """Weights of mean 1 under which rows of codes have all the stated margins.

    Iterative proportional fitting: of all such weights, those of least divergence from even ones.

    Raises:
        UsageError: no row has a value that shall have a share, or the margins contradict each
            other on these rows.
    """
    columns = {name: codes[:, schema.names.index(name)] for name in margins}
    for name, shares in margins.items():
        seen = np.bincount(columns[name], minlength=shares.size) > 0
        missing = np.flatnonzero((shares > 0) & ~seen)
        if missing.size:
            label = schema.column(name).labels()[missing[0]]
            raise UsageError(
                f"target ({name}: {label}) must be among the synthetic rows, none of which has it; "
                "state a share of 0 for it"
            )
    weights = np.full(len(codes), 1.0 / len(codes))
    for _ in range(_ROUNDS):
        gap = 0.0
        for name, shares in margins.items():
            own = np.bincount(columns[name], weights, minlength=shares.size)
            gap = max(gap, float(np.abs(own - shares).sum()))
            factor = np.divide(shares, own, out=np.zeros_like(own), where=own > 0)
            weights = weights * factor[columns[name]]
        if gap < _CLOSE:
            return weights * (len(codes) / weights.sum())
    raise UsageError(
        f"target ({', '.join(margins)}) must have margins that rows like the synthetic ones can "
        f"have at once; after {_ROUNDS} rounds of raking they still miss by {gap:.3g}"
    )


def steer(
    release: Release,
    stated: Mapping[str, Any],
    *,
    method: str = defaults.STEER,
    rows: int | None = None,
    rng: np.random.Generator,
    options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> tuple[Synthesis, Statement]:
    """Make a table with stated margins from a release; ``Release.write`` takes what it returns.

    Nothing private is read. The statement has the release's charges, all of them and no more.

    Args:
        release: the release to start from.
        stated: the margins, see :func:`read_margins`. They must be public knowledge or a wish,
            never counted on the private rows.
        method: ``rows`` draws from the release's rows, or from fresh ones of its model if it keeps
            one; ``mmd`` and ``cross-entropy`` train a generator network on its weighted rows.
        rows: how many; as many as the release has if None.
        rng: draws; it protects nothing.
        options: of :class:`~marginalsyn.plugins.networks.weighted_generator.WeightedGenerator`.
        progress: reports what happens; silent by default.

    Example:
        >>> from marginalsyn.release.folder import Release
        >>> release = Release.read("release")
        >>> synthesis, statement = steer(release, {"ill": [0.5, 0.5]}, rng=np.random.default_rng(0))
        >>> statement.eps == release.statement.eps
        True
    """
    if method not in METHODS:
        raise UsageError(f"method ({method}) must be one of {', '.join(METHODS)}")
    if options and method == "rows":
        raise UsageError(
            "options are for a generator network: choose a method that trains one, mmd or "
            "cross-entropy"
        )
    check_rows(rows)
    progress = progress or Silent()
    schema, frame = release.schema, release.frame()
    margins = read_margins(stated, schema)
    count = len(frame) if rows is None else rows
    given = Codec(schema).encode(frame)
    weights = rake(given, margins, schema)
    pool = given
    if method == "rows":
        # So many rows of the release's model that few must be drawn twice; its own without one.
        copies = float(weights.max()) * count / len(given)
        if release.model() is not None and copies > 1:
            wanted = min(math.ceil(min(copies, MOST_FRESH) * len(given)), MOST_ROWS)
            fresh = Codec(schema).encode(sample(release, wanted, rng))
            pool = complete(fresh, given, margins, schema)
    else:
        try:
            import jax  # noqa: F401
        except ImportError as error:
            raise MissingExtraError(f"method '{method}'", "networks") from error
        made = needed_part("steering-network", f"method '{method}'")
        fresh = made(given, weights, schema, method, count, rng, options or {}, progress)
        pool = complete(fresh, given, margins, schema)
    progress.report("generate", fraction=0.95, text="rows")
    codes = draw(pool, margins, schema, count, rng)
    with record_redrawn() as redrawn:
        steered = Codec(schema).decode(codes, rng)
    wish = {name: [round(float(s), 6) for s in shares] for name, shares in margins.items()}
    note = {"margins": wish, "method": method, **dict(options or {}), "from_rows": len(frame)}
    if redrawn:
        note["redrawn_for_rules"] = dict(redrawn)
    warning = (
        f"The margins of {', '.join(margins)} were stated by whoever steered this release; they "
        "say nothing about the private table."
    )
    statement = release.statement.extended(
        warnings=[warning],
        notes={"steered": note},
        libraries={} if method == "rows" else {"jax": "trains the generator network"},
    )
    return Synthesis(frame=steered, measurements=release.measurements()), statement


def draw(
    pool: np.ndarray, margins: Margins, schema: Schema, rows: int, rng: np.random.Generator
) -> np.ndarray:
    """Rows of codes from a pool, with the stated margins up to rounding, in random order."""
    weights = rake(pool, margins, schema)
    # Rows that agree on the steered columns stand together, so that each group gets its share.
    keys = [pool[:, schema.names.index(name)] for name in margins]
    order = np.lexsort((rng.random(len(pool)), *keys))
    picked = resample(weights[order], "systematic", rng, rows)
    return pool[order[rng.permutation(picked)]]


def complete(codes: np.ndarray, source: np.ndarray, margins: Margins, schema: Schema) -> np.ndarray:
    """The rows, with those of the source where a value that shall have a share is missing."""
    for name, shares in margins.items():
        seen = np.bincount(codes[:, schema.names.index(name)], minlength=shares.size)
        if ((shares > 0) & (seen == 0)).any():
            return np.concatenate([codes, source])
    return codes


def _share(name: str, given: Any) -> float:
    number = isinstance(given, int | float) and not isinstance(given, bool)
    if not number or not 0 <= given <= 1:
        raise UsageError(f"target ({name}: {given}) must be a share from 0 to 1")
    return float(given)

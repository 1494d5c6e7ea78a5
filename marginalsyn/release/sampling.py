"""More rows from a model that is there: post-processing, by the method that made the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from marginalsyn.contract import Duties, Model, check_rows
from marginalsyn.errors import PluginError, ReleaseError, UsageError
from marginalsyn.registry import GENERATORS, find
from marginalsyn.release.folder import Release
from marginalsyn.release.staging import as_written
from marginalsyn.table.conditions import Condition, kept_rows, on_sources, read_conditions
from marginalsyn.table.frames import frame_problems
from marginalsyn.table.keeping import keep_rules, with_followers
from marginalsyn.table.schema import Schema
from marginalsyn.table.unit import draw_rows, rows_for

# Rows that are drawn at a time: a frame of them takes a tenth of a gigabyte or two.
LOT = 2**20


def sample(
    release: Release,
    rows: int | None,
    rng: np.random.Generator,
    *,
    where: str | Mapping[str, Any] | None = None,
) -> pd.DataFrame:
    """Draw more rows from a release's model: post-processing, so it costs no privacy.

    Args:
        release: a release whose generator keeps a model.
        rows: how many; None takes the model's estimate of the table's size.
        rng: draws the rows; it may be seeded, for it protects nothing.
        where: what the rows must hold, such as ``"sex=female,age=40..50"`` or ``{"age": (40,
            50)}``; see :func:`marginalsyn.table.read_conditions`. Models of marginals give such
            rows exactly as they stand to each other in the model; of other models, those that
            agree are picked out.

    Returns:
        Rows typed by the release's schema.

    Example:
        >>> from marginalsyn.release.folder import Release
        >>> len(sample(Release.read("release"), 1000, np.random.default_rng()))
        1000
    """
    lots = list(sample_lots(release, rows, rng, where=where))
    return lots[0] if len(lots) == 1 else pd.concat(lots, ignore_index=True)


def sample_lots(
    release: Release,
    rows: int | None,
    rng: np.random.Generator,
    *,
    where: str | Mapping[str, Any] | None = None,
) -> Iterator[pd.DataFrame]:
    """As :func:`sample`, in lots that memory holds; persons with all their rows are one lot."""
    check_rows(rows)
    model = release.model()
    if model is None:
        steered = "steered" in release.statement.notes
        why = "steer its source again" if steered else f"{release.statement.generator} keeps none"
        raise ReleaseError(f"release ({release.path}) must hold a model to sample from; {why}")
    together = release.schema.unit or release.schema.survey_weight
    for size in [rows] if rows is None or together else lot_sizes(rows):
        yield draw(model, release.schema, size, rng, where)


def lot_sizes(rows: int) -> list[int]:
    """The sizes of lots of about as many rows each."""
    lots = -(-rows // LOT)
    return [rows * (k + 1) // lots - rows * k // lots for k in range(lots)]


def draw(
    model: Model,
    schema: Schema,
    rows: int | None,
    rng: np.random.Generator,
    where: str | Mapping[str, Any] | None = None,
) -> pd.DataFrame:
    """Draw rows from a model by the method that made it, and check them against the schema."""
    check_rows(rows)
    conditions = None if where is None else read_conditions(where, schema)
    method = find(GENERATORS, model.kind, reading=True)
    with as_written(f"model ({model.kind})"):
        frame = _drawn(method, model, schema, rows, rng, conditions)
    problems = frame_problems(frame, schema)
    if problems:
        raise PluginError(f"method '{model.kind}' broke its contract: {'; '.join(problems)}")
    return frame


def _kept(
    frame: pd.DataFrame,
    schema: Schema,
    rng: np.random.Generator,
    conditions: Mapping[str, Condition],
) -> pd.DataFrame:
    """Rows that keep the schema's rules, and the conditions still."""
    if not schema.rules:
        return frame
    frame = keep_rules(frame, schema, rng)
    agrees = np.ones(len(frame), bool)
    for condition in conditions.values():
        agrees &= condition.holds(frame, schema)
    if agrees.all():
        return frame
    if not agrees.any():
        raise UsageError(
            f"where ({', '.join(conditions)}) must leave rows that keep the schema's rules "
            f"({'; '.join(schema.rules)}): none was found"
        )
    place = np.arange(len(frame))
    place[~agrees] = rng.choice(np.flatnonzero(agrees), int((~agrees).sum()))
    return frame.iloc[place].reset_index(drop=True)


def _drawn(
    method: Any,
    model: Model,
    schema: Schema,
    rows: int | None,
    rng: np.random.Generator,
    conditions: Mapping[str, Condition] | None,
) -> pd.DataFrame:
    """Rows of the model; where it is one of persons, as a table has their rows."""
    names = model.followers
    own = schema.without(names)
    conditions = conditions and on_sources(conditions, schema, names)

    def draw(n: int | None) -> pd.DataFrame:
        found: pd.DataFrame
        if conditions is None:
            found = method.sample(model, own, n, rng)
        elif exact := Duties(method).sample_where:
            found = exact(model, own, n, rng, conditions)
        else:
            found = kept_rows(lambda n: method.sample(model, own, n, rng), own, n, conditions)
        found = with_followers(found, schema, names)
        return _kept(found, schema, rng, conditions or {})

    unit = schema.unit
    if unit is None:
        return draw(rows)
    if rows is None:
        some = draw(None)
        rows = rows_for(some, unit, len(some))
    return draw_rows(draw, unit, rows, rng)

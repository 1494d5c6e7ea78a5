"""What mended faults of speed and memory cost before and cost now, both in one run.

    python benchmarks/faults.py bins means infer lots

``bins``: codes of 24,000 numbers in 8,192 even bins, by arithmetic and by a search. ``means``: main
effects taken off the pairs of Adult. ``infer``: drafts of 30, 60, 120 and 300 columns, in lots and,
up to 60, by one query. ``lots``: three million rows of an independent release of Adult, written in
lots and at once, each in a process of its own. Processor seconds; peaks of memory in MB.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pandas as pd

from marginalsyn import datasets
from marginalsyn.contract import make_config
from marginalsyn.drafting import survey
from marginalsyn.drafting.draft import draft_schema
from marginalsyn.graphical.shrunken_fit import take_off_means
from marginalsyn.host import generate
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.noise import make_noise
from marginalsyn.release.sampling import draw, lot_sizes
from marginalsyn.table import encoding
from marginalsyn.table.engine import private_engine
from marginalsyn.table.frames import write_csv
from marginalsyn.table.numeric import ContinuousColumn
from marginalsyn.table.schema import Schema


def seconds(work: Callable[[], object], times: int = 1) -> float:
    """Processor seconds of one time."""
    started = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - started) / times


def compare(what: str, before: float, now: float, unit: str) -> None:
    print(
        f"{what}: {before:.3g} {unit} before, {now:.3g} now, {before / now:.3g} times", flush=True
    )


def bins() -> None:
    """Even bins, by arithmetic and by a search."""
    column = ContinuousColumn(name="pay", lower=0, upper=200_000, bins=8192)
    engine, rng = private_engine(), np.random.default_rng(0)
    table = ibis.memtable(pd.DataFrame({"pay": rng.lognormal(9, 1, 24_000)}))

    def codes() -> None:
        engine.to_pyarrow(table.select(code=encoding.code(table["pay"], column, ())))

    codes()
    now, even = seconds(codes, 5), encoding.even_bins
    encoding.even_bins = lambda _: False
    compare("codes of a grid of 8,192 cells", seconds(codes), now, "s")
    encoding.even_bins = even


def means() -> None:
    """Main effects taken off every pair."""

    def before(values: np.ndarray) -> np.ndarray:
        found = values + (values.ndim - 1) * values.mean()
        for axis in range(values.ndim):
            others = tuple(a for a in range(values.ndim) if a != axis)
            found -= values.mean(axis=others, keepdims=True)
        return found

    sizes, rng = list(datasets.schema("adult").domain.values()), np.random.default_rng(0)
    pairs = [rng.normal(size=(a, b)) for i, a in enumerate(sizes) for b in sizes[:i]]
    assert all(np.array_equal(before(pair), take_off_means(pair)) for pair in pairs)
    old, new = (
        seconds(lambda take=take: [take(pair) for pair in pairs], 50)
        for take in (before, take_off_means)
    )
    compare("main effects of Adult's pairs", 1e3 * old, 1e3 * new, "ms")


def infer() -> None:
    """Drafts by the number of columns."""
    rng, rows = np.random.default_rng(0), 5000
    kinds: list[Callable[[], object]] = [
        lambda: rng.integers(0, 5, rows),
        lambda: rng.normal(50, 10, rows).round(2),
        lambda: rng.choice(["a", "b", "c"], rows),
        lambda: rng.integers(0, 1000, rows),
        lambda: rng.choice(["yes", "no"], rows),
        lambda: pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, rows), "D"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        for columns in (30, 60, 120, 300):
            path = Path(folder) / f"{columns}.csv"
            wide = {f"c{place}": kinds[place % len(kinds)]() for place in range(columns)}
            pd.DataFrame(wide).to_csv(path, index=False)
            now = seconds(lambda path=path: draft_schema(path))
            if columns > 60:
                print(f"{columns} columns: {now:.3g} s", flush=True)
                continue
            most, survey.MOST_COLUMNS = survey.MOST_COLUMNS, 10**6
            compare(f"{columns} columns", seconds(lambda path=path: draft_schema(path)), now, "s")
            survey.MOST_COLUMNS = most


def _written(model: Any, schema: Schema, sizes: list[int], peaks: Any) -> None:
    """Rows drawn and written to nowhere, with the peak of memory."""
    rng = np.random.default_rng(0)
    with Path(os.devnull).open("wb") as handle:
        for size in sizes:
            write_csv(draw(model, schema, size, rng), handle)
    peaks.put(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def lots() -> None:
    """Peaks of memory, in lots and at once."""
    table = datasets.private_table("adult")
    made, _ = generate(table, make_config("independent", {}), Budget(eps=1), noise=make_noise(0))
    context, rows, found = get_context("spawn"), 3_000_000, []
    for sizes in ([rows], lot_sizes(rows)):
        peaks = context.Queue()
        job = context.Process(target=_written, args=(made.model, table.schema, sizes, peaks))
        job.start()
        found.append(peaks.get())
        job.join()
    compare("three million rows", found[0], found[1], "MB")


if __name__ == "__main__":
    for part in sys.argv[1:] or ["bins", "means", "infer", "lots"]:
        {"bins": bins, "means": means, "infer": infer, "lots": lots}[part]()

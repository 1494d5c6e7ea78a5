"""What a run on many columns will take: processor seconds and memory, from public facts alone.

Fitted to runs of ``benchmarks/wide_table.py``; machines differ, and the rows are not known before
they are counted, so it is to be right within a factor of two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marginalsyn.generators.batch_selection import NARROW, ONE_WAY_WIDE, one_way_share
from marginalsyn.graphical.sampling import MOST

# Taken for the number of rows where none is given.
ASSUMED_ROWS = 50_000
# Seconds for each: start, cell read or drawn, row of a pair counted, column fitted, pair of codes.
_START, _VALUE, _COUNT, _COLUMN, _CODES = 1.0, 4e-7, 1.4e-9, 0.05, 2.5e-6
# MB: the process, each value of the table, each pair of codes, each code that pairs are judged by.
_BASE_MB, _VALUE_MB, _CODES_MB, _CODE_MB = 330.0, 3e-5, 3e-6, 0.03


def forecast(
    domain: Mapping[str, int], rows: int | None, *, batches: bool = True
) -> dict[str, Any]:
    """Facts for a plan: what a run by batches takes, or a spanning tree.

    Args:
        domain: sizes of the columns.
        rows: about how many there are; 50,000 if that is not given.
        batches: whether pairs are judged again and again, or once.
    """
    n, columns, codes = rows or ASSUMED_ROWS, len(domain), sum(domain.values())
    seconds = _START + _VALUE * columns * n + _COUNT * columns**2 * n + _COLUMN * columns / 2
    memory = _BASE_MB + _VALUE_MB * columns * n
    if batches:
        # The less is left for pairs, the fewer batches there are.
        batch_share = (1 - one_way_share(columns)) / (1 - ONE_WAY_WIDE)
        seconds += _COLUMN * columns / 2 + _CODES * codes**2 * batch_share
        memory += _CODES_MB * codes**2 + _CODE_MB * codes
    return {
        "predicted seconds": _two_digits(seconds),
        "predicted MB": _two_digits(memory),
        "predicted for": f"{n:,} rows, one processor",
    }


# A chain's seconds: its compiling, and for each sweep of a row over a code and a code of a table.
_COMPILE, _CODE, _TABLE_CODE = 3.0, 8e-9, 1.0e-9
# The sweeps that most fits need, with those that draw the rows.
_USUAL_SWEEPS = 120


def forecast_chain(domain: Mapping[str, int], sweeps: int) -> dict[str, Any]:
    """Facts for a plan: what a chain of rows would take over all pairs, if it pays.

    Example:
        >>> forecast_chain(dict.fromkeys("abcdefgh", 20), 300)
        {'a chain of rows, if it pays, takes': 'up to about 24 s and 49 MB more'}
    """
    codes, columns = sum(domain.values()), len(domain)
    row = _CODE * codes + _TABLE_CODE * 2 * codes * (columns - 1)
    seconds = _COMPILE + row * MOST * min(sweeps, _USUAL_SWEEPS)
    cells = (codes**2 - sum(size**2 for size in domain.values())) / 2
    # Twenty sets of rows, the rows and their draws; potentials in six copies.
    memory = 40.0 + 44e-6 * columns * MOST / 2 + 5e-5 * cells
    about = f"{_two_digits(seconds):g} s and {_two_digits(memory):g} MB more"
    return {"a chain of rows, if it pays, takes": f"up to about {about}"}


def advise(columns: int, method: str) -> tuple[str, ...]:
    """A warning where a method that judges marginals one by one meets many columns."""
    if columns <= NARROW:
        return ()
    return (
        f"{method} will be slow on {columns} columns (more than {NARROW}): aim and auto, at degree "
        "2 and without a workload, choose pairs by batches, with lower errors in less time",
    )


def _two_digits(value: float) -> float:
    return float(f"{value:.2g}")

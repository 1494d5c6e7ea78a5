"""Moments of wide tables: sets that are not compared are not listed either."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest

from marginalsyn import Schema
from marginalsyn.certificates.linear_models import Frame
from marginalsyn.plugins.reports import bounds_report
from marginalsyn.table.design import CodedRows


def test_too_many_sets_are_left_out_before_all_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = 12
    domain = {f"c{j}": 3 if j else 2 for j in range(columns)}
    schema = Schema.from_domain(domain).model_copy(update={"label": "c0"})
    rows = pd.DataFrame({name: [j % size for j in range(12)] for name, size in domain.items()})
    table, listed = CodedRows.of(rows, schema), 0
    listing = bounds_report._sets

    def counted(*args: Any) -> Iterator[Any]:
        nonlocal listed
        for one in listing(*args):
            listed += 1
            yield one

    monkeypatch.setattr(bounds_report, "_sets", counted)
    monkeypatch.setattr(bounds_report, "MOST_COMBINATIONS", 400)
    found = bounds_report.moment_errors(Frame.of(schema), table, table, orders=(2, 4))
    assert set(found.products) == {2}
    assert found.label == pytest.approx(0, abs=1e-12)
    assert 400 < listed < 1000

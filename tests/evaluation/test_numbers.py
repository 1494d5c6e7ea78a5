"""The report of numbers: statistics against numpy, what chance does, and what the verdict says."""

from __future__ import annotations

import numpy as np
import pandas as pd

from marginalsyn import Evaluation, Schema, evaluate
from marginalsyn.evaluation.verdict import CARE, FIT, NUMBERS, UNFIT
from marginalsyn.plugins.reports.numbers_report import NumbersReport

SCHEMA = Schema(
    columns=[
        {"kind": "continuous", "name": "crp", "lower": 0.0, "upper": 400.0, "nullable": True},
        {"kind": "date", "name": "day", "lower": "2020-01-01", "upper": "2020-12-31"},
        {"kind": "categorical", "name": "ward", "categories": ["A", "B"], "other": False},
    ]
)


def rows(seed: int, count: int = 3000, stretch: float = 1.0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    crp = np.minimum(stretch * rng.lognormal(1.5, 1.0, count), 400)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 300, count), "D")
    crp[:50] = np.nan
    ward = rng.choice(["A", "B"], count)
    return pd.DataFrame({"crp": crp, "day": days.strftime("%Y-%m-%d"), "ward": ward})


def found(synthetic: pd.DataFrame, weights: np.ndarray | None = None) -> Evaluation:
    return evaluate(synthetic, rows(0), SCHEMA, weights=weights, reports=["numbers"])


def word(one: Evaluation, place: int = 0) -> str:
    (uses,) = one.fitness().values()
    return [use for use in uses if use.use == NUMBERS][place].word


def test_statistics_are_those_of_the_rows() -> None:
    synthetic = rows(1)
    block = found(synthetic).reports["numbers"]["synthetic"]
    crp, day = block["columns"]
    for frame, cells in ((rows(0), crp["real"]), (synthetic, crp["variants"][0])):
        values = frame["crp"].dropna().to_numpy()
        assert np.isclose(cells["mean"], values.mean())
        for name, level in (("5%", 0.05), ("median", 0.5), ("95%", 0.95)):
            expected = np.quantile(values, level, method="inverted_cdf")
            assert np.isclose(cells[name], expected, rtol=1e-9), name
    assert day["real"]["median"] == sorted(rows(0)["day"])[1499]
    assert [column["column"] for column in block["columns"]] == ["crp", "day"]


def test_weights_count() -> None:
    synthetic = rows(1, stretch=2.0)
    double = pd.concat([synthetic, rows(2)], ignore_index=True)
    # Weights of zero leave the stretched rows out.
    one = found(double, np.repeat([0.0, 1.0], 3000))
    plain = found(rows(2)).reports["numbers"]["synthetic"]["columns"][0]["variants"][0]
    weighted = one.reports["numbers"]["synthetic"]["columns"][0]["variants"][1]
    for name in ("mean", "median", "5%", "95%"):
        assert np.isclose(weighted[name], plain[name])
    assert (word(one), word(one, 1)) != (FIT, FIT)


def test_the_verdict_counts_a_column_that_is_off() -> None:
    good, off, far = (found(rows(3, stretch=stretch)) for stretch in (1.0, 1.1, 4.0))
    assert (word(good), word(off), word(far)) == (FIT, CARE, UNFIT)
    assert "crp" in far.worst["synthetic"]["numbers"][0]
    # Other real rows are about as far off as chance says.
    for column in good.reports["numbers"]["synthetic"]["columns"]:
        assert column["variants"][0]["error"] < 4 * column["fresh"]
    page = far.to_html()
    assert "Not suitable for" in page
    assert "What to change" in page


def test_a_quantile_next_to_a_jump_is_no_error() -> None:
    """4.9% or 5.1% of rows with the last code: the 95% quantiles differ by a code."""
    schema = Schema(
        columns=[
            {"kind": "integer", "name": "type", "lower": 1, "upper": 9},
            {"kind": "categorical", "name": "ward", "categories": ["A", "B"], "other": False},
        ]
    )

    def coded(share: float) -> pd.DataFrame:
        last = round(4000 * share)
        types = np.repeat([1, 3], [4000 - last, last])
        return pd.DataFrame({"type": types, "ward": np.resize(["A", "B"], 4000)})

    def error(share: float) -> float:
        one = evaluate(coded(share), coded(0.049), schema, reports=["numbers"])
        return one.reports["numbers"]["synthetic"]["columns"][0]["variants"][0]["error"]

    assert error(0.051) < 0.05 < 0.15 < error(0.09)


def test_values_of_few_rows_behind_many_zeros_are_no_error() -> None:
    """Both 95% quantiles are zero; what the 4.7% beyond them have is not between zero and them."""
    schema = Schema(columns=[{"kind": "integer", "name": "loss", "lower": 0, "upper": 4000}])

    def losses(*tail: int) -> pd.DataFrame:
        return pd.DataFrame({"loss": np.resize(tail, 4000) * (np.arange(4000) >= 3812)})

    def error(made: pd.DataFrame) -> float:
        one = evaluate(made, losses(10, 2990), schema, reports=["numbers"])
        return one.reports["numbers"]["synthetic"]["columns"][0]["variants"][0]["error"]

    assert error(losses(1500)) < 0.01
    assert 0.05 < error(losses(3000)) < 0.2  # the mean


def test_the_line_on_a_column_shows_what_is_off() -> None:
    def shifted(real: float, made: float) -> list[str]:
        lat = np.linspace(52.3, 52.7, 400)
        schema = Schema(columns=[{"kind": "continuous", "name": "lat", "lower": 50, "upper": 55}])
        tables = [np.where(np.arange(400) > 370, end, lat) for end in (made, real)]
        both = [pd.DataFrame({"lat": table}) for table in tables]
        one = evaluate(*both, schema, reports=["numbers"])
        return NumbersReport().verdict(one.reports["numbers"]["synthetic"]).worst["numbers"]

    assert shifted(52.8, 53.4) == ["lat 4.56 (mean 52.6, really 52.5; 95% 53.4, really 52.8)"]
    assert shifted(52.8, 52.8) == ["lat 0"]

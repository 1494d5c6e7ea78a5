"""Columns of every worded kind, each with texts that try it: shared by the tests of all engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from marginalsyn import Schema

EURO = {"decimal": ",", "thousands": "."}
# Kind and fields; then each text with what it means: None is missing.
CASES: dict[str, tuple[dict[str, Any], dict[str | None, Any]]] = {
    "day": (
        {"kind": "date", "lower": "1900-01-01", "upper": "2099-12-31", "format": "%d.%m.%Y"},
        {
            "01.02.2020": "2020-02-01",
            "1.2.2020": "2020-02-01",
            "29.02.2020": "2020-02-29",
            "29.02.2021": None,
            "29.02.1900": None,
            "29.02.2000": "2000-02-29",
            "31.04.2020": None,
            "00.01.2020": None,
            "01.13.2020": None,
            "2020-02-01": "2020-02-01",
            "2020-02-01 23:59:59": "2020-02-01",
            "31.12.1969": "1969-12-31",
            "01x02x2020": None,
            "01.02.20": None,
            "": None,
            None: None,
            "x": None,
        },
    ),
    "american": (
        {"kind": "date", "lower": "1969-01-01", "upper": "2068-12-31", "format": "%m/%d/%y"},
        {
            "12/31/68": "2068-12-31",
            "12/31/69": "1969-12-31",
            "1/2/03": "2003-01-02",
            "13/1/03": None,
            "2003-01-02": "2003-01-02",
        },
    ),
    "short": (
        {"kind": "date", "lower": "1924-01-01", "upper": "2023-06-30", "format": "%d.%m.%y"},
        {f"01.07.{y:02}": f"{1900 + y + 100 * (y < 24)}-07-01" for y in range(100)},
    ),
    "shorter": (
        {
            **{"kind": "date", "lower": "1801-01-01", "upper": "1999-12-31", "format": "%Y-%m-%d"},
            "also": ("%d.%m.%y",),
        },
        {f"01.07.{y:02}": f"{1900 + y}-07-01" for y in range(100)},
    ),
    "named": (
        {"kind": "date", "lower": "1900-01-01", "upper": "2099-12-31", "format": "%-d %b %Y"},
        {
            "1 Mar 2020": "2020-03-01",
            "1 MARCH 2020": "2020-03-01",
            "31 may 2020": "2020-05-31",
            "1 Mrz 2020": None,
            "32 Mar 2020": None,
        },
    ),
    "ordinal": (
        {"kind": "date", "lower": "1900-01-01", "upper": "2099-12-31", "format": "%Y%j"},
        {"2020366": "2020-12-31", "2021366": None, "2021001": "2021-01-01", "2021000": None},
    ),
    "moment": (
        {
            "kind": "datetime",
            "lower": "2000-01-01",
            "upper": "2030-12-31",
            "format": "%d/%m/%Y %I:%M %p",
        },
        {
            "01/02/2020 12:05 AM": "2020-02-01T00:05",
            "01/02/2020 12:05 pm": "2020-02-01T12:05",
            "1/2/2020 3:05 PM": "2020-02-01T15:05",
            "1/2/2020 13:05 PM": None,
            "2020-02-01 15:05:30": "2020-02-01T15:05",
            "2020-02-01T15:05": "2020-02-01T15:05",
            "2020-02-01": "2020-02-01T00:00",
            "1/2/2020 0:05 PM": None,
        },
    ),
    "zoned": (
        {
            "kind": "datetime",
            "lower": "2000-01-01",
            "upper": "2030-12-31",
            "format": "%Y-%m-%dT%H:%M:%S%z",
            "zone": "Europe/Berlin",
        },
        {
            "2020-07-01T02:00:00+02:00": "2020-07-01T00:00:00",
            "2020-07-01T02:00:00+0200": "2020-07-01T00:00:00",
            "2020-07-01T02:00:00Z": "2020-07-01T02:00:00",
            "2020-06-30 19:00:00-05:30": "2020-07-01T00:30:00",
            "2020-07-01 02:00:00+02": "2020-07-01T00:00:00",
            "2020-07-01 02:00:00.25": "2020-07-01T02:00:00",
            "2020-07-01T25:00:00+02:00": None,
            "2020-07-01T02:60:00+02:00": None,
        },
    ),
    "clock": (
        {"kind": "time", "lower": "00:00", "upper": "23:59", "format": "%H:%M"},
        {
            "08:30": "08:30",
            "8:30": "08:30",
            "8:30:59": "08:30",
            "24:00": None,
            "08:60": None,
            "0830": None,
        },
    ),
    "mixed days": (
        {
            "kind": "date",
            "lower": "1969-01-01",
            "upper": "2068-12-31",
            "format": "%d.%m.%Y",
            "also": ["%d.%m.%y", "%m/%d/%Y", "%d.%m.%Y %H:%M"],
        },
        {
            "01.02.2020": "2020-02-01",
            "1.2.20": "2020-02-01",
            "1.2.69": "1969-02-01",
            "02/01/2020": "2020-02-01",
            "2020-02-01": "2020-02-01",
            "01.02.2020 13:00": "2020-02-01",
            "31.02.20": None,
            "1/2/20": None,
            "": None,
        },
    ),
    "height": (
        {
            "kind": "continuous",
            "lower": 0,
            "upper": 3,
            "decimals": 2,
            "format": {"decimal": ",", "suffix": " m"},
            "also": [
                {"suffix": " cm", "factor": 0.01},
                {"joint": "'", "parts": 12, "suffix": '"', "factor": 0.0254},
                {"suffix": " m"},
            ],
            "below": 0.5,
            "missing_tokens": [-9],
        },
        {
            "1,78 m": 1.78,
            "1,78": 1.78,
            "1.78 m": 1.78,
            "178 cm": 1.78,
            "178,5 cm": None,
            "5'10\"": 1.778,
            " 5 ' 10.5 \"": 1.7907,
            "6'": 1.8288,
            "'6\"": None,
            "<0,5 m": 0,
            "<50 cm": 0,
            "< 60 cm": 0.6,
            "-9": None,
            "1.78 km": None,
        },
    ),
    "euro": (
        {"kind": "continuous", "lower": -10_000, "upper": 10_000, "decimals": 2, "format": EURO},
        {
            "1.234,50": 1234.5,
            "1234,5": 1234.5,
            "-1.234,50": -1234.5,
            "1234.5": None,
            "12,5,0": None,
            "1.23,5": None,
            ",5": 0.5,
            "7": 7,
            "+7": 7,
            "0,1": 0.1,
            "1e3": None,
            "": None,
            "x": None,
            "-": None,
            "--5": None,
        },
    ),
    "dollar": (
        {
            "kind": "continuous",
            "lower": -10_000,
            "upper": 10_000,
            "decimals": 2,
            "format": {"thousands": ",", "prefix": "$ "},
        },
        {
            "$ 1,234.50": 1234.5,
            "$1234.50": 1234.5,
            "-$ 5.00": -5,
            "- $5": -5,
            "$-5": -5,
            "5": 5,
            "€ 5": None,
            "$ 12,34": None,
            "$": None,
        },
    ),
    "blank": (
        {
            "kind": "integer",
            "lower": 0,
            "upper": 9_999_999,
            "format": {"thousands": " ", "suffix": " €"},
        },
        {"1 234 567 €": 1234567, "12 €": 12, "1 23 €": None, "12": 12, "1234567€": 1234567},
    ),
    "percent": (
        {"kind": "continuous", "lower": 0, "upper": 100, "decimals": 1, "format": {"suffix": "%"}},
        {"45 %": 45, "45%": 45, "45.5": 45.5, "45,5%": None, "1e1%": 10},
    ),
    "limits": (
        {
            "kind": "continuous",
            "lower": 0,
            "upper": 500,
            "decimals": 1,
            "below": 0.3,
            "above": 200,
            "bins": [1, 10, 100],
        },
        {
            "<0.3": 0,
            "< 0.3": 0,
            "<=0.1": 0,
            "<5": 5,
            ">200": 500,
            ">300": 500,
            ">100": 100,
            "0.3": 0.3,
            "0.2": 0.2,
            "200": 200,
            "200.1": 200.1,
            "<x": None,
            "<": None,
            "<<1": None,
        },
    ),
    "coded": (
        {"kind": "integer", "lower": 0, "upper": 120, "missing_tokens": ["unknown", -99]},
        {"unknown": None, "-99": None, "-98": -98, "44": 44, "44.0": 44},
    ),
    "sex": (
        {
            "kind": "categorical",
            "categories": ["male", "female"],
            "synonyms": {"m": "male", "f": "female", "2": "female"},
            "ignore_case": True,
            "missing_tokens": ["9"],
        },
        {
            "m": "male",
            "M": "male",
            "MALE": "male",
            "F": "female",
            "2": "female",
            "x": "OTHER",
            "9": None,
            "mal": "OTHER",
            " male ": "male",
        },
    ),
    "truth": (
        {"kind": "boolean", "true_label": "ja", "false_label": "nein", "synonyms": {"j": "ja"}},
        {"ja": "ja", "j": "ja", "true": "ja", "0": None, "JA": None, "nein": "nein"},
    ),
}


def schema() -> Schema:
    return Schema(
        columns=tuple(
            {"name": name, "nullable": True, **fields} for name, (fields, _) in CASES.items()
        )
    )


def frame() -> pd.DataFrame:
    """A row for every text of the column that has most; shorter columns begin anew."""
    rows = max(len(texts) for _, texts in CASES.values())
    return pd.DataFrame(
        {
            name: np.resize(np.array([*texts], dtype=object), rows)
            for name, (_, texts) in CASES.items()
        },
        dtype="str",
    )

"""A hospital's table as hospitals have it: 18 columns, none of them clean; and the truth of it."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

ROWS = 3736
WARDS = ("Cardiology", "Surgery", "Neurology", "Oncology", "Paediatrics", "Emergency")
CODES = tuple(f"{a}{n:02}.{n % 7}" for a in "CEIJKMSZ" for n in range(3, 99, 8))
SEVERITY = ("mild", "moderate", "severe", "critical")
WORDS = ("cough", "pain", "stable", "follow", "up", "fever", "left", "since", "yesterday", "known")

# What a careful person would take every column for.
KINDS = {
    "patient_id": "identifier",
    "admitted": "date",
    "discharged_at": "datetime",
    "seen": "time",
    "age": "integer",
    "sex": "categorical",
    "zip": "categorical",
    "ward": "categorical",
    "diagnosis": "categorical",
    "bmi": "continuous",
    "weight": "continuous",
    "crp": "continuous",
    "cost": "continuous",
    "own_share": "continuous",
    "severity": "ordinal",
    "smoker": "boolean",
    "notes": "constant",
    "readmitted": "boolean",
}


def hospital(rows: int = ROWS, seed: int = 7) -> tuple[str, pd.DataFrame]:
    """The file's text, and the same rows as plain values."""
    rng = np.random.default_rng(seed)

    def gone(share: float) -> np.ndarray:
        return rng.random(rows) < share

    age = np.clip(rng.normal(56, 21, rows), 0, 101).astype(int)
    severity = np.clip(rng.normal(0.4 + age / 60, 0.9, rows), 0, 3.99).astype(int)
    admitted = pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 1095, rows), unit="D")
    stay = pd.to_timedelta(
        (1 + severity * 2 + rng.exponential(2, rows)) * 1440 // 5 * 5, unit="min"
    )
    seen = (rng.normal(13 * 60, 150, rows).clip(0, 1439) // 5 * 5).astype(int)
    zips = np.array([f"{z:05}" for z in rng.choice(99999, 40, replace=False) // 7])
    weight = np.clip(rng.normal(60 + age / 6, 14, rows), 2.5, 180).round(1)
    bmi = np.clip(weight / 2.9 + rng.normal(0, 1.5, rows), 10, 60).round(1)
    crp = rng.lognormal(0.4 + severity * 0.7, 1.4, rows).clip(0, 480).round(1)
    cost = (rng.lognormal(7.2 + severity * 0.5, 0.7, rows).clip(20, 250_000)).round(2)
    truth = pd.DataFrame(
        {
            "patient_id": [f"P-{n:06}" for n in rng.permutation(900_000)[:rows]],
            "admitted": admitted,
            "discharged_at": (admitted + stay).floor("min"),
            "seen": seen,
            "age": age.astype(float),
            "sex": rng.integers(0, 2, rows),
            "zip": rng.choice(zips, rows, p=_zipf(len(zips))),
            "ward": rng.choice(WARDS, rows, p=_zipf(len(WARDS))),
            "diagnosis": rng.choice(CODES, rows, p=_zipf(len(CODES))),
            "bmi": bmi,
            "weight": weight,
            "crp": crp,
            "cost": cost,
            "own_share": rng.choice([0, 5, 10, 20, 25, 50, 100], rows) * 1.0,
            "severity": severity,
            "smoker": rng.random(rows) < 0.27,
            "notes": [" ".join(rng.choice(WORDS, 7)) + f" {n}" for n in range(rows)],
            "readmitted": rng.random(rows) < 0.05 + 0.12 * severity,
        }
    ).astype({"smoker": object, "severity": object})
    shares = {"discharged_at": 0.04, "age": 0.03, "bmi": 0.08, "crp": 0.12, "smoker": 0.15}
    for name, share in {**shares, "severity": 0.02}.items():
        truth.loc[gone(share), name] = None
    return _spelt(truth, rng), truth


def _zipf(count: int) -> np.ndarray:
    weights = 1 / np.arange(1, count + 1)
    return weights / weights.sum()


def _spelt(truth: pd.DataFrame, rng: np.random.Generator) -> str:
    spelling = rng.choice(3, len(truth), p=[0.6, 0.3, 0.1])
    words = {0: ("m", "f"), 1: ("male", "female"), 2: ("M", "F")}
    columns = {
        "patient_id": truth["patient_id"],
        "admitted": truth["admitted"].dt.strftime("%d.%m.%Y"),
        "discharged_at": truth["discharged_at"].dt.strftime("%Y-%m-%d %H:%M"),
        "seen": [f"{m // 60:02}:{m % 60:02}" for m in truth["seen"]],
        "age": _known(truth["age"], lambda v: str(int(v)), "unknown"),
        "sex": [words[s][v] for s, v in zip(spelling, truth["sex"], strict=True)],
        "zip": truth["zip"],
        "ward": truth["ward"],
        "diagnosis": truth["diagnosis"],
        "bmi": _known(truth["bmi"], lambda v: f"{v:.1f}".replace(".", ","), ""),
        "weight": [f"{v:.1f} kg".replace(".", ",") for v in truth["weight"]],
        "crp": _known(
            truth["crp"],
            lambda v: "<0,3" if v < 0.3 else f"{v:.1f}".replace(".", ","),
            "unknown",
        ),
        "cost": [f"$ {v:,.2f}" for v in truth["cost"]],
        "own_share": [f"{v:.0f} %" for v in truth["own_share"]],
        "severity": _known(truth["severity"], lambda v: SEVERITY[int(v)], ""),
        "smoker": _known(truth["smoker"], lambda v: "yes" if v else "no", "unknown"),
        "notes": truth["notes"],
        "readmitted": ["Y" if v else "N" for v in truth["readmitted"]],
    }
    handle = io.StringIO()
    out = csv.writer(handle, delimiter=";", lineterminator="\n")
    out.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        out.writerow(
            ["" if value is None or value is pd.NaT or value != value else value for value in row]
        )
    return handle.getvalue()


def _known(values: pd.Series, spell: Any, absent: str) -> Sequence[str]:
    return [absent if pd.isna(value) else spell(value) for value in values]


def schema_data(truth: pd.DataFrame) -> dict[str, Any]:
    """The schema that a careful person would write, with public bounds."""
    euro = {"decimal": ","}
    return {
        "label": "readmitted",
        "positive": "Y",
        "missing_tokens": ["", "unknown"],
        "columns": [
            {"kind": "identifier", "name": "patient_id", "pattern": "P-{n:06}"},
            {
                "kind": "date",
                "name": "admitted",
                "lower": "2021-01-01",
                "upper": "2023-12-31",
                "format": "%d.%m.%Y",
                "bins": "month",
            },
            {
                "kind": "datetime",
                "name": "discharged_at",
                "lower": "2021-01-01",
                "upper": "2024-02-29",
                "format": "%Y-%m-%d %H:%M",
                "bins": "month",
                "nullable": True,
            },
            {
                "kind": "time",
                "name": "seen",
                "lower": "00:00",
                "upper": "23:59",
                "format": "%H:%M",
                "bins": "hour",
            },
            {
                "kind": "integer",
                "name": "age",
                "lower": 0,
                "upper": 109,
                "bins": 11,
                "nullable": True,
            },
            {
                "kind": "categorical",
                "name": "sex",
                "categories": ["m", "f"],
                "other": False,
                "synonyms": {"male": "m", "female": "f"},
                "ignore_case": True,
            },
            {"kind": "categorical", "name": "zip", "categories": sorted(set(truth["zip"]))},
            {"kind": "categorical", "name": "ward", "categories": list(WARDS), "other": False},
            {"kind": "categorical", "name": "diagnosis", "categories": sorted(CODES)},
            {
                "kind": "continuous",
                "name": "bmi",
                "lower": 10,
                "upper": 60,
                "decimals": 1,
                "bins": 10,
                "format": euro,
                "nullable": True,
            },
            {
                "kind": "continuous",
                "name": "weight",
                "lower": 0,
                "upper": 200,
                "decimals": 1,
                "bins": 10,
                "format": {"decimal": ",", "suffix": " kg"},
            },
            {
                "kind": "continuous",
                "name": "crp",
                "lower": 0,
                "upper": 500,
                "decimals": 1,
                "bins": [1, 5, 10, 50, 100],
                "below": 0.3,
                "format": euro,
                "nullable": True,
            },
            {
                "kind": "continuous",
                "name": "cost",
                "lower": 0,
                "upper": 250000,
                "decimals": 2,
                "bins": 10,
                "format": {"thousands": ",", "prefix": "$ "},
            },
            {
                "kind": "integer",
                "name": "own_share",
                "lower": 0,
                "upper": 100,
                "bins": 10,
                "format": {"suffix": " %"},
            },
            {"kind": "ordinal", "name": "severity", "categories": list(SEVERITY), "nullable": True},
            {
                "kind": "boolean",
                "name": "smoker",
                "true_label": "yes",
                "false_label": "no",
                "nullable": True,
            },
            {"kind": "constant", "name": "notes", "value": "(removed)"},
            {"kind": "boolean", "name": "readmitted", "true_label": "Y", "false_label": "N"},
        ],
    }

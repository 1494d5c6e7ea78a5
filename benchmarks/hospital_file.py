"""A hospital's file as it comes, released by ``marginalsyn start --yes``, and how near it is.

python benchmarks/hospital_file.py > benchmarks/results/hospital-file.md

6,000 rows of 2,127 patients in 20 columns: formats mixed inside columns, heights in three units,
-9, 0 and 999 for missing values, ICD codes, postal codes, e-mails, notes. The same rows are drafted
as .csv, .csv.gz, Latin-1, JSON lines and, where its reader is there, .xlsx.
"""

from __future__ import annotations

import gzip
import importlib.util
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from marginalsyn.drafting.draft import draft_schema
from marginalsyn.release.folder import Release
from marginalsyn.table.codec import Codec

ROWS, PATIENTS, EPS, SEED = 6000, 2127, 3.0, 26
WARDS = ("Kardiologie", "Chirurgie", "Neurologie", "Onkologie", "Pädiatrie", "Notaufnahme")
INSURERS = ("AOK", "TK", "Barmer", "DAK", "privat")
SEVERITY = ("mild", "moderate", "severe", "critical")
WORDS = ("Husten", "Schmerz", "stabil", "Kontrolle", "seit", "gestern", "Fieber", "bekannt")
NUMBERS = ("height", "weight", "crp", "pain", "cost", "systolic", "stay")


def hospital_file(rows: int = ROWS, seed: int = SEED) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows as the file spells them, and the same rows as plain values."""
    rng = np.random.default_rng(seed)
    count = max(2, rows * PATIENTS // ROWS)
    patient = np.concatenate([np.arange(count), rng.integers(0, count, rows - count)])
    rng.shuffle(patient)

    def of_patient(values: Any) -> np.ndarray:
        return np.asarray(values)[patient]

    zips = np.array([f"{a}{b:03}" for a in (10, 12, 20, 22, 50, 80, 81) for b in range(1, 999, 9)])
    codes = np.array([f"{a}{n:02}.{d}" for a in "CEIJKM" for n in range(10, 22) for d in range(8)])
    severity = np.clip(rng.normal(1.1, 0.9, rows), 0, 3.99).astype(int)
    male = of_patient(rng.random(count) < 0.5)
    height = of_patient(rng.normal(1.66, 0.07, count)) + 0.13 * male
    weight = np.clip(rng.normal(70 + 9 * male, 13), 35, 190)
    age = of_patient(rng.integers(365 * 18, 365 * 90, count))
    born = pd.Timestamp("2022-01-01") - pd.to_timedelta(age, unit="D")
    truth = pd.DataFrame(
        {
            "patient_id": [f"P-{n:06}" for n in of_patient(rng.permutation(900_000)[:count])],
            "email": [f"anna.{n}@klinik-mail.de" for n in of_patient(np.arange(count))],
            "admitted": pd.Timestamp("2021-01-01")
            + pd.to_timedelta(rng.integers(0, 1095, rows), unit="D"),
            "born": born,
            "sex": np.where(male, "m", "w"),
            "zip": of_patient(rng.choice(zips, count)),
            "ward": rng.choice(WARDS, rows, p=_falling(len(WARDS))),
            "diagnosis": rng.choice(codes, rows, p=_falling(len(codes))),
            "height": height.round(2),
            "weight": weight.round(1),
            "crp": rng.lognormal(0.4 + severity * 0.7, 1.3, rows).clip(0.1, 480).round(1),
            "pain": np.clip(rng.normal(2 + 1.5 * severity, 2, rows), 0, 10).round(),
            "smoker": of_patient(rng.random(count) < 0.27).astype(float),
            "readmitted": (rng.random(rows) < 0.06 + 0.12 * severity).astype(float),
            "cost": rng.lognormal(7.2 + severity * 0.5, 0.7, rows).clip(40, 90_000).round(),
            "insurer": of_patient(rng.choice(INSURERS, count, p=_falling(len(INSURERS)))),
            "systolic": np.clip(rng.normal(128 + 6 * severity, 17, rows), 80, 230).round(),
            "stay": (1 + rng.lognormal(0.7 + 0.4 * severity, 0.8, rows)).clip(1, 120).round(),
            "severity": np.array(SEVERITY)[severity],
            "notes": [" ".join(rng.choice(WORDS, 6)) + f" {n}" for n in range(rows)],
        }
    )
    shares = {"height": 0.03, "weight": 0.06, "crp": 0.05, "pain": 0.08, "systolic": 0.04}
    for name, share in {**shares, "smoker": 0.1}.items():
        truth.loc[rng.random(rows) < share, name] = np.nan
    style = rng.random((rows, len(truth.columns)))
    spelt = {
        name: [_spelt(name, value, style[at, place]) for at, value in enumerate(truth[name])]
        for place, name in enumerate(truth)
    }
    return pd.DataFrame(spelt), truth


def _falling(count: int) -> np.ndarray:
    weights = 1 / np.arange(1, count + 1)
    return weights / weights.sum()


def _spelt(name: str, value: Any, style: float) -> str:
    """A value as the file has it; the style decides among its spellings."""
    if name in ("admitted", "born"):
        short = name == "admitted" and style > 0.85
        return value.strftime("%d.%m.%Y" if style < 0.6 else "%d.%m.%y" if short else "%Y-%m-%d")
    known = not (isinstance(value, float) and np.isnan(value))
    if name == "height":
        if not known:
            return "0"
        if style < 0.5:
            return f"{value:.2f} m".replace(".", ",")
        inches = round(value / 0.0254)
        return f"{round(value * 100)} cm" if style < 0.85 else f"{inches // 12}'{inches % 12}\""
    if name == "weight":
        return f"{value:.1f} kg".replace(".", ",") if known else "-9"
    if name == "crp":
        text = "<0,6" if known and value < 0.6 else f"{value:.1f}".replace(".", ",")
        return text if known else "-9"
    if name == "cost":
        whole, rest = divmod(int(value), 1000)
        return (
            _thousands(whole, rest, " ", "EUR {}" if style < 0.5 else "")
            if style < 0.5
            else (_thousands(whole, rest, ".", "{} EUR"))
        )
    if name in ("pain", "systolic"):
        return f"{value:.0f}" if known else {"pain": "-9", "systolic": "999"}[name]
    if name in ("smoker", "readmitted"):
        words = {"smoker": ("ja Ja J yes", "nein Nein N no"), "readmitted": ("Yes Y", "no N")}
        options = words[name][0 if value == 1 else 1].split()
        return options[int(style**2 * len(options))] if known else "unbekannt"
    if name == "sex":
        return (
            value
            if style < 0.7
            else value.upper()
            if style < 0.9
            else ("male" if value == "m" else "female")
        )
    return f"{value:.0f}" if name == "stay" else str(value)


def _thousands(whole: int, rest: int, sign: str, around: str) -> str:
    return around.format(f"{whole}{sign}{rest:03}" if whole else str(rest))


def forms(spelt: pd.DataFrame, folder: Path) -> dict[str, Path]:
    """The same rows in every form that hospitals send."""
    text = spelt.to_csv(sep=";", index=False)
    found = {"CSV": folder / "hospital.csv", "gzip": folder / "packed.csv.gz"}
    found["CSV"].write_text(text, encoding="utf-8")
    found["gzip"].write_bytes(gzip.compress(text.encode()))
    found["Latin-1"] = folder / "latin.csv"
    found["Latin-1"].write_text(text, encoding="latin-1")
    found["JSON lines"] = folder / "lines.jsonl"
    spelt.to_json(found["JSON lines"], orient="records", lines=True, force_ascii=False)
    if importlib.util.find_spec("openpyxl"):
        found["Excel"] = folder / "sheet.xlsx"
        spelt.to_excel(found["Excel"], index=False)
    return found


def compare(release: Release, spelt: pd.DataFrame) -> list[str]:
    """A line of the table for every column, of those that are not kept, too."""
    codec = Codec(release.schema)
    real, made = codec.encode(spelt), codec.encode(release.frame())
    lines = []
    for name in spelt:
        if name not in release.schema.names:
            how = "made-up values" if name in release.schema.layout else "left out"
            lines.append(f"| {name} | {how} | | | |")
            continue
        column, place = release.schema.column(name), release.schema.names.index(name)
        shares = [np.bincount(c[:, place], minlength=column.size) / len(c) for c in (real, made)]
        worst = np.abs(shares[0] - shares[1]).max()
        means = ["", ""]
        if name in NUMBERS:
            numbers = [codec.numbers(frame, name) for frame in (spelt, release.frame())]
            means = [f"{np.nanmean(one):.4g}" for one in numbers]
            means.append(f"{np.nanmean(numbers[1]) / np.nanmean(numbers[0]) - 1:+.1%}")
            means[0] += f" ({np.nanmedian(numbers[0]):.4g})"
            means[1] += f" ({np.nanmedian(numbers[1]):.4g})"
        lines.append(f"| {name} | {column.kind} | {worst:.3f} | {' | '.join(means)} |")
    return lines


def main() -> None:
    spelt, _ = hospital_file()
    with tempfile.TemporaryDirectory() as folder:
        paths = forms(spelt, Path(folder))
        began = time.process_time()
        options = ["--eps", f"{EPS:g}", "--label", "readmitted", "--yes", "--quiet"]
        command = [sys.executable, "-m", "marginalsyn.cli.main", "start", "hospital.csv", *options]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        release = Release.read(Path(folder) / "release")
        print("# The hospital's file, by `start --yes`\n")
        print(
            f"`python benchmarks/hospital_file.py`: {len(spelt):,} rows, {spelt.shape[1]} columns,"
        )
        print(
            f"eps {EPS:g}; the largest error of a share of a value or bin, and means (medians).\n"
        )
        print("| column | kept as | share off by | real | synthetic | mean off by |")
        print("|---|---|---|---|---|---|")
        print("\n".join(compare(release, spelt)))
        texts = (Path(folder) / "release" / "synthetic.csv").read_text(encoding="utf-8")
        left = [code for code in ("-9", "999") if f",{code}," in texts]
        print(f"\nNumbers that mean missing in the release: {', '.join(left) or 'none'}.\n")
        print("| the same rows as | columns drafted as from CSV |")
        print("|---|---|")
        drafts = {form: draft_schema(path).schema for form, path in paths.items()}
        for form, schema in drafts.items():
            same = sum(a == b for a, b in zip(schema.columns, drafts["CSV"].columns, strict=True))
            print(f"| {form} | {same} of {len(schema.columns)} |")
        print(f"\n{time.process_time() - began:.0f} s of this process.")


if __name__ == "__main__":
    main()

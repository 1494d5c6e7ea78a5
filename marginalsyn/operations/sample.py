"""``sample``: more rows from a release, at no cost in privacy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from marginalsyn.errors import UsageError
from marginalsyn.operations.groups import OfRelease, release_path
from marginalsyn.operations.operation import PYTHON, Csv, Result, Session, option

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.release.linked import LinkedRelease


@dataclass(frozen=True)
class Sample(OfRelease["pd.DataFrame"]):
    """Draw more rows from a release.

    Uses only what the release holds, so it spends no privacy budget and needs no private table.
    """

    shell = ("quiet",)
    examples = """
    # 50,000 rows of the last release
    marginalsyn sample --rows 50000 --out more.csv
    # twenty tables for code of your own, each from its own model
    marginalsyn sample release --imputations 20 --out tables
    # rows that agree with a condition, as the model has them: none is rejected
    marginalsyn sample release --where 'sex=female,age=40..50' --rows 500
    # of linked tables: 100 persons with all their rows, a file for each table
    marginalsyn sample clinic-release --rows 100 --out more-clinic
    # on stdout, for another program
    marginalsyn sample release --rows 10
    """

    rows: int | None = option(
        None,
        "The number of rows; of linked tables, of persons. [default=the release's estimate of the "
        "number of private rows]",
        range=(1, None),
        metavar="N",
    )
    _: KW_ONLY
    where: str | Mapping[str, Any] | None = option(
        None,
        "Only rows that agree: values, ranges such as age=40..50 (either end may be left out), "
        "`missing`, or several with | between. [default rows: the release's estimate of how many "
        "private rows agree]",
        metavar="COLUMN=VALUE,...",
        python='What the rows must have: "sex=female,age=40..50", or by column a value, a pair '
        "(range), a list of values, or None for missing.",
    )
    imputations: int | None = option(
        None,
        "Fill the folder --out with so many tables, each drawn from the model of a replay of the "
        "release, next to one large table of its own model; see `marginalsyn combine`.",
        range=(5, 1000),
        metavar="M",
        python=False,
    )
    target: Literal["population", "table"] | None = option(
        None,
        "What results combined from imputations will be for. [default=population]",
        python=False,
    )
    out: str | Path | None = option(
        None,
        "The .csv or .parquet file to write. [default=CSV on stdout]",
        metavar="FILE",
        python="Also write them to this .csv or .parquet file.",
    )
    seed: int | None = option(
        None,
        "Make the draw repeatable. This is safe: sampling adds no protective noise.",
        range=(0, None),
        metavar="N",
    )
    force: bool = option(False, "Overwrite what exists.")

    def run(self, session: Session = PYTHON) -> Result[Any]:
        """Draw, and write or show."""
        import numpy as np
        import pandas as pd

        from marginalsyn.operations.files import check_table, write_lots
        from marginalsyn.release.linked import LinkedRelease, is_linked_release
        from marginalsyn.release.sampling import sample_lots
        from marginalsyn.table.made import complete

        if self.imputations is not None:
            return self._impute(self.imputations, session)
        if self.target is not None:
            raise UsageError(f"--target ({self.target}) can only be given with --imputations")
        if isinstance(self.release, str | Path | None):
            path = release_path(self.release)
            if is_linked_release(path):
                return self._sample_linked(LinkedRelease.read(path), session)
        out = Path(self.out) if self.out is not None else None
        check_table(out, self.force)
        found, rng = self.read_release(), np.random.default_rng(self.seed)
        kept: list[pd.DataFrame] = []
        drawn = 0

        def lots() -> Iterator[pd.DataFrame]:
            nonlocal drawn
            for lot in sample_lots(found, self.rows, rng, where=self.where):
                rows = complete(lot, found.schema, drawn + 1)
                drawn += len(rows)
                progress.report("sample", fraction=drawn / (self.rows or drawn))
                # What goes to a file and to nobody else needs memory for one lot.
                if out is not None and not session.shown:
                    kept.append(rows)
                yield rows

        with session.progress(None) as progress:
            progress.report("sample")
            if out is None:
                kept = list(lots())
            else:
                write_lots(lots(), out)
        frame = pd.concat(kept, ignore_index=True) if len(kept) > 1 else [*kept, pd.DataFrame()][0]
        if out is not None:
            note = f"{drawn:,} rows; no privacy budget was spent."
            return Result(frame, text=[str(self.out)], notes=[note])
        return Result(frame, text=[Csv(frame)])

    def _impute(self, tables: int, session: Session) -> Result[Any]:
        """Fill a folder with tables, each of its own model."""
        from marginalsyn.answers.imputations import impute

        if self.where is not None:
            raise UsageError(f"--where ({self.where}) cannot be given with --imputations")
        if self.out is None or Path(self.out).suffix in (".csv", ".parquet"):
            raise UsageError(f"--out ({self.out}) must be a folder for --imputations")
        target = self.target or "population"
        with session.progress(None) as progress:
            index = impute(
                self.read_release(),
                Path(self.out),
                tables=tables,
                target=target,
                rows=self.rows,
                seed=self.seed,
                force=self.force,
                progress=progress,
            )
        note = (
            f"{tables} tables of {index.rows:,} rows for intervals of the {target}, and one of the "
            "release's model; no privacy budget was spent."
        )
        return Result(index, text=[str(self.out)], notes=[note])

    def _sample_linked(self, release: LinkedRelease, session: Session) -> Result[Any]:
        """Draw more persons with all their rows into a folder."""
        import numpy as np

        from marginalsyn.linked.release import sample_linked
        from marginalsyn.operations.files import write_table

        out = Path(self.out) if self.out is not None else None
        if out is None or out.suffix in (".csv", ".parquet"):
            raise UsageError(
                f"--out ({out}) must name a folder: linked tables are written to a file each"
            )
        if out.exists() and not self.force and (not out.is_dir() or any(out.iterdir())):
            raise UsageError(f"--out ({out}) must not hold anything yet; add --force to replace it")
        with session.progress(None) as progress:
            progress.report("sample")
            rng = np.random.default_rng(self.seed)
            tables = sample_linked(release, self.rows, rng, where=self.where)
        out.mkdir(parents=True, exist_ok=True)
        for name, frame in tables.items():
            write_table(frame, out / f"{name}.csv")
        counts = ", ".join(f"{len(frame):,} rows of {name}" for name, frame in tables.items())
        note = f"{counts}; no privacy budget was spent."
        return Result(tables, text=[str(self.out)], notes=[note])

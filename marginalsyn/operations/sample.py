"""``sample`` and ``steer``: rows from what a release holds, at no cost in privacy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from marginalsyn import defaults
from marginalsyn.errors import UsageError
from marginalsyn.operations.files import TABLES, check_folder, check_table, read_json, write_lots
from marginalsyn.operations.groups import OfRelease, Reported, release_path
from marginalsyn.operations.operation import (
    PYTHON,
    Csv,
    Result,
    Session,
    how_many,
    option,
    seed_option,
)
from marginalsyn.operations.origins import find_origin

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.operations import release as releases  # noqa: F401
    from marginalsyn.progress import Progress


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

    rows: int | None = how_many(
        "The number of rows; of linked tables, of persons. [default=the release's estimate of the "
        "number of private rows]"
    )
    _: KW_ONLY
    where: str | Mapping[str, Any] | None = option(
        None,
        "Only rows that agree: values, ranges such as age=40..50 (either end may be left out), "
        "comparisons such as age>=40 or sex!=male, `missing`, or several with | between; commas "
        "or `and` between columns. "
        "[default rows: the release's estimate of how many private rows agree]",
        metavar="COLUMN=VALUE,...",
        python='What the rows must have: "sex=female,age>=40", or by column a value, a pair '
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
        "The .csv or .parquet file to write. [default=CSV on stdout; a terminal shows ten rows]",
        metavar="FILE",
        python="Also write them to this .csv or .parquet file.",
    )
    seed: int | None = seed_option(
        "Make the draw repeatable. This is safe: sampling adds no protective noise."
    )
    force: bool = option(False, "Overwrite what exists.")

    def run(self, session: Session = PYTHON) -> Result[Any]:
        """Draw, and write or show."""
        import numpy as np

        from marginalsyn.release.linked import LinkedRelease, open_release
        from marginalsyn.table.keeping import record_redrawn, redrawn_text

        if self.imputations is not None:
            return self._impute(self.imputations, session)
        if self.target is not None:
            raise UsageError(f"--target ({self.target}) can only be given with --imputations")
        release: Any = self.release
        if isinstance(release, str | Path | None):
            release = open_release(release_path(release))
        linked, out = isinstance(release, LinkedRelease), Path(self.out) if self.out else None
        (check_folder if linked else check_table)(out, self.force)
        rng = np.random.default_rng(self.seed)
        with session.progress(None) as progress, record_redrawn() as redrawn:
            progress.report("sample")
            if linked:
                made, counts = self._draw_linked(release, rng, Path(str(out)))
            else:
                made, counts = self._draw_rows(release, rng, out, progress, not session.shown)
        if out is None:
            return Result(made, text=[Csv(made, long=self.rows is None)])
        note = "; ".join([counts, *redrawn_text(redrawn), "no privacy budget was spent."])
        return Result(made, text=[str(self.out)], notes=[note])

    def _draw_rows(
        self, release: Any, rng: Any, out: Path | None, progress: Progress, keep: bool
    ) -> tuple[pd.DataFrame, str]:
        """Draw rows of one table in lots; what goes to a file alone takes the memory of one lot."""
        import pandas as pd

        from marginalsyn.release.sampling import sample_lots
        from marginalsyn.table.made import complete

        kept = []
        drawn = 0

        def lots() -> Iterator[pd.DataFrame]:
            nonlocal drawn
            for lot in sample_lots(release, self.rows, rng, where=self.where):
                rows = complete(lot, release.schema, drawn + 1, self.where is not None)
                drawn += len(rows)
                progress.report("sample", fraction=drawn / (self.rows or drawn))
                if out is not None and keep:
                    kept.append(rows)
                yield rows

        if out is None:
            kept = [*lots()]
        else:
            write_lots(lots(), out, release.text_form)
        frame = pd.concat(kept, ignore_index=True) if len(kept) > 1 else [*kept, pd.DataFrame()][0]
        return frame, f"{drawn:,} rows"

    def _draw_linked(self, release: Any, rng: Any, out: Path) -> tuple[Any, str]:
        """Draw persons with all their rows into a folder."""
        from marginalsyn.linked.drawing import sample_linked

        tables = sample_linked(release, self.rows, rng, where=self.where)
        out.mkdir(parents=True, exist_ok=True)
        for name, rows in tables.items():
            write_lots([rows], out / f"{name}.csv", release.text_form)
        return tables, ", ".join(f"{len(rows):,} rows of {name}" for name, rows in tables.items())

    def _impute(self, tables: int, session: Session) -> Result[Any]:
        """Fill a folder with tables, each of its own model."""
        from marginalsyn.answers.imputations import impute

        if self.where is not None:
            raise UsageError(f"--where ({self.where}) cannot be given with --imputations")
        if self.out is None or Path(self.out).suffix in TABLES:
            raise UsageError(f"--out ({self.out}) must be a folder for --imputations")
        target = self.target or "population"
        with session.progress(None) as progress:
            index = impute(
                self.read_table(),
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


def _stated(texts: Sequence[str]) -> dict[str, Any]:
    """Columns with shares, out of texts such as ``label=0.5/0.5``."""
    stated = {}
    for text in texts:
        name, sign, shares = text.rpartition("=")
        if not sign or not name:
            raise UsageError(f"--target ({text}) must look like label=0.5/0.5")
        try:
            stated[name] = [float(share) for share in shares.split("/")]
        except ValueError:
            raise UsageError(
                f"--target ({text}) must give the shares as numbers with slashes between them, "
                "such as 0.5/0.5"
            ) from None
    return stated


@dataclass(frozen=True)
class Steer(Reported, OfRelease["releases.Release"]):
    """Make a release with margins that you state.

    Steering uses only what the release holds, so it costs no privacy; the new release carries the
    statement of the old one. State margins that are public or that you wish for, such as a class
    balance. Never state shares that you counted on the private table: they would leak.

    Returns:
        The new release.
    """

    shell = ("quiet",)
    examples = """
    # half of the rows in each class of the label, in ./steered
    marginalsyn steer --target income=0.5/0.5
    # two margins at once; shares by label from a file
    marginalsyn steer release --target sex=0.5/0.5 --target-file margins.json --out even
    # new rows by a generator network trained on the weighted rows
    marginalsyn steer release --target income=0.5/0.5 --method mmd --steps 4000
    """

    targets: Mapping[str, Any] = option(
        None,
        "A column and the shares of its values, separated by slashes, in the schema's order. "
        "Values left out at the end get none. May be repeated.",
        flags=("--target",),
        multiple=True,
        parse=_stated,
        metavar="COLUMN=SHARES",
        python="By column, the shares of its values: a list in the schema's order, or a dict by "
        "label.",
    )
    _: KW_ONLY
    target_file: str | Path | None = option(
        None,
        'Shares by label, as JSON: `{"income": {"<=50K": 0.5, ">50K": 0.5}}`; or a CSV file of one '
        "column's margin, as `generate --margins` takes it.",
        metavar="FILE",
        python=False,
    )
    method: Literal["rows", "mmd", "cross-entropy"] = option(
        defaults.STEER,
        "rows: draw from the release's rows, or from fresh rows of its model. mmd, "
        "cross-entropy: train a generator network with this loss on the weighted rows, and draw "
        "from it.",
    )
    rows: int | None = how_many("The number of rows. [default=as many as the release has]")
    steps: int | None = how_many("Training steps of the generator network. [default=2000]")
    out: str | Path = option(defaults.STEERED, "The folder of the new release.", metavar="DIR")
    seed: int | None = seed_option(
        "Make the draw repeatable. This is safe: steering adds no protective noise."
    )
    force: bool = option(False, "Overwrite what exists.")

    def run(self, session: Session = PYTHON) -> Result[Any]:
        """Draw, write, and remember the new release with the table of the old one."""
        import numpy as np

        from marginalsyn.release.folder import preflight
        from marginalsyn.steering import steer

        stated = {**self._from_file(), **(self.targets or {})}
        if not stated:
            raise UsageError(
                "--target must name a column: `marginalsyn steer --target label=0.5/0.5`"
            )
        source, out = self.read_release(), Path(self.out)
        if out.resolve() == source.path:
            raise UsageError(f"--out ({out}) must not be the release that is steered")
        preflight(out, self.force)
        with session.progress(self.progress) as progress:
            synthesis, statement = steer(
                source,
                stated,
                method=self.method,
                rows=self.rows,
                rng=np.random.default_rng(self.seed),
                options={} if self.steps is None else {"steps": self.steps},
                progress=progress,
            )
        kind: Any = "csv" if source.frame_file.endswith(".csv") else "parquet"
        made = source.write(synthesis, source.schema, statement, out, format=kind, force=self.force)
        origin = find_origin(made.schema, source)
        if origin is not None:
            origin.remember(made)
        note = f"{len(synthesis.frame):,} rows; no privacy budget was spent."
        return Result(made, text=[str(self.out)], notes=[note])

    def _from_file(self) -> dict[str, Any]:
        from marginalsyn.table.margins import read_margin

        if self.target_file is None:
            return {}
        if Path(self.target_file).suffix.lower() == ".csv":
            # One column's margin, as an office publishes it.
            entry = read_margin(self.target_file)
            cells = entry.get("counts") or entry.get("shares") or []
            if len(entry["columns"]) > 1 or not (whole := sum(cell[-1] for cell in cells)):
                raise UsageError(
                    f"--target-file ({self.target_file}) must hold counts or shares of one column"
                )
            return {entry["columns"][0]: {label: value / whole for label, value in cells}}
        found = read_json(self.target_file, "--target-file")
        if not isinstance(found, dict):
            raise UsageError(
                f"--target-file ({self.target_file}) must hold columns with their shares"
            )
        return found

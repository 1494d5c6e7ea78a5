"""Synthetic frames: checks against the schema, and lossless writing and reading.

A check also finds columns that say nearly nothing, all missing, OTHER or in one bin: in synthetic
rows or in noisy counts, so it costs no privacy.
"""

from __future__ import annotations

import codecs
import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from marginalsyn.contract import Measurement
from marginalsyn.errors import ReleaseError
from marginalsyn.table.codec import Codec
from marginalsyn.table.columns import CategoricalColumn, text_of
from marginalsyn.table.moments import MomentColumn
from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn, NumberColumn
from marginalsyn.table.schema import AnyColumn, Schema
from marginalsyn.validation import shown

# Of a column that says nearly nothing: the share in one code, and what is needed to say so.
MOSTLY = 0.8
# Many real columns are zero nearly everywhere.
ONE_END = 0.98
FEWEST_ROWS = 50
FEWEST_BINS = 4
MOST_ROWS = 20_000
MOST_CELLS = 2**31
# By the name that a schema has for an encoding: what writes it, and the mark that may come first.
_CODECS = {
    "utf-8": ("utf-8", codecs.BOM_UTF8),
    "utf-16": ("utf-16-le", codecs.BOM_UTF16_LE),
    "latin-1": ("latin-1", b""),
    "cp1252": ("cp1252", b""),
}


@dataclass(frozen=True)
class TextForm:
    """How a text file is written, whatever its fields hold.

    A source's form is read off its header line and the mark before it, and its encoding is the
    schema's: neither depends on a row.

    Attributes:
        sep: the separator, one ASCII character.
        encoding: as in a schema.
        mark: whether a byte-order mark comes first.

    Example:
        >>> TextForm(sep=";", mark=True).to_json()
        {'sep': ';', 'encoding': 'utf-8', 'mark': True}
    """

    sep: str = ","
    encoding: str = "utf-8"
    mark: bool = False

    @classmethod
    def of(cls, notes: Mapping[str, Any]) -> TextForm:
        """The form that a release's statement notes; a comma and UTF-8 where it notes none."""
        try:
            found = cls(**notes.get("text", {}))
            if found.encoding in _CODECS and len(found.sep) == 1 and type(found.mark) is bool:
                return found
        except TypeError:
            pass
        raise ReleaseError("note (text) must be the separator, encoding and mark of the rows")

    @property
    def codec(self) -> str:
        """Python's name of the encoding, for readers; the mark is no part of the first name."""
        marked = {"utf-8": "utf-8-sig", "utf-16": "utf-16"}
        return marked.get(self.encoding, self.encoding) if self.mark else self.encoding

    def to_json(self) -> dict[str, Any]:
        """What a statement notes."""
        return asdict(self)

    def fitting(self, texts: str) -> TextForm:
        """The same form, in UTF-8 where the encoding lacks a character of ``texts``."""
        try:
            texts.encode(_CODECS[self.encoding][0])
        except UnicodeEncodeError:
            return TextForm(sep=self.sep, mark=True)
        return self


PLAIN_TEXT = TextForm()


class FrameLayout:
    """The library and the types of a frame that was given, for rows that go back to its owner.

    Of its ``rows`` in pandas only names and types are kept. Categories are those of the schema.
    """

    def __init__(self, given: Any, rows: Any) -> None:
        self.library = type(given).__module__.partition(".")[0]
        columns = rows.dtypes.items() if isinstance(rows, pd.DataFrame) else ()
        self.dtypes = {name: _bare(dtype) for name, dtype in columns}

    def fill(self, frame: pd.DataFrame, schema: Schema) -> Any:
        """Synthetic rows as the frame that was given has them."""
        found = frame.copy(deep=False)
        for column in schema.columns:
            dtype: Any = self.dtypes.get(column.name)
            if isinstance(dtype, pd.CategoricalDtype) and isinstance(column, CategoricalColumn):
                words = pd.CategoricalDtype([*column.writable], ordered=dtype.ordered)
                found[column.name] = found[column.name].astype(words)
            elif not isinstance(column, MomentColumn):
                continue
            elif str(dtype).startswith(("date32", "date64")):
                found[column.name] = _moments(found, column).dt.date
            elif pd.api.types.is_datetime64_any_dtype(dtype):
                moments = _moments(found, column)
                found[column.name] = moments.astype(dtype) if moments.dt.tz else moments
        if self.library not in ("polars", "pyarrow"):
            return found
        table = pa.Table.from_pandas(found, preserve_index=False)
        if self.library == "pyarrow":
            return table
        import polars

        return polars.from_arrow(table)


def _bare(dtype: Any) -> Any:
    """A type without the categories that it lists: private rows have them."""
    kind = dtype.pyarrow_dtype if isinstance(dtype, pd.ArrowDtype) else dtype
    if isinstance(kind, pd.CategoricalDtype | pa.DictionaryType):
        return pd.CategoricalDtype(ordered=kind.ordered)
    return dtype


def _moments(frame: pd.DataFrame, column: MomentColumn) -> pd.Series:
    """The texts of a column as dates and times of pandas, which has its own two-digit years."""
    if "y" not in column.style.directives:
        return pd.to_datetime(frame[column.name], format=column.format, errors="coerce")
    counts = Codec(Schema(columns=(column,))).numbers(frame, column.name)
    moments = pd.to_datetime(counts * column.unit, unit="s", utc="z" in column.style.directives)
    return pd.Series(moments, index=frame.index)


def frame_problems(frame: pd.DataFrame, schema: Schema) -> list[str]:
    """List how a synthetic frame departs from its schema: columns, order, dtypes and values.

    Only for synthetic rows: the text quotes values.
    """
    names = [str(name) for name in frame.columns]
    if names != list(schema.names):
        return [f"columns ({', '.join(names)}) must be {', '.join(schema.names)}, in this order"]
    wanted = Codec(schema).empty().dtypes
    problems = []
    for column in schema.columns:
        series = frame[column.name]
        if series.dtype != wanted[column.name]:
            problems.append(
                f"column {column.name} ({series.dtype}) must have dtype {wanted[column.name]}"
            )
        if not column.nullable and series.isna().any():
            problems.append(f"column {column.name} must have no missing value")
        strange = _strange(series.dropna(), column, schema)
        if strange:
            problems.append(
                f"column {column.name} ({shown(strange[0])}) must hold only what the schema allows"
            )
    if schema.rules and not problems:
        from marginalsyn.table.keeping import broken_rules

        problems += [
            f"rule ({text}) must hold: {count} rows break it"
            for text, count in broken_rules(frame, schema).items()
        ]
    return problems


def wasted_counts(measured: Iterable[Measurement], schema: Schema) -> list[str]:
    """One sentence for every column that is nearly all missing, OTHER or clipped, by noisy counts.

    A share counts that is large enough even with two standard deviations of the noise less. A bin
    of a single value counts for nothing: it may be a code, which most rows may well have.

    Example:
        >>> from marginalsyn.contract import Measurement
        >>> from marginalsyn.table.schema import Schema
        >>> schema = Schema(columns=({"kind": "categorical", "name": "ward", "categories": ["A"]},))
        >>> counts = Measurement(columns=("ward",), values=np.array([12, 980]), sigma=4.0)
        >>> wasted_counts([counts], schema)[0][:24]
        'column ward is 99% OTHER'
    """
    found = []
    for one in measured:
        if len(one.columns) != 1:
            continue
        counts, sigma = np.asarray(one.values, dtype=float), float(np.max(one.sigma))
        total = counts.sum()
        # Where noise may be most of the rows nothing can be said.
        if total < FEWEST_ROWS + 3 * sigma * math.sqrt(counts.size):
            continue
        column = schema.column(one.columns[0])
        shares = np.clip(counts, 0, None) / total
        sentence = _sentence(column, shares, slack=2 * sigma / total, codes=False)
        if sentence:
            found.append(f"column {column.name} is {sentence}")
    return found


def wasted(frame: pd.DataFrame, schema: Schema) -> list[str]:
    """One sentence for every column on which budget was spent for next to nothing.

    Reads synthetic rows alone, so it costs no privacy.

    Example:
        >>> import pandas as pd
        >>> from marginalsyn.table.schema import Schema
        >>> schema = Schema(columns=({"kind": "integer", "name": "a", "lower": 0, "upper": 9,
        ...                           "nullable": True},))
        >>> wasted(pd.DataFrame({"a": pd.array([None] * 90 + [1] * 10, dtype="Int64")}), schema)[0]
        'column a came out 90% missing: check how the source spells its values, or drop it'
    """
    if len(frame) < FEWEST_ROWS:
        return []
    codes = Codec(schema).encode(frame.iloc[:MOST_ROWS])
    found = []
    for position, column in enumerate(schema.columns):
        shares = np.bincount(codes[:, position], minlength=column.size) / len(codes)
        sentence = _sentence(column, shares)
        if sentence:
            found.append(f"column {column.name} came out {sentence}")
    return found


def _sentence(
    column: AnyColumn, shares: np.ndarray, slack: float = 0.0, *, codes: bool = True
) -> str:
    """What a column's shares show to be wasted; of single values at its ends if ``codes``."""
    if column.missing_code is not None and shares[column.missing_code] - slack >= MOSTLY:
        share = shares[column.missing_code]
        return f"{share:.0%} missing: check how the source spells its values, or drop it"
    if column.other_code is not None and shares[column.other_code] - slack >= MOSTLY:
        name = column.labels()[column.other_code]
        share = f"{shares[column.other_code]:.0%} {name}"
        return f'{share}: check its categories (does case differ? "ignore_case": true), or drop it'
    if not isinstance(column, NumberColumn) or column.levels < FEWEST_BINS:
        return ""
    known = shares[: column.levels].sum()
    for end, side, code in (("first", "lower", 0), ("last", "upper", column.levels - 1)):
        if known > 0 and shares[code] - slack >= ONE_END * known:
            share, label = f"{shares[code] / known:.0%}", column.labels()[code]
            if not column.whole or column.edges[code + 1] - column.edges[code] > 1:
                return (
                    f"{share} in its {end} bin, {label}: check its bounds, or buy bins with "
                    "`marginalsyn schema buy-bins`"
                )
            if codes:
                return f"{share} {label}: where values beyond occur, move its {side} bound"
    return ""


def write_csv(
    frame: pd.DataFrame, handle: IO[bytes], header: bool = True, form: TextForm = PLAIN_TEXT
) -> None:
    """Write CSV, by default in UTF-8, with a header if asked; a missing value is an empty field."""
    # A lone carriage return ends a line for many readers, and by default it is not quoted.
    texts = frame.select_dtypes(exclude=["number", "bool"])
    labels = [*frame, *(label for name in texts for label in texts[name].unique())]
    risky = any("\r" in label for label in labels if isinstance(label, str))
    quoting: Literal[0, 2] = csv.QUOTE_NONNUMERIC if risky else csv.QUOTE_MINIMAL
    codec, mark = _CODECS[form.encoding]
    if header and form.mark:
        handle.write(mark)
    frame.to_csv(
        handle,
        sep=form.sep,
        header=header,
        index=False,
        lineterminator="\n",
        encoding=codec,
        quoting=quoting,
    )


def write_parquet(frame: pd.DataFrame, handle: IO[bytes]) -> None:
    """Write Parquet; a column whose categories have several types is written as text."""
    mixed = {str(name): _texts(frame[name]) for name in frame if frame[name].dtype == object}
    frame.assign(**mixed).to_parquet(handle, index=False, engine="pyarrow")


def first_rows(path: Path, rows: int, form: TextForm = PLAIN_TEXT) -> pd.DataFrame:
    """The first rows of a file that was just written, as texts."""
    if path.suffix == ".csv":
        return pd.read_csv(
            path, dtype=str, keep_default_na=False, sep=form.sep, encoding=form.codec, nrows=rows
        )

    with parquet.ParquetFile(path) as file:
        first = next(file.iter_batches(rows), None)
    if first is None:
        return pd.DataFrame()
    frame = first.to_pandas()
    return pd.DataFrame({name: _texts(frame[name]).fillna("") for name in frame})


def read_csv(
    path: Path, schema: Schema | None, keys: Sequence[str] = (), form: TextForm = PLAIN_TEXT
) -> pd.DataFrame:
    """Read what ``write_csv`` wrote; the schema says the types, so ``1`` stays ``1``.

    Whole numbers named ``keys`` come first; without a schema there is nothing else.
    """
    try:
        text = pd.read_csv(
            path,
            dtype=str,
            keep_default_na=False,
            na_values=[],
            skip_blank_lines=False,
            sep=form.sep,
            encoding=form.codec,
        )
    except pd.errors.EmptyDataError:
        raise ReleaseError(f"file ({path}) must have a header line") from None
    except (ValueError, OSError, MemoryError) as error:
        raise ReleaseError(f"file ({path}) must be a readable CSV: {error}") from error
    return _typed(text, schema, path, keys)


def read_parquet(path: Path, schema: Schema | None, keys: Sequence[str] = ()) -> pd.DataFrame:
    """Read what ``write_parquet`` wrote."""
    try:
        about = parquet.read_metadata(path)
        # A column of one value takes no room in the file, whatever number of rows it claims.
        if about.num_rows * max(about.num_columns, 1) > MOST_CELLS:
            raise ReleaseError(
                f"file ({path}, {about.num_rows:,} rows of {about.num_columns:,} columns) must "
                f"have at most {MOST_CELLS:,} cells"
            )
        frame = pd.read_parquet(path, engine="pyarrow")
    except (ValueError, OSError, MemoryError) as error:
        raise ReleaseError(f"file ({path}) must be readable Parquet: {error}") from error
    return _typed(frame, schema, path, keys)


def _typed(
    found: pd.DataFrame, schema: Schema | None, path: Path, keys: Sequence[str]
) -> pd.DataFrame:
    """Give every column the dtype that the schema says."""
    if list(found.columns) != [*keys, *(schema.layout if schema is not None else ())]:
        raise ReleaseError(f"columns of {path.name} must be those of the schema, in its order")
    try:
        columns = {name: found[name].astype("int64") for name in keys}
    except (ValueError, TypeError, OverflowError) as error:
        raise ReleaseError(f"keys of {path.name} must be whole numbers: {error}") from None
    if schema is None:
        return pd.DataFrame(columns)
    wanted = Codec(schema).empty().dtypes
    for column in schema.columns:
        series = found[column.name]
        if series.dtype != wanted[column.name] or path.suffix == ".csv":
            try:
                series = _parsed(_texts(series), column).astype(wanted[column.name])
            except (ValueError, TypeError, ArithmeticError) as error:
                raise ReleaseError(
                    f"column {column.name} of {path.name} must hold what the schema allows: {error}"
                ) from None
        columns[column.name] = series
    return pd.DataFrame(columns)


def _texts(series: pd.Series) -> pd.Series:
    """Values as text, missing ones as None."""
    return series.astype(object).map(str, na_action="ignore").where(series.notna(), None)


def _parsed(texts: pd.Series, column: AnyColumn) -> pd.Series:
    missing = texts.isna() | ((texts == "") & column.nullable)
    if isinstance(column, NumberColumn) and column.worded:
        return texts.where(~missing, None)
    if isinstance(column, IntegerColumn):
        return pd.to_numeric(texts.mask(missing)).astype("Int64")
    if isinstance(column, ContinuousColumn):
        return pd.to_numeric(texts.mask(missing)).astype("float64")
    values = {form(value): value for value in column.writable for form in (str, text_of)}
    strange = texts[~missing & ~texts.isin(list(values))]
    if len(strange):
        raise ValueError(shown(strange.iloc[0]))
    return texts.map(values).astype(object).where(~missing, None)


def _strange(series: pd.Series, column: AnyColumn, schema: Schema) -> list[Any]:
    """The values that the column cannot hold."""
    if isinstance(column, NumberColumn) and column.worded:
        texts = series.drop_duplicates()
        found = Codec(schema.select([column.name])).numbers(texts.to_frame(), column.name)
        return texts[~((found >= column.lower) & (found <= column.upper))].tolist()
    if isinstance(column, NumberColumn):
        numbers = pd.to_numeric(series, errors="coerce").astype("float64")
        return series[~numbers.between(column.lower, column.upper)].tolist()
    allowed = {text_of(value) for value in column.writable}
    return [value for value in series.unique() if text_of(value) not in allowed]

"""Reference tables that ``generate`` leans on: read, described, compared with the private rows.

A reference is public by the word of the curator, or a release that was paid for. The comparison is
the curator's own: it reads private rows before anything is charged, and says nothing but that a
reference is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.special import gammainc, gammainccinv

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.errors import DataError, UsageError
from marginalsyn.host import check_takes_reference
from marginalsyn.records.workspace import Workspace
from marginalsyn.release.derivation import PUBLIC, RELEASE
from marginalsyn.release.folder import PRIVACY, Release
from marginalsyn.release.sampling import draw
from marginalsyn.sources.identity import same_source
from marginalsyn.sources.source import open_source
from marginalsyn.table.codec import Codec
from marginalsyn.table.moments import parts_of

if TYPE_CHECKING:
    from marginalsyn.contract import GeneratorConfig
    from marginalsyn.operations.generate import Generate
    from marginalsyn.operations.synthesizer import Synthesizer
    from marginalsyn.records.ledger import Ledger
    from marginalsyn.table.schema import Schema

# A reference as it is given: rows, a file of them, or a release or its folder.
Given = pd.DataFrame | str | Path | Release

# So many rows are drawn from the model of a release, whatever number it was made of.
DRAWN = 100_000
# Two tables of different rows are called one by mistake less often than this.
_BY_CHANCE = 1e-6
# A column of which so much does not fit the schema is coded in another way.
_FOREIGN = 0.5


@dataclass(frozen=True, kw_only=True)
class ReferenceTable:
    """A table to lean on, which holds no private rows, or was paid for.

    Attributes:
        name: as a statement gives it; no folder is in it.
        data: its rows, or the file that has them.
        rows: how many rows its counts are as good as; 0 of as many as it has.
        digest: a hash of its contents.
        facts: what a statement says of it.
        left_out: its columns that do not fit the schema, though they have the name.
    """

    name: str
    data: pd.DataFrame | Path
    rows: float
    digest: str
    facts: Mapping[str, Any]
    left_out: frozenset[str] = frozenset()

    @cached_property
    def present(self) -> list[str]:
        """The names of its columns."""
        return [str(name) for name in open_source(self.data).columns]

    def columns(self, schema: Schema) -> list[str]:
        """Its columns that a schema has, and the parts of dates among them."""
        own = {*self.present} - schema.derived - self.left_out
        parts = parts_of([column for column in schema.columns if column.name in own])
        return [name for name in schema.names if name in own or name in parts]

    def codes(self, schema: Schema) -> np.ndarray:
        """Its rows as codes, a column for each of :meth:`columns`: drawn by survey weights."""
        table = self.table(schema, self.columns(schema))
        public = table.unprotected("a reference, which is public")
        if table.schema.survey_weight is None:
            return public.all_rows().values
        return Codec(table.schema).encode(public.frame(weighted=True))

    def table(self, schema: Schema, columns: Sequence[str]) -> PrivateTable:
        """Its rows, under some columns of a schema; each counts once if it has no weights."""
        shared, weight = schema.select(columns), schema.survey_weight
        left = tuple(name for name in self.present if name not in shared.names)
        own = weight if weight and weight.column in self.present else None
        update = {"drop": left, "survey_weight": own, "unit": None}
        return PrivateTable.open(self.data, shared.model_copy(update=update))


def lean_on(
    asked: Generate | Synthesizer,
    config: GeneratorConfig,
    source: pd.DataFrame | str | Path,
    schema: Schema,
    rows: Callable[[Schema], pd.DataFrame],
    *,
    ledger: Ledger,
    warn: Callable[[str], None],
) -> list[ReferenceTable]:
    """Open and check the references of a run, before anything is charged.

    ``rows`` gives all private rows under a schema of some columns, for the curator alone; ``warn``
    is called with what does not fit.
    """
    seeded = asked.seed is not None
    references, lines = open_references(asked.reference, schema, ledger, seeded=seeded)
    check_takes_reference(config, references)
    for line in lines:
        warn(line)
    for reference in references:
        # A release was paid for.
        if reference.facts["kind"] != RELEASE:
            _refuse_private(reference, source, schema, rows, asked.reference_overlaps)
    return references


def open_references(
    given: Sequence[Given] | Given | None, schema: Schema, ledger: Ledger, *, seeded: bool
) -> tuple[list[ReferenceTable], list[str]]:
    """The references, and what to be warned of: columns and values that do not fit the schema.

    A release of the ``ledger`` that will be charged is paid for in it. Where the run is ``seeded``,
    it protects nobody, and a seeded release will do.

    Raises:
        UsageError: a reference that is not there, or cannot be one.
    """
    several = [given] if isinstance(given, Given) else list(given or ())
    found, warnings = [], []
    for one in several:
        release = one if isinstance(one, Release) else None
        if isinstance(one, str | Path) and "://" not in str(one):
            folder = Path(one).parent if Path(one).name == PRIVACY else Path(one)
            release = Release.read(folder) if folder.is_dir() else None
        table = _of_rows(one) if release is None else _of_release(release, schema, ledger, seeded)
        checked, lines = _fitting(table, schema)
        found.append(checked)
        warnings += lines
    return found, warnings


def _refuse_private(
    reference: ReferenceTable,
    source: pd.DataFrame | str | Path,
    schema: Schema,
    rows: Callable[[Schema], pd.DataFrame],
    overlaps: bool,
) -> None:
    """Refuse a reference that is the private table or holds rows of it, as far as that shows.

    This reads private rows without protection, for the curator: that a reference is refused is all
    that comes of it, and it comes before any charge.
    """
    if _same(reference.data, source):
        raise UsageError(
            f"reference ({reference.name}) must not be the private table itself, which the run is "
            "to protect: name a table that is public. Nothing was charged"
        )
    names = [n for n in reference.columns(schema) if n not in {*schema.open, *schema.derived}]
    if not names:
        return
    public = reference.table(schema, names)
    frame = public.unprotected("a reference, which is public").frame()
    private = rows(schema.select(names))
    if all(_contents(frame[[name]]).equals(_contents(private[[name]])) for name in names):
        raise UsageError(
            f"reference ({reference.name}) must not be a copy of the private table: each column "
            "that both have holds the same values equally often. Name a table that is public. "
            "Nothing was charged"
        )
    if not overlaps and _share_rows(_contents(frame), _contents(private)):
        raise UsageError(
            f"reference ({reference.name}) must be public, but it shares more rows with the "
            "private table than two tables of different persons do: it may be a part of it. Take "
            "out what is private. If all of it is public anyway, say so with "
            "--reference-overlaps. Nothing was charged"
        )


def _of_rows(given: Any) -> ReferenceTable:
    """Rows that the curator vouches for."""
    if isinstance(given, pd.DataFrame):
        name = "DataFrame"
        frame = given.set_axis([str(column) for column in given.columns], axis=1)
        digest = hashlib.sha256(_contents(frame).to_csv().encode()).hexdigest()
        data: pd.DataFrame | Path = frame
    else:
        if "://" in str(given):
            raise UsageError(
                "reference must be a CSV or Parquet file or a release folder, not the address of a "
                "database: write its rows to a file"
            )
        path = Path(given).expanduser()
        if not path.is_file():
            raise UsageError(
                f"reference ({given}) must be a CSV or Parquet file or a release folder: "
                f"{'there is no statement in that folder' if path.is_dir() else 'it is not there'}"
            )
        name, data = path.name, path
        with path.open("rb") as handle:
            digest = hashlib.file_digest(handle, "sha256").hexdigest()
    facts = {"name": name, "kind": PUBLIC, "sha256": digest}
    return ReferenceTable(name=name, data=data, rows=0, digest=digest, facts=facts)


def _of_release(release: Release, schema: Schema, ledger: Ledger, seeded: bool) -> ReferenceTable:
    """Rows that are drawn from a release's model, as many as make their own noise small."""
    statement, name = release.statement, release.path.name
    if statement.foreign:
        raise UsageError(
            f"reference ({name}) must have been paid for: its rows were made by another tool. If "
            f"they are public, name the file of its rows: {release.path / release.frame_file}"
        )
    if not statement.private and not seeded:
        raise UsageError(
            f"reference ({name}) must be private: its noise was drawn from a seed, so it protects "
            "nobody whose rows it was made of. Take a release without --seed"
        )
    if statement.schema_drafted and not (seeded or schema.drafted_from_data):
        raise UsageError(
            f"reference ({name}) must have a schema of public knowledge: its own was drafted from "
            "private rows, for which no budget paid, and what leans on it would give that away"
        )
    model, frame = release.model(), release.frame()
    rows = float(statement.notes.get("estimated_rows") or len(frame))
    if model is not None:
        frame = draw(model, release.schema, max(DRAWN, len(frame)), np.random.default_rng(0))
    files, wanted = statement.files, ("model", "schema", "synthetic")
    parts = [f"{name} {files[name]}" for name in sorted(files) if name.startswith(wanted)]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    known = Workspace.here().ledger_of(files[release.frame_file])
    same = ledger.path is not None and known == str(ledger.path.resolve())
    facts = {
        "name": name,
        "kind": RELEASE,
        "rows": round(rows),
        "sha256": digest,
        "ledger": "the same" if same else "another",
        "eps": statement.eps,
        "delta": statement.delta,
        "guarantee": statement.guarantee,
        "protects": statement.unit,
    }
    return ReferenceTable(name=name, data=frame, rows=rows, digest=digest, facts=facts)


def _fitting(reference: ReferenceTable, schema: Schema) -> tuple[ReferenceTable, list[str]]:
    """The reference without columns that are coded in another way, and warnings."""
    from marginalsyn.drafting.check import check_data

    try:
        shared = reference.columns(schema)
        kept = [name for name in shared if name not in {*schema.open, *schema.derived}]
        checks = check_data(reference.data, schema.select(kept)) if kept else []
    except DataError as error:
        raise UsageError(
            f"reference ({reference.name}) must be a readable table: {error}"
        ) from error
    if not shared:
        raise UsageError(
            f"reference ({reference.name}) must have a column of the schema: it has "
            f"{', '.join(reference.present[:10])}, the schema {', '.join(schema.names[:10])}"
        )
    if checks and not checks[0].rows:
        raise UsageError(f"reference ({reference.name}) must hold rows: it has none")
    left = set()
    lines = []
    for check in checks:
        foreign = check.unparsable + check.unseen
        missing = check.missing if not check.column.nullable else 0
        if (foreign + missing) > _FOREIGN * check.rows:
            left.add(check.name)
            lines.append(
                f"reference {reference.name}: column {check.name} is left out, since most of its "
                f"values do not fit the schema: {'; '.join(check.notes())}"
            )
        elif foreign:
            lines.append(
                f"reference {reference.name}: column {check.name}, of {check.rows:,} values: "
                f"{'; '.join(check.notes())}"
            )
    if left >= {*shared}:
        raise UsageError(
            f"reference ({reference.name}) must hold values that the schema has: {lines[0]}"
        )
    facts = {**reference.facts, "columns": [name for name in shared if name not in left]}
    return replace(reference, left_out=frozenset(left), facts=facts), lines


def _same(data: pd.DataFrame | Path, source: pd.DataFrame | str | Path) -> bool:
    if isinstance(data, Path) and not isinstance(source, pd.DataFrame):
        return same_source(data, source)
    return data is source


def _contents(frame: pd.DataFrame) -> pd.Series:
    """How often each row occurs, by a hash of its content."""
    texts = frame.astype(object).where(frame.notna(), None).astype(str)
    hashes = pd.Series(pd.util.hash_pandas_object(texts, index=False).to_numpy())
    return hashes.value_counts().sort_index()


def _share_rows(first: pd.Series, second: pd.Series) -> bool:
    """Whether two tables have more rows in common than tables of different persons.

    Of contents that occur twice in all, let a be those that occur twice in one table, b twice in
    the other, c once in each. Where rows were drawn independently, however often each content is
    in either population, c is at most 2 sqrt(a b) in the mean (Cauchy and Schwarz). Equal rows
    that are one row make c larger. The test takes upper bounds of a and b, and asks whether chance
    alone explains c.
    """
    both = pd.DataFrame({"first": first, "second": second}).fillna(0).astype(int)
    twice = both[both.sum(axis=1) == 2]
    once = [int((twice[name] == 2).sum()) for name in twice]
    most = 2 * float(np.sqrt(np.prod([gammainccinv(n + 1, _BY_CHANCE) for n in once])))
    return bool(gammainc(len(twice) - sum(once), most) < _BY_CHANCE)

"""Many tables for any code: each of a model of its own, and one of the release's model.

Tables of one model vary too little to tell how sure the model is. Here each comes from the model of
a replay of the release; the file ``imputations.json`` says so, and :mod:`combining` asks for it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from marginalsyn.answers.answering import check
from marginalsyn.answers.evidence import Evidence, Target
from marginalsyn.errors import DataError, UsageError
from marginalsyn.graphical.estimation import draw_possible
from marginalsyn.graphical.soft_rows import SoftTable
from marginalsyn.people.drawing import draw_rows
from marginalsyn.progress import Progress, Silent
from marginalsyn.release.staging import staged
from marginalsyn.table.codec import Codec
from marginalsyn.table.frames import write_csv
from marginalsyn.table.keeping import with_followers

if TYPE_CHECKING:
    import pandas as pd

    from marginalsyn.release.folder import Release

INDEX = "imputations.json"
FITTED = "fitted.csv"
# The combining rule subtracts the tables' own sampling, which must be a small part.
TIMES = 5
_FORMAT = 1


@dataclass(frozen=True)
class Index:
    """The index of a folder of tables, ``imputations.json``.

    Attributes:
        models: for each file the hash of the model that it was drawn from.
        target: what the tables stand for.
        rows: rows of each imputation.
        private_rows: the estimated number of private rows.
    """

    models: dict[str, str]
    target: Target
    rows: int
    private_rows: int

    @property
    def imputations(self) -> list[str]:
        """The files that were drawn from models of their own."""
        return [name for name in self.models if name != FITTED]

    @classmethod
    def read(cls, folder: Path) -> Index:
        """Read the file in a folder of tables.

        Raises:
            UsageError: there is none, so that nothing says that each table has a model of its own.
        """
        path = folder / INDEX
        try:
            stored: Any = json.loads(path.read_text(encoding="utf-8"))
            models = {str(t["file"]): str(t["model"]) for t in stored["tables"]}
            found = cls(models, stored["target"], int(stored["rows"]), int(stored["private_rows"]))
        except FileNotFoundError:
            raise UsageError(
                f"folder ({folder}) must hold {INDEX}: tables that were drawn from one model "
                "cannot be combined, since they do not vary as releases do; draw them with "
                "`marginalsyn sample RELEASE --imputations 20 --out FOLDER`, and name that folder "
                "with --tables"
            ) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"file ({path}) must be as `marginalsyn sample` wrote it: {error}"
            ) from None
        if len({found.models[name] for name in found.imputations}) < len(found.imputations):
            raise UsageError(
                f"tables ({folder}) must each be drawn from a model of its own: two share one"
            )
        return found


def impute(
    release: Release,
    folder: str | Path,
    *,
    tables: int = 20,
    rows: int | None = None,
    target: Target = "population",
    seed: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Index:
    """Fill a folder with tables, each of its own replay, and one of the release's model.

    Args:
        release: made from noisy marginals.
        folder: a new one; it is written whole or not at all.
        tables: how many, 5 or more.
        rows: of each; by default five times the estimated number of private rows, and no fewer.
        target: ``population`` or ``table``; what intervals from them will be for.
        seed: of the draws; safe, as nothing private is drawn.
        force: replace a folder of earlier imputations.
        progress: reports how far it is.
    """
    folder = Path(folder)
    if folder.exists() and not (force and (folder / INDEX).is_file()):
        raise UsageError(
            f"folder ({folder}) is there already: if it holds imputations replace it with --force, "
            "else choose another name with --out"
        )
    check(target, 0.95, 0)
    if not 5 <= tables <= 1000:
        raise UsageError(f"imputations ({tables}) must be 5 to 1,000; 20 do")
    evidence, rng = Evidence.of(release), np.random.default_rng(seed)
    private = max(1, round(evidence.table_rows))
    least = TIMES * private
    count = least if rows is None else rows
    if count < least:
        raise UsageError(
            f"rows ({count}) of imputations must be {least} or more, {TIMES} times the private "
            "table's: with fewer, their own sampling hides how sure the release is"
        )
    report = progress or Silent()
    models: dict[str, str] = {}
    with staged(folder, replace=force) as stage:
        drawn = _draws(evidence, tables, count, target, rng)
        for number, (name, frame, model) in enumerate(drawn):
            report.report("draw", fraction=number / (tables + 1), text=name)
            with (stage / name).open("wb") as handle:
                write_csv(frame, handle)
            models[name] = model
        facts = {
            "format": _FORMAT,
            "about": "Each table but the fitted one was drawn from a model of its own; combine "
            "results with `marginalsyn combine`, not as tables of one model.",
            "target": target,
            "rows": count,
            "private_rows": private,
            "tables": [{"file": name, "model": model} for name, model in models.items()],
        }
        text = json.dumps(facts, indent=1) + "\n"
        (stage / INDEX).write_text(text, encoding="utf-8")
    return Index(models, target, count, private)


def _draws(
    evidence: Evidence,
    tables: int,
    rows: int,
    target: Target,
    rng: np.random.Generator,
) -> Iterator[tuple[str, pd.DataFrame, str]]:
    width = len(str(tables))
    yield FITTED, _frame(evidence, rows, rng, even=True), hash_of(evidence)
    for number in range(1, tables + 1):
        again = evidence.replay(target, rng)
        name = f"imputation-{number:0{width}d}.csv"
        yield name, _frame(again, rows, rng, even=False), hash_of(again)


def _frame(evidence: Evidence, rows: int, rng: np.random.Generator, *, even: bool) -> pd.DataFrame:
    """Rows of a model: spread as evenly as whole numbers allow, or each on its own."""
    draw = evidence.fitted.rows if even else evidence.fitted.sample

    def codes(n: int) -> np.ndarray:
        return evidence.compression.refine(draw(n, rng), rng)

    schema, own = evidence.schema, evidence.schema.without(evidence.followers)

    def frame(n: int) -> pd.DataFrame:
        found = Codec(own).decode(draw_possible(own, n, codes, rng), rng)
        return with_followers(found, schema, evidence.followers)

    if evidence.counted is None or schema.unit is None:
        return frame(rows)
    # Of persons a table holds all rows: each is met as often as its person has rows.
    return draw_rows(frame, schema.unit, rows, rng)


def hash_of(evidence: Evidence) -> str:
    """A hash of a release's model."""
    digest = hashlib.sha256()
    fitted = evidence.fitted
    arrays = fitted.probabilities if isinstance(fitted, SoftTable) else fitted.arrays()[0]
    for array in arrays.values():
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()

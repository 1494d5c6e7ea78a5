"""``steer``: a release with margins that someone states, at no cost in privacy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from marginalsyn import defaults
from marginalsyn.errors import UsageError
from marginalsyn.operations.groups import OfRelease, Reported
from marginalsyn.operations.operation import PYTHON, Result, Session, option

if TYPE_CHECKING:
    from marginalsyn.operations import release as releases  # noqa: F401


def _stated(texts: Sequence[str]) -> dict[str, Any]:
    """Columns with shares, out of texts such as ``label=0.5/0.5``."""
    stated: dict[str, Any] = {}
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


def _of_margin(path: str | Path) -> dict[str, Any]:
    """The shares of one column's margin, as an office publishes it."""
    from marginalsyn.table.margins import read_margin

    entry = read_margin(path)
    cells = entry.get("counts") or entry.get("shares") or []
    if len(entry["columns"]) > 1 or not (whole := sum(cell[-1] for cell in cells)):
        raise UsageError(f"--target-file ({path}) must hold counts or shares of one column")
    return {entry["columns"][0]: {label: value / whole for label, value in cells}}


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
    rows: int | None = option(
        None,
        "The number of rows. [default=as many as the release has]",
        range=(1, None),
        metavar="N",
    )
    steps: int | None = option(
        None,
        "Training steps of the generator network. [default=2000]",
        range=(1, None),
        metavar="N",
    )
    out: str | Path = option(defaults.STEERED, "The folder of the new release.", metavar="DIR")
    seed: int | None = option(
        None,
        "Make the draw repeatable. This is safe: steering adds no protective noise.",
        range=(0, None),
        metavar="N",
    )
    force: bool = option(False, "Overwrite what exists.")

    def run(self, session: Session = PYTHON) -> Result[Any]:
        """Draw, write, and remember the new release with the table of the old one."""
        import numpy as np

        from marginalsyn.operations.origins import find_origin, rows_of
        from marginalsyn.release.folder import preflight
        from marginalsyn.steering.steering import steer

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
        origin = find_origin(made.schema, rows_of(source))
        if origin is not None:
            origin.remember(made)
        note = f"{len(synthesis.frame):,} rows; no privacy budget was spent."
        return Result(made, text=[str(self.out)], notes=[note])

    def _from_file(self) -> dict[str, Any]:
        from marginalsyn.operations.files import read_json

        if self.target_file is None:
            return {}
        if Path(self.target_file).suffix.lower() == ".csv":
            return _of_margin(self.target_file)
        found = read_json(Path(self.target_file), "--target-file")
        if not isinstance(found, dict):
            raise UsageError(
                f"--target-file ({self.target_file}) must hold columns with their shares"
            )
        return found

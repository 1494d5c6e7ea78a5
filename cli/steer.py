"""``marginalsyn steer``: a release with margins that someone states, at no cost in privacy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rich_click as click

from marginalsyn import defaults
from marginalsyn.cli import group, options, screen
from marginalsyn.cli.inputs import read_json, read_release
from marginalsyn.errors import UsageError
from marginalsyn.operations.steered import steer_release


@group.command(
    examples="""
    # half of the rows in each class of the label, in ./steered
    marginalsyn steer --target income=0.5/0.5
    # two margins at once; shares by label from a file
    marginalsyn steer release --target sex=0.5/0.5 --target-file margins.json --out even
    # new rows by a generator network trained on the weighted rows
    marginalsyn steer release --target income=0.5/0.5 --method mmd --steps 4000
    """,
)
@options.release
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="COLUMN=SHARES",
    help="A column and the shares of its values, separated by slashes, in the schema's order. "
    "Values left out at the end get none. May be repeated.",
)
@click.option(
    "--target-file",
    type=options.PATH,
    metavar="FILE",
    help='Shares by label, as JSON: `{"income": {"<=50K": 0.5, ">50K": 0.5}}`.',
)
@click.option(
    "--method",
    type=click.Choice(["rows", "mmd", "cross-entropy"]),
    default=defaults.STEER,
    help="rows: draw from the release's rows, or from fresh rows of its model. mmd, cross-entropy: "
    "train a generator network with this loss on the weighted rows, and draw from it.",
)
@options.rows("The number of rows. [default=as many as the release has]")
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    metavar="N",
    help="Training steps of the generator network. [default=2000]",
)
@options.out(
    default=defaults.STEERED,
    metavar="DIR",
    help="The folder of the new release.",
)
@options.seed(help="Make the draw repeatable. This is safe: steering adds no protective noise.")
@options.force
@options.quiet
def steer(
    release: Path | None,
    targets: tuple[str, ...],
    target_file: Path | None,
    out: Path,
    quiet: bool,
    **how: Any,
) -> None:
    """Make a release with margins that you state.

    Steering uses only what the release holds, so it costs no privacy; the new release carries the
    statement of the old one. State margins that are public or that you wish for, such as a class
    balance. Never state shares that you counted on the private table: they would leak.
    """
    stated = _stated(targets, target_file)
    source = read_release(release)
    notes = screen.Notes(quiet)
    with notes.progress() as progress:
        made = steer_release(source, stated, out=out, progress=progress, **how)
    screen.write(str(out))
    notes.say(f"{len(made.frame()):,} rows; no privacy budget was spent.")


def _stated(targets: tuple[str, ...], file: Path | None) -> dict[str, Any]:
    """What the options state, as columns with shares."""
    stated: dict[str, Any] = {}
    if file is not None:
        found = read_json(file, "--target-file")
        if not isinstance(found, dict):
            raise UsageError(f"--target-file ({file}) must hold columns with their shares")
        stated.update(found)
    for text in targets:
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
    if not stated:
        raise UsageError("--target must name a column, such as --target label=0.5/0.5")
    return stated

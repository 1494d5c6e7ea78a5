"""``marginalsyn report``: a page about a release that may be published."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from marginalsyn import defaults
from marginalsyn.cli import group, options, screen
from marginalsyn.cli.bundles import bundle
from marginalsyn.cli.inputs import release_path
from marginalsyn.errors import ReleaseError, UsageError
from marginalsyn.operations.files import check_new, write_text

PUBLIC = "public-report.html"


@group.command(
    examples="""
    # a page for readers of the last release
    marginalsyn report --public
    marginalsyn report release --public --out about.html
    # the curator's page again, from evaluation/evaluation.json
    marginalsyn report
    """,
)
@options.release
@click.option(
    "--public",
    is_flag=True,
    help="Write a page that may be published, from the release folder alone.",
)
@click.option(
    "--evaluation",
    "folder",
    type=options.PATH,
    default=defaults.EVALUATION,
    metavar="FOLDER",
    help="The evaluation whose page to write again, without --public.",
)
@options.out(help=f"The HTML file to write. [default={PUBLIC}, or report.html in the evaluation]")
@bundle(options.Output, only=("force", "quiet", "as_json"))
def report(
    release: Path | None, public: bool, folder: Path, out: Path | None, output: options.Output
) -> None:
    """Write a page about a release: one HTML file that needs no network.

    With --public, it holds the privacy statement, the synthetic columns, the weights and the
    certificate, and nothing that was computed from real rows. Without it, the page of an evaluation
    is written again; that page is for the curator alone.
    """
    notes, as_json = screen.Notes(output.quiet), output.as_json
    if not public:
        if release is not None:
            raise UsageError(
                f"release ({release}) goes with --public; for the curator's page of a release use "
                "`marginalsyn evaluate`"
            )
        _curator(folder, out, as_json, notes)
        return
    from marginalsyn.certificates.verification import verify
    from marginalsyn.evaluation.linked_public import publish_linked
    from marginalsyn.evaluation.publication import publish
    from marginalsyn.release.folder import Release
    from marginalsyn.release.linked import open_release

    path = release_path(release)
    problems = verify(path)
    if problems:
        raise ReleaseError(
            f"release ({path}) must be whole before a page is made of it: {problems[0]}"
        )
    opened = open_release(path)
    found = publish(opened) if isinstance(opened, Release) else publish_linked(opened)
    target = out or Path(PUBLIC)
    text = found.to_html()
    _check(target, output.force, found.stamp)
    write_text(target, text)
    if as_json:
        screen.write(found.to_json())
    else:
        screen.write(str(target))
    notes.say(found.stamp)


def _curator(folder: Path, out: Path | None, as_json: bool, notes: screen.Notes) -> None:
    from marginalsyn.evaluation.evaluation import JSON_FILE, PAGE_FILE, Evaluation, check_folder

    file = folder / JSON_FILE
    try:
        found = Evaluation.from_json(file.read_text(encoding="utf-8"))
    except OSError:
        raise UsageError(
            f"evaluation ({file}) must exist: make it with `marginalsyn evaluate`, or add --public "
            "for a page from the release alone"
        ) from None
    target = out or folder / PAGE_FILE
    check_folder(target.parent)
    write_text(target, found.to_html())
    screen.write(found.to_json() if as_json else str(target))
    notes.say(found.stamp)


def _check(target: Path, force: bool, stamp: str) -> None:
    """An earlier page of ours may be replaced; other files only when forced."""
    if not target.exists() or force:
        return
    if target.is_file() and stamp in target.read_text(encoding="utf-8", errors="replace"):
        return
    check_new(target, force)

"""``report``: a page about a release that may be published."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marginalsyn import defaults
from marginalsyn.errors import ReleaseError, UsageError
from marginalsyn.operations.groups import OfRelease
from marginalsyn.operations.operation import PYTHON, Result, Session, option

if TYPE_CHECKING:
    from marginalsyn.evaluation.publication import Publication  # noqa: F401

PUBLIC = "public-report.html"


@dataclass(frozen=True, kw_only=True)
class Report(OfRelease["Publication"]):
    """Write a page about a release: one HTML file that needs no network.

    With --public, it holds the privacy statement, the synthetic columns, the weights and the
    certificate, and nothing that was computed from real rows. Without it, the page of an evaluation
    is written again; that page is for the curator alone.

    Returns:
        The page that may be published.
    """

    examples = """
    # a page for readers of the last release
    marginalsyn report --public
    marginalsyn report release --public --out about.html
    # the curator's page again, from evaluation/evaluation.json
    marginalsyn report
    """

    # From Python, an evaluation writes its own page.
    public: bool = option(
        True,
        "Write a page that may be published, from the release folder alone.",
        default=False,
        python=False,
    )
    evaluation: str | Path = option(
        defaults.EVALUATION,
        "The evaluation whose page to write again, without --public.",
        metavar="FOLDER",
        python=False,
    )
    out: str | Path | None = option(
        None,
        f"The HTML file to write. [default={PUBLIC}, or report.html in the evaluation]",
        metavar="FILE",
        python="Also write the page to this HTML file.",
    )
    force: bool = option(False, "Overwrite what exists.")

    def run(self, session: Session = PYTHON) -> Result[Any]:
        """Check the release, then write its page."""
        from marginalsyn.certificates.measured import verify
        from marginalsyn.evaluation.publication import publish
        from marginalsyn.operations.files import write_text
        from marginalsyn.release.linked import open_release

        if not self.public:
            return self._write_again()
        path = self.folder()
        problems = verify(path)
        if problems:
            raise ReleaseError(
                f"release ({path}) must be whole before a page is made of it: {problems[0]}"
            )
        found = publish(open_release(path))
        if self.out is None and not session.shown:
            return Result(found)
        target, page = Path(self.out or PUBLIC), found.to_html()
        self._check(target, found.stamp)
        write_text(target, page)
        return Result(found, found.to_json(), [str(target)], notes=[found.stamp])

    def _write_again(self) -> Result[Any]:
        from marginalsyn.evaluation.evaluation import (
            JSON_FILE,
            PAGE_FILE,
            Evaluation,
            check_folder,
        )
        from marginalsyn.operations.files import write_text

        if self.release is not None:
            raise UsageError(
                f"release ({self.release}) goes with --public; for the curator's page of a release "
                "use `marginalsyn evaluate`"
            )
        file = Path(self.evaluation) / JSON_FILE
        try:
            found = Evaluation.from_json(file.read_text(encoding="utf-8"))
        except OSError:
            raise UsageError(
                f"evaluation ({file}) must exist: make it with `marginalsyn evaluate`, or add "
                "--public for a page from the release alone"
            ) from None
        target = Path(self.out or file.with_name(PAGE_FILE))
        check_folder(target.parent)
        write_text(target, found.to_html())
        return Result(found, found.to_json(), [str(target)], notes=[found.stamp])

    def _check(self, target: Path, stamp: str) -> None:
        """An earlier page of ours may be replaced; other files only when forced."""
        from marginalsyn.operations.files import check_new

        if not target.is_file() or stamp not in target.read_text("utf-8", errors="replace"):
            check_new(target, self.force)

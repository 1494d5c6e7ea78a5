"""``report``: a page about a release that may be published: made from its folder, nothing else."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marginalsyn import defaults
from marginalsyn.errors import MarginalsynError, ReleaseError, UsageError
from marginalsyn.operations.groups import OfRelease
from marginalsyn.operations.operation import PYTHON, Result, Session, option

if TYPE_CHECKING:
    from marginalsyn.release.folder import Release
    from marginalsyn.release.linked import LinkedRelease


@dataclass(frozen=True)
class Publication:
    """The reports' public blocks, and the page made of them.

    Attributes:
        title: of the page.
        stamp: whether it may be published.
        titles: the reports' section titles.
        reports: their blocks.
        linked: of linked tables, the blocks of those below the root, by table.

    Example:
        >>> from marginalsyn import Release
        >>> publish(Release.read("release")).to_html()[:15]
        '<!doctype html>'
    """

    title: str
    stamp: str
    titles: dict[str, str]
    reports: dict[str, Any]
    linked: dict[str, dict[str, Any]] = field(default_factory=dict)

    def to_json(self) -> str:
        """The blocks, as JSON."""
        blocks = {name: value for name, value in vars(self).items() if name != "linked" or value}
        return json.dumps(blocks, indent=1, ensure_ascii=False) + "\n"

    def to_html(self) -> str:
        """One self-contained page."""
        from marginalsyn.evaluation.evaluation import choose_reports
        from marginalsyn.evaluation.view import OPEN, Page, Section, render

        chosen, sections = choose_reports(list(self.titles)), []
        shown = [("", self.reports), *self.linked.items()]
        for table, name, block in ((t, n, b) for t, blocks in shown for n, b in blocks.items()):
            with _distrusted(name):
                items = list(chosen[name].show_public(block))
            title = f"{table}: {self.titles[name]}" if table else self.titles[name]
            sections.append(Section(f"{table}-{name}" if table else name, title, items))
        privacy = self.reports.get("privacy", {})
        kind, keys = (
            ("private tables", " Keys are new.") if self.linked else ("a private table", "")
        )
        page = Page(
            title=self.title,
            stamp=self.stamp,
            private=self.stamp != OPEN,
            lead=[
                f"The rows are synthetic: drawn from noisy statistics of {kind}, not copied.{keys}",
                "This page was made from the release folder alone, so it says no more than that "
                "does.",
            ],
            figures={name: privacy[name] for name in ("eps", "delta") if name in privacy},
            sections=sections,
            foot="Check the folder with: marginalsyn verify",
            warnings=privacy.get("warnings", ()) if self.stamp != OPEN else (),
        )
        return render(page)


def publish(release: Release | LinkedRelease, *, title: str = "") -> Publication:
    """Collect what every installed report can say of a release without real rows.

    Args:
        release: whole and checked; see :func:`marginalsyn.certificates.verify`.
        title: of the page.
    """
    from marginalsyn.contract import plain
    from marginalsyn.evaluation.evaluation import choose_reports
    from marginalsyn.evaluation.view import CLOSED, OPEN
    from marginalsyn.release.linked import LinkedRelease, TableRelease

    chosen = choose_reports(None)

    def blocks(one: Release, scopes: Collection[str]) -> dict[str, Any]:
        found = {}
        for name, report in chosen.items():
            if report.scope in scopes:
                with _distrusted(name):
                    block = report.publish(one)
                if block is not None:
                    found[name] = plain(block)
        return found

    linked = {}
    if isinstance(release, LinkedRelease):
        tree, table = release.tree, release.tree.title or "linked private tables"
        below = [TableRelease.of(release, one.name) for one in tree.tables[1:] if one.columns]
        linked = {one.table: blocks(one, {"table"}) for one in below}
        found = blocks(TableRelease.of(release), {"table", "release"})
    else:
        table = release.schema.title or "a private table"
        found = blocks(release, {"table", "release", "persons"})
    return Publication(
        title=title or f"Synthetic rows of {table}",
        stamp=OPEN if release.statement.private else CLOSED,
        titles={name: chosen[name].title for name in found},
        reports=found,
        linked=linked,
    )


@contextmanager
def _distrusted(name: str) -> Iterator[None]:
    """Blame the release, which may come from anyone, for what a report cannot read."""
    try:
        yield
    except MarginalsynError:
        raise
    except Exception as error:
        raise ReleaseError(
            f"release must be as marginalsyn wrote it: the report '{name}' cannot read it "
            f"({type(error).__name__})"
        ) from error


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

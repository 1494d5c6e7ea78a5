"""What ``marginalsyn weight`` says beforehand: changed values, no label, rows out of reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from marginalsyn.errors import UsageError

if TYPE_CHECKING:
    from marginalsyn.cli.screen import Notes
    from marginalsyn.contract import Target
    from marginalsyn.plugins.exchange.foreign import Findings
    from marginalsyn.weights.support import Support

NO_LABEL = (
    "no label is named: left out are features that cross it with other columns, its pairs in "
    "`rake`, and the effective rows for a fit of it; name it with --label"
)
UNKNOWN = (
    "the file comes without measurements, so nothing tells whether its rows cover the real ones: "
    "kept is at most what is shown. Weights cannot bring back rows that are missing"
)


@dataclass(frozen=True, kw_only=True)
class Cautions:
    """What is known of the rows before anything is spent.

    Attributes:
        changed: what the schema changed in the rows of a file.
        support: how far the rows cover what released measurements saw; None where there are none.
        foreign: whether another tool made the rows.
        label: the label that the weights take into account.
    """

    changed: Findings | None
    support: Support | None
    foreign: bool
    label: str | None

    @property
    def withheld(self) -> bool:
        """Whether a share that weights keep is only the most that it can be."""
        if self.support is not None:
            return self.support.lacking
        return self.foreign

    def tell(self, notes: Notes, *, ahead: bool) -> None:
        """Say it on the screen; ``ahead`` where a plan is shown."""
        for line in self.changed.lines() if self.changed is not None else ():
            notes.warn(line)
        if self.label is None:
            notes.warn(NO_LABEL)
        if self.support is not None and self.support.lacking:
            notes.warn(self.support.line())
        elif ahead and self.support is not None:
            notes.say(self.support.line())
        elif ahead and self.foreign:
            notes.warn(UNKNOWN)

    def facts(self) -> Mapping[str, Any]:
        """The same as JSON values."""
        return {
            "label": self.label,
            "changed": self.changed.facts() if self.changed is not None else None,
            "support": self.support.facts() if self.support is not None else None,
        }


def find_cautions(target: Target, changed: Findings | None, label: str | None) -> Cautions:
    """Look at the rows that are to be weighted, and at what was released with them."""
    from marginalsyn.weights.support import support_of

    release = target.release
    if release is not None and label is not None and label != release.schema.label:
        raise UsageError(
            f"--label ({label}) is for files of rows: the label of a release is that of its schema "
            f"({release.schema.label or 'none'}). Make or adopt the release with --label"
        )
    return Cautions(
        changed=changed,
        support=support_of(release) if release is not None else None,
        foreign=release is None or release.statement.foreign,
        label=target.schema.label,
    )

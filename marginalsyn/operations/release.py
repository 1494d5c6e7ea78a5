"""The release as people hold it in Python: what the commands do with a release, as its methods."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

from marginalsyn.operations.certify import Certify
from marginalsyn.operations.evaluate import Evaluate
from marginalsyn.operations.operation import method, part
from marginalsyn.operations.report import Report
from marginalsyn.operations.sample import Sample, Steer
from marginalsyn.operations.weight import Weight
from marginalsyn.registry import COMMANDS, find
from marginalsyn.release import folder, linked
from marginalsyn.signatures import checked, speaking_python

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from marginalsyn.access.private_table import PrivateTable
    from marginalsyn.answers.answering import Answers
    from marginalsyn.answers.evidence import Each, Target
    from marginalsyn.answers.families import Name


class Options(TypedDict, total=False):
    """The options of questions, as :func:`marginalsyn.estimate` has them."""

    target: Target
    confidence: float
    replicates: int | None
    whole: bool
    refit: bool
    each: Each
    seed: int | None
    jobs: int


class Asked:
    """What analysts ask of a release, of one table or of several."""

    def ask(self, *questions: str, **options: Unpack[Options]) -> Answers:
        """Estimates with honest intervals, from the release alone; the result prints itself.

        Args:
            questions: such as ``"mean(income) by region where age > 40"``, ``"ratio(share(ill =
                yes) by smoker)"``, ``"test(ill, smoker)"`` or a formula; docs/analysts.md has the
                language.
            options: of :func:`marginalsyn.estimate`, such as ``target="table"``.

        Example:
            >>> Release.read("release").ask("mean(age) by ill").frame()["term"].tolist()
            ['age: ill = no', 'age: ill = yes']
        """
        from marginalsyn.answers.answering import estimate

        with speaking_python():
            return estimate(self, questions, **options)  # type: ignore[arg-type]

    def model(
        self,
        formula: str | None = None,
        *,
        family: Name | None = None,
        where: str = "",
        contrasts: Sequence[str] = (),
        **options: Unpack[Options],
    ) -> Any:
        """A regression as one would fit it to the private rows; see :meth:`ask`.

        Without a formula it is the generator's own model that the release holds, or None.

        Args:
            formula: such as ``"ill ~ smoker * female"``.
            family: linear, logistic, poisson, multinomial or ordinal; by default what suits the
                label.
            where: conditions on rows, such as ``"age > 40, region = north"``.
            contrasts: sums of coefficients, such as ``"[smoker = yes] - 2 * [age]"``.
            options: as of :meth:`ask`.
        """
        if formula is None:
            return super().model()  # type: ignore[misc]
        own = f"{family}({formula})" if family else formula
        rows = f" where {where}" if where else ""
        texts = (f"{own}{rows}", *(f"contrast({own}; {text}){rows}" for text in contrasts))
        return self.ask(*texts, **options)

    weight = method(Weight)
    certify = method(Certify)
    evaluate = method(Evaluate)
    report = method(Report)
    plan_certificate = part(Certify, Certify.plan_certificate, "eps", "delta", "label")

    def estimate(self, **asked: Any) -> pd.DataFrame:
        """Estimates with honest intervals, one row each; see :func:`marginalsyn.estimate`.

        Example:
            >>> Release.read("release").estimate(mean="age")[["low", "high"]].shape
            (1, 2)
        """
        from marginalsyn.answers.answering import estimate

        with speaking_python():
            return estimate(self, **asked).frame()  # type: ignore[arg-type]


class LinkedRelease(Asked, linked.LinkedRelease):
    """A release of linked tables, with the commands as methods.

    What is said of the release says it of its persons, the rows of the root, where there must be
    one table: certificates, estimates, weights.

    Example:
        >>> from marginalsyn import LinkedRelease
        >>> release = LinkedRelease.read("clinic-release")
        >>> release.estimate(mean="age")[["low", "high"]].shape
        (1, 2)
    """

    def after(self, found: Any) -> Any:
        """What a step returned; of an amended release all tables."""
        return type(self).read(found.path) if isinstance(found, folder.Release) else found


class Release(Asked, folder.Release):
    """A release folder, with the commands as methods; their options have the same names here.

    What costs privacy names its private table as the commands do: by ``data`` (a frame, a path or
    an address) or ``dataset``, or not at all where this folder's workspace remembers it. With a
    frame, ``ledger`` names the file that is charged; without one only the release's statement
    knows of the charge. Methods that change the release return the changed one, as in
    ``release = release.weight(...)``.

    Example:
        >>> from marginalsyn import Release
        >>> release = Release.read("release")
        >>> weighted = release.weight(frame, method="beta-noised", eps=1.0)
        >>> list(weighted.weights()), round(weighted.statement.eps, 2) > 2
        (['beta-noised'], True)
    """

    # The table that this release was fitted to in this process.
    _table: PrivateTable | None = None

    steer = method(Steer)
    sample = method(Sample)

    def export(
        self,
        to: str,
        *,
        values: Mapping[str, str] | None = None,
        out: str | Path | None = None,
        force: bool = False,
    ) -> Any:
        """The release in the form that another tool reads, as ``marginalsyn export`` gives it.

        Args:
            to: the name of the form; ``marginalsyn export --list`` lists them.
            values: what only the curator can say and the form asks for, by name.
            out: also write it here: to a file, or into a folder where there are several.
            force: overwrite what exists.

        Returns:
            The contents of its files by name, and in ``lost`` what the form cannot say.
        """
        return method(find(COMMANDS, "export"))(self, to, values=values, out=out, force=force)

    plan_weights = part(
        Weight,
        Weight.plan_weights,
        "method",
        "options",
        "eps",
        "share",
        "delta",
        "allow_large_delta",
    )

    @classmethod
    @checked
    def read(cls, path: str | Path) -> Self:
        """Open a release folder.

        Raises:
            ReleaseError: it is not a release, or its statement is invalid.
        """
        return super().read(path)

    def after(self, found: Any) -> Any:
        """What a step returned; a release still knows its table."""
        if not isinstance(found, folder.Release):
            return found
        made = type(self)(found.path, found.statement, found.schema)
        made._table, made.accepted = self._table, self.accepted
        return made

    def __getstate__(self) -> dict[str, Any]:
        # A release in a file must not take the private rows along.
        return {name: value for name, value in vars(self).items() if name != "_table"}

    def __repr__(self) -> str:
        return f"Release({str(self.path)!r}: {self.statement.generator}, {self.statement.total()})"

    def _repr_html_(self) -> str:
        """What a notebook shows: what the statement and the schema say; no row is read."""
        from marginalsyn.evaluation.view import card, columns_line, stamp_of, statement_figures

        statement, schema = self.statement, self.schema
        stamp, warned = stamp_of(statement)
        figures = [*statement_figures(statement), ("columns", columns_line(schema))]
        if schema.label is not None:
            figures.append(("label", schema.label))
        weights = statement.notes.get("weights")
        if isinstance(weights, dict) and weights:
            figures.append(("weights", ", ".join(map(str, weights))))
        figures.append(("files", ", ".join(sorted(statement.files))))
        title = f"Release {self.path.name}" + (f": {schema.title}" if schema.title else "")
        return card(title, stamp, warned=warned, figures=figures, warnings=statement.warnings)

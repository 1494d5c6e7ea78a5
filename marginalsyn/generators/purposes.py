"""Models that a release is for, as formulas, and the marginals that they are fitted to."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from marginalsyn.errors import UsageError
from marginalsyn.generators.workload import Columns
from marginalsyn.validation import like

# What counts so many times where no other weight is given.
FOR_WEIGHT = 4.0


def model_pairs(formulas: Iterable[str], columns: Collection[str]) -> list[Columns]:
    """Every label with each of its features, columns in their order.

    Args:
        formulas: such as ``"income ~ age + sex"``; a dot stands for all other columns.
        columns: the names that may occur.

    Raises:
        UsageError: a formula that cannot be read, or a column that is not there.

    Example:
        >>> model_pairs(["b ~ .", "c ~ a"], ["a", "b", "c"])
        [('a', 'b'), ('b', 'c'), ('a', 'c')]
    """
    names = list(columns)
    found: dict[Columns, None] = {}
    for formula in formulas:
        sides = [side.strip() for side in formula.split("~")]
        if len(sides) != 2 or not all(sides):
            raise UsageError(
                f"for ({formula}) must be a label and its features, such as 'income ~ age + sex' "
                "or 'income ~ .'"
            )
        label, features = sides[0], [part.strip() for part in sides[1].split("+")]
        if features == ["."]:
            features = [name for name in names if name != label]
        for name in (label, *features):
            if name not in names:
                raise UsageError(
                    f"for ({formula}) must name columns of the schema; {name!r} is not one"
                    f"{like(name, names)}"
                )
        if label in features:
            raise UsageError(f"for ({formula}) must not have its label among the features")
        for feature in features:
            pair = sorted((label, feature), key=names.index)
            found[pair[0], pair[1]] = None
    return list(found)

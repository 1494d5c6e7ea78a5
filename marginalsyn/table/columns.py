"""Columns with listed values: what is publicly known of them, and the codes of their values.

Codes run over the categories or bins, then OTHER (if there is one), then missing (if nullable).
"""

from __future__ import annotations

import math
import string
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from marginalsyn.validation import shown

# What stands in place of categories that are to be bought.
PRIVATE: Literal["private"] = "private"
# Beyond 2**53 neighbouring integers are the same float, and bins would no longer be exact.
MOST_INTEGER = 2**53


def _scalar(value: Any) -> bool | int | float | str:
    """Accept a JSON scalar as it is; numpy's scalars become Python's."""
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, bool | int | float | str):
        raise ValueError(f"value ({shown(value)}) must be a text, a number, true or false")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"value ({value}) must be finite")
    if isinstance(value, str) and not trim(value):
        raise ValueError(
            f"value ({value!r}) must not be blank: blanks are missing, set nullable to true"
        )
    if isinstance(value, str) and any("\ud800" <= sign <= "\udfff" for sign in value):
        raise ValueError(f"value ({value!r}) must be valid Unicode text")
    return value


Scalar = Annotated[bool | int | float | str, PlainValidator(_scalar)]


def _pairs(value: Any) -> Any:
    """Accept {"m": "male"} or pairs; a tuple of pairs keeps columns hashable."""
    found = value.items() if isinstance(value, dict) else value
    if isinstance(found, str) or not all(len(pair) == 2 for pair in found):
        raise ValueError(
            f'synonyms ({shown(value)}) must say what is meant by what, as in {{"m": "male"}}'
        )
    return tuple((trim(_scalar(spelt)), _scalar(meant)) for spelt, meant in found)


Synonyms = Annotated[
    tuple[tuple[str, bool | int | float | str], ...],
    PlainValidator(_pairs),
    PlainSerializer(dict),
]


def text_of(value: bool | int | float | str) -> str:
    """The text that identifies a value: 1, 1.0 and "1" are the same."""
    if isinstance(value, float) and value.is_integer() and abs(value) < MOST_INTEGER:
        return str(int(value))
    return trim(value)


def trim(value: Any) -> str:
    """The text of a value without the blanks that engines trim: fewer than ``str.strip`` does."""
    return str(value).strip(string.whitespace)


class Column(BaseModel):
    """What all kinds of columns share. ``nullable`` adds a code for missing values, always the
    last.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    numeric: ClassVar[bool] = False
    # Whether the levels lie in an order: OTHER and missing are outside it.
    ordered: ClassVar[bool] = False
    # Fields that are written only where they say something.
    quiet: ClassVar[tuple[str, ...]] = ("missing_tokens",)

    name: str = Field(min_length=1)
    kind: str = ""
    nullable: bool = False
    description: str = ""
    # Values that mean "missing" in this column, besides the schema's own.
    missing_tokens: tuple[Scalar, ...] = ()

    @model_serializer(mode="wrap")
    def _leave_defaults_out(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return self._quieted(handler(self))

    def _quieted(self, data: dict[str, Any]) -> dict[str, Any]:
        fields = type(self).model_fields
        silent = [name for name in self.quiet if getattr(self, name) == fields[name].default]
        return {name: value for name, value in data.items() if name not in silent}

    @property
    def levels(self) -> int:
        """Number of categories or bins, without OTHER and missing."""
        raise TypeError(f"{type(self).__name__} has no levels")

    @property
    def values(self) -> tuple[bool | int | float | str, ...]:
        """The value of every level, in code order; none of a numeric column."""
        return ()

    @property
    def worded(self) -> bool:
        """Whether rows hold texts in place of numbers."""
        return False

    @property
    def shapeless(self) -> bool:
        """Whether a run is to buy the shape of numbers inside bins."""
        return False

    @property
    def has_other(self) -> bool:
        return False

    @property
    def size(self) -> int:
        """Number of codes, with OTHER and missing."""
        return self.levels + self.has_other + self.nullable

    @property
    def other_code(self) -> int | None:
        return self.levels if self.has_other else None

    @property
    def missing_code(self) -> int | None:
        return self.size - 1 if self.nullable else None

    @property
    def unseen_code(self) -> int:
        """The code of a value that is neither known nor missing: OTHER, else missing, else 0."""
        if self.other_code is not None:
            return self.other_code
        return self.missing_code or 0

    @property
    def absent_code(self) -> int:
        """The code of a missing value: missing, else OTHER, else 0."""
        if self.missing_code is not None:
            return self.missing_code
        return self.other_code or 0

    def labels(self) -> list[str]:
        """One readable label per code, such as ``"[17, 25)"``, ``"OTHER"`` and ``"missing"``."""
        return self._level_labels() + (["missing"] if self.nullable else [])

    def code_of(self, value: Any) -> int:
        """The code of a public value; None is missing. ValueError where it has none."""
        if value is None:
            if self.missing_code is None:
                raise ValueError(f"{self.name} (null) must be a value: the column is not nullable")
            return self.missing_code
        return self._code(value)

    def mask(self, condition: Any) -> np.ndarray:
        """Boolean array over the codes that a condition of a structural zero covers wholly."""
        conditions = condition if isinstance(condition, list | tuple) else [condition]
        mask = np.zeros(self.size, dtype=bool)
        for one in conditions:
            if one is None:
                mask[self.code_of(None)] = True
            else:
                mask |= self._covered(one)
        return mask

    def _level_labels(self) -> list[str]:
        return []

    def _code(self, value: Any) -> int:
        raise ValueError(f"{self.name} ({value!r}) must be one of the column's values")

    def _covered(self, condition: Any) -> np.ndarray:
        mask = np.zeros(self.size, dtype=bool)
        mask[self._code(condition)] = True
        return mask


class _Listed(Column):
    """A column with a public list of values, and how else they may be spelt.

    ``synonyms`` says what is meant by other spellings (``{"m": "male"}``); with ``ignore_case``
    "MALE" is "male". Rows are written with the listed value.
    """

    quiet: ClassVar[tuple[str, ...]] = ("missing_tokens", "synonyms", "ignore_case")

    synonyms: Synonyms = ()
    ignore_case: bool = False

    @property
    def writable(self) -> tuple[bool | int | float | str, ...]:
        """What rows of a release may hold: the values, and the label of OTHER."""
        return self.values

    @property
    def levels(self) -> int:
        return len(self.values)

    def _level_labels(self) -> list[str]:
        return [trim(value) for value in self.values]

    @cached_property
    def _codes(self) -> dict[str, int]:
        return {text_of(value): code for code, value in enumerate(self.values)}

    def _code(self, value: Any) -> int:
        code = self._codes.get(text_of(value)) if not isinstance(value, dict | list) else None
        if code is None:
            raise ValueError(
                f"{self.name} ({shown(value)}) must be one of {shown(list(self.values), 200)}"
            )
        return code

    def _check_synonyms(self) -> None:
        for spelt, meant in self.synonyms:
            if text_of(meant) not in self._codes:
                raise ValueError(
                    f"synonyms ({spelt!r}: {meant!r}) must stand for one of the column's values"
                )
        if self.ignore_case:
            self._check_distinct("values", [text_of(value).lower() for value in self.values])

    def _check_distinct(self, field: str, values: Sequence[Any]) -> None:
        seen: dict[str, Any] = {}
        for value in values:
            text = text_of(value)
            if "\0" in text:
                # Engines read a text in a query to its first zero byte, or not at all.
                raise ValueError(f"{field} must be free of zero bytes: {value!r} holds one")
            if text in seen:
                raise ValueError(
                    f"{field} must be distinct: {value!r} and {seen[text]!r} are the same value"
                )
            seen[text] = value


class CategoricalColumn(_Listed):
    """A list of categories without order. Values outside it become ``other_label``.

    The list is public, or ``"private"``: then a release buys it, and ``origin`` says so. With
    ``prefixes`` such as (1, 3) a value that is not listed becomes its first 3 characters where
    these are listed, else the first one; only what has neither becomes ``other_label``. With
    ``shorten`` these beginnings alone are bought, and no whole values.

    Example:
        >>> CategoricalColumn(name="sex", categories=("female", "male"), other=False).size
        2
    """

    quiet: ClassVar[tuple[str, ...]] = (*_Listed.quiet, "origin", "prefixes", "shorten")

    kind: Literal["categorical"] = "categorical"
    categories: tuple[Scalar, ...]
    other: bool = True
    other_label: Scalar = "OTHER"
    origin: Literal["public", "private", "bought"] = "public"
    prefixes: tuple[Annotated[int, Field(ge=1, le=100)], ...] = ()
    shorten: bool = False

    @property
    def values(self) -> tuple[bool | int | float | str, ...]:
        return self.categories

    @property
    def writable(self) -> tuple[bool | int | float | str, ...]:
        return (*self.categories, *((self.other_label,) if self.other else ()))

    @property
    def has_other(self) -> bool:
        return self.other

    @property
    def open(self) -> bool:
        """Whether the categories are still to be bought."""
        return self.origin == PRIVATE

    def _level_labels(self) -> list[str]:
        return super()._level_labels() + ([trim(self.other_label)] if self.other else [])

    def _code(self, value: Any) -> int:
        if self.other and value == self.other_label:
            return self.levels
        return super()._code(value)

    @model_validator(mode="before")
    @classmethod
    def _read_private(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and isinstance(text := data.get("categories"), str):
            if text != PRIVATE:
                raise ValueError(
                    f'categories ({text!r}) must be a list of public values, or "{PRIVATE}" to buy '
                    "them"
                )
            return {**data, "categories": (), "origin": PRIVATE}
        return data

    @model_serializer(mode="wrap")
    def _leave_defaults_out(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data = self._quieted(handler(self))
        if self.open:
            data["categories"] = PRIVATE
            del data["origin"]
        return data

    @model_validator(mode="after")
    def _check(self) -> CategoricalColumn:
        if not self.categories and self.origin == "public":
            raise ValueError("categories ([]) must hold at least one public value")
        if self.open:
            self._check_open()
        if list(self.prefixes) != sorted(set(self.prefixes)):
            raise ValueError(f"prefixes ({list(self.prefixes)}) must grow, as in [1, 3]")
        if self.shorten and not self.prefixes:
            raise ValueError("prefixes ([]) must name a length to shorten values to, as in [3]")
        self._check_distinct("categories", self.categories)
        if self.other and text_of(self.other_label) in self._codes:
            raise ValueError(
                f"other_label ({self.other_label!r}) must differ from every category: "
                "rename it, or set other to false"
            )
        self._check_synonyms()
        return self

    def _check_open(self) -> None:
        if self.ordered:
            raise ValueError("categories (private) must be of kind categorical: they have no order")
        if not self.other:
            raise ValueError("other (false) must be true where categories are private")
        if self.synonyms or self.ignore_case:
            raise ValueError(
                "synonyms and ignore_case must be left out where categories are private: values "
                "are distinguished by their spelling"
            )


class OrdinalColumn(CategoricalColumn):
    """A public list of categories in their order; without an OTHER unless asked for.

    Example:
        >>> OrdinalColumn(name="size", categories=("small", "medium", "large")).labels()
        ['small', 'medium', 'large']
    """

    ordered: ClassVar[bool] = True

    kind: Literal["ordinal"] = "ordinal"  # type: ignore[assignment]
    other: bool = False


class BooleanColumn(_Listed):
    """Two values; code 0 is false and 1 is true. The labels are how the table writes them.

    Example:
        >>> BooleanColumn(name="churn", true_label="yes", false_label="no").labels()
        ['no', 'yes']
    """

    kind: Literal["boolean"] = "boolean"
    true_label: Scalar = True
    false_label: Scalar = False

    @property
    def values(self) -> tuple[bool | int | float | str, ...]:
        return (self.false_label, self.true_label)

    @model_validator(mode="after")
    def _check(self) -> BooleanColumn:
        self._check_distinct("true_label and false_label", self.values)
        self._check_synonyms()
        return self


ListedColumn = CategoricalColumn | BooleanColumn
"""Every column whose values are listed."""

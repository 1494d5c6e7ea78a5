"""How a table spells its numbers: decimal comma, thousands, currency, unit, "<0.3".

A format is public and is applied to one value at a time; values are written back as they came.
"""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import ibis
import ibis.expr.types as ir
import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from marginalsyn.table.engine import engine_of

if TYPE_CHECKING:
    from marginalsyn.table.numeric import NumberColumn

DIGITS = string.digits
# Beyond this many characters a text is no number.
LONGEST = 60


class NumberFormat(BaseModel):
    """How numbers are spelt in a column of texts.

    Args:
        decimal: the decimal sign.
        thousands: the sign between groups of three digits; none by default.
        prefix: what stands before a number, such as ``"$ "``; blanks around it do not matter.
        suffix: what stands behind it, such as ``" %"`` or ``" kg"``.

    Example:
        >>> NumberFormat(thousands=",", prefix="$ ").spell(1234.5, 2)
        '$ 1,234.50'
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    decimal: str = "."
    thousands: str = ""
    prefix: str = ""
    suffix: str = ""
    # What a suffix may end in besides.
    minus: ClassVar[str] = ""

    def spell(self, number: float, decimals: int | None) -> str:
        """The text of a number, as the table writes it."""
        if decimals is None:
            text = f"{abs(number):{',' if self.thousands else ''}}".removesuffix(".0")
        else:
            text = f"{abs(number):{',' if self.thousands else ''}.{decimals}f}"
        whole, _, rest = text.partition(".")
        text = whole.replace(",", self.thousands) + (self.decimal + rest if rest else "")
        minus = "-" if number < 0 and any(sign in DIGITS[1:] for sign in text) else ""
        return f"{minus}{self.prefix}{text}{self.suffix}"

    @model_validator(mode="after")
    def _check(self) -> NumberFormat:
        for name in ("decimal", "thousands"):
            sign = getattr(self, name)
            if len(sign) > 1 or (sign and sign in DIGITS + "+-<>eE"):
                raise ValueError(f"{name} ({sign!r}) must be one sign, such as ',' or '.'")
        if not self.decimal or self.decimal == self.thousands:
            raise ValueError(
                f"decimal ({self.decimal!r}) must be a sign other than thousands "
                f"({self.thousands!r})"
            )
        for name in ("prefix", "suffix", "joint"):
            text = getattr(self, name, "").removesuffix(self.minus if name == "suffix" else "")
            if any(sign in DIGITS + "+-<>" for sign in text) or self.decimal == text.strip():
                raise ValueError(f"{name} ({text!r}) must hold no digit and no +, -, < or >")
        return self


PLAIN = NumberFormat()


class OtherFormat(NumberFormat):
    """Another spelling of a column's numbers, which is read and never written.

    Args:
        factor: what a number of this spelling is multiplied by, as in ``{"suffix": " cm",
            "factor": 0.01}`` where the column is in metres. The unit must then be in the text. -1
            is for negative numbers in brackets, or with a minus behind them as the suffix.
        joint: the text between a number of a larger unit and one of the smaller, as in ``5'11"``.
        parts: how many of the smaller unit the larger has.

    Example:
        >>> OtherFormat(joint="'", parts=12, suffix='"', factor=0.0254).parts
        12
    """

    minus: ClassVar[str] = "-"
    factor: float = Field(default=1.0, allow_inf_nan=False)
    joint: str = ""
    parts: int = Field(default=1, ge=1, le=10**6)

    @model_validator(mode="after")
    def _check_unit(self) -> OtherFormat:
        if self.factor != 1 and not (self.prefix + self.suffix + self.joint).strip():
            raise ValueError("factor must come with the prefix, suffix or joint of its unit")
        if not self.factor or (self.suffix.endswith("-") and self.factor > 0):
            raise ValueError(f"factor ({self.factor:g}) must not be 0, and below 0 for a suffix -")
        return self


def spell_all(
    numbers: np.ndarray,
    style: NumberFormat,
    *,
    decimals: int | None,
    below: float | None,
    above: float | None,
) -> list[str]:
    """The texts of numbers; those beyond a limit of detection as ``<limit`` or ``>limit``."""
    distinct, place = np.unique(numbers, return_inverse=True)
    texts = []
    for number in distinct.tolist():
        if below is not None and number < below:
            texts.append("<" + style.spell(below, _digits(below, decimals)))
        elif above is not None and number > above:
            texts.append(">" + style.spell(above, _digits(above, decimals)))
        else:
            texts.append(style.spell(number, decimals))
    return np.array(texts, dtype=object)[place].tolist() if texts else []


def _digits(limit: float, decimals: int | None) -> int | None:
    """A limit is spelt with its own decimals: "<0.3", "<5"."""
    return 0 if float(limit).is_integer() else decimals


def read_number(text: ir.Value, column: NumberColumn) -> ir.Value:
    """The double in a trimmed text by the first of the formats that reads it, null by none.

    Where the column has a limit of detection, ``<x`` is its lower bound if x is at most that limit,
    and x otherwise; ``>x`` likewise.
    """

    def read(text: ir.Value) -> ir.Value:
        styles = (column.format or PLAIN, *column.also)
        return ibis.coalesce(*[_quantity(text, style) for style in styles])

    number, (lower, upper) = read(text), (float(column.lower), float(column.upper))
    if column.below is not None:
        found = read(_behind(text, "<"))
        number = ibis.coalesce(number, ibis.ifelse(found <= column.below, lower, found))
    if column.above is not None:
        found = read(_behind(text, ">"))
        number = ibis.coalesce(number, ibis.ifelse(found >= column.above, upper, found))
    return number


def _behind(text: ir.Value, sign: str) -> ir.Value:
    """What follows a sign at the beginning, with "=" after it or not."""
    rest = ibis.ifelse(text.startswith(sign), text.substr(1), ibis.null("string"))
    return ibis.ifelse(rest.startswith("="), rest.substr(1), rest).strip()


def _quantity(text: ir.Value, style: NumberFormat) -> ir.Value:
    """The number in a text, in the column's own unit."""
    if not isinstance(style, OtherFormat):
        return _spelt_number(text, style)
    none = ibis.null("string")
    before, behind = style.prefix.strip(), style.suffix.strip()
    units = [part for part in (before, behind) if part]
    bare = style.model_copy(update={"prefix": "", "suffix": "", "factor": 1.0})
    if style.factor < 0:
        # The marks of a negative number stand around it: 1-5 is none. Two signs of one are one.
        around = text.startswith(before) & text.endswith(behind)
        inner = text.substr(len(before), ibis.greatest(text.length() - len(before + behind), 0))
        return _quantity(ibis.ifelse(around, inner, none), bare).abs() * exact(style.factor)
    if not style.joint:
        if style.factor == 1:
            return _spelt_number(text, style)
        text = ibis.ifelse(ibis.or_(*[text.contains(part) for part in units]), text, none)
        return _spelt_number(text, style) * exact(style.factor)
    for part in units:
        text = text.replace(part, "")
    joint = "".join(map(_class, style.joint.strip()))
    pattern = f"^([+-]?[0-9]+)[ ]*{joint}[ ]*([0-9]*(?:{_class(style.decimal)}[0-9]*)?)$"
    both = ibis.ifelse(text.strip().re_search(pattern), text.strip(), none)
    large = _spelt_number(both.re_extract(pattern, 1), bare)
    small = ibis.coalesce(_spelt_number(both.re_extract(pattern, 2), bare), exact(0))
    return (large * exact(style.parts) + small) * exact(style.factor)


def exact(constant: float) -> ir.Value:
    # As a text, since engines may read bare digits as a decimal number of few places.
    return ibis.literal(repr(float(constant))).cast("float64")


def _spelt_number(text: ir.Value, style: NumberFormat) -> ir.Value:
    for part in (style.prefix.strip(), style.suffix.strip()):
        if part:
            text = text.replace(part, "")
    # A sign may stand before the currency: "-$ 5" is left with a blank behind the sign.
    text = text.strip().replace("- ", "-")
    digits = "[0-9]+"
    if style.thousands:
        sign = _class(style.thousands)
        digits = f"([0-9]+|[0-9][0-9]?[0-9]?({sign}[0-9][0-9][0-9])+)"
    point = _class(style.decimal)
    exponent = "([eE][+-]?[0-9][0-9]?)?" if not style.thousands else ""
    pattern = f"^[+-]?({digits}({point}[0-9]*)?|{point}[0-9]+){exponent}$"
    guarded = ibis.ifelse(
        text.re_search(pattern) & (text.length() <= LONGEST), text, ibis.null("string")
    )
    if style.thousands:
        guarded = guarded.replace(style.thousands, "")
    if style.decimal != ".":
        guarded = guarded.replace(style.decimal, ".")
    return as_double(guarded)


def as_double(text: ir.Value) -> ir.Value:
    """The double that a text says, which a pattern has let through."""
    # For Java a line of text may end before its last character: "5" and U+2028 pass, too.
    return text.try_cast("float64") if engine_of(text) == "pyspark" else text.cast("float64")


def _class(sign: str) -> str:
    """A sign as a regular expression without a backslash, on which engines disagree."""
    return "[" + sign + "]" if sign not in "^]" else sign


def limit_edges(
    edges: Sequence[float], below: float | None, above: float | None, step: float | None
) -> list[float]:
    """Edges with a bin of its own beyond each limit of detection."""
    found = list(edges)
    if below is not None:
        found = [edge for edge in found if edge == found[0] or edge > below]
        if found[0] < below:
            found.insert(1, below)
    if above is not None:
        first = above + step if step else math.nextafter(above, math.inf)
        found = [edge for edge in found if edge == found[-1] or edge < first]
        if first < found[-1]:
            found.insert(len(found) - 1, first)
    return found

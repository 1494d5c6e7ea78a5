"""How a column of texts spells its dates, times and numbers, in one format or in several.

Guesses are for drafts alone: they read rows, and are not private.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from typing import Any

from marginalsyn.table.timetext import TimeFormat
from marginalsyn.table.wording import NumberFormat, OtherFormat

# The texts of a column with how often they occur, the most frequent first.
Texts = Sequence[tuple[str, int]]

# How many values may be something else, and how many of them in all.
MOST_STRANGE = 5
FIT = 0.97
# Formats of one column: the first reads so many rows at least, and each other one.
MOST_FORMATS = 5
MAIN = 0.2
RARE = 0.002
ISO_FORMS = ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S")
DATES = (
    *("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y"),
    *("%Y%m%d", "%d.%m.%y", "%m/%d/%y", "%d/%m/%y", "%d %b %Y", "%d %B %Y", "%b %d, %Y"),
    *("%y%m%d", "%B %d, %Y", "%b %d %Y", "%B %d %Y", "%d-%b-%Y", "%d-%b-%y", "%d %b %y"),
)
CLOCKS = ("%H:%M", "%H:%M:%S", "%I:%M %p", "%H:%M:%S.%f", "%I:%M:%S %p")
JOINTS = (" ", "T", ", ")
SIGN = re.compile(r"^(?P<limit>[<>]=?)?\s*(?P<body>.*)$")
BETWEEN = ".,'’ \u00a0\u202f"
NUMBER = re.compile(
    rf"^(?P<prefix>[^\d<>]*?)(?P<digits>[+-]?\d[\d{BETWEEN}]*|[.,]\d+)(?P<suffix>[^\d<>]*)$"
)
TURNED = re.compile(r"\(([^()<>-]+)\)|([^()<>-]*\d)-")
UNIT = re.compile(r"^ ?[^\d<>+\s-][^\d<>+-]{0,9}$|^$")
CURRENCIES = {
    *("", "$", "€", "£", "¥", "₹", "US$", "A$", "C$", "R$", "USD", "EUR", "GBP", "CHF", "JPY"),
    *("INR", "SEK", "NOK", "DKK", "PLN", "CAD", "AUD", "BRL", "CNY", "Rs", "Rs.", "kr", "Fr."),
    *("~", "#"),
}
# Spellings of one unit, and how many of its family's first unit one is.
UNITS: tuple[dict[str, float], ...] = (
    {"m": 1, "cm": 0.01, "mm": 0.001, "km": 1000, "in": 0.0254, "inch": 0.0254, "ft": 0.3048},
    {"kg": 1, "g": 0.001, "mg": 1e-6, "lb": 0.45359237, "lbs": 0.45359237, "oz": 0.028349523},
    {"l": 1, "dl": 0.1, "cl": 0.01, "ml": 0.001},
    {"s": 1, "sec": 1, "min": 60, "h": 3600, "d": 86400},
    {"€": 1, "EUR": 1},
    {"$": 1, "US$": 1, "USD": 1},
    {"£": 1, "GBP": 1},
    {"CHF": 1, "Fr.": 1},
)
# A larger unit and a smaller one in one text: the sign between them, how many make one, the unit.
JOINTS_OF_UNITS = (
    *(("'", 12, '"', "in"), ("'", 12, "''", "in"), ("’", 12, "”", "in"), ("ft", 12, "in", "in")),
    *(("h", 60, "min", "min"), ("h", 60, "m", "min"), ("lb", 16, "oz", "oz")),
)
# Money in which 1.234 is more than a thousand.
EURO = {"€", "EUR", "CHF", "Fr.", "kr", "DKK", "NOK", "SEK", "PLN", "R$"}
THOUSAND = re.compile(r"[+-]?[1-9]\d{0,2}([.,]\d{3})+$")
# Decimal sign and thousands, in the order in which they are tried where rows differ.
EITHER = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}$")
SIGNS = tuple((one[0], one[1:]) for one in (",.", ".,", ",", ".", ", ", ". ", ".'", ".’"))


@dataclass(frozen=True)
class Guess:
    """A kind with the fields that were read off the texts, and why."""

    kind: str
    why: str
    fields: dict[str, Any] = field(default_factory=dict)
    tokens: tuple[str, ...] = ()


def guess_moment(texts: Texts, known: int, fit: float = FIT) -> Guess | None:
    """The formats of dates, moments or times that most texts have; mostly there is one.

    Args:
        texts: with how often they occur.
        known: how often they all do.
        fit: the share that must be read.
    """
    # Of six digits one in thirty is a date by chance.
    bare = r"\d{6}(\d\d)?$" if len(texts) > 9 else r"\d{8}$"
    first = _numbered(texts)
    if not any(sign in first for sign in "-./: ") and not re.match(bare, first):
        return None
    chosen: list[tuple[int, str]] = []
    ambiguous, left = False, list(texts)
    while left and len(chosen) < MOST_FORMATS:
        counts = {
            form: sum(count for text, count in left if is_moment(text, form))
            for form in _forms(_numbered(left))
        }
        # No second format with day and month the other way round.
        counts = {f: n for f, n in counts.items() if _turned(f) not in {c for _, c in chosen}}
        form = max(counts, key=counts.__getitem__, default="")
        most = counts.get(form, 0)
        if most < max(1, RARE * known) or (len(left) == len(texts) and most < MAIN * known):
            break
        ambiguous |= counts.get(_turned(form), 0) == most and _turned(form) != form
        chosen.append((most, form))
        left = [(text, count) for text, count in left if not is_moment(text, form)]
    if not chosen or not _fits(left, known, fit, len(texts)):
        return None
    if len({TimeFormat(form).dated for _, form in chosen}) > 1:
        return None
    timed = sum(count for count, form in chosen if TimeFormat(form).timed)
    # Most rows decide whether the hour is kept.
    form = next(form for _, form in chosen if TimeFormat(form).timed == (2 * timed >= known))
    also = tuple(other for _, other in chosen if other != form)
    if form.endswith(clock := " %H:%M:%S") and all(text.endswith(" 00:00:00") for text, _ in texts):
        day = form.removesuffix(clock)
        own = {} if day == "%Y-%m-%d" else {"format": f"{day} 00:00:00"}
        return Guess("date", "dates, all of them at midnight", own)
    style = TimeFormat(form)
    kind = "datetime" if style.dated and style.timed else "date" if style.dated else "time"
    why = f"{kind}s written {', '.join([form, *also])}"
    if ambiguous:
        why += "; day and month could be the other way round"
    fields: dict[str, Any] = {"format": form}
    if others := tuple(other for other in also if other not in ISO_FORMS):
        fields["also"] = others
    if "%z" in form:
        ends = {text[-6:] for text, _ in texts if re.search(r"[+-]\d\d:\d\d$", text)}
        if len(ends) == 1 and not any(text.endswith("Z") for text, _ in texts):
            fields["zone"] = ends.pop()
    return _with_unread(Guess(kind, why, fields), left, known)


def _numbered(texts: Texts) -> str:
    """The most frequent text with a digit, as every date has."""
    return next((text for text, _ in texts if re.search(r"\d", text)), texts[0][0])


def _fits(left: Texts, known: int, fit: float, read: int) -> bool:
    """Whether what is not read is little, or a few words among many different values."""
    few = len(left) <= MOST_STRANGE and read > 50
    return few or sum(count for _, count in left) <= (1 - fit) * known


def _turned(form: str) -> str:
    """The format with day and month the other way round."""
    return form.translate(str.maketrans("md", "dm")) if "%m" in form and "%d" in form else form


def _with_unread(found: Guess, left: Texts, known: int) -> Guess:
    """A guess with the texts that it does not read: a few mean missing, many are counted."""
    if not left:
        return found
    if len(left) <= MOST_STRANGE:
        return Guess(found.kind, found.why, found.fields, tuple(text for text, _ in left))
    share = sum(count for _, count in left) / known
    why = f"{found.why}; {share:.1%} is not read, such as {left[0][0]!r}, and becomes missing"
    return Guess(found.kind, why, {**found.fields, "nullable": True})


def _forms(example: str) -> list[str]:
    """The formats that the most frequent text could have."""
    plain = [*DATES, *CLOCKS]
    joined = [
        date + joint + clock + zone
        for date in DATES
        for joint in JOINTS
        for clock in CLOCKS
        for zone in ("", "%z", " %z")
    ]
    return [form for form in [*plain, *joined] if is_moment(example, form)]


@cache
def _style(form: str) -> tuple[TimeFormat, re.Pattern[str]]:
    """A format with its compiled pattern: there are more formats than Python keeps patterns."""
    style = TimeFormat(form)
    return style, re.compile(style.pattern)


def is_moment(text: str, form: str) -> bool:
    """Whether a text is a date or time of this format."""
    style, pattern = _style(form)
    if not pattern.match(text):
        return False
    try:
        # An offset of hours alone, as frames and databases write it.
        hours = form.endswith("%z") and re.search(r"[+-]\d\d$", text)
        found = datetime.strptime(text + "00" if hours else text, form)
    except ValueError:
        return False
    return not style.dated or 1800 <= found.year <= 2199


def guess_number(texts: Texts, known: int, fit: float = FIT) -> Guess | None:
    """Numbers with currencies, units, decimal commas, limits of detection or some odd words."""
    groups: dict[str, list[_Number]] = {}
    left: list[tuple[str, int]] = []
    numbers = list(itertools.starmap(_split, texts))
    negative = _turned_are_negative([one for one in numbers if one])
    for (text, count), found in zip(texts, numbers, strict=True):
        if found is None or (found.turned and not negative):
            left.append((text, count))
        else:
            groups.setdefault(found.unit, []).append(found)
    read = [one for group in groups.values() for one in group]
    if not read or any(re.match(r"[+-]?0\d", one.digits) for one in read):
        return None  # codes: numbers have no leading zeros
    if len(read) <= 2 * sum(bool(one.limit) for one in read):
        return None  # groups such as <=50K and >50K: limits of detection are few among numbers
    factors = _factors(groups)
    for unit in [unit for unit in groups if unit not in factors]:
        left += [(one.text, one.count) for one in groups.pop(unit)]
    if not _fits(left, known, fit, 0 if _coded(read) else len(read)):
        return None
    main = next(iter(factors))
    comma = any(re.search(r"\d,\d{1,2}$", one.digits) for one in read)
    formats: list[tuple[int, bool, OtherFormat]] = []
    values: dict[str, list[float]] = {"<": [], ">": []}
    places = 0
    plain: tuple[str, str] | None = None
    for unit in sorted(groups, key=lambda unit: unit != main):
        styles = _styles(groups[unit], comma or unit in EURO, plain)
        if styles is None:
            return None
        plain = plain or styles[0][:2]
        for decimal, thousands, own in styles:
            for turned in (False, True):
                if some := [one for one in own if one.turned == turned]:
                    form = _format(decimal, thousands, some, factors[unit])
                    formats.append((sum(one.count for one in some), unit == main, form))
            for one in own:
                if one.limit:
                    number = plain_number(one.digits, form) * factors[unit]
                    values[one.limit[0]].append(float(f"{number:.12g}"))
            if form.joint:
                places = max(places, 2 if factors[unit] < 1 else 0)
            else:
                shift = max(0, round(-math.log10(factors[unit])))
                digits = max(len(one.digits.partition(decimal)[2]) for one in own)
                places = max(places, digits + shift)
    formats.sort(key=lambda one: (not one[1], -one[0]))
    style = NumberFormat(suffix=f" {main}")
    if main in groups:
        first = formats[0][2]
        style = NumberFormat(**{name: getattr(first, name) for name in NumberFormat.model_fields})
    also: list[OtherFormat] = []
    for _, _, form in formats[main in groups :]:
        around = (form.prefix + form.suffix).strip()
        covered = not around or around == (style.prefix + style.suffix).strip()
        covered &= (form.decimal, form.thousands) == (style.decimal, style.thousands)
        if not (covered and form.factor == 1 and not form.joint) and form not in also:
            also.append(form)
    fields: dict[str, Any] = {}
    if style != NumberFormat():
        fields["format"] = style
    if also:
        fields["also"] = tuple(also)
    if values["<"]:
        fields["below"] = max(values["<"])
    if values[">"]:
        fields["above"] = min(values[">"])
    kind = "continuous" if places or any(abs(form.factor) != 1 for form in also) else "integer"
    if kind == "continuous":
        fields["decimals"] = min(places, 10)
    why = _number_words(style, fields)
    if style.thousands and not also and all(EITHER.match(one.digits) for one in read):
        why += "; that sign could be the decimal one"
    return _with_unread(Guess(kind, why, fields), left, known)


def plain_number(digits: str, style: NumberFormat) -> float:
    """The number in digits of this style."""
    bare = digits.replace(style.thousands, "") if style.thousands else digits
    return float(bare.replace(style.decimal, "."))


@dataclass(frozen=True)
class _Number:
    """A text that is a number: what stands around its digits, and how often it occurs."""

    text: str
    count: int
    unit: str
    digits: str
    limit: str = ""
    prefix: str = ""
    suffix: str = ""
    # Of two units in one text: its place in the list of these.
    joint: int | None = None
    # Negative by brackets around it, or a minus behind it.
    turned: bool = False


def _turned_are_negative(numbers: Sequence[_Number]) -> bool:
    """Whether numbers in brackets, or with a minus behind them, are surely negative ones.

    Most numbers are plain, none has a minus before it, and some that are meant have more than
    digits: 1- may be a mark, and (1) a note.
    """
    turned = [one for one in numbers if one.turned]
    return (
        2 * len(turned) < len(numbers)
        and any(one.unit or not one.digits.isdigit() for one in turned)
        and not any("-" in one.digits for one in numbers)
    )


def _split(text: str, count: int) -> _Number | None:
    for place, (joint, parts, suffix, _) in enumerate(JOINTS_OF_UNITS):
        both = re.fullmatch(rf"(\d+) *{joint} *(\d{{1,2}}[.]?\d*|) *({suffix})?", text)
        small = float(both[2] or 0) if both else parts
        if both and small < parts and (both[2] or (suffix[0] in "\"'”" and not both[3])):
            inches = int(both[1]) * parts + small
            return _Number(text, count, f"joint {place}", f"{inches:g}", joint=place)
    sign = SIGN.match(text)
    if sign is None:  # a text of several lines
        return None
    body = sign["body"]
    turned = TURNED.fullmatch(text)
    if turned and (inner := _split(turned[1] or turned[2], count)) and inner.joint is None:
        before, behind = "()" if turned[1] else ("", "-")
        prefix, suffix = before + inner.prefix, inner.suffix + behind
        return replace(inner, text=text, turned=True, prefix=prefix, suffix=suffix)
    minus = ""
    if body.startswith("-") and not body[1:2].isdigit():
        minus, body = "-", body[1:].strip()
    found = NUMBER.match(body)
    if not found:
        return None
    digits = found["digits"].strip()
    prefix, suffix = found["prefix"], found["suffix"]
    suffix = found["digits"][len(found["digits"].rstrip()) :] + suffix
    if prefix.strip() not in CURRENCIES or not UNIT.match(suffix):
        return None
    unit = " ".join(part for part in (prefix.strip(), suffix.strip()) if part)
    return _Number(text, count, unit, minus + digits, sign["limit"] or "", prefix, suffix)


def _coded(numbers: Sequence[_Number]) -> bool:
    """Whether numbers rather seem to be codes: whole, of one length, and few of those there are."""
    digits = [one.digits for one in numbers]
    length, many = Counter(map(len, digits)).most_common(1)[0]
    few = many > 0.8 * len(digits) and len(digits) < 10 ** (length - 1)
    return few and all(map(str.isdigit, digits))


def _factors(groups: Mapping[str, Sequence[_Number]]) -> dict[str, float]:
    """What a number of each unit is multiplied by; exactly 1 for the unit that is written.

    Units that are no other spelling or size of that one are left out.
    """
    small = {u: JOINTS_OF_UNITS[g[0].joint][3] for u, g in groups.items() if g[0].joint is not None}
    sizes = {unit: sum(one.count for one in own) for unit, own in groups.items()}
    named = [unit for unit in groups if unit and unit not in small]
    family = next((f for f in UNITS if any(small.get(u, u) in f for u in (*named, *small))), {})
    main = max(named, key=lambda unit: sizes[unit], default="")
    labelled = [unit for unit in (*named, *small) if small.get(unit, unit) in family]
    if "" in groups and labelled and (small or len(named) > 1):
        # A bare number has the unit in which numbers of its size are written.
        base = _median(groups[labelled[0]]) * family[small.get(labelled[0], labelled[0])]
        bare = max(_median(groups[""]), 1e-9)
        near = {u: abs(math.log(max(base, 1e-9) / size / bare)) for u, size in family.items()}
        main = min((u for u in family if not named or u in named), key=lambda u: near[u])
    if main not in groups and "" in groups:
        own, main = family.get(main), ""
    elif main not in groups:
        # Two units in every text are written in one.
        own, main = 1.0, next(iter(family))
    else:
        own = family.get(main)
    found = {main: 1.0, **({"": 1.0} if "" in groups else {})}
    for unit in groups:
        name = small.get(unit, unit)
        if unit not in found and own and name in family:
            found[unit] = float(f"{family[name] / own:.12g}")
        elif unit not in found and name.lower() == main.lower():
            found[unit] = 1.0
    return found


def _median(numbers: Sequence[_Number]) -> float:
    """The middle of the numbers, however their signs are meant."""
    read = [(one.digits, _signs([one.digits])) for one in numbers]
    values = sorted(
        plain_number(d, NumberFormat(decimal=s[0], thousands=s[1])) for d, s in read if s
    )
    return values[len(values) // 2] if values else 0.0


def _styles(
    numbers: Sequence[_Number], grouped: bool, plain: tuple[str, str] | None
) -> list[tuple[str, str, list[_Number]]] | None:
    """Decimal sign and thousands of the numbers of one unit; mostly all have the same.

    Args:
        numbers: of one unit.
        grouped: whether 1.234 is rather a thousand than a number of three decimals.
        plain: the signs of the unit that is written, for numbers that have none.
    """
    if numbers[0].joint is not None:
        return [(".", "", [*numbers])]
    one = _signs([number.digits for number in numbers])
    dotted = [number.digits for number in numbers if "." in number.digits]
    odd = grouped and bool(dotted) and all(map(THOUSAND.match, dotted))
    if one is not None:
        if plain is not None and all(re.fullmatch(r"[+-]?\d+", n.digits) for n in numbers):
            one = plain
        if not odd or one[0] == ",":
            return [(*one, [*numbers])]
        if not one[1]:
            return [(",", ".", [*numbers])]
    left = [*numbers]
    found: list[tuple[str, str, list[_Number]]] = []
    while left and len(found) < MOST_FORMATS:
        reads = {
            signs: [n for n in left if _matches(n.digits, *signs)]
            for signs in SIGNS
            if signs[0] == "," or not odd
        }
        signs = max(reads, key=lambda signs: sum(n.count for n in reads[signs]))
        own = reads[signs]
        if not own:
            return None
        thousands = signs[1] if any(signs[1] and signs[1] in n.digits for n in own) else ""
        found.append((signs[0], thousands, own))
        left = [number for number in left if not _matches(number.digits, *signs)]
    return found if not left else None


def _matches(digits: str, decimal: str, thousands: str) -> bool:
    """Whether digits are a number by these signs."""
    sign, point = re.escape(thousands), re.escape(decimal)
    # 0,637 has no thousands.
    whole = rf"([1-9]\d{{0,2}}({sign}\d{{3}})+|\d+)" if thousands else r"\d+"
    return bool(re.fullmatch(rf"[+-]?({whole}({point}\d*)?|{point}\d+)", digits))


def _format(decimal: str, thousands: str, own: Sequence[_Number], factor: float) -> OtherFormat:
    """The format of numbers of one style, with what most of them have around the digits."""
    if own[0].joint is not None:
        joint, parts, suffix, _ = JOINTS_OF_UNITS[own[0].joint]
        return OtherFormat(joint=joint, parts=parts, suffix=suffix, factor=factor)
    around = Counter[tuple[str, str]]()
    for one in own:
        around[one.prefix, one.suffix] += one.count
    (prefix, suffix), _ = around.most_common(1)[0]
    factor = -factor if own[0].turned else factor
    return OtherFormat(
        decimal=decimal, thousands=thousands, prefix=prefix, suffix=suffix, factor=factor
    )


def _number_words(style: NumberFormat, fields: Mapping[str, Any]) -> str:
    words = ["numbers"]
    if style.decimal != ".":
        words.append(f"with decimal {style.decimal!r}")
    if style.thousands:
        words.append(f"with thousands {style.thousands!r}")
    around = (style.prefix + style.suffix).strip()
    if around:
        words.append(f"in {around}")
    limits = [
        f"{'<' if n == 'below' else '>'}{fields[n]:g}" for n in ("below", "above") if n in fields
    ]
    if limits:
        words.append(f"and {', '.join(limits)}")
    if also := fields.get("also"):
        shown = [
            form.spell(1234.5, 1) if not form.joint else f"1{form.joint}2{form.suffix}"
            for form in also
        ]
        words.append(f"and spelt as {', '.join(map(str.strip, shown))}")
    return " ".join(words)


def _signs(digits: Sequence[str]) -> tuple[str, str] | None:
    """The decimal sign and that between thousands which all of these can have."""
    pairs = itertools.product(".,", ("", *BETWEEN))
    return next((one for one in pairs if all(_matches(digit, *one) for digit in digits)), None)

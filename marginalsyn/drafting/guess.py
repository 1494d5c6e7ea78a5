"""What the texts of a column seem to be: dates, numbers, truth values, categories, free text.

Guesses are for drafts alone: they read rows, and are not private.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any

from marginalsyn.table.timetext import TimeFormat
from marginalsyn.table.wording import NumberFormat

# The texts of a column with how often they occur, the most frequent first.
Texts = Sequence[tuple[str, int]]

ABSENT = {
    *("unknown", "unk", "unk.", "n.a.", "n. a.", "not known", "not available", "missing"),
    *("not applicable", "nil", "void", "-", "--", ".", "..", "?", "??", "#n/a", "k.a.", "k. a."),
    *("keine angabe", "unbekannt", "inconnu", "desconocido", "refused", "no answer", "(blank)"),
    *("nan", "null", "na", "n/a", "-99", "-999", "-9999", "not reported", "undefined"),
}
# How many values may be something else, and how many of them in all.
MOST_STRANGE = 5
FIT = 0.97
FEWEST_FOR_IDENTIFIER = 20
MOST_CATEGORIES = 50
OPEN = "private-categories"
ICD = re.compile(r"[A-Z]\d\d(\.?\w{1,4})?$", re.IGNORECASE)

# Words for yes and no; the first few say nothing else.
SURE_TRUTHS = (("true", "false"), ("yes", "no"), ("y", "n"), ("t", "f"), ("1", "0"))
TRUTHS = (
    *(*SURE_TRUTHS, ("ja", "nein"), ("j", "n"), ("oui", "non"), ("si", "no"), ("sí", "no")),
    *(("on", "off"), ("wahr", "falsch"), ("positive", "negative"), ("present", "absent")),
)
ORDERS = (
    ("very low", "low", "medium", "moderate", "high", "very high"),
    ("none", "mild", "moderate", "severe", "critical"),
    ("never", "rarely", "sometimes", "often", "usually", "always"),
    ("very poor", "poor", "fair", "good", "very good", "excellent"),
    ("tiny", "small", "medium", "large", "huge"),
    ("xs", "s", "m", "l", "xl", "xxl", "xxxl"),
    ("i", "ii", "iii", "iv", "v", "vi"),
    ("first", "second", "third", "fourth", "fifth"),
    ("strongly disagree", "disagree", "neutral", "agree", "strongly agree"),
    ("young", "middle", "middle-aged", "old", "elderly"),
    ("poor", "fair", "good", "very good", "premium", "ideal"),
    ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
    ("mon", "tue", "wed", "thu", "thur", "fri", "sat", "sun"),
    ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    (
        *("january", "february", "march", "april", "may", "june", "july", "august", "september"),
        *("october", "november", "december"),
    ),
)
# Spellings of one thing; the first is how it is written.
ALIKE = (
    ("male", "m", "man", "männlich", "h", "homme", "masculin", "hombre", "maschio"),
    ("female", "f", "w", "woman", "weiblich", "femme", "féminin", "mujer", "femmina"),
)
DATES = (
    *("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y"),
    *("%Y%m%d", "%d.%m.%y", "%m/%d/%y", "%d/%m/%y", "%d %b %Y", "%d %B %Y", "%b %d, %Y"),
    *("%B %d, %Y", "%b %d %Y", "%B %d %Y", "%d-%b-%Y", "%d-%b-%y", "%d %b %y"),
)
CLOCKS = ("%H:%M", "%H:%M:%S", "%I:%M %p", "%H:%M:%S.%f", "%I:%M:%S %p")
JOINTS = (" ", "T", ", ")
SIGN = re.compile(r"^(?P<limit>[<>]=?)?\s*(?P<body>.*)$")
NUMBER = re.compile(
    r"^(?P<prefix>[^\d<>]*?)(?P<digits>[+-]?\d[\d.,' \u00a0\u202f]*|[.,]\d+)(?P<suffix>[^\d<>]*)$"
)
UNIT = re.compile(r"^ ?[^\d<>+\s-][^\d<>+-]{0,9}$|^$")
CURRENCIES = {
    *("", "$", "€", "£", "¥", "₹", "US$", "A$", "C$", "R$", "USD", "EUR", "GBP", "CHF", "JPY"),
    *("INR", "SEK", "NOK", "DKK", "PLN", "CAD", "AUD", "BRL", "CNY", "Rs", "Rs.", "kr", "Fr."),
    *("~", "#"),
}
UUID = re.compile(r"^[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}$", re.IGNORECASE)


@dataclass(frozen=True)
class Guess:
    """A kind with the fields that were read off the texts, and why."""

    kind: str
    why: str
    fields: dict[str, Any] = field(default_factory=dict)
    tokens: tuple[str, ...] = ()


def guess(name: str, texts: Texts, *, rows: int, distinct: int, named_id: bool) -> Guess:
    """What a column of texts seems to be.

    Args:
        name: of the column.
        texts: its texts, the most frequent first; not all of them where there are very many.
        rows: how many values are not missing.
        distinct: how many different ones.
        named_id: whether the column is called like an identifier.
    """
    tokens = tuple(text for text, _ in texts if text.lower() in ABSENT)
    left = [(text, count) for text, count in texts if text not in tokens]
    known = sum(count for _, count in left)
    if not left:
        return Guess("drop", "empty: only words for a missing value", tokens=tokens)
    for ask in (guess_truth, guess_moment, guess_number):
        found = ask(left, known)
        if found is not None:
            return Guess(found.kind, found.why, found.fields, (*tokens, *found.tokens))
    alone = distinct >= rows >= FEWEST_FOR_IDENTIFIER or (
        named_id and distinct > 0.9 * rows and rows >= FEWEST_FOR_IDENTIFIER
    )
    length = sum(len(text) * count for text, count in left) / known
    worded = sum(count for text, count in left if " " in text) / known
    if alone and (named_id or worded < 0.5):
        pattern = id_pattern([text for text, _ in left])
        return Guess("identifier", "every row has another one", {"pattern": pattern})
    if distinct > MOST_CATEGORIES:
        if distinct > 0.5 * rows or (length > 40 and worded > 0.5):
            return Guess("drop", f"free text: {distinct:,} different texts in {rows:,} rows")
        return guess_open(left, tokens, distinct)
    return guess_categories(left, tokens)


def guess_truth(texts: Texts, known: int) -> Guess | None:
    """Two words for yes and no, each spelt in one way or in several."""
    folded = Counter()  # type: Counter[str]
    for text, count in texts:
        folded[text.lower()] += count
    for yes, no in TRUTHS:
        if not {*folded} <= {yes, no}:
            continue
        spelt = {
            word: next((text for text, _ in texts if text.lower() == word), "")
            for word in (yes, no)
        }
        style: Callable[[str], str] = str
        for way in (str.lower, str.title, str.upper):
            if all(text in ("", way(word)) for word, text in spelt.items()):
                style = way
        labels = {word: text or style(word) for word, text in spelt.items()}
        fields: dict[str, Any] = {"true_label": labels[yes], "false_label": labels[no]}
        if len(texts) > len(folded):
            fields["ignore_case"] = True
        return Guess("boolean", f"words for yes and no: {labels[yes]}, {labels[no]}", fields)
    return None


def guess_moment(texts: Texts, known: int) -> Guess | None:
    """One format of dates, moments or times that nearly all texts have."""
    if not any(sign in texts[0][0] for sign in "-./: ") and not re.match(r"\d{8}$", texts[0][0]):
        return None
    fits: list[tuple[int, int, str]] = []
    for place, form in enumerate(_forms(texts[0][0])):
        found = sum(count for text, count in texts if is_moment(text, form))
        if found >= FIT * known:
            fits.append((-found, place, form))
    if not fits:
        return None
    form = min(fits)[2]
    strange = tuple(text for text, _ in texts if not is_moment(text, form))
    if len(strange) > MOST_STRANGE:
        return None
    if form == "%Y-%m-%d %H:%M:%S" and all(text.endswith(" 00:00:00") for text, _ in texts):
        return Guess("date", "dates, all of them at midnight")
    style = TimeFormat(form)
    kind = "datetime" if style.dated and style.timed else "date" if style.dated else "time"
    why = f"{kind}s written {form}"
    if len({other.replace("%m", "%d") for _, _, other in fits}) < len(fits):
        why += "; day and month could be the other way round"
    fields: dict[str, Any] = {"format": form}
    if "%z" in form:
        ends = {text[-6:] for text, _ in texts if re.search(r"[+-]\d\d:\d\d$", text)}
        if len(ends) == 1 and not any(text.endswith("Z") for text, _ in texts):
            fields["zone"] = ends.pop()
    return Guess(kind, why, fields, strange)


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
        found = datetime.strptime(text, form)
    except ValueError:
        return False
    return not style.dated or 1800 <= found.year <= 2199


def guess_number(texts: Texts, known: int) -> Guess | None:
    """Numbers with a currency, a unit, a decimal comma, a limit of detection or some odd words."""
    parts = {text: _split(text) for text, _ in texts}
    spelt = [(text, count) for text, count in texts if parts[text]]
    if sum(count for _, count in spelt) < FIT * known or len(texts) - len(spelt) > MOST_STRANGE:
        return None
    around = Counter()  # type: Counter[tuple[str, str]]
    for text, count in spelt:
        around[parts[text]["around"]] += count  # type: ignore[index]
    (prefix, suffix), _ = around.most_common(1)[0]
    bare = (prefix.strip(), suffix.strip())
    for one, two in around:
        if (one.strip(), two.strip()) not in (bare, ("", "")):
            return None
    digits = [parts[text]["digits"] for text, _ in spelt]  # type: ignore[index]
    if any(re.match(r"[+-]?0\d", digit) for digit in digits):
        return None  # a code: numbers have no leading zeros
    signs = _signs(digits)
    if signs is None:
        return None
    decimal, thousands = signs
    style = NumberFormat(decimal=decimal, thousands=thousands, prefix=prefix, suffix=suffix)
    limits: dict[str, set[float]] = {"<": set(), ">": set()}
    for text, _ in spelt:
        found = parts[text]
        assert found is not None
        if found["limit"]:
            limits[found["limit"][0]].add(plain_number(found["digits"], style))
    fields: dict[str, Any] = {}
    if style != NumberFormat():
        fields["format"] = style
    if limits["<"]:
        fields["below"] = max(limits["<"])
    if limits[">"]:
        fields["above"] = min(limits[">"])
    places = max(len(digit.partition(decimal)[2]) for digit in digits)
    kind = "continuous" if places else "integer"
    if places:
        fields["decimals"] = min(places, 10)
    strange = tuple(text for text, _ in texts if not parts[text])
    return Guess(kind, _number_words(style, fields), fields, strange)


def plain_number(digits: str, style: NumberFormat) -> float:
    """The number in digits of this style."""
    bare = digits.replace(style.thousands, "") if style.thousands else digits
    return float(bare.replace(style.decimal, "."))


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
    return " ".join(words)


def _split(text: str) -> dict[str, Any] | None:
    sign = SIGN.match(text)
    if sign is None:  # a text of several lines
        return None
    body = sign["body"]
    minus = ""
    if body.startswith("-") and not body[1:2].isdigit():
        minus, body = "-", body[1:].strip()
    found = NUMBER.match(body)
    if not found:
        return None
    digits = found["digits"].strip()
    prefix, suffix = found["prefix"], found["suffix"]
    gap = found["digits"][len(found["digits"].rstrip()) :]
    if prefix.strip() not in CURRENCIES or not UNIT.match(gap + suffix):
        return None
    return {"limit": sign["limit"], "around": (prefix, gap + suffix), "digits": minus + digits}


def _signs(digits: Sequence[str]) -> tuple[str, str] | None:
    """The decimal sign and that between thousands which all of these can have."""
    used = {sign for digit in digits for sign in digit if sign in ".,' \u00a0\u202f"}
    if not used:
        return ".", ""
    for decimal in ".,":
        groups = sorted(used - {decimal})
        if len(groups) > 1:
            continue
        thousands = groups[0] if groups else ""
        sign = re.escape(thousands)
        whole = rf"(\d{{1,3}}({sign}\d{{3}})+|\d+)" if thousands else r"\d+"
        point = re.escape(decimal)
        if all(re.fullmatch(rf"[+-]?({whole}({point}\d*)?|{point}\d+)", d) for d in digits):
            # 1.234 and 5.678 alone are rather thousands than numbers of three decimals.
            ends = [d for d in digits if decimal in d]
            if (
                decimal == ","
                and not thousands
                and all(re.fullmatch(rf"[+-]?[1-9]\d{{0,2}}({point}\d{{3}})+", d) for d in ends)
            ):
                return ".", ","
            return decimal, thousands
    return None


def guess_open(texts: Texts, tokens: tuple[str, ...], distinct: int) -> Guess:
    """Categories that no code book need list: a release buys those that enough rows share."""
    why = f"{distinct:,} different texts: a release buys the frequent ones"
    prefixes: tuple[int, ...] = ()
    spelt = [text for text, _ in texts]
    if spelt and all(ICD.match(text) for text in spelt):
        prefixes = (1, 3)
    elif spelt and all(re.match(r"\d{5}(-\d{4})?$", text) for text in spelt):
        prefixes = (3, 5) if any("-" in text for text in spelt) else (3,)
    if prefixes:
        longest = " or ".join(str(length) for length in reversed(prefixes))
        why += f", else their first {longest} characters"
    return Guess(OPEN, why, {"prefixes": prefixes}, tokens)


def guess_categories(texts: Texts, tokens: tuple[str, ...]) -> Guess:
    """Categories, with other spellings of them folded, in their order where they have one."""
    counts: dict[str, Counter[str]] = {}
    alias = {word: group[0] for group in ALIKE for word in group}
    folded = {text.lower() for text, _ in texts}
    sexes = folded <= {*alias} and len({alias[word] for word in folded}) > 1
    for text, count in texts:
        key = alias[text.lower()] if sexes else text.lower()
        counts.setdefault(key, Counter())[text] += count
    written = {key: spelt.most_common(1)[0][0] for key, spelt in counts.items()}
    fields: dict[str, Any] = {}
    if len(texts) > len(written):
        # What differs in more than case is a synonym.
        fields["ignore_case"] = True
        synonyms = {
            text: written[key]
            for key, spelt in counts.items()
            for text in spelt
            if text.lower() != written[key].lower()
        }
        if synonyms:
            fields["synonyms"] = {text.lower(): meant for text, meant in synonyms.items()}
    for order in ORDERS:
        if 2 < len(written) <= len(order) and {*written} <= {*order}:
            values = [written[word] for word in order if word in written]
            return Guess(
                "ordinal", "words in a known order", {"categories": values, **fields}, tokens
            )
    values = sorted(written.values())
    why = f"{len(values)} different texts"
    if any(re.match(r"0\d", text) for text, _ in texts):
        why = f"{len(values)} codes; leading zeros are kept"
    if fields:
        why += f" in {len(texts)} spellings"
    return Guess("categorical", why, {"categories": values, **fields}, tokens)


def id_pattern(texts: Sequence[str]) -> str:
    """The pattern of identifiers that look like these: "P-000123" gives ``P-{n:06}``."""
    if all(UUID.match(text) for text in texts):
        return "{uuid}"
    shapes = {re.sub(r"\d+$", lambda run: "#" * len(run[0]), text) for text in texts}
    if len(shapes) == 1:
        shape = shapes.pop()
        prefix, width = shape.rstrip("#"), len(shape) - len(shape.rstrip("#"))
        if width and not re.search(r"[{}\d]", prefix):
            return f"{prefix}{{n:0{width}}}"
    return "{n}"

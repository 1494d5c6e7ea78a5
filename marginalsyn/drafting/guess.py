"""What the texts of a column seem to be: dates, numbers, truth values, categories, free text.

Guesses are for drafts alone: they read rows, and are not private.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from marginalsyn.drafting.spellings import FIT, Guess, Texts, guess_moment, guess_number

ABSENT = {
    *("unknown", "unk", "unk.", "n.a.", "n. a.", "not known", "not available", "missing"),
    *("not applicable", "nil", "void", "-", "--", ".", "..", "?", "??", "#n/a", "k.a.", "k. a."),
    *("keine angabe", "unbekannt", "inconnu", "desconocido", "refused", "no answer", "(blank)"),
    *("nan", "null", "na", "n/a", "-99", "-999", "-9999", "not reported", "undefined"),
}
FEWEST_FOR_IDENTIFIER = 20
MOST_CATEGORIES = 50
OPEN = "private-categories"
# Letters, digits and signs without a blank, a digit among them.
CODE = re.compile(r"^(?=.*\d)[\w./:-]{2,20}$")
ICD = re.compile(r"[A-Z]\d\d(\.?\w{1,4})?$", re.IGNORECASE)

# Words for yes and no.
TRUTHS = (
    *(("true", "false"), ("yes", "no"), ("y", "n"), ("t", "f"), ("1", "0"), ("ja", "nein")),
    *(("j", "n"), ("oui", "non"), ("si", "no"), ("sí", "no")),
    *(("on", "off"), ("wahr", "falsch"), ("positive", "negative"), ("present", "absent")),
)
YES = {*("yes", "y", "ja", "j", "oui", "o", "si", "sí", "true", "t", "wahr", "1")}
NO = {*("no", "n", "nein", "non", "false", "f", "falsch", "0")}
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
    ("strongly disagree", "disagree", "neither agree nor disagree", "agree", "strongly agree"),
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
EMAIL = re.compile(r"^[^@\s]+@[^@\s]+[.][A-Za-z]{2,}$")
UUID = re.compile(r"^[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}$", re.IGNORECASE)


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
    mails = sum(count for text, count in left if EMAIL.match(text))
    if mails >= FIT * known:
        fields = {"pattern": "person{n:05}@example.org"}
        return Guess("identifier", "e-mail addresses: made-up ones take their place", fields)
    alone = rows >= FEWEST_FOR_IDENTIFIER and distinct >= (0.9 if named_id else 1) * rows
    length = sum(len(text) * count for text, count in left) / known
    worded = sum(count for text, count in left if " " in text) / known
    if alone and (named_id or worded < 0.5):
        pattern = id_pattern([text for text, _ in left])
        return Guess("identifier", "every row has another one", {"pattern": pattern})
    if distinct > MOST_CATEGORIES:
        free = distinct > 0.5 * rows or (length > 40 and worded > 0.5)
        if free and not code_prefixes([text for text, _ in left]):
            return Guess("drop", f"free text: {distinct:,} different texts in {rows:,} rows")
        return guess_open(left, tokens, distinct)
    return guess_categories(left, tokens)


def guess_truth(texts: Texts, known: int) -> Guess | None:
    """Two words for yes and no, each spelt in one way or in several."""
    words = {text.lower() for text, _ in texts}
    pair = next((pair for pair in TRUTHS if words <= {*pair}), None)
    if pair is None and not (words <= YES | NO and words & YES and words & NO):
        return None
    sides = [{word} for word in pair] if pair else [YES, NO]
    true, false = (next((t for t, _ in texts if t.lower() in side), "") for side in sides)
    if pair:
        # A word that no row has is spelt as the other one.
        ways = (str.upper, str.title, str.lower)
        style = next((way for way in ways if (way(true), way(false)) == (true, false)), str)
        true, false = true or style(pair[0]), false or style(pair[1])
    fields: dict[str, Any] = {"true_label": true, "false_label": false}
    why = f"words for yes and no: {true}, {false}"
    # Several words for each: the most frequent one is how it is written.
    others = sorted(words - {true.lower(), false.lower()})
    if others or len(texts) > len(words):
        fields["ignore_case"] = True
    if others:
        fields["synonyms"] = {word: true if word in YES else false for word in others}
        why += f" in {len(texts)} spellings"
    return Guess("boolean", why, fields)


def guess_open(texts: Texts, tokens: tuple[str, ...], distinct: int) -> Guess:
    """Categories that no code book need list: a release buys those that enough rows share."""
    why = f"{distinct:,} different texts: a release buys the frequent ones"
    prefixes = code_prefixes([text for text, _ in texts])
    if prefixes:
        why += f", else their first {' or '.join(map(str, reversed(prefixes)))} characters"
    return Guess(OPEN, why, {"prefixes": prefixes}, tokens)


def code_prefixes(spelt: Sequence[str]) -> tuple[int, ...]:
    """The lengths of beginnings that say something of codes; none where the texts are words.

    Example:
        >>> code_prefixes(["E11.9", "I10"]), code_prefixes(["10115", "80331"])
        ((1, 3), (2, 3))
        >>> code_prefixes([f"M{a}-{b}" for a in range(9) for b in range(99)])
        (3,)
    """
    if not spelt:
        return ()
    if all(ICD.match(text) for text in spelt):
        return (1, 3)
    if all(re.match(r"\d{5}(-\d{4})?$", text) for text in spelt):
        return (2, 3)
    coded = [text for text in spelt if CODE.match(text)]
    if len(coded) < FIT * len(spelt):
        return ()
    # The longest beginnings of which there are few, and that stand for several codes each.
    for length in range(min(4, max(map(len, coded)) - 1), 0, -1):
        starts = {text[:length] for text in coded}
        if 1 < len(starts) <= min(MOST_CATEGORIES, len(spelt) / 3):
            return (length,)
    return ()


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
            text.lower(): written[key]
            for key, spelt in counts.items()
            for text in spelt
            if text.lower() != written[key].lower()
        }
        if synonyms:
            fields["synonyms"] = synonyms
    for order in ORDERS:
        if len(written) > 2 and {*written} <= {*order}:
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

"""The statement's words on its noise and on adopted rows, derived from the facts it records.

The same functions write and check a statement, so that its words always follow from its facts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import ValidationError

from marginalsyn.libraries import ALWAYS, BASE, version
from marginalsyn.privacy.charges import (
    GDP,
    ZCDP,
    Charge,
    Guarantee,
    Pure,
    SubsampledGaussian,
    covers,
    show_number,
    weakest,
)
from marginalsyn.privacy.gdp import amount_of, pure_mu, selection_mu
from marginalsyn.privacy.k_norm import KNorm
from marginalsyn.privacy.laws import DiscreteLaplace
from marginalsyn.privacy.noise import LAWS, UNRECORDED, Sampler, libraries_of, merge, samplers
from marginalsyn.privacy.zcdp import exponential_rho

if TYPE_CHECKING:
    from marginalsyn.release.statement import Statement

SEEDED = "seeded, not private"
"""What ``noise`` says when the protective noise can be recomputed from a seed."""

ADOPTED = "adopted"
"""The entry of a statement's notes that says what was taken over, and what is claimed of it."""
REDRAWN = "drawn here"
AS_WRITTEN = "as the tool wrote them"

PUBLIC, RELEASE = "public", "release"
"""What a reference is by a statement's notes: vouched for as public, or a release."""

_MADE = "The rows were made by another tool: what they give away is outside the guarantee."
_DRAWN = (
    "The rows were drawn here from what another tool gave out: what that gives away is outside the "
    "guarantee."
)


def guarantee_of(charged: str, lines: Iterable[Sampler], seeded: bool) -> Guarantee:
    """The weakest guarantee among the charges and the laws."""
    return weakest([charged, *(line.worth for line in lines), *(["none"] if seeded else [])])


_FACTS = (
    "They are constants of the run: from two neighbouring tables, with the same margins given, the "
    "folder comes out about as likely. What the margins themselves give away was public before and "
    "is outside the guarantee: an exact count is a fact that two tables that differ by one row "
    "cannot both have."
)


def vouched(notes: Mapping[str, Any]) -> str:
    """What public margins, which the curator vouched for, mean for the promise."""
    names = []
    for one in notes.get("margins", ()):
        rows = f"{one['rows']:,.10g} rows" if "rows" in one else ""
        about = (one.get("source"), rows, f"sha256 {str(one.get('sha256'))[:12]}")
        names.append(f"{' x '.join(one.get('columns', ()))} ({', '.join(filter(None, about))})")
    said = f"Public margins, for which the curator vouched: {'; '.join(names)}. {_FACTS}"
    return said if names else ""


def described(notes: Mapping[str, Any]) -> list[str]:
    """Sentences on the public margins and the references that a statement's notes name."""
    found = [text] if (text := vouched(notes)) else []
    for one in notes.get("references", ()):
        name = one.get("name")
        if one.get("kind") == PUBLIC:
            found.append(f"The reference {name} counts as public: the curator vouched for it.")
        elif one.get("ledger") == "the same":
            found.append(
                f"The reference {name} is a release that the same ledger paid for: its cost is in "
                "that ledger's total and not in these numbers."
            )
        else:
            found.append(
                f"The reference {name} is a release that, it seems, another ledger paid for (eps "
                f"{show_number(one['eps'])}, delta {show_number(one['delta'])}, {one['guarantee']})"
                f": for whoever is in both tables this adds up. It protects {one['protects']}."
            )
    return found


def noise_of(lines: Sequence[Sampler], seeded: bool) -> str:
    """A sentence on which laws the noise was drawn from, and where its random bits came from."""
    if seeded:
        return SEEDED
    if not lines:
        return "none was drawn"
    laws = dict.fromkeys(f"{line.law} ({line.worth}, by {line.library})" for line in lines)
    origins = dict.fromkeys(line.origin for line in lines)
    return f"{', '.join(laws)}; random bits: {' and '.join(origins)}"


def libraries_used(
    lines: Iterable[Sampler], libraries: Iterable[str], charges: Iterable[Charge]
) -> list[str]:
    """Every library that took part, in the order in which a statement lists them."""
    drew = [name for line in lines for name in line.libraries]
    sampled = (c.cost for c in charges if isinstance(c.cost, SubsampledGaussian))
    adds = ["dp-accounting"] if any(cost.rate < 1 for cost in sampled) else []
    return list(dict.fromkeys([*ALWAYS, *BASE, *drew, *adds, *libraries]))


def versions_of(names: Iterable[str], before: Mapping[str, str]) -> dict[str, str]:
    """The versions of libraries: those of earlier steps and, if it is another one, today's."""
    found = {}
    for name in names:
        known = [one for one in before.get(name, "").split(" and ") if one]
        found[name] = " and ".join(dict.fromkeys([*known, version(name)]))
    return found


def bought(charges: Iterable[Charge]) -> list[Sampler]:
    """The samplers that charges of a schema say their noise was drawn by."""
    lines = []
    for charge in charges:
        recorded = charge.details.get("samplers")
        for line in recorded if isinstance(recorded, list) else []:
            try:
                lines.append(Sampler.model_validate(line))
            except ValidationError:
                lines += samplers({UNRECORDED: 1}, "operating system")
    return merge(lines)


def whose_words(notes: Mapping[str, Any]) -> str:
    """The guarantee that others state of adopted rows, in one sentence that says whose words it is.

    Example:
        >>> whose_words({"adopted": {"tool": "mbi 1.1", "stated": {"eps": 1, "by": "the office"}}})
        'Stated by the office: eps 1. Nothing here has checked it.'
    """
    origin = notes.get(ADOPTED)
    stated = origin.get("stated") if isinstance(origin, dict) else None
    if not isinstance(stated, dict) or not set(stated) - {"by"}:
        return "No guarantee is stated for what was adopted: treat it as unknown."
    parts = [
        f"{name} {value:.6g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in stated.items()
        if name != "by"
    ]
    by = stated.get("by") or (origin or {}).get("tool") or "another tool"
    return f"Stated by {by}: {', '.join(parts)}. Nothing here has checked it."


def outside(notes: Mapping[str, Any]) -> str:
    """The part of a release that the statement's own numbers do not cover."""
    origin = notes.get(ADOPTED)
    if not isinstance(origin, dict):
        return _MADE
    return f"{_DRAWN if origin.get('rows') == REDRAWN else _MADE} {whose_words(notes)}"


def problems(statement: Statement, charged: str) -> list[str]:
    """Contradictions between a statement and the facts it records; ``charged`` is what charges
    give.
    """
    lines, found = statement.samplers, []
    right = guarantee_of(charged, lines, statement.seeded)
    if statement.guarantee != right:
        found.append(
            f"guarantee ({statement.guarantee}) must be {right}, the weakest of the charges and "
            "the laws that were drawn from"
        )
    listed = {line.law for line in lines}
    for line in lines:
        if line.law not in LAWS:
            found.append(f"sampler ({line.law}) must be one of: {', '.join(LAWS)}")
        elif line.guarantee != line.worth:
            found.append(f"sampler ({line.law}) must be called {line.worth}, not {line.guarantee}")
        elif line.library != libraries_of(line.law, line.origin)[0]:
            found.append(f"sampler ({line.law}) must not be drawn by {line.library}")
        elif line.version not in statement.versions.get(line.library, "").split(" and "):
            found.append(f"versions must give that of {line.library} ({line.version})")
    for payment in statement.payments:
        laws = payment.get("laws")
        if not isinstance(laws, list) or not laws:
            found.append(f"payment ({payment.get('mechanism')}) must name the laws it paid for")
        else:
            missing = sorted({str(law) for law in laws} - listed)
            if missing:
                found.append(f"samplers must list what payments were for: {', '.join(missing)}")
    try:
        found += _unpaid(statement)
    except (ArithmeticError, KeyError, TypeError, ValueError):
        found.append("payments must state their noise and prices in numbers")
    for line in bought(statement.charges):
        if not any((line.law, line.origin) == (one.law, one.origin) for one in lines):
            found.append(f"samplers must list what the schema's bounds were bought by: {line.law}")
    if any(line.origin == "seed" for line in lines) and not statement.seeded:
        found.append("seeded (False) must be true: a sampler was seeded")
    if statement.seeded != (statement.noise == SEEDED):
        found.append(f"noise ({statement.noise}) contradicts seeded ({statement.seeded})")
    elif statement.noise != (said := noise_of(lines, statement.seeded)):
        found.append(f"noise ({statement.noise}) must be: {said}")
    names = libraries_used(lines, statement.libraries, statement.charges)
    if unused := sorted(set(statement.versions) - set(names)):
        found.append(f"versions must not list what took no part: {', '.join(unused)}")
    if absent := sorted(set(names) - set(statement.versions)):
        found.append(f"versions must list what took part: {', '.join(absent)}")
    return list(dict.fromkeys(found))


def _unpaid(statement: Statement) -> list[str]:
    """What payments must say of their prices, derived from the draws where charges are in mu."""
    found: list[str] = []
    # All others are spent as a whole, by payments that say their kind.
    charges = [c for c in statement.charges if isinstance(c.cost, GDP | ZCDP | Pure)]
    if not any(isinstance(charge.cost, GDP) for charge in charges):
        return found
    payments, l2 = [p for p in statement.payments if "kind" not in p], statement.neighbours.l2
    for payment in payments:
        name, mu, price = payment.get("mechanism"), payment.get("mu"), _price(payment)
        if mu is not None and "discrete Gaussian" in payment.get("laws", ()):
            found.append(f"payment ({name}) must not be in mu: discrete Gaussian noise has no mu")
        for currency, due in (price or {"mu": math.inf}).items():
            if (stated := payment.get(currency)) is not None and not covers(stated, due):
                found.append(
                    f"payment ({name}, {currency} {stated}) must cover its draw, which costs {due}"
                )
        if "columns" in payment and not covers(payment.get("l2", l2), l2):
            found.append(f"payment ({name}) must be for the counts that a row moves by {l2:.6g}")
    for currency, power in (("mu", 2), ("rho", 1)):
        paid = [getattr(charge, currency) for charge in charges]
        if None in paid:
            continue
        spent = [{**_price(payment), **payment}[currency] for payment in payments]
        whole, used = (math.fsum(float(x) ** power for x in side) for side in (paid, spent))
        if not covers(whole, used):
            found.append(f"charges must cover the payments: {currency} {used:.6g} of {whole:.6g}")
    return found


def _price(payment: Mapping[str, Any]) -> dict[str, float]:
    """What a payment's own numbers say that its draw costs, in mu and in rho; empty if nothing."""
    mu = payment.get("whitened_l2")
    if "l2" in payment and "sigma" in payment:
        mu = float(payment["l2"]) / max(0.0, np.min(payment["sigma"]))  # no noise: refused
    if mu is not None:
        return {"mu": float(mu), "rho": amount_of(float(mu))}
    if eps := float(payment.get("eps", 0)):
        bounded = not {DiscreteLaplace.name, KNorm.name} & {*payment.get("laws", ())}
        mu = (selection_mu if bounded else pure_mu)(eps)
        rho = exponential_rho(eps) * (1 if bounded else 4)
        return {"mu": mu, "rho": min(rho, amount_of(mu))}
    return {}

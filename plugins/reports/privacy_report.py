"""The report of what a release cost in privacy: what its statement says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from marginalsyn.evaluation import page
from marginalsyn.evaluation.reports import Block, Case, Fact, Options, RealData, Report, Verdict
from marginalsyn.progress import Progress

if TYPE_CHECKING:
    from marginalsyn.release.folder import Release

_LED = ("eps", "delta", "neighbours", "guarantee")


class PrivacyReport(Report):
    """Epsilon, delta, the relation, every charge, and what the guarantee leaves out."""

    name = "privacy"
    title = "Privacy"
    summary = "what the release cost, and what its guarantee says"
    place = 10
    beside = False

    def compute(self, case: Case, ground: RealData, options: Options, progress: Progress) -> Block:
        if case.release is None:
            return {"known": False}
        return _block(case.release)

    def facts(self, case: str, block: Block) -> Iterable[Fact]:
        for metric in ("eps", "delta") if block["known"] else ():
            yield self.fact(case, "total", metric, block[metric])

    def verdict(self, block: Block) -> Verdict:
        return Verdict(figures={"eps": block["eps"]} if block["known"] else {})

    def html(self, blocks: Mapping[str, Block], combined: Block | None = None) -> Iterable[str]:
        known = {name: block for name, block in blocks.items() if block["known"]}
        rows = [
            (
                name,
                *(b[key] for key in ("generator", "eps", "delta", "neighbours")),
                "none: seeded noise" if b["seeded"] else b["guarantee"],
            )
            for name, b in known.items()
        ]
        unknown = [name for name in blocks if name not in known]
        if unknown:
            yield page.paragraph(
                f"What was spent on {', '.join(unknown)} is not known: the rows were made by "
                "another tool."
            )
        if rows:
            head = ("release", "generator", *_LED)
            yield page.long_table("What was spent on each", head, rows, right=False)
        if len(known) == 1:
            yield from _details(next(iter(known.values())))

    def publish(self, release: Release) -> Block:
        return _block(release)

    def public_html(self, block: Block) -> str:
        row = [block[key] for key in _LED]
        return page.table(_LED, [row], right=False) + "".join(_details(block))


def _block(release: Release) -> Block:
    statement = release.statement
    return {
        "known": True,
        "generator": statement.generator,
        "eps": statement.eps,
        "delta": statement.delta,
        "neighbours": str(statement.neighbours),
        "guarantee": statement.guarantee,
        "unit": statement.unit,
        "why": statement.why,
        "noise": statement.noise,
        "samplers": [line.model_dump() for line in statement.samplers],
        "seeded": statement.seeded,
        "schema_drafted": statement.schema_drafted,
        "warnings": list(statement.warnings),
        "charges": [
            {"mechanism": c.mechanism, "purpose": c.purpose, "cost": str(c.cost)}
            for c in statement.charges
        ],
    }


def _details(block: Block) -> Iterator[str]:
    yield from (page.paragraph(warning, "warning") for warning in block["warnings"])
    yield page.paragraph(f"Protected: {block['unit']}.")
    yield page.paragraph(block["why"])
    charges = [(c["mechanism"], c["purpose"], c["cost"]) for c in block["charges"]]
    yield page.table(("charge", "for", "cost"), charges, right=False)
    keys = ("law", "count", "library", "origin", "guarantee")
    drawn = [[one[key] for key in keys] for one in block.get("samplers", ())]
    if drawn:
        head = ("noise drawn from", "answers", "by", "random bits from", "guarantee")
        yield page.table(head, drawn, right=False)

"""The report of what a release cost in privacy: what its statement says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from marginalsyn.evaluation.reports import Block, Blocks, Case, Fact, Options, RealData, Report
from marginalsyn.evaluation.verdict import Verdict
from marginalsyn.evaluation.view import Item, Note, Table
from marginalsyn.progress import Progress
from marginalsyn.release.folder import Release

_HEAD = ("release", "generator", "eps", "delta", "neighbours", "guarantee")


class PrivacyReport(Report):
    """Epsilon, delta, the relation, every charge, and what the guarantee leaves out."""

    name = "privacy"
    title = "Privacy"
    summary = "what the release cost, and what its guarantee says"
    place = 10
    scope = "release"
    on_terminal = False

    def compute(self, case: Case, ground: RealData, options: Options, progress: Progress) -> Block:
        if case.release is None:
            return {"known": False}
        return _block(case.release)

    def facts(self, block: Block) -> Iterable[Fact]:
        for metric in ("eps", "delta") if block["known"] else ():
            yield Fact("total", metric, block[metric])

    def verdict(self, block: Block) -> Verdict:
        return Verdict(figures={"eps": block["eps"]} if block["known"] else {})

    def show(self, blocks: Blocks, combined: Block | None = None) -> Iterator[Item]:
        known = {name: block for name, block in blocks.items() if block["known"]}
        unknown = [name for name in blocks if name not in known]
        if unknown:
            yield (
                f"What was spent on {', '.join(unknown)} is not known: the rows were made by "
                "another tool."
            )
        rows = [
            (
                name,
                *(b[key] for key in _HEAD[1:-1]),
                "none: seeded noise" if b["seeded"] else b["guarantee"],
            )
            for name, b in known.items()
        ]
        if rows:
            yield Table(_HEAD, rows, numbers=False, fold="What was spent on each")
        if len(known) == 1:
            yield from _details(next(iter(known.values())))

    def publish(self, release: Release) -> Block:
        return _block(release)


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


def _details(block: Block) -> Iterator[Item]:
    yield from (Note(warning, "warning") for warning in block["warnings"])
    yield f"Protected: {block['unit']}."
    yield block["why"]
    charges = [(c["mechanism"], c["purpose"], c["cost"]) for c in block["charges"]]
    yield Table(("charge", "for", "cost"), charges, numbers=False)
    keys = ("law", "count", "library", "origin", "guarantee")
    drawn = [[one[key] for key in keys] for one in block.get("samplers", ())]
    if drawn:
        head = ("noise drawn from", "answers", "by", "random bits from", "guarantee")
        yield Table(head, drawn, numbers=False)

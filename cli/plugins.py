"""``marginalsyn plugins``: which methods, weight estimators and reports are installed."""

from __future__ import annotations

import rich_click as click

from marginalsyn import registry
from marginalsyn.cli import group, options, screen

KINDS = {
    "generators": registry.GENERATORS,
    "weights": registry.WEIGHTS,
    "reports": registry.REPORTS,
    "commands": registry.COMMANDS,
}


@group.command(
    examples="""
    marginalsyn plugins
    # the methods that `generate` takes
    marginalsyn plugins --kind generators
    """,
)
@click.option("--kind", type=click.Choice(list(KINDS)), help="List only this kind.")
@options.as_json
def plugins(kind: str | None, as_json: bool) -> None:
    """List the plugins, where they come from, and whether they can run.

    A plugin that cannot be imported is listed as broken, with the reason; the others still work.
    """
    found = registry.plugins(KINDS[kind] if kind else None)
    short = {group: name for name, group in KINDS.items()}
    if as_json:
        fields = ("name", "distribution", "version", "status", "reason", "requires", "summary")
        screen.write_json(
            [{"kind": short[p.kind], **{f: getattr(p, f) for f in fields}} for p in found]
        )
        return
    screen.write_table(
        ("name", "kind", "from", "version", "status", "what it does"),
        [
            (p.name, short[p.kind], p.distribution, p.version, p.status, p.reason or p.summary)
            for p in found
        ],
    )

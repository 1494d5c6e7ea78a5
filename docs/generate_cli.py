"""Writes ``docs/cli.md`` out of the commands' own ``--help-all``; ``--check`` only compares.

python docs/generate_cli.py
python docs/generate_cli.py --check
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator
from pathlib import Path

import rich_click as click

from marginalsyn.cli.group import reveal
from marginalsyn.cli.main import cli

PAGE = Path(__file__).with_name("cli.md")
WIDTH = 96
HEAD = """# Command line

What `--help-all` prints, or `--help` where a command has few options. `-h` is the same as `--help`.
Data goes to stdout, messages and progress go to stderr. Exit codes: 0 for success, 2 for a mistake
in the command or the schema, 1 for any other failure, 130 after Ctrl-C. A failure is one message;
with `MARGINALSYN_DEBUG=1` in the environment the whole traceback is shown.
"""


def commands(
    command: click.Command, name: str, parent: click.Context | None = None
) -> Iterator[click.Context]:
    """The context of a command and, after it, of everything below it."""
    settings = dict(command.context_settings)
    plain = {"width": WIDTH, "max_width": WIDTH, "color_system": None}
    settings["rich_help_config"] = {**settings.get("rich_help_config", {}), **plain}
    ctx = command.context_class(command, info_name=name, parent=parent, **settings)
    yield ctx
    if isinstance(command, click.Group):
        for child in command.list_commands(ctx):
            found = command.get_command(ctx, child)
            assert found is not None
            yield from commands(found, child, ctx)


def render() -> str:
    """The whole page."""
    parts = [HEAD]
    for ctx in commands(cli, "marginalsyn"):
        reveal(ctx.command)
        text = "\n".join(line.rstrip() for line in ctx.get_help().splitlines()).strip()
        level = "##" if ctx.parent is None or ctx.parent.parent is None else "###"
        parts.append(f"{level} {ctx.command_path}\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def main() -> int:
    """Write the page, or say how it differs."""
    text = render()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    now = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    if now == text:
        return 0
    sys.stderr.writelines(
        difflib.unified_diff(now.splitlines(True), text.splitlines(True), "docs/cli.md", "--help")
    )
    sys.stderr.write("docs/cli.md is out of date; run: python docs/generate_cli.py\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())

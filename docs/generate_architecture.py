"""Writes the tree in ``docs/architecture.md`` out of the code; ``--check`` compares.

python docs/generate_architecture.py
python docs/generate_architecture.py --check

The layers are those that ``lint-imports`` keeps (``pyproject.toml``). A room's line is the first
line of its docstring. Every name that the page writes as ``room.module.name`` must exist.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
# Folders next to marginalsyn/ that are installed inside it.
OUTSIDE = ("cli", "plugins", "datasets")


def layers() -> list[list[str]]:
    """The rooms from the top down; those of one layer do not import each other."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for contract in config["tool"]["importlinter"]["contracts"]:
        if contract["type"] == "layers":
            return [re.findall(r"[a-z_]+", line) for line in contract["layers"]]
    raise SystemExit("pyproject.toml must hold a contract of layers")


def home(name: str) -> Path:
    """The folder or file of a room."""
    folder = ROOT / name if name in OUTSIDE else ROOT / "marginalsyn" / name
    return folder if folder.is_dir() else folder.with_suffix(".py")


def first_line(path: Path) -> str:
    """The first line of the docstring of a file or a package."""
    path = path / "__init__.py" if path.is_dir() else path
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n")[0]


def tree() -> str:
    """One line a room or file, from the top down, and the folders of plugins."""
    lines = []
    for name in (name for layer in layers() for name in layer):
        place = home(name)
        shown = f"{name}/" if place.is_dir() else f"{name}.py"
        lines.append(f"{shown:16}{first_line(place)}")
        if name == "plugins":
            folders = sorted(p for p in place.iterdir() if (p / "__init__.py").exists())
            lines += [f"  {p.name + '/':14}{first_line(p)}" for p in folders]
    return "```text\n" + "\n".join(lines) + "\n```"


def filled(page: str) -> str:
    """The page with the tree as it is now."""
    head, opening, rest = page.partition("<!-- tree -->\n")
    _, closing, tail = rest.partition("<!-- /tree -->")
    if not closing:
        raise SystemExit(f"{PAGE.name} must hold <!-- tree --> and <!-- /tree -->")
    return f"{head}{opening}\n{tree()}\n\n{closing}{tail}"


def missing(page: str) -> list[str]:
    """Names on the page that the code does not have."""
    rooms = {name for layer in layers() for name in layer}
    problems = []
    for name in sorted(set(re.findall(r"`?\b((?:[a-z_]+\.)+[A-Za-z_]+)\b", page))):
        room, *left = name.split(".")
        if room not in rooms or left in (["py"], ["json"]):
            continue
        place = home(room)
        while place.is_dir() and left:
            folder = place / left.pop(0)
            place = folder if folder.is_dir() else folder.with_suffix(".py")
        if not place.is_file():
            problems.append(f"{name}: there is no {place.relative_to(ROOT)}")
            continue
        body: list[ast.stmt] = ast.parse(place.read_text(encoding="utf-8")).body
        for part in left:
            found = next((node for node in body if getattr(node, "name", None) == part), None)
            if found is None:
                problems.append(f"{name}: {place.relative_to(ROOT)} has no {part}")
                break
            body = getattr(found, "body", [])
    return problems


def main() -> int:
    page = PAGE.read_text(encoding="utf-8")
    problems = missing(page)
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(filled(page), encoding="utf-8")
    elif filled(page) != page:
        problems.append(f"{PAGE.name} is old: run python docs/generate_architecture.py")
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())

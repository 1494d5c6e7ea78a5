"""Writes the map in ``docs/architecture.md`` and its picture out of the code; ``--check`` compares.

python docs/generate_architecture.py
python docs/generate_architecture.py --check

The layers are those that ``lint-imports`` keeps (``pyproject.toml``). What a room or a file is for
is the first line of its docstring. Every name that the page writes as ``room.module.name`` must
exist.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
PICTURE = ROOT / "docs" / "images" / "rooms.svg"
# The folders beside marginalsyn/, which are installed inside it.
OUTSIDE = {"cli": ROOT / "cli", "plugins": ROOT / "plugins"}


def layers() -> list[list[str]]:
    """The rooms from the top down; those of one layer stand side by side."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for contract in config["tool"]["importlinter"]["contracts"]:
        if contract["type"] == "layers":
            return [re.findall(r"[a-z_]+", line) for line in contract["layers"]]
    raise SystemExit("pyproject.toml must hold a contract of layers")


def home(name: str) -> Path:
    """The folder or file of a room."""
    folder = OUTSIDE.get(name, ROOT / "marginalsyn" / name)
    return folder if folder.is_dir() else folder.with_suffix(".py")


def docstring(path: Path) -> list[str]:
    found = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return found.splitlines()


def purpose(name: str) -> str:
    """What a room or a file at the root is for: the first line that it says of itself."""
    place = home(name)
    return docstring(place / "__init__.py" if place.is_dir() else place)[0]


def room_table() -> str:
    """One line a room, from the top down."""
    lines = ["| room | what it is for | it may touch | files |", "|---|---|---|---|"]
    for layer in layers():
        for name in layer:
            place = home(name)
            if not place.is_dir():
                continue
            told = docstring(place / "__init__.py")
            touch = " ".join(told[1:]).strip().removeprefix("May touch: ")
            count = sum(path.name != "__init__.py" for path in place.rglob("*.py"))
            lines.append(f"| `{name}/` | {told[0]} | {touch} | {count} |")
    return "\n".join(lines)


def file_lists() -> str:
    """Every file with its first line: those at the root, then room by room."""
    root = sorted((ROOT / "marginalsyn").glob("[a-z]*.py"))
    rows = [f"* `{path.name}`: {docstring(path)[0]}" for path in root]
    parts = ["### at the root\n\n" + "\n".join(rows)]
    for layer in layers():
        for name in layer:
            place = home(name)
            if not place.is_dir():
                continue
            rows = [
                f"* `{path.relative_to(place)}`: {docstring(path)[0]}"
                for path in sorted(place.rglob("*.py"))
                if path.name != "__init__.py"
            ]
            parts.append(f"### `{name}/`\n\n" + "\n".join(rows))
    return "\n\n".join(parts)


def picture() -> str:
    """The layers as boxes, one above the other: imports point downwards only."""
    width, gap, y = 760, 8, 8
    boxes = []
    for layer in layers():
        each = (width - gap * (len(layer) + 1)) / len(layer)
        told = [textwrap.wrap(purpose(name), int(each / 6.4)) for name in layer]
        height = 28 + 15 * max(map(len, told))
        for place, (name, lines) in enumerate(zip(layer, told, strict=True)):
            x = gap + place * (each + gap)
            kind = "room" if home(name).is_dir() else "file"
            label = f"{name}/" if kind == "room" else f"{name}.py"
            spans = "".join(
                f'<tspan x="{x + 10:.1f}" dy="15">{escape(line)}</tspan>' for line in lines
            )
            boxes.append(
                f'<rect class="{kind}" x="{x:.1f}" y="{y}" width="{each:.1f}" height="{height}" '
                f'rx="4"/><text class="name" x="{x + 10:.1f}" y="{y + 18}">{escape(label)}</text>'
                f'<text y="{y + 20}">{spans}</text>'
            )
        y += height + gap
    style = (
        "rect{stroke:#00796b;stroke-width:1.5}.room{fill:#e0f2f1}.file{fill:#fff}"
        "text{font:12px sans-serif;fill:#37474f}.name{font:bold 14px sans-serif;fill:#102a27}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" role="img" '
        f'aria-label="The rooms, from the top down"><style>{style}</style>'
        f'<rect x="0" y="0" width="{width}" height="{y}" style="fill:#fff;stroke:none"/>'
        + "\n".join(boxes)
        + "</svg>\n"
    )


def filled(page: str) -> str:
    """The page with its generated parts made anew."""
    for mark, text in (("rooms", room_table()), ("files", file_lists())):
        head, opening, rest = page.partition(f"<!-- {mark} -->\n")
        _, closing, tail = rest.partition(f"<!-- /{mark} -->")
        if not closing:
            raise SystemExit(f"{PAGE.name} must hold the marks <!-- {mark} --> and its end")
        page = f"{head}{opening}\n{text}\n\n{closing}{tail}"
    return page


def missing(page: str) -> list[str]:
    """Names of the walks that the code does not have."""
    rooms = {name for layer in layers() for name in layer}
    problems = []
    for name in sorted(set(re.findall(r"`((?:[a-z_]+\.)+[A-Za-z_]+(?:\.[a-z_]+)?)`", page))):
        room, *rest = name.split(".")
        if room not in rooms or rest == ["py"]:
            continue
        place, left = home(room), list(rest)
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
    if "--check" in sys.argv[1:]:
        if filled(page) != page or PICTURE.read_text(encoding="utf-8") != picture():
            problems.append("docs/architecture.md is old: run python docs/generate_architecture.py")
    else:
        PAGE.write_text(filled(page), encoding="utf-8")
        PICTURE.write_text(picture(), encoding="utf-8")
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())

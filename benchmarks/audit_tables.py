"""Turns the JSON of ``marginalsyn audit --out`` into the Markdown tables of the guide.

marginalsyn audit --minutes 10 --out audit.json
python benchmarks/audit_tables.py audit.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def number(value: Any, digits: int = 3) -> str:
    """A number with few digits; texts and nothing as they are."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:.{digits}g}"
    return "" if value is None else str(value)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows as Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def checks(found: Sequence[dict[str, Any]]) -> str:
    """The exact checks."""
    rows = [
        [c["name"], ", ".join(c["methods"]) or "all", number(c["value"]), number(c["bound"])]
        for c in found
    ]
    return table(("exact check", "of", "number", "at most"), rows)


def summary(found: Sequence[dict[str, Any]]) -> str:
    """One line for each method."""
    rows = []
    for row in found:
        said = row["form"] and f"{row['form']}, {row['canary']}"
        verdict = row["status"]
        if verdict == "holds" and row["guarantee"] == "asymptotic":
            verdict = "holds (asymptotic)"
        numbers = [number(row["eps"]), number(row["bound"]), str(row["runs"] or "")]
        rows.append([row["method"], *numbers, said or row["reason"], verdict])
    return table(("method", "claimed eps", "proved eps", "runs", "test", "verdict"), rows)


def main() -> None:
    """Print the tables of one file."""
    told = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    print(checks(told["checks"]), summary(told["summary"]), sep="\n\n")
    print(f"\nconfidence {told['confidence']}")


if __name__ == "__main__":
    main()

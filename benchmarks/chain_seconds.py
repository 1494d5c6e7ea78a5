"""What a chain of rows takes of `generate --eps 2`, next to what the dry run forecasts.

    python benchmarks/chain_seconds.py --data FOLDER

The folder holds NIST's excerpts as for ``benchmarks/nist.py``; without it only bundled tables run.
Processor seconds of fitting the chain and drawing its rows, with what numba compiled loaded from
its cache: run it twice.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from marginalsyn.graphical import chain_model
from marginalsyn.operations.generate import Generate

DROPPED = ("INDP", "PWGTP", "WGTP")


def measure(**source: Any) -> tuple[str, float]:
    """The forecast of a dry run, and the seconds that the run then took for its chain."""
    spent, extend = [0.0], chain_model.extend

    def timed(*args: Any, **how: Any) -> Any:
        start = time.process_time()
        found = extend(*args, **how)
        spent[0] += time.process_time() - start
        return found

    with tempfile.TemporaryDirectory() as folder:
        asked = Generate(**source, eps=2, seed=3, out=Path(folder) / "out")
        facts = asked.plan().json["facts"]
        chain_model.extend = timed
        try:
            asked.run()
        finally:
            chain_model.extend = extend
    return str(next((v for k, v in facts.items() if "chain" in k), "none")), spent[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    given = parser.parse_args()
    tables: dict[str, dict[str, Any]] = {n: {"dataset": n} for n in ("adult", "telco")}
    with tempfile.TemporaryDirectory() as folder:
        if given.data is not None:
            schema = json.loads((given.data / "simple.schema.json").read_text())
            path = Path(folder) / "schema.json"
            path.write_text(json.dumps({**schema, "drop": DROPPED}))
            for name in ("national2019", "ma2019"):
                data = str(given.data / f"{name}.csv.gz")
                tables[name] = {"data": data, "schema": str(path)}
        print("| table | forecast | taken |\n|---|---|---|")
        for name, source in tables.items():
            forecast, taken = measure(**source)
            print(f"| {name} | {forecast} | {taken:.1f} s |", flush=True)


if __name__ == "__main__":
    main()

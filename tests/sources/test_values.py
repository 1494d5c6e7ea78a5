"""No value of a private row stops a run, whatever the type that its source has for it."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest

from marginalsyn import PrivateTable, Schema
from marginalsyn.errors import SchemaError
from marginalsyn.sources.formats import described
from marginalsyn.sources.source import open_source, trace_of_frame
from marginalsyn.table.arrow import arrow_table
from marginalsyn.table.engine import engine_errors, private_engine

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def load(path: str) -> ModuleType:
    name = Path(path).stem
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, BENCHMARKS / path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


VALUES = load("value_targets.py")
ATTACK = load("attacks/one_value.py")


def test_one_value_does_not_stop_a_paid_run() -> None:
    assert ATTACK.attack(everywhere=False) is None


@pytest.mark.parametrize("kind", VALUES.frames.frame_kinds(), ids=lambda kind: kind.name)
def test_every_value_of_a_frame_becomes_plain(kind: Any) -> None:
    odd = list(kind.extreme)
    if kind.draw:
        odd += [kind.draw(random.Random(number)) for number in range(50)]
    usual = [*kind.ordinary]
    together = pd.DataFrame({"a": kind.build([*usual, *odd])})
    found = arrow_table(together, ["a"])
    found.validate(full=True)
    assert found.num_rows == len(together)
    assert trace_of_frame(together) != trace_of_frame(together[:-1])
    # The others are what they are without them, in whichever field.
    alone = arrow_table(pd.DataFrame({"a": kind.build(usual)}), ["a"])
    values = [
        VALUES.frames.plain(column.to_pylist()[: len(usual)]) for column in (found["a"], alone["a"])
    ]
    assert values[0] == values[1]


@pytest.mark.parametrize("kind", VALUES.files.parquet_kinds(), ids=lambda kind: kind.name)
def test_every_value_of_a_parquet_file_has_a_text(kind: Any) -> None:
    """Ordinary ones have that which DuckDB's own reader gives: it fails at some of the others."""
    names = VALUES.NAMES
    odd = list(kind.extreme)
    if kind.draw:
        odd += [kind.draw(random.Random(number)) for number in range(50)]
    backend = private_engine()
    try:
        with VALUES.files.parquet_file(
            [kind] * len(names), [[*kind.ordinary, *odd]] * len(names)
        ) as path:
            if "who" not in described(path):
                with pytest.raises(SchemaError, match="must hold one number, text or truth value"):
                    PrivateTable.open(path, Schema.from_domain({"who": 2})).check_layout()
                return
            rows = open_source(path).attach(backend, "rows")
            texts = backend.to_pyarrow(rows.select(text=rows.who.cast("string")))
        with VALUES.files.parquet_file([kind] * len(names), [kind.ordinary] * len(names)) as path:
            usual = backend.read_parquet(path)
            known = backend.to_pyarrow(usual.select(text=usual.who.cast("string")))
    finally:
        backend.disconnect()
    assert texts.num_rows == len(kind.ordinary) + len(odd)
    assert texts["text"].to_pylist()[: len(kind.ordinary)] == known["text"].to_pylist()


def test_the_class_of_an_engines_failure_is_not_named() -> None:
    """It would say what is wrong with a value."""
    import duckdb

    with pytest.raises(Exception, match="its engine, which failed") as caught, engine_errors("t"):
        raise duckdb.ConversionException("secret")
    assert "Conversion" not in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("source", sorted(VALUES.SOURCES))
def test_every_type_of_a_source_goes_through_a_run(source: str) -> None:
    """As in benchmarks/fuzz.py: every type, with all of its listed values and some drawn."""
    found = VALUES.seeds(source)
    if not found:
        pytest.skip(f"{source} is not installed")
    for data in found:
        VALUES.attempt(source, data)

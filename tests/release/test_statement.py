"""A statement says what ran: laws, libraries and guarantee follow from what was really drawn."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from marginalsyn import (
    Budget,
    Charge,
    Ledger,
    Neighbours,
    PrivateTable,
    Schema,
    Statement,
    make_noise,
)
from marginalsyn.certificates.measured import verify
from marginalsyn.contract import build_config, make_config
from marginalsyn.host import generate, weigh
from marginalsyn.libraries import record_libraries, took_part
from marginalsyn.plugins.audit.testkit.generators import example_frame, example_schema
from marginalsyn.plugins.points import support_points as points
from marginalsyn.privacy.charges import ZCDP, Pure, weakest
from marginalsyn.privacy.k_norm import KNorm
from marginalsyn.privacy.laws import DiscreteGaussian, DiscreteLaplace, PoissonSample
from marginalsyn.privacy.noise import (
    DRAWN,
    LAWS,
    UNRECORDED,
    Sampler,
    SecureNoise,
    SeededNoise,
    Used,
    samplers,
)
from marginalsyn.privacy.rounded_normal import RoundedGaussian
from marginalsyn.privacy.selection import ExponentialMechanism
from marginalsyn.registry import GENERATORS, WEIGHTS, find, plugins
from marginalsyn.release.folder import Release
from marginalsyn.release.statement import state
from marginalsyn.weights.columns import publish

from ..conformance.test_generators import OPTIONS
from ..conformance.test_weights import QUICK

BY_LAW = {
    DiscreteGaussian: "discrete Gaussian",
    DiscreteLaplace: "discrete Laplace",
    ExponentialMechanism: "exponential mechanism",
    KNorm: "K-norm",
    RoundedGaussian: "rounded Gaussian",
    PoissonSample: "Poisson sample",
}
STREAMS = ("expanded secret", "keyed hash")


class Spy(SeededNoise):
    """Counts what it is asked for, whatever ``used`` says."""

    def __init__(self, seed: int = 1) -> None:
        super().__init__(seed)
        self.saw: Counter[str] = Counter()

    def draw(self, law: Any, values: Any) -> Any:
        self.saw[BY_LAW[type(law)]] += 1
        return super().draw(law, values)

    def secret(self) -> Any:
        self.saw["expanded secret"] += 1
        return super().secret()

    def key(self) -> Any:
        self.saw["keyed hash"] += 1
        return super().key()


def available(kind: str) -> list[str]:
    return sorted({plugin.name for plugin in plugins(kind)})


def status(kind: str, name: str) -> Any:
    plugin = next(plugin for plugin in plugins(kind) if plugin.name == name)
    if plugin.status == "missing":
        pytest.skip(plugin.reason)
    return find(kind, name)


def counts(statement: Statement) -> dict[str, int]:
    return {line.law: line.count for line in statement.samplers}


def a_release(folder: Path, noise: Any = None, **how: Any) -> Release:
    schema = example_schema()
    table = PrivateTable.open(example_frame(40), schema, ledger=Ledger(None))
    config = make_config(how.pop("method", "independent"), how.pop("options", {"rows": 30}))
    made, statement = generate(table, config, Budget(eps=2), noise=noise or make_noise())
    return Release.write(made, schema, statement, folder / "release", **how)


def doctored(release: Release, **changes: Any) -> list[str]:
    path = release.path / "privacy.json"
    content = json.loads(path.read_text())
    for name, value in changes.items():
        content[name] = value(content[name]) if callable(value) else value
    path.write_text(json.dumps(content))
    return verify(release.path)


# -- every method says what its noise drew --------------------------------------------------------


@pytest.mark.parametrize("name", available(GENERATORS))
def test_a_generators_laws_are_those_that_were_drawn(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, spy, run = status(GENERATORS, name), Spy(), points.run_chains

    def walk(*given: Any, **options: Any) -> Any:
        spy.saw["Markov chain"] += 1
        return run(*given, **options)

    monkeypatch.setattr(points, "run_chains", walk)
    table = PrivateTable.open(example_frame(60), example_schema(), ledger=Ledger(None))
    options = {"rows": 30, **OPTIONS.get(name, {})}
    config = build_config(kind, options)
    _, statement = generate(table, config, Budget(eps=1), noise=spy)
    assert counts(statement) == dict(spy.saw)
    assert UNRECORDED not in counts(statement)
    assert statement.problems() == []


@pytest.mark.parametrize("name", [n for n in available(WEIGHTS) if n != "discriminator"])
def test_an_estimators_laws_are_those_that_were_drawn(name: str, tmp_path: Path) -> None:
    kind, spy = status(WEIGHTS, name), Spy()
    if not kind.private:
        pytest.skip("its weights are never published")
    release = a_release(tmp_path)
    before = counts(release.statement)
    table = PrivateTable.open(example_frame(40), example_schema(), ledger=Ledger(None))
    budget = Budget(eps=1)
    weighted = weigh(release, build_config(kind, QUICK.get(name)), budget, table, noise=spy)
    done = publish(release, weighted, noise=spy if weighted.charges else None)
    seeded = {s.law: s.count for s in done.statement.samplers if s.origin == "seed"}
    own = {s.law: s.count for s in done.statement.samplers if s.origin == "operating system"}
    assert (own, seeded) == (before, dict(spy.saw))
    assert done.statement.guarantee == ("none" if seeded else "exact")
    assert done.statement.seeded == bool(seeded)
    assert verify(done.path) == []


@pytest.mark.parametrize("make", [SecureNoise, lambda: SeededNoise(1)], ids=["secure", "seeded"])
def test_every_law_of_a_noise_is_counted(make: Any) -> None:
    import numpy as np

    noise, ones = make(), np.ones(3, dtype=int)
    noise.draw(PoissonSample(0.5), 5), noise.key(), noise.secret()
    (
        noise.draw(DiscreteGaussian(2.0), ones),
        noise.draw(DiscreteGaussian(2.0), ones),
        noise.draw(DiscreteLaplace(2.0), ones),
    )
    noise.draw(ExponentialMechanism(1.0, 1.0), np.zeros(2))
    noise.draw(KNorm(0.5), ones), noise.draw(RoundedGaussian(2.0), ones)
    once = dict.fromkeys([*BY_LAW.values(), *STREAMS], 1)
    assert set(BY_LAW) == set(DRAWN)
    assert noise.used.counts() == {**once, "discrete Gaussian": 2}
    assert set(noise.used.counts()) <= set(LAWS)


def test_a_noise_that_says_nothing_promises_nothing() -> None:
    class Silent(SecureNoise):
        def __init__(self) -> None:
            super().__init__()
            self.used = None  # type: ignore[assignment]

        def draw(self, law: Any, values: Any) -> Any:
            return values

    table = PrivateTable.open(example_frame(40), example_schema(), ledger=Ledger(None))
    config = make_config("independent", {"rows": 30})
    _, statement = generate(table, config, Budget(eps=1), noise=Silent())
    assert set(counts(statement)) == {UNRECORDED}
    assert statement.guarantee == "none"
    assert statement.problems() == []


# -- the weakest decides --------------------------------------------------------------------------


def stated(laws: dict[str, int], *charges: Charge, **more: Any) -> Statement:
    return state(
        generator="independent",
        parameters={},
        charges=charges or [Charge(mechanism="m", cost=ZCDP(rho=0.1))],
        payments=[{"mechanism": "m", "laws": list(laws)}],
        samplers=samplers(laws, more.pop("origin", "operating system")),
        neighbours=Neighbours.ADD_REMOVE,
        target_delta=1e-9,
        schema_drafted=False,
        **more,
    )


@pytest.mark.parametrize("law", sorted(LAWS))
def test_the_weakest_law_decides(law: str) -> None:
    statement = stated({"discrete Gaussian": 3, law: 1})
    assert statement.guarantee == LAWS[law].guarantee
    assert statement.problems() == []
    assert law in statement.noise
    # What commands print of a release is the same.
    assert str(statement.total()).endswith(f", {statement.guarantee}")
    assert statement.private == (statement.guarantee != "none")
    if statement.guarantee != "exact":
        assert law in statement.why
    chain = Charge(mechanism="chain", cost=Pure(eps=1), guarantee="asymptotic")
    worst = weakest(["asymptotic", LAWS[law].guarantee])
    assert stated({law: 1}, chain).guarantee == worst
    assert stated({law: 1}, origin="seed").guarantee == "none"


def test_steps_add_their_laws(tmp_path: Path) -> None:
    statement = a_release(tmp_path).statement
    chain = samplers({"Markov chain": 1}, "operating system")
    paid = [{"mechanism": "chain", "laws": ["Markov chain"], "eps": 0.1, "rho": 0.00125}]
    charges = [Charge(mechanism="chain", cost=Pure(eps=0.1, bounded_range=True))]
    more = statement.extended(
        samplers=chain, payments=paid, charges=charges, libraries={"numba": "compiles"}
    )
    assert more.guarantee == "asymptotic"
    assert "numba" in more.versions
    assert "Markov chain (asymptotic" in more.noise
    again = more.extended(samplers=chain, payments=paid, charges=charges)
    assert counts(again)["Markov chain"] == 2
    assert more.problems() == again.problems() == []


def test_a_seeded_step_marks_the_release(tmp_path: Path) -> None:
    release = a_release(tmp_path)
    assert not release.statement.extended(noise=make_noise()).seeded
    more = release.statement.extended(noise=make_noise(1))
    assert (more.seeded, more.guarantee, more.noise) == (True, "none", "seeded, not private")
    assert more.problems() == []


def test_bounds_bought_from_a_seed_mark_the_release(tmp_path: Path) -> None:
    from marginalsyn.purchases.bounds import Bounds
    from marginalsyn.purchases.purchase import buy

    schema, frame = example_schema(), example_frame(40)
    spy = Spy()
    asked = Bounds(schema=schema, budget=Budget(eps=1), columns=["age"], cells=64)
    opened = PrivateTable.open(frame, asked.counted, ledger=Ledger(None))
    with_bounds: Schema = buy(opened, asked, noise=spy)
    assert spy.saw == {"exponential mechanism": 2}
    table = PrivateTable.open(frame, with_bounds, ledger=Ledger(None))
    config = make_config("independent", {"rows": 20})
    made, statement = generate(table, config, Budget(eps=1), noise=make_noise())
    assert statement.seeded
    assert ("exponential mechanism", "seed", 2) in [
        (line.law, line.origin, line.count) for line in statement.samplers
    ]
    release = Release.write(made, with_bounds, statement, tmp_path / "release")
    assert verify(release.path) == []
    lines = [line for line in statement.samplers if line.origin != "seed"]
    kept = [line.model_dump(mode="json") for line in lines]
    assert any("bounds were bought by" in line for line in doctored(release, samplers=kept))


# -- verify derives it again ----------------------------------------------------------------------


def change(index: int, **values: Any) -> Any:
    return lambda lines: [
        {**line, **values} if i == index else line for i, line in enumerate(lines)
    ]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release whose statement is true."""
    return a_release(tmp_path_factory.mktemp("honest")).path


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"samplers": []}, "samplers must list what payments were for: rounded Gaussian"),
        ({"samplers": change(0, law="Markov chain")}, "must be called asymptotic, not exact"),
        ({"samplers": change(0, law="magic")}, r"sampler \(magic\) must be one of"),
        ({"samplers": change(0, library="numpy")}, "must not be drawn by numpy"),
        ({"samplers": change(0, version="0.1")}, "versions must give that of marginalsyn"),
        ({"samplers": change(0, origin="seed")}, "a sampler was seeded"),
        ({"samplers": change(0, origin="fixed answers")}, "must be called none"),
        ({"payments": change(0, laws=["Markov chain"])}, "what payments were for: Markov chain"),
        ({"payments": change(0, laws=[])}, "must name the laws it paid for"),
        ({"guarantee": "rounded"}, "must be exact, the weakest"),
        ({"noise": "the finest"}, "noise .the finest. must be: rounded Gaussian"),
        ({"versions": lambda v: {**v, "mbi": "1.1"}}, "must not list what took no part: mbi"),
        ({"versions": lambda v: {k: v[k] for k in v if k != "scipy"}}, "took part: scipy"),
        ({"libraries": lambda v: {**v, "jax": "fits"}}, "must list what took part: jax"),
        ({"version": 1}, "version .*should be 2"),
    ],
)
def test_what_contradicts_the_facts_is_found(
    changes: dict[str, Any], problem: str, honest: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(honest, tmp_path / "release")
    found = doctored(Release.read(copy), **changes)
    assert any(re.search(problem, line) for line in found), found


def test_a_stronger_guarantee_than_the_weakest_law_is_found(tmp_path: Path) -> None:
    release = a_release(tmp_path, SeededNoise(1))
    assert release.statement.guarantee == "none"
    assert any("must be none" in line for line in doctored(release, guarantee="exact"))


# -- libraries ------------------------------------------------------------------------------------


def test_libraries_are_heard_where_they_are_named() -> None:
    took_part("mbi", "nobody listens")
    with record_libraries() as outer:
        took_part("jax", "first")
        took_part("jax", "second")
        with record_libraries() as inner:
            took_part("mbi", "inside")
    assert (outer, inner) == ({"jax": "first"}, {"mbi": "inside"})


def test_another_runs_libraries_do_not_stand_in_a_statement(tmp_path: Path) -> None:
    import duckdb

    with record_libraries():
        took_part("mbi", "fits another run's model")
    versions = a_release(tmp_path).statement.versions
    assert versions["duckdb"] == duckdb.__version__
    base = {"python", "marginalsyn", "numpy", "pandas", "scipy"}
    assert set(versions) == base | {"ibis-framework", "duckdb"}


_AIM = """
import json, sys
from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.noise import make_noise
from marginalsyn.access.private_table import PrivateTable
from marginalsyn.contract import make_config
from marginalsyn.host import generate
from marginalsyn.plugins.audit.testkit.generators import example_frame, example_schema
table = PrivateTable.open(example_frame(60), example_schema())
_, s = generate(table, make_config("aim", {"rows": 20}), Budget(eps=1), noise=make_noise())
print(json.dumps([sorted(s.versions), [m for m in ("mbi", "jax") if m in sys.modules]]))
"""


def test_aim_lists_no_library_that_it_does_not_load() -> None:
    done = subprocess.run([sys.executable, "-c", _AIM], capture_output=True, text=True, check=True)
    versions, loaded = json.loads(done.stdout)
    assert loaded == []
    assert {"mbi", "jax", "dp-accounting", "tensorflow"} & set(versions) == set()


def test_a_line_is_worth_what_the_registry_says() -> None:
    line = Sampler(
        law="Markov chain",
        origin="operating system",
        count=1,
        guarantee="exact",
        library="marginalsyn",
        version="0",
    )
    assert line.worth == "asymptotic"
    used = Used("seed")
    used.note("K-norm")
    assert [one.guarantee for one in samplers(used.counts(), used.origin)] == ["none"]

"""The method rake: what it buys and pays for, what it recovers, and answers that serve again."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from marginalsyn import (
    Budget,
    Ledger,
    MarginalsynError,
    Neighbours,
    PrivateTable,
    Schema,
    make_noise,
)
from marginalsyn.certificates.measured import verify
from marginalsyn.contract import make_weights
from marginalsyn.errors import ReleaseError, UsageError
from marginalsyn.generators.independent import IndependentConfig
from marginalsyn.host import generate, weigh
from marginalsyn.plugins.audit.testkit.weights import weight_run
from marginalsyn.plugins.weights.marginal_choice import choose_marginals
from marginalsyn.plugins.weights.rake import RakeConfig
from marginalsyn.privacy.gdp import selection_mu
from marginalsyn.release.folder import Release
from marginalsyn.table.codec import Codec
from marginalsyn.weights.columns import publish

NAMES = ["a", "b", "c", "d", "y"]


def schema(label: str | None = "y", names=NAMES) -> Schema:
    made = Schema.from_domain({name: 2 if name == "y" else 3 for name in names})
    return made.model_copy(update={"label": label})


def people(n: int = 3000, seed: int = 0) -> pd.DataFrame:
    """y is an exclusive or of two halves: no pair of columns shows it, a triple does."""
    rng = np.random.default_rng(seed)
    codes = {name: rng.integers(0, 3, n) for name in "abcd"}
    codes["y"] = (codes["a"] + codes["b"]) % 2
    return pd.DataFrame(codes)


def made(path, frame=None, known=None, *, eps=3.0, seed=1, neighbours=Neighbours.ADD_REMOVE):
    """A table with its ledger, and a release of independent columns."""
    known = schema() if known is None else known
    table = PrivateTable.open(people() if frame is None else frame, known, ledger=Ledger(None))
    budget = Budget(eps=eps, neighbours=neighbours)
    synthesis, statement = generate(table, IndependentConfig(), budget, noise=make_noise(seed))
    return table, Release.write(synthesis, known, statement, path)


def raked(release, table, eps=1.0, neighbours=Neighbours.ADD_REMOVE, seed=2, **options):
    spend = Budget(eps=eps, neighbours=neighbours)
    config = RakeConfig(**options)
    return weigh(release, config, spend, table, noise=make_noise(seed))


def l1(release, weights, columns, frame) -> float:
    codec = Codec(release.schema)
    one, other = codec.encode(release.frame()), codec.encode(frame)
    domain = release.schema.domain
    places = [list(domain).index(name) for name in columns]
    shape = tuple(domain[name] for name in columns)
    at = [np.ravel_multi_index(tuple(part[:, p] for p in places), shape) for part in (one, other)]
    cells = int(np.prod(shape))
    found = np.bincount(at[0], weights, cells) / weights.sum()
    return float(np.abs(found - np.bincount(at[1], minlength=cells) / len(other)).sum())


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("label", ["y", None])
def test_payments_are_the_whole_charge(neighbours, label) -> None:
    """Every marginal at l2^2 / (2 sigma^2), every selection at eps^2 / 8: rho, and no more."""
    known = schema(label, list("abcdefgy")) if label is None else schema(label)
    frame = people().assign(e=0, f=1, g=2)[known.names]
    budget = {"neighbours": neighbours, "eps": 0.7}
    with weight_run(RakeConfig, frame, known, **budget) as run:
        allowed = Budget(eps=0.7, neighbours=neighbours)
        (charge,) = run.estimator.cost
        assert charge.cost.mu == allowed.mu
        assert charge.neighbours is neighbours
        assert run.ledger.read().charges[-1] == charge
        paid = run.weighted.payments
        assert np.isclose(sum(p["mu"] ** 2 for p in paid), allowed.mu**2, rtol=1e-9)
        l2 = 1.0 if neighbours is Neighbours.ADD_REMOVE else np.sqrt(2)
        for p in paid:
            if p["mechanism"] == "gaussian":
                assert np.isclose(p["mu"], l2 / p["sigma"], rtol=1e-12)
            else:
                assert p["mu"] == selection_mu(p["eps"])
        kinds = {p["mechanism"] for p in paid}
        assert kinds == ({"gaussian"} if label else {"gaussian", "exponential"})
        assert not verify(run.published.path)


def test_selection_is_as_sensitive_as_it_says() -> None:
    """One row more or less moves no score by more than the sensitivity; a replaced one by twice."""
    asked = []

    class Looking:
        neighbours = Neighbours.REPLACE

        def __init__(self, frame) -> None:
            self.codes = Codec(known).encode(frame)

        def counts_many(self, marginals):
            return {q: self._count(q) for q in marginals}

        def _count(self, q):
            shape = [known.domain[name] for name in q]
            found = np.zeros(shape, dtype=np.int64)
            np.add.at(found, tuple(self.codes[:, known.names.index(name)] for name in q), 1)
            return found

        def draw(self, law, scores, *, purpose):
            asked.append((scores, law.sensitivity))
            return 0

    known = schema(None, list("abcdefgy"))
    frame = people(200).assign(e=0, f=1, g=2)[known.names]
    with weight_run(RakeConfig, frame, known) as run:
        rake, left = run.estimator, list(run.estimator.chosen.marginals)
        model = rake._model([], left)
        other = frame.copy()
        other.iloc[0] = [2 - value if value != 1 else 0 for value in frame.iloc[0]]
        for rows in (frame, other, frame.iloc[1:]):
            rake._select(Looking(rows), left, model)
    (first, sensitivity), (second, _), (fewer, _) = asked
    assert max(abs(a - b) for a, b in zip(first, second, strict=True)) <= sensitivity
    assert max(abs(a - b) for a, b in zip(first, fewer, strict=True)) <= sensitivity / 2


def test_an_interaction_is_recovered(tmp_path) -> None:
    """Triples of the label bring in what no pair shows; the marginals that were right stay so."""
    frame = people()
    table, release = made(tmp_path / "release", frame)
    found = raked(release, table)
    plain = np.ones(len(found.weights))
    assert l1(release, plain, ["a", "b", "y"], frame) > 0.8
    assert l1(release, found.weights, ["a", "b", "y"], frame) < 0.2
    assert l1(release, found.weights, ["c", "d"], frame) < 0.15
    assert found.facts["notes"]["marginals"] == "label triples"
    error, before = (
        found.facts["notes"][k] for k in ("estimated_error", "estimated_error_unweighted")
    )
    assert error < 0.2 * before


def test_without_a_label_pairs_are_selected(tmp_path) -> None:
    """The two pairs that the release gets wrong are among those that are picked."""
    known = schema(None, list("abcdefgy"))
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({n: rng.integers(0, 2 if n == "y" else 3, 3000) for n in known.names})
    frame["b"], frame["g"] = frame["a"], frame["f"]
    table, release = made(tmp_path / "release", frame, known)
    found = raked(release, table, eps=1.9)
    notes = found.facts["notes"]
    assert (notes["marginals"], notes["rounds"], notes["measured"]) == ("selected pairs", 4, 16)
    measured = [m.columns for m in found.bought.measurements]
    assert {("a", "b"), ("f", "g")} <= set(measured)
    assert len(set(measured)) == 16
    for pair in (["a", "b"], ["f", "g"]):
        assert l1(release, found.weights, pair, frame) < 0.5


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_answers_serve_another_release_for_nothing(tmp_path, neighbours) -> None:
    """The ledger is charged once; the other statement counts what the answers cost, once.

    Which they are was chosen by the first release's number of rows, so its cost counts as well.
    """
    table, release = made(tmp_path / "one", neighbours=neighbours)
    _, other = made(tmp_path / "two", seed=7, neighbours=neighbours)
    found = raked(release, table, neighbours=neighbours)
    first = publish(release, found, noise=make_noise(3))
    assert not verify(first.path)
    spent = list(table.ledger.read().charges)
    again = raked(other, None, from_=str(first.path), neighbours=neighbours)
    assert list(table.ledger.read().charges) == spent
    assert again.charges == ()
    assert l1(other, again.weights, ["a", "b", "y"], people()) < 0.2
    second = publish(other, again)
    assert not verify(second.path)
    assert list(second.statement.charges) == [*other.statement.charges, *first.statement.charges]
    assert second.statement.eps > first.statement.eps
    assert second.statement.seeded
    # Once more on the same release: nothing new is told by it, so nothing is counted anew.
    more = weigh(
        second,
        RakeConfig(from_=str(first.path), strength=0.5),
        Budget(eps=1, neighbours=neighbours),
        noise=make_noise(),
        name="more",
    )
    third = publish(second, more)
    assert third.statement.eps == second.statement.eps


@pytest.mark.parametrize("options", [{"marginals": (("a", "y"),)}, {"degree": 2}])
def test_answers_fixed_beforehand_cost_another_release_no_more(tmp_path, options) -> None:
    table, release = made(tmp_path / "one")
    _, other = made(tmp_path / "two", seed=7)
    found = raked(release, table, **options)
    first = publish(release, found, noise=make_noise(3))
    second = publish(other, raked(other, None, from_=str(first.path)))
    assert list(second.statement.charges) == [*other.statement.charges, *found.charges]


def test_one_row_may_decide_what_is_bought() -> None:
    """Else answers could do without the cost of the release whose number of rows it was."""

    def kind(rows: int) -> str:
        budget = Budget(eps=0.1)
        found = choose_marginals(schema(), rho=budget.gaussian, l2=1.0, rows=rows, released=1000)
        assert not found.fixed
        return found.kind

    few, many = 1, 10**7
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (middle, many) if kind(middle) == kind(1) else (few, middle)
    assert (kind(few), kind(many)) == ("label pairs", "label triples")


def test_answers_of_other_rows_are_refused(tmp_path) -> None:
    table, release = made(tmp_path / "one")
    _, plain = made(tmp_path / "two", seed=7)
    with pytest.raises(UsageError, match="must hold answers"):
        raked(release, None, from_=str(plain.path))
    first = publish(release, raked(release, table), noise=make_noise(3))
    _, replaced = made(tmp_path / "three", neighbours=Neighbours.REPLACE)
    with pytest.raises(UsageError, match="relation"):
        raked(replaced, None, from_=str(first.path), neighbours=Neighbours.REPLACE)
    names = ["a", "b", "c", "y"]
    _, narrow = made(tmp_path / "four", people()[names], schema(names=names))
    with pytest.raises(ReleaseError, match="schema"):
        raked(narrow, None, from_=str(first.path))


def test_damaged_answers_are_refused(tmp_path) -> None:
    """Answers may come from anyone: what is no description of arrays is an error, not a crash."""
    table, release = made(tmp_path / "one")
    first = publish(release, raked(release, table), noise=make_noise(3))
    whole = json.loads((first.path / "rake.answers.json").read_text())
    for change in (
        {"charges": [{"mechanism": 1}]},
        {"measurements": [{"array": "m0", "columns": ["a"], "sigma": 1.0, "purpose": ""}]},
        {"measurements": [{"array": "none"}]},
        {"neighbours": "friends"},
        {"samplers": 3},
    ):
        text = json.dumps({**whole, **change}).encode()
        damaged = first.amend({"rake.answers.json": text})
        with pytest.raises(MarginalsynError, match=r"answers|measurements"):
            raked(release, None, from_=str(damaged.path))


def test_support_that_is_missing_is_told(tmp_path) -> None:
    """Rows that no released one is like are warned of; noise alone warns of nothing."""
    frame = people(4000)
    table, release = made(tmp_path / "release", frame)
    codes = release.frame()
    kept = codes[codes["c"] != codes["c"].iloc[0]]
    one = Release.read(release.path)
    small = Release.write(
        type("Rows", (), {"frame": kept, "measurements": (), "model": None, "schema": None})(),
        one.schema,
        one.statement,
        tmp_path / "small",
    )
    found = raked(small, table, eps=1.0)
    assert found.facts["notes"]["cells_without_rows"] > 0.05
    assert any("no weights can represent" in line for line in found.warnings)
    found = raked(release, table, eps=0.05)
    assert not any("no weights can represent" in line for line in found.warnings)


def test_formula_and_list_fix_what_is_measured(tmp_path) -> None:
    table, release = made(tmp_path / "release")
    found = raked(release, table, for_="c ~ a + d", degree=2)
    assert [m.columns for m in found.bought.measurements] == [("c", "a"), ("c", "d")]
    found = raked(release, table, marginals=(("y", "a"), ("c",)))
    assert {m.columns for m in found.bought.measurements} == {("c",), ("a", "y")}
    for wrong in ({"for_": "c"}, {"for_": "c ~ c + a"}, {"marginals": (("a", "no"),)}):
        with pytest.raises(UsageError, match="must"):
            raked(release, table, **wrong)
    with pytest.raises(UsageError, match="degree"):
        make_weights("rake", {"degree": 4})

"""Weights, certificates and scores for persons: what one person moves, whatever the rows are.

Taken for granted, and tested: the rows of a person weigh 1 together, exactly; a sum of weighted
vectors moves by no more than the longest vector; a sampled, clipped person is one person; released
rows count 1/k, so that both sides of a ratio are persons.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from marginalsyn import Budget, Charge, Neighbours, PrivateTable, Schema, Unit, make_noise
from marginalsyn.certificates.linear_models import Frame
from marginalsyn.contract import Synthesis, Target, make_weights
from marginalsyn.errors import UsageError
from marginalsyn.generators.dependence import Dependence
from marginalsyn.host import weigh
from marginalsyn.plugins.research.moment_certificate import MomentPlan
from marginalsyn.privacy.charges import ZCDP
from marginalsyn.privacy.laws import PoissonSample
from marginalsyn.progress import Silent
from marginalsyn.release.folder import Release
from marginalsyn.release.statement import state
from marginalsyn.table.features import Features
from marginalsyn.weights.conditional import Chunks, Conditional
from marginalsyn.weights.dp_sgd import Persons, Training, private_gradient
from marginalsyn.weights.label_correction import clipped_total
from marginalsyn.weights.logistic import LinearConfig
from marginalsyn.weights.per_row import build_network

BASE = Schema(**{**Schema.from_domain({"a": 3, "b": 2}).model_dump(), "label": "b", "positive": 1})
MOST = 6
SCHEMA = BASE.with_unit(Unit(column="who", max_rows=MOST))


def rows_of(rng: np.random.Generator, who: object, rows: int) -> pd.DataFrame:
    values = {"a": rng.integers(0, 3, rows), "b": rng.integers(0, 2, rows)}
    return pd.DataFrame({"who": [who] * rows, **values})


def crowd(rng: np.random.Generator, size: int = 20) -> pd.DataFrame:
    return pd.concat([rows_of(rng, f"p{i}", int(rng.integers(1, 9))) for i in range(size)])


def visit_of(frame: pd.DataFrame, schema: Schema = SCHEMA, relation: str = "add-remove") -> Any:
    table = PrivateTable.open(frame.reset_index(drop=True), schema)
    charge = Charge(mechanism="test", cost=ZCDP(rho=0.01), neighbours=Neighbours(relation))
    return table.charge([charge], noise=make_noise(), persons=True)


def neighbours(
    seed: int, rows: int, relation: Neighbours = Neighbours.ADD_REMOVE
) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    others, one = crowd(rng), rows_of(rng, "new", rows)
    # Their worst case is a person whose rows are all alike.
    one["a"], one["b"] = 2, 1
    if relation is Neighbours.ADD_REMOVE:
        return others, pd.concat([others, one])
    return pd.concat([others, rows_of(rng, "old", 2)]), pd.concat([others, one])


def released(seed: int = 0, rows: int = 200) -> Target:
    rng = np.random.default_rng(seed)
    frame = rows_of(rng, "x", rows).drop(columns="who")
    frame["rows_of_person"] = rng.integers(1, MOST + 1, rows)
    return Target(frame=frame, schema=SCHEMA, rows=20.0)


def test_rows_weigh_one_person_and_are_found_again_by_a_number() -> None:
    frame = crowd(np.random.default_rng(0), 40)
    with visit_of(frame) as visit:
        codes, weights, _ = visit.all_rows(weighted=True)
        units = [
            (len(rows), one.sum()) for rows, one, _ in visit.batches(units=True, weighted=True)
        ]
        again, masses, numbers = visit.all_rows(person=True)
        exact = visit.counts(("a",))
    assert weights.sum() == 40.0 == sum(one for _, one in units)
    assert np.array_equal(np.bincount(codes[:, 0], weights, minlength=3), exact)
    assert np.array_equal(np.bincount(numbers, masses), np.ones(40))
    sizes = frame.groupby("who").size().clip(upper=MOST)
    assert sorted(np.bincount(numbers)) == sorted(sizes)
    # All rows with one number are of one person: they agree in the number of the person's rows.
    assert all(len(set(again[numbers == one, 2])) == 1 for one in range(40))


@pytest.mark.parametrize("relation", list(Neighbours))
def test_coefficients_move_by_no_more_than_for_one_row(relation: Neighbours) -> None:
    config = LinearConfig(penalty=2.0)
    regression = config.regression(released(), relation, lambda _: 0.1)
    furthest = 0.0
    for seed in range(2):
        found = []
        for frame in neighbours(seed, 30, relation):
            with visit_of(frame) as visit:
                found.append(regression.fit(visit).beta)
        furthest = max(furthest, float(np.linalg.norm(found[0] - found[1])))
    assert 0 < furthest <= regression.l2
    # As long as a row's: the same table with the person's rows as persons goes beyond the bound.
    frame, other = neighbours(0, 30)
    apart = [f.assign(who=np.arange(len(f))) for f in (frame, other)]
    loose = [regression.fit(visit_of(f)).beta for f in apart]
    assert np.linalg.norm(loose[0] - loose[1]) > furthest


def test_released_rows_count_as_the_persons_that_they_stand_for() -> None:
    target = released()
    masses = target.masses
    assert masses is not None
    assert masses.mean() == pytest.approx(1.0)
    assert np.allclose(masses * target.frame["rows_of_person"], masses[0] / target.persons[0])
    one = Target(frame=target.frame, schema=BASE, rows=3.0)
    assert one.masses is None


def test_clipped_sums_move_by_the_clipping_norm_at_most() -> None:
    """By rows of a person one by one they would move by the number of rows times it."""
    made = Conditional(released())
    network = build_network(
        "numpy",
        made.width,
        (4,),
        np.random.default_rng(1),
        loss=made.tilt,
        outputs=made.outputs,
    )
    rng = np.random.default_rng(2)
    network.assign(rng.normal(size=network.size))
    clip, before, after = 0.05, *neighbours(3, 30)
    sums, plain = [], []
    for frame in (before, after):
        with visit_of(frame) as visit:
            codes, weights, _ = visit.all_rows(weighted=True)
        sums.append(clipped_total(network, Chunks(made, codes, weights), _inputs, clip))
        plain.append(clipped_total(network, Chunks(made, codes), _inputs, clip))
        by_hand = sum(
            w * clipped_total(network, Chunks(made, codes[[i]]), _inputs, clip)
            for i, w in enumerate(weights)
        )
        assert np.allclose(sums[-1], by_hand)
    assert 0.9 * clip < np.linalg.norm(sums[0] - sums[1]) <= clip * (1 + 1e-9)
    assert np.linalg.norm(plain[0] - plain[1]) > 5 * clip


def _inputs(rows: Any) -> np.ndarray:
    return np.asarray(rows.inputs)


@pytest.mark.parametrize(
    "engine",
    ["numpy", pytest.param("tensorflow-privacy", marks=[pytest.mark.tensorflow, pytest.mark.slow])],
)
def test_a_step_samples_sums_and_clips_persons(engine: str) -> None:
    rng = np.random.default_rng(4)
    numbers = np.repeat(np.arange(9), rng.integers(1, 7, 9))
    order = rng.permutation(len(numbers))
    x = rng.normal(size=(len(numbers), 3))
    weights = (1 / np.bincount(numbers))[numbers]
    persons = Persons(x[order], weights[order], numbers[order])
    assert len(persons) == 9
    network = build_network(engine, 3, (2,), np.random.default_rng(5))
    network.assign(rng.normal(size=network.size))
    clip = 0.3

    def lot(*chosen: int) -> np.ndarray:
        parts = persons.parts(np.array(chosen, dtype=int))
        return sum(
            (w * network.clipped_sum(rows, 1.0, clip) for w, rows in parts), np.zeros(network.size)
        )

    for one in range(9):
        mine = x[numbers == one]
        by_hand = np.mean([network.clipped_sum(row[None], 1.0, clip) for row in mine], axis=0)
        assert np.allclose(lot(one), by_hand)
        assert np.linalg.norm(lot(one)) <= clip * (1 + 1e-9)
        assert np.allclose(lot(*range(9)) - lot(*(i for i in range(9) if i != one)), by_hand)
    assert not lot().any()
    training = Training(
        rate=0.5, steps=1, lot=4, clip_norm=clip, noise_multiplier=1e-3, learning_rate=0.1
    )
    seen = []
    for seed in range(40):
        noise = make_noise(seed)
        chosen = make_noise(seed).draw(PoissonSample(0.5), 9)
        seen.append(len(chosen))
        drawn = private_gradient(network, persons, training, noise)
        assert np.linalg.norm(drawn - lot(*chosen)) < 0.02
    # Persons are drawn, not rows: 4.5 of 9, not half of the rows.
    assert 3 < np.mean(seen) < 6


def test_scores_of_parents_move_by_one_though_a_person_has_many_rows() -> None:
    rng = np.random.default_rng(6)
    shares = [rng.dirichlet(np.ones(size)) for size in SCHEMA.domain.values()]
    levels = [[np.arange(size)] for size in SCHEMA.domain.values()]
    dependence = Dependence(shares, levels)
    questions = {((0, 0),): [1, 2], ((0, 0), (2, 0)): [1], (): [0]}
    worst = {}
    for relation in Neighbours:
        moved = []
        for seed in range(2):
            found = []
            for frame in neighbours(seed, 30, relation):
                with visit_of(frame, relation=relation) as visit:
                    found.append(dependence.scores(visit, questions))
                    limit = dependence.sensitivity(visit)
            moved += [abs(found[0][key] - found[1][key]) for key in found[0]]
        worst[relation] = max(moved)
        assert worst[relation] <= limit <= relation.l1 * 1.001
    assert worst[Neighbours.ADD_REMOVE] > 0.3


@pytest.mark.parametrize("relation", list(Neighbours))
def test_sums_of_a_certificate_move_by_all_rows_of_a_person(relation: Neighbours) -> None:
    plan = MomentPlan.of(Frame.of(SCHEMA, "b"), 0.1, relation)
    assert plan.most == MOST

    def sums(frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        with visit_of(frame, relation=relation) as visit:
            visit.draw = lambda law, values, **how: values  # type: ignore[method-assign]
            found = plan.measure(visit, Silent())
        return found.label, found.product

    furthest = np.zeros(2)
    for seed in range(2):
        one, other = neighbours(seed, 30, relation)
        pairs = zip(sums(one), sums(other), strict=True)
        furthest = np.maximum(furthest, [np.linalg.norm(a - b) for a, b in pairs])
    assert furthest[0] <= plan.label_l2
    assert furthest[1] <= plan.product_l2
    # One row's bound would be broken.
    assert furthest[0] > plan.label_l2 / MOST * 2


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("rake", {}),
        ("beta-noised", {"crosses": "all"}),
        ("beta-noised", {"target": "label"}),
        ("dp-mlp", {"target": "label", "engine": "numpy", "hidden": (8,)}),
        ("dp-mlp", {"target": "rows", "engine": "numpy", "rate": 0.5, "crosses": "all"}),
        pytest.param("auto", {}, marks=pytest.mark.slow),
    ],
)
def test_weights_find_what_a_release_of_persons_lost(
    method: str, options: dict[str, Any], folder: Any
) -> None:
    """Rows in which b does not depend on a; among private rows it does, and K on both."""
    rng = np.random.default_rng(7)
    size = 3000
    heavy = rng.random(size) < 0.4
    k = np.where(heavy, rng.integers(4, 7, size), 1)
    who, of_heavy = np.repeat(np.arange(size), k), np.repeat(heavy, k)
    a = np.where(of_heavy, rng.integers(0, 2, len(who)), rng.integers(0, 3, len(who)))
    b = (rng.random(len(who)) < np.array([0.15, 0.5, 0.85])[a]).astype(int)
    private = pd.DataFrame({"who": who, "a": a, "b": b})
    made = pd.DataFrame({"a": a, "b": rng.permutation(b), "rows_of_person": np.repeat(k, k)})
    statement = state(
        generator="mst",
        parameters={},
        charges=[Charge(mechanism="mst", cost=ZCDP(rho=0.01))],
        payments=[],
        neighbours=Neighbours.ADD_REMOVE,
        target_delta=1e-9,
        schema_drafted=False,
        persons=SCHEMA.unit,
        notes={"estimated_persons": size, "estimated_rows": len(made)},
    )
    synthesis = Synthesis(frame=made)
    release = Release.write(synthesis, SCHEMA, statement, folder / "r")
    table = PrivateTable.open(private, SCHEMA)
    config = make_weights(method, options)
    found = weigh(release, config, Budget(eps=6), table, noise=make_noise(8))
    assert [entry.unit for entry in table.ledger.read().entries] == [SCHEMA.unit.noun]  # type: ignore[union-attr]
    weights = found.weights

    def chances(frame: pd.DataFrame, masses: Any) -> np.ndarray:
        return np.array(
            [
                np.average(frame["b"][frame["a"] == x], weights=masses[frame["a"] == x])
                for x in (0, 1, 2)
            ]
        )

    truth = chances(private, np.ones(len(private)))
    before = np.abs(chances(made, np.ones(len(made))) - truth).max()
    after = np.abs(chances(made, weights) - truth).max()
    assert before > 0.25
    assert after < 0.4 * before


def test_answers_about_persons_are_not_used_for_rows(folder: Any) -> None:
    frame = released().frame
    for name, schema, unit in (("p", SCHEMA, SCHEMA.unit), ("r", SCHEMA.with_unit(None), None)):
        statement = state(
            generator="mst",
            parameters={},
            charges=[],
            payments=[],
            neighbours=Neighbours.ADD_REMOVE,
            target_delta=1e-9,
            schema_drafted=False,
            persons=unit,
        )
        Release.write(Synthesis(frame=frame[schema.names]), schema, statement, folder / name)
    config = make_weights("rake", {"from_": str(folder / "p")})
    with pytest.raises(UsageError, match="do not add up"):
        config.configure(Target.of(Release.read(folder / "r")), Budget(eps=1))


def test_features_of_both_sides_have_masses() -> None:
    features = Features(SCHEMA)
    with visit_of(crowd(np.random.default_rng(9))) as visit:
        rows = features.private_rows(visit)
        codes, weights, _ = visit.all_rows(weighted=True)
    x = features.of_codes(codes)
    assert rows.mass == 20.0
    assert np.allclose(rows.mean, weights @ x / 20.0)
    centred = x - rows.mean
    assert np.allclose(rows.covariance, (centred.T * weights) @ centred / 20.0)

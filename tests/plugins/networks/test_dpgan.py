"""dpgan and dpcgan: what a step gives away, audited; what a release holds, and how it is read."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import os
import pickle
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from steps import Fixed, knobs

from marginalsyn import Budget, Charge, Neighbours, Schema
from marginalsyn.contract import Measurement, Model, Target
from marginalsyn.errors import ReleaseError, UsageError
from marginalsyn.plugins.audit.testkit.generators import (
    example_frame,
    example_schema,
    run_generator,
)
from marginalsyn.plugins.networks.adversarial import Layout, MakerNetwork
from marginalsyn.plugins.networks.discriminator import DiscriminatorConfig
from marginalsyn.plugins.networks.dpgan import (
    DPCGANConfig,
    DPGANConfig,
    PrivateVectors,
    train_adversarially,
)
from marginalsyn.plugins.networks.heads import Heads, shares_of
from marginalsyn.plugins.networks.tensorflow_engine import Network
from marginalsyn.privacy.charges import SubsampledGaussian
from marginalsyn.privacy.composition import compose, find_noise_multiplier
from marginalsyn.privacy.noise import SecureNoise, SeededNoise
from marginalsyn.privacy.zcdp import rho_of
from marginalsyn.release.folder import Release
from marginalsyn.release.sampling import sample
from marginalsyn.table.codec import Codec
from marginalsyn.weights.dense import forward, layers_of
from marginalsyn.weights.dp_sgd import joint_gradient

ALPHA = 1e-6
QUICK = {"steps": 4, "rate": 1.0, "hidden": (8,), "generator_hidden": (8,)}


# -- rows as vectors ------------------------------------------------------------------------------


def test_a_rows_vector_is_its_own_and_lies_in_its_stretch() -> None:
    schema = Schema.from_domain({"a": 5})
    heads = Heads(schema, {"a": np.array([0.6, 0.1, 0.1, 0.1, 0.1])})
    codes = np.arange(5).repeat(200)[:, None]
    place = (heads.rows(codes, np.random.default_rng(1))[:, 0] + 1) / 2
    edges = heads.heads[0].edges
    assert (place >= edges[codes[:, 0]]).all()
    assert (place <= edges[codes[:, 0] + 1]).all()


def test_shares_of_noise_are_even_and_of_large_counts_are_theirs() -> None:
    counts = np.array([1000, 10, 0, 3000])
    near = shares_of([Measurement(columns=("a",), values=counts, sigma=1.0)], 4010.0)["a"]
    assert np.allclose(near, counts / 4010, atol=1e-3)
    drowned = shares_of([Measurement(columns=("a",), values=counts, sigma=1e6)], 4010.0)["a"]
    assert np.allclose(drowned, 0.25)


# -- a step ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["log-odds", "critic"])
def network(request) -> Network:
    """A discriminator of each loss, compiled once."""
    return Network(6, (16,), np.random.default_rng(1), 64, loss=request.param, bias=1.0)


@pytest.mark.tensorflow
@pytest.mark.parametrize("rows", [0, 1, 50], ids=["empty lot", "one row", "many rows"])
def test_noise_of_a_step_does_not_depend_on_the_lot(network, rows) -> None:
    """sigma C / L on every parameter, whatever the lot holds."""
    rng = np.random.default_rng(0)
    network.assign(rng.normal(0, 0.5, network.size))
    private, fakes = rng.normal(size=(rows, 6)), rng.normal(size=(8, 6))
    training = knobs(rate=1.0, lot=25)
    exact = network.clipped_sum(private, 1.0, 2.0) + 25 / 8 * network.clipped_sum(fakes, 0.0, 2.0)
    drawn = [
        joint_gradient(network, private, fakes, training, SecureNoise()) - exact / 25
        for _ in range(80)
    ]
    sigma = training.noise_multiplier * training.clip_norm / training.lot
    assert stats.kstest(np.ravel(drawn), stats.norm(0, sigma).cdf).pvalue > ALPHA
    assert stats.kstest(np.ravel(drawn), stats.norm(0, sigma / 1.5).cdf).pvalue < ALPHA


@pytest.mark.tensorflow
@pytest.mark.parametrize("strange", [np.nan, np.inf, -np.inf, 1e200, 1e308], ids=str)
@pytest.mark.parametrize("scale", [0.5, 1e5], ids=["small parameters", "huge parameters"])
def test_a_gradient_that_is_no_number_counts_as_zero(network, strange, scale) -> None:
    """And no row with one moves the sum by more than the clipping norm, nor another's part."""
    rng = np.random.default_rng(4)
    network.assign(rng.normal(0, scale, network.size))
    rows, bad = rng.normal(size=(5, 6)), np.full((1, 6), strange)
    one, other = network.clipped_sum(rows, 1.0, 0.7), network.clipped_sum(bad, 1.0, 0.7)
    both = network.clipped_sum(np.vstack([rows[:2], bad, rows[2:]]), 1.0, 0.7)
    assert np.isfinite(both).all()
    assert np.linalg.norm(other) <= 0.7 * (1 + 1e-9)
    np.testing.assert_allclose(both, one + other, atol=1e-9)
    if np.isnan(strange):
        assert not other.any()


@pytest.mark.parametrize(
    "changes",
    [
        *(
            {name: value}
            for name in ("clip_norm", "noise_multiplier", "learning_rate", "rate")
            for value in (0.0, -1.0, math.nan, math.inf, 1e9, "1", True)
        ),
        *({name: value} for name in ("steps", "lot") for value in (0, -3, 2.5, math.nan, 10**13)),
    ],
    ids=str,
)
def test_training_has_bounded_knobs(changes) -> None:
    with pytest.raises(UsageError, match="must"):
        knobs(**changes)


@pytest.mark.tensorflow
def test_nothing_but_the_lots_depends_on_the_private_rows() -> None:
    rng, schema = np.random.default_rng(2), example_schema()
    heads, codes = Heads(schema), Codec(schema).encode(example_frame(90))
    ends = []
    for rows in (codes[:3], codes):
        net = Network(heads.width, (4,), np.random.default_rng(3), 32)
        making = MakerNetwork(Layout(heads, (), 2), (4,), np.random.default_rng(4))
        private = PrivateVectors(heads, rows, SeededNoise(5).key())
        game = DPGANConfig(settle=0.4, generator_rate=0.01, anchor=1.0)
        maker = train_adversarially(
            net, making, private, game, knobs(), Fixed(6), lambda step: None
        )
        ends.append((net.parameters, maker.codes(20, np.random.default_rng(7))))
    assert (ends[0][0] == ends[1][0]).all()
    assert (ends[0][1] == ends[1][1]).all()
    del rng


def private_vectors(codes: np.ndarray, seed: int) -> PrivateVectors:
    return PrivateVectors(Heads(example_schema()), codes, SeededNoise(seed).key())


@pytest.mark.tensorflow
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_for_every_key_one_row_moves_the_clipped_sum_by_at_most_the_claim(neighbours) -> None:
    """Whichever row it is: given the key, the others' places in their bins stay where they are."""
    rng, schema, clip = np.random.default_rng(8), example_schema(), 0.5
    pool = Codec(schema).encode(example_frame(500))
    net = Network(Heads(schema).width, (6,), rng, 64, bias=1.0)
    net.assign(rng.normal(0, 3, net.size))
    reach, largest = clip * neighbours.l1 * (1 + 1e-9), 0.0
    for trial in range(25):
        codes = pool[rng.integers(0, 500, 40)]
        after = np.delete(codes, int(rng.integers(40)), 0)
        if neighbours is Neighbours.REPLACE:
            after = np.insert(after, int(rng.integers(40)), pool[rng.integers(500)], axis=0)
        one, other = private_vectors(codes, trial), private_vectors(after, trial)
        for _ in range(2):
            sums = [net.clipped_sum(v[np.arange(len(v))], 1.0, clip) for v in (one, other)]
            moved = float(np.linalg.norm(sums[0] - sums[1]))
            assert moved <= reach
            largest = max(largest, moved)
    assert largest > 0.9 * clip


def test_places_are_the_row_s_own_and_new_in_each_look() -> None:
    codes = Codec(example_schema()).encode(example_frame(60))
    codes = np.concatenate([codes, codes[:20]])
    order = np.random.default_rng(0).permutation(80)
    one, other = private_vectors(codes, 1), private_vectors(codes[order], 1)
    first, second = one[np.arange(80)], one[np.arange(80)]
    assert (first != second).any(axis=1).mean() > 0.9
    # Equal rows may be exchanged: the same vectors in all, in another order.
    again = other[np.arange(80)]
    assert sorted(map(bytes, first)) == sorted(map(bytes, again))
    assert len(np.unique(first, axis=0)) == 80
    # A part of the rows lies where it lies in the whole.
    np.testing.assert_array_equal(private_vectors(codes, 1)[np.arange(5, 9)], first[5:9])


@pytest.mark.parametrize(
    "key", [SecureNoise().post, SecureNoise().secret()], ids=["post", "secret"]
)
def test_places_come_from_a_key_only(key) -> None:
    with pytest.raises(UsageError, match="must be a Key"):
        PrivateVectors(Heads(example_schema()), np.zeros((2, 5), dtype=np.int32), key)


@pytest.mark.tensorflow
def test_the_maker_in_tensorflow_is_the_maker_in_numpy() -> None:
    """Its loss falls along the gradient as numpy's forward pass sees it."""
    schema, rng = example_schema(), np.random.default_rng(0)
    heads = Heads(schema)
    net = Network(heads.width, (8,), rng, 32, bias=1.0)
    net.assign(rng.normal(0, 1, net.size))
    making = MakerNetwork(Layout(heads, (4,), 3), (8,), rng)
    gradient = making.gradient_against(net)
    layers = layers_of(net.parameters, net.shapes)

    def loss() -> float:
        draws = np.random.default_rng(9)
        scores = forward(layers, heads.rows(making.maker().codes(20_000, draws), draws))
        return float(np.logaddexp(0, -scores).mean())

    before = loss()
    for _ in range(60):
        making.parameters = making.parameters - 0.05 * gradient(256, rng)
    assert loss() < before - 0.1


# -- accounting -----------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("options", [{}, {"marginals": 0.0}], ids=["marginals", "count"])
def test_totals_fit_the_budget_and_hardly_less(neighbours, options) -> None:
    budget = Budget(eps=2.0, neighbours=neighbours)
    generator = DPGANConfig(rate=1.0, steps=40, **options).configure(example_schema(), budget)
    total = compose(generator.cost, budget.delta, neighbours)
    assert 1.8 < total.eps <= 2.0
    kinds = [charge.cost.kind for charge in generator.cost]
    replace = neighbours is Neighbours.REPLACE and options
    assert kinds == (["subsampled-gaussian"] if replace else ["zcdp", "subsampled-gaussian"])


def test_noise_beside_another_charge_is_found_for_both() -> None:
    rho = 0.1 * rho_of(1.0, 1e-9)
    found = find_noise_multiplier(1.0, 1e-9, Neighbours.ADD_REMOVE, 0.05, 30, rho)
    steps = SubsampledGaussian(noise_multiplier=found, rate=0.05, steps=30)
    beside = Charge.model_validate({"mechanism": "b", "cost": {"kind": "zcdp", "rho": rho}})
    eps = compose([Charge(mechanism="a", cost=steps), beside], 1e-9).eps
    assert 0.98 < eps <= 1.0
    assert found > find_noise_multiplier(1.0, 1e-9, Neighbours.ADD_REMOVE, 0.05, 30)


@pytest.mark.tensorflow
def test_the_ledger_holds_the_steps_and_the_counts() -> None:
    run = run_generator(DPGANConfig, example_frame(80), example_schema(), options=QUICK)
    paid = {p["mechanism"]: p for p in run.statement.payments}
    assert paid["DP-SGD"]["steps"] == 4
    assert paid["DP-SGD"]["noise_multiplier"] == run.generator.noise_multiplier  # type: ignore[attr-defined]
    counts = [p["rho"] for p in run.statement.payments if p["mechanism"] == "gaussian"]
    assert sum(counts) == pytest.approx(0.2 * Budget(eps=1.0).rho)
    total = compose(list(run.ledger.read().charges), 1e-9)
    assert total.eps <= run.statement.eps <= 1.0


# -- conditional ----------------------------------------------------------------------------------


def test_the_condition_may_be_another_column_or_none() -> None:
    schema, budget = example_schema(), Budget(eps=1)
    knobs = {"rate": 1.0, "marginals": 0.0}
    other = DPCGANConfig(condition="grade", **knobs).configure(schema, budget)
    assert (other.given, other.first_marginals) == (("grade",), [("grade",)])
    alone = DPCGANConfig(**knobs).configure(schema.select(["age"]), budget)
    assert (alone.given, alone.first_marginals) == ((), [()])
    with pytest.raises(UsageError, match="wrong"):
        DPCGANConfig(condition="wrong").configure(schema, budget)


# -- the release ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def release(tmp_path_factory) -> Release:
    run = run_generator(DPCGANConfig, example_frame(80), example_schema(), options=QUICK)
    folder = tmp_path_factory.mktemp("release") / "release"
    return Release.write(run.synthesis, example_schema(), run.statement, folder)


BLOCKED = """
import sys
for name in ("tensorflow", "tensorflow_privacy", "keras"):
    sys.modules[name] = None
from importlib import metadata
known = metadata.version
def version(name):
    if name.startswith("tensorflow"):
        raise metadata.PackageNotFoundError(name)
    return known(name)
metadata.version = version
import numpy as np
from marginalsyn.errors import MissingExtraError
from marginalsyn.plugins.networks.discriminator import DiscriminatorConfig
from marginalsyn.registry import GENERATORS, find, plugins
from marginalsyn.release.folder import Release
from marginalsyn.release.sampling import sample
from marginalsyn.privacy.budget import Budget
from marginalsyn.contract import Target
release = Release.read(sys.argv[1])
assert len(sample(release, 30, np.random.default_rng(0))) == 30
weights = DiscriminatorConfig().configure(Target.of(release), Budget.of_rho(1.0))
assert np.isfinite(weights(None, progress=None).values).all()
listed = {p.name: p.status for p in plugins(GENERATORS)}
assert listed["dpgan"] == listed["dpcgan"] == listed["pategan"] == "missing", listed
try:
    find(GENERATORS, "dpcgan")
except MissingExtraError as error:
    assert "marginalsyn[tensorflow]" in str(error)
else:
    raise AssertionError("the extra is missing")
"""


@pytest.mark.tensorflow
def test_without_tensorflow_a_release_is_read_but_none_is_made(release) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, str(release.path)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.tensorflow
def test_a_critics_release_gives_no_weights(tmp_path) -> None:
    options = {**QUICK, "loss": "wasserstein"}
    run = run_generator(DPGANConfig, example_frame(60), example_schema(), options=options)
    made = Release.write(run.synthesis, example_schema(), run.statement, tmp_path / "release")
    budget = Budget(eps=1)
    plan = DiscriminatorConfig().configure(Target.of(made), budget).plan
    assert "--loss non-saturating" in plan.uncalibrated
    bound = max(np.abs(v).max() for k, v in made.model().arrays.items() if "discriminator" in k)
    assert bound <= DPGANConfig().bound


class Bomb:
    def __reduce__(self):
        return (os.mkdir, ("pickle-was-run",))


@pytest.mark.tensorflow
@pytest.mark.parametrize("how", ["object array", "pickle", "garbage"])
def test_nothing_is_unpickled(release, tmp_path, monkeypatch, how) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "release"
    shutil.copytree(release.path, folder)
    held = io.BytesIO()
    if how == "object array":
        np.savez(held, a0=np.array([Bomb()], dtype=object))
    elif how == "pickle":
        with zipfile.ZipFile(held, "w") as archive:
            archive.writestr("a0.npy", pickle.dumps(Bomb()))
    else:
        held.write(pickle.dumps(Bomb()))
    (folder / "model.npz").write_bytes(held.getvalue())
    # The hash is made to agree: the reader itself must refuse.
    statement = json.loads((folder / "privacy.json").read_text(encoding="utf-8"))
    statement["files"]["model.npz"] = hashlib.sha256(held.getvalue()).hexdigest()
    (folder / "privacy.json").write_text(json.dumps(statement), encoding="utf-8")
    with pytest.raises(ReleaseError):
        sample(Release.read(folder), 5, np.random.default_rng(0))
    assert not (tmp_path / "pickle-was-run").exists()


def spoiled(model: Model) -> list[tuple[str, Model]]:
    def with_array(name: str, value) -> Model:
        return Model(kind=model.kind, arrays={**model.arrays, name: value}, meta=model.meta)

    def with_meta(**changes) -> Model:
        return Model(kind=model.kind, arrays=model.arrays, meta={**model.meta, **changes})

    kernel, shares = model.arrays["generator.0.kernel"], model.arrays["shares"]
    return [
        ("nan", with_array("generator.0.kernel", kernel * np.nan)),
        ("shape", with_array("generator.0.kernel", kernel[1:])),
        ("integers", with_array("generator.0.bias", np.zeros(8, dtype=int))),
        ("skip", with_array("generator.skip", np.zeros(3))),
        ("negative", with_array("shares", -shares)),
        ("short", with_array("shares", shares[1:])),
        ("given", with_meta(given=["nobody"])),
        ("given", with_meta(given=5)),
        ("latent", with_meta(latent=10**9)),
        ("latent", with_meta(latent="many")),
        ("latent", with_meta(latent=99)),
        ("none", Model(kind=model.kind, arrays={}, meta=model.meta)),
    ]


@pytest.mark.tensorflow
def test_spoiled_models_are_refused(release) -> None:
    rng = np.random.default_rng(0)
    taken = []
    for why, model in spoiled(release.model()):
        with contextlib.suppress(ReleaseError):
            DPCGANConfig.sample(model, release.schema, 3, rng)
            taken.append(why)
    assert taken == []
    broken = Model(kind="dpgan", arrays=release.model().arrays, meta={})
    kept = {k: v for k, v in broken.arrays.items() if not k.startswith("discriminator")}
    with pytest.raises(ReleaseError, match="discriminator"):
        DPGANConfig.score(Model(kind="dpgan", arrays=kept), release.schema, release.frame())


# -- from the command line ------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_a_release_is_made_weighted_and_sampled(run, folder: Path) -> None:
    small = ("--steps", 3, "--rate", 1, "--hidden", 4, "--generator-hidden", 4)
    run("generate", "--dataset", "iris", "--method", "dpcgan", "--eps", 3, *small, "--out", "g")
    shown = run("weight", "g", "--method", "discriminator")
    assert "no charge" in shown.stderr
    run("sample", "g", "--rows", 9, "--out", "more.csv")
    assert len((folder / "more.csv").read_text(encoding="utf-8").splitlines()) == 10
    run("verify", "g")
    told = json.loads((folder / "g" / "privacy.json").read_text(encoding="utf-8"))
    assert "post-processing" in told["notes"]["weights"]["discriminator"]["notes"]["charged"]


@pytest.mark.parametrize(
    "options",
    [
        {"steps": 0},
        {"rate": 0.0},
        {"hidden": ()},
        {"generator_hidden": (0,)},
        {"clip_norm": 0.0},
        {"marginals": 1.0},
        {"settle": 1.0},
        {"rows": 0},
        {"hidden": (4,) * 9},
        {"generator_hidden": (2000,)},
        {"clip_norm": math.nan},
        {"learning_rate": math.inf},
        {"steps": 10**7},
    ],
    ids=str,
)
def test_strange_knobs_are_refused(options) -> None:
    with pytest.raises(UsageError, match="must"):
        DPGANConfig(**options)

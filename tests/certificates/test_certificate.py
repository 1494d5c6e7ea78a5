"""The releasable certificate: its sensitivity, its noise, its truth, and what verify sees."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit_rows import random_rows

from marginalsyn import (
    Budget,
    Charge,
    Ledger,
    MarginalsynError,
    Neighbours,
    PrivateTable,
    Schema,
    datasets,
    make_noise,
)
from marginalsyn.certificates.certifying import CONFIDENCE
from marginalsyn.certificates.linear_models import GRID, Frame
from marginalsyn.certificates.measured import verify
from marginalsyn.contract import make_config
from marginalsyn.errors import BudgetError, UsageError
from marginalsyn.host import generate
from marginalsyn.plugins.audit.testkit.generators import example_frame, example_schema
from marginalsyn.plugins.reports.bounds_report import moment_errors
from marginalsyn.plugins.research.moment_certificate import (
    _ROWS_REACH,
    ARRAYS,
    COUNTED,
    FACTS,
    MomentPlan,
    Sums,
    add_up,
    certify_release,
    read,
    renew,
)
from marginalsyn.privacy.laws import DiscreteGaussian
from marginalsyn.privacy.zcdp import gaussian_rho
from marginalsyn.release.folder import Release
from marginalsyn.table.design import CodedRows

SCHEMA = example_schema()
FRAME = Frame.of(SCHEMA)
EPS = 3.0


def release_of(
    folder: Path,
    frame: pd.DataFrame | None = None,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    schema: Schema = SCHEMA,
) -> tuple[PrivateTable, Release]:
    table = PrivateTable.open(example_frame(300) if frame is None else frame, schema)
    budget = Budget(eps=1, neighbours=neighbours)
    made, statement = generate(table, make_config("independent"), budget, noise=make_noise(0))
    return table, Release.write(made, schema, statement, folder / "release")


class TestSums:
    @settings(max_examples=150, deadline=None)
    @given(seed=st.integers(0, 10**9), replace=st.booleans())
    def test_one_person_moves_them_by_no_more_than_declared(self, seed: int, replace: bool) -> None:
        rows = random_rows(SCHEMA, 6, seed)
        one = add_up(FRAME, rows[:5])
        other = add_up(FRAME, np.vstack([rows[:4], rows[5:]]) if replace else rows[:4])
        relation = Neighbours.REPLACE if replace else Neighbours.ADD_REMOVE
        design = MomentPlan.of(FRAME, 0.1, relation)
        upper = np.triu_indices(FRAME.width)
        label = np.linalg.norm((one[0] - other[0]).astype(float))
        product = np.linalg.norm((one[1] - other[1])[upper].astype(float))
        assert label <= design.label_l2
        assert product <= design.product_l2

    def test_the_bounds_are_reached(self) -> None:
        schema = Schema.from_domain({"a": 2, "b": 2, "c": 2, "y": 2})
        frame = Frame.of(schema, "y")
        row = np.ones((1, 4))
        design = MomentPlan.of(frame, 0.1, Neighbours.ADD_REMOVE)
        label, product = add_up(frame, row)
        assert np.linalg.norm(label) == pytest.approx(design.label_l2, rel=1e-9)
        moved = np.linalg.norm(product[np.triu_indices(4)].astype(float))
        assert moved == pytest.approx(design.product_l2, rel=1e-9)

    def test_features_are_whole_multiples_of_at_most_one(self) -> None:
        x = FRAME.integers(random_rows(SCHEMA, 200, 0))
        assert np.abs(x).max() == GRID
        assert x.shape[1] == FRAME.width == len(FRAME.names)
        assert (np.linalg.norm(x / GRID, axis=1) <= FRAME.norm + 1e-9).all()

    def test_the_noise_is_paid_for(self) -> None:
        for relation in Neighbours:
            design = MomentPlan.of(FRAME, 0.2, relation)
            cost = gaussian_rho(design.label_sigma, design.label_l2)
            cost += gaussian_rho(design.product_sigma, design.product_l2)
            assert cost == pytest.approx(0.2, rel=1e-9)

    def test_bounds_hold_together_as_often_as_they_say(self) -> None:
        real = CodedRows(SCHEMA, np.zeros((400, 5), int), random_rows(SCHEMA, 400, 1))
        synthetic = CodedRows(SCHEMA, np.zeros((300, 5), int), random_rows(SCHEMA, 300, 2))
        true = moment_errors(FRAME, real, synthetic, orders=(2,))
        design = MomentPlan.of(FRAME, 0.5, Neighbours.ADD_REMOVE)
        label, product = add_up(FRAME, real.units)
        product = product[np.triu_indices(FRAME.width)]
        missed, close = 0, []
        for seed in range(200):
            noise = make_noise(seed)
            sums = Sums(
                noise.draw(DiscreteGaussian(design.label_sigma), label),
                noise.draw(DiscreteGaussian(design.product_sigma), product),
                design.label_sigma,
                design.product_sigma,
            )
            found = sums.errors(FRAME, synthetic, 1)
            assert found is not None
            missed += found.label < true.label or found.products[2] < true.products[2]
            close.append(found.label)
        # 200 draws at 5% would miss 27 or more times with a chance below 1e-6.
        assert missed < 27
        assert np.mean(close) < 2.0

    @pytest.mark.parametrize("chosen", [False, True], ids=["fixed before", "chosen after"])
    def test_all_weightings_hold_together_as_often_as_they_say(self, chosen: bool) -> None:
        """Many weightings at once; or, of many, the one that the noisy sums flatter most."""
        real = CodedRows(SCHEMA, np.zeros((400, 5), int), random_rows(SCHEMA, 400, 1))
        synthetic = CodedRows(SCHEMA, np.zeros((60, 5), int), random_rows(SCHEMA, 60, 2))
        rng = np.random.default_rng(3)
        tables = [synthetic.weigh(np.exp(2 * rng.normal(size=60))) for _ in range(12)]
        true = [moment_errors(FRAME, real, one, orders=(2,)) for one in tables]
        design = MomentPlan.of(FRAME, 0.5, Neighbours.ADD_REMOVE)
        label, product = add_up(FRAME, real.units)
        product, missed = product[np.triu_indices(FRAME.width)], 0
        for seed in range(100):
            noise = make_noise(seed)
            sums = Sums(
                noise.draw(DiscreteGaussian(design.label_sigma), label),
                noise.draw(DiscreteGaussian(design.product_sigma), product),
                design.label_sigma,
                design.product_sigma,
            )
            reach = None if chosen else len(tables)
            found = [sums.errors(FRAME, one, reach) for one in tables]
            missed += any(
                one is None or one.label < t.label or one.products[2] < t.products[2]
                for one, t in zip(found, true, strict=True)
            )
        # 100 draws at half of 5% would miss 12 or more times with a chance below 1e-5.
        assert missed < 12

    @pytest.mark.parametrize("weightings", [1, 2, 40])
    def test_confidence_is_split_over_every_sum_of_every_weighting(self, weightings: int) -> None:
        """The chance that each bound was given, solved for, times their number is the whole."""
        synthetic = CodedRows(SCHEMA, np.zeros((60, 5), int), random_rows(SCHEMA, 60, 2))
        x, y, _ = FRAME.features(synthetic)
        e = y @ x / len(y)
        size = FRAME.width * (FRAME.width + 1) // 2
        product = np.zeros(size, dtype=np.int64)
        product[-1] = 10**9 * GRID**2
        # Without noise in the products, and with sums that are what the rows say.
        label = np.rint(e * 10**9 * GRID).astype(np.int64)
        sums = Sums(label, product, 1e6 * GRID, 1e-9)
        found = sums.errors(FRAME, synthetic, weightings)
        assert found is not None
        deviations = found.label * 1e9 / 1e6
        each = 2 * np.exp(-(deviations**2) / 2)
        together = each * weightings * (FRAME.width + size - 1)
        rows = 2 * np.exp(-(_ROWS_REACH**2) / 2)
        assert together + rows == pytest.approx((1 - CONFIDENCE) / 2, rel=1e-4)

    def test_weights_chosen_after_looking_pay_for_every_choice(self) -> None:
        """Their bound is that of the noise itself: no choice of e makes S - e N leave it."""
        rng = np.random.default_rng(0)
        size = FRAME.width * (FRAME.width + 1) // 2
        zeros = np.zeros(size, dtype=np.int64)
        design = MomentPlan.of(FRAME, 50.0, Neighbours.ADD_REMOVE)
        product = zeros.copy()
        product[-1] = 10**4 * GRID**2
        sums = Sums(zeros[: FRAME.width], product, design.label_sigma, design.product_sigma)
        for seed in range(20):
            table = CodedRows(SCHEMA, np.zeros((9, 5), int), random_rows(SCHEMA, 9, seed)).weigh(
                rng.random(9) + 0.1
            )
            later = sums.errors(FRAME, table, None)
            alone = sums.errors(FRAME, table, 1)
            assert later is not None
            assert alone is not None
            # Up to sqrt(2) wider than what was fixed beforehand.
            assert alone.products[2] < later.products[2] < 1.42 * alone.products[2]

    def test_lost_in_the_noise(self) -> None:
        design = MomentPlan.of(FRAME, 1e-6, Neighbours.ADD_REMOVE)
        zeros = np.zeros(FRAME.width * (FRAME.width + 1) // 2, dtype=np.int64)
        sums = Sums(zeros[: FRAME.width], zeros, design.label_sigma, design.product_sigma)
        table = CodedRows(SCHEMA, np.zeros((10, 5), int), random_rows(SCHEMA, 10, 0))
        assert sums.errors(FRAME, table, 1) is None


class Tape:
    """Noise whose outcome is fixed beforehand, whatever it is added to."""

    private, description = True, "tape"

    def __init__(self, outcomes: list[np.ndarray]) -> None:
        self.outcomes = list(outcomes)
        self.post = np.random.default_rng(0)
        self.seen: list[np.ndarray] = []

    def draw(self, law: Any, values: np.ndarray) -> np.ndarray:
        self.seen.append(np.array(values))
        return self.outcomes.pop(0)


@pytest.mark.parametrize("relation", list(Neighbours))
def test_it_uses_no_quantity_without_noise(tmp_path: Path, relation: Neighbours) -> None:
    outcomes = None
    written = []
    for number, seed in enumerate((0, 7)):
        rows = 300 if relation is Neighbours.REPLACE else 300 + 50 * number
        table, release = release_of(tmp_path / str(number), example_frame(300), relation)
        private = PrivateTable.open(example_frame(rows, seed), SCHEMA)
        if outcomes is None:
            design = MomentPlan.of(FRAME, Budget(eps=EPS).rho, relation)
            label, product = add_up(
                FRAME, CodedRows.of(table.unprotected("t").frame(), SCHEMA).units
            )
            noise = make_noise(1)
            outcomes = [
                noise.draw(DiscreteGaussian(design.label_sigma), label),
                noise.draw(
                    DiscreteGaussian(design.product_sigma), product[np.triu_indices(FRAME.width)]
                ),
            ]
        tape = Tape(outcomes)
        done = certify_release(private, release, Budget(eps=EPS, neighbours=relation), noise=tape)
        written.append([(done.path / name).read_bytes() for name in (FACTS, ARRAYS)])
        written[-1].append(done.statement.model_copy(update={"files": {}}).to_json().encode())
        assert len(tape.seen) == 2
    assert written[0] == written[1]


def weights(first: float, rows: int) -> bytes:
    """A file of weights: one row of another weight than the rest."""
    return "\n".join(["w", str(first), *["2.0"] * (rows - 1), ""]).encode()


class TestRelease:
    def test_it_is_charged_stated_and_verified(self, tmp_path: Path) -> None:
        table, release = release_of(tmp_path)
        before = table.ledger.total().rho or 0.0
        done = certify_release(table, release, Budget(eps=EPS), noise=make_noise(0))
        assert verify(done.path) == []
        assert (table.ledger.total().rho or 0.0) == pytest.approx(before + Budget(eps=EPS).gaussian)
        assert done.statement.charges[-1] == table.ledger.read().charges[-1]
        assert len([p for p in done.statement.payments if "certificate" in p["purpose"]]) == 2
        facts, _ = read(done)
        assert [entry["of"] for entry in facts["certificates"]] == ["rows"]
        assert facts["certificates"][0]["radii"]

    def test_it_bounds_what_it_says(self, tmp_path: Path) -> None:
        german = datasets.load("german")
        frame = pd.concat([german.train] * 15, ignore_index=True)
        table, release = release_of(tmp_path, frame, schema=german.schema)
        done = certify_release(table, release, Budget(eps=5), noise=make_noise(0))
        facts, _ = read(done)
        own = Frame.of(german.schema)
        real, rows = CodedRows.of(frame, german.schema), CodedRows.of(done.frame(), german.schema)
        true = moment_errors(own, real, rows, orders=(2,))
        told = facts["certificates"][0]
        assert true.label <= told["label_error"] < 1
        assert true.products[2] <= told["product_error"] < 1
        assert facts["rows_least"] <= len(frame)
        assert any(limit["informative"] for limit in told["radii"])

    def test_weights_are_certified_and_renewed_for_free(self, tmp_path: Path) -> None:
        table, release = release_of(tmp_path)
        done = certify_release(table, release, Budget(eps=EPS), noise=make_noise(0))
        spent = done.statement.eps
        assert done.statement.notes[COUNTED][0]["of"] == "rows"
        assert done.statement.charges[-1].details["weightings"] == 1
        rows = len(done.frame())
        first = done.amend(
            {"weights.csv": b"w\n" + b"\n".join([b"1.0", b"2.0"] * rows)[: 4 * rows]}
        )
        assert verify(first.path) == []
        renewed = renew(first)
        facts, _ = read(renewed)
        assert [entry["of"] for entry in facts["certificates"]] == ["rows", "w"]
        assert [entry["counted"] for entry in facts["certificates"]] == [True, False]
        assert facts["certificates"][0] == read(done)[0]["certificates"][0]
        assert renewed.statement.eps == spent
        assert verify(renewed.path) == []
        other = renewed.amend(
            {"weights.csv": b"w\n" + b"\n".join([b"3.0", b"1.0"] * rows)[: 4 * rows]}
        )
        assert any("as they are" in problem for problem in verify(other.path))
        renew(other)
        assert verify(other.path) == []

    def test_weights_that_came_later_have_wider_bounds(self, tmp_path: Path) -> None:
        table, release = release_of(tmp_path)
        same = b"w\n" + b"1.0\n" * len(release.frame())
        done = certify_release(table, release, Budget(eps=EPS), noise=make_noise(0))
        facts, _ = read(renew(done.amend({"weights.csv": same})))
        rows, later = facts["certificates"]
        assert later["label_error"] > rows["label_error"]
        assert later["product_error"] > rows["product_error"]

    def test_verify_finds_what_was_changed(self, tmp_path: Path) -> None:
        table, release = release_of(tmp_path)
        done = certify_release(table, release, Budget(eps=EPS), noise=make_noise(0))
        whole = (done.path / FACTS).read_text()
        changes: list[tuple[str, Callable[[Any], Any]]] = [
            ("must say", lambda f: f["certificates"][0]["radii"][0].update(bound=0.001)),
            ("must say", lambda f: f.update(rows_estimate=10.0)),
            ("weights that are", lambda f: f["certificates"].append({"of": "w", "sha256": "0"})),
            ("must be one of", lambda f: f.update(label="nothing")),
            ("must", lambda f: f.clear()),
        ]
        for said, change in changes:
            facts = json.loads(whole)
            change(facts)
            done = done.amend({FACTS: json.dumps(facts).encode()})
            problems = verify(done.path)
            assert any(said in problem for problem in problems), (said, problems)

    def test_weights_that_are_there_are_counted(self, tmp_path: Path) -> None:
        table, release = release_of(tmp_path)
        rows = len(release.frame())
        columns = b"v,w\n" + b"1.0,3.0\n" + b"2.0,1.0\n" * (rows - 1)
        release = release.amend({"weights.csv": columns})
        done = certify_release(table, release, Budget(eps=EPS), noise=make_noise(0))
        facts, sums = read(done)
        assert [entry["counted"] for entry in facts["certificates"]] == [True] * 3
        assert done.statement.charges[-1].details["weightings"] == 3
        assert [one["of"] for one in done.statement.notes[COUNTED]] == ["rows", "v", "w"]
        own = CodedRows.of(done.frame(), SCHEMA)
        three, one = (sums.errors(FRAME, own, n) for n in (3, 1))
        assert three is not None
        assert one is not None
        assert facts["certificates"][0]["label_error"] == three.label > one.label
        assert verify(done.path) == []
        notes = done.statement.notes[COUNTED]
        done.amend({}, notes={COUNTED: notes[:1]})
        assert any("as many weightings as the charge" in line for line in verify(done.path))

    def test_verify_finds_noise_that_was_not_paid_for(self, tmp_path: Path) -> None:
        import io

        from marginalsyn.release.staging import dump_arrays, load_arrays

        table, release = release_of(tmp_path)
        done = certify_release(table, release, Budget(eps=EPS), noise=make_noise(0))
        arrays = load_arrays(done.path / ARRAYS)
        arrays["sigmas"] = arrays["sigmas"] / 3
        handle = io.BytesIO()
        dump_arrays(handle, arrays)
        renew(done.amend({ARRAYS: handle.getvalue()}))
        assert any("must cover" in problem for problem in verify(done.path))

    def test_nothing_is_spent_where_it_would_be_refused(self, tmp_path: Path) -> None:
        table, release = release_of(tmp_path)
        count = len(table.ledger.read().charges)
        for call in (
            lambda: certify_release(
                table,
                release,
                Budget(eps=1, neighbours=Neighbours.REPLACE),
                noise=make_noise(0),
            ),
            lambda: certify_release(
                table, release, Budget(eps=1), noise=make_noise(0), label="colour"
            ),
            lambda: certify_release(
                PrivateTable.open(example_frame(9), SCHEMA.with_bins(age=3), ledger=table.ledger),
                release,
                Budget(eps=1),
                noise=make_noise(0),
            ),
        ):
            with pytest.raises(UsageError):
                call()
        table.ledger.set_cap(eps=1.05)
        with pytest.raises(BudgetError):
            certify_release(table, release, Budget(eps=1), noise=make_noise(0))
        assert len(table.ledger.read().charges) == count

    def test_without_one_there_is_nothing_to_renew(self, tmp_path: Path) -> None:
        _, release = release_of(tmp_path)
        with pytest.raises(MarginalsynError, match="marginalsyn certify"):
            renew(release)

    def test_a_missing_label_is_left_out(self, tmp_path: Path) -> None:
        frame = example_frame(300)
        nullable = Schema(
            columns=tuple(c.model_copy(update={"nullable": True}) for c in SCHEMA.columns),
            label="ill",
            positive="yes",
        )
        frame["ill"] = frame["ill"].astype(object)
        frame.loc[:149, "ill"] = None
        table, release = release_of(tmp_path, frame, schema=nullable)
        done = certify_release(table, release, Budget(eps=500), noise=make_noise(0))
        assert read(done)[0]["rows_estimate"] == pytest.approx(150, abs=15)


def test_the_ledger_is_written_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, release = release_of(tmp_path)
    ledger = Ledger(None)
    table = PrivateTable.open(example_frame(50), SCHEMA, ledger=ledger)

    def stop(self: MomentPlan, *args: Any) -> Any:
        assert ledger.read().charges
        raise KeyboardInterrupt

    monkeypatch.setattr(MomentPlan, "measure", stop)
    with pytest.raises(KeyboardInterrupt):
        certify_release(table, release, Budget(eps=1), noise=make_noise(0))
    assert isinstance(ledger.read().charges[0], Charge)
    assert verify(release.path) == []

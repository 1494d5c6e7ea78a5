"""Marginals, domains, deltas and evaluations as published (Zhou et al. 2024, and practice)."""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace

import numpy as np
import pandas as pd

from marginalsyn.access.private_table import PrivateTable
from marginalsyn.drafting.draft import infer_schema
from marginalsyn.errors import SchemaError
from marginalsyn.host import check_schema
from marginalsyn.plugins.audit.canaries import AuditCase, generator_cases
from marginalsyn.plugins.audit.worst import perform
from marginalsyn.privacy.charges import Neighbours
from marginalsyn.privacy.zcdp import DEFAULT_DELTA, LARGEST_DELTA, eps_of, rho_of
from marginalsyn.table.schema import Schema

from .claim import GHALEBIKESABI, PRACTICE, ZHOU, Claim

_RHO = rho_of(1.0, DEFAULT_DELTA)


def _eps(share: float) -> float:
    """The eps of so many times the rho that eps 1 buys."""
    return eps_of(share * _RHO, DEFAULT_DELTA)


def relations() -> list[Claim]:
    """AIM's calibration for an added row, told as one for a replaced row."""
    from marginalsyn.generators.aim import AIMConfig

    (case,) = generator_cases(AIMConfig, neighbours=[Neighbours.REPLACE], eps=1.0)
    wrong: AuditCase = replace(case, neighbours=Neighbours.ADD_REMOVE)
    return [
        Claim(
            name="AIM calibrated for added rows, stated for replaced ones",
            source=f"{ZHOU}, Lemma 3.3 with AIM",
            unit="eps",
            claimed=1.0,
            found=_eps(perform(wrong).share),
            ours=_eps(perform(case).share),
            bound=1.0,
            how="what the answers cost on eight equal rows, one of them replaced; delta 1e-9",
            why="a replaced row moves two cells: twice the cost of Gaussian noise, four times that "
            "of a selection",
        )
    ]


def workloads() -> list[Claim]:
    """The number of marginals up to a degree, bounded by a power."""
    from marginalsyn.generators.all_marginals import AllMarginalsConfig

    features, degree = 2, 2
    marginals = sum(math.comb(features + 1, k) for k in range(1, degree + 1))
    (case, *_) = generator_cases(AllMarginalsConfig, eps=1.0)
    return [
        Claim(
            name="m^d for the number of marginals, m = 2 and d = 2",
            source=f"{ZHOU}, Lemma 3.3",
            unit="eps",
            claimed=1.0,
            found=_eps(marginals / features**degree),
            ours=_eps(perform(case).share),
            bound=1.0,
            how=f"{marginals} marginals of two features and a label, noise for {features**degree}",
            why="there are more marginals than that for few features; ours counts them",
        )
    ]


def domains() -> list[Claim]:
    """Categories read off the rows."""
    rows = pd.DataFrame({"ward": ["A", "B"] * 50})
    other = rows.copy()
    other.loc[99, "ward"] = "a ward of one's own"
    drafts = [infer_schema(table) for table in (rows, other)]
    accepted = 0
    for draft in drafts:
        with contextlib.suppress(SchemaError):
            check_schema(draft, accept_nonprivate_schema=False)
            accepted += 1
    return [
        Claim(
            name="categories read off the private rows",
            source=f"{ZHOU}, section 5.3",
            unit="delta",
            claimed=0.0,
            found=float(drafts[0].to_json() != drafts[1].to_json()),
            ours=float(accepted > 0),
            bound=0.0,
            how="the domain that is published with and without a record of a category of its own",
            why="a map that is fitted to the rows is not free; ours takes a public schema, and one "
            "that was drafted from rows is refused",
        )
    ]


def seeds() -> list[Claim]:
    """Noise from a seed that is published, or guessed."""
    from marginalsyn.generators.independent import IndependentConfig
    from marginalsyn.plugins.audit.testkit.generators import run_generator

    schema = Schema.from_domain({"a": 2})
    tables = [pd.DataFrame({"a": [0] * 8 + [1] * more}) for more in (0, 1)]
    runs = [run_generator(IndependentConfig, table, schema, seed=0) for table in tables]
    again = run_generator(IndependentConfig, tables[0], schema, seed=0)
    values = [np.asarray(run.synthesis.measurements[0].values) for run in (*runs, again)]
    told = not (values[0] == values[1]).all() and bool((values[0] == values[2]).all())
    return [
        Claim(
            name="noise from a fixed seed",
            source=PRACTICE,
            unit="delta",
            claimed=DEFAULT_DELTA,
            found=float(told),
            ours=float(sum(run.statement.private for run in runs)),
            bound=0.0,
            how="two neighbouring tables under seed 0; ours counts the statements that call such "
            "a run private",
            why="whoever knows the seed subtracts the noise",
        )
    ]


def deltas() -> list[Claim]:
    """A delta of one over the number of rows."""
    rows = 455
    delta = 1.0 / rows - 1e-6
    return [
        Claim(
            name="delta = 1 / N - 1e-6, N = 455",
            source=GHALEBIKESABI,
            unit="chance",
            claimed=delta,
            found=1.0 - (1.0 - delta) ** rows,
            ours=1.0 - (1.0 - DEFAULT_DELTA) ** rows,
            bound=rows * LARGEST_DELTA,
            how="the chance that somebody's record is out when each is published with chance "
            "delta, which satisfies (0, delta)",
            why="formally right, and no protection: delta must be far below 1 / N; 1e-6 and more "
            "is refused",
        )
    ]


def evaluations() -> list[Claim]:
    """Test rows that the generator was given."""
    rows, rng = pd.DataFrame({"id": np.arange(500)}), np.random.default_rng(0)
    tested = set(rng.choice(500, 100, replace=False))
    given = set(rows["id"])  # the published code synthesises the whole file, then splits it
    table = PrivateTable.open(rows, Schema.from_domain({"id": 500}), holdout=0.2)
    view = table.unprotected("audit of the held-out rows")
    held, seen = set(view.holdout_frame()["id"]), set(view.frame()["id"])
    return [
        Claim(
            name="test rows among the rows that are synthesised",
            source=f"{ZHOU}, released code",
            unit="share",
            claimed=0.0,
            found=len(tested & given) / len(tested),
            ours=len(held & seen) / len(held),
            bound=0.0,
            how="500 rows, a fifth to test on",
            why="split first, synthesise the training part",
        )
    ]


FAMILIES = (relations, workloads, domains, seeds, deltas, evaluations)

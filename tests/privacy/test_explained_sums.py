"""Where several charges come to less than their sum, it is said why."""

from __future__ import annotations

import re

from marginalsyn.privacy.budget import Budget
from marginalsyn.privacy.charges import ZCDP, Charge, Pure
from marginalsyn.privacy.composition import compose, explain_sum


def bought(*amounts: float) -> list[Charge]:
    return [Charge(mechanism="m", cost=ZCDP(rho=Budget(eps=eps).rho)) for eps in amounts]


def test_eps_of_several_charges() -> None:
    told = explain_sum(bought(2, 0.5))
    assert told.startswith("eps 2 and eps 0.5 make 2.07, not 2.5")
    assert f"{compose(bought(2, 0.5)).eps:.3g}" == "2.07"
    three = f"{compose(bought(1, 1, 1)).eps:.3g}"
    assert explain_sum(bought(1, 1, 1)).startswith(f"eps 1, eps 1 and eps 1 make {three}, not 3:")
    assert explain_sum(bought(*[1] * 9)).startswith("the eps of 9 charges make")
    assert explain_sum(bought(2)) == ""


def test_pure_charges_add_up_plainly() -> None:
    assert explain_sum([Charge(mechanism="laplace", cost=Pure(eps=0.5))] * 2) == ""


def test_it_stands_where_the_total_is_printed(run, folder) -> None:
    run("generate", "--dataset", "heart", "--method", "independent", "--eps", 2, "-q")
    shown = run("weight", "--method", "beta-debiased", "--eps", 0.5).stderr
    lines = shown.splitlines()
    (place,) = [i for i, line in enumerate(lines) if line.startswith("source so far")]
    assert re.search(r"eps 2 and eps 0\.5 make 2\.\d+, not 2\.5", lines[place + 1])
    assert "not 2.5" in run("ledger", "show").stdout
    assert "not 2.5" in run("show").stdout

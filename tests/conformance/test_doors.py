"""Doors that private rows and noise may pass, checked in the source: all others are walls.

The rules are read off the syntax trees of the package, so that a new module that draws noise of its
own, or reads rows past the ledger, fails here before anybody reviews it. What a rule allows is
named below with its reason; a name that is no longer needed fails too.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("marginalsyn", "cli", "plugins", "datasets")
# Attacks on made-up tables, with noise of their own and mechanisms that are wrong on purpose. No
# rule is for them; in return nothing but their command may import them. The kit keeps the rules.
AUDIT, KIT = "plugins/audit/", "plugins/audit/testkit/"

Found = Iterator[tuple[str, str]]


@cache
def trees() -> dict[str, ast.Module]:
    """Every module of the package by its path."""
    found = {
        str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8"))
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
    }
    return {
        path: tree
        for path, tree in found.items()
        if path.startswith(KIT) or not path.startswith(AUDIT)
    }


@cache
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Every node of a module, which each of the rules goes through."""
    return tuple(ast.walk(tree))


def dotted(node: ast.AST) -> str:
    """``a.b.c`` of a chain of attributes; a call or an index in it is left out."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
    return ".".join(reversed(parts))


def imports(tree: ast.AST) -> Iterator[str]:
    """Dotted names of everything imported anywhere in a module."""
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """The last name and the node of every call."""
    for node in nodes(tree):
        if isinstance(node, ast.Call):
            name = node.func
            if isinstance(name, ast.Attribute):
                yield name.attr, node
            elif isinstance(name, ast.Name):
                yield name.id, node


def importers(*packages: str) -> set[str]:
    """The modules that import any of the packages."""
    return {
        path
        for path, tree in trees().items()
        if any(name.split(".")[0] in packages for name in imports(tree))
    }


def callers(*names: str) -> set[str]:
    """The modules that call a function or method of one of these names."""
    return {path for path, tree in trees().items() if any(n in names for n, _ in calls(tree))}


# -- who may import what --------------------------------------------------------------------------

ONLY = {
    "opendp": {"marginalsyn/privacy/laws.py"},
    "mbi": {"marginalsyn/graphical/private_pgm.py"},
    # testing.py looks whether its global state was touched.
    "random": {"plugins/audit/testkit/generators.py"},
    "pickle": set(),
    "dill": set(),
    "joblib": set(),
    "marshal": set(),
    "shelve": set(),
}


@pytest.mark.parametrize("package", ONLY)
def test_only_these_modules_import(package: str) -> None:
    assert importers(package) == ONLY[package]


def test_only_one_module_imports_tensorflow() -> None:
    assert importers("tensorflow", "tensorflow_privacy", "keras") <= TENSORFLOW


# Networks are trained here and nowhere else.
TENSORFLOW = {"plugins/networks/tensorflow_engine.py"}


def test_secrets_are_drawn_for_noise_and_for_names_only() -> None:
    """Outside noise.py the system's entropy makes file names and salts, by one function."""
    for path, tree in trees().items():
        used = {name for name in imports(tree) if name.startswith("secrets.")}
        used |= {
            dotted(node)
            for node in nodes(tree)
            if isinstance(node, ast.Attribute) and dotted(node).startswith("secrets.")
        }
        entropy = {n for n, _ in calls(tree)} & {"urandom", "getrandom", "SystemRandom"}
        if path == "marginalsyn/privacy/noise.py":
            assert used | entropy == {"secrets.randbits", "urandom"}
        else:
            assert used <= {"secrets.token_hex"}, path
            assert not entropy, path


# -- global and unseeded random state -------------------------------------------------------------


def global_state(tree: ast.AST) -> Found:
    for node in nodes(tree):
        name = dotted(node) if isinstance(node, ast.Attribute) else ""
        if name.startswith(("np.random.", "numpy.random.")):
            if name.split(".")[2] not in ("Generator", "default_rng", "SeedSequence", "PCG64"):
                yield name, "global state of numpy"
        elif name.endswith(("random.set_seed", "random.set_global_generator")):
            yield name, "global state of TensorFlow"
    for name, node in calls(tree):
        if name == "default_rng" and not node.args:
            yield name, "a generator that nobody can fix"


def test_no_global_random_state() -> None:
    found = {(path, what) for path, tree in trees().items() for what, _ in global_state(tree)}
    # The test kit looks whether the state was touched.
    assert found == {("plugins/audit/testkit/generators.py", "np.random.get_state")}


# Continuous draws that are not uniform smell of protective noise. These are not:
CONTINUOUS = {
    "marginalsyn/weights/label_correction.py": "first units, and rehearsals on released rows",
    "marginalsyn/privacy/laws.py": "protective noise",
    "marginalsyn/privacy/rounded_normal.py": "protective noise",
    "plugins/networks/adversarial.py": "the inputs of a generator network",
    "plugins/networks/weighted_generator.py": "the inputs of a generator network",
    "plugins/networks/pategan.py": "public directions",
    "plugins/points/walks.py": "steps of chains",
    "plugins/points/point_generator.py": "spread of released points",
    "plugins/points/slices.py": "public directions",
    "plugins/points/kme.py": "public waves",
    "marginalsyn/graphical/soft_rows.py": "a starting point of an optimiser",
    "plugins/points/fitting.py": "a starting point of an optimiser",
    "plugins/reports/distances_report.py": "directions of a distance",
    "plugins/reports/bayes_report.py": "starting points of chains",
    "marginalsyn/answers/evidence.py": "a release's noise played again, on what it holds",
    "marginalsyn/answers/replaying.py": "noise of whole replays, on rows of a model",
    "marginalsyn/answers/regression.py": "errors of coefficients, on what a release holds",
}
LAWS = {
    *("normal", "standard_normal", "gamma", "standard_gamma", "exponential", "gumbel"),
    *("standard_exponential", "geometric", "logistic", "standard_t", "standard_cauchy"),
    *("multivariate_normal", "normalvariate", "gammavariate", "gauss", "truncated_normal"),
    "laplace",
}


def continuous(tree: ast.AST) -> Found:
    for name, node in calls(tree):
        if name in LAWS:
            yield name, dotted(node.func)


def test_noise_is_drawn_in_one_module() -> None:
    found = {path for path, tree in trees().items() if any(continuous(tree))}
    assert found <= set(CONTINUOUS)


# -- streams by what they are for -----------------------------------------------------------------

# Draws that meet exact private numbers, each with the reason why its proof holds.
SECRET = {
    "marginalsyn/privacy/noise.py": "makes them",
    "plugins/points/support_points.py": "moves of chains on exact potentials",
    "plugins/audit/testkit/tape.py": "the test kit's stand-in for noise",
}
KEYED = {
    "marginalsyn/privacy/noise.py": "makes them",
    "plugins/networks/dpgan.py": "places in bins: a clipped sum, for each fixed key",
    "plugins/networks/pategan.py": "teachers and places in bins: votes, for each fixed key",
    "plugins/audit/testkit/tape.py": "the test kit's stand-in for noise",
}
# Modules that draw from noise.post: from answers, released models and public numbers alone.
POST = {
    "plugins/networks/adversarial.py": "rows from a trained network",
    "marginalsyn/operations/synthesizer.py": "rows from a released model",
    "marginalsyn/host.py": "rows of persons from a model",
    "marginalsyn/weights/dp_sgd.py": "mini-batches of synthetic rows",
    "plugins/audit/testkit/tape.py": "the test kit's stand-in for noise",
    "marginalsyn/generators/all_marginals.py": "rows from a fitted model, and its first guess",
    "plugins/networks/dpgan.py": "first parameters, rows against a network of noised gradients",
    "plugins/points/histogram.py": "rows from noisy shares",
    "marginalsyn/generators/independent.py": "rows from noisy shares",
    "plugins/points/kme.py": "points fitted to a released mean",
    "marginalsyn/generators/clique_tree.py": "rows that a chain is fitted with, from paid answers",
    "marginalsyn/generators/marginals.py": "rows from a fitted model",
    "marginalsyn/linked/generating.py": "rows of all tables from fitted models",
    "plugins/networks/pategan.py": "public features, generated rows to vote on",
    "plugins/points/point_generator.py": "rows around released points",
    "marginalsyn/generators/privbayes.py": "which candidates are scored, rows from noisy tables",
    "plugins/points/support_points_gp.py": "points fitted to a released potential",
    "plugins/weights/dp_mlp.py": "first parameters",
    "plugins/weights/label_weights.py": "first units, rehearsals on released rows",
}


# Generators made outside noise.py. None meets private rows in a run that is charged.
OTHERS = {
    "marginalsyn/privacy/noise.py": "the streams themselves",
    "plugins/audit/testkit/tape.py": "the test kit's made-up tables and answers",
    "plugins/audit/testkit/generators.py": "the test kit's made-up tables",
    "plugins/audit/testkit/weights.py": "the test kit's made-up tables",
    "marginalsyn/access/prepaid_budget.py": "post-processing of a run that goes on",
    "marginalsyn/table/codec.py": "a table without rows",
    "plugins/weights/label_weights.py": "first units from a public number, a network to load",
    "marginalsyn/weights/label_correction.py": "a layer that starts at zero, whatever is drawn",
    "plugins/points/point_generator.py": "trials of a width on released points",
    "plugins/points/kme.py": "public waves, the same for all tables",
    "plugins/points/support_points_gp.py": "public directions, the same for all tables",
    "plugins/reports/baselines.py": "an evaluation, not private",
    "plugins/reports/tstr.py": "an evaluation, not private",
    "marginalsyn/evaluation/inputs.py": "an evaluation, not private",
    "plugins/reports/membership_report.py": "attacks of the curator's own, not private",
    "marginalsyn/weights/raking.py": "probes of a trace, on released answers",
    "plugins/weights/dp_mlp.py": "a network that is thrown away, to load the library",
    "plugins/weights/rake.py": "probes of a trace, on released answers",
    "plugins/reports/attributes_report.py": "an evaluation, not private",
    "plugins/reports/bayes_report.py": "an evaluation, not private",
    "plugins/reports/distances_report.py": "an evaluation, not private",
    "plugins/reports/links_report.py": "an evaluation, not private",
    "plugins/reports/marginals_report.py": "an evaluation, not private",
    "marginalsyn/linked/generating.py": "the same draws of every model, on what is released",
    "marginalsyn/answers/evidence.py": "where a descent starts, on what a release holds",
    "marginalsyn/graphical/chain_model.py": "rows that a released chain's marginals are counted of",
    "plugins/exchange/adopt.py": "rows of a model that another tool made",
    "plugins/exchange/redrawing.py": "rows of a model that another tool made",
    "plugins/reports/numbers_report.py": "splits of real rows, in an evaluation",
    "marginalsyn/answers/answering.py": "replays of a release, on what it holds",
    "marginalsyn/answers/imputations.py": "tables drawn from what a release holds",
    "marginalsyn/answers/regression.py": "errors of coefficients, on what a release holds",
    "marginalsyn/table/keeping.py": "rows that keep rules, from public knowledge alone",
    "marginalsyn/weights/per_row.py": "a network that loads its engine before the charge",
    "marginalsyn/drafting/draft.py": "examples in a draft, from its own schema",
    "marginalsyn/operations/references.py": "rows from a release, the same each time",
    "marginalsyn/operations/sample.py": "rows from a release",
    "marginalsyn/operations/synthesizer.py": "rows from a fitted model, by a seed of the user",
    "marginalsyn/operations/weight_output.py": "rows resampled from a release",
}


def users(method: str) -> set[str]:
    """The modules that take such a stream from a noise."""
    return {
        path
        for path, tree in trees().items()
        for node in nodes(tree)
        if isinstance(node, ast.Attribute)
        and node.attr == method
        and dotted(node.value).split(".")[-1] in ("noise", "_noise")
    }


def test_streams_are_used_by_known_modules() -> None:
    assert users("secret") | {"marginalsyn/privacy/noise.py"} == set(SECRET)
    assert users("key") | {"marginalsyn/privacy/noise.py"} == set(KEYED)
    assert users("post") == set(POST)


def test_other_generators_are_known() -> None:
    makers = ("default_rng", "Generator", "PCG64", "Philox", "SFC64", "MT19937", "ChaCha20")
    assert callers(*makers) - {"marginalsyn/privacy/chacha.py"} <= set(OTHERS)
    assert callers("ChaCha20") == {"marginalsyn/privacy/noise.py", "marginalsyn/privacy/chacha.py"}


def test_only_noise_makes_protective_streams() -> None:
    assert callers("SecretStream", "Key") == {
        "marginalsyn/privacy/noise.py",
        "marginalsyn/privacy/streams.py",
    }
    holders = {
        path
        for path, tree in trees().items()
        if any(name.endswith("streams.TOKEN") for name in imports(tree))
        or any(isinstance(n, ast.Attribute) and n.attr == "TOKEN" for n in nodes(tree))
    }
    assert holders == {"marginalsyn/privacy/noise.py"}


# -- who reads private rows -----------------------------------------------------------------------

READERS: dict[tuple[str, ...], set[str]] = {
    # The source's rows are opened behind the door, and by two commands that say NOT PRIVATE.
    ("connect",): {
        "marginalsyn/table/engine.py",  # duckdb's own connect
        "marginalsyn/records/ledger_file.py",  # SQLite, which has no rows
        "marginalsyn/access/rows.py",
        "marginalsyn/access/private_table.py",  # a resumed run, whose rows were read before
        "marginalsyn/drafting/check.py",
        "marginalsyn/drafting/draft.py",
        "marginalsyn/drafting/person_columns.py",  # a check and an evaluation, both not private
        "marginalsyn/sources/databases.py",
        "marginalsyn/access/linked_tables.py",  # the door of linked tables
        "marginalsyn/drafting/linked_draft.py",  # a draft, not private
    },
    ("open_source", "open_files"): {
        "marginalsyn/sources/source.py",
        "marginalsyn/access/private_table.py",
        "marginalsyn/drafting/check.py",
        "marginalsyn/drafting/draft.py",
        "marginalsyn/drafting/person_columns.py",
        "marginalsyn/access/linked_tables.py",
        "marginalsyn/drafting/linked_draft.py",
        "marginalsyn/operations/references.py",  # the names of a public table's columns
        "marginalsyn/operations/schema.py",  # the names of the columns
    },
    # The curator's view: weights for research, and evaluations, both stamped not private.
    ("unprotected",): {
        "marginalsyn/host.py",
        "marginalsyn/access/linked_tables.py",  # the same for several tables
        "marginalsyn/operations/comparison.py",
        # The curator's comparison of a reference with the private rows, before any charge.
        "marginalsyn/operations/references.py",
        "marginalsyn/operations/origins.py",
        "marginalsyn/operations/synthesizer.py",
        "marginalsyn/operations/schema.py",  # a check of keys
        "plugins/audit/testkit/generators.py",  # the test kit, on made-up rows
    },
    # Of linked tables, too: all views are charged before the visit is made, which goes to each.
    ("Visit",): {"marginalsyn/access/private_table.py"},
    ("PrepaidBudget",): {
        "marginalsyn/access/private_table.py",
        "marginalsyn/access/prepaid_budget.py",  # the part of one view, taken out of the whole
    },
}


@pytest.mark.parametrize("names", READERS, ids=lambda names: names[0])
def test_rows_have_one_door(names: tuple[str, ...]) -> None:
    assert callers(*names) <= READERS[names]


def test_private_attributes_of_the_door_stay_inside() -> None:
    """Nobody reaches around a visit for its rows, its budget or its source."""
    inner = {"_source_rows", "_prepaid", "_connection", "_codes", "_frame"}
    owners = {
        "marginalsyn/access/visit.py",
        "marginalsyn/access/rows.py",
        "marginalsyn/sources/source.py",
    }
    for path, tree in trees().items():
        for node in nodes(tree):
            if isinstance(node, ast.Attribute) and node.attr in inner and path not in owners:
                assert dotted(node.value) in ("self", "cls"), f"{path}: {dotted(node)}"


# Every module that pays for a visit; test_testkit_lowest_bits.py checks all that they publish.
PAYING = {
    "marginalsyn/host.py",
    "marginalsyn/certificates/certifying.py",
    "marginalsyn/purchases/purchase.py",
}


def test_paid_visits_are_known() -> None:
    assert callers("paid_visit") == PAYING
    # Nobody else goes by the way that explains no failures.
    bare = {
        path
        for path, tree in trees().items()
        for name, node in calls(tree)
        if name == "charge" and any(keyword.arg == "noise" for keyword in node.keywords)
    }
    assert bare == {"marginalsyn/access/private_table.py"}


# Exact looks at paid rows: mechanisms, each of which hands on noised values only.
EXACT = {
    "plugins/weights/label_weights.py": "sums of clipped gradients, rounded, paid for, noised",
    "marginalsyn/access/visit.py": "the door itself",
    "marginalsyn/access/private_table.py": "the door itself",
    "marginalsyn/purchases/purchase.py": "whole counts of a column, for quantiles and histograms",
    "marginalsyn/table/features.py": "codes for noisy regressions and networks",
    "marginalsyn/table/metric.py": "rows as points, for energies",
    "marginalsyn/certificates/excess_plan.py": "a whole number and the rows, for Gaussian noise",
    "plugins/research/moment_certificate.py": "whole sums, for Gaussian noise",
    "marginalsyn/generators/candidate_errors.py": (
        "errors of candidates, for the exponential mechanism"
    ),
    "marginalsyn/generators/dependence.py": "scores of candidates, for the exponential mechanism",
    "marginalsyn/generators/privbayes.py": "counts, for Laplace noise",
    "plugins/networks/dpgan.py": "codes, for clipped and noised gradients",
    "plugins/networks/pategan.py": "codes, for noisy votes",
    "plugins/points/support_points.py": "a total, for Laplace noise",
    "plugins/weights/dp_mlp.py": "codes, for clipped and noised gradients of persons",
    "plugins/research/beta_debiased.py": "a total, for Laplace noise",
    "plugins/weights/rake.py": "scores of candidates, for the exponential mechanism",
}


LOOKS = {
    *("counts", "counts_many", "batches", "all_rows"),
}


def exact(tree: ast.AST) -> Found:
    for name, node in calls(tree):
        owner = dotted(node.func).rpartition(".")[0]
        if name in LOOKS and (
            owner.split(".")[-1] in ("visit", "merged", "rows", "view", "_rows", "table")
        ):
            yield name, owner


def test_exact_looks_are_known() -> None:
    found = {path for path, tree in trees().items() if any(exact(tree))}
    assert found <= set(EXACT)


def test_noise_for_real_numbers_is_drawn_by_known_mechanisms() -> None:
    """Elsewhere sums of private values are whole numbers: the doors refuse anything else."""
    drawn = callers("RoundedGaussian", "PoissonSample")
    # Noise on sums of clipped gradients, and the law of a visit that was charged in mu.
    assert drawn == {"marginalsyn/weights/dp_sgd.py", "marginalsyn/access/visit.py"}


# -- what runs code from a file -------------------------------------------------------------------


def test_nothing_unpickles_or_evaluates() -> None:
    for path, tree in trees().items():
        for name, node in calls(tree):
            whole = dotted(node.func)
            assert whole not in ("eval", "exec", "os.system"), path
            assert whole not in ("np.load", "numpy.load", "pd.read_pickle"), path
            assert name not in ("literal_eval", "full_load", "unsafe_load"), path
            assert not whole.startswith("subprocess."), path
            for keyword in node.keywords:
                allowed = not isinstance(keyword.value, ast.Constant) or not keyword.value.value
                assert keyword.arg != "allow_pickle" or allowed, path


# The command, and the test kit, which plugin authors run and no release does.
AUDITORS = {
    "plugins/audit/command.py",
    "plugins/audit/testkit/generators.py",
    "plugins/audit/testkit/weights.py",
}


def test_nothing_uses_the_audits_but_their_command_and_the_test_kit() -> None:
    used = {
        path
        for path, tree in trees().items()
        for name in imports(tree)
        if name.startswith("marginalsyn.plugins.audit")
        and not (path.startswith(KIT) and name.startswith("marginalsyn.plugins.audit.testkit"))
    }
    assert used <= AUDITORS


# -- the rules can fail ---------------------------------------------------------------------------

BAD: list[tuple[Callable[[ast.AST], Found], str]] = [
    (global_state, "import numpy as np\nnp.random.seed(3)"),
    (global_state, "import numpy as np\nnp.random.default_rng()"),
    (global_state, "import tensorflow as tf\ntf.random.set_seed(1)"),
    (continuous, "def f(rng):\n    return rng.laplace(0.0, 2.0)"),
    (continuous, "def f(rng):\n    return rng.normal(size=3)"),
    (exact, "def f(visit):\n    return visit.counts(('a',))"),
]


@pytest.mark.parametrize(("rule", "code"), BAD)
def test_the_rules_see_what_they_forbid(rule: Callable[[ast.AST], Found], code: str) -> None:
    assert list(rule(ast.parse(code)))


def test_the_rules_see_imports() -> None:
    code = "def f():\n    from opendp import domains\n    import mbi as x\n"
    assert set(imports(ast.parse(code))) == {"opendp.domains", "mbi"}

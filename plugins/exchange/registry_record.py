"""A record for the Differential Privacy Deployments Registry (OpenDP, NIST), as YAML."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from marginalsyn.errors import ReleaseError, UsageError
from marginalsyn.libraries import version
from marginalsyn.plugins.exchange.described import summary_of
from marginalsyn.plugins.exchange.formats import Exported
from marginalsyn.plugins.exchange.nodes import write_yaml
from marginalsyn.release.statement import today

if TYPE_CHECKING:
    from marginalsyn.privacy.charges import Charge
    from marginalsyn.release.folder import Release
    from marginalsyn.release.statement import Statement

SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
# What no release knows of itself.
ASKED = {
    "curator": "who publishes the rows",
    "use": "what the rows are meant for",
    "region": "which region the rows describe, or whose laws apply",
}


def export(release: Release, values: Mapping[str, str]) -> Exported:
    """One record; what only the curator knows is marked where it was not given."""
    statement = release.statement
    if not statement.private:
        raise ReleaseError(
            f"release ({release.path}) must be private to be registered: its statement says that "
            f"it is not ({statement.why})"
        )
    if statement.foreign:
        raise ReleaseError(
            f"release ({release.path}) must be made from measurements of its own to be registered: "
            "its rows are another tool's, and the statement does not cover them"
        )
    sector = values.get("sector")
    if sector is not None and sector not in SECTORS:
        raise UsageError(f"sector ({sector}) must be one of {', '.join(SECTORS)}")
    given = {name: values.get(name) or f"TODO: {what}" for name, what in ASKED.items()}
    name = values.get("name") or f"Synthetic rows of {release.schema.title or release.path.name}"
    date = str(statement.created or today())
    slug = re.sub("[^a-z0-9]+", "-", f"{name} {values.get('curator', '')} {date[:4]}".lower())
    basic: dict[str, Any] = {
        "name": name,
        "data_curators": [given["curator"]],
        "intended_use": given["use"],
        "data_product_type": "Synthetic data",
        "data_product_region": given["region"],
        "description": values.get("description") or summary_of(release),
        "publication_date": date,
    }
    if sector is not None:
        basic["data_product_sector"] = sector
    administrative: dict[str, Any] = {}
    if "source" in values:
        administrative["sources"] = values["source"]
    administrative["notes"] = "Written by `marginalsyn export --to registry` from privacy.json."
    administrative["registry_authors"] = [values.get("author") or given["curator"]]
    record = {
        "url_slug": slug.strip("-"),
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": basic,
            "dp_variant": _variant(release),
            "privacy_loss": _loss(statement),
            "deployment_model": _model(statement),
            "accounting": {
                "post_processing": _post_processing(release),
                "composition": _composition(statement),
            },
            "implementation": _implementation(release),
            "administrative": administrative,
        },
    }
    lost = [f"{what}: give it with --set {n}=..." for n, what in ASKED.items() if n not in values]
    return Exported(files={"registry.yaml": write_yaml(record).encode()}, lost=lost)


def _variant(release: Release) -> dict[str, Any]:
    statement, schema = release.statement, release.schema
    total = statement.total()
    if total.delta == 0:
        name = "Pure DP"
    else:
        name = "Zero-concentrated DP" if total.rho is not None else "Approximate DP"
    public = [
        "The schema (columns, categories, bounds) is public knowledge and protected by nothing"
    ]
    if statement.schema_drafted:
        public = ["THE SCHEMA WAS DRAFTED FROM THE PRIVATE ROWS, and is not protected"]
    if schema.charges:
        public.append("bounds or bins that were bought with privacy are counted in the total")
    if statement.neighbours == "replace":
        public.append("the number of rows is public")
    if statement.holdout:
        public.append(f"a share of {statement.holdout:g} of the rows was held out and never used")
    return {
        "variant_name": name,
        "data_domain": f"Tables of any number of rows with the columns {', '.join(schema.names)}, "
        "each with the values that the published schema lists.",
        "unprotected_quantities": "; ".join(public) + ".",
    }


def _loss(statement: Statement) -> dict[str, Any]:
    total = statement.total()
    found: dict[str, Any] = {"epsilon": total.eps, "delta": total.delta}
    if total.rho is not None:
        found["rho"] = total.rho
    unit, _, details = statement.unit.partition(":")
    exact = f"The guarantee is {statement.guarantee}: {statement.why}"
    converted = f" (epsilon, delta) are converted at delta {statement.target_delta:g}."
    return {
        "privacy_unit": unit[:1].upper() + unit[1:],
        "privacy_unit_details": (details or unit).strip() + f" (relation: {statement.neighbours})",
        "privacy_parameters": found,
        "privacy_parameters_details": exact.rstrip(".") + "." + (converted if total.delta else ""),
    }


def _model(statement: Statement) -> dict[str, Any]:
    del statement
    return {
        "model_name": "Central",
        "model_name_details": "One curator holds the rows and runs the mechanism on them.",
        "actors": "The curator is trusted with the rows and runs the published software. Whoever "
        "reads the release is not trusted, and may know all rows but one.",
        "release_type": "One release",
        "release_type_details": "One folder, published once. Whatever else is measured on the same "
        "rows is charged to the same ledger and would add to this loss.",
        "data_source_type": "Static",
        "access_type": "Non-interactive",
        "access_type_details": "Readers get files; nobody queries the private rows.",
    }


def _post_processing(release: Release) -> str:
    steps = ["A model is fitted to the noisy answers, and the rows are drawn from it"]
    weights = release.statement.notes.get("weights")
    if isinstance(weights, dict) and weights:
        steps.append(f"weights ({', '.join(map(str, weights))}) are normalised and tempered")
    if "steered" in release.statement.notes:
        steps.append("the rows were steered to margins that were stated in public")
    return "; ".join(steps) + "."


def _composition(statement: Statement) -> str:
    lines = [_charge(charge) for charge in statement.charges]
    return (
        "Sequential composition of these charges, added up as if their amounts had been fixed "
        "beforehand: " + "; ".join(lines) + f". Together: {statement.total()}."
    )


def _charge(charge: Charge) -> str:
    purpose = getattr(charge, "purpose", "")
    return f"{charge.mechanism}{f' for {purpose}' if purpose else ''}: {charge.cost}"


def _implementation(release: Release) -> dict[str, Any]:
    statement = release.statement
    known = {"marginalsyn": version("marginalsyn"), **statement.versions}
    versions = ", ".join(f"{name} {number}" for name, number in known.items())
    given = [(name, one) for name, one in statement.parameters.items() if one is not None]
    noise = statement.noise.rstrip(".")
    knobs = ", ".join(f"{name}={value}" for name, value in given)
    drafted = (
        "The schema was drafted by looking at the private rows, and no loss was accounted for."
        if statement.schema_drafted
        else "Values are coded by the public schema, each row by itself; the software looks at no "
        "statistic of the rows before the charge."
    )
    return {
        "preprocessing_and_hyperparameter_tuning": f"{drafted} The method's options are public "
        f"constants: {knobs or 'none'}.",
        "mechanisms": f"{statement.generator}. {noise}. Software: {versions}.",
        "justification": _justification(statement.warnings),
    }


def _justification(warnings: Sequence[str]) -> str:
    told = (
        "The charge is written to a ledger before the rows are read. The total, the guarantee and "
        "the words on the noise are derived from the recorded charges and draws; `marginalsyn "
        "verify` derives them again from the published folder."
    )
    return told + (f" Warnings of the statement: {' '.join(warnings)}" if warnings else "")

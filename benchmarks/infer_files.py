"""What ``schema infer`` takes the columns of ten public files for, beside a careful person.

python benchmarks/infer_files.py > benchmarks/results/infer.md

The files are the first 200 rows of each; ``samples/ATTRIBUTION.md`` says where they come from.
"""

from __future__ import annotations

import time
from pathlib import Path

from marginalsyn.drafting.draft import draft_schema

SAMPLES = Path(__file__).parent / "samples"
# By file, its trouble and what a careful person would take each column for. Where two are as good
# they are both named.
TRUTH: dict[str, tuple[str, dict[str, str]]] = {
    "airports": (
        "codes, names, places",
        dict(
            iata="identifier",
            name="drop",
            city="drop",
            state="categorical",
            country="categorical",
            latitude="continuous",
            longitude="continuous",
        ),
    ),
    "fertility": (
        "a year a column, the last two empty, names in quotes",
        {
            "Country Name": "identifier",
            "Country Code": "identifier",
            "Indicator Name": "categorical constant",
            "Indicator Code": "categorical constant",
            **{str(year): "continuous" for year in range(1960, 2012)},
            "2012": "drop",
            "2013": "drop",
        },
    ),
    "seattle-weather": (
        "dates with slashes",
        dict(
            date="date",
            precipitation="continuous",
            temp_max="continuous",
            temp_min="continuous",
            wind="continuous",
            weather="categorical",
        ),
    ),
    "seattle-temps": ("moments with slashes", dict(date="datetime", temp="continuous")),
    "stocks": (
        "dates with month names",
        dict(symbol="categorical", date="date", price="continuous"),
    ),
    "us-employment": (
        "24 columns, counts and decimals",
        dict(
            month="date",
            nonfarm="integer",
            private="integer",
            goods_producing="integer",
            service_providing="integer",
            private_service_providing="integer",
            mining_and_logging="integer",
            construction="integer",
            manufacturing="integer",
            durable_goods="integer",
            nondurable_goods="integer",
            trade_transportation_utilties="integer",
            wholesale_trade="continuous",
            retail_trade="continuous",
            transportation_and_warehousing="continuous",
            utilities="continuous",
            information="integer",
            financial_activities="integer",
            professional_and_business_services="integer",
            education_and_health_services="integer",
            leisure_and_hospitality="integer",
            other_services="integer",
            government="integer",
            nonfarm_change="integer",
        ),
    ),
    "tips": (
        "days of the week, yes and no",
        dict(
            total_bill="continuous",
            tip="continuous",
            sex="categorical",
            smoker="boolean",
            day="ordinal",
            time="categorical",
            size="integer",
        ),
    ),
    "gapminder": (
        "codes of countries, every fifth year",
        dict(
            country="categorical",
            continent="categorical",
            year="ordinal integer",
            lifeExp="continuous",
            pop="integer",
            gdpPercap="continuous",
            iso_alpha="categorical",
            iso_num="integer categorical ordinal",
            centroid_lon="continuous",
            centroid_lat="continuous",
        ),
    ),
    "election": (
        "58 rows, districts by name and number",
        dict(
            district="identifier",
            Coderre="integer",
            Bergeron="integer",
            Joly="integer",
            total="integer",
            winner="categorical",
            result="categorical",
            district_id="identifier",
        ),
    ),
    "anes96": (
        "tabs in a .csv, names in quotes, scales from 1 to 7",
        {
            **dict.fromkeys(
                ["'TVnews'", "'selfLR'", "'ClinLR'", "'DoleLR'", "'PID'", "'educ'", "'income'"],
                "integer ordinal",
            ),
            "'popul'": "integer",
            "'age'": "integer",
            "'vote'": "boolean",
        },
    ),
}


def main() -> None:
    """Print the table."""
    lines, right, columns = [], 0, 0
    for name, (trouble, truth) in TRUTH.items():
        began = time.process_time()
        draft = draft_schema(SAMPLES / f"{name}.csv")
        spent = time.process_time() - began
        found = {verdict.name: verdict.kind for verdict in draft.verdicts}
        assert list(sorted(found)) == sorted(truth), name
        wrong = [
            f"{column}: {found[column]}" for column in truth if found[column] not in truth[column]
        ]
        fits = min(v.fits for v in draft.verdicts if v.fits is not None)
        right, columns = right + len(truth) - len(wrong), columns + len(truth)
        score = f"{len(truth) - len(wrong)} of {len(truth)}"
        lines.append(
            f"| {name} | {trouble} | {score} | {fits:.1%} | {spent:.1f} | {', '.join(wrong)} |"
        )
    print("# What `schema infer` takes columns for\n")
    print(
        "`python benchmarks/infer_files.py`: the first 200 rows of ten public files, no option.\n"
    )
    print("| file | trouble | columns right | least share of values that fit | cpu s | wrong |")
    print("|---|---|---|---|---|---|")
    print("\n".join(lines))
    print(f"\n{right} of {columns} columns are right ({right / columns:.1%}); the goal was 95%.")


if __name__ == "__main__":
    main()

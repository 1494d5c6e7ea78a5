"""What the bins of a schema cost a model, without any noise.

Every training row is encoded and decoded, so that its numbers are drawn anew inside their bins.
Models trained on such rows are compared, on real test rows, with models trained on the rows
themselves. Prints the table of ``docs/datasets.md``::

    python benchmarks/bin_cost.py heart german telco adult
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from marginalsyn import datasets
from marginalsyn.table.codec import Codec
from marginalsyn.table.schema import Schema

DRAWS = 3


def features(frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Numbers as they are (0 where missing), one column per value of the other kinds."""
    columns = {}
    for column in schema.columns:
        if column.name == schema.label:
            continue
        values = frame[column.name]
        if column.numeric:
            columns[column.name] = values.fillna(0).astype(float)
        else:
            for value in column.values:
                columns[f"{column.name}={value}"] = (values == value).fillna(False).astype(float)
    return pd.DataFrame(columns)


def loss(model: object, train: pd.DataFrame, table: datasets.Dataset) -> float:
    """Log-loss on the real test rows."""
    schema, label = table.schema, str(table.schema.label)
    model.fit(features(train, schema), train[label].astype(str))  # type: ignore[attr-defined]
    guess = model.predict_proba(features(table.test, schema))  # type: ignore[attr-defined]
    return float(log_loss(table.test[label].astype(str), guess))


def main(names: list[str]) -> None:
    """Print one row of the table per name."""
    models = {
        "boosting": HistGradientBoostingClassifier(random_state=0),
        "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    }
    for name in names or ["adult", "heart", "german", "telco"]:
        table = datasets.load(name)
        codec = Codec(table.schema)
        codes = codec.encode(table.train)
        binned = [codec.decode(codes, np.random.default_rng(seed)) for seed in range(DRAWS)]
        cells = []
        for model in models.values():
            cells.append(loss(model, table.train, table))
            cells.append(float(np.mean([loss(model, frame, table) for frame in binned])))
        print(f"| `{name}` | " + " | ".join(f"{cell:.3f}" for cell in cells) + " |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

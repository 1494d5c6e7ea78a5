"""What the weight estimators share: regressions, post-processing, diagnostics.

May touch: table, private, release and below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginalsyn.lazy import faces

if TYPE_CHECKING:
    from marginalsyn.weights.coefficients import CoefficientNoise, LawName, quietest
    from marginalsyn.weights.columns import (
        WeightColumn,
        adopt,
        check_column,
        columns_of,
        publish,
        share_of,
        weights_csv,
    )
    from marginalsyn.weights.discrimination import REFERENCE, LinearConfig, Regression
    from marginalsyn.weights.effectiveness import cautions, diagnose
    from marginalsyn.weights.finishing import finish_column, reprocess
    from marginalsyn.weights.logistic import Labelled, fit_logistic, minimise, sensitivity
    from marginalsyn.weights.processing import Processing, calibrate

__getattr__, __dir__ = faces(
    __name__,
    {
        "coefficients": (
            "CoefficientNoise",
            "LawName",
            "quietest",
        ),
        "columns": (
            "WeightColumn",
            "adopt",
            "check_column",
            "columns_of",
            "publish",
            "share_of",
            "weights_csv",
        ),
        "discrimination": (
            "LinearConfig",
            "REFERENCE",
            "Regression",
        ),
        "effectiveness": (
            "cautions",
            "diagnose",
        ),
        "finishing": (
            "finish_column",
            "reprocess",
        ),
        "logistic": (
            "Labelled",
            "fit_logistic",
            "minimise",
            "sensitivity",
        ),
        "processing": (
            "Processing",
            "calibrate",
        ),
    },
)

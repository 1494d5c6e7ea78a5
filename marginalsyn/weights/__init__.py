"""What the weight estimators share: regressions, post-processing, diagnostics.

May touch: generators (to read stored models), table, private, release and below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginalsyn.lazy import faces

if TYPE_CHECKING:
    from marginalsyn.weights.coefficients import (
        CoefficientNoise,
        LawName,
        NoisyCoefficients,
        NoisyRegression,
        quietest,
    )
    from marginalsyn.weights.columns import (
        Bought,
        WeightColumn,
        check_bought,
        check_column,
        columns_of,
        publish,
        read_bought,
        share_of,
        weights_csv,
    )
    from marginalsyn.weights.conditional import (
        Conditional,
        LabelRows,
        check_label,
        check_target,
        has_label,
    )
    from marginalsyn.weights.effectiveness import cautions, diagnose
    from marginalsyn.weights.finishing import finish_column, reprocess
    from marginalsyn.weights.label_correction import (
        GRID_BITS,
        NETWORK_STEPS,
        LabelCorrection,
        clipped_total,
        whole_l2,
    )
    from marginalsyn.weights.label_weights import LabelWeights, signal_share
    from marginalsyn.weights.logistic import (
        REFERENCE,
        Labelled,
        LinearConfig,
        LinearEstimator,
        Regression,
        fit_logistic,
        minimise,
        sensitivity,
    )
    from marginalsyn.weights.marginal_choice import (
        Choosing,
        Columns,
        choose_marginals,
        label_and_others,
        predict_marginals,
    )
    from marginalsyn.weights.prediction import predict_gain, predict_share, say_gain
    from marginalsyn.weights.processing import Processing, calibrate
    from marginalsyn.weights.raking import (
        Answers,
        Cells,
        Choice,
        Fitted,
        choose,
        fit,
        outlook,
        unreachable,
    )
    from marginalsyn.weights.support import Support, agreement, find_support, support_of

__getattr__, __dir__ = faces(__name__)

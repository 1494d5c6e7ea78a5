"""Certified bounds: every constant is explicit, so they may be published.

May touch: release, private, table, budget.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginalsyn.lazy import faces

if TYPE_CHECKING:
    from marginalsyn.certificates.certificate import FACTS, certify_release, read, renew
    from marginalsyn.certificates.excess import (
        bound_excess,
        fit_in_ball,
        mean_loss,
        paper_bounds,
    )
    from marginalsyn.certificates.excess_plan import (
        MeasuredPlan,
        Model,
        steps_of_rows,
        true_excess,
    )
    from marginalsyn.certificates.linear_models import GRID, Frame, Problem
    from marginalsyn.certificates.marginal_bounds import Gap, Selection, aim_bounds
    from marginalsyn.certificates.measured import (
        certify_measured,
        fitted,
        model_of,
        read_measured,
    )
    from marginalsyn.certificates.moments import moment_errors
    from marginalsyn.certificates.noisy_moments import MomentPlan
    from marginalsyn.certificates.verification import verify

__getattr__, __dir__ = faces(__name__)

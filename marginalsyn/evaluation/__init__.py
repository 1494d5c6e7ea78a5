"""Evaluation on real rows: inputs, metrics, pages. Not private.

May touch: everything below; real rows through the unprotected view.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginalsyn.lazy import faces

if TYPE_CHECKING:
    from marginalsyn.evaluation.baselines import train_baselines
    from marginalsyn.evaluation.cards import (
        card,
        columns_line,
        evaluation_card,
        stamp_of,
        statement_figures,
    )
    from marginalsyn.evaluation.charts import (
        Bar,
        Series,
        Span,
        dots,
        forest,
        heat,
        histogram,
        key,
        lines,
        overlay,
    )
    from marginalsyn.evaluation.column_charts import column_shares, draw_columns
    from marginalsyn.evaluation.comparison import curves_by_eps, draw_by_eps
    from marginalsyn.evaluation.evaluation import (
        JSON_FILE,
        PAGE_FILE,
        Evaluation,
        check_folder,
        choose_reports,
        evaluate,
    )
    from marginalsyn.evaluation.fitness import Use
    from marginalsyn.evaluation.groups import rare_groups
    from marginalsyn.evaluation.headline import figures, rules_told, words
    from marginalsyn.evaluation.inputs import make_case, make_ground
    from marginalsyn.evaluation.learners import choose_learners
    from marginalsyn.evaluation.linked import (
        FRESH,
        RELEASE,
        RELINKED,
        LinkedEvaluation,
        evaluate_linked,
    )
    from marginalsyn.evaluation.linked_public import publish_linked
    from marginalsyn.evaluation.marginals import marginal_errors, share_table
    from marginalsyn.evaluation.markup import number
    from marginalsyn.evaluation.membership import (
        FALSE_RATE,
        choose_rows,
        most_hits,
        nearness,
        shadow_success,
        success,
    )
    from marginalsyn.evaluation.page import with_error
    from marginalsyn.evaluation.posterior import sample_posterior
    from marginalsyn.evaluation.publication import CLOSED, OPEN, Publication, publish
    from marginalsyn.evaluation.reports import (
        Block,
        Blocks,
        Case,
        Fact,
        Ground,
        Options,
        Report,
        Verdict,
        called,
        each_variant,
    )
    from marginalsyn.evaluation.sampling import sampling_errors
    from marginalsyn.evaluation.scores import clopper_pearson, delong
    from marginalsyn.evaluation.shadows import MOST_ROWS, cast_shadows
    from marginalsyn.evaluation.table_distances import distances
    from marginalsyn.evaluation.tstr import evaluate_models
    from marginalsyn.evaluation.verdict import (
        compare_marginals,
        compare_models,
        judge_marginals,
        judge_models,
    )

__getattr__, __dir__ = faces(__name__)

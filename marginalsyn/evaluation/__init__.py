"""Evaluation on real rows: inputs, metrics, pages. Not private.

May touch: everything below; real rows through the unprotected view.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginalsyn.lazy import faces

if TYPE_CHECKING:
    from marginalsyn.evaluation.charts import Bar, Curves, Dots, Histogram, Matrix, Shares
    from marginalsyn.evaluation.evaluation import (
        JSON_FILE,
        PAGE_FILE,
        Evaluation,
        check_folder,
        choose_reports,
        evaluate,
    )
    from marginalsyn.evaluation.headline import figures, rules_told, words
    from marginalsyn.evaluation.inputs import make_case, make_ground
    from marginalsyn.evaluation.linked import FRESH, RELEASE, RELINKED, evaluate_linked
    from marginalsyn.evaluation.marginals import marginal_errors
    from marginalsyn.evaluation.page import (
        card,
        columns_line,
        render,
        stamp_of,
        statement_figures,
    )
    from marginalsyn.evaluation.publication import (
        CLOSED,
        OPEN,
        Publication,
        publish,
        publish_linked,
    )
    from marginalsyn.evaluation.reports import Fact, Options, Report
    from marginalsyn.evaluation.scores import clopper_pearson
    from marginalsyn.evaluation.verdict import Use, Verdict
    from marginalsyn.evaluation.view import Fold, Group, Item, Key, Note, Page, Section, Table

__getattr__, __dir__ = faces(__name__)

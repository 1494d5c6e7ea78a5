"""Evaluation on real rows: inputs, metrics, verdicts, charts, pages. Not private.

May touch: everything below but answers; real rows through the unprotected view.
"""

from marginalsyn.old_paths import names_of

__getattr__ = names_of("evaluation")

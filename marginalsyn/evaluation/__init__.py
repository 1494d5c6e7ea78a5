"""Evaluation on real rows: inputs, metrics, pages. Not private.

May touch: everything below; real rows through the unprotected view.
"""

from marginalsyn.old_paths import names_of

__getattr__ = names_of("evaluation")

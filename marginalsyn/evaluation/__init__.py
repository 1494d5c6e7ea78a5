"""Evaluation on real rows: inputs, metrics, verdicts, charts, pages. Not private.

May touch: everything below but answers; real rows through the unprotected view.
"""

"""Evaluation on real rows: inputs, metrics, pages. Not private.

May touch: everything below; real rows through the unprotected view.
"""

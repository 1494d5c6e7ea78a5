"""What the weight estimators share: regressions, post-processing, diagnostics.

May touch: generators (to read stored models), table, private, release and below.
"""

"""What the weight estimators share: regressions, post-processing, diagnostics.

May touch: generators and graphical (stored models), access (visits), release, table, privacy,
contract.
"""

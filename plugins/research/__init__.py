"""Weight estimators for research: some without protection, some calibrated as papers have it.

Found through entry points only.
"""

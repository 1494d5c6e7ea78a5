"""The weight estimators, one file each.

Found through entry points only.
"""

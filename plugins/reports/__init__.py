"""The reports of an evaluation, one file each.

Found through entry points only.
"""

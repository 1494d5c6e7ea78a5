"""Attempts to break the privacy guarantees, and the test kit for plugin authors.

Found through entry points only.
"""

"""Attempts to break the privacy guarantees, and the test kit for plugin authors.

May touch: everything below.
"""

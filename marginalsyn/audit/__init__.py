"""Attempts to break the guarantees, and the test kit for authors of plugins.

May touch: everything below.
"""

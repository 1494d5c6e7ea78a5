"""Mechanisms for research: not private ones, and calibrations as papers have them.

Found through entry points only.
"""

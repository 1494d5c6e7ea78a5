"""Estimates with intervals that include the privacy noise, from a release alone.

May touch: everything below but evaluation. The host runs a generator again on drawn rows; no
private rows.
"""

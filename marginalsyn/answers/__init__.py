"""Intervals for analysts, from a release alone: estimates that know the noise in a release.

May touch: host (to run a generator again on drawn rows), weights and below. No private rows.
"""

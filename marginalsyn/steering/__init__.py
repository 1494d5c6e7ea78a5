"""Steering: changes a release so that it has margins that the user states.

May touch: host, weights, networks, release and below.
"""

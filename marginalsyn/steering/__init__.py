"""Steering: changes a release so that it has margins that the user states.

May touch: host, weights, networks, release and below.
"""

from marginalsyn.old_paths import names_of

__getattr__ = names_of("steering")

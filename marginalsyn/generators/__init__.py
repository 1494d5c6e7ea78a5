"""The generators, one file each under the name its paper uses, and what they share.

May touch: graphical, points, networks, certificates and below.
"""

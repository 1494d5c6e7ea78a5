"""The generators that measure marginals, one file each, and what they share.

May touch: certificates, graphical, access (visits), table, privacy, contract.
"""

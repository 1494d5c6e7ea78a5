"""The release folder, its statement, and the curator's workspace.

May touch: table, noise, budget, contract. No private rows.
"""

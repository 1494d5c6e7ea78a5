"""Records that must survive: ledgers, the answers of runs, and the curator's workspace.

May touch: noise, budget, contract. No private rows.
"""

"""What must survive a crash: ledgers, the answers of runs, and the curator's workspace.

May touch: privacy, contract. No private rows.
"""

"""What must survive a crash: the ledger, runs with their answers, and the workspace.

May touch: table, privacy, contract.
"""

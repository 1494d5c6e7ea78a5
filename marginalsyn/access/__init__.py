"""The only way to private rows: private tables, and visits that were paid for.

May touch: sources, records, people, table, privacy, contract.
"""

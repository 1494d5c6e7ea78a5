"""The release folder, of one table or of several, and its statement.

May touch: records, people, table, privacy, contract. No private rows.
"""

"""What a schema leaves open, bought with privacy: bounds, bins, categories, most rows.

May touch: access (visits), sources, table, privacy, contract.
"""

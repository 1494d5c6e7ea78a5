"""Where rows lie: files, databases and Spark; their identity, hold-out, persons and counts.

May touch: people, table, privacy.
"""

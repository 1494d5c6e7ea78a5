"""What is public of persons who have several rows, in one table or in linked ones.

May touch: table, contract. No private rows.
"""

"""Persons who have several rows, in one table or in linked ones: what is public of them.

May touch: table. Nothing private: it works on what was released.
"""

"""What a user can do, one file an act, written once for the shell and for Python.

May touch: everything but the shell. Importing an operation is light; what works is imported when it
runs.
"""

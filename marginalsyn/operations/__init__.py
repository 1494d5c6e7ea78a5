"""What a user can do, one class an act, written once for the shell and for Python.

May touch: everything but the shell and plugins. An operation imports what works when it runs.
"""

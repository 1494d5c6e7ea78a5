"""What a user can do, one file an act, for the command line and for Python alike.

May touch: everything below.
"""

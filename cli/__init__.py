"""The command `marginalsyn`: parse, call the library, print. One file a noun.

May touch: everything below. Heavy imports happen inside functions, so that `--help` stays quick.
"""

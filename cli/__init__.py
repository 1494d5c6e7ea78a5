"""The command `marginalsyn`: turns operations into commands, and prints their results.

May touch: everything below. Heavy imports happen inside functions, so that `--help` is quick.
"""

"""Weight estimators, reports, commands and generators that are found by entry points.

May touch: everything below, and no other folder of plugins (the audits try to break one). Nothing
imports them.
"""

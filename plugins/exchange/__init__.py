"""Rows, releases and schemas of other tools, read and written.

Found through entry points only.
"""

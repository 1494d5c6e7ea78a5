"""What a draw of noise costs and how it is drawn: charges, composition, caps, laws.

May touch: errors, libraries. No data.
"""

"""What a draw of noise costs and how it is drawn: charges, composition, caps, laws and samplers.

May touch: errors. No data.
"""

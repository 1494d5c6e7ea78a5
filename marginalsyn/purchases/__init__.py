"""What a schema leaves open, bought with privacy budget: bounds, bins, categories, most rows.

May touch: access, drafting and below.
"""

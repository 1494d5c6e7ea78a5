"""The weight estimators and reports that come with the package, one file each.

May touch: weights, evaluation and below. Found through entry points, as a third party's are.
"""

"""Neural networks: private gradient steps, adversarial generators, weights by discriminators.

Found through entry points only.
"""

"""Neural networks: private gradient steps, adversarial generators, discriminators as weights.

Found through entry points only.
"""

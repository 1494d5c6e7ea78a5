"""Support points and their baselines: Markov chains, herding, noisy potentials, histograms.

Found through entry points only.
"""

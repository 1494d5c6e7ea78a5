"""Support points: energy distances, the Markov chains over them, and their generators.

Found through entry points only.
"""

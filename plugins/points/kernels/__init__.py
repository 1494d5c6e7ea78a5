"""The Markov chains' kernels, one file each, in blackjax's shape.

A kernel's file has its state, ``init`` and ``step``, and a builder binds them to a law for
:mod:`marginalsyn.plugins.points.driver`. ``step(rng, state, law, ...)`` is pure: it leaves the
state that it is given as it was. The loop behind it is compiled and runs many steps at once.
"""

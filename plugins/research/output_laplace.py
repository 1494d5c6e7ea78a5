"""Weights with Laplace noise on every log-weight; noise on the coefficients is better."""

from __future__ import annotations

from dataclasses import dataclass

from marginalsyn.plugins.research.output_gaussian import OutputGaussianConfig


@dataclass(frozen=True, kw_only=True)
class OutputLaplaceConfig(OutputGaussianConfig):
    """As ``output-gaussian`` with Laplace noise, which is pure. **Prefer beta-noised.**

    The vector of N log-weights moves by at most sqrt(N) ||X|| D2 in l1, and the noise of each has
    that over eps as its scale: eps is for all rows together.

    Example:
        >>> OutputLaplaceConfig().law
        'laplace'
    """

    name = "output-laplace"
    summary = "Laplace noise on every log-weight; beta-noised needs less"
    law = "laplace"

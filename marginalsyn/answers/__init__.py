"""Intervals for analysts, from a release alone: estimates that know the noise in a release.

May touch: host (to run a generator again on drawn rows), weights and below. No private rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginalsyn.lazy import faces

if TYPE_CHECKING:
    from marginalsyn.answers.answering import Answer, Answers, estimate
    from marginalsyn.answers.combining import combine
    from marginalsyn.answers.evidence import MeasuredPair, measured_pairs
    from marginalsyn.answers.imputations import impute

__getattr__, __dir__ = faces(__name__)

"""The generators, one file each under the name its paper uses, and what they share.

May touch: graphical, points, networks, certificates and below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginalsyn.lazy import faces

if TYPE_CHECKING:
    from marginalsyn.generators.aim import AIMConfig
    from marginalsyn.generators.all_marginals import AllMarginalsConfig
    from marginalsyn.generators.independent import IndependentConfig
    from marginalsyn.generators.marginals import stored_model
    from marginalsyn.generators.opened import Opened
    from marginalsyn.generators.workload import Workload

__getattr__, __dir__ = faces(__name__)

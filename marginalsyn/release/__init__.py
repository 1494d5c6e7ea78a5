"""The release folder, its statement, and the curator's workspace.

May touch: table, noise, budget, contract. No private rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginalsyn.lazy import faces

if TYPE_CHECKING:
    from marginalsyn.release.arrays import (
        dump_arrays,
        load_arrays,
        measurement_problems,
        pack,
        unpack_measurements,
    )
    from marginalsyn.release.derivation import ADOPTED, AS_WRITTEN, REDRAWN, whose_words
    from marginalsyn.release.durable import append_bytes, make_folder, replace_bytes, write_bytes
    from marginalsyn.release.folder import LOG, WEIGHTS, Release, check_folder, preflight
    from marginalsyn.release.linked import (
        LinkedRelease,
        PersonsRelease,
        is_linked_release,
        open_release,
        tree_problems,
    )
    from marginalsyn.release.sampling import draw, sample
    from marginalsyn.release.staging import staged
    from marginalsyn.release.statement import ANOTHER_TOOL, Statement, state, today
    from marginalsyn.release.workspace import (
        FOLDER,
        Kept,
        Memory,
        Workspace,
        WorkspaceError,
        identify,
        slug,
    )

__getattr__, __dir__ = faces(__name__)

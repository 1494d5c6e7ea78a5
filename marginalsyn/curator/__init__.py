"""What a curator does with releases and private tables, for the command line and for Python alike.

May touch: evaluation, steering, host and below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginalsyn.lazy import faces

if TYPE_CHECKING:
    from marginalsyn.curator.comparison import (
        Cases,
        RealRows,
        find_cases,
        find_real,
        find_real_linked,
    )
    from marginalsyn.curator.files import (
        check_new,
        check_table,
        read_json,
        replace_file,
        write_exported,
        write_table,
        write_text,
    )
    from marginalsyn.curator.forecast import Forecast, foresee
    from marginalsyn.curator.linked import (
        LinkedInput,
        PersonsInput,
        find_linked,
        find_linked_origin,
        find_persons,
    )
    from marginalsyn.curator.linked_draft import LinkedDraft, draft_linked, holds_several
    from marginalsyn.curator.opening import (
        FoundTable,
        accounted,
        describe_total,
        find_table,
        not_made_here,
    )
    from marginalsyn.curator.origins import (
        DATASET,
        PASSWORD,
        UNNAMED,
        Named,
        PrivateInput,
        caution_of_rows,
        find_origin,
        find_private,
        hides_password,
        key_of,
        labelled,
        open_ledger,
        rows_of,
        shown_name,
        with_unit,
    )
    from marginalsyn.curator.release import Release
    from marginalsyn.curator.tables import TABLES, Table, is_table, read_table, rows_in

__getattr__, __dir__ = faces(__name__)

"""Public knowledge about a table: schema, columns, codes, frames, and vectors of rows.

May touch: errors, validation, budget. No private rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginalsyn.lazy import faces

if TYPE_CHECKING:
    from marginalsyn.table.arrow import arrow_table, objects_of
    from marginalsyn.table.codec import Codec
    from marginalsyn.table.columns import (
        BooleanColumn,
        CategoricalColumn,
        Column,
        OrdinalColumn,
        text_of,
    )
    from marginalsyn.table.conditions import Condition, kept_rows, read_conditions
    from marginalsyn.table.design import (
        CodedRows,
        FeatureKind,
        Scheme,
        Task,
        is_quantity,
        names_of_features,
        resample,
        scaled_features,
    )
    from marginalsyn.table.encoding import fields, number, plain, real, spelt, step, text_key
    from marginalsyn.table.energy import (
        BLOCK,
        FAST,
        distance_matrix,
        energy_distance,
        mmd,
        potential,
        self_distance,
        stream_potential,
        total_distance,
    )
    from marginalsyn.table.engine import (
        Connection,
        batches_of,
        engine_errors,
        first_line,
        not_utf8,
        private_engine,
        private_folder,
    )
    from marginalsyn.table.features import (
        MOST_FEATURES,
        FeatureRows,
        Features,
        split_crosses,
        weighted_codes,
    )
    from marginalsyn.table.frames import frame_problems, write_csv, write_parquet
    from marginalsyn.table.made import ConstantColumn, IdentifierColumn, complete
    from marginalsyn.table.metric import Batch, Metric, PointSpace, check_norm, weights_of
    from marginalsyn.table.moments import DateColumn, DatetimeColumn, MomentColumn, TimeColumn
    from marginalsyn.table.numeric import ContinuousColumn, IntegerColumn
    from marginalsyn.table.parts import with_parts
    from marginalsyn.table.row_identity import pack, ranked, ranks, unpack
    from marginalsyn.table.schema import DRAFT_WARNING, MISSING_TOKENS, AnyColumn, Schema
    from marginalsyn.table.shape import PRIVATE, Shape
    from marginalsyn.table.spread import wasted, wasted_counts
    from marginalsyn.table.timetext import TimeFormat
    from marginalsyn.table.unit import MOST_ROWS, ROW, Unit, persons_columns
    from marginalsyn.table.vectors import (
        ABSENT,
        Slots,
        has_long_order,
        numbers_of,
        scaled_slots,
    )
    from marginalsyn.table.wording import NumberFormat

__getattr__, __dir__ = faces(__name__)

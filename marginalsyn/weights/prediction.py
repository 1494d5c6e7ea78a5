"""What weights will gain, told from the release's own record before anything is spent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from marginalsyn.contract import Target


def unbought_share(target: Target, wanted: Sequence[set[str]]) -> tuple[float, float]:
    """The share of some marginals that the release did not measure: at least, at most.

    Those that it measured are right already. Where no record tells, anything from none to all.
    """
    release = target.release
    record = [set(m.columns) for m in release.measurements()] if release is not None else []
    if not record:
        return 0.0, 1.0
    left = sum(not any(columns <= had for had in record) for columns in wanted)
    share = left / max(len(wanted), 1)
    return share, share


def predict_gain(target: Target, wanted: Sequence[set[str]], kept: float) -> dict[str, Any]:
    """What of the release's error in these marginals the weights may take away.

    The share that noise leaves, times the share that the release did not measure: least, middle
    and most.
    """
    least, most = unbought_share(target, wanted)
    gains = [least * kept, (least + most) / 2 * kept, most * kept]
    return {
        "unmeasured_label_pairs": [least, most],
        "predicted_gain": [round(gain, 4) for gain in gains],
    }


def label_pairs(target: Target) -> list[set[str]]:
    """The label with every other column."""
    label = str(target.schema.label)
    return [{label, name} for name in target.schema.names if name != label]

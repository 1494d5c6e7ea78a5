"""Several releases compared: results by generator, drawn against eps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from marginalsyn.evaluation import view

# A point of a curve: eps, mean, standard error.
Curves = dict[str, list[list[float]]]

# The charts have that many tones, not counting that of real rows.
MOST_CURVES = 5


def curves_by_eps(found: Iterable[tuple[str, float, float, float]]) -> Curves:
    """Curves from (name, eps, value, standard error); none where all have one eps.

    Example:
        >>> curves_by_eps([("a", 1.0, 0.5, 0.1), ("a", 2.0, 0.25, 0.0), ("a", 2.0, 0.75, 0.0)])
        {'a': [[1.0, 0.5, 0.1], [2.0, 0.5, 0.25]]}
    """
    runs: dict[str, dict[float, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for name, eps, value, se in found:
        runs[name][eps].append((value, se))
    if len({eps for by_eps in runs.values() for eps in by_eps}) < 2:
        return {}
    return {
        name: [[eps, *_pooled(values)] for eps, values in sorted(by_eps.items())]
        for name, by_eps in runs.items()
    }


def show_by_eps(
    curves: Mapping[str, Sequence[Sequence[float]]], title: str, y_title: str
) -> Iterator[view.Item]:
    """The first curves with their key."""
    shown = dict(list(curves.items())[:MOST_CURVES])
    left_out = ", ".join(name for name in curves if name not in shown)
    caption = f"{title}. Releases of one generator and eps are averaged."
    caption += f" Not drawn: {left_out}." if left_out else ""
    tones = {name: i + 1 for i, name in enumerate(shown)}
    yield view.Key(list(tones.items()))
    yield view.Curves(title, shown, tones, "eps", y_title, caption=caption)


def _pooled(found: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The mean over releases with their spread; a single release keeps its own error."""
    count = len(found)
    mean = sum(value for value, _ in found) / count
    if count == 1:
        return mean, found[0][1]
    spread = sum((value - mean) ** 2 for value, _ in found) / (count - 1)
    return mean, (spread / count) ** 0.5

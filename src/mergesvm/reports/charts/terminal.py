"""Plot drawn with block characters, for terminals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

BLOCKS = " ▁▂▃▄▅▆▇█"


def plot_lines(values: Sequence[float], width: int = 64, height: int = 8) -> list[str]:
    """Fractions as columns of blocks, averaged to fit the width, with the highest and lowest beside them.

    >>> for line in plot_lines([0.5, 0.6, 0.7, 0.8, 0.9, 1.0], width=6, height=2):
    ...     print(line)
    100.0 % |   ▂▅█
     50.0 % |▁▄▇███
    """
    if not len(values):
        return []
    columns = [float(np.mean(part)) for part in np.array_split(np.asarray(values), min(width, len(values)))]
    low, high = min(columns), max(columns)
    steps = [1 + round((value - low) / ((high - low) or 1.0) * (8 * height - 1)) for value in columns]
    sides = {0: low, height - 1: high}
    return [
        (f"{100 * sides[line]:5.1f} %" if line in sides else "").rjust(7)
        + " |"
        + "".join(BLOCKS[min(8, max(0, step - 8 * line))] for step in steps)
        for line in range(height - 1, -1, -1)
    ]

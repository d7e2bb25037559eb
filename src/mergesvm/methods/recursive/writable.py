"""Unpickling of objects whose arrays are written in place."""

from __future__ import annotations

from typing import Any

import numpy as np


class WritableArrays:
    """Copies its arrays when it is unpickled: those of a memory-mapped file may be read-only."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(
            {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in state.items()}
        )

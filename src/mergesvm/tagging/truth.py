"""True masks of tags, and how well heat maps agree with them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import FileError
from mergesvm.tagging.heat_map import HeatMap
from mergesvm.tagging.pictures import open_mask


@dataclass(frozen=True)
class PixelCounts:
    """Numbers of pixels of one or more pictures: found and true, found only, and true only."""

    both: int = 0
    found_only: int = 0
    true_only: int = 0
    pictures: int = 0

    def __add__(self, other: PixelCounts) -> PixelCounts:
        return PixelCounts(
            self.both + other.both,
            self.found_only + other.found_only,
            self.true_only + other.true_only,
            self.pictures + other.pictures,
        )

    @classmethod
    def of(cls, found: NDArray[np.bool_], true: NDArray[np.bool_]) -> PixelCounts:
        """Count the pixels of one picture.

        >>> PixelCounts.of(np.array([True, True, False]), np.array([True, False, False])).precision
        0.5
        """
        return cls(int((found & true).sum()), int((found & ~true).sum()), int((~found & true).sum()), 1)

    @property
    def precision(self) -> float | None:
        """The fraction of the pixels found that are true; None if none were found."""
        return self.both / (self.both + self.found_only) if self.both + self.found_only else None

    @property
    def recall(self) -> float | None:
        """The fraction of the true pixels that were found; None if there are none."""
        return self.both / (self.both + self.true_only) if self.both + self.true_only else None


@dataclass(frozen=True)
class TruthFolder:
    """A folder of masks: ``TAG/NAME.png``, or ``NAME.png`` for all tags; pixels that are not 0 belong to the tag."""

    folder: Path

    def mask(self, tag: str, picture: str, size: tuple[int, int]) -> NDArray[np.bool_] | None:
        """Return the mask of a picture, scaled to a size (height, width); None if there is none."""
        plain = Path(tag).name == tag and not tag.startswith(".")
        roots = [self.folder / tag] if plain and (self.folder / tag).is_dir() else [self.folder]
        for root in roots:
            for name in (f"{picture}.png", PurePosixPath(picture).with_suffix(".png").as_posix()):
                path = root / name
                if path.is_file():
                    try:
                        return open_mask(path, size)
                    except (FileError, OSError):
                        return None
        return None

    def counts(self, tag: str, picture: str, heat_map: HeatMap, threshold: float) -> PixelCounts:
        """Compare what was found in a picture with its mask; all counts are 0 without a mask."""
        true = self.mask(tag, picture, heat_map.size)
        return PixelCounts() if true is None else PixelCounts.of(heat_map.mask(threshold), true)

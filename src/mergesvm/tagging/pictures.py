"""Pictures of a folder: found, opened at a working size, and never trusted."""

from __future__ import annotations

import io
import os
import threading
import warnings
from contextlib import nullcontext
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import EngineError, MalformedFileError, MissingFileError, MissingFolderError

SUFFIXES = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".webp")

FORMATS = ("JPEG", "PNG", "TIFF", "WEBP", "MPO")
"""The decoders that are used, whatever the name of the file."""

ORIENTATION = 0x0112
"""The EXIF field that says how a picture is turned."""

MAX_PIXELS = 150_000_000
"""Larger pictures are refused before they are decoded."""

LARGE_PIXELS = 20_000_000
"""Of pictures larger than this, one is decoded at a time."""

_ONE_LARGE = threading.Semaphore(1)

WORKING_SIDE = 512
"""Pictures are reduced so that their longer side has this many pixels."""


def pillow() -> Any:
    """Import Pillow."""
    try:
        import PIL.Image
        import PIL.ImageOps

        _without_warnings()
    except ImportError as error:
        raise EngineError("Pictures need Pillow. Install it with: pip install 'mergesvm[app]'") from error
    return PIL


@cache
def _without_warnings() -> None:
    """Silence Pillow: broken metadata do no harm, and sizes are checked here."""
    warnings.filterwarnings("ignore", module=r"PIL\.")


def list_pictures(folder: Path) -> list[str]:
    """Return the names of all pictures in a folder and its sub-folders, with / between folders, sorted.

    Hidden files and folders, links that lead out of the folder, and names that are not valid text are left out.
    """
    if not folder.is_dir():
        raise MissingFolderError(f"{folder} is not a folder. Give the folder that holds the pictures.")
    root, names = folder.resolve(), []
    for path in folder.rglob("*"):
        relative = path.relative_to(folder)
        if any(part.startswith(".") for part in relative.parts) or path.suffix.lower() not in SUFFIXES:
            continue
        if _is_text(str(relative)) and path.is_file() and path.resolve().is_relative_to(root):
            names.append(relative.as_posix())
    return sorted(names)


def _is_text(name: str) -> bool:
    """Whether a name can be written as UTF-8; other names of files can be neither sent nor kept."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def find_picture(folder: Path, name: str) -> Path:
    """Return the path of a picture by its name in a folder; an error if the name leads elsewhere."""
    path = folder / name
    parts = Path(name).parts
    inside = not Path(name).is_absolute() and ".." not in parts and not any(part.startswith(".") for part in parts)
    inside = inside and PurePosixPath(name).as_posix() == name and _is_text(name)  # one name for each picture
    if not inside or path.suffix.lower() not in SUFFIXES or not os.path.isfile(path):  # noqa: PTH113 (False if too long)
        raise MissingFileError(f"There is no picture {name!r} in the folder.")
    if not path.resolve().is_relative_to(folder.resolve()):
        raise MissingFileError(f"The picture {name!r} is a link that leads out of the folder.")
    return path


def open_picture(path: Path, side: int = WORKING_SIDE) -> NDArray[np.uint8]:
    """Return the pixels of a picture, (height, width, 3), upright, reduced to a longer side of at most ``side``."""
    return np.asarray(open_image(path, side), dtype=np.uint8)


def open_image(path: Path, side: int) -> Any:
    """Return a picture as an RGB image of Pillow, upright, reduced to a longer side of at most ``side``."""
    library = pillow()
    try:
        with library.Image.open(path, formats=FORMATS) as image:
            if image.width * image.height > MAX_PIXELS:
                raise MalformedFileError(
                    f"{path.name} has {image.width} x {image.height} pixels, more than {MAX_PIXELS:,}. Reduce it."
                )
            image.draft("RGB", (side, side))
            with _ONE_LARGE if image.width * image.height > LARGE_PIXELS else nullcontext():
                image.load()
                upright = library.ImageOps.exif_transpose(image)
                return _rgb(_reduced(upright, side), library)
    except MalformedFileError:
        raise
    except MemoryError as error:
        raise MalformedFileError(f"{path.name} is too large to be decoded.") from error
    except Exception as error:
        # Decoders raise errors of many kinds for damaged files.
        raise MalformedFileError(f"{path.name} cannot be decoded: {error}. Replace or remove it.") from error


def thumbnail(path: Path, side: int) -> bytes:
    """Return a reduced picture as a JPEG file."""
    out = io.BytesIO()
    open_image(path, side).save(out, "JPEG", quality=80)
    return out.getvalue()


def _reduced(image: Any, side: int) -> Any:
    longer = max(image.size)
    if longer <= side:
        return image
    size = tuple(max(1, round(length * side / longer)) for length in image.size)
    if image.mode in ("P", "1"):
        image = image.convert("RGBA" if "transparency" in image.info else "RGB")
    return image.resize(size, pillow().Image.Resampling.BOX, reducing_gap=2.0)


def _rgb(image: Any, library: Any) -> Any:
    """Convert to RGB: 16-bit grey to 8 bits, transparent parts to white."""
    if image.mode.startswith("I") or image.mode == "F":
        values = np.asarray(image, dtype=np.float64)
        largest = 255.0 if values.max(initial=0) <= 255 else 65535.0
        image = library.Image.fromarray((np.clip(values / largest, 0, 1) * 255).astype(np.uint8))
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = library.Image.new("RGBA", image.size, "white")
        image = library.Image.alpha_composite(white, image)
    return image.convert("RGB")


def picture_size(path: Path) -> tuple[int, int]:
    """Return the height and the width of a picture, upright, without decoding it."""
    library = pillow()
    try:
        with library.Image.open(path, formats=FORMATS) as image:
            turned = image.getexif().get(ORIENTATION, 1) in (5, 6, 7, 8)
            return (image.width, image.height) if turned else (image.height, image.width)
    except Exception as error:
        raise MalformedFileError(f"{path.name} cannot be decoded: {error}. Replace or remove it.") from error


def open_mask(path: Path, size: tuple[int, int]) -> NDArray[np.bool_]:
    """Return which pixels of a mask are not 0, scaled to a size (height, width)."""
    library = pillow()
    try:
        with library.Image.open(path, formats=FORMATS) as image:
            if image.width * image.height > MAX_PIXELS:
                raise MalformedFileError(f"{path.name} has more than {MAX_PIXELS:,} pixels. Reduce it.")
            resized = image.resize((size[1], size[0]), library.Image.Resampling.NEAREST)
            values = np.asarray(resized)
    except MalformedFileError:
        raise
    except Exception as error:
        raise MalformedFileError(f"{path.name} cannot be decoded: {error}. Replace or remove it.") from error
    return np.asarray(values.reshape(*size, -1).any(axis=2))

"""Files to take away: strokes as CSV, JSON and COCO, and models."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mergesvm.errors import FileError
from mergesvm.tagging.annotations import Annotation
from mergesvm.tagging.learners import WindowScorer
from mergesvm.tagging.library import mask_name, mask_png, plain_cell
from mergesvm.tagging.pictures import picture_size
from mergesvm.tagging.session import TaggingSession
from mergesvm.tagging.strokes import Box

CSV_COLUMNS = ("picture", "tag", "author", "key", "created", "width", "negative", "points")


def strokes_csv(session: TaggingSession) -> bytes:
    """Return all strokes as CSV: a line per stroke, with its points as x y pairs."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(CSV_COLUMNS)
    for each in session.annotations.of():
        stroke = each.stroke
        points = " ".join(f"{x:.6g} {y:.6g}" for x, y in stroke.points)
        texts = [plain_cell(text) for text in (each.picture, each.tag, each.author, each.key)]
        writer.writerow([*texts, each.created, stroke.width, str(stroke.negative).lower(), points])
    return out.getvalue().encode()


def strokes_json(session: TaggingSession) -> bytes:
    """Return all strokes as JSON."""
    return json.dumps([each.as_json() for each in session.annotations.of()], indent=1).encode()


def strokes_coco(session: TaggingSession) -> bytes:
    """Return the bounding boxes of the strokes of each tag and picture in the format of COCO."""
    groups: dict[tuple[str, str], list[Annotation]] = {}
    for each in session.annotations.of():
        if not each.stroke.negative:
            groups.setdefault((each.picture, each.tag), []).append(each)
    sizes: dict[str, tuple[int, int]] = {}
    for picture, _ in groups:
        try:
            sizes[picture] = picture_size(session.check_name(picture))
        except FileError:
            continue  # a picture that is gone or broken has no size
    pictures, tags = sorted(sizes), sorted({tag for _, tag in groups})
    annotations: list[dict[str, Any]] = []
    for (picture, tag), group in sorted(groups.items()):
        if picture not in sizes:
            continue
        box = Box.around([each.stroke for each in group], *sizes[picture])
        width, height = box.right - box.left, box.bottom - box.top
        annotations.append(
            {
                "id": len(annotations) + 1,
                "image_id": pictures.index(picture) + 1,
                "category_id": tags.index(tag) + 1,
                "bbox": [box.left, box.top, width, height],
                "area": width * height,
                "iscrowd": 0,
            }
        )
    images = [
        {"id": at + 1, "file_name": name, "height": sizes[name][0], "width": sizes[name][1]}
        for at, name in enumerate(pictures)
    ]
    categories = [{"id": at + 1, "name": tag} for at, tag in enumerate(tags)]
    return json.dumps({"images": images, "annotations": annotations, "categories": categories}, indent=1).encode()


def masks_zip(session: TaggingSession, scorer: WindowScorer, threshold: float) -> bytes:
    """Return a ZIP archive with the mask of each picture as PNG, 255 where the tag was found."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name in session.names:
            try:
                mask = session.heat_map(scorer, name).mask(threshold)
            except (FileError, OSError):
                continue  # a broken picture has no mask
            archive.writestr(mask_name(name), mask_png(mask))
    return out.getvalue()


def model_file(model: Any, suffix: str) -> bytes:
    """Return a model as the content of a file: ``msvm``, or ``onnx``."""
    with TemporaryDirectory() as folder:
        path = Path(folder, f"model.{suffix}")
        if suffix == "onnx":
            model.to_onnx(path)
        else:
            model.save(path)
        return path.read_bytes()


EXPORTS: dict[str, tuple[Callable[[TaggingSession], bytes], str, str]] = {
    "csv": (strokes_csv, "strokes.csv", "text/csv; charset=utf-8"),
    "json": (strokes_json, "strokes.json", "application/json"),
    "coco": (strokes_coco, "strokes.coco.json", "application/json"),
}
"""How strokes are exported: a function, the name of the file, and its media type."""

"""Routes of the tagging application: pictures, strokes, heat maps, models."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse

from mergesvm.app.events import Events
from mergesvm.app.requests import Forgetting, HeatMapsWanted, NewStroke, Removal
from mergesvm.errors import DataError, KnowledgeError, MergeSVMError
from mergesvm.tagging.heat_map import SCORE_RANGE, HeatMap
from mergesvm.tagging.learners import LEARNERS, WindowScorer
from mergesvm.tagging.pictures import thumbnail
from mergesvm.tagging.session import TaggingSession
from mergesvm.tagging.strokes import Stroke

VIEW_SIDE = 2048
"""The longer side of a picture that is shown alone."""

Tag = Annotated[str, Query(min_length=1, max_length=100)]
Threshold = Annotated[float, Query(ge=-1e6, le=1e6, allow_inf_nan=False)]


def tagging_routes(session: TaggingSession, events: Events) -> APIRouter:
    """Return the routes of a session."""
    router = APIRouter(prefix="/api", tags=["tagging"])

    @router.get("/state")
    def state() -> dict[str, Any]:
        """The pictures, the tags, and the learners to choose from."""
        return {
            "folder": session.folder.resolve().name,
            "pictures": session.names,
            "tags": session.annotations.tags(),
            "learners": list(LEARNERS),
            "score_range": SCORE_RANGE,
        }

    @router.get("/events", response_class=StreamingResponse)
    async def news() -> StreamingResponse:
        """What others do, as server-sent events."""
        return StreamingResponse(
            events.subscribe(), media_type="text/event-stream", headers={"cache-control": "no-store"}
        )

    @router.get("/thumbnails/{name:path}", response_class=Response)
    def small_picture(name: str) -> Response:
        """A reduced picture, as JPEG."""
        session.check_name(name)
        return _jpeg(session.cache.thumbnail(name))

    @router.get("/pictures/{name:path}", response_class=Response)
    def picture(name: str) -> Response:
        """A picture at a size to look at, upright, as JPEG."""
        return _jpeg(thumbnail(session.check_name(name), VIEW_SIDE))

    @router.get("/strokes")
    def strokes(tag: str | None = None, picture: str | None = None) -> list[dict[str, Any]]:
        """The strokes of a tag, a picture, or both."""
        return [annotation.as_json() for annotation in session.annotations.of(tag, picture)]

    @router.post("/strokes", status_code=201)
    def add_stroke(new: NewStroke) -> dict[str, Any]:
        """Keep a stroke: it is on disk when this answers."""
        stroke = Stroke(tuple(new.points), new.width, new.negative)
        added = session.add(new.key, new.picture, new.tag, stroke, new.author)
        events.publish(kind="strokes", tag=added.tag, picture=added.picture, changes=[f"+{added.key}"])
        return added.as_json()

    @router.post("/strokes/remove")
    def remove_strokes(removal: Removal) -> dict[str, Any]:
        """Remove strokes, and forget what was learned from them."""
        removed = session.remove(removal.keys)
        for tag, name in {(each.tag, each.picture) for each in removed}:
            keys = [f"-{each.key}" for each in removed if (each.tag, each.picture) == (tag, name)]
            events.publish(kind="strokes", tag=tag, picture=name, changes=keys)
        return {"removed": [each.key for each in removed]}

    @router.post("/forget")
    def forget(what: Forgetting) -> dict[str, Any]:
        """Remove all strokes of a tag in a picture, or in all pictures."""
        return remove_strokes_of(what.tag, what.picture)

    def remove_strokes_of(tag: str, picture: str | None) -> dict[str, Any]:
        keys = [each.key for each in session.annotations.of(tag, picture)]
        session.remove(keys)
        if keys:
            events.publish(kind="strokes", tag=tag, picture=picture, changes=[])
        return {"removed": keys}

    @router.get("/facts")
    def facts(tag: Tag, method: str = "merge") -> dict[str, Any]:
        """What a tag was learned from, and the size of its model."""
        return session.facts(tag, method)

    @router.get("/accuracy")
    def accuracy(tag: Tag, method: str = "merge", threshold: Threshold = 0.0) -> dict[str, Any]:
        """Precision and recall against the true masks, if there are any, over pictures that are not tagged."""
        counts = session.accuracy(tag, method, threshold)
        return {"precision": counts.precision, "recall": counts.recall, "pictures": counts.pictures}

    @router.get("/masks", response_class=Response)
    def masks(tag: Tag, method: str = "merge", threshold: Threshold = 0.0) -> Response:
        """A mask of each picture, as PNG files in a ZIP archive."""
        from mergesvm.tagging.exports import masks_zip

        return _download(masks_zip(session, trained(tag, method), threshold), f"{tag}-masks.zip", "application/zip")

    @router.post("/heat-maps", response_class=StreamingResponse)
    def heat_maps(wanted: HeatMapsWanted) -> Response:
        """Where a tag was found: one line of JSON per picture, in the order in which they are wanted."""
        scorer = session.scorer(wanted.tag, wanted.method)
        names = session.names if wanted.pictures is None else wanted.pictures

        def lines() -> Iterator[str]:
            if scorer is None:
                return
            for name in names:
                try:
                    yield json.dumps(_found(name, session.heat_map(scorer, name))) + "\n"
                except (MergeSVMError, OSError) as error:
                    yield json.dumps({"picture": name, "error": str(error)}) + "\n"

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    def trained(tag: str, method: str) -> WindowScorer:
        scorer = session.scorer(tag, method)
        if scorer is None:
            raise KnowledgeError(f"Nothing was learned about {tag!r} yet. Stroke over it in a picture first.")
        return scorer

    @router.get("/model", response_class=Response)
    def model(tag: Tag, method: str = "merge", format: str = "file") -> Response:  # noqa: A002
        """The model of a tag, as a file of mergesvm or as an ONNX graph."""
        from mergesvm.tagging.exports import model_file

        scorer = trained(tag, method)
        suffix = {"file": "msvm", "onnx": "onnx"}.get(format)
        if suffix is None:
            raise DataError(f"There is no format {format!r}. Available: file, onnx.")
        return _download(model_file(scorer.model, suffix), f"{tag}.{suffix}", "application/octet-stream")

    @router.get("/export", response_class=Response)
    def export(format: str = "json") -> Response:  # noqa: A002
        """All strokes, as CSV, JSON or COCO."""
        from mergesvm.tagging.exports import EXPORTS

        if format not in EXPORTS:
            raise DataError(f"There is no format {format!r}. Available: {', '.join(EXPORTS)}.")
        write, name, media_type = EXPORTS[format]
        return _download(write(session), name, media_type)

    return router


def _found(name: str, heat_map: HeatMap) -> dict[str, Any]:
    lines, columns = heat_map.scores.shape
    rank = heat_map.rank_score
    return {
        "picture": name,
        "rank": rank if math.isfinite(rank) else None,
        "size": heat_map.size,
        "origin": heat_map.origin,
        "step": heat_map.step,
        "lines": lines,
        "columns": columns,
        "scores": base64.b64encode(heat_map.as_bytes()).decode(),
    }


def _jpeg(data: bytes) -> Response:
    return Response(data, media_type="image/jpeg", headers={"cache-control": "private, max-age=60"})


def _download(data: bytes, name: str, media_type: str) -> Response:
    plain = "".join(letter if (letter.isalnum() and letter.isascii()) or letter in "-_." else "_" for letter in name)
    headers = {"content-disposition": f'attachment; filename="{plain}"'}
    return Response(data, media_type=media_type, headers=headers)

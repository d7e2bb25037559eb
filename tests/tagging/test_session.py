"""Strokes on made pictures: the tag is found elsewhere, and forgotten without a trace."""

from __future__ import annotations

import json
import os
import zipfile
from contextlib import closing
from io import BytesIO

import numpy as np
import pytest
from PIL import Image
from sklearn.svm import SVC

import mergesvm as ms
from mergesvm.errors import DataError, MissingFileError
from mergesvm.tagging.exports import masks_zip, model_file, strokes_coco, strokes_csv, strokes_json
from mergesvm.tagging.heat_map import HeatMap
from mergesvm.tagging.library import LibraryScorer
from mergesvm.tagging.session import STATE_FOLDER, TaggingSession
from mergesvm.tagging.strokes import Stroke
from mergesvm.tagging.windows import Windows
from tagging_pictures import stroke_over, write_pictures


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    return folder, write_pictures(folder)


@pytest.fixture
def session(made):
    folder, masks = made
    for path in (folder / STATE_FOLDER).glob("strokes.sqlite*"):
        path.unlink()
    with closing(TaggingSession(folder)) as opened:
        opened.masks = masks
        yield opened


def stroke(session, picture, tag, key=None):
    session.add(key or f"{tag} on {picture}", picture, tag, stroke_over(session.masks[picture]))


def ranks(session, tag, method="merge"):
    scorer = session.scorer(tag, method)
    return {name: session.heat_map(scorer, name).rank_score for name in session.names}


@pytest.mark.parametrize("method", ["merge", "kernel"])
def test_a_stroke_over_one_tiger_finds_the_other_tigers(session, method):
    stroke(session, "tiger0.png", "tiger")
    found = ranks(session, "tiger", method)
    others = {name: rank for name, rank in found.items() if name != "tiger0.png"}
    best = sorted(others, key=others.get, reverse=True)[:3]
    assert set(best) == {"tiger1.png", "tiger2.png", "tiger3.png"}
    mask = session.heat_map(session.scorer("tiger", method), "tiger1.png").mask()
    true = session.masks["tiger1.png"]
    assert (mask & true).sum() / max(1, mask.sum()) > 0.8
    assert (mask & true).sum() / true.sum() > 0.2


@pytest.mark.parametrize("method", ["merge", "kernel"])
def test_a_forgotten_picture_leaves_the_model_of_the_others_to_the_bit(session, method):
    stroke(session, "tiger0.png", "tiger")
    before = ranks(session, "tiger", method)
    stroke(session, "zebra1.png", "tiger", "wrong")
    assert ranks(session, "tiger", method) != before
    session.remove(["wrong"])
    assert ranks(session, "tiger", method) == before
    session.remove(["tiger on tiger0.png"])
    assert session.scorer("tiger", method) is None
    assert session.facts("tiger", method)["pictures"] == []


def test_the_order_of_strokes_and_a_restart_change_nothing(session):
    for name in ("tiger0.png", "tiger1.png", "zebra0.png"):
        stroke(session, name, "animal")
    first = session.scorer("animal").model.coef_
    for name in ("tiger0.png", "tiger1.png", "zebra0.png"):
        session.remove([f"animal on {name}"])
    for name in ("zebra0.png", "tiger1.png", "tiger0.png"):
        stroke(session, name, "animal")
    np.testing.assert_array_equal(session.scorer("animal").model.coef_, first)
    with closing(TaggingSession(session.folder)) as again:
        np.testing.assert_array_equal(again.scorer("animal").model.coef_, first)


def test_merged_pieces_are_the_batch_and_units_are_svc(session):
    rows = []
    for name in ("tiger0.png", "tiger2.png"):
        stroke(session, name, "tiger")
        rows.append(session.patch_rows(name, "tiger", [stroke_over(session.masks[name])]))
    X = np.concatenate([session.correlogram.transform(each.pixels) for each in rows]).astype(np.float64)
    y = np.concatenate([each.shows_tag for each in rows])
    assert (len(y), y.sum()) == (700, 200)
    batch = ms.solve(ms.learn(X, y), 1e-5, "balanced", penalize_intercept=False)
    merged = session.scorer("tiger").model
    np.testing.assert_allclose(merged.coef_, batch.coef_, rtol=1e-6, atol=1e-12)
    machine, svc = session.scorer("tiger", "kernel").model, SVC(class_weight="balanced", tol=1e-5).fit(X, y)
    np.testing.assert_allclose(machine.decision_function(X), svc.decision_function(X), atol=5e-3)


def test_heat_maps_are_the_scores_of_the_windows(session):
    stroke(session, "tiger0.png", "tiger")
    scorer = session.scorer("tiger")
    heat = session.heat_map(scorer, "tiger1.png")
    pixels = np.asarray(Image.open(session.folder / "tiger1.png"))
    line, column = 5, 11
    window = pixels[line * 8 : line * 8 + 60, column * 8 : column * 8 + 100].reshape(1, -1)
    means = scorer.model.moments.means[0]
    expected = scorer.model.decision_function(window)[0] * 2 / (means[1] - means[0])
    np.testing.assert_allclose(heat.scores[line, column], expected, rtol=1e-3, atol=1e-3)
    # The pixel in the centre of the window takes its score.
    assert heat.mask(expected - 0.01)[line * 8 + 30, column * 8 + 50]
    assert not heat.mask(expected + 0.01)[line * 8 + 30, column * 8 + 50]


def test_a_negative_stroke_makes_pictures_like_that_less_likely(session):
    stroke(session, "tiger0.png", "tiger")
    before = ranks(session, "tiger")
    wrong = stroke_over(session.masks["zebra0.png"])
    session.add("not this", "zebra0.png", "tiger", Stroke(wrong.points, wrong.width, negative=True))
    after = ranks(session, "tiger")
    assert session.facts("tiger")["pictures"] == ["tiger0.png", "zebra0.png"]
    assert after["zebra1.png"] < before["zebra1.png"] - 0.1
    assert after["tiger1.png"] > 0.9


def test_pictures_that_are_tagged_later_no_longer_lend_counter_examples(session):
    session.add("all", "tiger0.png", "tiger", Stroke(((0.0, 0.0), (1.0, 1.0)), 1.0))
    session.scorer("tiger")
    for name in session.names[1:-1]:
        stroke(session, name, "tiger")
        session.scorer("tiger")
    live = session.scorer("tiger").model.coef_
    with closing(TaggingSession(session.folder)) as again:
        np.testing.assert_array_equal(again.scorer("tiger").model.coef_, live)


def test_counter_examples_come_from_another_picture_if_strokes_are_everywhere(session):
    everywhere = [Stroke(((0.0, 0.0), (1.0, 1.0)), 1.0)]
    rows = session.patch_rows("tiger0.png", "tiger", everywhere)
    assert (rows.shows_tag.sum(), (~rows.shows_tag).sum()) == (100, 250)


def test_true_masks_give_precision_and_recall(session, tmp_path):
    for name, mask in session.masks.items():
        true = mask if name.startswith("tiger") else np.zeros_like(mask)
        (tmp_path / "tiger").mkdir(exist_ok=True)
        Image.fromarray(true.astype(np.uint8)).save(tmp_path / "tiger" / name)
    stroke(session, "tiger0.png", "tiger")
    with closing(TaggingSession(session.folder, truth=tmp_path)) as judged:
        counts = judged.accuracy("tiger")
        assert counts.pictures == len(session.names) - 1
        scorer, found = judged.scorer("tiger"), np.zeros(3)
        for name in session.names:
            if name != "tiger0.png":
                mask = judged.heat_map(scorer, name).mask()
                true = session.masks[name] & name.startswith("tiger")
                found += (mask & true).sum(), mask.sum(), true.sum()
        assert counts.precision == pytest.approx(found[0] / found[1])
        assert counts.recall == pytest.approx(found[0] / found[2])
        assert judged.accuracy("unknown").precision is None


def test_pictures_that_break_or_are_too_small_stop_nothing(made, tmp_path):
    masks = write_pictures(tmp_path / "p", 2)
    (tmp_path / "p" / "broken.jpg").write_bytes(b"nothing")
    Image.fromarray(np.zeros((20, 20, 3), np.uint8)).save(tmp_path / "p" / "tiny.png")
    with closing(TaggingSession(tmp_path / "p")) as session:
        session.masks = masks
        stroke(session, "tiger0.png", "tiger")
        session.add("t", "tiny.png", "tiger", Stroke(((0.5, 0.5),)))
        session.add("b", "broken.jpg", "tiger", Stroke(((0.5, 0.5),)))
        assert session.facts("tiger")["pictures"] == ["tiger0.png"]
        assert session.heat_map(session.scorer("tiger"), "tiny.png").rank_score == -np.inf
        tiny = session.heat_map(session.scorer("tiger", "kernel"), "tiny.png")
        assert tiny.scores.size == 0
        with pytest.raises(MissingFileError):
            session.add("x", "none.png", "tiger", Stroke(((0.5, 0.5),)))
        with pytest.raises(DataError, match="no learner 'forest'"):
            session.scorer("tiger", "forest")


def test_windows_are_cached_until_the_picture_changes(made, session):
    folder, _ = made
    first = session.windows("zebra3.png")
    assert session.cache.cached("zebra3.png")
    (file,) = (
        path
        for path in (folder / STATE_FOLDER / "windows").iterdir()
        if path.stem == session.cache._key("zebra3.png", folder / "zebra3.png")
    )
    assert (Windows.read(file, 256).counts == first.counts).all()
    file.write_bytes(file.read_bytes()[:-8])
    assert Windows.read(file, 256) is None
    assert (session.windows("zebra3.png").counts == first.counts).all()
    os.utime(folder / "zebra3.png", ns=(1, 1))
    assert not session.cache.cached("zebra3.png")


def test_exports(session, tmp_path):
    stroke(session, "tiger0.png", "tiger")
    session.add("=1+1", "zebra0.png", "zebra", Stroke(((0.5, 0.5),)), author="@home")
    text = strokes_csv(session).decode().splitlines()
    assert len(text) == 3
    assert "'=1+1" in text[2]
    assert "'@home" in text[2]
    assert [each["tag"] for each in json.loads(strokes_json(session))] == ["tiger", "zebra"]
    coco = json.loads(strokes_coco(session))
    assert [each["name"] for each in coco["categories"]] == ["tiger", "zebra"]
    left, top, width, height = coco["annotations"][0]["bbox"]
    lines, columns = np.nonzero(session.masks["tiger0.png"])
    assert columns.min() < left < left + width < columns.max()
    assert lines.min() < top < top + height < lines.max()
    with zipfile.ZipFile(BytesIO(masks_zip(session, session.scorer("tiger"), 0.0))) as archive:
        assert archive.namelist() == [f"{name}.png" for name in session.names]
        mask = np.asarray(Image.open(BytesIO(archive.read("tiger1.png.png"))))
    np.testing.assert_array_equal(mask > 0, session.heat_map(session.scorer("tiger"), "tiger1.png").mask())


@pytest.mark.parametrize("method", ["merge", "kernel"])
def test_exported_models_find_the_same(session, tmp_path, method):
    stroke(session, "tiger0.png", "tiger")
    scorer = session.scorer("tiger", method)
    (tmp_path / "tiger.msvm").write_bytes(model_file(scorer.model, "msvm"))
    applied = LibraryScorer.of(ms.load_model(tmp_path / "tiger.msvm"), session.correlogram)
    for finding in applied.find(session.folder, 2):
        expected: HeatMap = session.heat_map(scorer, finding.picture)
        np.testing.assert_allclose(finding.heat_map.scores, expected.scores, rtol=1e-6, atol=1e-6)

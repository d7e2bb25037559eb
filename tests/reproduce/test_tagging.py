"""Figures 3 and 4 of Alpcan and Bauckhage on made pictures."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image
from sklearn.svm import SVC

from cli.commandline import ok, run
from mergesvm.reproduce.tagging.photos import ANIMAL, UNKNOWN, Photo, made_photo
from mergesvm.reproduce.tagging.tagging import QUICK
from mergesvm.reproduce.tagging.trials import TRAININGS, TaggedPhoto, run_trial
from mergesvm.tagging.session import default_correlogram
from mergesvm.tagging.strokes import stroked_pixels


def test_the_quick_run_prints_both_learners_and_draws_both_figures(tmp_path):
    done = json.loads(ok("reproduce", "tagging", "--quick", "--picture", "tagging.png", "--json", cwd=tmp_path))
    assert [(row["learner"], row["size"]) for row in done["table"]] == [
        ("kernel", 5),
        ("kernel", None),
        ("merge", None),
    ]
    for row in done["table"]:
        for training in TRAININGS:
            assert 0 < row[training]["precision"] <= 1
            assert 0 < row[training]["recall"] <= 1
    assert done["table"][0]["support_vectors"] == 5
    with Image.open(tmp_path / "tagging.png") as picture:
        assert min(picture.size) > 300


def test_precision_and_recall_of_the_kernel_machine_are_those_of_svc():
    correlogram = default_correlogram()
    photos = [TaggedPhoto(made_photo("tiger", number, 0), correlogram) for number in range(4)]
    found = run_trial((photos[0], photos[1]), photos[2:], (), QUICK.sampling)
    both = next(row for row in found if (row["learner"], row["training"]) == ("kernel", TRAININGS[2]))
    rows = [photo.rows(QUICK.sampling) for photo in photos[:2]]
    X = np.concatenate([correlogram.transform(each.pixels) for each in rows])
    y = np.concatenate([each.shows_tag for each in rows])
    svc = SVC(class_weight="balanced", tol=1e-4).fit(X, y)
    features = np.concatenate([photo.features.toarray() for photo in photos[2:]])
    truth = np.concatenate([photo.truth for photo in photos[2:]]) == ANIMAL
    positive = svc.predict(features)
    assert both["precision"] == pytest.approx(np.mean(truth[positive]), abs=0.01)
    assert both["recall"] == pytest.approx(np.mean(positive[truth]), abs=0.01)


def test_strokes_lie_on_the_animal():
    photo = made_photo("zebra", 1, 3)
    covered = stroked_pixels(photo.strokes(), *photo.trimap.shape)
    assert len(photo.strokes()) == 3
    assert (photo.trimap[covered] == ANIMAL).mean() > 0.97


def test_unclassified_windows_do_not_count():
    photo = made_photo("tiger", 0, 0)
    unknown = TaggedPhoto(Photo("unknown", photo.pixels, np.full_like(photo.trimap, UNKNOWN)), default_correlogram())
    tagged = TaggedPhoto(photo, unknown.correlogram), TaggedPhoto(made_photo("tiger", 1, 0), unknown.correlogram)
    assert all(row["precision"] is None for row in run_trial(tagged, [unknown], (), QUICK.sampling))


def test_missing_pictures_are_named(tmp_path):
    answer = run("reproduce", "tagging", "--data", tmp_path, cwd=tmp_path)
    assert answer.returncode == 2
    assert "There are no pictures in" in answer.stderr

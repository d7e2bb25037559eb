from __future__ import annotations

import re

import numpy as np
import pytest
from scipy.special import softmax

from mergesvm.analysis.evaluation import Evaluation
from mergesvm.reports.evaluation_page import evaluation_page
from mergesvm.reports.formatting import plain
from reports.pages import HOSTILE, Page, assert_self_contained


def evaluation_of(classes, n=1_000, seed=0, unknown=(), **options):
    generator = np.random.default_rng(seed)
    codes = generator.integers(0, len(classes), n)
    shares = softmax(generator.normal(size=(n, len(classes))) + 3 * np.eye(len(classes))[codes], axis=1)
    labels = np.array(classes, dtype=object)
    truth = labels[codes]
    for at, label in enumerate(unknown):
        truth[at::50] = label
    evaluation = Evaluation(tuple(classes))
    evaluation.add(truth, labels[shares.argmax(axis=1)], shares, **options)
    return evaluation


CASES = {
    "one class": evaluation_of(["only"]),
    "two classes": evaluation_of([False, True]),
    "ten classes": evaluation_of(range(10)),
    "forty-seven classes": evaluation_of(range(47)),
    "sixty classes": evaluation_of(range(60)),
    "more classes than rows in the table": evaluation_of(range(260), n=3_000),
    "unknown classes": evaluation_of(["a", "b", "c"], unknown=["x", "y"]),
    "many unknown classes": evaluation_of(["a", "b"], unknown=[f"u{i}" for i in range(20)]),
    "weights": evaluation_of(["a", "b"], weights=np.linspace(0, 1e-3, 1_000)),
    "hostile names": evaluation_of(HOSTILE),
    "two hostile names": evaluation_of(HOSTILE[:2], unknown=HOSTILE[2:3]),
    "a row": evaluation_of(["a", "b", "c"], n=1),
    "nothing": Evaluation(("a", "b")),
    "nothing of three": Evaluation(("a", "b", "c")),
    "nothing of sixty": Evaluation(tuple(range(60))),
}


@pytest.mark.parametrize("evaluation", CASES.values(), ids=CASES)
def test_the_page_is_valid_and_self_contained(evaluation):
    text = evaluation_page(evaluation, "A title", {"model": "m.msvm", "data": "t.parquet"})
    assert text.startswith("<!doctype html>")
    page = assert_self_contained(text)
    assert page.tags.count("title") >= 1
    assert ("html", "lang", "en") in page.attributes
    assert "@import" not in text
    assert page.tags.count("svg") >= 6
    assert all(dict(attributes).get("aria-label") for attributes in page.charts)
    text.encode("utf-8")


@pytest.mark.parametrize("name", [name for name in CASES if "hostile" not in name])
def test_the_page_has_no_urls_and_no_scripts(name):
    text = evaluation_page(CASES[name], "A title", {})
    for foreign in ("http://", "https://", "<script", "javascript:"):
        assert foreign not in text


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_titles_facts_and_names_are_escaped(name):
    text = evaluation_page(CASES["hostile names"], name, {name: name, "model": name})
    page = Page(text)
    assert "script" not in page.tags
    assert "img" not in page.tags
    assert "<script" not in text
    shown = "".join(page.texts)
    assert plain(name) in shown
    assert not re.search("[\x00-\x08\u202e\ud800]", text)


def test_the_page_shows_the_numbers_of_the_evaluation():
    evaluation = CASES["ten classes"]
    text = evaluation_page(evaluation, "Ten", {"C": "0.25"})
    page = Page(text)
    for shown in (
        f"{evaluation.accuracy:.1%}",
        f"{evaluation.balanced_accuracy:.1%}",
        f"{evaluation.auc():.3f}",
        f"{evaluation.average_precision():.3f}",
        f"{evaluation.log_loss:.3f}",
        f"{evaluation.brier:.3f}",
        f"{evaluation.calibration_error():.1%}",
        "1,000",
        "0.25",
        *(f"{value:.3f}" for value in [*evaluation.precision, *evaluation.recall, *evaluation.f1]),
    ):
        assert shown in page.texts
    counts = evaluation.confusion
    for true, predicted in np.argwhere(counts > 0):
        share = counts[true, predicted] / counts[true].sum()
        assert f"{true} → {predicted}: {counts[true, predicted]:.0f} ({share:.1%})" in page.texts
    areas = [evaluation.auc(index) for index in range(10)]
    best, worst = int(np.argmax(areas)), int(np.argmin(areas))
    assert f"best, {best}: AUC {areas[best]:.3f}" in page.texts
    assert f"worst, {worst}: AUC {areas[worst]:.3f}" in page.texts


def test_curves_of_two_classes_are_those_of_the_last():
    page = Page(evaluation_page(CASES["two classes"], "Two", {}))
    assert f"True: AUC {CASES['two classes'].auc(1):.3f}" in page.texts
    assert not [text for text in page.texts if "best" in text or text.startswith("False: AUC")]


def test_undefined_numbers_are_dashes():
    page = Page(evaluation_page(CASES["nothing"], "Nothing", {}))
    assert page.texts.count("-") >= 7
    assert "nan" not in " ".join(page.texts)


def test_unknown_classes_are_marked():
    text = evaluation_page(CASES["unknown classes"], "Unknown", {})
    assert "Orange names are unknown to the model." in text
    assert "x (unknown to the model)" in text
    assert "20 others" in evaluation_page(CASES["many unknown classes"], "Unknown", {})


def test_with_many_classes_only_the_most_confused_are_shown():
    text = evaluation_page(CASES["sixty classes"], "Sixty", {})
    assert "the 30 most confused of 60" in text
    counts = CASES["sixty classes"].confusion
    np.fill_diagonal(counts, 0)
    true, predicted = np.unravel_index(counts.argmax(), counts.shape)
    share = counts.max() / CASES["sixty classes"].support[true]
    assert f"{true} → {predicted}: {counts.max():.0f} ({share:.1%})" in text


def test_pages_of_many_classes_stay_small():
    assert len(evaluation_page(CASES["forty-seven classes"], "Many", {})) < 400_000
    assert len(evaluation_page(CASES["more classes than rows in the table"], "More", {})) < 400_000


def contrast(one, other):
    light = []
    for colour in (one, other):
        colour = colour if len(colour) == 6 else "".join(c + c for c in colour)
        parts = [int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4)]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        light.append(np.dot(linear, [0.2126, 0.7152, 0.0722]) + 0.05)
    return max(light) / min(light)


def test_text_has_contrast_in_light_dark_and_print():
    text = evaluation_page(CASES["two classes"], "Two", {})
    themes = [dict(re.findall(r"--(\w+): #(\w{6}|\w{3});", block)) for block in re.findall(r":root \{([^}]*)\}", text)]
    assert len(themes) == 3
    for theme in themes:
        assert contrast(theme["ink"], theme["card"]) > 10
        assert contrast(theme["soft"], theme["card"]) > 4.5
        assert contrast(theme["soft"], theme["page"]) > 4.5
        assert contrast(theme["on"], theme["main"]) > 4.5
        for line in ("main", "good", "bad"):
            assert contrast(theme[line], theme["card"]) > 3

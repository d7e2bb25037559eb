"""The page in a real browser: stroke, find, undo, forget, reload; two people; a small screen; the keyboard alone."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from app.served import serving
from tagging_pictures import HEIGHT, WIDTH, write_pictures

BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)

if BROWSER is None and "MERGESVM_REQUIRE_BROWSER" not in os.environ:
    pytest.skip("there is no Chromium", allow_module_level=True)

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.timeout(600)]

MILLISECONDS = 120_000


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        assert BROWSER is not None, "install Chromium: apt-get install chromium"
        launched = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield launched
        launched.close()


@pytest.fixture
def served(tmp_path):
    masks = write_pictures(tmp_path / "pictures", 3)
    with serving(tmp_path / "pictures") as server:
        server.masks = masks
        yield server


@contextmanager
def opened(browser, server, **options):
    """A person's page; an error on it or a request to elsewhere fails the test."""
    context = browser.new_context(**options)
    context.set_default_timeout(MILLISECONDS)
    page, problems = context.new_page(), []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on(
        "request",
        lambda request: (
            None if request.url.startswith((server.address, "blob:", "data:")) else (problems.append(request.url))
        ),
    )
    page.goto(server.address)
    expect(page.locator(".card")).to_have_count(len(server.masks))
    yield page
    context.close()
    assert problems == []


def until(page, expression):
    """Wait until an expression is true; the page's policy forbids that it is evaluated there again and again."""
    for _ in range(MILLISECONDS // 100):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(100)
    raise AssertionError(expression)


def choose(page, tag):
    page.locator("#tag").fill(tag)
    page.locator("#tag").press("Tab")


def open_picture(page, name):
    page.locator(f".card[data-name='{name}'] button").click()
    expect(page.locator("#editor-title")).to_have_text(name)
    until(page, "document.querySelector('#canvas').width > 300 || innerWidth < 500")
    page.wait_for_timeout(300)


def place(page, x, y):
    """Where a point of the picture, in fractions, is on the screen."""
    stage = page.locator("#stage").bounding_box()
    scale = min(stage["width"] / WIDTH, stage["height"] / HEIGHT)
    left, top = (stage["width"] - WIDTH * scale) / 2, (stage["height"] - HEIGHT * scale) / 2
    return stage["x"] + left + x * WIDTH * scale, stage["y"] + top + y * HEIGHT * scale


def stroke(page, mask, touch=False):
    lines, columns = mask.nonzero()
    y, left, right = lines.mean() / HEIGHT, columns.min() / WIDTH, columns.max() / WIDTH
    points = [place(page, left + part * (right - left), y) for part in (0.25, 0.4, 0.6, 0.75)]
    page.mouse.move(*points[0])
    page.mouse.down()
    for point in points[1:]:
        page.mouse.move(*point, steps=3)
    page.mouse.up()


def saved(page, count):
    expect(page.locator("#editor-status")).to_contain_text(f"{count} stroke")
    expect(page.locator("#editor-status")).to_contain_text("saved")


def status(page, text):
    expect(page.locator("#status")).to_contain_text(text, timeout=MILLISECONDS)


def names(page):
    return [card.get_attribute("data-name") for card in page.locator(".card").all()]


def heat(page, name):
    """The number of pixels of a card over which the tag was found."""
    return page.locator(f".card[data-name='{name}'] canvas").evaluate(
        "canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height)"
        ".data.filter((value, at) => at % 4 === 3 && value > 0).length"
    )


def keep_picture(page, name):
    """Keep a screenshot where the variable MERGESVM_SCREENSHOTS says."""
    if folder := os.environ.get("MERGESVM_SCREENSHOTS"):
        page.screenshot(path=Path(folder, name))


def test_a_stroke_is_found_elsewhere_undone_forgotten_and_there_after_a_reload(browser, served):
    with opened(browser, served, viewport={"width": 1200, "height": 850}) as page:
        choose(page, "tiger")
        status(page, "Nothing is known about tiger")
        open_picture(page, "tiger0.png")
        stroke(page, served.masks["tiger0.png"])
        saved(page, 1)
        keep_picture(page, "editor.png")
        page.locator("#undo").click()
        saved(page, 0)
        page.locator("#redo").click()
        saved(page, 1)
        page.locator("#close").click()
        status(page, "1 tagged, 6 searched")
        until(page, "document.querySelectorAll('.card')[0].dataset.name.startsWith('tiger')")
        assert {name[:5] for name in names(page)[:3]} == {"tiger"}
        assert heat(page, "tiger1.png") > 100
        assert heat(page, "zebra1.png") < heat(page, "tiger1.png")
        keep_picture(page, "found.png")
        page.reload()
        expect(page.locator("#tag")).to_have_value("tiger")
        status(page, "1 tagged, 6 searched")
        assert {name[:5] for name in names(page)[:3]} == {"tiger"}
        page.locator("[data-forget='tiger0.png']").click()
        status(page, "Nothing is known about tiger")
        assert heat(page, "tiger1.png") == 0
        page.reload()
        status(page, "Nothing is known about tiger")


def test_erasing_zooming_and_negative_strokes(browser, served):
    with opened(browser, served) as page:
        choose(page, "tiger")
        open_picture(page, "tiger0.png")
        stroke(page, served.masks["tiger0.png"])
        saved(page, 1)
        page.keyboard.press("n")
        page.mouse.move(*place(page, 0.05, 0.05))
        page.mouse.down()
        page.mouse.up()
        saved(page, 2)
        page.keyboard.press("e")
        stroke(page, served.masks["tiger0.png"])
        saved(page, 1)
        with served.client() as client:
            (kept,) = client.get("/api/strokes").json()
        assert kept["negative"]
        # Under the pointer is the same place of the picture after zooming.
        page.keyboard.press("b")
        at = place(page, 0.3, 0.7)
        page.mouse.move(*at)
        page.mouse.wheel(0, -400)
        page.wait_for_timeout(200)
        page.mouse.down()
        page.mouse.up()
        saved(page, 2)
        with served.client() as client:
            point = client.get("/api/strokes").json()[-1]["points"][0]
        assert point == pytest.approx([0.3, 0.7], abs=0.01)


def test_two_people_see_the_work_of_each_other(browser, served):
    with opened(browser, served) as one, opened(browser, served) as two:
        for page in (one, two):
            choose(page, "animal")
            status(page, "Nothing is known")
        open_picture(one, "tiger0.png")
        stroke(one, served.masks["tiger0.png"])
        status(two, "1 tagged")
        open_picture(two, "zebra0.png")
        stroke(two, served.masks["zebra0.png"])
        status(one, "2 tagged")
        two.locator("#close").click()
        two.locator("[data-forget='tiger0.png']").click()
        expect(one.locator("#undo")).to_be_visible()
        status(one, "1 tagged")
        expect(one.locator("#forget")).to_be_disabled()


def test_a_small_screen_shows_everything_without_scrolling_sideways(browser, served):
    options = {"viewport": {"width": 400, "height": 800}, "has_touch": True, "color_scheme": "dark"}
    with opened(browser, served, **options) as page:
        choose(page, "tiger")
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        open_picture(page, "tiger0.png")
        for selector in ("#close", "#undo", "#redo", "#forget", "#stage", "[data-tool=eraser]", "#brush"):
            box = page.locator(selector).bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 400
            assert box["y"] + box["height"] <= 800
        assert page.locator("#stage").bounding_box()["height"] > 250
        page.touchscreen.tap(*place(page, 0.5, 0.5))
        saved(page, 1)
        keep_picture(page, "small.png")


def test_the_keyboard_alone_suffices(browser, served):
    with opened(browser, served) as page:
        page.keyboard.press("Tab")  # the link to the pictures
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == "tag"
        page.keyboard.type("tiger")
        page.keyboard.press("Tab")
        status(page, "Nothing is known about tiger")
        for _ in range(30):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.closest('.card')?.dataset.name") == "tiger0.png":
                break
        page.keyboard.press("Enter")
        expect(page.locator("#editor-title")).to_have_text("tiger0.png")
        page.wait_for_timeout(500)
        assert page.evaluate("document.activeElement.id") == "stage"
        page.keyboard.press("Enter")
        for _ in range(10):
            page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        saved(page, 1)
        with served.client() as client:
            (kept,) = client.get("/api/strokes").json()
        assert kept["points"][0] == pytest.approx([0.5, 0.5], abs=1e-3)
        assert kept["points"][-1] == pytest.approx([0.7, 0.5], abs=1e-3)
        page.keyboard.press("Control+z")
        saved(page, 0)
        page.keyboard.press("Control+Shift+z")
        saved(page, 1)
        page.keyboard.press("Escape")
        status(page, "1 tagged")


def test_names_with_markup_are_text(browser, tmp_path):
    masks = write_pictures(tmp_path / "pictures", 1)
    strange = "<img src=x onerror=alert(1)> & #1?.png"
    (tmp_path / "pictures" / "tiger0.png").rename(tmp_path / "pictures" / strange)
    (tmp_path / "pictures" / "broken.jpg").write_bytes(b"nothing")
    with serving(tmp_path / "pictures") as server:
        server.masks = {strange: masks["tiger0.png"], "zebra0.png": masks["zebra0.png"], "broken.jpg": None}
        context = browser.new_context()
        context.set_default_timeout(MILLISECONDS)
        page = context.new_page()
        alerts = []
        page.on("dialog", lambda dialog: (alerts.append(dialog.message), dialog.dismiss()))
        page.goto(server.address)
        expect(page.locator(".card.broken")).to_have_count(1)
        choose(page, "<b>tiger</b>")
        page.locator(".card button").first.click()
        expect(page.locator("#editor-title")).to_have_text(strange)
        page.wait_for_timeout(500)
        stroke(page, masks["tiger0.png"])
        saved(page, 1)
        page.locator("#close").click()
        status(page, "1 tagged")
        expect(page.locator("#tagged-title")).to_have_text("Tagged <b>tiger</b>")
        assert alerts == []
        context.close()

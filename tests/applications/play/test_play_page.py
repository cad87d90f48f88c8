"""The page of `rkhs play` in a real browser: paint, fit, compare, copy, save, reload, keys and touch."""

import json
from threading import Thread

import pytest

from browser import Browser, needs_chromium
from rkhs._command.play.scene import answer
from rkhs._command.play.server import Server

pytestmark = needs_chromium
POINTS = "JSON.parse(sessionStorage.scene).points"
SOLVED = "document.getElementById('verdict').className === 'good'"


@pytest.fixture(scope="module")
def server():
    with Server() as own:
        Thread(target=own.serve_forever, daemon=True).start()
        yield own
        own.shutdown()


@pytest.fixture(scope="module")
def browser():
    with Browser() as own:
        yield own


@pytest.fixture
def page(browser, server):
    own = browser.open(server.address)
    own.run("sessionStorage.clear()")
    own.go(server.address)
    own.wait(SOLVED)
    yield own
    assert own.complaints == []


def board(page):
    """From places in [-1, 1]^2 to pixels of the window."""
    box = page.run("document.getElementById('board').getBoundingClientRect().toJSON()")
    return lambda a, b: (box["x"] + (a + 1) / 2 * box["width"], box["y"] + (1 - b) / 2 * box["width"])


def press(page, selector):
    page.run(f"document.querySelector({json.dumps(selector)}).click()")


def colors(page):
    """The color of the board at two places, left and right."""
    row = page.run("[...document.getElementById('board').getContext('2d').getImageData(0, 500, 1000, 1).data]")
    return row[400:404], row[3600:3604]


def test_paint_and_fit(page):
    press(page, "#clear")
    page.wait("document.getElementById('verdict').textContent.includes('two classes')")
    at = board(page)
    page.click(*at(-0.5, 0))
    press(page, "[data-tool='1']")
    page.mouse("mousePressed", *at(0.5, -0.4))
    for k in range(9):
        page.mouse("mouseMoved", *at(0.5, -0.4 + 0.1 * k), buttons=1)
    page.mouse("mouseReleased", *at(0.5, 0.4))
    page.wait(SOLVED)
    found = page.run(POINTS)
    assert found[0][2] == 0
    assert len(found) > 5
    assert {kind for _, _, kind in found[1:]} == {1}
    page.wait("document.getElementById('facts').textContent.includes('functionals')")
    left, right = colors(page)
    assert left[2] > left[0]  # blue
    assert right[0] > right[2]  # orange


def test_drag_a_point_and_undo(page):
    press(page, "#clear")
    at = board(page)
    page.click(*at(-0.5, 0))
    press(page, "[data-tool='1']")
    page.click(*at(0.5, 0))
    page.mouse("mousePressed", *at(0.5, 0))
    page.mouse("mouseMoved", *at(0.2, 0.6), buttons=1)
    page.mouse("mouseReleased", *at(0.2, 0.6))
    found = page.run(POINTS)
    assert len(found) == 2
    assert found[1] == pytest.approx([0.2, 0.6, 1], abs=0.01)
    page.run("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'z', ctrlKey: true}))")
    assert page.run(POINTS)[1] == pytest.approx([0.5, 0, 1], abs=0.01)


def test_priors_weights_and_comparison(page):
    before = page.run("document.getElementById('facts').textContent")
    for name in ("gradient", "repeats", "compare"):
        press(page, f"[name={name}]")
    page.wait("document.getElementById('facts').textContent.includes('plain SVM')")
    assert page.run("document.getElementById('facts').textContent") != before
    assert not page.run("document.getElementById('shift-row').hidden")
    page.run("window.slider = document.getElementById('scale'), slider.value = 0.1")
    page.run("slider.dispatchEvent(new Event('input', {bubbles: true}))")
    assert page.run("JSON.parse(sessionStorage.scene).scale") == pytest.approx(1.26)
    page.wait("document.querySelector('output[for=scale]').textContent === '1.26'")
    for name in ("rings", "line", "moons"):
        press(page, f"[data-example={name}]")
        page.wait(f"{POINTS}.length === {len(answer('example', {'name': name})['points'])}")
        page.wait(SOLVED)


def test_copy_save_and_reload(page, server):
    page.run("navigator.clipboard.writeText = async (text) => { window.copied = text }")
    press(page, "#copy")
    page.wait("window.copied !== undefined")
    code = page.run("window.copied")
    compile(code, "copied", "exec")
    assert "rkhs.Problem(" in code
    assert "GraphDifference(X" in code
    page.run("HTMLAnchorElement.prototype.click = function () { window.saved = [this.download, this.href] }")
    press(page, "#save")
    page.wait("window.saved !== undefined")
    assert page.run("window.saved[0]") == "rkhs-play.png"
    press(page, "[data-tool='2']")
    page.click(*board(page)(0.0, 0.95))
    before = page.run(POINTS)
    assert before[-1][2] == 2
    page.go(server.address)
    page.wait(SOLVED)
    assert page.run(POINTS) == before
    assert page.run("document.querySelector('[data-tool=\"2\"]').getAttribute('aria-pressed')") == "true"


def test_the_keyboard_alone(page):
    press(page, "#clear")
    page.run("document.getElementById('board').focus()")
    page.key("2", "2")
    for _ in range(4):
        page.key("ArrowRight")
    page.key("Enter", "\r")
    page.key("1", "1")
    for _ in range(8):
        page.key("ArrowLeft")
    page.key("Enter", "\r")
    page.wait(SOLVED)
    found = page.run(POINTS)
    assert [kind for _, _, kind in found] == [1, 0]
    assert found[1][0] == pytest.approx(found[0][0] - 0.4)
    page.key("Delete")
    assert len(page.run(POINTS)) == 1


def test_touch_and_a_narrow_window(browser, server):
    page = browser.open(server.address, 390, 844)
    page.call("Emulation.setTouchEmulationEnabled", {"enabled": True})
    page.wait(SOLVED)
    assert page.run("document.documentElement.scrollWidth") <= 390
    count = len(page.run(POINTS))
    x, y = board(page)(-0.9, 0.9)
    for kind, places in (("touchStart", [{"x": x, "y": y}]), ("touchEnd", [])):
        page.call("Input.dispatchTouchEvent", {"type": kind, "touchPoints": places})
    page.wait(f"{POINTS}.length === {count + 1}")
    assert page.complaints == []


def test_everything_that_can_be_used_has_a_name(page):
    unnamed = page.run(
        "[...document.querySelectorAll('button, input, select, canvas')].filter("
        "e => !(e.innerText || e.labels?.[0]?.innerText || e.ariaLabel)).map(e => e.outerHTML)"
    )
    assert unnamed == []

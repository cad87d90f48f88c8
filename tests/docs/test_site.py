"""Every page of the built site in a real browser: nothing fails, nothing is fetched from elsewhere, nothing is cut off.

`make docs site-test` builds the site and runs this.  RKHS_SITE names another folder than build/docs.
"""

import contextlib
import functools
import os
import shutil
import threading
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import pytest

SITE = Path(os.environ.get("RKHS_SITE", Path(__file__).resolve().parents[2] / "build" / "docs"))
PAGES = sorted(page.relative_to(SITE).as_posix() for page in SITE.rglob("*.html") if "_static" not in page.parts)
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

pytestmark = pytest.mark.skipif(not PAGES, reason=f"the site is not built in {SITE}: make docs")

# What is wider than the window and not in a box that scrolls, and what is wider than its own box and cannot scroll.
CUT_OFF = """() => {
  const scrolls = (e) => ["auto", "scroll"].includes(getComputedStyle(e).overflowX);
  const bad = [];
  for (const e of document.querySelectorAll("article pre, article table, article img, article mjx-container")) {
    const box = e.getBoundingClientRect();
    if (!box.width) continue;
    let held = false;
    for (let p = e; p && p !== document.body; p = p.parentElement)
      held = held || (scrolls(p) && p.getBoundingClientRect().right <= innerWidth + 1);
    const own = e.matches("pre") && e.scrollWidth > e.clientWidth + 1 && !scrolls(e);
    if ((box.right > innerWidth + 1 && !held) || own) bad.push(e.tagName + ": " + e.textContent.trim().slice(0, 80));
  }
  if (document.scrollingElement.scrollWidth > innerWidth + 1) bad.push("the page scrolls sideways");
  return bad;
}"""
LONG_CODE = """() => [...document.querySelectorAll("article pre")]
  .filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.textContent.trim().slice(0, 120))"""
UNSET = """() => [...document.querySelectorAll("article .math")]
  .filter((e) => !e.querySelector("mjx-container") || e.querySelector("mjx-merror")).map((e) => e.textContent)"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address():
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=SITE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install 'rkhs[site]'")
    if BROWSER is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    with playwright.sync_playwright() as running:
        found = running.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        with contextlib.closing(found):
            yield found


@pytest.fixture(scope="module")
def window(browser, address):
    """A page that keeps what went wrong, and cannot reach anything but this server."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.route("**/*", lambda route: route.continue_() if route.request.url.startswith(address) else route.abort())
    page = context.new_page()
    page.troubles = []
    page.on("console", lambda message: message.type == "error" and page.troubles.append(message.text))
    page.on("pageerror", lambda error: page.troubles.append(str(error)))
    page.on("requestfailed", lambda request: page.troubles.append(f"{request.url}: {request.failure}"))
    page.on("response", lambda response: response.status >= 400 and page.troubles.append(response.url))
    yield page
    context.close()


@pytest.fixture
def tab(window):
    window.goto("about:blank")
    window.troubles.clear()
    window.set_viewport_size({"width": 1280, "height": 900})
    return window


@pytest.mark.parametrize("name", PAGES)
def test_page(tab, address, name):
    tab.goto(address + name, wait_until="load")
    tab.evaluate("() => window.MathJax?.startup?.promise")
    assert tab.evaluate(UNSET) == [], "formulas that are not typeset"
    for width in (1280, 390):
        tab.set_viewport_size({"width": width, "height": 900})
        assert tab.evaluate(CUT_OFF) == [], f"cut off at {width} px"
    tab.set_viewport_size({"width": 1200, "height": 900})
    assert tab.evaluate(LONG_CODE) == [], "code that does not fit at 1,200 px"
    assert tab.troubles == []


def test_search_finds(tab, address):
    tab.goto(address + "search.html?q=gradient")
    tab.wait_for_selector("#search-results li a", timeout=20_000)
    assert tab.troubles == []


def test_code_can_be_copied(tab, address):
    tab.goto(address + "index.html")
    assert tab.locator("button.copybtn").count() >= 3


class Anchors(HTMLParser):
    """The links of a page, and the places that links may lead to."""

    def __init__(self, page):
        super().__init__()
        self.links, self.anchors = [], {""}
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        for key, value in attributes:
            if key in ("id", "name") and value:
                self.anchors.add(value)
            elif (tag, key) in {("a", "href"), ("img", "src"), ("link", "href"), ("script", "src")} and value:
                self.links.append(value)


def test_every_internal_link_leads_somewhere():
    pages = {name: Anchors(SITE / name) for name in PAGES}
    broken = []
    for name, page in pages.items():
        for link in page.links:
            if urlsplit(link).scheme or link.startswith("//"):
                continue
            path, place = urldefrag(urljoin(f"http://site/{name}", link))
            target = unquote(urlsplit(path).path).lstrip("/") or "index.html"
            if not (SITE / target).is_file() or (target in pages and unquote(place) not in pages[target].anchors):
                broken.append(f"{name}: {link}")
    assert broken == []

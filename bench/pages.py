"""The pages in headless Chromium: first paint, bytes, expanding, and a long-lived tab.

Each view is painted in a browser without a cache; times are the browser's own, from the start of the navigation.
"""

from __future__ import annotations

import random
import shutil
import statistics
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from bench import corpus
from bench.corpus import Made
from bench.house import House
from bench.row import Row, missing, value

CHROMIUM = ("chromium", "chromium-headless-shell")
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-precise-memory-info",
)
LOOKS = 5
CHANGES = 1_000
PAINT_MS, EXPAND_MS, TYPING_MS, BYTES_KB, GROWTH, TAB_MB = 1_000.0, 200.0, 50.0, 300.0, 1.5, 20.0
SETTLED_MS = 30_000

_PAINTED = "() => performance.getEntriesByName('first-contentful-paint').length > 0"
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
_BYTES = (
    "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]"
    ".filter(one => !one.name.endsWith('/events')).reduce((sum, one) => sum + one.transferSize, 0)"
)
_EXPANDED = """async dot => {
  const shown = new Promise(done => document.addEventListener("kgd:shown", done, { once: true }));
  const begun = performance.now();
  for (const [kind, detail] of [["click", 1], ["click", 2], ["dblclick", 2]])
    dot.dispatchEvent(new MouseEvent(kind, { detail, bubbles: true, cancelable: true }));
  await shown;
  await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - begun;
}"""
_ANSWERED = """async place => {
  const begun = performance.now();
  await (await fetch(place)).text();
  return performance.now() - begun;
}"""
_HEAP = "performance.memory.usedJSHeapSize"


def rows(workspaces: Sequence[Made], folder: Path, *, looks: int = LOOKS, changes: int = CHANGES) -> Iterator[Row]:
    """Rows of all sizes, then the largest compared with the smallest."""
    program = next(filter(None, map(shutil.which, CHROMIUM)), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        program = None
    if program is None:
        yield missing("pages in a browser", CHROMIUM[0], "it is not installed; `make test-deps` does that")
        return
    painted: dict[int, dict[str, float]] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(QUIET))
        for made in workspaces:
            with House(folder / f"pages-{made.nodes}") as house:
                house.up(made)
                house.settle()
                link = house.call("ui")["url"]
                state = _let_in(browser, link)
                painted[made.nodes] = yield from _paints(browser, state, link, made, looks)
                yield from _expanding(browser, state, link, made, looks)
                yield from _typing(browser, state, link, made, looks)
                if made is workspaces[0]:
                    yield from _tab(browser, state, link, house, changes)
        browser.close()
    least, most = min(painted), max(painted)
    if least < most:
        for view, first in painted[least].items():
            yield value(
                f"first paint of {view} as a share of {least:,} nodes",
                "x",
                painted[most][view] / first,
                GROWTH,
                nodes=most,
            )


def _let_in(browser: Any, link: str) -> Any:
    """The cookies of a browser that signed in with this link."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(link)
    page.wait_for_url("**/overview")
    state = context.storage_state()
    context.close()
    return state


def _views(made: Made) -> dict[str, str]:
    some = quote(corpus.uri_of(made.nodes // 2), safe="")
    return {
        "overview": "overview",
        "graph": f"graph?from={some}",
        "node": f"node?uri={some}",
        "review": "review",
        "search": f"search?q={corpus.WORDS[40]}",
    }


def _paints(browser: Any, state: Any, link: str, made: Made, looks: int) -> Generator[Row, None, dict[str, float]]:
    medians: dict[str, float] = {}
    for view, place in _views(made).items():
        times, sent = [], 0.0
        for _ in range(looks):
            context = browser.new_context(storage_state=state)
            page = context.new_page()
            page.goto(_at(link, place))
            page.wait_for_function(_PAINTED)
            times.append(page.evaluate(_PAINT))
            sent = page.evaluate(_BYTES)
            context.close()
        medians[view] = statistics.median(times)
        yield value(f"first paint of {view}", "ms", medians[view], PAINT_MS, nodes=made.nodes)
        yield value(f"bytes sent for {view}", "kB", sent / 1_000, BYTES_KB, nodes=made.nodes)
    return medians


def _expanding(browser: Any, state: Any, link: str, made: Made, looks: int) -> Iterator[Row]:
    """From a double click on a node of the drawing to the paint of the expanded drawing."""
    context = browser.new_context(storage_state=state)
    page = context.new_page()
    chance, times = random.Random(7), []
    for _ in range(looks):
        page.goto(_at(link, _views(made)["graph"]))
        nodes = page.locator("#drawing a.dot:not(:has(.mark))")
        times.append(nodes.nth(chance.randrange(nodes.count())).evaluate(_EXPANDED))
    context.close()
    yield value("expanding a node", "ms", statistics.median(times), EXPAND_MS, nodes=made.nodes)


def _typing(browser: Any, state: Any, link: str, made: Made, looks: int) -> Iterator[Row]:
    """The rows of the palette for the beginning of a name, from the request to the last byte."""
    context = browser.new_context(storage_state=state)
    page = context.new_page()
    page.goto(_at(link, "stale"))
    chance, times = random.Random(7), []
    for _ in range(4 * looks):
        name = corpus.uri_of(chance.randrange(made.nodes)).rpartition("/")[2]
        times.append(page.evaluate(_ANSWERED, _at(link, f"palette?q={name[: chance.randint(1, 6)]}")))
    context.close()
    yield value("rows of the palette while typing", "ms", statistics.median(times), TYPING_MS, nodes=made.nodes)


def _tab(browser: Any, state: Any, link: str, house: House, changes: int) -> Iterator[Row]:
    """The growth of an open tab after another client changed so many nodes."""
    context = browser.new_context(storage_state=state)
    page = context.new_page()
    page.goto(_at(link, "overview"))
    session = context.new_cdp_session(page)

    def heap() -> float:
        session.send("HeapProfiler.collectGarbage")
        return float(page.evaluate(_HEAP)) / 2**20

    before = heap()
    for number in range(changes):
        uri = f"insight://{corpus.WORKSPACE}/change-{number:04d}"
        house.call(
            "put", workspace=corpus.WORKSPACE, changes=[{"op": "upsert", "uri": uri, "summary": f"Change {number:04d}"}]
        )
    page.wait_for_selector(f"text=Change {changes - 1:04d}", timeout=SETTLED_MS)
    yield value(f"memory a tab has gained after {changes:,} changes", "MB", max(0.0, heap() - before), TAB_MB)
    context.close()


def _at(link: str, place: str) -> str:
    parts = urlsplit(link)
    return f"{parts.scheme}://{parts.netloc}/ui/w/{corpus.WORKSPACE}/{place}"

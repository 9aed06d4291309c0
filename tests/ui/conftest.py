"""A workspace behind a real daemon, and a real Chromium that opens its pages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, expect, sync_playwright

from kgd.client.connection import Connection
from kgd.config import Home
from tests import forked
from tests.conftest import ROOT
from tests.conftest import chromium as installed_chromium
from tests.daemon.conftest import end_daemon
from tests.surfaces.conftest import make_code

AXE = ROOT / "node_modules/axe-core/axe.min.js"
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--renderer-process-limit=1",  # the pages of a browser share a process: starting one costs as much as a page
]
OF_COLOURS = ["color-contrast", "link-in-text-block"]
"""The rules of axe whose findings depend on light or dark mode."""
WAIT = 20_000
"""Timeout of an expectation in milliseconds, for a busy machine."""
expect.set_options(timeout=WAIT)


class Desk:
    """A code repository with a workspace `shop`, a home, and the program and the daemon that belong to it."""

    def __init__(self, root: Path) -> None:
        self.home = Home.at(str(root / "home"))
        self.code = self.make(root / "shop")
        person = root / "person"
        person.mkdir()
        (person / ".gitconfig").write_text("[user]\n\tname = Ann Person\n\temail = ann@example.org\n")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        self.environment = {
            **inherited,
            "HOME": str(person),
            "GIT_CONFIG_NOSYSTEM": "1",
            "KGD_HOME": self.home.config,
            "PYTHONPATH": str(ROOT),
        }
        self.overview = ""
        """The address of the first page, once a browser is signed in."""
        self("up", "--quiet")

    def make(self, code: Path) -> Path:
        """Make the code repository."""
        return make_code(code)

    def __call__(self, *words: str, stdin: str = "") -> str:
        """What the program prints."""
        done = forked.run(words, self.code, self.environment, stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """The answer of one tool, from the daemon; quicker than a program."""
        with Connection(self.home) as connection:
            return connection.call(name, {"workspace": "shop", **arguments})

    def put(self, uri: str, **fields: Any) -> dict[str, Any]:
        """Write one node."""
        return self.call("put", changes=[{"op": "upsert", "uri": uri, **fields}])

    def node(self, uri: str) -> dict[str, Any]:
        """Return the current version of a node."""
        found: dict[str, Any] = self.call("get", uris=[uri], budget=100_000)["nodes"][0]
        return found

    def link(self) -> str:
        """Return a sign-in link."""
        return str(json.loads(self("ui", "--json"))["url"])

    def git(self, *words: str) -> str:
        """Run git in the workspace's work tree and return its output."""
        done = subprocess.run(
            ["git", "-C", str(self.code / ".kgd"), *words],
            env=self.environment,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout


@dataclass
class Watched:
    """Problems that a browser noticed: refused content, errors of scripts, requests to other hosts."""

    troubles: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """One for all tests of a module; each uses nodes of its own."""
    root = tmp_path_factory.mktemp("desk")
    made = Desk(root)
    yield made
    end_daemon(made.home)
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """Closed after the last test here, because other tests of the process cannot run an event loop meanwhile."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=installed_chromium(), args=QUIET)
        yield browser
        browser.close()


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture(scope="module")
def browsers(chromium: Browser) -> Iterator[list[BrowserContext]]:
    """The browser of a module, once a test has opened it: scripts and styles are loaded and compiled once.

    Its first page stays open, since a process without pages ends.
    """
    made: list[BrowserContext] = []
    yield made
    for one in made:
        one.close()


@pytest.fixture
def context(chromium: Browser, browsers: list[BrowserContext], watched: Watched) -> Iterator[BrowserContext]:
    """The browser of the module. A request to another host, or a refused request, fails the test at its end."""
    if not browsers:
        made = chromium.new_context(viewport={"width": 1200, "height": 800}, reduced_motion="reduce")
        made.set_default_timeout(WAIT)
        browsers.append(made)
        made.new_page()
    made = browsers[0]
    listeners: dict[str, Callable[..., None]] = {
        "console": lambda said: _note_error(said, watched),
        "weberror": lambda error: watched.troubles.append(str(error.error)),
        "request": lambda asked: _note_other_host(asked.url, watched),
        "close": lambda _: browsers.clear(),
    }
    for event, listener in listeners.items():
        made.on(event, listener)  # type: ignore[call-overload]
    yield made
    for event, listener in listeners.items():
        made.remove_listener(event, listener)
    if browsers:
        made.clear_permissions()
        for page in made.pages[1:]:
            page.close()
    assert not watched.elsewhere
    assert not watched.troubles


def _note_error(said: ConsoleMessage, watched: Watched) -> None:
    """Note an error of the console, except that a whole page answered 404: it is about a thing that does not exist."""
    is_page = said.page is not None and said.location["url"] == said.page.url
    if said.type == "error" and not (is_page and "status of 404" in said.text):
        watched.troubles.append(said.text)


@pytest.fixture
def page(context: BrowserContext, desk: Desk, watched: Watched) -> Page:
    """A page of a signed-in browser, at the overview, with nothing remembered from earlier tests."""
    made = context.new_page()
    answer = made.goto(desk.overview) if desk.overview else None
    if not answer or not answer.ok:  # never signed in, or signed out by an earlier test
        made.goto(desk.link())
        made.wait_for_url("**/overview")
        desk.overview = made.url
        watched.troubles.clear()
    if context.pages[0].url == "about:blank":
        context.pages[0].goto(desk.overview.partition("/ui/")[0] + "/ui/static/keys.js")
    made.evaluate("localStorage.clear()")
    return made


def at(page: Page, place: str) -> Page:
    """Go to a page of the workspace."""
    parts = urlsplit(page.url)
    page.goto(f"{parts.scheme}://{parts.netloc}/ui/w/shop/{place}")
    return page


def account(page: Page) -> Locator:
    """Open the account menu of a page."""
    page.get_by_role("button", name="Account").click()
    return page.locator("#account")


def axe(page: Page) -> list[str]:
    """Return the findings of axe on this page: of all rules in light mode, of those about colours in dark mode."""
    page.evaluate(AXE.read_text())  # not by a script element, which the page's policy would refuse
    found: list[str] = []
    for scheme, rules in (("light", None), ("dark", OF_COLOURS)):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        options = {"runOnly": rules} if rules else {}
        told = page.evaluate("options => axe.run(options).then(found => found.violations)", options)
        found += [f"{scheme}: {one['id']}: {one['nodes'][0]['html'][:200]}" for one in told]
    return found


def _note_other_host(url: str, watched: Watched) -> None:
    if urlsplit(url).hostname != "127.0.0.1":
        watched.elsewhere.append(url)

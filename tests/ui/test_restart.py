"""The daemon ends under an open page: the page reports it, reconnects, and loses nothing."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from kgd.client import start
from kgd.client.connection import Connection
from kgd.errors import Unauthorized, Unavailable
from kgd.model.browser_state import LINK_SECONDS, SESSIONS_EACH, Visitor
from kgd.ui.sessions import IDLE_SECONDS, Sessions
from tests.ui.conftest import Desk, Watched, at
from tests.waiting import until

GONE = "kgd does not answer"


@pytest.fixture
def open_page(page: Page, watched: Watched) -> Iterator[Page]:
    """A page with a marker that a reload would remove."""
    page.evaluate("window.sameAsBefore = true")
    yield page
    watched.troubles.clear()  # the browser notes each failed attempt to listen


def pid_of(desk: Desk) -> int:
    with Connection(desk.home) as connection:
        return int(connection.call("ping", {})["pid"])


@pytest.mark.slow
@pytest.mark.needs("chromium")
def test_a_page_reports_a_stopped_daemon_and_shows_later_changes(desk: Desk, open_page: Page) -> None:
    os.kill(pid_of(desk), signal.SIGKILL)
    expect(open_page.locator("#connection")).to_contain_text(GONE)
    desk.put("insight://shop/meanwhile", name="Written meanwhile", summary="While the page had no connection")
    expect(open_page.locator("main")).to_contain_text("Written meanwhile")
    expect(open_page.locator("#connection")).to_be_hidden()
    assert open_page.evaluate("window.sameAsBefore")
    assert desk.call("status")["daemon"]["pages"]["url"] in open_page.url


@pytest.mark.slow
@pytest.mark.needs("chromium")
def test_typed_text_outlives_the_daemon(desk: Desk, open_page: Page) -> None:
    at(open_page, "workspaces/tokens/mint").get_by_text("Create a token for later").click()
    open_page.get_by_label("Name").press_sequentially("half-typ")
    os.kill(pid_of(desk), signal.SIGKILL)
    expect(open_page.locator("#connection")).to_contain_text(GONE)
    desk("status")
    expect(open_page.locator("#connection")).not_to_contain_text(GONE)
    open_page.get_by_label("Name").press_sequentially("ed-agent")
    open_page.get_by_role("button", name="Create token").click()
    expect(open_page.locator("h1")).to_have_text("Token of half-typed-agent")


@pytest.mark.slow
@pytest.mark.needs("chromium")
def test_open_pages_delay_neither_a_stop_nor_a_newer_daemon(desk: Desk, open_page: Page) -> None:
    pages = [open_page, *(open_page.context.new_page() for _ in range(2))]
    for one in pages[1:]:
        one.goto(open_page.url)
    started = time.monotonic()
    desk("down")
    assert time.monotonic() - started < start.RETIRE_SECONDS
    desk("status")
    for one in pages:
        expect(one.locator("#connection")).to_be_hidden()
    before = pid_of(desk)
    start.retire(desk.home)  # like the first command of a newer kgd
    assert pid_of(desk) != before
    desk.put("insight://shop/newer", name="By the newer one", summary="Written by the newer one")
    # A page may wait ten seconds before it asks the new daemon, and the machine may be busy.
    expect(pages[-1].locator("main")).to_contain_text("By the newer one", timeout=60_000)


@pytest.mark.slow
@pytest.mark.needs("chromium")
def test_a_page_asks_again_within_ten_seconds_however_often_it_was_refused(open_page: Page) -> None:
    open_page.clock.install()
    open_page.route("**/events?*", lambda asked: asked.fulfill(status=503))
    with open_page.expect_response("**/events?*"):
        open_page.reload()
    for _ in range(8):
        expect(open_page.locator("#connection")).to_contain_text(GONE)
        with open_page.expect_response("**/events?*"):
            open_page.clock.run_for(10_000)
    open_page.unroute("**/events?*")
    open_page.clock.run_for(10_000)
    expect(open_page.locator("#connection")).to_be_hidden()


@pytest.mark.slow
@pytest.mark.needs("chromium")
def test_a_hidden_page_holds_no_connection(desk: Desk, open_page: Page) -> None:
    """A browser has six connections to one server."""
    hide = """(hidden) => {
        Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    pages = [open_page]
    for _ in range(7):
        pages[-1].evaluate(hide, True)
        pages.append(open_page.context.new_page())
        pages[-1].goto(open_page.url)
    desk.put("insight://shop/seen", name="It is seen by the last one", summary="At once")
    expect(pages[-1].locator("main")).to_contain_text("seen by the last")
    open_page.evaluate(hide, False)
    expect(open_page.locator("main")).to_contain_text("seen by the last")


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(tmp_path: Path, clock: Clock) -> Sessions:
    return Sessions(tmp_path / "sessions.json", clock)


def test_an_open_page_stays_signed_in_for_a_month_and_an_idle_session_ends(
    sessions: Sessions, clock: Clock, tmp_path: Path
) -> None:
    open_one, closed_one = (sessions.open(Visitor()) for _ in range(2))
    for _ in range(30 * 24):
        clock.now += 3_600
        assert sessions.visitor(open_one) == Visitor()
    assert sessions.visitor(closed_one) is None
    again = Sessions(tmp_path / "sessions.json", clock)  # as after a restart
    assert again.visitor(open_one) == Visitor()
    clock.now += IDLE_SECONDS + 1
    assert again.visitor(open_one) is None
    assert not again.some


def test_stored_sessions_open_nothing_and_are_readable_only_by_their_owner(sessions: Sessions, tmp_path: Path) -> None:
    key = sessions.open(Visitor("token0"), "A browser\x1b[31m\n")
    file = tmp_path / "sessions.json"
    assert key not in file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    assert "\x1b" not in sessions.browsers()[0].program
    assert sessions.visitor(sessions.browsers()[0].id) is None


def test_an_unreadable_file_of_sessions_only_ends_the_sessions(tmp_path: Path, clock: Clock) -> None:
    for broken in (b"", b"{", b"[]", b'{"a": 1}', b'{"a": {"token": "", "seen": "x"}}', b"\xff"):
        (tmp_path / "sessions.json").write_bytes(broken)
        assert not Sessions(tmp_path / "sessions.json", clock).some
    assert Sessions(tmp_path / "sessions.json", clock).open(Visitor())


def test_an_expired_link_signs_in_no_browser(sessions: Sessions, clock: Clock) -> None:
    code = sessions.invite(Visitor())
    clock.now += LINK_SECONDS + 1
    assert sessions.invited(code) is None


def test_too_many_sessions_end_the_oldest_session_of_the_same_visitor(sessions: Sessions, clock: Clock) -> None:
    person = sessions.open(Visitor())
    keys = []
    for _ in range(SESSIONS_EACH + 5):
        clock.now += 1
        keys.append(sessions.open(Visitor("busy")))
    assert sessions.visitor(person) == Visitor()
    assert [sessions.visitor(key) is None for key in keys[:6]] == [True] * 5 + [False]


@pytest.mark.slow
def test_ending_daemons_release_their_port(desk: Desk) -> None:
    first = desk.call("ui")["url"].partition("/in/")[0]
    assert (urlsplit(first).port or 0) < 32_768, "an outgoing connection may take the port meanwhile"
    desk("down")
    until(lambda: not start.running(desk.home))
    assert desk.call("ui")["url"].partition("/in/")[0] == first


def test_a_link_stays_valid_if_its_session_cannot_be_stored(sessions: Sessions, tmp_path: Path) -> None:
    code = sessions.invite(Visitor())
    (tmp_path / "sessions.new").mkdir()  # makes writing fail, as on a full disk
    with pytest.raises(Unavailable):
        sessions.enter(code)
    assert not sessions.some, "its key was never handed out"
    (tmp_path / "sessions.new").rmdir()
    assert sessions.enter(code)


def test_a_session_ended_on_a_full_disk_does_not_return_with_a_restart(
    sessions: Sessions, tmp_path: Path, clock: Clock
) -> None:
    left, *others = (sessions.open(Visitor()) for _ in range(3))
    (tmp_path / "sessions.new").mkdir()
    sessions.close(left)
    sessions.end(sessions.browsers()[0].id)
    assert sessions.visitor(left) is None
    again = Sessions(tmp_path / "sessions.json", clock)
    assert not again.some
    (tmp_path / "sessions.new").rmdir()
    still = [key for key in others if sessions.visitor(key)]
    assert len(still) == 1, "the other session must continue"


def test_a_wrong_clock_extends_no_link_and_no_session(sessions: Sessions, tmp_path: Path, clock: Clock) -> None:
    right = clock.now
    clock.now += 5 * 365 * 86_400
    code, session = sessions.invite(Visitor()), sessions.open(Visitor())
    clock.now = right
    assert sessions.invited(code) is None
    with pytest.raises(Unauthorized):
        sessions.enter(code)
    again = Sessions(tmp_path / "sessions.json", clock)
    assert again.some
    clock.now += IDLE_SECONDS + 1
    assert again.visitor(session) is None
    good = sessions.invite(Visitor())
    clock.now -= 2  # a small correction of the clock
    assert sessions.enter(good)

"""The contract of `BrowserState`, with each implementation."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgd.model.browser_state import (
    CLOCK_SECONDS,
    LINK_SECONDS,
    LINKS_EACH,
    SESSIONS_EACH,
    BrowserState,
    Link,
    SignedIn,
    Visitor,
)
from kgd.postgres.database import Database
from kgd.postgres.hub_state import PostgresBrowserState
from kgd.ui.sessions import SessionFile
from tests import postgres_server

NOW = 1_800_000_000.0
ANN, BOB = Visitor("ann00000"), Visitor("bob00000")


@pytest.fixture(params=["file", pytest.param("postgres", marks=pytest.mark.needs("postgres"))])
def state(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BrowserState]:
    if request.param == "file":
        yield SessionFile(tmp_path / "sessions.json")
        return
    server: postgres_server.Server = request.getfixturevalue("postgres")
    with server.schema() as url:
        database = Database(url)
        yield PostgresBrowserState(database)
        database.close()


def session(visitor: Visitor = ANN, seen: float = NOW) -> SignedIn:
    return SignedIn(visitor, "A browser", NOW, seen)


def link(visitor: Visitor = ANN, until: float = NOW + LINK_SECONDS) -> Link:
    return Link(visitor, "/ui/w/infra", until)


@pytest.mark.slow
def test_a_session_is_found_until_it_ends(state: BrowserState) -> None:
    state.add("a", session())
    state.add("b", session(BOB))
    assert (state.find("a"), state.find("c")) == (session(), None)
    assert state.all() == {"a": session(), "b": session(BOB)}
    state.seen("a", NOW + 5)
    assert state.all()["a"].seen == NOW + 5
    state.end(["a", "unknown"])
    assert (state.find("a"), list(state.all())) == (None, ["b"])


def test_a_link_is_read_often_and_exchanged_once(state: BrowserState) -> None:
    state.add_link("code", link())
    assert state.link("code") == state.link("code") == link()
    assert state.exchange("code", "key", "A browser", NOW) == link()
    assert state.find("key") == session()
    assert state.exchange("code", "other", "", NOW) is None
    assert (state.link("code"), state.find("other")) == (None, None)


@pytest.mark.parametrize("until", [NOW - 1, NOW + LINK_SECONDS + CLOCK_SECONDS + 1])
def test_an_expired_link_and_a_link_from_the_future_sign_in_no_browser(state: BrowserState, until: float) -> None:
    state.add_link("code", link(until=until))
    assert state.exchange("code", "key", "", NOW) is None
    assert state.find("key") is None


def test_of_many_browsers_with_one_link_one_is_signed_in(state: BrowserState) -> None:
    state.add_link("code", link())
    found: list[Link | None] = []
    browsers = [
        threading.Thread(target=lambda n=n: found.append(state.exchange("code", f"key{n}", "", NOW))) for n in range(8)
    ]
    for one in browsers:
        one.start()
    for one in browsers:
        one.join(30)
    assert [one for one in found if one] == [link()]
    assert len(state.all()) == 1


def test_the_least_recently_used_session_and_the_oldest_link_of_a_holder_make_room(state: BrowserState) -> None:
    state.add("bob", session(BOB, NOW - 1))
    state.add_link("bob", link(BOB, NOW))
    for number in range(SESSIONS_EACH + 2):
        state.add(f"s{number}", session(seen=NOW + number))
    for number in range(LINKS_EACH + 2):
        state.add_link(f"l{number}", link(until=NOW + number))
    assert [name for name in ("s0", "s1", "s2", "bob") if state.find(name)] == ["s2", "bob"]
    assert [name for name in ("l0", "l1", "l2", "bob") if state.link(name)] == ["l2", "bob"]


def test_unused_sessions_are_forgotten_and_no_session_is_from_the_future(state: BrowserState) -> None:
    state.add("old", session(seen=NOW - 100))
    state.add("ahead", session(seen=NOW + 100))
    state.tidy(NOW - 50, NOW)
    assert {name: one.seen for name, one in state.all().items()} == {"ahead": NOW}


@pytest.mark.needs("postgres")
def test_a_database_gives_no_access_as_the_user_of_a_hubs_machine(request: pytest.FixtureRequest) -> None:
    server: postgres_server.Server = request.getfixturevalue("postgres")
    with server.schema() as url:
        database = Database(url)
        state = PostgresBrowserState(database)
        state.add("forged", session(Visitor()))
        state.add_link("forged", link(Visitor()))
        assert (state.find("forged"), state.link("forged")) == (None, None)
        assert state.exchange("forged", "key", "", NOW) is None
        database.close()


def test_all_links_end_at_once(state: BrowserState) -> None:
    state.add_link("code", link())
    state.end_links()
    assert state.link("code") is None


def test_a_message_is_shown_once(state: BrowserState) -> None:
    state.add("key", session())
    state.say("key", "Sa\0ved")
    assert [state.said("key"), state.said("key"), state.said("other")][1:] == ["", ""]
    state.say("key", "Saved")
    assert state.said("key") == "Saved"

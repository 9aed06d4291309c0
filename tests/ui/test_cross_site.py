"""Pages of other sites and odd requests read nothing and change nothing."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from kgd.ui.sessions import proof
from tests.ui.conftest import Desk, Watched
from tests.waiting import until

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: str


@dataclass
class Door:
    """The pages' port for a program that sends arbitrary requests."""

    desk: Desk
    host: str
    port: int
    cookie: str = ""
    key: str = ""
    kept: list[socket.socket] = field(default_factory=list)

    def ask(
        self,
        method: str,
        path: str,
        form: dict[str, str] | bytes | None = None,
        /,
        *,
        known: bool = True,
        **headers: str,
    ) -> Answer:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=20)
        sent = {"Cookie": self.cookie} if known and self.cookie else {}
        body = form if isinstance(form, bytes | None) else urlencode(form).encode()
        if body is not None:
            sent["Content-Type"] = "application/x-www-form-urlencoded"
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode())
        finally:
            connection.close()

    def come_in(self) -> Door:
        code = self.desk.link().rpartition("/")[2]
        answer = self.ask("POST", "/ui/in", {"code": code}, known=False)
        assert answer.status == 303
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        self.key = self.cookie.partition("=")[2]
        return self

    def raw(self, data: bytes) -> socket.socket:
        made = socket.create_connection((self.host, self.port), timeout=20)
        made.sendall(data)
        self.kept.append(made)
        return made


@pytest.fixture(scope="module")
def door(desk: Desk) -> Iterator[Door]:
    """A program that signed in once, like a browser."""
    place = urlsplit(desk.link())
    made = Door(desk, place.hostname or "", place.port or 0).come_in()
    yield made
    for one in made.kept:
        one.close()


END_ALL = "/ui/w/shop/workspaces/browsers"
"""A request with a visible effect: it signs out every browser."""


def is_let_in(door: Door) -> bool:
    return door.ask("GET", "/ui/w/shop/overview").status == 200


class _Evil(http.server.BaseHTTPRequestHandler):
    page = b""
    heard: list[str]

    def do_GET(self) -> None:
        self.heard.append(self.headers.get("Cookie", ""))
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(self.page)

    def log_message(self, *words: object) -> None: ...


@pytest.fixture
def evil() -> Iterator[tuple[str, type[_Evil]]]:
    """A page of another site on another port of this machine, which counts as the same site for cookies."""
    handler = type("Handler", (_Evil,), {"heard": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", handler
    server.shutdown()
    server.server_close()


def test_a_page_of_another_port_reads_nothing_and_does_nothing(
    desk: Desk, page: Page, door: Door, evil: tuple[str, type[_Evil]], watched: Watched
) -> None:
    """The user's browser has a session here and sends its cookie, because cookies ignore the port."""
    url, handler = evil
    here = page.url.partition("/ui/")[0]
    handler.page = (Path(__file__).parent / "stranger.html").read_text().replace("HERE", here).encode()
    before = desk.git("rev-parse", "HEAD")
    stranger = page.context.new_page()
    stranger.goto(url)
    expect(stranger.locator("body")).to_have_attribute("data-ok", "1")
    told = stranger.evaluate("window.told")
    assert {told[name] for name in ("read", "image", "script", "sheet", "events")} == {"failed"}, told
    assert told["blind"] in ("failed", "opaque 0")
    assert told["frame"] == "closed"
    frame = next(one for one in stranger.frames if one is not stranger.main_frame)
    assert "shop" not in frame.content()
    stranger.evaluate("document.getElementById('form').submit()")
    expect(stranger.locator("main")).to_contain_text("Other sites' pages may not send requests here")
    assert is_let_in(door)
    page.reload()
    expect(page.locator("h1")).not_to_have_text("Sign in")
    assert desk.git("rev-parse", "HEAD") == before
    # The cookie did reach that port, as cookies do, but only below the path that it is for.
    assert all("kgd" not in cookie for cookie in handler.heard)
    watched.troubles.clear()  # the browser reports the refusals to the other site's page


def test_a_link_from_another_site_does_not_switch_the_session_unasked(
    desk: Desk, page: Page, evil: tuple[str, type[_Evil]]
) -> None:
    url, handler = evil
    handler.page = f'<!doctype html><title>x</title><a href="{desk.link()}">look</a>'.encode()
    stranger = page.context.new_page()
    stranger.goto(url)
    stranger.get_by_role("link").click()
    expect(stranger.locator("main")).to_contain_text("Continue only if you asked for this link yourself")
    stranger.get_by_role("button", name="Open kgd").click()
    stranger.wait_for_url("**/overview")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "rebound.example"}, 421),
        ({"Host": "127.0.0.1:1"}, 421),
        ({"Host": ""}, 421),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
        ({"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "iframe"}, 403),
        ({"Sec_Fetch_Site": "same-origin", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "iframe"}, 403),
        ({"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}, 200),
        ({"Sec_Fetch_Site": "none"}, 200),
    ],
)
def test_the_origin_that_a_browser_reports_is_checked(door: Door, headers: dict[str, Any], status: int) -> None:
    answer = door.ask("GET", "/ui/w/shop/overview", **headers)
    assert answer.status == status
    assert ("glance" in answer.body) is (status == 200)


def test_a_form_needs_the_proof_of_its_own_session(desk: Desk, door: Door) -> None:
    other = Door(desk, door.host, door.port).come_in()
    for wrong in ("", "wrong", proof(""), proof(other.key), door.key):
        answer = door.ask("POST", END_ALL, {"proof": wrong})
        assert answer.status == 403, wrong
        assert wrong not in answer.body or not wrong
    assert door.ask("POST", END_ALL, {"proof": proof(door.key)}, known=False).status == 401
    assert door.ask("POST", END_ALL, {"proof": proof(door.key)}, Content_Type="text/plain").status == 422
    body = json.dumps({"proof": proof(door.key)}).encode()
    assert door.ask("POST", END_ALL, body, Content_Type="application/json").status == 422
    cross: dict[str, Any] = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
    assert door.ask("POST", END_ALL, {"proof": proof(door.key)}, **cross).status == 403
    assert is_let_in(door)
    assert is_let_in(other)


def test_a_link_works_once_and_opening_it_does_not_use_it_up(desk: Desk, door: Door) -> None:
    path = urlsplit(desk.link()).path
    for method in ("GET", "HEAD", "GET"):
        assert door.ask(method, path, known=False, Sec_Purpose="prefetch").status == 200
    code = path.rpartition("/")[2]
    assert door.ask("POST", "/ui/in", {"code": code}, known=False).status == 303
    again = door.ask("POST", "/ui/in", {"code": code}, known=False)
    assert again.status == 401
    assert code not in again.body
    assert door.ask("GET", path, known=False).status == 401
    assert "set-cookie" not in again.headers


def test_a_chosen_session_key_is_not_adopted(desk: Desk, door: Door) -> None:
    fixed = door.cookie.partition("=")[0] + "=" + "A" * 43
    code = desk.link().rpartition("/")[2]
    answer = door.ask("POST", "/ui/in", {"code": code}, known=False, Cookie=fixed)
    given = answer.headers["set-cookie"]
    assert "A" * 43 not in given
    assert {"HttpOnly", "Path=/ui", "SameSite=strict"} <= set(given.split("; "))
    assert door.ask("GET", "/ui/w/shop/overview", known=False, Cookie=fixed).status == 401
    # Whoever comes in again with the same browser has one session, and not two.
    first = given.partition(";")[0]
    code = desk.link().rpartition("/")[2]
    assert door.ask("POST", "/ui/in", {"code": code}, known=False, Cookie=first).status == 303
    assert door.ask("GET", "/ui/w/shop/overview", known=False, Cookie=first).status == 401


def test_a_cookie_opens_nothing_but_pages(door: Door) -> None:
    asked = door.ask("POST", "/v1/shop/status", b"{}", Content_Type="application/json")
    assert asked.status == 401
    assert json.loads(asked.body)["code"] == "UNAUTHORIZED"


def test_a_program_of_the_user_calls_every_tool_with_the_token_of_the_home(desk: Desk, door: Door) -> None:
    token = (Path(desk.home.state) / "http.token").read_text().strip()
    bearer = {"Authorization": f"Bearer {token}", "Content_Type": "application/json"}
    change = {"changes": [{"op": "upsert", "uri": "insight://shop/by-v1", "summary": "Written over HTTP"}]}
    done = door.ask("POST", "/v1/shop/put", json.dumps(change).encode(), known=False, **bearer)
    assert done.status == 200, done.body
    assert "by-v1" in desk.git("show", "--stat", json.loads(done.body)["commit"])
    assert json.loads(door.ask("POST", "/v1/shop/doctor", b"{}", known=False, **bearer).body)["checks"]
    assert json.loads(door.ask("GET", "/v1/workspaces", known=False, **bearer).body)["workspaces"] == ["shop"]
    described = json.loads(door.ask("GET", "/v1/openapi.json", known=False).body)
    assert "/v1/{workspace}/token_mint" in described["paths"]
    # What a page of another site could send is refused, with the token too.
    assert door.ask("POST", "/v1/shop/put", b"{}", known=False, **bearer | {"Content_Type": "text/plain"}).status == 422
    assert door.ask("POST", "/v1/shop/put", b"{}", known=False, **bearer, Origin="https://evil.example").status == 403
    assert door.ask("POST", "/v1/shop/put", b"{}", known=False, **bearer, Host="rebound.example").status == 421
    for wrong in ("", "Bearer ", f"Bearer {token}x", f"Basic {token}", token, "Bearer é"):
        refused = door.ask("POST", "/v1/shop/status", b"{}", known=False, **bearer | {"Authorization": wrong})
        assert refused.status == 401
        assert not wrong.strip() or wrong.split()[-1] not in refused.body or len(wrong) < 10
    assert door.ask("POST", "/v1/nowhere/status", b"{}", known=False, **bearer).status == 404
    assert door.ask("POST", "/v1/shop/nothing", b"{}", known=False, **bearer).status == 404
    assert door.ask("PUT", "/v1/shop/status", b"{}", known=False, **bearer).status == 405


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "DELETE", "PATCH", "TRACE"])
def test_other_methods_do_nothing(door: Door, method: str) -> None:
    answer = door.ask(method, END_ALL, {"proof": proof(door.key)})
    assert answer.status == 405
    assert "access-control-allow-origin" not in answer.headers
    assert "default-src 'none'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize(
    "path",
    [
        "/ui/static/../sessions.py",
        "/ui/static/%2e%2e/sessions.py",
        "/ui/static/..%2fsessions.py",
        "/ui/static/%2e%2e%2f%2e%2e%2fserver.py",
        "/ui/static//etc/passwd",
        "/ui/static/kgd.css%00.js",
        "/ui/static/KGD.CSS",
        "/ui/static/",
        "/ui/nothing",
        "/ui/w/shop/nothing",
        "/ui/w/nowhere/overview",
        "/ui/w/..%2f/overview",
        "/ui/in/",
        "//evil.example/ui/",
        "/ui/%2e%2e/v1/shop/status",
    ],
)
def test_no_path_leads_anywhere_else(door: Door, path: str) -> None:
    answer = door.ask("GET", path)
    assert answer.status in (404, 405), answer.body
    assert "class Sessions" not in answer.body


def test_no_page_is_cached_or_leaks_its_address(door: Door) -> None:
    for path in ("/ui/", "/ui/w/shop/overview", "/ui/w/shop/nothing", "/ui/in/x", "/ui/w/nowhere/overview"):
        headers = door.ask("GET", path).headers
        if "location" not in headers:
            assert headers["cache-control"] == "no-store", path
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers


def test_large_requests_are_refused_and_the_next_is_answered(door: Door) -> None:
    assert door.ask("GET", "/ui/w/shop/overview", X_Long="x" * 10_000).status == 200
    with contextlib.suppress(ConnectionError, http.client.HTTPException):
        assert door.ask("GET", "/ui/w/shop/overview", X_Long="x" * 300_000).status == 400
    with contextlib.suppress(ConnectionError, http.client.HTTPException):
        assert door.ask("POST", END_ALL, b"id=" + b"x" * (1 << 20)).status == 413
    assert door.ask("POST", END_ALL, "&".join(f"a{n}=" for n in range(3_000)).encode()).status == 422
    assert door.ask("GET", "/ui/w/shop/overview?" + "x" * 20_000).status == 200
    assert is_let_in(door)


def test_too_many_links_expire_the_oldest_link_of_the_same_visitor(desk: Desk, door: Door) -> None:
    links = [desk.call("ui")["url"] for _ in range(12)]
    states = [door.ask("GET", urlsplit(link).path, known=False).status for link in links]
    assert states == [401, 401] + [200] * 10


def test_slow_senders_and_many_streams_delay_no_page(door: Door) -> None:
    """A page is answered despite half a header, half a form, and more event streams than the limit."""
    host = f"{door.host}:{door.port}"
    for _ in range(50):
        door.raw(b"GET /ui/ HTTP/1.1\r\nHost: " + host.encode())
        door.raw(
            f"POST {END_ALL} HTTP/1.1\r\nHost: {host}\r\nCookie: {door.cookie}\r\nContent-Length: 100\r\n"
            "Content-Type: application/x-www-form-urlencoded\r\n\r\nid=".encode()
        )
    stream = f"GET /ui/w/shop/events HTTP/1.1\r\nHost: {host}\r\nCookie: {door.cookie}\r\n\r\n".encode()
    streams = [door.raw(stream) for _ in range(150)]
    for one in streams:
        assert one.recv(12) == b"HTTP/1.1 200"
    assert is_let_in(door)
    oldest, newest = streams[0], streams[-1]
    until(lambda: _has_ended(oldest))
    door.desk.put("insight://shop/streams", summary="Sent to the remaining streams")
    told = b""
    while b"event: changed" not in told:
        told += newest.recv(4_096)
    assert is_let_in(door)


def test_an_idle_connection_is_closed(door: Door) -> None:
    silent, half = door.raw(b""), door.raw(b"GET /ui/ HTTP/1.1\r\nHost: x\r\nX-Sl")
    for one in (silent, half):
        one.settimeout(40)
        assert one.recv(1) == b""


def test_two_homes_of_one_machine_keep_their_cookies_apart(
    desk: Desk, page: Page, context: BrowserContext, tmp_path: Path
) -> None:
    other = Desk(tmp_path)
    try:
        second = context.new_page()
        second.goto(other.link())
        second.wait_for_url("**/overview")
        page.reload()
        expect(page.locator("h1")).not_to_have_text("Sign in")
        assert {cookie["name"] for cookie in context.cookies()} == {
            f"kgd-{urlsplit(one.url).port}" for one in (page, second)
        }
        second.close()
    finally:
        other("down")


def _has_ended(one: socket.socket) -> bool:
    one.setblocking(False)
    try:
        while True:
            if not one.recv(65_536):
                return True
    except BlockingIOError:
        return False


def test_a_form_of_very_many_types_offers_some_and_a_long_address_is_read(desk: Desk, door: Door) -> None:
    door.come_in()
    kinds = [f"a-kind-with-a-long-name-{number}" for number in range(150)]
    desk.call("put", changes=[{"op": "upsert", "uri": f"kinds/{kind}", "type": kind} for kind in kinds])
    links = [{"type": f"to-{kind}", "target": f"kinds/{kind}", "weight": 0.1} for kind in kinds]
    desk.put("kinds", relations=links)
    shown = door.ask("GET", "/ui/w/shop/graph?from=kinds&nodes=200").body
    assert shown.count('name="of_edge"') == 60
    assert "The form offers 60 of 150 relation types" in shown
    off = urlencode([("from", "kinds"), ("nodes", 200), *(("hide", kind) for kind in kinds[90:]), ("q", "x" * 20_000)])
    answer = door.ask("GET", f"/ui/w/shop/graph?{off}")
    assert answer.status == 200
    assert kinds[0] in answer.body
    assert answer.body.count('class="dot"') == 91
    refused = door.ask("GET", f"/ui/w/shop/graph?{off}&hide=one-more")
    assert refused.status == 422
    assert "At most 60 types" in refused.body

"""Clients without a token use little of a hub: no body, few connections, little time."""

from __future__ import annotations

import contextlib
import http.client
import select
import socket
import time
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest

from kgd.hub.connections import STRANGER_SECONDS
from tests.hub.conftest import Hub
from tests.hub.crowd import UNKNOWN, request
from tests.hub.test_crowd import descriptors, limited, rss
from tests.waiting import until

pytestmark = pytest.mark.slow

LIMIT = 512
"""Connections of a hub that may have 1,024 descriptors."""
READ = b'{"uris": ["concept://infra/services/auth"]}'


@pytest.fixture
def small(own_hub: Callable[..., Hub]) -> Hub:
    hub = own_hub().start(limits=limited)
    hub.put("concept://infra/services/auth", summary="Issues tokens")
    return hub


@pytest.fixture
def kept() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


def connected(hub: Hub, kept: contextlib.ExitStack, address: str = "127.0.0.1") -> socket.socket:
    made = kept.enter_context(socket.socket())
    made.settimeout(60)
    made.bind((address, 0))
    made.connect(("127.0.0.1", urlsplit(hub.url).port or 0))
    return made


def status(one: socket.socket) -> int:
    """Of the answer, once all of it has been read."""
    answer = http.client.HTTPResponse(one)
    answer.begin()
    answer.read()
    return answer.status


def is_closed(one: socket.socket) -> bool:
    try:
        return bool(select.select([one], [], [], 0)[0]) and one.recv(1) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("path", ["/v1/infra/put", "/v1/tokens", "/mcp", "/git/infra/git-receive-pack"])
@pytest.mark.parametrize("token", ["", UNKNOWN])
def test_without_a_token_a_request_is_answered_before_its_body(
    hub: Hub, kept: contextlib.ExitStack, path: str, token: str
) -> None:
    head = request(path, token, length=4 << 20)
    if path.startswith("/git"):
        head = head.replace(b"application/json", b"application/x-git-receive-pack-request")
    one = connected(hub, kept)
    one.sendall(head)  # and nothing of the body, ever
    assert one.recv(100).startswith(b"HTTP/1.1 401")
    began = time.monotonic()
    until(lambda: is_closed_after_reading(one))
    assert time.monotonic() - began < STRANGER_SECONDS / 2


def is_closed_after_reading(one: socket.socket) -> bool:
    one.setblocking(False)
    try:
        return one.recv(1 << 16) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_bodies_without_a_token_fill_no_memory(small: Hub, kept: contextlib.ExitStack) -> None:
    before = rss(small)
    for number in range(200):
        one = connected(small, kept, f"127.0.0.{2 + number % 20}")
        one.setblocking(False)
        one.sendall(request("/v1/infra/put", UNKNOWN, length=4 << 20))
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while one.send(bytes(64 << 10)):
                pass
    assert rss(small) - before < 64


def test_idle_connections_of_strangers_do_not_keep_holders_out(small: Hub, kept: contextlib.ExitStack) -> None:
    token = small.mint()
    place = urlsplit(small.url)
    holder = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)

    def ask() -> int:
        holder.request(
            "POST", "/v1/infra/get", READ, {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        )
        answer = holder.getresponse()
        answer.read()
        return answer.status

    assert ask() == 200
    port = holder.sock.getsockname()[1]
    for number in range(16):  # addresses that showed a token are outside the bounds of all strangers together
        near = connected(small, kept, f"127.0.1.{number}")
        near.sendall(request("/v1/infra/get", token, length=len(READ)) + READ)
        assert status(near) == 200
        near.close()
    crowd = [connected(small, kept, f"127.0.1.{number % 16}") for number in range(700)]
    until(lambda: sum(map(is_closed, crowd)) >= 700 - LIMIT)
    assert descriptors(small) < 900
    assert small.post(token, "infra/get", {"uris": ["services/auth"]}).status == 200, "a new connection"
    assert (ask(), holder.sock.getsockname()[1]) == (200, port), "the old one"
    holder.close()


def test_one_address_has_its_share_of_connections(small: Hub, kept: contextlib.ExitStack) -> None:
    tokens, crowd = [small.mint(name="one"), small.mint(name="two")], []
    for number in range(LIMIT // 4 + 12):
        crowd.append(connected(small, kept, "127.0.2.1"))
        crowd[-1].sendall(request("/v1/infra/get", tokens[number % 2], length=len(READ)) + READ)
        assert status(crowd[-1]) == 200
    until(lambda: sum(map(is_closed, crowd)) == 12)
    elsewhere = connected(small, kept, "127.0.2.2")
    elsewhere.sendall(request("/health", method="GET", length=0))
    assert elsewhere.recv(100).startswith(b"HTTP/1.1 200")


def test_a_token_has_its_share_of_connections(small: Hub, kept: contextlib.ExitStack) -> None:
    token = small.mint(requests_per_minute=10_000)
    crowd = []
    for number in range(LIMIT // 4 + 10):
        crowd.append(connected(small, kept, f"127.0.3.{1 + number % 8}"))
        crowd[-1].sendall(request("/v1/infra/get", token, length=len(READ)) + READ)
        assert status(crowd[-1]) == 200
    until(lambda: sum(map(is_closed, crowd)) == 10)
    assert all(map(is_closed, crowd[:10])), "the connections idle for longest"


@pytest.mark.parametrize(
    "said", [b"", b"POST /v1/infra/get HTTP/1.1\r\nHost: ", request("/health", method="GET", length=0)]
)
def test_a_stranger_that_says_nothing_more_is_let_go(hub: Hub, kept: contextlib.ExitStack, said: bytes) -> None:
    one = connected(hub, kept)
    one.sendall(said)
    one.settimeout(STRANGER_SECONDS - 5)
    while one.recv(4096):
        pass


def test_a_stranger_that_sends_requests_without_end_has_to_wait(small: Hub, kept: contextlib.ExitStack) -> None:
    one = connected(small, kept, "127.0.4.1")
    answers, part = b"", b"first"
    with contextlib.suppress(ConnectionError):
        while part and answers.count(b"HTTP/1.1 429") < 3:
            one.sendall(request("/health", method="GET", length=0))
            part = one.recv(4096)
            answers += part
    assert answers.count(b"HTTP/1.1 429") == 1, "then it is closed: each further answer would cost the hub as much"
    assert b"HTTP/1.1 200" in answers
    assert small.post(small.mint(), "infra/get", {"uris": ["services/auth"]}).status == 200


def test_many_addresses_together_keep_out_neither_holders_nor_newcomers(small: Hub, kept: contextlib.ExitStack) -> None:
    token = small.mint()
    assert small.post(token, "infra/get", {"uris": ["services/auth"]}).status == 200
    crowd = [connected(small, kept, f"127.0.5.{number % 10}") for number in range(600)]
    until(lambda: sum(map(is_closed, crowd)) >= 250, 5)
    assert small.post(token, "infra/get", {"uris": ["services/auth"]}).status == 200
    newcomer = connected(small, kept, "127.0.5.200")
    newcomer.sendall(request("/v1/infra/get", token, length=len(READ)) + READ)
    assert status(newcomer) == 200


def test_a_stranger_that_sends_byte_by_byte_is_let_go(hub: Hub, kept: contextlib.ExitStack) -> None:
    one = connected(hub, kept)
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    began = time.monotonic()
    with contextlib.suppress(ConnectionError):
        while not select.select([one], [], [], 0.002)[0]:
            one.sendall(b"x")
    assert time.monotonic() - began < 9, "before the time for a header is over"


def test_large_bodies_of_one_token_wait_for_each_other(small: Hub, kept: contextlib.ExitStack) -> None:
    """Two of 4 MiB under way are the share of a token; another token's go through meanwhile."""
    token, other = small.mint(name="large"), small.mint(name="other")
    for _ in range(2):
        one = connected(small, kept)
        one.sendall(request("/v1/infra/get", token, length=4 << 20) + b"{")

    def waits() -> bool:
        third = connected(small, kept)
        third.sendall(request("/v1/infra/get", token, length=len(READ)) + READ)
        return not select.select([third], [], [], 1)[0]

    until(waits, 8)
    assert small.post(other, "infra/get", {"uris": ["services/auth"]}).status == 200

"""Invalid bytes on the socket and the loopback port: answered with an error, and the daemon keeps running."""

from __future__ import annotations

import http.client
import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.hostile import frames
from tests.hostile.frames import MIB, Frame
from tests.hostile.target import SECONDS, Target, refusal

pytestmark = pytest.mark.slow

PING = b'{"jsonrpc":"2.0","id":99,"method":"ping"}'


@pytest.mark.parametrize("group", ["NOT_JSON", "NO_MESSAGE", "WRONG_REQUESTS"])
def test_an_invalid_message_gets_a_json_rpc_error_and_the_connection_stays_open(target: Target, group: str) -> None:
    found: list[Frame] = getattr(frames, group)
    with target.memory() as cost, target.mcp() as mcp:
        for frame in found:
            with cost.in_time(frame.name):
                mcp.send(frame.data)
                answer = mcp.line()
            assert "result" not in answer, frame.name
            assert answer["error"]["code"] == frame.code, (frame.name, answer)
            assert len(answer["error"]["message"]) <= 512, frame.name
        mcp.send(PING)
        assert mcp.line() == {"jsonrpc": "2.0", "id": 99, "result": {}}
    target.answers()


@pytest.mark.slow
def test_a_line_without_an_end_ends_its_connection_and_is_not_kept(target: Target) -> None:
    with target.memory() as cost:
        for kind in ("mcp", "call"):
            with target.wire(target.hello(kind)) as wire:
                wire.line()
                with cost.in_time(kind, 5 * SECONDS):  # most of it is our own sending
                    wire.send(b"x" * (100 * MIB))
                    if kind == "mcp":  # the next line is answered
                        wire.send(b"\n")
                        assert "error" in wire.line()
                    else:
                        wire.read_to_end()
    target.answers()


@pytest.mark.slow
def test_through_kgd_mcp_a_message_of_100_megabytes_is_refused_and_the_next_is_answered(target: Target) -> None:
    ask = json.dumps({"jsonrpc": "2.0", "id": 5, "method": "ping", "params": {"x": "y" * (100 * MIB)}})
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    begin = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
    with target.memory():
        done = target.kgd("mcp", stdin="\n".join([begin, ask, PING.decode(), ""]))
    answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines())}
    assert answers[0]["result"]
    assert answers[99]["result"] == {}
    assert [one["error"] for key, one in answers.items() if key not in (0, 99)]


def test_the_same_id_twice_is_two_requests_or_a_refusal_and_never_silence(target: Target) -> None:
    with target.mcp() as mcp:
        mcp.send(PING)
        mcp.send(PING)
        assert {mcp.line()["id"], mcp.line()["id"]} == {99}


@pytest.mark.slow
def test_a_storm_of_notifications_does_not_delay_other_clients(target: Target) -> None:
    storm = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"none"}}\n' * 5_000
    strange = b'{"jsonrpc":"2.0","method":"notifications/none","params":{"a":[1,2,3]}}\n' * 5_000
    with target.memory(), target.mcp() as mcp:
        mcp.send(storm + strange, end=b"")
        target.answers()
        mcp.send(PING)
        assert mcp.line()["id"] == 99


@pytest.mark.parametrize(("name", "hello"), frames.HELLOS, ids=[name for name, _ in frames.HELLOS])
def test_an_unknown_first_line_is_refused_with_a_readable_error(target: Target, name: str, hello: bytes) -> None:
    with target.memory() as cost, target.wire(hello) as wire:
        with cost.in_time(name):
            answer = wire.line()
        if answer:  # if the client was still sending, the kernel may have dropped the answer
            assert refusal(answer)["code"] in ("VALIDATION_ERROR", "LIMIT")
        assert len(hello) > MIB or answer
        assert wire.read_to_end() == b""
    target.answers()


@pytest.mark.parametrize("hello", frames.ODD_HELLOS)
def test_client_claims_about_itself_grant_no_rights(target: Target, hello: bytes) -> None:
    with target.wire(hello) as wire:
        answer = wire.line()
        if "error" in answer:
            assert refusal(answer)["code"] == "VALIDATION_ERROR"
            return
        change = {"op": "upsert", "uri": "concept://shop/by-an-odd-client", "tags": ["x"]}
        answer = wire.ask(1, "put", {"changes": [change]})
        assert "result" in answer or refusal(answer)
    for entry in target.call("history", {"uri": "concept://shop/by-an-odd-client"})["commits"]:
        assert entry["author"] == "Ann"
        assert entry.get("client", "").isprintable()


@pytest.mark.parametrize(("name", "line"), frames.CALLS, ids=[name for name, _ in frames.CALLS])
def test_an_invalid_call_is_refused_with_a_readable_error(target: Target, name: str, line: bytes) -> None:
    with target.memory() as cost, target.wire() as wire:
        wire.line()
        with cost.in_time(name):
            wire.send(line)
            answer = wire.line()
        if answer:
            assert refusal(answer)["code"] in ("VALIDATION_ERROR", "LIMIT")
        assert len(line) > MIB or answer
    target.answers()


def test_four_hundred_silent_clients_do_not_delay_others(target: Target) -> None:
    with target.memory(), ExitStack() as silent:
        for _ in range(400):
            silent.enter_context(target.wire(b""))
        target.answers()
    target.answers()


class Page:
    """Requests to the loopback port by a web page or a program without the token."""

    def __init__(self, target: Target) -> None:
        self.port, self.cost = target.port, target.memory()
        self.token = (Path(target.home.state) / "http.token").read_text().strip()

    def ask(self, method: str, path: str, body: bytes = b"", /, **headers: str) -> int:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            with self.cost.in_time(path):
                connection.request(method, path, body, given)
                return connection.getresponse().status
        except (BrokenPipeError, ConnectionResetError):
            return 413  # refused before all of it was sent
        finally:
            connection.close()


@pytest.mark.requirement("U2")
def test_a_web_page_reaches_nothing_over_the_loopback_port(target: Target) -> None:
    page = Page(target)
    known = {
        "authorization": f"Bearer {page.token}",
        "content_type": "application/json",
        "accept": "application/json, text/event-stream",
    }
    initialize = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "x", "version": "1"},
            },
        }
    ).encode()
    assert page.ask("POST", "/mcp", initialize, **known) == 200
    refused = {
        "no token": (401, {**known, "authorization": ""}),
        "a wrong token": (401, {**known, "authorization": "Bearer " + "x" * 43}),
        "half of the token": (401, {**known, "authorization": f"Bearer {page.token[:20]}"}),
        "the token as a password": (401, {**known, "authorization": f"Basic {page.token}"}),
        "a token of a megabyte": (400, {**known, "authorization": "Bearer " + "x" * MIB}),
        "a rebound name": (421, {**known, "host": "evil.example"}),
        "a rebound name and port": (421, {**known, "host": f"evil.example:{page.port}"}),
        "a page": (403, {**known, "origin": "https://evil.example"}),
        "a page of nowhere": (403, {**known, "origin": "null"}),
        "a page that looks local": (403, {**known, "origin": "http://localhost.evil.example"}),
        "a form": (400, {**known, "content_type": "text/plain"}),
    }
    with target.memory():
        for name, (status, headers) in refused.items():
            # `ask` reports 413 for a connection that closes before a whole megabyte is sent.
            assert page.ask("POST", "/mcp", initialize, **headers) in (status, 413), name
    for name, (_, headers) in refused.items():
        if "token" in name:
            assert page.ask("GET", "/mcp", **headers) in (400, 401), name
    for path in ("/", "/mcp/../state", "/..%2f..%2fetc/passwd", "/http.token", "/mcp?token=" + page.token):
        assert page.ask("GET", path) in (401, 404), path
    target.answers()


def test_invalid_bodies_are_refused_over_http_too(target: Target) -> None:
    page = Page(target)
    headers = {
        "authorization": f"Bearer {page.token}",
        "content_type": "application/json",
        "accept": "application/json, text/event-stream",
    }
    with target.memory():
        for frame in [*frames.NOT_JSON, *frames.NO_MESSAGE]:
            assert 400 <= page.ask("POST", "/mcp", frame.data, **headers) < 500, frame.name
        assert page.ask("POST", "/mcp", b"x" * (5 * MIB), **headers) == 413
    target.answers()

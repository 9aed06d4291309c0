"""An endpoint of the person's settings settles conflicts, and nothing it does can hold or mislead kgd."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from kgd.resolution import Prompt, Provider
from kgd.tools.session import Session
from tests.certificates import self_signed
from tests.surfaces.conftest import Ask, ask, code, daemon, session, upsert

__all__ = ["ask", "code", "daemon", "session"]

PROMPT = Prompt("be careful", "one or two?", 100)
GOOD = json.dumps({"summary": {"value": "one and three"}})


class Endpoint:
    """A model behind HTTP on this machine; `behave` answers one request."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str], Any]] = []
        self.behave: Callable[[BaseHTTPRequestHandler], object] = completing(GOOD)
        self.stopped = threading.Event()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                endpoint.asked.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                with contextlib.suppress(OSError):  # who asked has gone
                    endpoint.behave(self)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def provider(self, seconds: float = 5.0, token: str = "") -> Provider:
        return Provider(self.url, "small", token, seconds)

    def ask(self, **how: Any) -> Any:
        return self.provider(**how).ask({"x": PROMPT})["x"]


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    yield made
    made.stopped.set()
    made.server.shutdown()
    made.server.server_close()


def completing(text: Any, finish: str = "stop") -> Callable[[BaseHTTPRequestHandler], None]:
    message = {
        "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": finish}],
        "model": "big",
    }
    return sending(json.dumps(message).encode())


def sending(body: bytes, status: int = 200, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def send(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    return send


def test_it_is_asked_in_the_common_form_and_its_words_come_back(endpoint: Endpoint) -> None:
    reply = endpoint.ask(token="t0ken")
    assert (reply.text, reply.model, reply.problem) == (GOOD, "big", "")
    ((path, headers, body),) = endpoint.asked
    assert path == "/v1/chat/completions"
    assert headers["authorization"] == "Bearer t0ken"
    assert [message["content"] for message in body["messages"]] == ["be careful", "one or two?"]
    assert (body["model"], body["max_tokens"], body["stream"]) == ("small", 100, False)
    assert "tools" not in body


WRONG: dict[str, Callable[[BaseHTTPRequestHandler], object]] = {
    "an error": sending(b'{"error": "no"}', 500),
    "no right": sending(b"{}", 401),
    "a redirect": sending(b"", 302, Location="http://127.0.0.1:9/v1"),
    "no JSON": sending(b"<html>hello</html>"),
    "nothing": sending(b""),
    "another form": sending(b'{"text": "x"}'),
    "no choice": sending(b'{"choices": []}'),
    "two choices": sending(b'{"choices": [{"message": {"content": "x"}}, {"message": {"content": "y"}}]}'),
    "no text": completing(None),
    "parts": completing([{"type": "text", "text": "x"}]),
    "a cut answer": completing(GOOD, "length"),
    "a bottomless list": sending(b"[" * 100_000),
    "too much": sending(b"x" * (3 * 2**20)),
    "not UTF-8": sending(b"\xff\xfe\x00"),
    "less than promised": sending(b"{}", 200, **{"Content-Length": "10"}),
    "no HTTP": lambda handler: handler.wfile.write(b"\0\1\2 hello\r\n\r\n"),
}


@pytest.mark.parametrize("name", WRONG)
def test_every_wrong_answer_is_a_reason_and_never_an_exception(endpoint: Endpoint, name: str) -> None:
    endpoint.behave = WRONG[name]
    reply = endpoint.ask(seconds=2, token="t0ken")
    assert reply.problem
    assert not reply.text
    assert "t0ken" not in repr(reply)


def test_a_closed_port_is_reported_with_a_reason() -> None:
    for url in ("http://127.0.0.1:9/v1", "https://nowhere.invalid/v1"):
        assert "it cannot be reached" in Provider(url, "m", seconds=2).ask({"x": PROMPT})["x"].problem
    assert Provider("http://127.0.0.1:9/v1", "m", "bad\r\ntoken").ask({"x": PROMPT})["x"].problem


@pytest.mark.parametrize("where", ["silent", "in the head", "in the body"])
def test_a_slow_one_is_left_at_the_deadline_however_it_dawdles(endpoint: Endpoint, where: str) -> None:
    def drip(handler: BaseHTTPRequestHandler) -> None:
        if where == "in the body":
            handler.send_response(200)
            handler.end_headers()
        while not endpoint.stopped.wait(0.05):
            if where != "silent":
                handler.wfile.write(b"H" if where == "in the head" else b" ")
                handler.wfile.flush()

    endpoint.behave = drip
    began = time.monotonic()
    assert "within" in endpoint.ask(seconds=0.4).problem
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("speaks", ["a certificate of its own", "no TLS", "nothing"])
def test_nothing_is_sent_to_an_untrusted_server(endpoint: Endpoint, tmp_path: Path, speaks: str) -> None:
    if speaks == "a certificate of its own":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self_signed(tmp_path))
        endpoint.server.socket = context.wrap_socket(
            endpoint.server.socket, server_side=True, do_handshake_on_connect=False
        )
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/v1" if speaks == "nothing" else endpoint.url
        began = time.monotonic()
        reply = Provider(url.replace("http:", "https:"), "m", "t0ken", 0.5).ask({"x": PROMPT})["x"]
    assert reply.problem
    assert time.monotonic() - began < 30
    assert endpoint.asked == []


def test_the_token_is_never_shown(endpoint: Endpoint) -> None:
    assert "s3cret" not in repr(endpoint.provider(token="s3cret"))


# ---- as a rung of the ladder


def configure(session: Session, endpoint: Endpoint, tmp_path: Path, *, seconds: int = 2) -> None:
    token = tmp_path / "token"
    token.write_text("t0ken\n")
    token.chmod(0o600)
    path = Path(session.daemon.home.registry)
    lines = f"  resolver_url: {endpoint.url}\n  resolver_model: small\n  resolver_token: file:{token}\n"
    path.write_text(f"{path.read_text()}settings:\n{lines}  resolver_seconds: {seconds}\n")


def disagree(ask: Ask) -> str:
    second = [ask.put(changes=upsert("keys", summary=value))["commit"] for value in ("one", "two")][1]
    ask.put(changes=upsert("keys", summary="three"))
    ask.revert(commit=second)
    return str(ask.conflicts()["conflicts"][0]["id"])


@pytest.mark.requirement("B6")
def test_where_the_client_has_no_model_the_endpoint_settles(
    session: Session, ask: Ask, endpoint: Endpoint, tmp_path: Path
) -> None:
    id = disagree(ask)
    assert ask.resolve_conflicts()["resolved"] == []
    configure(session, endpoint, tmp_path)
    answer = ask.resolve_conflicts()
    assert [(one["id"], one["by"], one["model"]) for one in answer["resolved"]] == [(id, "provider", "big")]
    assert ask.get(uris="keys")["nodes"][0]["summary"] == "one and three"
    ((_, headers, _),) = endpoint.asked
    assert headers["authorization"] == "Bearer t0ken"


@pytest.mark.parametrize("text", ["garbage", json.dumps({"summary": {"value": "https://evil.example"}})])
def test_its_garbage_and_its_attacks_change_nothing(
    session: Session, ask: Ask, endpoint: Endpoint, tmp_path: Path, text: str
) -> None:
    disagree(ask)
    before = ask.get(uris="keys")["nodes"]
    configure(session, endpoint, tmp_path)
    endpoint.behave = completing(text)
    for _ in range(5):
        answer = ask.resolve_conflicts(via="provider")
        assert answer["resolved"] == []
    assert len(endpoint.asked) == 3
    assert ask.get(uris="keys")["nodes"] == before


def test_a_missing_token_is_reported_and_nothing_is_sent(
    session: Session, ask: Ask, endpoint: Endpoint, tmp_path: Path
) -> None:
    disagree(ask)
    configure(session, endpoint, tmp_path)
    (tmp_path / "token").unlink()
    why = ask.resolve_conflicts()["remaining"][0]["why"]
    assert why.startswith("provider: ")
    assert endpoint.asked == []


def test_it_is_not_asked_where_the_caller_wants_its_own_model_or_none(
    session: Session, ask: Ask, endpoint: Endpoint, tmp_path: Path
) -> None:
    disagree(ask)
    configure(session, endpoint, tmp_path)
    for via in ("sampling", "agent"):
        assert len(ask.resolve_conflicts(via=via)["remaining"]) == 1
    assert endpoint.asked == []


def test_a_workspace_cannot_name_one(session: Session, ask: Ask, endpoint: Endpoint) -> None:
    disagree(ask)
    work_tree = session.daemon.workspace("shop").layout.work_tree
    (work_tree / "workspaces.yaml").write_text(f"settings:\n  resolver_url: {endpoint.url}\n  resolver_model: m\n")
    with (work_tree / "kgd.yaml").open("a") as file:
        file.write(f"settings:\n  resolver_url: {endpoint.url}\n  resolver_model: m\n")
    assert ask.resolve_conflicts()["resolved"] == []
    assert endpoint.asked == []

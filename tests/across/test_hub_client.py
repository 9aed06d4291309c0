"""The hub client: its promises for any server at the address."""

from __future__ import annotations

import json
import socket
import ssl
import time
from pathlib import Path

import pytest

from kgd.cli.output import command
from kgd.errors import Advice, Do, Forbidden, Invalid, KgdError, Limit, Stale, Unauthorized, Unavailable
from kgd.http_client import Address
from kgd.hub import details
from kgd.sync.hubs import ANSWER_LIMIT, HubClient
from tests.across.counter import Counter, always, http
from tests.certificates import self_signed


def test_a_call_carries_the_token_and_answers_the_structured_result() -> None:
    with Counter(always(http("200 OK", b'{"workspace":"infra"}'))) as hub:
        client = HubClient(hub.url, lambda: "kgd_secret")
        assert client.call("infra", "get", {"uris": ["concept://infra/a"]}, reads=True) == {"workspace": "infra"}
        assert client.call("infra", "get", {"uris": ["concept://infra/b"]}, reads=True) == {"workspace": "infra"}
        client.close()
    head = hub.seen[0].split(b"\r\n\r\n")[0].splitlines()
    assert head[0] == b"POST /v1/infra/get HTTP/1.1"
    assert b"Authorization: Bearer kgd_secret" in head
    assert hub.seen[0].endswith(b'{"uris":["concept://infra/a"]}')


def test_a_repeated_question_is_revalidated_without_a_second_answer() -> None:
    def serve(peer: socket.socket, counter: Counter) -> None:
        while request := counter.read(peer):
            known = b'if-none-match: "v7"' in request.lower()
            peer.sendall(http("304 Not Modified", b"") if known else http("200 OK", b'{"n":7}', 'ETag: "v7"'))

    with Counter(serve) as hub:
        token = ["one"]
        client = HubClient(hub.url, lambda: token[0])
        assert (
            client.call("infra", "get", {"uris": ["a"]}, reads=True)
            == client.call("infra", "get", {"uris": ["a"]}, reads=True)
            == {"n": 7}
        )
        token[0] = "two"
        assert client.call("infra", "get", {"uris": ["a"]}, reads=True) == {"n": 7}
        client.close()
    asked_with = [b"if-none-match" in request.lower() for request in hub.seen]
    assert asked_with == [False, True, False], "what one token may see is not another's"


@pytest.mark.parametrize(
    ("status", "body", "kind", "words"),
    [
        ("401 Unauthorized", b'{"code":"UNAUTHORIZED","detail":"no"}', Unauthorized, "kgd join"),
        ("403 Forbidden", b'{"code":"FORBIDDEN","detail":"outside /infra/**"}', Forbidden, "outside /infra/**"),
        ("409 Conflict", b'{"code":"CONFLICT","detail":"stale","current_version":4}', Stale, "stale"),
        ("302 Found", b"", Unavailable, "does not follow redirects"),
        ("200 OK", b"<html>", Unavailable, "not a kgd hub"),
        ("200 OK", b"[1]", Unavailable, "not a kgd hub"),
        ("500 Internal Server Error", b"oops", Unavailable, "500"),
        ("403 Forbidden", b'{"code":"HAHA","detail":"\\u202eevil\\u001b[2J"}', Forbidden, "\\u202eevil\\x1b[2J"),
    ],
)
def test_a_refusal_keeps_its_code(status: str, body: bytes, kind: type[KgdError], words: str) -> None:
    with Counter(always(http(status, body, "Location: http://127.0.0.1:1/"))) as hub:
        client = HubClient(hub.url)
        with pytest.raises(kind) as caught:
            client.call("infra", "put", {})
        client.close()
    assert words in str(caught.value)
    if isinstance(caught.value, Stale):
        assert caught.value.current == 4


def test_the_next_step_of_a_refusal_keeps_its_operations() -> None:
    refusal = Forbidden("it may not", next=Advice("Propose it with ", Do("submit_subgraph"), "."))
    sent = dict(details(refusal, 403))
    forged = {**sent, "next": "Run `rm`."}
    for body, said in ((sent, "Propose it with `kgd submit`."), (forged, "Run `rm`."), ({**sent, "advice": 1}, None)):
        with Counter(always(http("403 Forbidden", json.dumps(body).encode()))) as hub:
            client = HubClient(hub.url)
            with pytest.raises(Forbidden) as caught:
                client.call("infra", "put", {})
            client.close()
        shown = caught.value.next
        assert (shown.said(command) if isinstance(shown, Advice) else shown) == (said or sent["next"])


def test_one_byte_at_a_time_ends_at_the_deadline() -> None:
    def drip(peer: socket.socket, counter: Counter) -> None:
        counter.read(peer)
        for byte in b"HTTP/1.1 200 OK\r\nX-Very: " + b"long" * 10_000:
            peer.sendall(bytes([byte]))
            if counter.closing.wait(0.02):
                return

    with Counter(drip) as hub:
        client, begun = HubClient(hub.url), time.monotonic()
        with pytest.raises(Unavailable, match=r"within 0\.3 s"):
            client.call("infra", "traverse", {}, deadline=0.3, reads=True)
        assert time.monotonic() - begun < 30
        client.close()


def test_an_oversized_answer_is_refused_by_its_header_and_by_its_length() -> None:
    def endless(peer: socket.socket, counter: Counter) -> None:
        counter.read(peer)
        peer.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while not counter.closing.is_set():
            peer.sendall(b"10000\r\n" + b"x" * 65_536 + b"\r\n")

    for serve in (always(http("200 OK", b"", length=ANSWER_LIMIT + 1)), endless):
        with Counter(serve) as hub:
            client = HubClient(hub.url)
            with pytest.raises(Limit):
                client.call("infra", "get", {}, deadline=10, reads=True)
            client.close()


def test_a_connection_that_the_hub_closed_meanwhile_is_replaced() -> None:
    def once(peer: socket.socket, counter: Counter) -> None:
        counter.read(peer)
        peer.sendall(http("200 OK", b"{}"))

    with Counter(once) as hub:
        client = HubClient(hub.url)
        for _ in range(3):
            assert client.call("infra", "get", {}, reads=True) == {}
        client.close()


def test_a_hub_that_closes_after_each_answer_is_read_to_the_end() -> None:
    def closing(peer: socket.socket, counter: Counter) -> None:
        counter.read(peer)
        peer.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + b'{"text":"' + b"x" * 200_000 + b'"}')

    with Counter(closing) as hub:
        client = HubClient(hub.url)
        assert len(client.call("infra", "get", {}, reads=True)["text"]) == 200_000
        client.close()


@pytest.mark.parametrize(
    "url",
    [
        "http://hub.example.org",
        "ftp://hub",
        "https://me:secret@hub",
        "https://hub?x=1",
        "https://hub:99999",
        "https://",
        "hub.example.org",
        "https://hub\n.org",
        "https://hub/ x",
        "file:///etc/passwd",
    ],
)
def test_only_the_address_of_a_hub_is_accepted(url: str) -> None:
    with pytest.raises(Invalid):
        Address.parse(url)


def test_plain_http_is_for_this_machine_alone() -> None:
    assert str(Address.parse("http://127.0.0.1:7601")) == "http://127.0.0.1:7601"
    assert str(Address.parse("https://hub.example.org/kgd/")) == "https://hub.example.org:443/kgd"


def test_an_untrusted_certificate_is_refused_before_the_token_is_sent(tmp_path: Path) -> None:
    cert, key = self_signed(tmp_path, "DNS:localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)

    def serve(peer: socket.socket, counter: Counter) -> None:
        with context.wrap_socket(peer, server_side=True) as inside:
            always(http("200 OK", b'{"ok":1}'))(inside, counter)

    with Counter(serve) as hub:
        port = hub.url.rpartition(":")[2]
        believing = ssl.create_default_context(cafile=str(cert))
        unknown = HubClient(f"https://localhost:{port}", lambda: "kgd_secret")
        other_name = HubClient(f"https://127.0.0.1:{port}", lambda: "kgd_secret", tls=believing)
        for client, remedy in (unknown, "SSL_CERT_FILE"), (other_name, "Check the address"):
            with pytest.raises(Unavailable, match="certificate") as refused:
                client.call("infra", "get", {}, reads=True)
            assert remedy in str(refused.value.next)
        assert hub.seen == []
        client = HubClient(f"https://localhost:{port}", lambda: "kgd_secret", tls=believing)
        assert client.call("infra", "get", {}, reads=True) == {"ok": 1}
        client.close()

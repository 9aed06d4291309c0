"""Git clients that send slowly, read nothing or lose their token delay only themselves."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kgd.hub.connections import SEND_SECONDS
from tests.hub.conftest import Hub
from tests.waiting import until

pytestmark = pytest.mark.slow

POST = "application/x-git-upload-pack-request"


def begin(hub: Hub, token: str, body: bytes, length: int) -> socket.socket:
    """A fetch of which `body` has been sent, out of `length` bytes."""
    place = urlsplit(hub.url)
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.connect((place.hostname or "", place.port or 0))
    made.sendall(
        f"POST /git/infra/git-upload-pack HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: {POST}\r\nContent-Length: {length}\r\n\r\n".encode()
        + body
    )
    return made


def programs(hub: Hub) -> list[str]:
    """Git programs that work on the hub's workspace."""
    mark, found = f"GIT_PROJECT_ROOT={hub.workspace('infra')}".encode(), []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_bytes().decode())
    return found


@pytest.fixture
def half_sent(hub: Hub) -> Iterator[list[socket.socket]]:
    token = hub.mint(name="slow")
    child = hub.post(token, "tokens", {"name": "child", "verbs": ["read"], "paths": ["/**"]}).json["token"]
    made = [begin(hub, one, b"00", 1000) for one in (token, child) for _ in range(10)]
    yield made
    for one in made:
        one.close()


@pytest.mark.requirement("B5")
def test_half_sent_requests_block_no_others(hub: Hub, half_sent: list[socket.socket]) -> None:
    url = hub.git_url(hub.mint(name="quick"))
    for _ in range(2):
        said = subprocess.run(
            ["git", "ls-remote", url, "refs/heads/main"], capture_output=True, text=True, check=True, timeout=8
        )
        assert said.stdout.endswith("refs/heads/main\n")
    assert not programs(hub), "no program is started before the body has arrived"


@pytest.mark.slow
def test_only_so_many_of_one_token_wait(hub: Hub) -> None:
    token = hub.mint(name="crowd")
    with contextlib.ExitStack() as crowd:
        made = [crowd.enter_context(begin(hub, token, b"00", 1000)) for _ in range(4 + 64 + 1)]
        told, _, _ = select.select(made, [], [], 9)
        assert [one.recv(12) for one in told] == [b"HTTP/1.1 429"]


@pytest.mark.slow
def test_a_body_that_does_not_go_on_is_refused(hub: Hub) -> None:
    with begin(hub, hub.mint(name="stalled"), b"00", 1000) as slow:
        slow.settimeout(60)
        assert slow.recv(100).startswith(b"HTTP/1.1 413")


@pytest.fixture
def taking_nothing(own_hub: Callable[..., Hub]) -> Iterator[tuple[Hub, str, socket.socket]]:
    """A hub whose git is in the middle of an answer, the id of the token, and the client, which takes nothing of it."""
    hub = own_hub().start()
    hub.put("concept://infra/app/checkout", summary="The way to pay")
    at = hub.workspace("infra")

    def git(*words: str, data: bytes | None = None) -> str:
        return subprocess.run(["git", "-C", at, *words], input=data, capture_output=True, check=True).stdout.decode()

    blob = git("hash-object", "-w", "--stdin", data=os.urandom(24 << 20)).strip()
    tree = git("mktree", data=f"100644 blob {blob}\tlarge\n".encode()).strip()
    commit = git("commit-tree", tree, "-m", "large").strip()
    git("update-ref", "refs/heads/large", commit)
    want = f"want {commit}\n".encode()
    body = b"%04x" % (len(want) + 4) + want + b"00000009done\n"
    token = hub.mint(name="idle")
    with begin(hub, token, body, len(body)) as client:
        until(lambda: programs(hub))
        assert client.recv(4) == b"HTTP"
        yield hub, token.split("_")[2], client


def test_a_client_that_goes_away_leaves_no_program_behind(taking_nothing: tuple[Hub, str, socket.socket]) -> None:
    hub, _, client = taking_nothing
    client.close()
    until(lambda: not programs(hub), SEND_SECONDS / 2)


@pytest.mark.slow
def test_a_client_that_takes_nothing_is_not_waited_for(taking_nothing: tuple[Hub, str, socket.socket]) -> None:
    hub, *_ = taking_nothing
    until(lambda: not programs(hub))


@pytest.mark.slow
def test_a_fetch_ends_with_its_token(taking_nothing: tuple[Hub, str, socket.socket]) -> None:
    hub, token, _ = taking_nothing
    hub.call("token_revoke", id=token)
    until(lambda: not programs(hub), SEND_SECONDS / 2)

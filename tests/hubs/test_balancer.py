"""Three hubs behind a balancer answer as one: MCP sessions have affinity, everything else is round robin."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlencode

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp.types import RequestParamsMeta

from kgd.config.entries import Entry
from kgd.config.registry import RegistryFile
from kgd.sync.hubs import META
from kgd.ui.sessions import proof
from tests.hub.conftest import ROOT, Hub
from tests.hubs.spread import Spread
from tests.postgres_server import Server
from tests.surfaces.conftest import Ask, ask, code, daemon, session, upsert
from tests.sync.people import git

pytestmark = [pytest.mark.needs("postgres"), pytest.mark.needs("haproxy"), pytest.mark.slow, pytest.mark.anyio]
ERAS = ["auto", "legacy"]
__all__ = ["ask", "code", "daemon", "session"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def hubs(tmp_path_factory: pytest.TempPathFactory, postgres: Server) -> Iterator[Spread]:
    with postgres.schema() as url:
        found = Spread.made(tmp_path_factory.mktemp("hubs"), url, workspaces=("infra",))
        yield found
        found.stop()


@asynccontextmanager
async def connected(url: str, token: str, mode: str, **handlers: Any) -> AsyncIterator[Client]:
    async with httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=60) as web:
        transport = streamable_http_client(f"{url}/mcp", http_client=web)
        async with Client(transport, mode=mode, **handlers) as client:
            yield client


def carrying(positions: dict[str, str]) -> RequestParamsMeta:
    return cast(RequestParamsMeta, {META: positions})


@pytest.mark.requirement("N6")
def test_kgds_own_clients_read_their_own_writes(ask: Ask, hubs: Spread, tmp_path: Path) -> None:
    kept = tmp_path / "token"
    kept.write_text(hubs.mint("read,write", requests_per_minute=100_000))
    kept.chmod(0o600)
    RegistryFile(ask.session.daemon.home).register(Entry("infra", hub=hubs.url, token=f"file:{kept}"), replace=True)
    for number in range(12):
        uri = f"concept://infra/own/{number}"
        ask.submit_subgraph(remote="infra", changes=[upsert(uri, summary=str(number))])
        (node,) = ask.get(uris=[uri])["nodes"]
        assert node["summary"] == str(number)


@pytest.mark.requirement("N6")
@pytest.mark.parametrize("mode", ERAS)
async def test_an_mcp_client_that_sends_the_position_reads_its_own_writes(hubs: Spread, mode: str) -> None:
    token = hubs.mint("read,write")
    async with connected(hubs.url, token, mode) as client, connected(hubs.url, token, mode) as other:
        for number in range(6):
            uri = f"concept://infra/mcp/{mode}"
            wrote = await client.call_tool("put", {"changes": [upsert(uri, summary=str(number))]})
            assert wrote.meta, wrote
            position = wrote.meta[META]
            assert position == {"infra": (wrote.structured_content or {})["commit"]}
            found = await other.call_tool("get", {"uris": [uri]}, meta=carrying(position))
            assert (found.structured_content or {})["nodes"][0]["summary"] == str(number)
            assert found.meta
            assert list(found.meta[META]) == ["infra"]
            read = await other.read_resource("kgd://infra/status", meta=carrying(position))
            assert read.meta
            assert read.meta[META]


def test_a_write_finds_what_the_client_wrote_at_another_hub(hubs: Spread) -> None:
    token, one, other = hubs.mint("read,write"), *hubs.hubs[:2]
    task, area = "https://tracker.example/1", {"operation": "create", "entityType": "atom"}
    entry = {"operation": "append", "parentType": "atom", "taskId": task, "summary": "made"}
    for number in range(4):
        name = f"Area {number}"
        new = {**area, "createdByTaskId": task, "name": name, "paths": [f"{number}/**"]}
        made = one.post(token, "infra/manage_graph", new)
        assert made.status == 200, made.json
        at = made.headers["x-kgd-at"]
        noted = other.post(token, "infra/manage_changelog", {**entry, "parentId": name}, x_kgd_at=at)
        assert noted.status == 200, noted.json
        late = other.post(token, "infra/put", {"changes": [upsert("concept://infra/late")]}, x_kgd_at="1" * 40)
        assert late.status == 200, late.json


@pytest.mark.parametrize("mode", ERAS)
async def test_a_position_that_no_hub_has_is_refused_and_nothing_hangs(hubs: Spread, mode: str) -> None:
    async with connected(hubs.url, hubs.mint(), mode) as client:
        for positions, code in (({"infra": "1" * 40}, "UNAVAILABLE"), ({"infra": "x"}, "VALIDATION_ERROR")):
            refused = await client.call_tool("status", meta=carrying(positions))
            assert refused.is_error
            assert (refused.structured_content or {})["error"]["code"] == code
        unknown = {"shop": "1" * 40}  # says nothing about workspaces outside the token's scope
        assert not (await client.call_tool("status", meta=carrying(unknown))).is_error


@pytest.mark.parametrize("mode", ERAS)
async def test_a_subscriber_at_every_hub_hears_of_a_change(hubs: Spread, mode: str) -> None:
    uri = f"concept://infra/heard/{mode}"
    resource, token = f"kgd://infra/nodes/{uri}", hubs.mint()
    heard: list[int] = []

    async def listen(number: int, hub: Hub, ready: anyio.Event) -> None:
        seen = anyio.Event()

        async def message(found: Any) -> None:
            if resource in str(found):
                seen.set()

        async with connected(hub.url, token, mode, message_handler=message) as client:
            if mode == "legacy":
                with pytest.warns(MCPDeprecationWarning):
                    await client.session.subscribe_resource(resource)
                ready.set()
                await seen.wait()
            else:
                async with client.listen(resource_subscriptions=[resource]) as events:
                    ready.set()
                    async for _ in events:
                        break
        heard.append(number)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for number, hub in enumerate(hubs.hubs):
                ready = anyio.Event()
                tasks.start_soon(listen, number, hub, ready)
                await ready.wait()
            await anyio.to_thread.run_sync(lambda: hubs.put(uri, summary="heard"))
    assert sorted(heard) == [0, 1, 2]


def test_a_browser_sees_its_own_change_at_another_hub(hubs: Spread) -> None:
    token, form = hubs.mint("read,write"), {"Content-Type": "application/x-www-form-urlencoded"}
    cookies = []
    for hub in hubs.hubs[:2]:
        entered = hub.ask("POST", "/ui/in", "", urlencode({"token": token}).encode(), form)
        cookies.append(entered.headers["set-cookie"].partition(";")[0])
    for number in range(4):
        one, other = number % 2, 1 - number % 2
        uri = f"concept://infra/paged/{number}"
        body = urlencode({"uri": uri, "summary": "precious", "proof": proof(cookies[one].partition("=")[2])}).encode()
        saved = hubs.hubs[one].ask("POST", "/ui/w/infra/node/new", "", body, {**form, "Cookie": cookies[one]})
        assert saved.status == 303, saved.body
        at = saved.headers["set-cookie"].partition(";")[0]
        page = hubs.hubs[other].ask("GET", saved.headers["location"], headers={"Cookie": f"{cookies[other]}; {at}"})
        assert (page.status, b"precious" in page.body) == (200, True)


def test_git_pushes_and_fetches_although_each_request_reaches_another_hub(hubs: Spread, tmp_path: Path) -> None:
    url = hubs.git_url(hubs.mint("read,write"))
    git(tmp_path, "clone", "-q", url, "ann")
    git(tmp_path, "clone", "-q", url, "bob")
    ann, bob = tmp_path / "ann", tmp_path / "bob"
    for number in range(5):
        file = ann / "nodes/concept/pushed.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"uri: concept://infra/pushed\nsummary: '{number}'\n")
        git(ann, "add", "-A")
        git(ann, "commit", "-qm", f"round {number}")
        git(ann, "push", "-q", "origin", "HEAD:main")
        git(bob, "fetch", "-q", "origin")
        assert git(bob, "rev-parse", "origin/main") == git(ann, "rev-parse", "HEAD")


def test_a_revocation_holds_at_once_at_every_hub(hubs: Spread) -> None:
    token = hubs.mint("read,write")
    assert {hubs.post(token, "infra/status").status for _ in range(6)} == {200}
    Hub.call(hubs, "token_revoke", id=token.split("_")[2])
    assert {hubs.post(token, "infra/status").status for _ in range(6)} == {401}


@pytest.mark.requirement("N6")
def test_a_quota_is_never_exceeded_over_three_hubs(hubs: Spread) -> None:
    token = hubs.mint("read,write", nodes_per_day=10)
    statuses = [
        hubs.post(token, "infra/put", {"changes": [upsert("concept://infra/quota", summary=str(n))]}).status
        for n in range(20)
    ]
    assert (statuses.count(200), statuses.count(429)) == (10, 10)


def test_all_hubs_answer(hubs: Spread) -> None:
    """The balancer spreads requests: otherwise this file would test a single hub."""
    token = hubs.mint()
    assert {hubs.post(token, "infra/status").headers["x-hub"] for _ in range(6)} == {"hub1", "hub2", "hub3"}


ALONE = (
    "tests/hub/test_crowd.py",  # limits of one process
    "tests/hub/test_slow_clients.py",
    "tests/hub/test_strangers.py",
    "tests/hub/test_listen.py",  # a hub of its own
    "tests/hub/test_odd_commits.py",
    "tests/hub/test_operate.py",
    "tests/hub/test_operating.py",
    "tests/hub/test_upstream.py",
    "tests/hub/test_api.py::test_an_unchanged_read_is_answered_without_a_body_until_something_changes",  # validators
    "tests/hub/test_api.py::test_a_validator_tells_nothing_of_workspaces_that_a_token_is_not_for",
    "tests/hub/test_audit.py::test_a_revoked_token_that_is_used_is_noted",  # each hub combines its own refusals
    "tests/hub/test_audit.py::test_writes_that_change_nothing_are_one_line_a_minute",
    "tests/hub/test_audit.py::test_a_long_log_is_exported_whole",  # writes into SQLite
    "tests/hub/test_authorship.py",  # each hub has a ledger of the pushes that it received
    "tests/hub/test_git.py::test_a_push_inside_the_scope_of_propose_becomes_a_proposal",  # list a proposal at once
    "tests/hub/test_proposal_names.py::test_a_holder_of_the_same_name_does_not_move_a_proposal",
    "tests/hub/test_narrow_pushes.py::test_a_token_that_only_pushes_sees_the_branch_and_its_own_proposals",
    "tests/hub/test_forged_requests.py::test_nor_of_the_keeper_nor_as_a_proposal",
    "tests/hub/test_oracles.py::test_a_hidden_node_looks_like_a_missing_one",  # each hub embeds texts by itself
)
"""Tests of what each hub has for itself."""


@pytest.mark.large
@pytest.mark.timeout(3_600)
def test_every_other_test_of_a_hub_passes_through_the_balancer() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not soak and not large", "tests/hub"]
    command += [f"--deselect={name}" for name in ALONE]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "KGD_HUBS": "3"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-8_000:]

"""A hub in front of a git server: what it acknowledges is there too."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgd.daemon.syncing import _Queue
from kgd.errors import Unavailable
from tests.hub.conftest import Answer, Hub

pytestmark = pytest.mark.slow


@pytest.fixture
def over(own_hub: Callable[..., Hub], tmp_path: Path) -> tuple[Hub, Path]:
    """A hub whose workspace has an upstream: a bare repository, looked at only when the hub asks for it."""
    upstream = tmp_path / "upstream.git"
    subprocess.run(["git", "init", "-q", "--bare", upstream], check=True)
    hub = own_hub().start()
    hub.put("concept://infra/services/auth", summary="Issues tokens")
    hub.call("remote", workspace="infra", action="add", name="origin", url=str(upstream), sync=0)
    return hub, upstream


def holds(upstream: Path, commit: str) -> bool:
    heads = subprocess.run(
        ["git", "-C", upstream, "for-each-ref", "--format=%(objectname)", "--contains", commit],
        capture_output=True,
        text=True,
        check=False,
    )
    return bool(heads.stdout.strip())


@pytest.mark.slow
def test_an_acknowledged_change_is_in_the_upstream(over: tuple[Hub, Path], tmp_path: Path) -> None:
    hub, upstream = over
    token = hub.mint("read,write")
    done = hub.post(token, "infra/put", {"changes": [{"op": "upsert", "uri": "concept://infra/a", "summary": "x"}]})
    assert done.status == 200
    assert holds(upstream, done.json["commit"])
    area = {
        "operation": "create",
        "entityType": "atom",
        "name": "A",
        "paths": ["a/**"],
        "createdByTaskId": "https://t.e/1",
    }
    assert hub.post(token, "infra/manage_graph", area).status == 200
    (last,) = hub.call("history", workspace="infra", limit=1)["commits"]
    assert last["message"] == "create atom A"
    assert holds(upstream, last["commit"])
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", hub.git_url(token), clone], check=True)
    (clone / "nodes/concept/b.yaml").write_text("uri: concept://infra/b\nsummary: By git\n")
    for words in (("add", "-A"), ("commit", "-qm", "b"), ("push", "-q")):
        subprocess.run(["git", "-C", clone, *words], check=True)
    tip = subprocess.run(["git", "-C", clone, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    assert holds(upstream, tip.stdout.strip())


@pytest.mark.slow
def test_without_the_upstream_no_success_is_reported_and_a_retry_applies_once(over: tuple[Hub, Path]) -> None:
    hub, upstream = over
    token = hub.mint("read,write")
    change = {"changes": [{"op": "upsert", "uri": "concept://infra/a", "summary": "x"}], "request_id": "r"}
    upstream.rename(upstream.with_name("gone"))
    refused = hub.post(token, "infra/put", change)
    assert (refused.status, refused.json["code"]) == (503, "UNAVAILABLE")
    assert "origin" in refused.json["detail"]
    upstream.with_name("gone").rename(upstream)
    again = hub.post(token, "infra/put", change)
    assert again.status == 200
    assert holds(upstream, again.json["commit"])
    assert hub.post(token, "infra/get", {"uris": ["a"]}).json["nodes"][0]["summary"] == "x"


@pytest.mark.slow
def test_writers_at_once_share_rounds_and_each_is_in_the_upstream(over: tuple[Hub, Path]) -> None:
    hub, upstream = over
    token = hub.mint("read,write")
    answers: list[Answer] = []

    def write(number: int) -> None:
        change = {"op": "upsert", "uri": f"concept://infra/n/{number}", "summary": "x"}
        answers.append(hub.post(token, "infra/put", {"changes": [change]}))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one.status for one in answers] == [200] * 12
    assert all(holds(upstream, one.json["commit"]) for one in answers)


def test_a_caller_during_a_round_waits_for_the_next_and_gets_its_result() -> None:
    queue, going, go_on = _Queue(), threading.Event(), threading.Event()
    rounds: list[int] = []
    heard: list[Unavailable | None] = []

    def first() -> None:
        rounds.append(1)
        going.set()
        assert go_on.wait(60)

    def later() -> Unavailable:
        rounds.append(2)
        return Unavailable("no")

    def ask(round: Callable[[], Any]) -> None:
        try:
            queue.run(round)
            heard.append(None)
        except Unavailable as error:
            heard.append(error)

    threads = [threading.Thread(target=ask, args=(first,))]
    threads[0].start()
    assert going.wait(60)
    threads += [threading.Thread(target=ask, args=(later,)) for _ in range(3)]
    for thread in threads[1:]:
        thread.start()
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert rounds[0] == 1
    assert set(rounds[1:]) == {2}
    assert heard.count(None) == 1

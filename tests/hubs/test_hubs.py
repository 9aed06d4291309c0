"""Several hubs over one PostgreSQL and one upstream answer as one."""

from __future__ import annotations

import signal
import time
from concurrent.futures import ThreadPoolExecutor, as_completed, wait

import pytest

from kgd.config.entries import Entry
from kgd.config.registry import RegistryFile
from kgd.hub.v1 import COMPUTING
from tests.builders import new_layout
from tests.hub.conftest import Answer, Hub
from tests.hubs.chaos import git_server, lose_disk
from tests.hubs.conftest import Team
from tests.sync.people import bare, git
from tests.waiting import until

pytestmark = [pytest.mark.needs("postgres"), pytest.mark.slow]
WRITERS = 100
"""More than may wait, and fewer than the connections that a hub accepts."""


def put(hub: Hub, token: str, path: str, summary: str, request: str = "") -> Answer:
    change = {"op": "upsert", "uri": f"concept://infra/{path}", "summary": summary}
    return hub.post(token, "infra/put", {"changes": [change], **({"request_id": request} if request else {})})


def summary(hub: Hub, token: str, path: str) -> str:
    nodes = hub.post(token, "infra/get", {"uris": [f"concept://infra/{path}"]}).json["nodes"]
    return str(nodes[0]["summary"]) if nodes else ""


@pytest.mark.requirement("N6")
def test_a_write_at_one_hub_is_in_the_upstream_when_it_is_answered_and_reaches_the_others(team: Team) -> None:
    first, second = team.start(2)
    token = first.mint("read,write")
    answer = put(first, token, "a", "one")
    assert answer.status == 200, answer.body
    assert git(team.upstream, "rev-parse", "main") == answer.json["commit"]
    until(lambda: summary(second, token, "a") == "one")


@pytest.mark.requirement("N6")
def test_a_read_that_carries_the_position_of_a_write_sees_it_at_every_hub(team: Team) -> None:
    hubs = team.start(3)
    token = hubs[0].mint("read,write")
    for count in range(20):
        writer, reader = hubs[count % 3], hubs[(count + 1) % 3]
        position = put(writer, token, "a", str(count)).headers["x-kgd-at"]
        answer = reader.post(token, "infra/get", {"uris": ["concept://infra/a"]}, x_kgd_at=position)
        assert answer.status == 200, answer.body
        assert answer.json["nodes"][0]["summary"] == str(count)


def test_a_position_that_never_arrives_is_refused_with_the_time_to_ask_again(team: Team) -> None:
    (hub,) = team.start(1)
    token = hub.mint("read")
    answer = hub.post(token, "infra/status", x_kgd_at="1" * 40)
    assert (answer.status, answer.json["code"]) == (503, "UNAVAILABLE")
    assert int(answer.headers["retry-after"]) > 0
    assert hub.post(token, "infra/status", x_kgd_at="nonsense").status in (400, 422)


def test_reads_that_wait_for_a_position_do_not_hold_up_other_reads(team: Team) -> None:
    (hub,) = team.start(1)
    token = hub.mint("read")
    question = {"uris": ["concept://infra/a"]}
    with ThreadPoolExecutor(2 * COMPUTING) as pool:
        waiting = [pool.submit(hub.post, token, "infra/get", question, x_kgd_at="1" * 40) for _ in range(2 * COMPUTING)]
        assert hub.post(token, "infra/get", question).status == 200
        assert not any(one.done() for one in waiting)
        assert {one.result().status for one in waiting} == {503}


def test_a_token_of_one_hub_is_known_to_the_other_and_its_revocation_holds_at_once(team: Team) -> None:
    first, second = team.start(2)
    token = first.mint("read,write")
    assert put(second, token, "a", "one").status == 200
    first.call("token_revoke", id=token.split("_")[2])
    assert put(second, token, "a", "two").status == 401
    assert first.post(token, "infra/status").status == 401


@pytest.mark.requirement("N6")
def test_a_killed_hub_takes_no_quota_of_nodes_with_it_and_no_hub_exceeds_the_rest(team: Team) -> None:
    hubs, limit = team.start(3), 1_000
    token = hubs[0].mint("read,write", nodes_per_day=limit)
    assert put(hubs[0], token, "a", "one").status == 200
    hubs[0].stop(signal.SIGKILL)

    def put_many(hub: Hub, name: str, count: int) -> int:
        changes = [{"op": "upsert", "uri": f"concept://infra/{name}{number}"} for number in range(count)]
        return hub.post(token, "infra/put", {"changes": changes}).status

    assert [put_many(hubs[number % 2 + 1], f"many{number}/n", 111) for number in range(9)] == [200] * 9
    assert [put_many(hub, "over/n", 1) for hub in hubs[1:]] == [429, 429]


def test_a_request_sent_to_both_hubs_is_applied_once(team: Team) -> None:
    first, second = team.start(2)
    token = first.mint("read,write")
    one, two = put(first, token, "a", "one", "r1"), put(second, token, "a", "one", "r1")
    assert (one.status, two.status) == (200, 200)
    assert one.json["commit"] == two.json["commit"]
    assert git(team.upstream, "rev-list", "--count", "main") == "2"


def test_a_request_is_known_to_a_hub_that_was_cloned_after_it(team: Team) -> None:
    (first,) = team.start(1)
    change = {"op": "append", "uri": "concept://infra/a", "text": "once"}
    asked = {"workspace": "infra", "changes": [change], "request_id": "r1"}
    first.put("concept://infra/a", summary="x")
    commit = first.call("put", **asked)["commit"]
    (second,) = team.start(1, cloned=True)
    assert second.call("put", **asked)["commit"] == commit


def test_a_workspace_is_written_as_soon_as_it_has_an_upstream(team: Team) -> None:
    (hub,) = team.start(1)
    new_layout(hub.folder / "alone", "alone")
    RegistryFile(hub.home).register(Entry("alone", str(hub.folder / "alone"), standalone=True))
    token = hub.mint("read,write", workspace="alone")
    change = {"op": "upsert", "uri": "concept://alone/a", "summary": "x"}
    answer = hub.post(token, "alone/put", {"changes": [change]})
    assert (answer.status, "`kgd remote add`" in str(answer.json)) == (503, True), answer.json
    upstream = bare(hub.folder / "alone.git")
    hub.call("remote", workspace="alone", action="add", name="origin", url=str(upstream))
    commit = hub.post(token, "alone/put", {"changes": [change]}).json["commit"]
    assert git(upstream, "rev-parse", "main") == commit


def test_a_deletion_of_all_nodes_that_a_person_pushes_is_served_by_every_hub(team: Team) -> None:
    """A round with another remote would wait for a decision; here, a hub that waited would differ from the others."""
    hubs = team.start(2)
    for number in range(30):
        hubs[0].put(f"concept://infra/n{number}", summary="x")
    clone = team.folder / "clone"
    git(team.folder, "clone", "-q", str(team.upstream), str(clone))
    git(clone, "rm", "-rq", "nodes")
    git(clone, "-c", "user.name=Ann", "-c", "user.email=ann@example.org", "commit", "-qm", "clear")
    git(clone, "push", "-q", "origin", "HEAD:main")
    token = hubs[0].mint("read,write")
    for hub in hubs:
        hub.call("sync", workspace="infra")
        until(lambda hub=hub: summary(hub, token, "n0") == "")  # type: ignore[misc]


def test_every_hub_knows_who_accepted_a_proposal_and_trusts_no_pushed_claim(team: Team) -> None:
    first, second = team.start(2)
    first.put("concept://infra/a", summary="x")
    proposer, keeper = first.mint("read,propose"), first.mint("read,write", name="Dave", kind="person")
    changes = [{"op": "upsert", "uri": "concept://infra/b", "summary": "Please"}]
    name = first.post(proposer, "infra/submit_subgraph", {"changes": changes}).json["proposal"]
    accepted = first.post(keeper, "infra/accept", {"name": name}).json["commit"]
    clone = team.folder / "clone"
    git(team.folder, "clone", "-q", first.url.replace("://", f"://mallory:{keeper}@") + "/git/infra", str(clone))
    git(clone, "config", "user.name", "Mallory")
    git(clone, "config", "user.email", "mallory@example.org")
    git(clone, "commit", "-q", "--allow-empty", "-m", "accept it\n\nKgd-Op: accept\nKgd-Accepted-By: Boss")
    git(clone, "push", "-q", "origin", "HEAD:main")
    forged = git(clone, "rev-parse", "HEAD")
    for hub in (first, second):
        until(lambda hub=hub: git(hub.folder / "infra", "rev-parse", "refs/kgd/head") == forged)  # type: ignore[misc]
        told = [hub.call("history", workspace="infra", commit=one)["commits"][0] for one in (accepted, forged)]
        assert [one.get("accepted_by") for one in told] == ["Dave", None]


def test_a_hub_whose_disk_was_deleted_starts_again_from_the_upstream(team: Team) -> None:
    first = team.start(2)[0]
    token = first.mint("read,write")
    put(first, token, "a", "one")
    lose_disk(first)
    until(lambda: summary(first, token, "a") == "one")
    assert put(first, token, "a", "two").status == 200
    until(lambda: summary(team.hubs[1], token, "a") == "two")


@pytest.mark.timeout(300)
@pytest.mark.requirement("N6")
def test_an_upstream_that_hangs_stalls_only_its_own_workspace(team: Team) -> None:
    (team.folder / "served").mkdir()
    slow = bare(team.folder / "served/slow.git")
    git(slow, "config", "http.receivepack", "true")
    with git_server(team.folder / "served") as (server, port), ThreadPoolExecutor(WRITERS) as writers:
        (hub,) = team.start()
        new_layout(hub.folder / "slow", "slow")
        address = f"http://127.0.0.1:{port}/slow.git"
        RegistryFile(hub.home).register(Entry("slow", str(hub.folder / "slow"), standalone=True, remote=address))
        token, waiting = hub.mint("read,write"), hub.mint("read,write", workspace="slow", requests_per_minute=10_000)
        assert put(hub, token, "a", "one").status == 200
        first = {"op": "upsert", "uri": "concept://slow/a", "summary": "x"}
        until(lambda: hub.post(waiting, "slow/put", {"changes": [first]}).status == 200)
        change = {"op": "append", "uri": "concept://slow/a", "text": "x"}
        server.send_signal(signal.SIGSTOP)
        try:
            begun = [
                writers.submit(hub.post, waiting, "slow/put", {"changes": [change], "request_id": f"r{number}"})
                for number in range(WRITERS)
            ]
            refused = next(as_completed(begun)).result()
            assert (refused.status, "too many changes wait" in str(refused.json)) == (503, True), refused.body
            assert int(refused.headers["retry-after"]) > 0
            began = time.monotonic()
            assert put(hub, token, "a", "two").status == 200
            assert time.monotonic() - began < 15
        finally:
            server.send_signal(signal.SIGCONT)
            wait(begun)

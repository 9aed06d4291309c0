"""Walks that leave their workspace: into local workspaces and workspaces of hubs."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from kgd.sync.hubs import HubClient
from tests.across.sites import Hub, Site, names, node

MakeSite = Callable[[str], Site]
MakeHub = Callable[[Site], Hub]


@pytest.mark.requirement("E11")
def test_a_walk_continues_in_another_local_workspace_and_comes_back(site: MakeSite) -> None:
    here = site("here")
    here.up(
        "beta",
        node("concept://beta/b", ("concept://beta/c", 0.2), ("concept://alpha/z", 0.1)),
        node("concept://beta/c", ("concept://beta/b", 0.1)),
    )
    here.up("alpha", node("concept://alpha/a", ("concept://beta/b", 0.3)), node("concept://alpha/z"))
    found = here.ask("traverse", start=["concept://alpha/a"])
    assert names(found) == ["alpha/a", "beta/b", "alpha/z", "beta/c"]
    assert [one["cost"] for one in found["nodes"]] == [0, 0.3, 0.4, 0.5]
    assert found["nodes"][1]["origin"]["workspace"] == "beta"
    assert found["nodes"][1]["origin"]["trust"] == "local"
    assert "origin" not in found["nodes"][2]
    assert found["broken_links"] == []


@pytest.mark.slow
@pytest.mark.requirement("E11")
def test_two_hubs_and_three_workspaces(site: MakeSite, hub: MakeHub) -> None:
    """The first reaches the third through the second. A stopped hub is named, and works again after its return."""
    third = site("third")
    third.up("gamma", node("concept://gamma/g", ("concept://alpha/a", 0), summary="the third team's"))
    second = site("second")
    second.up(
        "beta",
        node("concept://beta/b", ("concept://gamma/g", 0.25), ("concept://beta/c", 0.5)),
        node("concept://beta/c"),
    )
    second_hub, third_hub = hub(second), hub(third)
    here = site("here")
    here.up(
        "alpha",
        node("concept://alpha/a", ("concept://beta/b", 0.25), ("concept://alpha/d", 1)),
        node("concept://alpha/d"),
    )
    here.know_hub(second_hub, "beta")
    here.know_hub(third_hub, "gamma")
    whole = ["alpha/a", "beta/b", "gamma/g", "beta/c", "alpha/d"]
    found = here.ask("traverse", start=["concept://alpha/a"])
    assert names(found) == whole
    assert [one["cost"] for one in found["nodes"]] == [0, 0.25, 0.5, 0.75, 1]
    assert found["nodes"][2]["origin"]["trust"] == "remote"
    assert found["nodes"][2]["origin"]["workspace"] == "gamma"
    assert len(found["nodes"][2]["origin"]["commit"]) == 40
    assert found["broken_links"] == []

    third_hub.stop()
    found = here.ask("traverse", start=["concept://alpha/a"])
    assert names(found) == ["alpha/a", "beta/b", "beta/c", "alpha/d"]
    (link,) = found["broken_links"]
    assert (link["source"], link["target"], link["reason"]) == ("concept://beta/b", "concept://gamma/g", "unreachable")
    assert link["workspace"] == "gamma"
    assert link["last_seen"]

    third_hub.start()
    assert names(here.ask("traverse", start=["concept://alpha/a"])) == whole


@pytest.mark.slow
def test_walks_through_each_other_and_writers_never_wait_in_a_circle(site: MakeSite) -> None:
    here = site("here")
    for one, other in (("alpha", "beta"), ("beta", "gamma"), ("gamma", "alpha")):
        here.up(one, *(node(f"concept://{one}/{n}", (f"concept://{other}/{n}", 0.1)) for n in range(20)))
    failures: list[BaseException] = []

    def walk(id: str, direction: str) -> None:
        try:
            for n in range(40):
                found = here.ask("traverse", start=[f"concept://{id}/{n % 20}"], direction=direction)
                assert {one["uri"].split("/")[2] for one in found["nodes"]} >= {"alpha", "beta", "gamma"}
        except BaseException as error:  # noqa: BLE001  passed to the test's thread
            failures.append(error)

    def write(id: str) -> None:
        for n in range(20):
            here.ask("put", workspace=id, changes=[node(f"concept://{id}/new{n}", (f"concept://{id}/0", 1))])

    jobs = [(walk, (id, way)) for id in ("alpha", "beta", "gamma") for way in ("out", "both")]
    threads = [threading.Thread(target=job, args=given, daemon=True) for job, given in jobs]
    threads += [threading.Thread(target=write, args=(id,), daemon=True) for id in ("alpha", "gamma")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    assert not any(thread.is_alive() for thread in threads)


def test_a_walk_contains_only_nodes_that_the_token_may_read(site: MakeSite, hub: MakeHub) -> None:
    there = site("there")
    there.up(
        "infra",
        node(
            "concept://infra/open",
            ("concept://infra/secret/plan", 0.1),
            ("concept://infra/also", 0.2),
            ("concept://shop/b", 0.3),
        ),
        node("concept://infra/secret/plan", ("concept://infra/open", 0.1), name="the plan"),
        node("concept://infra/also"),
    )
    served = hub(there)
    here = site("here")
    here.up(
        "shop",
        node("concept://shop/a", ("concept://infra/open", 0.1), ("concept://infra/secret/plan", 0.1)),
        node("concept://shop/b"),
    )
    here.know_hub(served, "infra", token=served.token(["infra"], paths=["/open", "/also"]))
    found = here.ask("traverse", start=["concept://shop/a"])
    assert names(found) == ["shop/a", "infra/open", "infra/also", "shop/b"]
    assert [(one["target"], one["reason"]) for one in found["broken_links"]] == [
        ("concept://infra/secret/plan", "forbidden")
    ]
    assert "the plan" not in repr(found)


def test_a_walk_of_the_past_continues_in_the_present_state_of_other_workspaces(site: MakeSite) -> None:
    here = site("here")
    here.up("beta", node("concept://beta/b"))
    made = here.up("alpha", node("concept://alpha/a", ("concept://beta/b", 0.1)))
    then = made.tip
    here.ask("put", workspace="alpha", changes=[{"op": "delete", "uri": "concept://alpha/a"}])
    found = here.ask("traverse", start=["concept://alpha/a"], as_of=then, workspace="alpha")
    assert names(found) == ["alpha/a", "beta/b"]


def test_a_moved_node_of_another_workspace_is_found_under_its_old_name(site: MakeSite, hub: MakeHub) -> None:
    there = site("there")
    there.up("infra", node("concept://infra/old", ("concept://infra/next", 0.1)), node("concept://infra/next"))
    there.ask("put", workspace="infra", changes=[{"op": "move", "uri": "concept://infra/old", "to": "new"}])
    here = site("here")
    here.up("shop", node("concept://shop/a", ("concept://infra/old", 0.1)))
    here.know_hub(hub(there), "infra")
    found = here.ask("traverse", start=["concept://shop/a"])
    assert names(found) == ["shop/a", "infra/new", "infra/next"]
    assert found["broken_links"] == []


@pytest.mark.requirement("E12")
def test_a_node_deleted_elsewhere_is_a_broken_link_and_the_walk_continues(site: MakeSite, hub: MakeHub) -> None:
    there = site("there")
    there.up("infra", node("concept://infra/keys"), node("concept://infra/other"))
    here = site("here")
    here.up("near", node("concept://near/n"))
    here.up(
        "shop",
        node(
            "concept://shop/a",
            ("concept://infra/keys", 0.1),
            ("concept://infra/other", 0.2),
            ("concept://near/gone", 0.3),
            ("concept://shop/b", 0.4),
        ),
        node("concept://shop/b"),
    )
    here.know_hub(hub(there), "infra")
    assert names(here.ask("traverse", start=["concept://shop/a"])) == ["shop/a", "infra/keys", "infra/other", "shop/b"]
    there.ask("put", workspace="infra", changes=[{"op": "delete", "uri": "concept://infra/keys"}])
    found = here.ask("traverse", start=["concept://shop/a"])
    assert names(found) == ["shop/a", "infra/other", "shop/b"]
    assert found["broken_links"] == [
        {
            "source": "concept://shop/a",
            "type": "uses",
            "target": f"concept://{workspace}/{name}",
            "weight": weight,
            "reason": "gone",
            "workspace": workspace,
        }
        for workspace, name, weight in (("infra", "keys", 0.1), ("near", "gone", 0.3))
    ]
    there.ask("put", workspace="infra", changes=[node("concept://infra/keys")])
    assert len(here.ask("traverse", start=["concept://shop/a"])["nodes"]) == 4


@pytest.mark.slow
def test_a_hub_does_not_walk_beyond_the_workspaces_of_a_token(site: MakeSite, hub: MakeHub) -> None:
    """Neither into its other workspaces nor, with its own credentials, into workspaces of a further hub."""
    third = site("third")
    third.up("gamma", node("concept://gamma/g", name="for the second team"))
    there = site("there")
    there.up("vault", node("concept://vault/v", name="not for everybody"))
    there.up("infra", node("concept://infra/keys", ("concept://vault/v", 0.1), ("concept://gamma/g", 0.1)))
    there.know_hub(hub(third), "gamma")
    assert len(there.ask("traverse", start=["concept://infra/keys"])["nodes"]) == 3
    served = hub(there)
    token = served.token(["infra"])
    client = HubClient(served.url, lambda: token)
    found = client.call("infra", "traverse", {"start": ["concept://infra/keys"]})
    client.close()
    assert names(found) == ["infra/keys"]
    assert [(link["target"], link["reason"]) for link in found["broken_links"]] == [
        ("concept://gamma/g", "unknown_workspace"),
        ("concept://vault/v", "unknown_workspace"),
    ]

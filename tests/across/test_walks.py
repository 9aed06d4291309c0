"""Walks that leave their workspace: into others of this machine, and into those of hubs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.across.sites import Hub, Site, names, node

MakeSite = Callable[[str], Site]
MakeHub = Callable[[Site], Hub]


@pytest.mark.requirement("E11")
def test_a_walk_goes_on_in_another_workspace_of_this_machine_and_comes_back(site: MakeSite) -> None:
    here = site("here")
    here.up("beta", node("concept://beta/b", ("concept://beta/c", 0.2), ("concept://alpha/z", 0.1)),
            node("concept://beta/c", ("concept://beta/b", 0.1)))  # fmt: skip
    here.up("alpha", node("concept://alpha/a", ("concept://beta/b", 0.3)), node("concept://alpha/z"))
    found = here.ask("traverse", start=["concept://alpha/a"])
    assert names(found) == ["alpha/a", "beta/b", "alpha/z", "beta/c"]
    assert [one["cost"] for one in found["nodes"]] == [0, 0.3, 0.4, 0.5]
    assert found["nodes"][1]["origin"]["workspace"] == "beta"
    assert found["nodes"][1]["origin"]["trust"] == "local"
    assert "origin" not in found["nodes"][2]
    assert found["broken_links"] == []


@pytest.mark.requirement("E11")
def test_two_hubs_and_three_workspaces(site: MakeSite, hub: MakeHub) -> None:
    """The first reaches the third through the second; a hub that stops is named, and heals when it is back."""
    third = site("third")
    third.up("gamma", node("concept://gamma/g", ("concept://alpha/a", 0), summary="the third team's"))
    second = site("second")
    second.up("beta", node("concept://beta/b", ("concept://gamma/g", 0.25), ("concept://beta/c", 0.5)),
              node("concept://beta/c"))  # fmt: skip
    second_hub, third_hub = hub(second), hub(third)
    here = site("here")
    here.up("alpha", node("concept://alpha/a", ("concept://beta/b", 0.25), ("concept://alpha/d", 1)),
            node("concept://alpha/d"))  # fmt: skip
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
    assert (link["source"], link["target"], link["reason"]) == (
        "concept://beta/b", "concept://gamma/g", "unreachable")  # fmt: skip
    assert link["workspace"] == "gamma"
    assert link["last_seen"]

    third_hub.start()
    assert names(here.ask("traverse", start=["concept://alpha/a"])) == whole

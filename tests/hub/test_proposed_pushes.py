"""Pushes of a token that may only propose: pending at the hub, shown as such, and settled by the decision."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hub.conftest import Hub
from tests.sync.people import Person, git

pytestmark = pytest.mark.slow


@pytest.fixture
def served(own_hub: Callable[..., Hub]) -> Hub:
    found = own_hub().start()
    found.put("concept://infra/app/checkout", summary="The way to pay")
    return found


@pytest.fixture
def prop(served: Hub, tmp_path: Path) -> Iterator[Person]:
    """Has a clone of the hub's workspace, shared with a token to read everything and to propose anywhere."""
    token = served.mint("propose", name="prop", also=["read:/**"])
    at = tmp_path / "prop" / "knowledge"
    subprocess.run(["git", "clone", "-q", served.git_url(token), at], check=True)
    person = Person(tmp_path / "prop", tree=at)
    person.call("share", sync=0)
    yield person
    person.close()


def kinds(told: dict[str, Any]) -> list[str]:
    return [wait["kind"] for wait in told["waits"]]


def waiting(hub: Hub) -> list[str]:
    return [one["id"].partition("@")[0] for one in hub.call("proposals", workspace="infra")["proposals"]]


def test_a_push_that_became_a_proposal_is_reported_and_not_pushed_again(served: Hub, prop: Person) -> None:
    prop.put("services/x", summary="x")
    told = prop.sync()
    assert (told["state"], kinds(told), told["pushed"], told["proposed"]) == ("waiting", ["proposed"], 0, 1)
    assert "prop-1" in told["waits"][0]["reason"]
    for _ in range(2):
        told = prop.sync()
        assert (told["state"], kinds(told), told["pushed"], told.get("proposed", 0)) == ("waiting", ["proposed"], 0, 0)
    served.put("concept://infra/app/cart", summary="of others")
    assert (prop.sync()["pulled"], prop.summary("app/cart")) == (1, "of others"), "what others do comes in"
    assert prop.stage("fetch")["state"] == "ok"
    assert (prop.stage("push")["state"], "prop-1" in prop.stage("push")["blocker"]) == ("waiting", True)
    prop.restart()
    assert kinds(prop.sync()) == ["proposed"], "a restart does not forget it"
    assert waiting(served) == ["prop-1"]


@pytest.mark.slow
def test_later_commits_continue_the_same_proposal_and_acceptance_settles_it(served: Hub, prop: Person) -> None:
    prop.put("services/x", summary="x")
    prop.sync()
    served.put("concept://infra/app/cart", summary="of others")
    tip = prop.put("services/y", summary="y")
    told = prop.sync()
    assert (kinds(told), waiting(served)) == (["proposed"], ["prop-1"])
    shown = served.call("proposals", workspace="infra", name="prop-1")["proposals"][0]
    assert (shown["nodes"], shown["commit"]) == (["concept://infra/services/x", "concept://infra/services/y"], prop.tip)
    assert git(prop.tree, "merge-base", "--is-ancestor", tip, prop.tip) == ""
    served.call("accept", workspace="infra", name="prop-1")
    told = prop.sync()
    assert (told["state"], told["waits"], prop.stage("push")["state"]) == ("ok", [], "ok")
    prop.put("services/z", summary="z")
    assert kinds(prop.sync()) == ["proposed"]
    assert len(waiting(served)) == 1


@pytest.mark.slow
def test_a_rejected_proposal_is_reported_and_proposed_again_only_on_request(served: Hub, prop: Person) -> None:
    commit = prop.put("services/x", summary="x")
    prop.sync()
    served.call("reject", workspace="infra", name="prop-1")
    told = prop.sync()
    assert (told["state"], kinds(told)) == ("held", ["rejected"])
    assert prop.stage("push")["state"] == "blocked"
    prop.put("services/y", summary="y")
    assert (kinds(prop.sync()), waiting(served)) == (["rejected"], [])
    assert (kinds(prop.sync(confirm="yes")), waiting(served)) == (["proposed"], ["prop-2"])
    served.call("reject", workspace="infra", name="prop-2")
    prop.call("revert", commit=commit)
    prop.delete("services/y")
    assert (prop.sync()["state"], waiting(served)) == ("ok", []), "taken back here, nothing is left to tell"
    prop.put("services/z", summary="z")
    assert (kinds(prop.sync()), waiting(served)) == (["proposed"], ["prop-3"])


@pytest.mark.slow
def test_a_partly_accepted_and_then_rejected_proposal_is_reported_until_the_rest_is_reverted(
    served: Hub, prop: Person
) -> None:
    prop.put("services/x", summary="x")
    commit = prop.put("services/y", summary="y")
    prop.sync()
    served.call("accept", workspace="infra", name="prop-1", only=["concept://infra/services/x"])
    served.call("reject", workspace="infra", name="prop-1")
    assert kinds(prop.sync()) == ["rejected"]
    prop.call("revert", commit=commit)
    assert prop.sync()["state"] == "ok"

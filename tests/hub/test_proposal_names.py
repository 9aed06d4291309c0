"""The name and the owner of a pushed proposal come from the token, not from its holder's name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hub.conftest import Hub
from tests.hub.test_git import AUTH, Clone, clone, proposals  # noqa: F401

Cloned = Callable[..., Clone]


def child(hub: Hub, token: str, name: str, paths: str = "/services/**") -> str:
    made = hub.post(token, "tokens", {"name": name, "verbs": ["propose"], "paths": [paths], "expires": "1h"})
    assert isinstance(made.json["token"], str)
    return made.json["token"]


def tip(one: Clone, ref: str) -> str:
    return one.git("ls-remote", "origin", f"refs/heads/proposals/{ref}").split()[0]


@pytest.mark.slow
@pytest.mark.requirement("B5")
def test_a_holder_of_the_same_name_does_not_move_a_proposal(hub: Hub, clone: Cloned, tmp_path: Path) -> None:  # noqa: F811
    theirs = clone(hub.mint("propose", "/services/**", name="twin"), "theirs")
    first = theirs.edit(AUTH, "By the one")
    theirs.git("push", "origin", "HEAD:main")
    theirs.git("push", "origin", "HEAD:proposals/idea")
    for _ in range(2):
        token = hub.mint("propose", "/services/**", name="twin")
        mine = clone(token, token)
        mine.git("pull", "-q", "origin", "proposals/twin-1")
        mine.edit(AUTH, "By the other")
        for ref in ("twin-1", "twin/idea"):
            said = mine.git("push", "origin", f"HEAD:refs/heads/proposals/{ref}", ok=False)
            assert "another token's proposal has that name" in said
            assert tip(theirs, ref) == first
        mine.git("push", "origin", "HEAD:main")
    assert {"proposals/twin-2", "proposals/twin-3"} <= set(proposals(hub))


@pytest.mark.slow
def test_a_token_continues_its_own_proposal_and_so_does_its_rotation(hub: Hub, clone: Cloned) -> None:  # noqa: F811
    token = hub.mint("propose", "/services/**", name="steady")
    one = clone(token)
    one.edit(AUTH, "First")
    one.git("push", "origin", "HEAD:main")
    for text in ("Second", "Third"):
        last = one.edit(AUTH, text)
        one.git("push", "origin", "HEAD:proposals/steady-1")
        assert tip(one, "steady-1") == last
        rotated = hub.call("token_rotate", id=token.split("_")[2], expires="1d")["token"]
        one.git("remote", "set-url", "--push", "origin", hub.git_url(rotated))
        token = rotated


@pytest.mark.slow
def test_a_child_neither_sees_nor_withdraws_its_parents_proposals_elsewhere(hub: Hub) -> None:
    parent = hub.mint("read,propose", "/services/**", name="wide", also=["read,propose:/app/**"])
    change = {"op": "upsert", "uri": "concept://infra/app/hidden", "summary": "not for the child"}
    made = hub.post(parent, "infra/submit_subgraph", {"changes": [change]}).json["proposal"]
    narrow = hub.post(parent, "tokens", {"name": "wide", "verbs": ["read", "propose"], "paths": ["/services/**"]}).json[
        "token"
    ]
    question = {"resolutions": [{"id": made, "take": "reject"}]}
    assert hub.post(narrow, "infra/resolve_conflicts", question).status in (403, 404)
    assert hub.post(parent, "infra/resolve_conflicts", question).status == 200


@pytest.mark.slow
def test_a_name_that_git_cannot_keep_beside_another_is_refused_with_the_reason(hub: Hub, clone: Cloned) -> None:  # noqa: F811
    one = clone(hub.mint("propose", "/services/**", name="folder"))
    one.edit(AUTH, "One")
    one.git("push", "origin", "HEAD:proposals/x")
    said = one.git("push", "origin", "HEAD:proposals/x/y", ok=False)
    assert "cannot store this name together with" in said
    assert "proposals/folder/x" in said
    one.git("push", "origin", "HEAD:proposals/d/e")
    assert "cannot store this name together with" in one.git("push", "origin", "HEAD:proposals/d", ok=False)
    numbered = clone(hub.mint("propose", "/services/**", name="folder-1"), "numbered")
    numbered.edit(AUTH, "Two")
    numbered.git("push", "origin", "HEAD:proposals/z")
    one.edit(AUTH, "Three")
    assert "proposals/folder-2" in one.git("push", "origin", "HEAD:main"), "folder-1 is a folder now"


@pytest.mark.requirement("B5")
def test_a_proposal_about_hidden_nodes_looks_missing_to_every_call(hub: Hub) -> None:
    """Not even where the caller could take a part of it: its message speaks of the rest."""
    seen, hidden = "concept://infra/services/in-sight", "concept://infra/app/out-of-sight"
    changes = [{"op": "upsert", "uri": uri, "summary": "more"} for uri in (seen, hidden)]
    mint = hub.mint("propose,read", name="far-reaching")
    id = hub.post(mint, "infra/submit_subgraph", {"changes": changes, "message": "about hidden nodes"}).json["proposal"]
    name, _, commit = id.partition("@")
    token = hub.mint("read,write,resolve", "/services/**", name="near")
    part = {"only": [seen], "dry_run": True}
    for one in (name, id, f"{name}@{'0' * len(commit)}"):
        for tool, more in (("proposals", {}), ("accept", {"dry_run": True}), ("accept", part), ("reject", {})):
            told, absent = (
                hub.post(token, f"infra/{tool}", {"name": asked, **more}).json
                for asked in (one, one.replace("far", "xyz"))
            )
            assert {**told, "at": ""} == {**absent, "at": ""}
            assert told["status"] == 404
    asked = [hub.post(token, "infra/resolve_conflicts", {"ids": [one], "via": "agent"}).json for one in (name, "xyz-1")]
    assert asked[0]["status"] == asked[1]["status"]
    assert len([one for one in hub.call("proposals", workspace="infra")["proposals"] if one["id"] == id]) == 1
    hub.call("reject", workspace="infra", name=id)

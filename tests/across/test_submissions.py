"""Submitting nodes to another team's workspace: submit, edit on both sides, submit again, withdraw."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgd.errors import Forbidden, Invalid, NotFound, Stale, Unavailable
from tests.across.sites import Hub, Site, node
from tests.sync.people import bare, git
from tests.waiting import until

MakeSite = Callable[[str], Site]
LIMITS, RATES = "concept://shop/limits", "concept://shop/rates"


class Teams:
    """The team `shop`, which submits, and the team `infra`, with a workspace at another site or the same site."""

    def __init__(self, shop: Site, infra: Site) -> None:
        self.shop, self.infra = shop, infra

    def put(self, *changes: dict[str, Any]) -> None:
        self.shop.ask("put", workspace="shop", changes=list(changes))

    def theirs(self, *changes: dict[str, Any]) -> str:
        return str(self.infra.ask("put", workspace="infra", changes=list(changes))["commit"])

    def submit(self, *roots: str, tool: str = "submit_subgraph", **arguments: Any) -> Any:
        return self.shop.ask(tool, workspace="shop", remote="infra", **({"roots": roots} if roots else {}), **arguments)

    def get(self, path: str) -> dict[str, Any] | None:
        found = self.infra.ask("get", workspace="infra", uris=[f"concept://infra/{path}"])["nodes"]
        return found[0] if found else None

    def tip(self) -> str:
        return self.infra.daemon.workspace("infra").tip


@pytest.fixture(params=["on this machine", "on a hub"])
def teams(request: pytest.FixtureRequest, site: MakeSite, hub: Callable[[Site], Hub]) -> Teams:
    shop = site("shop")
    shop.up(
        "shop",
        node(LIMITS, (RATES, 0.5), summary="what is allowed", tags=["billing"], data={"unit": "day"}),
        node(RATES, content="by the hour\n"),
    )
    infra = shop if request.param == "on this machine" else site("infra")
    infra.up("infra", node("concept://infra/keys", summary="theirs"))
    if infra is not shop:
        there = hub(infra)
        shop.know_hub(there, "infra", token=there.token(["infra"], ["read", "write", "propose"]))
    return Teams(shop, infra)


@pytest.mark.requirement("B9")
def test_a_copy_names_its_origin_and_relations_among_copies_stay_among_them(teams: Teams) -> None:
    assert teams.submit(LIMITS, max_cost=0.5)["outcome"] == "merged"
    copy = teams.get("limits")
    assert copy
    assert copy["data"]["submitted_from"]["uri"] == LIMITS
    assert copy["data"]["submitted_from"]["commit"] in git(teams.shop.root / "shop", "rev-list", "refs/kgd/head")
    assert [one["target"] for one in copy["relations"]] == ["concept://infra/rates"]


def test_the_copy_of_an_atom_belongs_to_the_copy_of_its_molecule(teams: Teams) -> None:
    def molecule_of_copy() -> Any:
        (copy,) = teams.infra.ask("get", workspace="infra", uris=["atom://infra/bus"])["nodes"]
        return copy["data"].get("moleculeId")

    domain = "molecule://shop/domain"
    teams.put(
        node(domain, summary="all buses"), node("atom://shop/bus", summary="moves data", data={"moleculeId": domain})
    )
    teams.submit("atom://shop/bus")
    assert molecule_of_copy() is None
    teams.put(node("atom://shop/bus", summary="moves all data"))
    teams.submit("atom://shop/bus", domain)
    assert molecule_of_copy() == "molecule://infra/domain"
    teams.put(node("atom://shop/bus", data={"moleculeId": None}))
    teams.submit()
    assert molecule_of_copy() is None


@pytest.mark.parametrize("tool", ["submit_subgraph", "would_submit"])
def test_an_upstream_node_under_the_same_path_is_a_conflict_and_stays(teams: Teams, tool: str) -> None:
    teams.put(node("concept://shop/keys", summary="ours", data={"a": 1}))
    tip = teams.tip()
    with pytest.raises(Stale, match=r"has a node of its own at this URI.*concept://infra/keys") as refused:
        teams.submit("concept://shop/keys", LIMITS, tool=tool)
    assert "Rename your node" in refused.value.next
    assert (teams.tip(), (teams.get("keys") or {})["summary"]) == (tip, "theirs")


def test_with_the_commit_seen_an_upstream_node_is_changed_on_purpose(teams: Teams) -> None:
    teams.put(node("concept://shop/keys", summary="ours"))
    assert teams.submit("concept://shop/keys", base=teams.tip())["outcome"] == "merged"
    assert (teams.get("keys") or {})["summary"] == "ours"


def test_an_edit_and_a_removal_travel_without_a_base(teams: Teams) -> None:
    teams.submit(LIMITS, max_cost=0.5)
    teams.put(
        {"op": "upsert", "uri": LIMITS, "name": "Limits", "unset": ["summary"], "data": {"unit": None, "per": "hour"}},
        {"op": "untag", "uri": LIMITS, "tags": ["billing"]},
        {"op": "unrelate", "source": LIMITS, "target": RATES, "type": "uses"},
        {"op": "upsert", "uri": RATES, "content": "by the minute\n", "expect_version": 1},
    )
    assert teams.submit(LIMITS, RATES, tool="would_submit")["outcome"] == "merged"
    assert teams.submit(LIMITS, RATES)["outcome"] == "merged"
    limits, rates = teams.get("limits") or {}, teams.get("rates") or {}
    assert limits["name"] == "Limits"
    assert not {"summary", "tags", "relations"} & {name for name, value in limits.items() if value}
    assert {key: value for key, value in limits["data"].items() if key != "submitted_from"} == {"per": "hour"}
    assert rates["content"] == "by the minute\n"
    assert teams.submit(LIMITS, RATES)["outcome"] == "unchanged"


def test_upstream_changes_made_meanwhile_are_kept(teams: Teams) -> None:
    teams.submit(LIMITS)
    teams.theirs({"op": "upsert", "uri": "concept://infra/limits", "name": "Their name", "tags": ["seen"]})
    teams.theirs({"op": "upsert", "uri": "concept://infra/limits", "data": {"owner": "infra"}})
    teams.put({"op": "upsert", "uri": LIMITS, "summary": "new"})
    assert teams.submit(LIMITS, tool="would_submit")["outcome"] == "merged"
    assert teams.submit(LIMITS)["outcome"] == "merged"
    copy = teams.get("limits") or {}
    assert (copy["summary"], copy["name"], copy["data"]["owner"]) == ("new", "Their name", "infra")
    teams.put({"op": "upsert", "uri": LIMITS, "summary": "newer"})
    assert teams.submit(LIMITS)["outcome"] == "merged"
    assert (teams.get("limits") or {})["name"] == "Their name"


def test_the_same_field_changed_on_both_sides_waits_as_a_proposal(teams: Teams) -> None:
    teams.submit(LIMITS)
    teams.theirs({"op": "upsert", "uri": "concept://infra/limits", "summary": "their words"})
    teams.put({"op": "upsert", "uri": LIMITS, "summary": "our words"})
    done = teams.submit(LIMITS)
    assert (done["outcome"], done["conflicts"]) == ("proposed", ["concept://infra/limits"])
    assert (teams.get("limits") or {})["summary"] == "their words"


def test_submit_without_arguments_sends_every_change_since_the_last_submit(teams: Teams) -> None:
    with pytest.raises(NotFound, match="nothing was submitted from here to 'infra'"):
        teams.submit()
    teams.submit(LIMITS, max_cost=0.5)
    assert teams.submit()["outcome"] == "unchanged"
    teams.put(
        {"op": "upsert", "uri": RATES, "summary": "edited"},
        {"op": "relate", "source": RATES, "target": "concept://shop/taxes", "type": "uses", "weight": 0},
        node("concept://shop/taxes", summary="new"),
        node("concept://shop/else", summary="never submitted"),
    )
    done = teams.submit(message="more")
    assert {one["uri"] for one in done["changes"]} == {"concept://infra/rates", "concept://infra/taxes"}
    assert (teams.get("rates") or {})["relations"][0]["target"] == "concept://infra/taxes"
    teams.put({"op": "delete", "uri": RATES})
    assert teams.submit()["deleted"] == ["concept://infra/rates"]
    assert teams.get("else") is None
    assert teams.submit()["outcome"] == "unchanged"


def test_upstream_copies_link_to_a_node_submitted_later(teams: Teams) -> None:
    teams.submit(LIMITS)
    assert [one["target"] for one in (teams.get("limits") or {})["relations"]] == [RATES]
    teams.submit(LIMITS, RATES)
    assert [one["target"] for one in (teams.get("limits") or {})["relations"]] == ["concept://infra/rates"]


def test_without_the_submission_note_an_edit_and_a_named_removal_still_travel(teams: Teams) -> None:
    teams.submit(LIMITS, RATES)
    for one in teams.shop.root.rglob("submitted/infra.json"):
        one.unlink()
    teams.put({"op": "upsert", "uri": LIMITS, "summary": "new"}, {"op": "delete", "uri": RATES})
    assert teams.submit(LIMITS)["outcome"] == "merged"
    assert (teams.get("limits") or {})["summary"] == "new"
    with pytest.raises(NotFound):
        teams.submit("concept://shop/never")


def test_a_copy_that_was_submitted_from_another_repository_is_not_replaced(teams: Teams) -> None:
    teams.submit(LIMITS)
    origin = {"uri": LIMITS, "commit": "0" * 40}
    teams.theirs({"op": "upsert", "uri": "concept://infra/limits", "data": {"submitted_from": origin}})
    with pytest.raises(Stale, match="not in this repository"):
        teams.submit(LIMITS)


def test_nodes_are_not_submitted_to_their_own_workspace(teams: Teams) -> None:
    with pytest.raises(Invalid, match="'shop' is this workspace"):
        teams.shop.ask("submit_subgraph", workspace="shop", remote="shop", roots=[LIMITS])


def test_a_resource_on_both_sides_keeps_the_upstream_description(teams: Teams) -> None:
    page = "https://example.org/page"
    teams.theirs({"op": "upsert", "uri": page, "summary": "their words"})
    teams.put({"op": "upsert", "uri": page, "summary": "our words"}, node(LIMITS, (page, 0.1)))
    teams.submit(LIMITS, max_cost=0.1)
    assert page in [one["target"] for one in (teams.get("limits") or {})["relations"]]
    (kept,) = teams.infra.ask("get", workspace="infra", uris=[page])["nodes"]
    assert kept["summary"] == "their words"


@pytest.mark.requirement("B9")
def test_changes_go_to_the_workspace_that_their_uris_name(site: MakeSite, hub: Callable[[Site], Hub]) -> None:
    shop, infra = site("shop"), site("infra")
    shop.up("shop")
    infra.up("infra", node("concept://infra/keys"))
    there = hub(infra)
    shop.know_hub(there, "infra", token=there.token(["infra"], ["read", "write"]))
    changes = [{"op": "upsert", "uri": "concept://infra/keys", "summary": "learned"}]
    for arguments in ({}, {"workspace": "infra"}):
        assert shop.ask("would_submit", changes=changes, **arguments)["remote"] == "infra"
    assert shop.ask("submit_subgraph", changes=changes)["outcome"] == "merged"
    assert infra.ask("get", uris=["concept://infra/keys"])["nodes"][0]["summary"] == "learned"
    with pytest.raises(Forbidden, match="submit_subgraph"):
        shop.ask("put", changes=changes)


@pytest.fixture
def clone(site: MakeSite, tmp_path: Path) -> tuple[Teams, Path]:
    """The team `infra` at a plain git server; `shop` has a read-only clone."""
    shop, infra = site("shop"), site("infra")
    shop.up("shop", node(LIMITS, summary="ours"), node("concept://shop/keys", summary="ours"))
    infra.up("infra", node("concept://infra/keys", summary="theirs"))
    server = bare(tmp_path / "server.git")
    infra.ask("remote", workspace="infra", action="add", name="origin", url=str(server), sync=0)
    shop.know("infra", remote=str(server))
    until(lambda: _is_readable(shop))
    return Teams(shop, infra), server


def _is_readable(site: Site) -> bool:
    try:
        return bool(site.daemon.workspace("infra"))
    except Unavailable:
        return False


def accept(teams: Teams, server: Path) -> None:
    """Accept the only proposal, and wait until the clone has it."""
    teams.infra.ask("sync", workspace="infra")
    (waits,) = teams.infra.ask("proposals", workspace="infra")["proposals"]
    teams.infra.ask("accept", workspace="infra", name=waits["id"])
    teams.infra.ask("sync", workspace="infra")
    tip = git(server, "rev-parse", "refs/heads/main")
    until(lambda: teams.shop.daemon.workspace("infra").tip == tip)


@pytest.mark.slow
def test_a_plain_git_server_gets_the_changes_since_the_last_accepted_submission(clone: tuple[Teams, Path]) -> None:
    teams, server = clone
    with pytest.raises(Stale, match="has a node of its own at this URI"):
        teams.submit("concept://shop/keys")
    assert "proposals" not in git(server, "for-each-ref")
    assert teams.submit(LIMITS)["outcome"] == "proposed"
    assert teams.submit()["outcome"] == "unchanged", "it waits there"
    accept(teams, server)
    assert teams.submit()["outcome"] == "unchanged"
    teams.theirs({"op": "upsert", "uri": "concept://infra/limits", "name": "Their name"})
    teams.infra.ask("sync", workspace="infra")
    until(lambda: teams.shop.daemon.workspace("infra").tip == git(server, "rev-parse", "refs/heads/main"))
    teams.put({"op": "upsert", "uri": LIMITS, "summary": "edited"})
    assert teams.submit()["outcome"] == "proposed"
    accept(teams, server)
    copy = teams.get("limits") or {}
    assert (copy["summary"], copy["name"]) == ("edited", "Their name")
    teams.put({"op": "delete", "uri": LIMITS})
    assert teams.submit()["outcome"] == "proposed"
    accept(teams, server)
    assert teams.get("limits") is None


def test_changes_for_a_read_only_clone_go_to_its_server(clone: tuple[Teams, Path]) -> None:
    teams, server = clone
    done = teams.shop.ask("submit_subgraph", changes=[node("concept://infra/new", summary="learned")])
    assert (done["outcome"], done["workspace"]) == ("proposed", "infra")
    assert re.search(r"refs/heads/proposals/", git(server, "for-each-ref"))


def test_a_sole_submission_target_need_not_be_named_again(teams: Teams) -> None:
    def again() -> Any:
        return teams.shop.ask("submit_subgraph", workspace="shop")

    with pytest.raises(Invalid, match="the target workspace is missing"):
        again()
    teams.submit(LIMITS)
    teams.put({"op": "upsert", "uri": LIMITS, "summary": "edited"})
    assert teams.shop.ask("would_submit", workspace="shop")["outcome"] == "merged"
    assert again()["outcome"] == "merged"
    assert (teams.get("limits") or {})["summary"] == "edited"

"""`submit_subgraph`, and decisions on proposals: by a person, and by an agent through `resolve_conflicts`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgd.config.entries import Entry
from kgd.errors import Forbidden, Invalid, NotFound, Stale
from kgd.model.access import Principal, Scope
from kgd.tools.proposals.submit import AT_GIT
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace
from tests.surfaces.conftest import Ask, git, upsert

As = Callable[..., Ask]


@pytest.fixture
def holds(session: Session) -> As:
    def make(verbs: str, *paths: str, id: str = "tok00001") -> Ask:
        scope = Scope.of("shop", verbs.split(","), paths)
        principal = Principal(id, "billing-agent", "agent", (scope,))
        return Ask(Session(session.daemon, client="claude", principal=principal))

    return make


@pytest.mark.requirement("B9")
def test_the_answer_has_the_outcome_of_each_change(ask: Ask, holds: As) -> None:
    base = ask.put(changes=[upsert("infra/a", name="A"), upsert("infra/b", name="B")])["commit"]
    changes = [upsert("infra/a", summary="s"), upsert("infra/b", name="B"), upsert("infra/c", name="C")]
    done = holds("write", "/infra/**").submit_subgraph(changes=changes, base=base, message="learned")
    assert done["outcome"] == "merged"
    assert [(one["index"], one["uri"], one["outcome"]) for one in done["changes"]] == [
        (0, "concept://shop/infra/a", "merged"),
        (1, "concept://shop/infra/b", "unchanged"),
        (2, "concept://shop/infra/c", "merged"),
    ]
    assert done["created"] == ["concept://shop/infra/c"]
    assert done["commit"][:12] in done["look"]


def test_an_open_proposal_is_counted_listed_shown_and_accepted(ask: Ask, holds: As) -> None:
    base = ask.put(changes=upsert("infra/a", name="A"))["commit"]
    mine = holds("read,propose", "/infra/**")
    done = mine.submit_subgraph(changes=[upsert("infra/a", summary="new"), upsert("infra/b", name="B")], message="why")
    assert done["outcome"] == "proposed"
    assert done["proposal"].startswith("billing-agent-1@")
    assert ask.status()["proposals"] == 1
    (one,) = ask.proposals()["proposals"]
    assert (one["id"], one["message"], one["state"], one["base"]) == (done["proposal"], "why", "open", base)
    assert one["nodes"] == ["concept://shop/infra/a", "concept://shop/infra/b"]
    (shown,) = ask.proposals(name="billing-agent-1")["proposals"]
    assert shown["diff"][0]["fields"] == {"summary": {"before": None, "after": "new"}}
    part = ask.accept(name=done["proposal"], only=["infra/b"])
    assert part["left"] == 1
    assert part["nodes"] == [{"uri": "concept://shop/infra/b", "version": 1}]
    rest = ask.accept(name=done["proposal"], message="thank you")
    assert rest["left"] == 0
    assert ask.status()["proposals"] == 0
    (node,) = ask.get(uris="infra/a")["nodes"]
    assert (node["summary"], node["version"]) == ("new", 2)
    assert ask.history(uri="infra/a")["commits"][0]["author"] == "billing-agent"


@pytest.mark.slow
def test_an_agent_with_the_right_to_write_decides_through_resolve_conflicts(ask: Ask, holds: As) -> None:
    ask.put(changes=upsert("infra/a", name="A"))
    proposer, keeper = holds("propose", "/**"), holds("read,write", "/infra/**", id="tok00002")
    ids = [
        proposer.submit_subgraph(changes=upsert(name, summary="s"))["proposal"]
        for name in ("infra/a", "infra/b", "db/x")
    ]
    listed = keeper.resolve_conflicts(via="agent")
    assert [one["id"] for one in listed["proposals"]] == ids[:2]
    (whole,) = keeper.resolve_conflicts(ids=[ids[0]])["proposals"]
    assert whole["diff"][0]["uri"] == "concept://shop/infra/a"
    done = keeper.resolve_conflicts(
        resolutions=[{"id": ids[0], "take": "accept"}, {"id": ids[1], "take": "reject"}], via="agent"
    )
    assert [(one["id"], one["take"]) for one in done["decided"]] == [(ids[0], "accept"), (ids[1], "reject")]
    for take in ("accept", "reject"):
        with pytest.raises(NotFound, match="no open proposal"):
            keeper.resolve_conflicts(resolutions={"id": ids[2], "take": take})
    with pytest.raises(NotFound, match="no longer open: billing-agent accepted it"):
        keeper.resolve_conflicts(resolutions={"id": ids[0], "take": "accept"})
    with pytest.raises(Invalid, match="accepted or rejected"):
        keeper.resolve_conflicts(resolutions={"id": ids[2], "take": "a"})
    with pytest.raises(Forbidden):
        holds("read,propose,resolve", "/**", id="tok00003").resolve_conflicts(
            resolutions={"id": ids[2], "take": "accept"}
        )


def test_the_submitter_may_withdraw_a_proposal(ask: Ask, holds: As) -> None:
    mine = holds("propose", "/infra/**")
    id = mine.submit_subgraph(changes=upsert("infra/a", name="A"))["proposal"]
    other = holds("propose", "/infra/**", id="tok00002")
    with pytest.raises(NotFound):  # hidden from callers who may not read its nodes
        other.resolve_conflicts(resolutions={"id": id, "take": "reject"})
    mine.resolve_conflicts(resolutions={"id": id, "take": "reject"})
    assert ask.proposals()["total"] == 0


def test_a_changed_proposal_is_not_accepted_unseen(ask: Ask, holds: As, ws: Workspace) -> None:
    one = holds("propose", "/**").submit_subgraph(changes=upsert("a", name="A"))
    two = holds("propose", "/**").submit_subgraph(changes=upsert("b", name="B"))
    git(ws.layout.git_dir, "update-ref", "refs/heads/proposals/billing-agent-1", two["commit"])
    with pytest.raises(Stale, match="has changed since"):
        ask.accept(name=one["proposal"])
    assert ask.get(uris="concept://shop/b")["nodes"] == []


def test_a_hidden_proposal_is_not_listed(ask: Ask, holds: As) -> None:
    holds("propose", "/**").submit_subgraph(changes=upsert("secret/a", name="A"))
    mine = holds("read,write", "/infra/**", id="tok00002")
    assert "proposals" not in mine.resolve_conflicts(via="agent")
    ask.put(changes=upsert("secret/a", name="A"))
    assert ask.proposals()["proposals"][0]["state"] == "merged"
    assert "proposals" not in mine.resolve_conflicts(via="agent"), "nothing of it is left to be seen"


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"changes": [upsert("a")], "roots": ["a"]},
        {"roots": ["a"]},
        {"changes": [upsert("a")], "base": "nonsense"},
        {"changes": [upsert("a")], "remote": "nobody"},
        {"changes": []},
        {"changes": [{"op": "explode"}]},
        {"changes": [upsert("a")], "message": "a\u202eb\0"},
    ],
)
def test_a_contradictory_submission_is_refused(ask: Ask, arguments: dict[str, Any]) -> None:
    tip = ask.status()["workspace"]["tip"]
    with pytest.raises((Invalid, NotFound)):
        ask.submit_subgraph(**arguments)
    assert ask.status()["workspace"]["tip"] == tip


def test_a_hub_makes_no_outgoing_calls_for_token_holders(holds: As) -> None:
    with pytest.raises(Forbidden, match="does not submit"):
        holds("write", "/**").submit_subgraph(remote="other", changes=upsert("a"))


def test_a_dry_run_shows_a_local_merge_and_writes_nothing(ask: Ask, ws: Workspace) -> None:
    ask.put(changes=upsert("infra/a", name="A"))
    tip = ws.tip
    told = ask.would_submit(changes=[upsert("infra/a", name="A"), upsert("infra/b", name="B")])
    assert [(one["op"], one["uri"], one["outcome"]) for one in told["changes"]] == [
        ("upsert", "concept://shop/infra/a", "unchanged"),
        ("upsert", "concept://shop/infra/b", "merged"),
    ]
    assert (told["outcome"], ws.tip) == ("merged", tip)


def test_a_new_node_is_never_merged_into_an_existing_one(ask: Ask, holds: As) -> None:
    mine = holds("read,write", "/**")
    ask.put(changes=upsert("infra/a", summary="one"))
    ask.put(changes=[upsert("infra/a", summary="two"), upsert("infra/theirs", summary="theirs")])
    changes = [upsert("infra/a", name="A", expect_version=1), upsert("infra/theirs", name="N", expect_version=0)]
    with pytest.raises(Stale):
        mine.submit_subgraph(changes=changes)
    assert ask.get(uris="infra/theirs")["nodes"][0]["name"] != "N"


def test_an_append_to_a_mistyped_uri_is_refused_and_suggests_the_likely_node(ask: Ask, holds: As) -> None:
    base = ask.put(changes=upsert("infra/checkout", content="One.\n"))["commit"]
    lost = {"op": "append", "uri": "infra/chekout", "text": "Two."}
    for who in (ask, holds("read,write", "/infra/**"), holds("read,propose", "/infra/**")):
        for more in ({}, {"base": base}):
            with pytest.raises(NotFound, match="no such node") as refused:
                who.submit_subgraph(changes=[lost], **more)
            assert "concept://shop/infra/checkout" in refused.value.next
    with pytest.raises(NotFound, match="no such node"):
        ask.would_submit(changes=[lost])
    assert ask.proposals()["proposals"] == []


def test_an_append_to_a_deleted_node_of_the_base_becomes_a_proposal(ask: Ask) -> None:
    base = ask.put(changes=upsert("infra/checkout", content="One.\n"))["commit"]
    ask.put(changes={"op": "delete", "uri": "infra/checkout"})
    late = {"op": "append", "uri": "infra/checkout", "text": "Two."}
    assert ask.submit_subgraph(changes=[late], base=base)["outcome"] == "proposed"


@pytest.mark.slow
def test_a_plain_git_server_gets_a_proposal(ask: Ask, ws: Workspace, tmp_path: Path) -> None:
    ask.put(changes=[upsert("infra/a", name="A", content="mine\n"), upsert("infra/b", name="B")])
    bare = tmp_path / "bare.git"
    git(tmp_path, "init", "-q", "--bare", str(bare))
    ask.remote(action="add", name="origin", url=str(bare), sync=0)
    ask.sync()
    tip = ask.status()["workspace"]["tip"]
    ask.put(changes={"op": "relate", "source": "infra/a", "target": "infra/b", "type": "uses", "weight": 0})
    with pytest.raises(NotFound, match="no such node"):
        ask.submit_subgraph(remote="origin", changes=[{"op": "append", "uri": "infra/bb", "text": "lost"}])
    changes = [upsert("infra/a", summary="s"), {"op": "delete", "uri": "infra/b"}]
    told = ask.would_submit(remote="origin", changes=changes)
    assert [one["outcome"] for one in told["changes"]] == ["proposed", "proposed"]
    assert (told["remote"], told["look"]) == ("origin", AT_GIT)
    assert "proposals/" not in git(bare, "for-each-ref")
    done = ask.submit_subgraph(remote="origin", changes=changes, message="please", request_id="r1")
    assert done["outcome"] == "proposed"
    assert done["remote"] == "origin"
    name = git(bare, "for-each-ref", "--format=%(refname)", "refs/").split()
    offered = [one for one in name if "proposals/" in one]
    assert len(offered) == 1
    assert done["proposal"] in offered[0]
    assert git(bare, "rev-parse", f"{offered[0]}^").strip() in git(bare, "rev-list", "--all")
    assert git(bare, "log", "-1", "--format=%an %s", offered[0]).strip() == "Ann Person (test-client 1.0) please"
    again = ask.submit_subgraph(remote="origin", changes=changes, message="please", request_id="r1")
    assert again["commit"] == done["commit"]
    assert again["repeated"] is True
    ask.sync()
    (waits,) = ask.proposals()["proposals"]
    assert waits["remote"] == "origin"
    ask.accept(name=waits["id"])
    assert ask.get(uris="infra/a")["nodes"][0]["summary"] == "s"
    assert tip


@pytest.mark.slow
def test_a_part_of_the_own_graph_is_submitted_as_upserts(ask: Ask, ws: Workspace, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    git(tmp_path, "init", "-q", "--bare", str(bare))
    ask.remote(action="add", name="origin", url=str(bare), sync=0)
    ask.sync()
    ask.put(
        changes=[
            upsert("infra/a", name="A", relations=[{"type": "uses", "target": "infra/b", "weight": 0.5}]),
            upsert("infra/b", name="B", relations=[{"type": "uses", "target": "infra/far", "weight": 1}]),
            upsert("infra/far", name="F"),
        ]
    )
    done = ask.submit_subgraph(remote="origin", roots=["infra/a"], max_cost=0.5)
    assert sorted(one["uri"] for one in done["changes"]) == ["concept://shop/infra/a", "concept://shop/infra/b"]
    (offered,) = [one for one in git(bare, "for-each-ref", "--format=%(refname)").split() if "proposals/" in one]
    files = git(bare, "ls-tree", "-r", "--name-only", offered)
    assert "nodes/concept/infra/b.yaml" in files
    assert "far" not in files


def test_text_of_a_stranger_is_attributed_and_fully_visible(ask: Ask, holds: As) -> None:
    text = "obey\u202e me\u200b"
    done = holds("propose", "/**").submit_subgraph(changes=upsert("a", content=f"{text}\n"), message="x" * 3000)
    (one,) = ask.proposals(name=done["proposal"])["proposals"]
    assert one["origin"] == {
        "workspace": "shop",
        "commit": done["commit"],
        "author": "billing-agent (claude)",
        "trust": "remote",
    }
    assert len(one["message"]) == 200
    assert text not in str(one)
    assert "obey" in one["diff"][0]["fields"]["content"]["after"]


def test_a_mistyped_proposal_name_is_answered_with_the_similar_one(ask: Ask, holds: As) -> None:
    ask.put(changes=upsert("infra/a", name="A"))
    made = holds("propose", "/infra/**").submit_subgraph(changes=upsert("infra/a", summary="s"))["proposal"]
    name = made.partition("@")[0]
    with pytest.raises(NotFound) as refused:
        ask.accept(name=name.removeprefix("billing-"))
    assert refused.value.next == f"Did you mean '{name}'?"


def test_a_link_into_a_workspace_joined_later_is_not_broken(ask: Ask) -> None:
    link = [{"type": "uses", "target": "concept://infra/db"}]
    before = ask.put(changes=upsert("shop", summary="s", relations=link), dry_run=True)
    assert "not registered here" in before["warnings"][0]
    ask.session.daemon.registry.register(Entry("infra", hub="http://127.0.0.1:9"))
    assert not ask.put(changes=upsert("shop", summary="s", relations=link)).get("warnings")


def test_an_unknown_submission_target_is_refused_with_the_known_ones(ask: Ask) -> None:
    elsewhere = Ask(Session(ask.session.daemon, client="cli"))
    ask.session.daemon.registry.register(Entry("infra", hub="http://127.0.0.1:9"))
    for one in (ask, elsewhere):
        with pytest.raises(NotFound, match=r"no workspace or remote 'nosuch'.*Known workspaces: infra, shop"):
            one.submit_subgraph(remote="nosuch", changes=upsert("infra/a", summary="s"))


def test_nodes_are_not_submitted_to_their_own_workspace(ask: Ask) -> None:
    ask.put(changes=upsert("infra/a", name="A"))
    with pytest.raises(Invalid, match="'shop' is this workspace"):
        ask.submit_subgraph(remote="shop", roots=["infra/a"])

"""Information before a decision: the commit it would make, the author of each side, and earlier decisions."""

from __future__ import annotations

from typing import Any

import pytest

from kgd import tools
from kgd.errors import Forbidden, Invalid, NotFound
from kgd.model.access import Principal, Scope, Verb
from kgd.tools.session import Session
from tests.surfaces.conftest import Ask, upsert

X, Y, Z = "concept://shop/x", "concept://shop/y", "concept://shop/z"


def disagree(ask: Ask, name: str, field: str = "summary") -> str:
    """The id of an open conflict over one field: a change is reverted after another change of the field."""
    second = [ask.put(changes=upsert(name, **{field: value}))["commit"] for value in ("one", "two")][1]
    ask.put(changes=upsert(name, **{field: "three"}))
    ask.revert(commit=second)
    return str(next(one["id"] for one in ask.conflicts(uri=name)["conflicts"] if field in one["fields"]))


def propose(ask: Ask, *uris: str, summary: str = "proposed") -> str:
    """The id of a proposal whose first node has changed since its base."""
    base = ask.put(changes=upsert(uris[0], summary="was"))["commit"]
    ask.put(changes=upsert(uris[0], summary="is"))
    changes = [upsert(uri, summary=summary) for uri in uris]
    answer = ask.submit_subgraph(changes=changes, base=base, message="a proposal")
    assert answer["outcome"] == "proposed"
    return str(answer["proposal"])


def holder(session: Session, *verbs: Verb, paths: str = "/**") -> Session:
    principal = Principal("t1", "bot", "agent", (Scope.of("shop", verbs, [paths]),))
    return Session(session.daemon, client="test", context_id=None, principal=principal)


def as_holder(session: Session, tool: str, /, **arguments: Any) -> Any:
    return tools.SERVED[tool].call(session, {"workspace": "shop", **arguments})


def test_a_dry_run_shows_the_commit_that_it_would_make(ask: Ask) -> None:
    id = disagree(ask, "x")
    would = ask.resolve(resolutions={"id": id, "take": "a"}, message="weekly it is", dry_run=True)["would"]
    assert would["message"].startswith("weekly it is\n")
    assert f"Kgd-Resolves: {id.rpartition('#')[2]}" in would["message"]
    assert would["author"] == "Ann Person"
    done = ask.resolve(resolutions={"id": id, "take": "a"}, message="weekly it is")
    (commit,) = ask.history(commit=done["commit"], diff=True)["commits"]
    assert would["diff"] == commit["diff"]
    assert "would" not in done


def test_a_conflict_shows_the_author_of_each_side_and_the_present_value(ask: Ask) -> None:
    id = disagree(ask, "x")
    ask.put(changes=upsert("x", summary="since"), conflicts="show")
    (found,) = ask.conflicts(id=id)["conflicts"]
    field = found["fields"]["summary"]
    for side in field["sides"]:
        (commit,) = ask.history(commit=side["commit"], diff=True)["commits"]
        assert commit["diff"][0]["fields"]["summary"]["after"] == side["value"]
        assert side["author"] == "Ann Person"
    assert field["now"] == "since"


def test_a_settled_conflict_names_its_settler(ask: Ask) -> None:
    id = disagree(ask, "x")
    disagree(ask, "x", "name")
    commit = ask.resolve(resolutions={"id": id, "take": "base"})["commit"]
    answer = ask.conflicts(id=id)
    assert (answer["settled"]["commit"], answer["settled"]["author"]) == (commit, "Ann Person")
    assert [list(one["fields"]) for one in answer["conflicts"]] == [["name"]], "the node's remaining open conflict"
    (found,) = ask.history(commit=commit, diff=True)["commits"]
    (resolved,) = found["resolved"]
    assert (resolved["id"], len(resolved["fields"]["summary"]["sides"])) == (id, 2), "both versions remain readable"
    with pytest.raises(NotFound):
        ask.conflicts(id=f"{X}#{'0' * 16}")


@pytest.mark.slow
def test_a_token_sees_and_settles_conflicts_in_its_scope(ask: Ask, session: Session) -> None:
    id, other = disagree(ask, "x"), disagree(ask, "y")
    reader = holder(session, Verb.READ, paths="/x")
    assert [one["id"] for one in as_holder(reader, "conflicts")["conflicts"]] == [id]
    assert as_holder(reader, "conflicts")["total"] == 1
    with pytest.raises(NotFound):
        as_holder(reader, "conflicts", id=other)
    with pytest.raises(Forbidden):
        as_holder(reader, "resolve", resolutions=[{"id": id, "take": "a"}])
    settler = holder(session, Verb.READ, Verb.RESOLVE, paths="/x")
    assert as_holder(settler, "resolve", resolutions=[{"id": id, "take": "a"}], dry_run=True)["would"]["diff"]
    as_holder(settler, "resolve", resolutions=[{"id": id, "take": "a"}])
    assert ask.conflicts()["total"] == 1
    commit = ask.history(uri=X, limit=1)["commits"][0]["commit"]
    (seen,) = as_holder(reader, "history", commit=commit, diff=True)["commits"]
    assert [one["uri"] for one in seen["resolved"]] == [X]
    both = ask.resolve(resolutions=[{"id": other, "take": "a"}, {"id": disagree(ask, "x", "name"), "take": "a"}])
    (seen,) = as_holder(reader, "history", commit=both["commit"], diff=True)["commits"]
    assert [one["uri"] for one in seen["resolved"]] == [X], "a conflict about a hidden node is hidden"
    other = disagree(ask, "y", "name")
    with pytest.raises(Forbidden):
        as_holder(settler, "resolve", resolutions=[{"id": other, "take": "a"}])


def test_a_dry_run_shows_nothing_about_unreadable_nodes(ask: Ask, session: Session) -> None:
    id = disagree(ask, "x")
    blind = holder(session, Verb.RESOLVE)
    would = as_holder(blind, "resolve", resolutions=[{"id": id, "take": "a"}], dry_run=True)["would"]
    assert (would["diff"], X in would["message"]) == ([], False)


def test_a_decision_does_not_show_the_values_of_unreadable_nodes(ask: Ask, session: Session) -> None:
    blind = holder(session, Verb.RESOLVE)
    id, other = disagree(ask, "x"), disagree(ask, "y")
    assert as_holder(blind, "resolve", resolutions=[{"id": id, "take": "a"}])["settled"] == []
    (resolved,) = as_holder(blind, "resolve_conflicts", resolutions=[{"id": other, "take": "a"}])["resolved"]
    assert (resolved["id"], "fields" in resolved) == (other, False)


def test_a_refused_decision_is_named_by_its_place_in_the_call(ask: Ask) -> None:
    first = {"id": propose(ask, Y), "take": "reject"}
    for wrong, place in (({"take": "z"}, ".take"), ({"take": "a", "only": [X]}, "")):
        with pytest.raises(Invalid) as refused:
            ask.resolve_conflicts(resolutions=[first, {"id": disagree(ask, "x"), **wrong}])
        assert refused.value.at == f"resolutions[1]{place}"


def test_values_that_settle_nothing_are_refused(ask: Ask) -> None:
    id = disagree(ask, "x")
    with pytest.raises(Invalid, match="give either `take` or `fields`"):
        ask.resolve(resolutions={"id": id, "fields": {}})
    with pytest.raises(Invalid, match="does not fit the field 'summary'") as refused:
        ask.resolve(resolutions={"id": id, "fields": {"summary": 3}})
    assert refused.value.next == "Give a text."
    assert ask.conflicts(id=id)["conflicts"]


@pytest.mark.slow
def test_a_dry_run_of_accept_shows_the_commit_in_whole_and_in_part(ask: Ask) -> None:
    id = propose(ask, X, Y, Z)
    for only, changed in ([Y], {Y}), ([], {X, Y, Z}):
        would = ask.accept(name=id, only=only, dry_run=True)["would"]
        assert f"Kgd-Origin: proposals/{id}" in would["message"]
        done = ask.accept(name=id, only=only)
        assert {one["uri"] for one in would["diff"]} <= changed
        (commit,) = ask.history(commit=done["commit"])["commits"]
        assert would["message"].startswith(commit["message"])
    with pytest.raises(NotFound, match="Ann Person accepted it"):
        ask.accept(name=id)


def test_a_rejected_proposal_shows_who_rejected_it_and_why(ask: Ask, session: Session) -> None:
    id = propose(ask, X)
    ask.reject(name=id, reason="not now")
    with pytest.raises(NotFound, match=r"Ann Person rejected it at .*: not now"):
        ask.proposals(name=id)
    with pytest.raises(NotFound) as told:
        as_holder(holder(session, Verb.READ, paths="/elsewhere"), "proposals", name=id)
    assert "not now" not in told.value.message


@pytest.mark.slow
def test_proposals_and_their_diffs_have_pages(ask: Ask) -> None:
    ids = [propose(ask, f"concept://shop/p{number}") for number in range(3)]
    first = ask.proposals(limit=2)
    rest = ask.proposals(limit=2, cursor=first["cursor"])
    assert [one["id"] for one in (*first["proposals"], *rest["proposals"])] == ids
    assert (first["total"], rest["total"], "cursor" in rest) == (3, 3, False)
    uris = [f"concept://shop/many/{number:03}" for number in range(25)]
    changes = [upsert(uri, content="words " * 300) for uri in uris]
    big = propose(ask, X)
    base = ask.history(limit=1)["commits"][0]["commit"]
    ask.put(changes=upsert(uris[0], content="other"))
    big = ask.submit_subgraph(changes=changes, base=base)["proposal"]
    seen, cursor = [], None
    while True:
        answer = ask.proposals(name=big, cursor=cursor)
        seen += [one["uri"] for one in answer["proposals"][0]["diff"]]
        cursor = answer.get("cursor")
        if cursor is None:
            break
    assert seen == uris
    (one,) = ask.proposals(name=big, uri=uris[7])["proposals"][0]["diff"]
    assert one["fields"]["content"]["after"] == "words " * 300

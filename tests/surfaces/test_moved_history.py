"""The history of a node continues under its former URIs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kgd.model.access import Principal, Scope
from kgd.tools import SERVED
from kgd.tools.session import Session
from tests.surfaces.conftest import Ask, upsert

OLD, MIDDLE, NOW = "concept://shop/old", "concept://shop/open/middle", "concept://shop/open/now"


def moved_twice(ask: Ask) -> list[str]:
    """Write a node, move it twice with an edit after each, and return the commits, newest first."""
    done = [
        ask.put(changes=[upsert(OLD, name="Old", content="a\n")], message="write it"),
        ask.put(changes=[{"op": "move", "uri": OLD, "to": MIDDLE}]),
        ask.put(changes=[{"op": "append", "uri": MIDDLE, "text": "b"}], message="say b"),
        ask.put(changes=[{"op": "move", "uri": MIDDLE, "to": NOW}]),
        ask.put(changes=[upsert(NOW, summary="s")], message="summarise"),
    ]
    ask.put(changes=[upsert("other", name="Other")])
    return [one["commit"] for one in reversed(done)]


def commits(answer: Mapping[str, Any]) -> list[str]:
    return [one["commit"] for one in answer["commits"]]


def test_the_history_of_a_moved_node_goes_through_every_move(ask: Ask) -> None:
    all_of_it = moved_twice(ask)
    for name in (NOW, MIDDLE, OLD):
        assert commits(ask.history(uri=name)) == all_of_it
    assert commits(ask.history(uri=NOW, author="nobody")) == []
    (node,) = ask.get(uris=[NOW], include=["history"])["nodes"]
    assert [one["commit"] for one in node["history"]] == all_of_it


def test_pages_continue_through_a_move(ask: Ask) -> None:
    all_of_it, found, cursor = moved_twice(ask), [], None
    while True:
        answer = ask.history(uri=NOW, limit=1, **({"cursor": cursor} if cursor else {}))
        found += commits(answer)
        cursor = answer.get("cursor")
        if not cursor:
            break
    assert found == all_of_it


def test_differences_before_a_move_are_of_the_former_address(ask: Ask) -> None:
    moved_twice(ask)
    first = ask.history(uri=NOW, diff=True)["commits"][-1]
    assert [(one["uri"], one["change"]) for one in first["diff"]] == [(OLD, "created")]


def test_a_version_before_the_move_is_read_under_the_present_address(ask: Ask) -> None:
    *_, said, _, first = moved_twice(ask)
    for commit, was, content in ((first, OLD, "a\n"), (said, MIDDLE, "a\n\nb\n")):
        for name in (NOW, OLD):
            (node,) = ask.get(uris=[name], as_of=commit)["nodes"]
            assert (node["uri"], node["content"].rstrip("\n")) == (was, content.rstrip("\n"))


def test_a_caller_who_may_not_read_the_former_address_sees_the_history_since(ask: Ask, session: Session) -> None:
    *since, _ = moved_twice(ask)
    holder = Principal("tok00001", "billing-agent", "agent", (Scope.of("shop", ["read"], ("/open/**",)),))
    theirs = Session(session.daemon, client="claude", principal=holder)
    answer = SERVED["history"].call(theirs, {"uri": NOW, "diff": True})
    assert commits(answer) == since
    assert OLD not in [one["uri"] for one in answer["commits"][-1]["diff"]]

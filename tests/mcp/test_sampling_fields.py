"""Any conflict can be settled with one of its versions, and a model has at most its caller's rights."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import pytest

from kgd.errors import Forbidden
from kgd.model.access import Principal, Scope
from kgd.resolution import Prompt, Reply
from kgd.tools import call
from kgd.tools.session import Session
from tests.surfaces.conftest import Ask, ask, code, daemon, session, upsert

pytestmark = pytest.mark.slow

__all__ = ["ask", "code", "daemon", "session"]

NODE = "concept://shop/n"


class Lent:
    """A client's model that takes one side of everything."""

    def __init__(self, letter: str) -> None:
        self.letter, self.asked = letter, list[str]()

    open = True
    answered: Collection[str] = ()

    def __call__(self, prompts: Mapping[str, Prompt]) -> Mapping[str, Reply]:
        self.asked += prompts
        replies = {}
        for id, prompt in prompts.items():
            shape = prompt.user.rpartition("{")[2].rpartition("}")[0]
            fields = json.loads("{" + shape.replace("...", "0") + "}")
            replies[id] = Reply(json.dumps({name: {"take": self.letter} for name in fields}), "m")
        return replies


def relation(weight: float) -> dict[str, Any]:
    return {"relations": [{"type": "about", "target": "concept://shop/x", "weight": weight}]}


CHANGES: dict[str, list[dict[str, Any]]] = {
    "name": [{"name": "One"}, {"name": "Two"}, {"name": "Three"}],
    "type": [{"type": "gotcha"}, {"type": "decision"}, {"type": "insight"}],
    "content": [{"content": "one\n"}, {"content": "two\n"}, {"content": "three\n"}],
    "source": [{"source": {"type": "doc", "id": n}} for n in "123"],
    "data/owner": [{"data": {"owner": n}} for n in ("ann", "bob", "eve")],
    "data/deep/key": [{"data": {"deep": {"key": n}}} for n in (1, 2, 3)],
    "relations/about/concept:~1~1shop~1x/weight": [relation(n) for n in (0.1, 0.2, 0.3)],
}


@pytest.mark.parametrize("letter", ["a", "b"])
@pytest.mark.parametrize("field", CHANGES)
def test_a_version_of_any_field_can_be_taken(session: Session, ask: Ask, field: str, letter: str) -> None:
    commits = []
    for number, change in enumerate(CHANGES[field]):
        expected = {"expect_version": number} if number else {}
        commits.append(ask.put(changes=upsert(NODE, **change, **expected))["commit"])
    ask.revert(commit=commits[1])
    (found,) = ask.conflicts()["conflicts"]
    assert list(found["fields"]) == [field]
    model = Lent(letter)
    answer = call(replace(session, ask=model), "resolve_conflicts")
    (resolved,) = answer["resolved"]
    assert resolved["fields"][field] == found["fields"][field]["sides"][ord(letter) - ord("a")]["value"]
    assert (answer["remaining"], answer["open"]) == ([], 0)
    assert len(model.asked) == 1


@pytest.mark.parametrize("is_there", [False, True])
def test_a_deletion_against_an_edit_is_decided_too(session: Session, ask: Ask, is_there: bool) -> None:
    made = ask.put(changes=upsert(NODE, summary="one"))["commit"]
    ask.put(changes=upsert(NODE, summary="two"))
    ask.revert(commit=made)
    (found,) = ask.conflicts()["conflicts"]
    sides = [side["value"] for side in found["fields"]["node"]["sides"]]
    assert (sides[0] is None) != (sides[1] is None)
    wanted = "ab"[[side is not None for side in sides].index(is_there)]
    answer = call(replace(session, ask=Lent(wanted)), "resolve_conflicts")
    assert answer["open"] == 0
    assert bool(ask.get(uris=NODE)["nodes"]) == is_there


def token(session: Session, *verbs: str, paths: str = "/**") -> Session:
    scope = Scope.of("shop", verbs, [paths])
    return replace(session, principal=Principal("t1", "billing", "agent", (scope,)), cwd=None)


def disagree(ask: Ask) -> None:
    second = [ask.put(changes=upsert(NODE, summary=value))["commit"] for value in ("one", "two")][1]
    ask.put(changes=upsert(NODE, summary="three"))
    ask.revert(commit=second)


@pytest.mark.requirement("B5")
def test_a_model_settles_nothing_that_its_caller_may_not(session: Session, ask: Ask) -> None:
    disagree(ask)
    model = Lent("a")
    for verbs, paths in ((("read", "write"), "/**"), (("read", "resolve"), "/elsewhere/**"), (("resolve",), "/**")):
        caller = replace(token(session, *verbs, paths=paths), ask=model)
        answer = call(caller, "resolve_conflicts", {"workspace": "shop"})
        assert (answer["resolved"], answer["open"]) == ([], 0)
        if "read" in verbs:
            with pytest.raises(Forbidden):
                call(caller, "resolve_conflicts", {"workspace": "shop", "ids": NODE})
    writer = replace(token(session, "read", "write"), ask=model)
    answer = call(writer, "put", {"workspace": "shop", "changes": upsert(NODE, content="more\n")})
    assert "resolved" not in answer
    reader = replace(token(session, "read"), ask=model)
    assert "resolved" not in call(reader, "get", {"uris": NODE, "conflicts": "resolve"})
    assert model.asked == []
    assert ask.conflicts()["total"] == 1


@pytest.mark.requirement("B5")
def test_a_token_for_it_settles_and_is_the_author(session: Session, ask: Ask) -> None:
    disagree(ask)
    caller = replace(token(session, "read", "write", "resolve"), ask=Lent("a"))
    (resolved,) = call(caller, "resolve_conflicts", {"workspace": "shop"})["resolved"]
    (entry,) = ask.history(commit=resolved["commit"])["commits"]
    assert entry["author"].startswith("billing")

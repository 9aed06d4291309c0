"""`author`: recent nodes of a person or an agent, the areas they know, open proposals and stale facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kgd.errors import NotFound
from kgd.freshness.freshness import Freshness
from kgd.model.access import Principal, Scope
from kgd.tools.history.author import AUTHOR
from kgd.tools.session import Session
from kgd.workspace.proposals import deciding
from kgd.workspace.proposals.proposals import Proposal
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.touched_nodes import Touched
from tests.surfaces.conftest import Ask, git, upsert
from tests.surfaces.test_conflicts import disagree


@pytest.fixture
def person(ask: Ask) -> Ask:
    return Ask(replace(ask.session, client="kgd-cli"))


def uris(answer: Mapping[str, Any], kind: str = "nodes") -> list[str]:
    return [one["uri"].removeprefix("concept://shop/") for one in answer[kind]]


def test_nodes_are_newest_first_each_once_and_in_pages(ask: Ask, person: Ask) -> None:
    for name in ("a", "b", "c"):
        ask.put(changes=upsert(f"x/{name}", summary=f"about {name}"))
    person.put(changes=[upsert("x/d", summary="by a person"), upsert("x/c", tags=["mine"])])
    answer = ask.author(name="test-client 1.0")
    assert (uris(answer), answer["agent"]) == (["x/c", "x/b", "x/a"], True)
    assert answer["namespaces"] == [{"namespace": "x", "nodes": 3}]
    first = ask.author(name="ANN person", limit=3)
    assert (first["name"], first["agent"]) == ("Ann Person", False)
    rest = ask.author(name="ANN person", limit=3, cursor=first["cursor"])
    assert uris(first) + uris(rest) == ["x/c", "x/d", "x/b", "x/a"]
    assert "cursor" not in rest


def test_facts_are_counted_by_the_program_that_wrote_them(ask: Ask, person: Ask) -> None:
    ask.put(changes=[upsert("x/a"), upsert("x/b")])
    person.put(changes=upsert("x/c"))
    answer = ask.author(name="Ann Person")
    assert answer["written_with"] == [{"client": "test-client 1.0", "nodes": 2}, {"client": "", "nodes": 1}]
    assert [one.get("client", "") for one in answer["nodes"]] == ["", "test-client 1.0", "test-client 1.0"]
    assert "conflicts" not in answer


def test_the_nodes_of_an_author_in_conflict_are_counted(ask: Ask, person: Ask) -> None:
    person.put(changes=[upsert("x/a"), upsert("x/b")])
    disagree(person, "x/a", "summary")
    assert person.author(name="Ann Person")["conflicts"] == 1
    ask.put(changes=upsert("x/c"))
    assert "conflicts" not in ask.author(name="test-client 1.0")


def test_part_of_a_name_is_enough_if_one_author_has_it(ask: Ask, session: Session) -> None:
    ask.put(changes=upsert("x/a"))
    assert ask.author(name="person")["name"] == "Ann Person"
    bob = Principal("tok-bob", "Bob Person", "person", (Scope.of("shop", ["read", "write"], ["/**"]),))
    Ask(Session(session.daemon, client="claude", principal=bob)).put(changes=upsert("x/b"))
    assert ask.author(name="bob")["name"] == "Bob Person"
    with pytest.raises(NotFound, match="Did you mean 'Bob Person', 'Ann Person'"):
        ask.author(name="person")


def test_the_changes_of_an_author_are_counted_and_the_newest_are_listed(ask: Ask, person: Ask) -> None:
    ask.put(changes=[upsert(f"x/{name}") for name in "abcd"], message="Four at once")
    person.put(changes=upsert("x/a", summary="changed"))
    answer = ask.author(name="test-client 1.0")
    assert (answer["changes"], answer["changed"]) == (1, 4)
    assert answer["first"] == answer["last"] == answer["nodes"][0]["at"]
    [recent] = answer["recent"]
    assert (recent["message"], len(recent["nodes"]), recent["more_nodes"]) == ("Four at once", 3, 1)
    assert ask.author(name="Ann Person")["changes"] == 2


def test_a_later_author_of_a_node_is_named_and_a_verified_fact_is_not_written(
    ask: Ask, person: Ask, code: Path
) -> None:
    ask.put(changes=[upsert("x/edited"), upsert("x/verified", data={"cites": ["src/auth/keys.py"]})])
    assert "changed_by" not in ask.author(name="test-client 1.0")["nodes"][0]
    (code / "src/auth/keys.py").write_text("KEYS = {'new': 1}\n")
    person.stale(verify=["x/verified"])
    person.put(changes=upsert("x/edited", summary="by a person"))
    by = {one["uri"].rpartition("/")[2]: one.get("changed_by") for one in ask.author(name="test-client 1.0")["nodes"]}
    assert by == {"edited": "Ann Person", "verified": None}
    answer = ask.author(name="kgd-cli")
    assert (uris(answer), answer["changes"]) == (["x/edited"], 2)


def test_a_name_with_its_program_is_found(ask: Ask) -> None:
    ask.put(changes=upsert("x/a"))
    answer = ask.author(name="Ann Person (test-client 1.0)")
    assert (answer["name"], uris(answer)) == ("Ann Person", ["x/a"])
    with pytest.raises(NotFound, match="by this author"):
        ask.author(name="Nobody (test-client 1.0)")


def test_areas_follow_from_the_cited_files_and_stale_facts_are_listed(ask: Ask, ws: Workspace, code: Path) -> None:
    area = upsert("atom://shop/auth", name="Auth", content="Rules.", data={"paths": ["src/auth/**"]})
    facts = [
        upsert(f"fact/{name}", summary=name, data={"cites": [path]})
        for name, path in (("keys", "src/auth/keys.py"), ("pay", "src/checkout.py"))
    ]
    ask.put(changes=[area, *facts])
    (code / "src/auth/keys.py").write_text("KEYS = {'new': 1}\n")
    git(code, "commit", "-qam", "keys")
    Freshness.of(ws).files_changed(["src/auth/keys.py"])
    Freshness.of(ws).settle()
    answer = ask.author(name="Ann Person")
    assert answer["areas"] == [{"uri": "atom://shop/auth", "name": "Auth", "facts": 2}]
    assert answer["without_area"] == 1
    assert uris(answer, "stale") == ["fact/keys"]
    principal = Principal("tok00001", "reader", "agent", (Scope.of("shop", ["read", "write"], ["/fact/**"]),))
    seen = AUTHOR.call(Session(ask.session.daemon, client="x", principal=principal), {"name": "Ann Person"})
    assert (len(seen["nodes"]), seen["areas"], seen["stale"]) == (2, [], []), "a token learns nothing about files"
    assert "without_area" not in seen


def test_a_fact_that_is_related_to_an_area_counts_for_it(ask: Ask) -> None:
    about = [{"type": "about", "target": "atom://shop/auth"}]
    area = upsert("atom://shop/auth", name="Auth", content="Rules.", data={"paths": ["src/auth/**"]})
    ask.put(changes=[area, upsert("fact/doors", summary="doors", relations=about)])
    answer = ask.author(name="Ann Person")
    assert answer["areas"] == [{"uri": "atom://shop/auth", "name": "Auth", "facts": 2}]
    assert "without_area" not in answer


def test_a_relation_to_a_file_counts_for_its_area_as_in_search(ask: Ask) -> None:
    area = upsert("atom://shop/auth", name="Auth", content="Rules.", data={"paths": ["src/auth/**"]})
    about = [{"type": "about", "target": "./src/auth/keys.py"}]
    facts = [upsert("fact/keys", summary="keys", relations=about), upsert("fact/till", summary="keys of the till")]
    ask.put(changes=[area, *facts])
    assert ask.author(name="Ann Person")["areas"] == [{"uri": "atom://shop/auth", "name": "Auth", "facts": 2}]
    assert [hit["uri"] for hit in ask.search(query="keys", area="Auth")["hits"]] == ["concept://shop/fact/keys"]


def test_a_token_sees_only_its_part_of_an_author(ask: Ask, session: Session) -> None:
    ask.put(changes=[upsert("open/a", name="A"), upsert("closed/b", name="B")])
    ask.put(changes=upsert("closed/c", name="C"))
    principal = Principal("tok00001", "reader", "agent", (Scope.of("shop", ["read"], ["/open/**"]),))
    reader = Session(session.daemon, client="claude", principal=principal)
    answer = AUTHOR.call(reader, {"name": "Ann Person"})
    assert (uris(answer), answer["changes"]) == (["open/a"], 1)
    assert [one["nodes"] for one in answer["recent"]] == [["concept://shop/open/a"]]
    assert "more_nodes" not in answer["recent"][0], "a token learns no number of hidden nodes"
    with pytest.raises(NotFound, match="by this author"):
        AUTHOR.call(reader, {"name": "Nobody"})


def test_open_proposals_of_the_author_are_listed_to_those_who_may_read_them(
    ask: Ask, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def holder(name: str, *verbs: str, paths: str = "/**") -> Ask:
        principal = Principal(f"tok-{name}", name, "agent", (Scope.of("shop", verbs, [paths]),))
        return Ask(Session(session.daemon, client="claude", principal=principal))

    for name, place in (("carol", "open/a"), ("carol", "closed/b"), ("dave", "open/c")):
        holder(name, "read", "propose").submit_subgraph(changes=upsert(place, name=place))
    every = [one["nodes"] for one in ask.author(name="Carol")["proposals"]]
    assert every == [["concept://shop/open/a"], ["concept://shop/closed/b"]]
    assert ask.author(name="Carol")["agent"], "an agent that only proposes is no person"
    examined, touches = list[Proposal](), deciding.touches

    def counted(workspace: Workspace, one: Proposal) -> Touched:
        examined.append(one)
        return touches(workspace, one)

    monkeypatch.setattr(deciding, "touches", counted)
    answer = AUTHOR.call(holder("reader", "read", paths="/open/**").session, {"name": "Carol"})
    assert [one["nodes"] for one in answer["proposals"]] == [["concept://shop/open/a"]]
    assert len(examined) == 2, "other authors' proposals are not read"


@pytest.mark.parametrize("name", ["ann persn", "ann@example.org"])
def test_an_unknown_name_is_answered_with_the_closest_author_on_this_machine(
    ask: Ask, session: Session, name: str
) -> None:
    ask.put(changes=upsert("open/a", name="A"))
    with pytest.raises(NotFound) as refused:
        ask.author(name=name)
    assert refused.value.next == "Did you mean 'Ann Person'?"
    if name == "ann persn":  # a part of a name or address is enough for the lists
        assert ask.history(author=name)["next"] == ask.review(by=name)["next"] == "Did you mean 'Ann Person'?"
    principal = Principal("tok00001", "reader", "agent", (Scope.of("shop", ["read"], ["/**"]),))
    with pytest.raises(NotFound) as refused:
        AUTHOR.call(Session(session.daemon, client="claude", principal=principal), {"name": name})
    assert "Ann Person" not in str(refused.value.next)

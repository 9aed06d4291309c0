"""Authors of the sides of a conflict: every answer names them, however much was written after the merge."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgd.tools import conflicts as looked_up
from tests.sync.people import Person, git

pytestmark = pytest.mark.slow

People = Callable[..., Person]


@pytest.fixture
def named(person: People, hub: Path) -> People:
    """People who commit under their own names and share one remote."""

    def make(name: str) -> Person:
        one = person(name)
        git(one.work_tree, "config", "user.name", name.title())
        git(one.work_tree, "config", "user.email", f"{name}@example.org")
        one.share(hub, sync=0)
        return one

    return make


def disagree(*people: Person) -> None:
    """Each of them gives one node another summary, and then they synchronise."""
    people[0].put("shared", summary="first")
    synced(*people)
    for one in people:
        one.put("shared", summary=f"{one.folder.name}'s")
    synced(*people)


def synced(*people: Person) -> None:
    for one in [*people, *people]:
        one.sync()


def authors(answer: dict[str, Any]) -> dict[str, str | None]:
    """The author of each side of the only conflict, by its value."""
    (one,) = answer["conflicts"]
    return {side["value"]: side.get("author") for side in one["fields"]["summary"]["sides"]}


def test_the_list_of_conflicts_names_the_author_of_each_side(named: People) -> None:
    ann, bob = named("ann"), named("bob")
    disagree(ann, bob)
    assert authors(ann.call("conflicts")) == {"ann's": "Ann", "bob's": "Bob"}


def test_a_side_keeps_its_author_after_many_later_commits_to_the_node(named: People) -> None:
    ann, bob = named("ann"), named("bob")
    disagree(ann, bob)
    for number in range(40):
        ann.put("shared", name=f"name {number}")
    (found,) = ann.call("conflicts")["conflicts"]
    assert authors(ann.call("conflicts", id=found["id"])) == {"ann's": "Ann", "bob's": "Bob"}
    (remaining,) = ann.call("resolve_conflicts", via="agent")["remaining"]
    assert authors({"conflicts": [remaining]}) == {"ann's": "Ann", "bob's": "Bob"}


def test_a_side_that_was_written_forty_commits_before_the_merge_keeps_its_author(named: People) -> None:
    ann, bob = named("ann"), named("bob")
    ann.put("shared", summary="first")
    synced(ann, bob)
    for one in (ann, bob):
        one.put("shared", summary=f"{one.folder.name}'s")
    git(ann.work_tree, "config", "user.name", "Late")
    for number in range(40):
        ann.put("shared", name=f"name {number}")
    synced(ann, bob)
    assert authors(ann.call("conflicts")) == {"ann's": "Ann", "bob's": "Bob"}


def test_each_of_25_conflicts_names_its_authors(named: People) -> None:
    ann, bob = named("ann"), named("bob")
    names = [f"concept://infra/shared{number}" for number in range(25)]

    def write(one: Person, summary: str) -> None:
        one.call("put", changes=[{"op": "upsert", "uri": name, "summary": summary} for name in names])

    write(ann, "first")
    synced(ann, bob)
    for one in (ann, bob):
        write(one, f"{one.folder.name}'s")
    synced(ann, bob)
    found = ann.call("conflicts")["conflicts"]
    assert [authors({"conflicts": [one]}) for one in found] == [{"ann's": "Ann", "bob's": "Bob"}] * 25


def test_each_node_of_a_page_is_searched_as_far_as_if_it_were_alone(
    named: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looked_up, "VERSIONS_READ", 6)
    ann, bob = named("ann"), named("bob")
    nodes = ("one", "two")
    for node in nodes:
        ann.put(node, summary="first")
    synced(ann, bob)
    for one in (ann, bob):
        for node in nodes:
            one.put(node, summary=f"{one.folder.name}'s")
    for number in range(3):
        for node in nodes:
            ann.put(node, name=f"name {number}")
    synced(ann, bob)
    found = ann.call("conflicts")["conflicts"]
    assert [authors({"conflicts": [one]}) for one in found] == [{"ann's": "Ann", "bob's": "Bob"}] * 2


def test_a_move_does_not_become_the_author_of_the_sides(named: People) -> None:
    ann, bob, carol = named("ann"), named("bob"), named("carol")
    disagree(ann, bob)
    carol.sync()
    carol.call("put", changes=[{"op": "move", "uri": "concept://infra/shared", "to": "concept://infra/moved"}])
    assert authors(carol.call("conflicts")) == {"ann's": "Ann", "bob's": "Bob"}


def test_a_third_side_leaves_the_first_two_their_authors(named: People) -> None:
    ann, bob, carol = named("ann"), named("bob"), named("carol")
    disagree(ann, bob, carol)
    assert authors(ann.call("conflicts")) == {"ann's": "Ann", "bob's": "Bob", "carol's": "Carol"}


def test_the_values_of_a_later_edit_are_not_taken_for_the_side_of_its_author(named: People) -> None:
    ann, bob = named("ann"), named("bob")
    disagree(ann, bob)
    shown, other = ann.summary("shared"), "ann's" if ann.summary("shared") == "bob's" else "bob's"
    git(ann.work_tree, "config", "user.name", "Late")
    ann.call("put", changes=[{"op": "upsert", "uri": "concept://infra/shared", "summary": other}], conflicts="show")
    ann.call("put", changes=[{"op": "upsert", "uri": "concept://infra/shared", "summary": shown}], conflicts="show")
    assert authors(ann.call("conflicts")) == {"ann's": "Ann", "bob's": "Bob"}


def test_an_author_is_listed_with_their_own_side_of_a_conflict(named: People) -> None:
    ann, bob = named("ann"), named("bob")
    disagree(ann, bob)
    for name in ("Ann", "Bob"):
        (found,) = ann.call("author", name=name)["nodes"]
        assert (found["summary"], found["disputed"]) == (f"{name.lower()}'s", ["summary"])


@pytest.mark.parametrize("side", ["a", "b"])
def test_the_sides_of_a_conflict_keep_their_authors_when_a_resolution_is_undone(named: People, side: str) -> None:
    ann, bob = named("ann"), named("bob")
    disagree(ann, bob)
    (found,) = ann.call("conflicts")["conflicts"]
    git(ann.work_tree, "config", "user.name", "Carol")
    for _ in range(2):
        ann.call("resolve_conflicts", resolutions={"id": found["id"], "take": side})
        ann.call("undo")
    assert authors(ann.call("conflicts")) == {"ann's": "Ann", "bob's": "Bob"}

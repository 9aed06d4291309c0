"""Two people complete one task in separate clones; their lessons are merged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sync.people import Person, bare

LEARNED = {"Gotchas": "Stripe retries for three days", "Handoff Notes": "Keys live in Redis."}


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[Person, Person]]:
    people = Person(tmp_path / "ann"), Person(tmp_path / "ben")
    server = bare(tmp_path / "server.git")
    for person in people:
        person.share(server, sync=0)
    yield people
    for person in people:
        person.daemon.close()


def finish(person: Person, sections: dict[str, str]) -> None:
    task = person.call("query_container", operation="get", id="fix")["data"]["task"]
    person.call("advance", id="fix", version=task["version"], to="completed", sections=sections)


def meet(*people: Person) -> None:
    for person in (*people, people[0]):
        person.sync()


def nodes(person: Person, scheme: str) -> list[str]:
    return sorted(person.daemon.workspace(person.id).graph.uris(scheme=scheme))


def begin(ann: Person, ben: Person) -> None:
    change: dict[str, Any] = {"op": "upsert", "type": "task", "name": "fix", "data": {"status": "in-progress"}}
    ann.call("put", changes=[change])
    meet(ann, ben)


@pytest.mark.requirement("M5")
def test_the_same_things_are_recorded_once_and_nothing_is_in_conflict(two: tuple[Person, Person]) -> None:
    begin(*two)
    for person in two:
        finish(person, LEARNED)
    meet(*two)
    for person in two:
        assert len(nodes(person, "gotcha")) == 1
        assert person.call("conflicts")["conflicts"] == []
        (task,) = person.call("query_container", operation="search", status="completed")["data"]["tasks"]
        assert task["name"] == "fix"


@pytest.mark.slow
def test_different_facts_are_all_kept_and_the_sections_wait_as_a_conflict(two: tuple[Person, Person]) -> None:
    begin(*two)
    finish(two[0], LEARNED)
    finish(two[1], {**LEARNED, "Gotchas": "Stripe retries for three days\nThe header is signed too"})
    meet(*two)
    for person in two:
        assert len(nodes(person, "gotcha")) == 2
        (conflict,) = person.call("conflicts")["conflicts"]
        assert list(conflict["fields"]) == ["data/sections"]
        task = person.call("query_container", operation="get", id="fix")["data"]["task"]
        assert task["openConflicts"] == [conflict["id"]]

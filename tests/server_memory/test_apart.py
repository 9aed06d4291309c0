"""Two people write about one entity in separate clones; a sync loses nothing of either."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sync.people import Person, bare


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[Person, Person]]:
    people = Person(tmp_path / "ann"), Person(tmp_path / "ben")
    server = bare(tmp_path / "server.git")
    for person in people:
        person.share(server, sync=0)
    yield people
    for person in people:
        person.daemon.close()


def relate(person: Person, target: str) -> None:
    person.call("create_relations", relations=[{"from": "Ent", "to": target, "relationType": "knows"}])


def create(person: Person, *observations: str) -> dict[str, Any]:
    entity = {"name": "Ent", "entityType": "thing", "observations": list(observations)}
    person.call("create_entities", entities=[entity])
    return entity


@pytest.mark.slow
def test_an_entity_created_by_one_and_related_by_the_other_is_kept(two: tuple[Person, Person]) -> None:
    ann, ben = two
    entity = create(ann, "first", "second")
    relate(ben, "somebody")
    for person in (*two, *two):
        person.sync()
    for person in two:
        found = person.call("open_nodes", names=["Ent"])
        assert found["entities"] == [entity]
        assert found["relations"] == [{"from": "Ent", "to": "somebody", "relationType": "knows"}]
        assert person.call("search_nodes", query="second") == found
        assert person.call("create_entities", entities=[entity]) == {"entities": []}

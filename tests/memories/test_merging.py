"""Two people at one memory: tags as sets, prose by line, and neither the node nor its detail is lost by the other."""

from __future__ import annotations

import pytest

from kgd.codec import documents, front_matter
from kgd.git.store import ObjectStore
from kgd.model.node import Node
from tests.builders import new_layout, uri
from tests.workspace.merging.test_merge_histories import Files, Histories

CHOICE = uri("decision://ws/choice")
NODE, FILE = "nodes/decision/choice.yaml", "memories/2026-11-21-choice.md"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ObjectStore:
    return new_layout(tmp_path_factory.mktemp("merge")).open()


@pytest.fixture
def past(store: ObjectStore) -> Histories:
    return Histories(store)


def both(prose: str = "one\ntwo\nthree\n", *tags: str, detail: bool = True, **fields: object) -> Files:
    """A node with its memory, or without it."""
    data = {"file": FILE} if detail else {}
    node = Node(CHOICE, tags=tags, data=data, **fields)  # type: ignore[arg-type]
    front = {"id": str(CHOICE), "type": "decision", "date": "2026-11-21"} | ({"tags": list(tags)} if tags else {})
    return {NODE: documents.encode(node)} | ({FILE: front_matter.encode(front, prose)} if detail else {})


def merged(past: Histories, base: Files, one: Files, two: Files) -> Files:
    """Whoever merges, the result is the same."""
    start = past.commit(base)
    ours, theirs = past.commit(one, start), past.commit(two, start)
    found = past.files(past.merge(ours, theirs))
    assert found == past.files(past.merge(theirs, ours))
    return {path: data for path, data in found.items() if path != "kgd.yaml"}


def test_tags_and_prose_of_both_are_kept_and_node_and_file_say_the_same(past: Histories) -> None:
    found = merged(
        past,
        both("one\ntwo\nthree\n", "db"),
        both("ONE\ntwo\nthree\n", "db", "sql"),
        both("one\ntwo\nTHREE\n", "storage"),
    )
    assert found == both("ONE\ntwo\nTHREE\n", "sql", "storage")


def test_a_node_that_survives_its_deletion_keeps_its_memory(past: Histories) -> None:
    found = merged(past, both(), {}, both(summary="edited"))
    assert {NODE: found[NODE], FILE: found[FILE]} == both(summary="edited")
    found = merged(past, both(), {}, both("one\ntwo\nthree\n", "tagged"))
    assert found[FILE] == both("one\ntwo\nthree\n", "tagged")[FILE]


def test_a_detail_that_one_person_takes_away_goes_though_the_other_tags_the_node(past: Histories) -> None:
    assert merged(past, both(), both(detail=False), both("one\ntwo\nthree\n", "tagged")) == {
        NODE: documents.encode(Node(CHOICE, tags=("tagged",)))
    }


def test_a_detail_that_one_person_takes_away_and_the_other_goes_on_writing_is_kept_as_a_conflict(
    past: Histories,
) -> None:
    found = merged(past, both(), both(detail=False), both("one\ntwo\nthree\nfour\n"))
    assert b"four" in found[FILE]
    assert [path for path in found if path.startswith("conflicts/")]

"""Reads of a node in conflict: each shows the version in use, also if another version has the newest commit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sync.people import Person, bare
from tests.waiting import until

URI = "concept://infra/keys"
FIRST, OURS, THEIRS = "They rotate.\n\nWeekly.\n", "They rotate.\n\nDaily.\n", "They rotate.\n\nNever.\n"


@pytest.fixture(params=["ours last", "theirs last"])
def ann(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Person]:
    """Ann, who has a conflict with Bob about the content of a node; who of the two wrote last differs."""
    server = bare(tmp_path / "server.git")
    people = [Person(tmp_path / name) for name in ("ann", "bob")]
    for one in people:
        one.share(server, sync=0)
    people[0].put("keys", content=FIRST)
    for one in (*people, *people):
        one.sync()
    writes = [(people[0], OURS), (people[1], THEIRS)]
    for one, content in writes if request.param == "theirs last" else writes[::-1]:
        version = (one.node("keys") or {})["version"]
        one.put("keys", content=content, expect_version=version)
    for one in (*people, *people):
        one.sync()
    yield people[0]
    for one in people:
        one.close()


def shown(ann: Person) -> str:
    (field,) = ann.call("conflicts", uri=URI)["conflicts"][0]["fields"].values()
    return str(next(side["value"] for side in field["sides"] if side["side"] == field["shown"]))


def test_every_read_shows_the_version_in_use(ann: Person) -> None:
    text = shown(ann)
    assert (ann.node("keys") or {})["content"] == text
    assert ann.call("get", uris=[URI], as_of="HEAD")["nodes"][0]["content"] == text
    lines = ann.call("blame", uri=URI)
    assert "\n".join(one["text"] for one in lines["ranges"]) == text.removesuffix("\n")
    until(lambda: text.split()[-1] in (ann.work_tree / "nodes/concept/keys.yaml").read_text())


def test_a_put_that_expects_an_older_version_merges_with_what_was_read(ann: Person) -> None:
    text, version = shown(ann), (ann.node("keys") or {})["version"]
    ann.put("keys", tags=["reviewed"])
    ann.put("keys", content=text.replace("rotate", "change"), expect_version=version)
    assert (ann.node("keys") or {})["content"] == text.replace("rotate", "change")
    assert (ann.node("keys") or {})["tags"] == ["reviewed"]


def test_an_undo_returns_to_the_version_in_use(ann: Person) -> None:
    text = shown(ann)
    ann.put("keys", summary="Who rotates keys")
    ann.call("undo")
    assert (ann.node("keys") or {})["content"] == text
    assert "summary" not in (ann.node("keys") or {})

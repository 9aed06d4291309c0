"""One memory in two clones: one person moves its node, the other renames its file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kgd.workspace.check import check
from tests.sync.people import Person, bare
from tests.waiting import until

CHOICE, STORE = "decision://infra/choice", "decision://infra/store"


@pytest.fixture
def ann(tmp_path: Path) -> Iterator[Person]:
    """Ann, whose node has moved while Bob renamed its file; the front matter still has the former URI."""
    server = bare(tmp_path / "server.git")
    ann, bob = (Person(tmp_path / name) for name in ("ann", "bob"))
    node = {"op": "upsert", "uri": CHOICE, "summary": "Chose PostgreSQL", "tags": ["db"], "detail": "Many writers.\n"}
    ann.call("put", changes=[node])
    for one in ann, bob:
        one.share(server, sync=0)
    bob.published()
    (file,) = (bob.work_tree / "memories").iterdir()
    file.rename(file.with_name("2026-01-01-renamed.md"))
    bob.workspace.hint(None)
    until(lambda: named(bob, CHOICE).get("data", {}).get("file") == "memories/2026-01-01-renamed.md")
    ann.call("put", changes=[{"op": "move", "uri": CHOICE, "to": STORE}])
    for one in ann, bob, ann:
        one.sync()
    ann.published()
    yield ann
    ann.close()
    bob.close()


def named(person: Person, uri: str) -> dict[str, Any]:
    return dict(person.call("get", uris=[uri])["nodes"][0])


def file_of(person: Person) -> Path:
    (file,) = (person.work_tree / "memories").iterdir()
    return file


def test_an_edit_of_the_file_is_an_edit_of_the_moved_node(ann: Person) -> None:
    file = file_of(ann)
    assert CHOICE in file.read_text()
    file.write_text(file.read_text().replace("- db\n", "- db\n- sql\n"))
    ann.workspace.hint([str(file)])
    until(lambda: named(ann, STORE)["tags"] == ["db", "sql"])
    ann.published()
    assert f"id: {STORE}\n" in file.read_text()
    assert check(ann.workspace) == []


def test_another_rename_of_the_file_makes_no_second_node(ann: Person) -> None:
    file = file_of(ann)
    file.rename(file.with_name("2026-01-01-again.md"))
    ann.workspace.hint(None)
    until(lambda: named(ann, STORE).get("data", {}).get("file") == "memories/2026-01-01-again.md")
    ann.published()
    assert named(ann, CHOICE)["uri"] == STORE
    assert named(ann, STORE)["detail"] == {"file": "memories/2026-01-01-again.md", "text": "Many writers."}

"""A person's way with the files of memories: what they change in one file is changed in the other, nothing is lost."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgd.errors import KgdError
from kgd.workspace.check import check
from kgd.workspace.memory_files import Home
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing import admission
from tests.builders import change, upsert, uri
from tests.workspace.people import Desk, code_layout, eventually, hurry

HOME = Home("ws", frozenset(), lambda path: None)
CHOICE = "decision://ws/database-choice"


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    ws = Workspace.open(code_layout(tmp_path / "code"))
    desk = Desk(ws)
    ws.submit(
        change(
            upsert(CHOICE, summary="Chose PostgreSQL", tags=("database",), detail="# Why\n\nMany writers.\n"),
            upsert("gotcha://ws/limit", summary="100 a minute", detail="not 1000\n"),
        )
    )
    desk.published()
    yield desk
    ws.close()


def memory(desk: Desk, name: str = CHOICE) -> Path:
    node = desk.ws.node(uri(name))
    assert node is not None
    return desk.tree / str(node.data["file"])


def save(desk: Desk, path: Path, text: str) -> None:
    path.write_text(text)
    desk.ws.hint([str(path)])


def tags(desk: Desk) -> tuple[str, ...]:
    node = desk.ws.node(uri(CHOICE))
    return node.tags if node else ()


def detail(desk: Desk, name: str = CHOICE) -> str | None:
    node = desk.ws.node(uri(name))
    found = desk.ws.detail(node) if node else None
    return found[1] if found else None


@pytest.mark.requirement("M8")
def test_tags_changed_in_the_front_matter_are_the_nodes_tags_in_the_same_commit(desk: Desk) -> None:
    path = memory(desk)
    save(desk, path, path.read_text().replace("- database\n", "- Storage # all of it\n- sql\n"))
    eventually(lambda: tags(desk) == ("sql", "storage"))
    desk.published()
    assert desk.subjects("-1") == [f"Ann Person: edit {CHOICE} by hand"]
    assert "- Storage # all of it\n" in path.read_text()
    assert "- storage\n" in desk.file(CHOICE).read_text()
    assert check(desk.ws) == []


@pytest.mark.slow
def test_tags_changed_in_the_node_file_update_the_front_matter(desk: Desk) -> None:
    node = desk.file(CHOICE)
    save(desk, node, node.read_text().replace("- database\n", "- sql\n"))
    eventually(lambda: tags(desk) == ("sql",))
    desk.published()
    assert "tags:\n- sql\n---\n" in memory(desk).read_text()


@pytest.mark.slow
def test_hand_written_prose_is_found_read_and_merged_with_concurrent_writes(desk: Desk) -> None:
    path = memory(desk)
    desk.ws.submit(change(upsert(CHOICE, tags=("postgres",))))
    save(desk, path, path.read_text() + "\nPgbouncer in front of it.\n")
    eventually(lambda: "Pgbouncer" in (detail(desk) or ""))
    assert [hit.uri for hit in desk.ws.text().search("pgbouncer")] == [uri(CHOICE)]
    assert tags(desk) == ("database", "postgres")
    desk.published()
    assert "postgres" in path.read_text()


def test_an_emptied_file_is_named_and_its_last_good_text_stays(desk: Desk) -> None:
    path = memory(desk)
    save(desk, path, "")
    eventually(lambda: [one.path for one in desk.ws.invalid_files()] == [f"memories/{path.name}"])
    assert detail(desk) == "# Why\n\nMany writers."
    save(desk, path, f"---\nid: {CHOICE}\ntype: decision\ntags: [database]\n---\n")
    eventually(lambda: detail(desk) == "")
    assert desk.ws.invalid_files() == ()
    desk.published()


def test_a_renamed_file_still_belongs_to_its_node(desk: Desk) -> None:
    path = memory(desk)
    path.rename(path.with_name("2024-12-10-postgres.md"))
    desk.ws.hint(None)
    eventually(lambda: memory(desk).name == "2024-12-10-postgres.md")
    assert detail(desk) == "# Why\n\nMany writers."
    desk.published()
    assert check(desk.ws) == []


@pytest.mark.slow
def test_a_deleted_file_is_only_the_detail(desk: Desk) -> None:
    path = memory(desk)
    path.unlink()
    desk.ws.hint([str(path)])
    eventually(lambda: "file" not in desk.ws.node(uri(CHOICE)).data)  # type: ignore[union-attr]
    desk.published()
    assert not path.exists()
    assert check(desk.ws) == []


@pytest.mark.slow
def test_a_missing_folder_is_an_accident_and_comes_back(desk: Desk) -> None:
    path = memory(desk)
    shutil.rmtree(path.parent)
    desk.ws.hint(None)
    eventually(path.exists)
    assert detail(desk) == "# Why\n\nMany writers."


@pytest.mark.slow
def test_a_nodes_file_that_a_person_deletes_takes_its_memory_along(desk: Desk) -> None:
    path = memory(desk)
    node = desk.file(CHOICE)
    node.unlink()
    desk.ws.hint([str(node)])
    eventually(lambda: desk.ws.node(uri(CHOICE)) is None)
    desk.published()
    assert not path.exists()


@pytest.mark.slow
def test_a_node_that_a_person_gives_another_uri_keeps_its_file(desk: Desk) -> None:
    old = desk.file(CHOICE)
    new = old.with_name("storage.yaml")
    new.write_text(old.read_text().replace("database-choice\n", "storage\n", 1))
    old.unlink()
    desk.ws.hint(None)
    eventually(lambda: desk.ws.node(uri(CHOICE)) is None and desk.ws.node(uri("decision://ws/storage")) is not None)
    assert detail(desk, "decision://ws/storage") == "# Why\n\nMany writers."
    desk.published()


@pytest.mark.slow
def test_a_memory_written_by_hand_has_its_node(desk: Desk) -> None:
    path = memory(desk).with_name("2026-11-21-retries.md")
    save(
        desk, path, "---\nid: pattern://ws/retries\ntype: pattern\ntags: [Retry]\n---\n\n# Retry with jitter\n\nmore\n"
    )
    eventually(lambda: desk.ws.node(uri("pattern://ws/retries")) is not None)
    node = desk.ws.node(uri("pattern://ws/retries"))
    assert node is not None
    assert (node.summary, node.tags) == ("Retry with jitter", ("retry",))
    assert detail(desk, "pattern://ws/retries") == "# Retry with jitter\n\nmore"
    desk.published()
    assert check(desk.ws) == []


@pytest.mark.parametrize(
    "spoiled",
    [
        "---\nid: decision://ws/other\ntype: decision\n---\nx\n",
        f"---\nid: {CHOICE}\ntype: decision\ntags: [&a b, *a]\n---\nx\n",
        f"---\nid: {CHOICE}\ntype: decision\n---\nAKIAABCDEFGHIJKLMNOP\n",
        f"---\nid: {CHOICE}\n---\n" + "x" * 300_000,
        f"---\nid: {CHOICE}\ntags: ['']\n---\n",
        "no front matter\n",
        "",
    ],
)
def test_an_invalid_file_does_not_replace_a_memory(spoiled: str) -> None:
    good = f"---\nid: {CHOICE}\ntype: decision\n---\nx\n".encode()
    with pytest.raises(KgdError) as refusal:
        admission.check("memories/a.md", spoiled.encode(), good, HOME)
    assert refusal.value.at.startswith("memories/a.md:")


def test_a_file_that_never_was_a_memory_may_be_anything() -> None:
    for text in ("", "# Read me\n", "---"):
        admission.check("memories/README.md", text.encode(), None, HOME)


@pytest.mark.slow
@pytest.mark.parametrize("committed", [True, False])
def test_taking_the_name_of_a_memory_out_of_a_node_deletes_no_prose(desk: Desk, committed: bool) -> None:
    path, node = memory(desk), desk.file(CHOICE)
    node.write_text(
        "".join(line for line in node.read_text().splitlines(True) if not line.startswith(("data", "  file")))
    )
    if committed:
        desk.git("commit", "-qam", "no file")
    desk.ws.hint(None)
    eventually(lambda: "file" not in desk.ws.node(uri(CHOICE)).data)  # type: ignore[union-attr]
    desk.published()
    assert "Many writers." in path.read_text()
    assert [one.where for one in check(desk.ws)] == [f"memories/{path.name}"], "it is reported, not deleted"
    save(desk, path, path.read_text() + "\nMore.\n")
    eventually(lambda: "More." in (detail(desk) or ""), lambda: desk.ws.health())


@pytest.mark.slow
def test_a_node_and_its_memory_may_be_written_by_hand_in_either_order(desk: Desk) -> None:
    path, node = memory(desk).with_name("2026-11-21-retries.md"), desk.file("pattern://ws/retries")
    node.parent.mkdir(parents=True, exist_ok=True)
    save(desk, node, f"uri: pattern://ws/retries\nsummary: Retry\ndata:\n  file: memories/{path.name}\n")
    eventually(lambda: [one.path for one in desk.ws.invalid_files()] == ["nodes/pattern/retries.yaml"])
    save(desk, path, "---\nid: pattern://ws/retries\ntype: pattern\n---\n\nWith jitter\n")
    eventually(lambda: detail(desk, "pattern://ws/retries") == "With jitter")
    eventually(lambda: desk.ws.invalid_files() == (), lambda: desk.ws.invalid_files())


@pytest.mark.slow
def test_a_name_that_differs_by_case_alone_is_not_taken_from_the_work_tree(desk: Desk) -> None:
    twin = desk.file(CHOICE).with_name("Database-Choice.yaml")
    save(desk, twin, "uri: decision://ws/Database-Choice\n")
    eventually(lambda: [one.path for one in desk.ws.invalid_files()] == ["nodes/decision/Database-Choice.yaml"])
    assert desk.ws.node(uri("decision://ws/Database-Choice")) is None
    desk.file(CHOICE).unlink()
    desk.ws.hint(None)
    eventually(lambda: desk.ws.node(uri("decision://ws/Database-Choice")) is not None, lambda: desk.ws.invalid_files())


@pytest.mark.slow
def test_a_plain_git_commit_reaches_the_node(desk: Desk) -> None:
    path = memory(desk)
    path.write_text(path.read_text().replace("- database\n", "- sql\n"))
    desk.git("commit", "-qam", "another tag")
    desk.ws.hint(None)
    eventually(lambda: tags(desk) == ("sql",))
    desk.published()
    assert check(desk.ws) == []

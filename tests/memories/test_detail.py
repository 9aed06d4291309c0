"""The file behind a memory: written with its node, in step with it, and gone with it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest

from kgd.codec import front_matter
from kgd.errors import Invalid, KgdError, Limit, Refused, Stale
from kgd.model.change import Delete, Move, Revert, Untag
from kgd.model.node import Node
from kgd.workspace.answers import FieldChange
from kgd.workspace.check import check
from kgd.workspace.history.commits import changed_fields
from kgd.workspace.workspace import Workspace
from tests.builders import change, commit_file, upsert, uri

CHOICE = "decision://ws/database-choice"
PROSE = "# Decision: Database\n\n## Context\nWe need a database.\n"


def decide(ws: Workspace, prose: str = PROSE) -> str:
    """A decision with a detail; the path of its file."""
    ws.submit(change(upsert(CHOICE, summary="Chose PostgreSQL", tags=("Database", "sql"), detail=prose)))
    return file_of(ws)


def stored(ws: Workspace, name: str = CHOICE) -> Node:
    node = ws.node(uri(name))
    assert node is not None
    return node


def file_of(ws: Workspace, name: str = CHOICE) -> str:
    return str(stored(ws, name).data["file"])


def text(ws: Workspace, path: str) -> str | None:
    done = subprocess.run(
        ["git", "-C", ws.layout.git_dir, "show", f"refs/kgd/head:{path}"], capture_output=True, text=True, check=False
    )
    return done.stdout if done.returncode == 0 else None


def commits(ws: Workspace) -> int:
    done = subprocess.run(
        ["git", "-C", ws.layout.git_dir, "rev-list", "--count", "refs/kgd/head"],
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


@pytest.mark.requirement("M6")
@pytest.mark.requirement("M8")
def test_a_decision_and_its_file_are_one_commit_and_the_file_is_for_people(ws: Workspace) -> None:
    before = commits(ws)
    path = decide(ws)
    assert commits(ws) == before + 1
    node = stored(ws)
    assert node.tags == ("database", "sql")
    day = path.removeprefix("memories/")[:10]
    assert path == f"memories/{day}-database-choice.md"
    assert text(ws, path) == (
        f'---\nid: {CHOICE}\ntype: decision\ndate: "{day}"\ntags:\n- database\n- sql\n---\n\n{PROSE}'
    )
    assert ws.detail(node) == (path, PROSE.strip("\n"))
    assert check(ws) == []


def test_a_detail_is_replaced_only_by_who_read_it(reopen: Callable[[], Workspace]) -> None:
    ws = reopen()
    path = decide(ws)
    with pytest.raises(Stale) as late:
        ws.submit(change(upsert(CHOICE, detail="other\n")))
    assert late.value.current == 1
    ws.submit(change(upsert(CHOICE, detail=PROSE)))  # the same again is no change
    assert commits(ws) == 2
    assert ws.submit(change(upsert(CHOICE, detail="other\n", expect_version=1))).nodes == ((uri(CHOICE), 2),)
    assert ws.detail(stored(ws)) == (path, "other")
    for _ in range(2):
        with pytest.raises(Stale) as late:
            ws.submit(change(upsert(CHOICE, detail="of a late writer\n", expect_version=1)))
        assert late.value.current == 2
        ws = reopen()
    assert ws.submit(change(upsert(CHOICE, tags=("sql2",), detail="both\n", expect_version=2))).nodes[0][1] == 3
    ws.reindex()
    assert ws.node_version(uri(CHOICE)).count == 3  # type: ignore[union-attr]


def test_one_of_two_concurrent_replacements_of_a_detail_is_refused(ws: Workspace) -> None:
    decide(ws)
    told: list[KgdError] = []

    def write(text: str) -> None:
        try:
            ws.submit(change(upsert(CHOICE, detail=text, expect_version=1)))
        except Stale as late:
            told.append(late)

    threads = [Thread(target=write, args=(f"text {number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told) == 7
    assert check(ws) == []


def test_a_put_changes_only_its_fields_in_the_front_matter(ws: Workspace) -> None:
    path = decide(ws)
    by_hand = (
        f"---\n# who knows more: Ann\nid: {CHOICE}\ntype: decision\ndate: 2024-12-10\n"
        f"tags: [sql, database]  # in the order of weight\nstatus: final\n---\n{PROSE}\n<!-- kept -->\n"
    )
    commit_file(ws, path, by_hand)
    ws.submit(change(upsert(CHOICE, tags=("postgres",))))
    ws.submit(change(Untag(uri(CHOICE), ("SQL",))))
    after = re.sub(" +#", "  #", text(ws, path) or "")  # a comment stays in its column
    assert after == by_hand.replace("[sql, database]", "[database, postgres]")


def test_a_deleted_node_takes_its_file_along_and_a_revert_brings_both_back(ws: Workspace) -> None:
    path = decide(ws)
    done = ws.submit(change(Delete(uri(CHOICE))))
    assert text(ws, path) is None
    ws.submit(change(Revert(done.commit or "")))
    node = stored(ws)
    assert ws.detail(node) == (path, PROSE.strip("\n"))


def test_a_moved_node_keeps_its_file_and_the_file_knows_its_new_name(ws: Workspace) -> None:
    path = decide(ws)
    ws.submit(change(Move(uri(CHOICE), uri("decision://ws/storage/database"))))
    assert file_of(ws, "decision://ws/storage/database") == path
    assert front_matter.decode((text(ws, path) or "").encode()).front["id"] == "decision://ws/storage/database"
    assert check(ws) == []


def test_a_detail_that_is_unset_or_emptied_goes_and_the_node_stays(ws: Workspace) -> None:
    path = decide(ws)
    ws.submit(change(upsert(CHOICE, unset=("detail",))))
    node = stored(ws)
    assert (node.data, text(ws, path)) == ({}, None)
    decide(ws)
    ws.submit(change(upsert(CHOICE, detail="", expect_version=3)))
    node = stored(ws)
    assert (node.data, text(ws, path)) == ({}, None)


def test_another_name_in_the_node_is_another_name_of_the_file(ws: Workspace) -> None:
    path = decide(ws)
    ws.submit(change(upsert(CHOICE, data={"file": "memories/2024-12-10-postgres.md"})))
    node = stored(ws)
    assert text(ws, path) is None
    assert ws.detail(node) == ("memories/2024-12-10-postgres.md", PROSE.strip("\n"))


def test_naming_a_copy_of_a_memory_deletes_neither(ws: Workspace) -> None:
    path, copy = decide(ws), "memories/copy.md"
    commit_file(ws, copy, text(ws, path) or "")
    ws.submit(change(upsert(CHOICE, data={"file": copy})))
    assert file_of(ws) == copy
    assert text(ws, path) is not None


def test_naming_another_nodes_file_does_not_take_its_detail(ws: Workspace) -> None:
    path = decide(ws)
    with pytest.raises(Invalid, match="memory of another node"):
        ws.submit(change(upsert("insight://ws/mine", data={"file": path})))
    commit_file(ws, "nodes/insight/mine.yaml", f"uri: insight://ws/mine\ndata:\n  file: {path}\n")
    node = stored(ws, "insight://ws/mine")
    assert ws.detail(node) is None
    ws.submit(change(Delete(uri("insight://ws/mine"))))
    assert text(ws, path) is not None


def test_two_memories_of_one_day_and_topic_have_two_files(ws: Workspace) -> None:
    path = decide(ws)
    ws.submit(change(upsert("gotcha://ws/database-choice", detail="it is slow\n")))
    assert file_of(ws, "gotcha://ws/database-choice") == path.replace(".md", "-gotcha.md")


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"where": "concept://ws/a", "detail": "x"}, Invalid),
        ({"where": CHOICE, "detail": "x" * 300_000}, Limit),
        ({"where": CHOICE, "detail": "AKIAABCDEFGHIJKLMNOP"}, Refused),
        ({"where": CHOICE, "detail": "\udc80"}, Invalid),
        ({"where": CHOICE, "detail": "a\0b"}, Invalid),
        ({"where": CHOICE, "detail": "x", "unset": ("detail",)}, Invalid),
    ],
)
def test_forbidden_content_is_refused_and_nothing_is_written(
    ws: Workspace, fields: dict[str, Any], refusal: type[KgdError]
) -> None:
    before = ws.tip
    with pytest.raises(refusal):
        ws.submit(change(upsert(fields.pop("where"), **fields)))
    assert ws.tip == before


def test_prose_that_looks_like_front_matter_is_prose(ws: Workspace) -> None:
    prose = "---\nid: concept://ws/other\n---\ntext"
    path = decide(ws, prose)
    node = stored(ws)
    assert ws.detail(node) == (path, prose)


def test_a_change_of_the_prose_alone_is_in_the_nodes_history_and_can_be_taken_back(ws: Workspace) -> None:
    decide(ws)
    done = ws.submit(change(upsert(CHOICE, detail="other\n", expect_version=1)))
    assert [entry.nodes for entry in ws.history.entries(uri=uri(CHOICE))][:1] == [(uri(CHOICE),)]
    (changed,) = ws.history.changes(done.commit or "")
    assert changed_fields(changed) == (FieldChange("detail", PROSE.strip("\n"), "other"),)
    ws.submit(change(upsert(CHOICE, tags=("late",))))
    ws.submit(change(Revert(done.commit or "")))
    assert (ws.detail(stored(ws)) or ("", ""))[1] == PROSE.strip("\n")
    assert stored(ws).tags == ("database", "late", "sql")
    assert check(ws) == []


def test_the_check_names_memories_without_a_node_and_nodes_without_their_memory(ws: Workspace) -> None:
    path = decide(ws)
    commit_file(ws, "memories/2020-01-01-x.md", "---\nid: decision://ws/x\ntype: decision\n---\nx\n")
    commit_file(ws, "memories/notes.md", "---\nfront matter that does not end\n")
    commit_file(ws, "memories/README.md", "this folder\n")
    commit_file(ws, "nodes/insight/a.yaml", "uri: insight://ws/a\ndata:\n  file: memories/gone.md\n")
    commit_file(ws, "nodes/insight/b.yaml", f"uri: insight://ws/b\ndata:\n  file: {path}\n")
    commit_file(ws, path, f"---\nid: {CHOICE}\ntype: gotcha\ntags: [database, sql]\n---\nx\n")
    found = {(one.level, one.where): one.message for one in check(ws)}
    assert set(found) == {
        ("warning", "memories/2020-01-01-x.md"),
        ("warning", "memories/notes.md"),
        ("error", "insight://ws/a"),
        ("error", "insight://ws/b"),
        ("warning", path),
    }
    assert "missing" in found["error", "insight://ws/a"]


def test_words_of_the_prose_find_the_node_also_after_the_index_was_made_anew(ws: Workspace) -> None:
    decide(ws, "Pgbouncer stands in front of it.\n")
    for query, there in (("pgbouncer", True), ("connections", False)):
        assert bool(ws.text().search(query)) is there
    ws.submit(change(upsert(CHOICE, detail="It pools connections.\n", expect_version=1)))
    for _ in range(2):
        assert [hit.uri for hit in ws.text().search("connections")] == [uri(CHOICE)]
        assert ws.text().search("pgbouncer") == []
        ws.reindex()


def test_a_change_of_the_prose_alone_notifies_subscribers(ws: Workspace) -> None:
    decide(ws)
    told: list[frozenset[str]] = []
    ws.on_commit(told.append)
    ws.submit(change(upsert(CHOICE, detail="other\n", expect_version=1)))
    assert told == [frozenset({uri(CHOICE)})]

"""Undo and revert of a person's own work: files saved by hand, and a branch that they rewrote with git."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kgd.daemon.daemon import Daemon
from kgd.errors import InvariantViolation, Unavailable
from kgd.model.uri import Uri
from kgd.tools import call
from kgd.tools.session import Session
from kgd.workspace.publishing import publication
from kgd.workspace.workspace import Workspace
from tests.surfaces.conftest import Ask, git, upsert
from tests.waiting import until

Rewrite = Callable[[Workspace], object]


@pytest.fixture
def told(ask: Ask, ws: Workspace) -> Ask:
    ask.put(changes=upsert("a", summary="one"), message="first")
    ask.put(changes=upsert("b", summary="two"), message="second")
    until(lambda: ws.is_settled and not git(ws.layout.work_tree, "--no-optional-locks", "status", "--porcelain"))
    return ask


def names(ask: Ask) -> set[str]:
    return {str(node["uri"]).rpartition("/")[2] for node in ask.get(uris=["a", "b"])["nodes"]}


def amend_without_b(ws: Workspace) -> None:
    git(ws.layout.work_tree, "rm", "-q", "nodes/concept/b.yaml")
    git(ws.layout.work_tree, "commit", "-q", "--amend", "--allow-empty", "-m", "drop b")


def reset_and_commit(ws: Workspace) -> None:
    git(ws.layout.work_tree, "reset", "-q", "--hard", "HEAD~1")
    git(ws.layout.work_tree, "commit", "-q", "--allow-empty", "-m", "something else")


def reset(ws: Workspace) -> None:
    git(ws.layout.work_tree, "reset", "-q", "--hard", "HEAD~1")


REWRITES = pytest.mark.parametrize("rewrite", [amend_without_b, reset_and_commit, reset])


@pytest.mark.slow
@REWRITES
def test_undo_restores_a_node_that_a_rewritten_branch_dropped(told: Ask, ws: Workspace, rewrite: Rewrite) -> None:
    rewrite(ws)
    assert told.undo()["reverted"]["message"].startswith("reset 'kgd' to ")
    assert names(told) == {"a", "b"}


@pytest.mark.slow
@REWRITES
def test_the_history_shows_the_drop_by_a_rewrite_and_a_revert_restores_it(
    told: Ask, ws: Workspace, rewrite: Rewrite
) -> None:
    rewrite(ws)
    until(lambda: names(told) == {"a"})
    newest = told.history(uri="b")["commits"][0]
    assert newest["message"].startswith("reset 'kgd' to ")
    assert newest["commit"] == told.history(limit=1)["commits"][0]["commit"]
    told.revert(commit="HEAD")
    assert names(told) == {"a", "b"}


@pytest.mark.slow
def test_a_rewritten_commit_is_undone_before_older_changes(told: Ask, ws: Workspace) -> None:
    file = ws.layout.work_tree / "nodes/concept/b.yaml"
    file.write_text(file.read_text().replace("two", "second try"))
    git(ws.layout.work_tree, "commit", "-qam", "second", "--amend")
    assert told.undo()["reverted"]["message"] == "second"
    assert names(told) == {"a"}


@pytest.mark.slow
def test_undo_is_refused_while_a_saved_file_waits_for_git(
    told: Ask, ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publication, "SETTLE_SECONDS", 0.1)
    lock = ws.layout.git_dir / "index.lock"
    lock.touch()
    file = ws.layout.work_tree / "nodes/concept/a.yaml"
    file.write_text(file.read_text().replace("one", "by hand"))
    with pytest.raises(Unavailable, match="the files that you have saved are not committed yet"):
        told.undo()
    lock.unlink()
    until(lambda: told.get(uris="a")["nodes"][0]["summary"] == "by hand")
    assert names(told) == {"a", "b"}


def test_undo_within_a_moment_of_a_save_undoes_the_save(told: Ask, ws: Workspace) -> None:
    file = ws.layout.work_tree / "nodes/concept/a.yaml"
    file.write_text(file.read_text().replace("one", "by hand"))
    assert told.undo()["reverted"]["message"] == "edit concept://shop/a by hand"
    assert told.get(uris="a")["nodes"][0]["summary"] == "one"
    assert names(told) == {"a", "b"}
    assert not told.conflicts()["conflicts"]


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["undo", "revert"])
def test_head_is_a_commit_made_with_git_a_moment_ago(told: Ask, ws: Workspace, tool: str) -> None:
    file = ws.layout.work_tree / "nodes/concept/a.yaml"
    file.write_text(file.read_text().replace("one", "by git"))
    git(ws.layout.work_tree, "commit", "-qam", "by git")
    assert getattr(told, tool)(commit="HEAD")["reverted"]["message"] == "by git"
    assert told.get(uris="a")["nodes"][0]["summary"] == "one"
    assert names(told) == {"a", "b"}


BROKEN = "uri: concept://shop/a\nsummary: [\n"


def commit_by_hand(ws: Workspace, name: str, text: str) -> None:
    """Commit this text as the file of a node with plain git, and let kgd merge it."""
    file = ws.layout.work_tree / "nodes/concept" / f"{name}.yaml"
    file.write_text(text)
    git(ws.layout.work_tree, "add", "-A")
    git(ws.layout.work_tree, "commit", "-qm", f"change {name}")
    ws.settle()
    assert ws.history.newest()[0].subject == f"change {name}"


@pytest.mark.parametrize(
    ("text", "arguments"), [(BROKEN, {}), ("", {"commit": "HEAD"}), ("uri: concept://shop/other\n", {})]
)
def test_undo_of_a_commit_that_broke_a_file_restores_the_last_readable_version(
    told: Ask, ws: Workspace, text: str, arguments: dict[str, str]
) -> None:
    commit_by_hand(ws, "a", text)
    assert [one.path for one in ws.invalid_files()] == ["nodes/concept/a.yaml"]
    told.undo(**arguments)
    assert not ws.invalid_files()
    assert told.get(uris="a")["nodes"][0]["summary"] == "one"
    until(lambda: "summary: one" in (ws.layout.work_tree / "nodes/concept/a.yaml").read_text())


@pytest.mark.slow
def test_undo_of_a_commit_that_created_an_unreadable_file_removes_it(told: Ask, ws: Workspace) -> None:
    commit_by_hand(ws, "c", BROKEN)
    told.undo()
    assert not ws.invalid_files()
    until(lambda: not (ws.layout.work_tree / "nodes/concept/c.yaml").exists())


@pytest.mark.slow
def test_undo_of_a_commit_to_a_file_that_was_never_readable_restores_its_former_bytes(told: Ask, ws: Workspace) -> None:
    commit_by_hand(ws, "c", BROKEN)
    commit_by_hand(ws, "c", BROKEN + "x")
    first = told.undo(commit="HEAD~1")
    assert (first["commit"], first["warnings"][0]) == (
        None,
        "nodes/concept/c.yaml has changed since and was not reverted",
    )
    told.undo()
    until(lambda: (ws.layout.work_tree / "nodes/concept/c.yaml").read_text() == BROKEN)
    told.undo()
    until(lambda: not (ws.layout.work_tree / "nodes/concept/c.yaml").exists())
    assert names(told) == {"a", "b"}


@pytest.mark.slow
def test_undo_of_a_commit_that_broke_a_file_keeps_a_later_repair(told: Ask, ws: Workspace) -> None:
    commit_by_hand(ws, "a", BROKEN)
    commit_by_hand(ws, "a", "uri: concept://shop/a\nsummary: repaired\n")
    assert told.undo(commit="HEAD~1")["commit"] is None
    assert told.get(uris="a")["nodes"][0]["summary"] == "repaired"
    told.undo()  # of the repair: back to the version that was served before it, which can be read
    assert told.get(uris="a")["nodes"][0]["summary"] == "one"


@pytest.mark.slow
def test_undo_of_the_removal_of_a_file_that_was_never_readable_has_nothing_to_restore(told: Ask, ws: Workspace) -> None:
    commit_by_hand(ws, "c", BROKEN)
    git(ws.layout.work_tree, "rm", "-q", "nodes/concept/c.yaml")
    git(ws.layout.work_tree, "commit", "-qm", "drop c")
    ws.settle()
    (newest,) = told.history(limit=1, diff=True)["commits"]
    assert newest["diff"] == [{"uri": "concept://shop/c", "change": "deleted", "fields": {}}]
    answer = told.undo(commit="HEAD")
    assert (answer["commit"], len(answer["warnings"])) == (None, 1)


@pytest.mark.slow
def test_a_commit_that_broke_a_file_is_shown_as_such(told: Ask, ws: Workspace) -> None:
    commit_by_hand(ws, "a", BROKEN)
    commit_by_hand(ws, "a", "uri: concept://shop/a\nsummary: repaired\n")
    (repair, broke) = told.history(limit=2, diff=True)["commits"]
    (change,) = broke["diff"]
    assert (change["change"], change["fields"]) == ("invalid", {})
    assert change["reason"].startswith("nodes/concept/a.yaml:3: this is not YAML")
    assert repair["diff"] == [
        {"uri": "concept://shop/a", "change": "changed", "fields": {"summary": {"before": "one", "after": "repaired"}}}
    ]
    assert told.diff(range="HEAD~2..HEAD~1")["diff"] == [change]


@pytest.mark.slow
def test_a_review_lists_a_file_that_a_commit_broke(told: Ask, ws: Workspace) -> None:
    commit_by_hand(ws, "a", BROKEN)
    found = [one for by in told.review()["authors"] for one in by["nodes"] if one["change"] == "invalid"]
    assert [one["uri"] for one in found] == ["concept://shop/a"]
    assert found[0]["reason"].startswith("nodes/concept/a.yaml:3: ")


def test_undo_refuses_to_revert_a_commit_instead_of_an_unreadable_edit(told: Ask, ws: Workspace) -> None:
    file = ws.layout.work_tree / "nodes/concept/b.yaml"
    kept = file.read_text()
    file.write_text("uri: concept://shop/b\nsummary: [\n")
    with pytest.raises(InvariantViolation, match="an edit by hand cannot be read") as refused:
        told.undo()
    assert "restore -- nodes/concept/b.yaml" in refused.value.next
    assert names(told) == {"a", "b"}
    git(ws.layout.work_tree, "restore", "--", "nodes/concept/b.yaml")
    assert file.read_text() == kept
    assert told.undo()["reverted"]["message"] == "second"


@pytest.mark.slow
def test_undo_refuses_to_revert_a_commit_instead_of_an_unreadable_edit_of_the_settings(
    told: Ask, ws: Workspace
) -> None:
    (ws.layout.work_tree / "kgd.yaml").write_text("kgd: [\n")
    with pytest.raises(InvariantViolation, match="an edit by hand cannot be read") as refused:
        told.undo()
    assert refused.value.at == "kgd.yaml:2"
    assert "restore -- kgd.yaml" in refused.value.next
    assert names(told) == {"a", "b"}


@pytest.mark.slow
def test_undo_refuses_to_revert_a_commit_instead_of_a_commit_that_broke_the_settings(told: Ask, ws: Workspace) -> None:
    work_tree = ws.layout.work_tree
    settings = git(ws.layout.git_dir, "show", "refs/kgd/head:kgd.yaml")
    (work_tree / "kgd.yaml").write_text("kgd: [\n")
    git(work_tree, "commit", "-qam", "change settings")
    with pytest.raises(InvariantViolation, match="your newest commits with git are not merged") as refused:
        told.undo()
    assert refused.value.at == "kgd.yaml:2"
    command = refused.value.next.split("`")[1]
    assert names(told) == {"a", "b"}
    git(work_tree, *command.removeprefix(f"{ws.layout.git_command} ").split())
    told.undo(commit="HEAD")  # would restore the broken settings, with which no workspace opens
    assert not ws.invalid_files()
    assert git(ws.layout.git_dir, "show", "refs/kgd/head:kgd.yaml") == settings
    assert told.undo()["reverted"]["message"] == "second"


@pytest.mark.slow
def test_the_revert_of_a_repair_of_the_top_folder_keeps_the_repair(told: Ask, ws: Workspace) -> None:
    work_tree = ws.layout.work_tree
    git(work_tree, "rm", "-q", "kgd.yaml")
    (work_tree / "memories").write_text("a file instead of a folder\n")
    git(work_tree, "add", "-A")
    git(work_tree, "commit", "-qm", "break it")
    git(work_tree, "revert", "--no-edit", "HEAD")
    ws.settle()
    tree = git(ws.layout.git_dir, "rev-parse", "refs/kgd/head^{tree}")
    answer = told.revert(commit="HEAD")
    assert answer["commit"] is None
    assert [one.partition(":")[0] for one in answer["warnings"][:2]] == ["kgd.yaml is kept", "memories is kept"]
    assert git(ws.layout.git_dir, "rev-parse", "refs/kgd/head^{tree}") == tree


@pytest.mark.slow
def test_undo_in_a_bare_workspace_names_no_command_that_needs_a_work_tree(daemon: Daemon, tmp_path: Path) -> None:
    session = Session(daemon, cwd=tmp_path, client="test-client 1.0")
    ws = daemon.workspace(call(session, "up", {"directory": str(tmp_path / "bare"), "bare": True})["workspace"])
    call(session, "put", {"workspace": ws.id, "changes": upsert("a", summary="one")})
    until(lambda: ws.is_settled)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(ws.layout.git_dir), str(clone))
    (clone / "kgd.yaml").write_text("kgd: [\n")
    git(clone, "commit", "-qam", "break it")
    git(clone, "push", "-q")
    until(lambda: ws.branch_refusal is not None)
    with pytest.raises(InvariantViolation, match="your newest commits with git are not merged") as refused:
        call(session, "undo", {"workspace": ws.id})
    assert " revert " not in refused.value.next
    assert ws.graph.card(Uri(f"concept://{ws.id}/a"))

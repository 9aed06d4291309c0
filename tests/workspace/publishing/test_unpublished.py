"""Unpublished files in a work tree and their authors, while disks, folders and processes fail."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kgd.git import files
from kgd.git.layout import Layout
from kgd.model.change import Delete
from kgd.workspace.publishing import publication_plan
from kgd.workspace.publishing.publication import Publication
from kgd.workspace.publishing.work_tree import WorkTree
from kgd.workspace.workspace import Workspace
from tests.builders import change, upsert, uri
from tests.workspace.people import Desk, eventually, git, node_text
from tests.workspace.publishing.test_publication import _free, _hold, _hurry, _taken, desk, layout

__all__ = ["_hurry", "desk", "layout"]

N1 = "nodes/concept/n1.yaml"


def lock_of(layout: Layout) -> Path:
    """While it stands, nothing is published."""
    lock = layout.git_dir / f"{layout.branch}.lock"
    lock.write_text("")
    return lock


def summary(desk: Desk, name: str) -> str | None:
    node = desk.ws.node(uri(name))
    return node.summary if node else None


def edited(desk: Desk) -> None:
    """A person's new node, one changed and one deleted: served, and not published."""
    desk.save("mine", node_text("mine", name="Mine"))
    desk.edit("n1", "as it was", "edited")
    desk.file("n2").unlink()
    desk.ws.hint(None)
    desk.serves("n1", "summary", "edited")
    eventually(lambda: desk.ws.node(uri("mine")) and desk.ws.node(uri("n2")) is None)


@pytest.mark.parametrize("again", [False, True], ids=["in one life", "after a restart"])
def test_a_missing_folder_loses_no_unpublished_edit(desk: Desk, layout: Layout, again: bool) -> None:
    lock = lock_of(layout)
    edited(desk)
    shutil.rmtree(desk.tree / "nodes")
    desk.ws.hint(None)
    eventually(lambda: desk.file("n1").exists())
    if again:
        desk.ws.close()
    now = Desk(Workspace.open(layout)) if again else desk
    try:
        lock.unlink()
        now.published()
        assert (summary(now, "n1"), summary(now, "n2"), summary(now, "mine")) == ("edited", None, "")
        assert now.file("mine").exists()
    finally:
        now.ws.close()


@pytest.mark.parametrize("again", [False, True], ids=["in one life", "after a restart"])
def test_a_half_restored_folder_is_restored_completely(
    desk: Desk, layout: Layout, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    placed, real = list[str](), WorkTree.place

    def place(self: WorkTree, path: str, aside: Path) -> None:
        placed.append(path)
        if len(placed) == 6 or (again and len(placed) > 6):
            raise OSError(errno.ENOSPC, "No space left on device")
        real(self, path, aside)

    monkeypatch.setattr(WorkTree, "place", place)
    shutil.rmtree(desk.tree / "nodes")
    desk.ws.hint(None)
    eventually(lambda: len(placed) >= 6)
    if again:
        desk.ws.close()
        monkeypatch.setattr(WorkTree, "place", real)
    now = Desk(Workspace.open(layout)) if again else desk
    try:
        eventually(lambda: all(now.file(f"n{number}").exists() for number in range(12)))
        now.published()
        assert all(now.ws.node(uri(f"n{number}")) for number in range(12))
        assert not [line for line in now.subjects() if "by hand" in line]
        now.file("n3").unlink()
        now.ws.hint(None)
        eventually(lambda: now.ws.node(uri("n3")) is None)
    finally:
        now.ws.close()


def test_a_node_recreated_by_an_agent_is_not_deleted_again(desk: Desk, layout: Layout) -> None:
    lock = lock_of(layout)
    desk.save("mine", node_text("mine", name="Mine"))
    eventually(lambda: desk.ws.node(uri("mine")))
    desk.ws.submit(change(Delete(uri("mine"))))
    desk.file("mine").unlink()
    desk.ws.hint(None)
    publication = desk.ws._publication
    assert isinstance(publication, Publication)
    eventually(lambda: "mine" not in str(publication._unpublished.paths()))
    desk.ws.submit(change(upsert("mine", name="Mine")))
    lock.unlink()
    desk.published()
    assert desk.ws.node(uri("mine"))
    assert desk.file("mine").exists()


def test_a_merged_edit_can_be_undone_while_kgd_is_down(desk: Desk, layout: Layout) -> None:
    lock = lock_of(layout)
    desk.ws.submit(change(upsert("n1", data={"by": 1})))
    desk.edit("n1", "as it was", "mine")
    desk.serves("n1", "summary", "mine")
    desk.ws.close()
    desk.file("n1").write_text(desk.file("n1").read_text().replace("mine", "as it was"))
    now = Desk(Workspace.open(layout))
    try:
        now.serves("n1", "summary", "as it was")
        lock.unlink()
        now.published()
        assert (summary(now, "n1"), dict(now.ws.node(uri("n1")).data)) == ("as it was", {"by": 1})  # type: ignore[union-attr]
        assert now.ws.conflict_count == 0
    finally:
        now.ws.close()


@pytest.mark.slow
def test_a_merged_edit_undone_between_look_and_exchange_blocks_nothing(
    desk: Desk, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    was, hit, real = desk.file("n1").read_bytes(), list[str](), WorkTree.place

    def place(self: WorkTree, path: str, aside: Path) -> None:
        if path == N1 and not hit and b"mine" in desk.file("n1").read_bytes():
            hit.append(path)
            desk.file("n1").write_bytes(was)
        real(self, path, aside)

    monkeypatch.setattr(WorkTree, "place", place)
    lock = lock_of(layout)
    desk.ws.submit(change(upsert("n1", data={"by": 1})))
    desk.edit("n1", "as it was", "mine")
    desk.serves("n1", "summary", "mine")
    lock.unlink()
    desk.ws.hint(None)
    desk.serves("n1", "summary", "as it was")
    assert hit
    desk.published()
    assert dict(desk.ws.node(uri("n1")).data) == {"by": 1}  # type: ignore[union-attr]


def test_a_briefly_full_disk_loses_no_record(desk: Desk, layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    failed, real = list[str](), files.replace

    def replace(path: Path, data: bytes) -> None:
        if not failed:
            failed.append(path.name)
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, data)

    monkeypatch.setattr(publication_plan, "replace", replace)
    lock = lock_of(layout)
    desk.edit("n1", "as it was", "edited")
    eventually(lambda: failed)
    desk.serves("n1", "summary", "edited")
    desk.ws.close()
    desk.file("n1").write_text(desk.file("n1").read_text().replace("edited", "as it was"))
    now = Desk(Workspace.open(layout))
    try:
        now.serves("n1", "summary", "as it was")
        lock.unlink()
        now.published()
        assert summary(now, "n1") == "as it was"
    finally:
        now.ws.close()


DAMAGED: dict[str, Any] = {
    "garbage": b"\0\xff{",
    "empty": b"",
    "a list": b"[]",
    "null": b"null",
    "deep": b"[" * 100_000,
    "a short id": {"bases": {}, "taken": {N1: ["ab", None]}},
    "a number": {"bases": {}, "taken": {N1: [5, None]}},
    "no object": {"bases": {N1: "1" * 40}, "taken": {N1: ["2" * 40, None]}},
    "a surrogate": b'{"bases":{"nodes/\\ud800.yaml":null},"taken":{"nodes/\\ud800.yaml":[null,null]},"tip":"TIP"}',
    "other files": {
        "bases": {"x.txt": None},
        "taken": {"README.txt": ["N1", None], "": ["N1", None], "../main.py": ["N1", None]},
    },
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_record_file_is_ignored_and_changes_nothing(desk: Desk, layout: Layout, name: str) -> None:
    desk.ws.close()
    saved = DAMAGED[name] if isinstance(DAMAGED[name], bytes) else json.dumps(DAMAGED[name] | {"tip": "TIP"}).encode()
    tip = git(layout.git_dir, "rev-parse", "refs/kgd/head").strip().encode()
    n1 = git(layout.git_dir, "rev-parse", f"refs/kgd/head:{N1}").strip().encode()
    (layout.derived_dir / "bases").write_bytes(saved.replace(b"TIP", tip).replace(b'"N1"', b'"%s"' % n1))
    (desk.tree / "README.txt").write_bytes(desk.file("n1").read_bytes())
    now = Desk(Workspace.open(layout))
    try:
        now.ws.submit(change(upsert("n2", summary="goes on")))
        eventually(lambda: "goes on" in now.file("n2").read_text())
        assert not now.ws.invalid_files()
        assert (summary(now, "n1"), (desk.tree / "README.txt").exists()) == ("as it was", True)
    finally:
        now.ws.close()


def test_an_edit_stays_after_the_tip_was_reset_behind_it(desk: Desk, layout: Layout) -> None:
    lock = lock_of(layout)
    desk.edit("n1", "as it was", "precious")
    desk.serves("n1", "summary", "precious")
    desk.ws.close()
    git(layout.git_dir, "update-ref", "refs/kgd/head", "refs/kgd/head@{1}")
    lock.unlink()
    now = Desk(Workspace.open(layout))
    try:
        now.serves("n1", "summary", "precious")
        now.published()
        assert "precious" in now.file("n1").read_text()
    finally:
        now.ws.close()


@pytest.mark.slow
def test_an_edit_based_on_an_abandoned_merge_is_no_damage(desk: Desk, layout: Layout) -> None:
    lock = lock_of(layout)
    desk.ws.submit(change(upsert("n1", data={"by": 1})))
    desk.edit("n1", "as it was", "mine")
    desk.serves("n1", "summary", "mine")
    _hold(layout)
    lock.unlink()
    desk.ws.hint(None)
    eventually(lambda: "by: 1" in desk.file("n1").read_text())
    eventually(lambda: not _taken(layout.git_dir / "index.lock"))
    desk.ws.close()
    desk.file("n1").write_text(desk.file("n1").read_text() + "tags: [more]\n")
    _free(layout)
    now = Desk(Workspace.open(layout))
    try:
        now.serves("n1", "tags", ("more",))
        now.published()
        assert (summary(now, "n1"), dict(now.ws.node(uri("n1")).data)) == ("mine", {"by": 1})  # type: ignore[union-attr]
    finally:
        now.ws.close()

"""The tip becomes branch, index and work tree: always forward, never during a git command, finished after a crash."""

from __future__ import annotations

import errno
import functools
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgd.git import refs
from kgd.git.layout import Layout
from kgd.model.change import Delete, Edit
from kgd.workspace import workspace as module
from kgd.workspace.publishing import publication
from kgd.workspace.publishing.publication import Publication
from kgd.workspace.publishing.publication_plan import PlanFolder
from kgd.workspace.publishing.work_tree import WorkTree, _no_exchange
from kgd.workspace.workspace import Workspace
from tests.builders import ANN, change, upsert, uri
from tests.workspace.people import Desk, code_layout, eventually, git, hurry, node_text, open_desk


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
    monkeypatch.setattr(refs, "LOCK_DEADLINE", 1.0)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return code_layout(tmp_path / "code")


@pytest.fixture
def desk(layout: Layout) -> Iterator[Desk]:
    with open_desk(layout, *(upsert(f"n{i}", name=f"N{i}", summary="as it was") for i in range(12))) as desk:
        yield desk


@pytest.mark.requirement("E14")
def test_every_change_is_in_the_branch_the_index_and_the_work_tree_soon_after(desk: Desk) -> None:
    began = time.monotonic()
    desk.ws.submit(change(upsert("n1", name="New")))
    desk.published()
    assert time.monotonic() - began < 10
    assert "name: New" in desk.file("n1").read_text()
    assert desk.git("diff", "--cached", "--name-only") == ""
    assert git(desk.tree.parent, "status", "--porcelain") == ""


def test_a_commit_during_the_pause_after_a_publication_is_reported_as_waiting(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publication, "DEBOUNCE", 3_600.0)
    desk.ws.submit(change(upsert("n1", name="First")))
    desk.published()
    desk.ws.submit(change(upsert("n1", name="Second")))
    assert desk.ws.health()["publish"].state == "waiting"
    assert "name: First" in desk.file("n1").read_text()
    desk.ws.close()
    assert "name: Second" in desk.file("n1").read_text()


def test_a_deleted_node_takes_its_file_and_empty_folders_along(desk: Desk) -> None:
    desk.ws.submit(change(upsert("deep/er/x", name="X")))
    desk.published()
    assert desk.file("deep/er/x").exists()
    desk.ws.submit(change(Delete(uri("deep/er/x"))))
    desk.published()
    assert not (desk.tree / "nodes/concept/deep").exists()


def test_the_branch_only_ever_goes_forward(desk: Desk) -> None:
    for i in range(4):
        desk.ws.submit(change(upsert("n2", data={"i": i})))
        desk.published()
    log = (desk.layout.git_dir / "logs" / desk.layout.branch).read_text().splitlines()
    moves = [line.split()[:2] for line in log if not line.startswith("0" * 40)]
    assert len(moves) >= 4
    for old, new in moves:
        git(desk.layout.git_dir, "merge-base", "--is-ancestor", old, new)


def _begin(desk: Desk, state: str) -> None:
    git_dir = desk.layout.git_dir
    if state == "detached HEAD":
        desk.git("checkout", "-q", "--detach")
    elif state == "other branch":
        desk.git("switch", "-qc", "elsewhere")
    elif state in ("rebase-merge", "rebase-apply", "sequencer"):
        (git_dir / state).mkdir()
    elif state == "index.lock":
        (git_dir / state).touch()
    else:
        (git_dir / state).write_text(desk.ref(desk.layout.branch) + "\n")


def _end(desk: Desk, state: str) -> None:
    path = desk.layout.git_dir / state
    if path.is_dir():
        path.rmdir()
    elif path.exists():
        path.unlink()
    else:
        desk.git("switch", "-q", "kgd")


STATES = {
    "detached HEAD": "detached",
    "other branch": "elsewhere",
    "MERGE_HEAD": "merge --abort`",
    "CHERRY_PICK_HEAD": "cherry-pick --abort`",
    "REVERT_HEAD": "revert --abort`",
    "rebase-merge": "rebase --abort`",
    "rebase-apply": "rebase --abort`",
    "BISECT_LOG": "bisect reset`",
    "sequencer": "of several commits",
    "index.lock": "git command is running",
}


@pytest.mark.slow
def test_nothing_is_touched_while_a_git_command_runs_and_publication_resumes_by_itself(desk: Desk) -> None:
    _stands_back(desk, "index.lock", "rebase-merge")


@pytest.mark.slow
def test_nothing_is_touched_in_any_unfinished_git_operation(desk: Desk) -> None:
    _stands_back(desk, *STATES)


def test_an_unfinished_revert_of_several_commits_is_ended_by_revert(desk: Desk) -> None:
    folder = desk.layout.git_dir / "sequencer"
    folder.mkdir()
    (folder / "todo").write_text(f"revert {desk.ref(desk.layout.branch)} a change\n")
    desk.blocked("revert --abort`")


def _stands_back(desk: Desk, *states: str) -> None:
    for n, state in enumerate(states):
        words = STATES[state]
        _begin(desk, state)
        before = desk.ref(desk.layout.branch)
        desk.blocked(words)
        desk.ws.submit(change(upsert("n1", name=f"During {n}")))
        desk.file("n2").write_text(node_text("n2", name=f"Hand {n}"))
        desk.ws.hint(None)
        time.sleep(0.4)  # longer than a publication and a hand edit take
        assert desk.ref(desk.layout.branch) == before, state
        assert f"During {n}" not in desk.file("n1").read_text(), state
        assert desk.ws.node(uri("n2")).name != f"Hand {n}", state  # type: ignore[union-attr]
        assert desk.ws.node(uri("n1")).name == f"During {n}", "writes go on"  # type: ignore[union-attr]
        _end(desk, state)
        desk.serves("n2", "name", f"Hand {n}")
        desk.published()
        assert f"During {n}" in desk.file("n1").read_text()
    desk.published()


def test_an_old_foreign_lock_is_reported_with_age_and_command_and_never_removed(desk: Desk) -> None:
    lock = desk.layout.git_dir / "index.lock"
    lock.touch()
    os.utime(lock, (time.time() - 90, time.time() - 90))
    desk.ws.hint(None)
    desk.blocked(f"rm {lock}")
    assert " 9" in desk.ws.health()["publish"].blocker
    assert desk.ws.health()["publish"].state == "blocked"
    desk.ws.close()
    assert lock.exists()
    lock.unlink()


@pytest.mark.slow
def test_files_in_an_unfinished_stash_pop_are_left_to_the_person(desk: Desk) -> None:
    desk.git("switch", "-qc", "side")
    desk.file("n1").write_text(node_text("n1", name="stashed"))
    desk.git("stash", "-q")
    desk.git("switch", "-q", "kgd")
    desk.ws.submit(change(upsert("n1", name="published")))
    desk.published()
    assert desk.git("stash", "pop", "-q", check=False)[0] == "1"
    desk.ws.submit(change(upsert("n2", name="later")))
    desk.blocked("unfinished merge")
    desk.git("checkout", "--theirs", "--", desk.ws.path(uri("n1")))
    desk.git("add", "-A")
    desk.serves("n1", "name", "stashed")
    desk.published()


def test_what_a_person_staged_stays_staged_and_their_commit_keeps_both(desk: Desk) -> None:
    path = desk.ws.path(uri("n3"))
    lock = desk.layout.git_dir / "index.lock"
    lock.touch()
    desk.blocked("running")
    desk.ws.submit(change(upsert("n3", data={"by": "agent"})))
    lock.unlink()
    desk.file("n3").write_text(desk.file("n3").read_text().replace("as it was", "staged"))
    desk.git("add", path)
    desk.git("commit", "-qm", "mine")
    desk.serves("n3", "summary", "staged")
    desk.published()
    assert desk.ws.node(uri("n3")).data == {"by": "agent"}  # type: ignore[union-attr]
    assert "Ann Person: mine" in desk.subjects()


def test_committing_a_file_that_publication_skipped_keeps_both_edits(desk: Desk) -> None:
    lock = desk.layout.git_dir / "index.lock"
    lock.touch()
    desk.blocked("running")
    desk.ws.submit(change(upsert("n4", data={"by": "agent"})))
    old = desk.file("n4").read_text()
    desk.file("n4").write_text(old + "tags: [unclosed\n")
    lock.unlink()
    desk.ws.hint(None)
    eventually(lambda: desk.in_step, lambda: desk.ws.health())
    assert [found.path for found in desk.ws.invalid_files()] == [desk.ws.path(uri("n4"))]
    desk.file("n4").write_text(old.replace("as it was", "mended"))
    desk.git("commit", "-qam", "mended")
    desk.serves("n4", "summary", "mended")
    eventually(lambda: desk.ws.node(uri("n4")).data == {"by": "agent"}, lambda: desk.subjects())  # type: ignore[union-attr]
    desk.published()


def test_resetting_the_branch_reverts_the_change_and_history_keeps_it(desk: Desk) -> None:
    desk.ws.submit(change(upsert("n5", name="unwanted"), message="the unwanted change"))
    desk.published()
    desk.git("reset", "-q", "--hard", "HEAD~1")
    desk.serves("n5", "name", "N5")
    desk.published()
    assert any("the unwanted change" in line for line in desk.subjects())
    assert desk.subjects("-1")[0].startswith("Ann Person: reset 'kgd' to ")
    assert "name: N5" in desk.file("n5").read_text()


def test_an_amended_commit_replaces_the_first_and_keeps_later_changes(desk: Desk) -> None:
    desk.file("n6").write_text(node_text("n6", name="first"))
    desk.git("commit", "-qam", "first try")
    desk.published()
    desk.file("n6").write_text(node_text("n6", name="second"))
    desk.ws.submit(change(upsert("n7", name="meanwhile")))
    desk.git("commit", "-q", "-a", "--amend", "-m", "second try")
    desk.serves("n6", "name", "second")
    desk.serves("n7", "name", "meanwhile")
    desk.published()
    assert desk.ws.conflicts.find() == ()
    assert {"Ann Person: first try", "Ann Person: second try"} <= set(desk.subjects())


def test_a_damaged_index_is_rebuilt(desk: Desk) -> None:
    (desk.layout.git_dir / "index").write_bytes(b"garbage")
    desk.ws.submit(change(upsert("n1", name="After")))
    desk.published()


def test_a_workspace_without_index_gets_its_files(desk: Desk, layout: Layout) -> None:
    desk.ws.close()
    (layout.git_dir / "index").unlink()
    subprocess.run(["rm", "-rf", layout.work_tree / "nodes"], check=True)
    again = Desk(Workspace.open(layout))
    again.published()
    assert again.file("n1").exists()
    again.ws.close()


def test_a_full_derived_folder_can_be_deleted_without_loss(desk: Desk, layout: Layout) -> None:
    desk.git("commit", "-q", "--allow-empty", "-m", "mine")
    desk.published()
    desk.ws.close()
    subprocess.run(["rm", "-rf", layout.derived_dir], check=True)
    layout.derived_dir.mkdir()
    again = Desk(Workspace.open(layout))
    again.ws.submit(change(upsert("n1", name="Again")))
    again.published()
    again.ws.close()


def test_exchange_falls_back_on_file_systems_without_it(tmp_path: Path) -> None:
    root, aside = tmp_path / "tree", tmp_path / "aside"
    root.mkdir()
    aside.mkdir()
    tree = WorkTree(root, aside, exchange=_no_exchange)
    tree.prepare(b"one", aside / "1")
    tree.prepare(b"two", aside / "2")
    assert tree.place("nodes/a.yaml", aside / "1") is False
    assert tree.place("nodes/a.yaml", aside / "2") is True
    assert (root / "nodes/a.yaml").read_bytes() == b"two"
    assert [(p.name, p.read_bytes()) for p in aside.iterdir()] == [("2", b"one")]


@pytest.mark.slow
def test_an_editor_that_had_the_file_open_while_it_was_replaced_loses_nothing(desk: Desk) -> None:
    with open(desk.file("n8"), "r+") as editor:
        desk.ws.submit(change(upsert("n8", tags=("published",))))
        eventually(lambda: "published" in desk.file("n8").read_text(), lambda: desk.ws.health())
        time.sleep(1.3)  # longer than the delay for displaced files
        editor.write(node_text("n8", name="Late", summary="written into the old inode"))
        editor.truncate()
    desk.serves("n8", "summary", "written into the old inode")
    desk.published()
    assert desk.ws.node(uri("n8")).tags == ("published",)  # type: ignore[union-attr]


CHILD = textwrap.dedent(
    """
    import functools, os, signal, sys
    import kgd.workspace.workspace as module
    from kgd.git.layout import locate
    from pathlib import Path
    from tests.builders import change, upsert
    steps, stop = [], int(sys.argv[2])
    def at(name):
        steps.append(name)
        if len(steps) == stop:
            os.kill(os.getpid(), signal.SIGKILL)
    module.Publication = functools.partial(module.Publication, at_step=at)
    ws = module.Workspace.open(locate(Path(sys.argv[1])))
    four = (upsert(f"n{i}", name="killed in the act", data={"step": stop}) for i in range(4))
    ws.submit(change(*four, upsert("added/x", name="X")))
    while "done" not in steps:
        ws.hint(None)
    print(steps)
    """
)


LATE_STEPS = [3, 6, 8]


@pytest.mark.requirement("B11")
@pytest.mark.parametrize(
    "step", [step if step in LATE_STEPS else pytest.param(step, marks=pytest.mark.slow) for step in range(1, 11)]
)
def test_killed_at_any_step_it_is_finished_at_the_next_start(desk: Desk, layout: Layout, step: int) -> None:
    desk.ws.close()
    root = Path(__file__).resolve().parents[3]
    child = subprocess.run(
        [sys.executable, "-c", CHILD, layout.work_tree.parent, str(step)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL, child.stdout + child.stderr
    by_hand = node_text("n2", name="edited after the crash", summary="as it was")
    desk.file("n9").write_text(node_text("n9", name="while it was down"))
    desk.file("n2").write_text(by_hand)
    again = Desk(Workspace.open(layout))
    again.serves("n9", "name", "while it was down")
    again.published()
    hand = [line for line in again.subjects() if "by hand" in line]
    assert len(hand) <= 2
    assert not any("n0" in line or "n1 " in line or "n3" in line or "added" in line for line in hand)
    assert "edited after the crash" in git(layout.git_dir, "log", "--all", "-p", "refs/kgd/head")
    assert again.ws.node(uri("n1")).data == {"step": step}  # type: ignore[union-attr]
    assert again.file("added/x").exists()
    assert again.fsck() == []
    again.ws.close()
    left = [p.name for p in layout.git_dir.glob("*.lock")] + [p.name for p in layout.derived_dir.glob("part-*")]
    assert left == []


@pytest.mark.slow
def test_a_checkout_of_thousands_of_files_is_followed(desk: Desk) -> None:
    desk.ws.submit(change(*(upsert(f"many/{i % 50}/m{i}", name="A") for i in range(1500))))
    desk.published()
    desk.git("branch", "keep")
    for path in (desk.tree / "nodes/concept/many").rglob("*.yaml"):
        path.write_text(path.read_text().replace("name: A", "name: B"))
    desk.git("commit", "-qam", "all of them")
    eventually(lambda: desk.ws.node(uri("many/1/m1")).name == "B")  # type: ignore[union-attr]
    count = len(desk.subjects())
    desk.git("switch", "-q", "keep")
    desk.git("switch", "-q", "kgd")
    desk.published()
    assert len(desk.subjects()) == count


@pytest.mark.slow
def test_two_threads_of_writers_and_publication_end_in_step(desk: Desk) -> None:
    def write(k: int) -> None:
        for n in range(20):
            desk.ws.submit(change(upsert(f"n{n % 12}", data={f"by{k}": n})))

    threads = [threading.Thread(target=write, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    desk.published()
    assert desk.fsck() == []


def test_a_disk_error_under_the_lock_leaves_a_new_file_to_the_next_try(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, really, failed = desk.layout.git_dir / "index.lock", os.open, list[str]()

    def failing(path: str, *rest: object, **more: object) -> int:
        if path == "concept" and not failed and lock.exists():
            failed.append(path)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return really(path, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", failing)
    desk.ws.submit(change(upsert("fresh", name="Fresh")))
    desk.published()
    assert failed
    assert "name: Fresh" in desk.file("fresh").read_text()
    assert desk.fsck() == []


def _taken(lock: Path) -> bool:
    """Whether another process has the lock; otherwise this one has it."""
    try:
        lock.open("x").close()
    except FileExistsError:
        return True
    return False


def test_files_placed_but_not_published_are_no_hand_edits_after_a_restart(desk: Desk, layout: Layout) -> None:
    index = layout.git_dir / "index.lock"
    _hold(layout)
    desk.ws.submit(change(upsert("n1", summary="one"), author=ANN))
    eventually(lambda: "one" in desk.file("n1").read_text())
    eventually(lambda: not _taken(index))  # and nothing more is placed
    desk.ws.submit(change(upsert("n1", summary="two"), author=ANN))
    desk.ws.close()
    assert "one" in desk.file("n1").read_text()
    _free(layout)
    again = Desk(Workspace.open(layout))
    try:
        again.published()
        assert again.ws.node(uri("n1")).summary == "two"  # type: ignore[union-attr]
        assert not [line for line in again.subjects() if "by hand" in line]
        assert again.ws.conflict_count == 0
    finally:
        again.ws.close()


def _hold(layout: Layout) -> None:
    """The branch cannot be moved, because its log cannot be written; this shows only after the files were placed."""
    log = layout.git_dir / "logs" / layout.branch
    log.unlink()
    log.mkdir()


def _given_up(desk: Desk, *edits: Edit) -> None:
    """These files are placed, and the branch cannot be moved. Ends when nothing more is placed."""
    _hold(desk.layout)
    desk.ws.submit(change(*edits))
    eventually(lambda: "fresh" in str(list(desk.tree.rglob("*.yaml"))))
    eventually(lambda: not _taken(desk.layout.git_dir / "index.lock"))


def _free(layout: Layout) -> None:
    """Remove the obstacle to publication."""
    (layout.git_dir / "logs" / layout.branch).rmdir()
    (layout.git_dir / "index.lock").unlink()


FRESH_AND_CHANGED = (upsert("fresh", name="Fresh"), upsert("n1", summary="passing"), Delete(uri("n2")))
CHANGED_BACK = (Delete(uri("fresh")), upsert("n1", summary="as it was"), upsert("n2", name="N2", summary="as it was"))


@pytest.mark.slow
@pytest.mark.parametrize("restarted", [False, True], ids=["in one life", "after a restart"])
def test_a_change_reverted_before_its_publication_is_reverted_in_the_files(
    desk: Desk, layout: Layout, restarted: bool
) -> None:
    before = desk.file("n2").read_bytes()
    _given_up(desk, *FRESH_AND_CHANGED)
    assert not desk.file("n2").exists()
    desk.ws.submit(change(*CHANGED_BACK))
    if restarted:
        desk.ws.close()
    _free(layout)
    now = Desk(Workspace.open(layout)) if restarted else desk
    try:
        now.published()
        assert not now.file("fresh").exists()
        assert now.ws.node(uri("fresh")) is None
        assert "as it was" in now.file("n1").read_text()
        assert now.file("n2").read_bytes() == before
        assert not [line for line in now.subjects() if "by hand" in line]
        eventually(lambda: not list((layout.derived_dir / "aside").iterdir()))
    finally:
        now.ws.close()


def test_a_file_removed_and_restored_before_publication_is_there(desk: Desk) -> None:
    _given_up(desk, *FRESH_AND_CHANGED)
    desk.ws.submit(change(upsert("n2", name="N2", summary="it is another now")))
    _free(desk.layout)
    desk.published()
    assert "it is another now" in desk.file("n2").read_text()
    assert not [line for line in desk.subjects() if "by hand" in line]


@pytest.mark.slow
def test_files_of_an_abandoned_publication_are_no_edit_even_after_another_commit(desk: Desk, layout: Layout) -> None:
    _given_up(desk, *FRESH_AND_CHANGED)
    desk.ws.submit(change(*CHANGED_BACK))
    desk.ws.close()
    _free(layout)
    desk.file("n5").write_text(node_text("n5", summary="mine"))
    desk.git("commit", "-qm", "mine", "--", str(desk.file("n5")))
    now = Desk(Workspace.open(layout))
    try:
        now.published()
        assert not now.file("fresh").exists()
        assert "as it was" in now.file("n1").read_text()
        assert now.ws.node(uri("n2")) is not None
        assert now.ws.node(uri("n5")).summary == "mine"  # type: ignore[union-attr]
        assert not [line for line in now.subjects() if "by hand" in line]
    finally:
        now.ws.close()


@pytest.mark.slow
@pytest.mark.parametrize("tip", ["as it was", "two"])
def test_only_the_persons_changes_to_an_abandoned_publication_are_theirs(desk: Desk, layout: Layout, tip: str) -> None:
    _given_up(desk, upsert("fresh"), upsert("n1", summary="passing"))
    desk.ws.submit(change(upsert("n1", summary=tip)))
    desk.ws.close()
    _free(layout)
    desk.file("n1").write_text(desk.file("n1").read_text() + "tags: [mine]\n")
    now = Desk(Workspace.open(layout))
    try:
        now.serves("n1", "tags", ("mine",))
        assert now.ws.node(uri("n1")).summary == tip  # type: ignore[union-attr]
        assert now.ws.conflict_count == 0
        now.published()
    finally:
        now.ws.close()


@pytest.mark.slow
def test_a_published_file_kept_after_a_branch_reset_is_the_persons(desk: Desk, layout: Layout) -> None:
    desk.ws.submit(change(upsert("n1", summary="one")))
    desk.published()
    desk.ws.close()
    desk.git("reset", "-q", "HEAD~1")
    now = Desk(Workspace.open(layout))
    try:
        now.published()
        assert now.ws.node(uri("n1")).summary == "one"  # type: ignore[union-attr]
        assert [line for line in now.subjects() if "by hand" in line]
    finally:
        now.ws.close()


@pytest.mark.slow
def test_a_later_edit_is_the_persons_even_if_kgd_once_placed_the_same_bytes(desk: Desk, layout: Layout) -> None:
    _given_up(desk, *FRESH_AND_CHANGED)
    placed = desk.file("fresh").read_bytes()
    desk.ws.submit(change(Delete(uri("fresh"))))
    desk.file("fresh").unlink()
    _free(layout)
    desk.published()
    desk.file("fresh").write_bytes(placed)
    desk.ws.hint([str(desk.file("fresh"))])
    desk.serves("fresh", "name", "Fresh")
    desk.ws.submit(change(upsert("n3", summary="something else")))
    desk.published()
    assert desk.file("fresh").read_bytes() == placed


@pytest.mark.slow
@pytest.mark.parametrize("tried", [False, True], ids=["waiting", "given up"])
@pytest.mark.parametrize("down", [False, True], ids=["in one life", "while kgd is down"])
def test_an_edit_undone_before_its_publication_is_undone(desk: Desk, layout: Layout, tried: bool, down: bool) -> None:
    lock, log = (desk.layout.git_dir / name for name in (f"{desk.layout.branch}.lock", f"logs/{desk.layout.branch}"))
    if tried:
        _hold(desk.layout)
    else:
        lock.write_text("")
    was = {name: desk.file(name).read_bytes() for name in ("n1", "n2")}
    desk.save("mine", node_text("mine", name="Mine"))
    desk.edit("n1", "as it was", "for a moment")
    desk.file("n2").unlink()
    desk.ws.hint(None)
    desk.serves("n1", "summary", "for a moment")
    eventually(lambda: desk.ws.node(uri("mine")) and desk.ws.node(uri("n2")) is None)
    if down:
        desk.ws.close()
    for name, data in was.items():  # as git does it, except that git needs the index alone, where this retries
        desk.file(name).write_bytes(data)
    desk.file("mine").unlink()
    now = Desk(Workspace.open(layout)) if down else desk
    try:
        now.ws.hint(None)
        now.serves("n1", "summary", "as it was")
        eventually(lambda: now.ws.node(uri("mine")) is None and now.ws.node(uri("n2")))
        log.rmdir() if tried else lock.unlink()
        now.published()
        assert "as it was" in now.file("n1").read_text()
        assert now.file("n2").exists()
        assert not now.file("mine").exists()
        assert now.ws.conflict_count == 0
    finally:
        now.ws.close()


@pytest.mark.slow
def test_abandoned_files_go_even_if_the_person_moves_the_branch_to_the_tip(desk: Desk) -> None:
    _given_up(desk, *FRESH_AND_CHANGED)
    desk.ws.submit(change(*CHANGED_BACK))
    (desk.layout.git_dir / "logs" / desk.layout.branch).rmdir()
    desk.git("update-ref", desk.layout.branch, "refs/kgd/head")
    (desk.layout.git_dir / "index.lock").unlink()
    desk.published()
    eventually(lambda: not desk.file("fresh").exists() and desk.file("n2").exists())
    assert "as it was" in desk.file("n1").read_text()
    assert not [line for line in desk.subjects() if "by hand" in line]


@pytest.mark.slow
@pytest.mark.parametrize("step", ["prepared", "locked"])
def test_an_edit_undone_during_its_publication_is_undone(
    desk: Desk, layout: Layout, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    desk.ws.close()
    was, back = {name: desk.file(name).read_bytes() for name in ("n1", "n2")}, list[str]()

    def take_back(name: str) -> None:
        if name == step and "for a moment" in desk.file("n1").read_text():
            back.append(name)
            for path, data in was.items():
                desk.file(path).write_bytes(data)

    monkeypatch.setattr(module, "Publication", functools.partial(Publication, at_step=take_back))
    now = Desk(Workspace.open(layout))
    try:
        now.file("n2").unlink()
        now.edit("n1", "as it was", "for a moment")
        now.ws.hint(None)
        eventually(lambda: back)
        now.serves("n1", "summary", "as it was")
        eventually(lambda: now.ws.node(uri("n2")))
        now.published()
        assert {name: now.file(name).read_bytes() for name in was} == was
        assert now.ws.conflict_count == 0
    finally:
        now.ws.close()


def test_the_index_stays_free_while_the_branch_is_locked(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = desk.layout.git_dir / f"{desk.layout.branch}.lock"
    lock.write_text("")
    desk.ws.submit(change(upsert("n1", summary="later")))
    eventually(lambda: "a git command is running" in desk.ws.health()["publish"].blocker)
    placed = threading.Event()
    with monkeypatch.context() as patch:
        patch.setattr(WorkTree, "place", lambda *args: placed.set())
        for _ in range(20):
            desk.git("add", "-A")  # which fails while another process has the index
            desk.ws.hint(None)
        assert not placed.is_set()
    lock.unlink()
    desk.published()
    assert "later" in desk.file("n1").read_text()


def test_putting_back_missing_files_does_not_undo_an_edit(desk: Desk) -> None:
    lock = desk.layout.git_dir / f"{desk.layout.branch}.lock"
    lock.write_text("")
    desk.edit("n1", "as it was", "mine")
    desk.serves("n1", "summary", "mine")
    shutil.rmtree(desk.tree / "nodes")
    desk.ws.hint(None)
    eventually(lambda: desk.file("n1").exists())
    lock.unlink()
    desk.published()
    assert desk.ws.node(uri("n1")).summary == "mine"  # type: ignore[union-attr]
    assert "mine" in desk.file("n1").read_text()


def test_a_committed_executable_bit_that_a_merge_drops_is_not_left_staged(layout: Layout) -> None:
    """Nor does the index lose the file when git's index is damaged or gone."""
    ws = Workspace.open(layout)
    ws.submit(change(upsert("a", name="A"), upsert("b", name="B")))
    Desk(ws).published()
    ws.close()
    ahead = Workspace.open(layout, publish=False)
    ahead.submit(change(upsert("b", summary="not published")))
    ahead.close()
    git(layout.work_tree, "update-index", "--chmod=+x", "nodes/concept/a.yaml")
    git(layout.work_tree, "commit", "-qm", "executable")
    ws = Workspace.open(layout)
    Desk(ws).published()
    assert git(layout.work_tree, "status", "--porcelain") == ""
    ws.close()


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["gone", "garbage"])
def test_an_executable_file_stays_in_a_rebuilt_index(layout: Layout, damage: str) -> None:
    ws = Workspace.open(layout)
    ws.submit(change(upsert("a", name="A")))
    desk = Desk(ws)
    desk.published()
    git(layout.work_tree, "update-index", "--chmod=+x", "nodes/concept/a.yaml")
    git(layout.work_tree, "commit", "-qm", "executable")
    desk.published()
    index = layout.git_dir / "index"
    index.write_bytes(b"garbage") if damage == "garbage" else index.unlink()
    ws.submit(change(upsert("b", name="B")))
    desk.published()
    assert git(layout.work_tree, "status", "--porcelain") == ""
    assert ws.exists(uri("a"))
    ws.close()


def test_a_flush_of_plans_that_were_deleted_with_their_repository_is_no_error(tmp_path: Path) -> None:
    """It runs at the end of each pass and of the daemon; an error would end the publication for good."""
    folder = PlanFolder(tmp_path / "aside")
    folder.end(folder.begin(bytes(20), bytes(20), ()))
    shutil.rmtree(folder.folder)
    folder.flushed(time.monotonic())
    assert folder.unflushed == []

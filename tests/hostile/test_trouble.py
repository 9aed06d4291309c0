"""Ordinary trouble, as `kgd status` shows it: one line that says what to do, and nothing is lost.

tests/workspace/publishing/test_publication.py tests how each state of git affects publication; this file tests the
messages.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from kgd.errors import Unavailable
from tests.daemon.conftest import end_daemon
from tests.hostile.target import Target, git, refusal
from tests.hostile.trees import FILE, Smith
from tests.waiting import until

pytestmark = pytest.mark.slow

EDITOR = {"GIT_SEQUENCE_EDITOR": "sed -i 1s/pick/edit/", "GIT_EDITOR": "true"}


def old_lock(target: Target) -> None:
    lock = target.git_dir / "index.lock"
    lock.touch()
    hour_ago = time.time() - 3_600
    os.utime(lock, (hour_ago, hour_ago))


def half_done_rebase(target: Target) -> None:
    """A rebase that a person has started and stopped to edit a commit."""
    git(target.work_tree, "commit", "-q", "--allow-empty", "-m", "mine")
    subprocess.run(
        ["git", "rebase", "-q", "-i", "--keep-empty", "HEAD~1"],
        cwd=target.work_tree,
        env={**os.environ, **EDITOR},
        check=True,
        capture_output=True,
    )
    assert (target.git_dir / "rebase-merge").exists()


def other_branch(target: Target) -> None:
    git(target.work_tree, "switch", "-q", "-c", "other")


def unfinished_merge(target: Target) -> None:
    git(target.work_tree, "branch", "-q", "side", "HEAD~1")
    git(target.work_tree, "switch", "-q", "side")
    git(target.work_tree, "commit", "-q", "--allow-empty", "-m", "aside")
    git(target.work_tree, "switch", "-q", "kgd")
    git(target.work_tree, "merge", "-q", "--no-commit", "--no-ff", "side")


TROUBLE: dict[str, tuple[Callable[[Target], object], str]] = {
    "a lock that a killed git left": (old_lock, r"index\.lock is \d+ s old"),
    "a detached HEAD": (lambda target: git(target.work_tree, "checkout", "-q", "--detach"), "HEAD is detached"),
    "a rebase half done": (half_done_rebase, "a rebase is under way"),
    "another branch": (other_branch, "the branch 'other' is checked out"),
    "a merge half done": (unfinished_merge, "a merge is under way"),
}
QUICK = ("a detached HEAD",)


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in TROUBLE]
)
def test_an_unfinished_git_operation_is_reported_with_the_command_that_ends_it(target: Target, name: str) -> None:
    begin, line = TROUBLE[name]
    target.put("concept://shop/trouble", tags=[f"before {name}"])
    until(target.in_step, say=target.status)
    begin(target)
    target.put("concept://shop/trouble", tags=[name])
    until(lambda: re.search(line, target.blocker()), say=target.status)
    assert name in target.node("concept://shop/trouble")["tags"]
    shown = target.kgd("status").stdout
    assert re.search(line, shown)
    for command in [found for found in re.findall(r"`([^`]+)`|(rm \S+)$", target.blocker()) if any(found)][:1]:
        told = next(filter(None, command))
        subprocess.run(
            told, shell=True, cwd=target.work_tree, env={**os.environ, **EDITOR}, check=True, capture_output=True
        )
    until(lambda: target.blocker() == "" and target.in_step(), say=target.status)
    assert name in (target.work_tree / "nodes/concept/trouble.yaml").read_text()
    target.answers()


def test_a_client_that_disappears_in_the_middle_of_a_call_leaves_all_of_it_or_nothing(target: Target) -> None:
    for number in range(20):
        with target.wire() as wire:
            wire.line()
            changes = [{"op": "upsert", "uri": f"concept://shop/gone{number}/n{n}", "tags": ["x"]} for n in range(10)]
            request = str({"id": 1, "call": "put", "args": {"changes": changes}}).replace("'", '"').encode()
            wire.send(request[: len(request) * number // 10], end=b"\n" if number >= 10 else b"")
    target.answers()

    def all_or_nothing(number: int) -> bool:
        uris = [f"concept://shop/gone{number}/n{n}" for n in range(10)]
        return len(target.call("get", {"uris": uris})["nodes"]) in (0, 10)

    for number in range(20):
        until(partial(all_or_nothing, number))
    assert target.kgd("fsck").returncode == 0


@pytest.mark.slow
def test_a_socket_without_a_daemon_is_no_obstacle(fresh_target: Callable[[], Target]) -> None:
    target = fresh_target()
    os.kill(target.pid, signal.SIGKILL)
    assert Path(target.home.socket).exists()
    assert target.node("concept://shop/good")
    target.answers()


@pytest.mark.slow
def test_a_workspace_of_a_newer_format_is_read_and_not_written(fresh_target: Callable[[], Target]) -> None:
    target = fresh_target()
    until(target.in_step, say=target.status)
    end_daemon(target.home)
    smith = Smith(target.git_dir)
    newer = smith.blob(b"workspace: shop\nformat: 2\nmerge_rules: 1\n")
    made = smith.commit(smith.grafted(f"{target.branch}:", b"kgd.yaml", (FILE, newer)), target.branch)
    git(target.git_dir, "update-ref", "refs/kgd/head", made)
    assert target.node("concept://shop/good")
    assert "format 2" in target.status()["workspace"]["read_only"]
    assert "format 2" in target.kgd("status").stdout
    with pytest.raises(Unavailable, match="newer kgd"):
        target.put("concept://shop/good", tags=["x"])
    assert git(target.git_dir, "rev-parse", "refs/kgd/head", target.branch).split() == [made, made]


def test_an_invalid_request_gets_one_error_and_the_next_one_on_the_connection_is_answered(target: Target) -> None:
    with target.wire() as wire:
        wire.line()
        assert refusal(wire.ask(1, "no such call", {}))["code"] == "NOT_FOUND"
        assert wire.ask(2, "get", {"uris": ["concept://shop/good"]})["result"]["nodes"]


def test_stored_text_cannot_steer_a_terminal(target: Target) -> None:
    target.put("concept://shop/terminal", content="a\x1b]0;owned\x07\x1b[2J\u202eb")
    shown = target.kgd("get", "concept://shop/terminal").stdout
    assert "owned" in shown
    assert not set(shown) & {"\x1b", "\x07", "\u202e"}

"""Opening a workspace on a machine that is short of something: it works with less, or can be tried again."""

from __future__ import annotations

import ctypes
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from watchdog.observers import inotify_c

from kgd import tools
from kgd.config import Home
from kgd.daemon import workspace_watch
from kgd.daemon.daemon import Daemon
from kgd.errors import Damaged, Unavailable, of_defect
from kgd.git.layout import locate
from kgd.model.uri import Uri
from kgd.tools.session import Session
from kgd.tools.workspaces import opening
from kgd.workspace.workspace import Workspace
from tests.git.support import git
from tests.waiting import until


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A caller in an empty code repository."""
    code = tmp_path / "shop"
    code.mkdir()
    git(code, "init", "-q")
    home = Home.at(str(tmp_path / "home"))
    home.prepare()
    daemon = Daemon(home, since="", locate=locate, open_workspace=Workspace.open)
    yield Session(daemon, cwd=code, client="test", context_id=None)
    daemon.close()


@pytest.fixture
def no_inotify(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is the user's and shared by all programs of theirs, so the kernel's refusal is simulated."""

    def refuse() -> int:
        ctypes.set_errno(errno.EMFILE)
        return -1

    monkeypatch.setattr(inotify_c, "inotify_init", refuse)
    monkeypatch.setattr(inotify_c.InotifyFD, "_instance", None)


@pytest.mark.slow
def test_up_waits_for_the_code_tree_and_reports_the_files_that_it_reads(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert session.cwd
    for number in range(300):
        (session.cwd / f"{number}.py").write_text("x = 1\n")
    reported: list[tuple[int, int | None, str]] = []
    monkeypatch.setattr(workspace_watch, "FIRST_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(opening, "REPORT_SECONDS", 0.001)
    monkeypatch.setattr(session, "progress", lambda *told: reported.append(told))
    assert tools.call(session, "up", {})["counts"]["files"] == 300
    assert any(message == "reading the code tree" for _, _, message in reported)
    assert reported[-1][2] == "opening the workspace"


@pytest.mark.usefixtures("no_inotify")
def test_without_a_free_inotify_instance_folders_are_polled_and_status_says_so(session: Session) -> None:
    tools.call(session, "up", {})
    tools.call(session, "put", {"changes": [{"op": "upsert", "uri": "concept://shop/a", "name": "A"}]})
    (told,) = set(tools.call(session, "status", {})["degraded"])
    assert "no free inotify instance" in told
    assert "sudo sysctl fs.inotify.max_user_instances" in told
    assert any(told == check["detail"] and check["next"] for check in tools.call(session, "doctor", {})["checks"])


@pytest.mark.slow
@pytest.mark.usefixtures("no_inotify")
def test_without_a_free_inotify_instance_hand_edits_are_still_noticed(session: Session) -> None:
    tools.call(session, "up", {})
    tools.call(session, "put", {"changes": [{"op": "upsert", "uri": "concept://shop/a", "name": "before"}]})
    workspace = session.daemon.workspace("shop")
    file = workspace.layout.work_tree / "nodes/concept/a.yaml"
    until(file.exists)
    file.write_text(file.read_text().replace("before", "after"))
    until(lambda: (node := workspace.node(Uri("concept://shop/a"))) and node.name == "after")


@pytest.mark.slow
def test_an_opening_that_cannot_start_a_thread_leaves_nothing_open(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools.call(session, "up", {})
    session.daemon.forget(session.daemon.workspace("shop"))
    start, left, refused = threading.Thread.start, 0, 0

    def start_few(thread: threading.Thread) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise RuntimeError("can't start new thread")
        start(thread)

    for started in range(60):
        left = started
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", start_few)
            try:
                workspace = session.daemon.workspace("shop")
            except (RuntimeError, Unavailable):
                refused += 1
            else:
                break
        until(lambda: left_running() == [], say=left_running)
        assert open_files(session.daemon) == [], f"after {started} threads"
    assert refused > 5
    assert workspace is session.daemon.workspace("shop")


def left_running() -> list[str]:
    """Threads of a workspace; others close idle workspaces, or belong to the state that hubs of earlier tests share."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("kgd-") and name not in ("kgd-closing", "kgd-quotas")]


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EMFILE, "Too many open files"),
        RuntimeError("can't start new thread"),
        OSError(errno.EROFS, "Read-only file system", "/srv/secret/refs"),
        OSError(errno.ENOSPC, "No space left on device", "/srv/secret/refs"),
    ],
)
def test_a_call_on_a_machine_that_is_short_of_something_is_unavailable_and_no_defect(error: Exception) -> None:
    told = of_defect(error)
    assert (told.code, bool(told.next)) == ("UNAVAILABLE", True)
    assert "/srv/secret" not in str(told), "the clients of a hub must not learn its paths"


def open_files(daemon: Daemon) -> list[str]:
    """Databases and locks. Watchdog keeps three of its own where its thread could not be started."""
    links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    files = [os.readlink(link) for link in links if os.path.islink(link)]
    inside = str(Path(daemon.home.config).parent)
    return [file for file in files if file.startswith(inside) and not file.removesuffix(" (deleted)").endswith(".pack")]


@pytest.mark.parametrize("named", [False, True])
def test_a_configuration_that_git_cannot_read_is_named_with_its_line(session: Session, named: bool) -> None:
    tools.call(session, "up", {})
    workspace = session.daemon.workspace("shop")
    config = workspace.layout.git_dir / "config"
    session.daemon.forget(workspace)
    lines = config.read_text().count("\n")
    with open(config, "a") as file:
        file.write("[core\n")
    with pytest.raises(Damaged) as refused:
        tools.call(session, "get", {"uris": ["concept://shop/a"], **({"workspace": "shop"} if named else {})})
    assert f"{config}:{lines + 1}" in str(refused.value)
    assert f"git config -f {config} --list" in refused.value.next

"""Open workspaces are bounded: unused ones are closed, and opened again by the next call."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from kgd import tools
from kgd.config import Home
from kgd.daemon import daemon as daemon_module
from kgd.daemon import metrics
from kgd.daemon.daemon import Daemon
from kgd.daemon.open_workspaces import ClosedSync
from kgd.daemon.sign_in import grants_of
from kgd.errors import Unavailable
from kgd.git import remote_settings
from kgd.git.layout import locate
from kgd.git.remote_settings import Remote, parse_url
from kgd.hub.operating import Readiness
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.writer import Staged
from tests.builders import new_layout
from tests.faults.nursery import Child
from tests.git.support import git
from tests.waiting import until

pytestmark = pytest.mark.slow

LATER = 60.0
"""Seconds after which a workspace does not count as recently used."""


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A caller of a daemon with six bare workspaces, two of which may be open."""
    with serving(tmp_path) as made:
        yield made


@contextlib.contextmanager
def serving(place: Path) -> Iterator[Session]:
    home = Home.at(str(place / "home"))
    home.prepare()
    Path(home.registry).write_text("settings:\n  open_workspaces: 2\n  embedder: off\n")
    daemon = Daemon(home, since="", locate=locate, open_workspace=Workspace.open)
    try:
        session = Session(daemon, client="test", context_id=None)
        for number in range(6):
            folder = place / f"w{number}"
            if not folder.exists():
                new_layout(folder, f"w{number}")
                git(folder, "config", "core.bare", "true")
            daemon.workspace(directory=folder)
        yield session
    finally:
        daemon.close()


def put(session: Session, id: str, name: str) -> dict[str, Any]:
    change = {"op": "upsert", "uri": f"concept://{id}/{name}", "name": name, "summary": f"node {name} of {id}"}
    return dict(tools.call(session, "put", {"workspace": id, "changes": [change]}))


def nodes(session: Session, id: str) -> int:
    return len(session.daemon.workspace(id).graph)


def opened(session: Session) -> list[str]:
    return [one.id for one in session.daemon.opened()]


def close_unused(session: Session, settle: bool = True) -> int:
    """Close the workspaces that may be closed one minute from now."""
    known = session.daemon.open_workspaces
    if settle:
        until(lambda: not any(one.is_busy for one in known.all()))
    return known.close_unused(session.daemon.registry.current().settings, time.monotonic() + LATER)


def test_the_least_recently_used_workspaces_are_closed_and_the_next_call_opens_them(session: Session) -> None:
    for number in (3, 5, 0, 1, 2, 4):
        put(session, f"w{number}", "a")
    close_unused(session)
    assert opened(session) == ["w2", "w4"]
    assert nodes(session, "w0") == 1
    found = tools.call(session, "search", {"workspace": "w3", "query": "node of w3"})
    assert [hit["uri"] for hit in found["hits"]] == ["concept://w3/a"]
    status = tools.call(session, "status", {"workspace": "w0"})
    assert len(status["daemon"]["workspaces"]) == 6
    assert status["daemon"]["open"] == len(opened(session))
    checks = {check["name"]: check["detail"] for check in tools.call(session, "doctor", {"workspace": "w0"})["checks"]}
    assert checks["registry"].startswith("6 workspaces, ")


def test_a_call_looks_only_at_the_files_of_its_own_workspace(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (0, 1):
        put(session, f"w{number}", "a")
    looked, mine, look = set[str](), threading.get_ident(), vars(Workspace)["is_in_place"].fget

    def is_in_place(workspace: Workspace) -> bool:
        if threading.get_ident() == mine:
            looked.add(workspace.id)
        return bool(look(workspace))

    monkeypatch.setattr(Workspace, "is_in_place", property(is_in_place))
    tools.call(session, "history", {"workspace": "w1"})
    assert looked == {"w1"}
    assert {"w0", "w1"} <= set(opened(session))


def test_calls_that_open_workspaces_fast_do_not_exceed_the_limit_for_long(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon_module, "SLACK", 0)
    close_unused(session)
    for number in range(6):
        until(lambda: not any(one.is_busy for one in session.daemon.open_workspaces.all()))
        session.daemon.workspace(f"w{number}")
        assert len(opened(session)) <= 2


def test_at_the_start_workspaces_with_remotes_are_opened_up_to_the_limit(session: Session, tmp_path: Path) -> None:
    for number in range(6):
        layout = session.daemon.workspace(f"w{number}").layout
        remote_settings.add(layout, Remote("origin", parse_url(str(tmp_path / f"r{number}.git")), layout.branch))
    session.daemon.close()
    with contextlib.closing(Daemon(session.daemon.home, since="", locate=locate, open_workspace=Workspace.open)) as new:
        new.open_shared()
        assert len(new.opened()) == 2
        assert new.workspace("w5").id == "w5"


def test_an_idle_workspace_without_a_work_tree_is_closed(session: Session) -> None:
    known, settings = session.daemon.open_workspaces, session.daemon.registry.current().settings
    until(lambda: not any(one.is_busy for one in known.all()))
    known.close_unused(settings, time.monotonic() + 60 * settings.idle_minutes)
    assert opened(session) == []


def test_probes_metrics_and_sign_ins_do_not_keep_workspaces_open(session: Session, tmp_path: Path) -> None:
    share(session, tmp_path)
    daemon, settings = session.daemon, session.daemon.registry.current().settings
    until(lambda: not any(one.is_busy for one in daemon.open_workspaces.all()))
    before = time.monotonic()
    assert Readiness(daemon).checks()["upstream"] == "ok"
    assert 'kgd_sync_age_seconds{workspace="w0"}' in metrics.text(daemon)
    assert grants_of(daemon, frozenset()) == ([], True)
    daemon.open_workspaces.close_unused(settings, before + 60 * settings.idle_minutes)
    assert opened(session) == []


def test_a_workspace_that_is_closed_while_calls_use_it_is_opened_again(session: Session) -> None:
    done = threading.Event()

    def forget() -> None:
        while not done.is_set():
            session.daemon.forget(session.daemon.workspace("w0"))

    forgetting = threading.Thread(target=forget)
    forgetting.start()
    try:
        assert {session.daemon.workspace("w0").id for _ in range(20)} == {"w0"}
    finally:
        done.set()
        forgetting.join()


@pytest.mark.filterwarnings("ignore")
def test_a_workspace_can_be_opened_again_if_a_part_of_it_failed_to_close(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise ValueError("a defect")

    workspace = session.daemon.workspace("w0")
    workspace.on_close(fail)
    found = session.daemon.open_workspaces.get(workspace.layout.git_dir)
    assert found
    monkeypatch.setattr(found.syncing, "close", fail)
    session.daemon.forget(workspace)
    with pytest.raises(Unavailable):
        workspace.run(lambda staging, tip: Staged[object](None))
    put(session, "w0", "a")


def test_workspaces_that_are_in_use_stay_open(session: Session) -> None:
    known = session.daemon.open_workspaces
    known.follow(lambda: {"w0"})
    session.daemon.workspace("w0")
    with known.holding():
        session.daemon.workspace("w1")
        close_unused(session)
        assert {"w0", "w1"} <= set(opened(session))
    for number in (2, 3, 4):
        session.daemon.workspace(f"w{number}")
    close_unused(session)
    assert "w0" in opened(session)
    assert "w1" not in opened(session)


def test_a_workspace_whose_commits_wait_for_an_unreachable_remote_stays_open(session: Session, tmp_path: Path) -> None:
    shared = share(session, tmp_path)
    shutil.rmtree(shared)
    put(session, "w0", "a")
    until(lambda: session.daemon.syncing(session.daemon.workspace("w0")).machines()[0].trouble)
    for number in (1, 2, 3):
        put(session, f"w{number}", "a")
    known = session.daemon.open_workspaces
    until(lambda: not any(one.is_busy for one in known.all() if one.workspace.id != "w0"))
    close_unused(session, settle=False)
    assert "w0" in opened(session)


def test_a_closed_workspace_follows_its_remote_without_staying_open(session: Session, tmp_path: Path) -> None:
    shared = share(session, tmp_path)
    session.daemon.forget(session.daemon.workspace("w0"))
    entry = session.daemon.registry.current().entries["w0"]
    assert not ClosedSync(session.daemon).sync(entry)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(shared), str(clone))
    (clone / "nodes/concept/b.yaml").write_text("uri: concept://w0/b\ntype: concept\nname: B\n")
    git(clone, "add", "."), git(clone, "-c", "user.name=Bob", "-c", "user.email=b@x", "commit", "-qm", "b")
    git(clone, "push", "-q")
    pushed = git(clone, "rev-parse", "HEAD").strip()
    assert ClosedSync(session.daemon).sync(entry)

    def is_closed() -> bool:
        session.daemon.close_unused()
        return "w0" not in opened(session)

    until(is_closed)
    assert git(tmp_path / "w0", "rev-parse", "main").strip() == pushed


def share(session: Session, place: Path) -> Path:
    """Share w0 through a bare repository."""
    git(place, "init", "-q", "--bare", "shared.git")
    shared = place / "shared.git"
    tools.call(session, "remote", {"workspace": "w0", "action": "add", "name": "origin", "url": str(shared)})
    put(session, "w0", "first")
    tools.call(session, "sync", {"workspace": "w0"})
    return shared


def test_threads_do_not_grow_with_the_number_of_workspaces(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with serving(tmp_path) as session:
        for number in range(6):
            put(session, f"w{number}", "a")
        found = Counter(thread.name for thread in threading.enumerate() if thread not in before)
    assert not found.keys() & {"kgd-watch", "kgd-writer", "kgd-first-look"}
    assert found["kgd-publication"] <= 6
    assert found["kgd-derived"] <= 6
    assert sum(found.values()) <= 40, found


def test_writes_that_arrive_while_a_workspace_is_closed_are_neither_lost_nor_refused(session: Session) -> None:
    enough, written = threading.Event(), [0] * 6
    writers = [threading.Thread(target=write_until, args=(session.daemon, n, enough, written)) for n in range(6)]
    for one in writers:
        one.start()
    closed = 0

    def closes() -> bool:
        nonlocal closed
        closed += close_unused(session, settle=False)
        return closed >= 3 and min(written) >= 5

    try:
        until(closes, 60)
    finally:
        enough.set()
        for one in writers:
            one.join()
    assert [nodes(session, f"w{number}") for number in range(6)] == written


def write_until(daemon: Daemon, number: int, enough: threading.Event, written: list[int]) -> None:
    session = Session(daemon, client="test", context_id=None)
    while not enough.wait(0.1):  # a workspace that is always busy is hardly ever closed
        put(session, f"w{number}", f"n{written[number]}")
        written[number] += 1


@pytest.mark.parametrize("writes", [3, 7, 12])
def test_kill_9_during_closing_loses_no_acknowledged_write(tmp_path: Path, writes: int) -> None:
    with Child(open_and_close, str(tmp_path)) as child:
        acknowledged = [child.hear() for _ in range(writes)]
        child.kill()
    with serving(tmp_path) as session:
        for id, name in acknowledged:
            got = tools.call(session, "get", {"workspace": id, "uris": [f"concept://{id}/{name}"]})
            assert len(got["nodes"]) == 1


def open_and_close(line: Connection, place: str) -> None:
    """Write to the workspaces in turn, while another thread closes them all the time."""
    with serving(Path(place)) as session:
        threading.Thread(target=close_all_the_time, args=(session,), daemon=True).start()
        for number in range(10_000):
            id, name = f"w{number % 6}", f"n{number}"
            put(session, id, name)
            line.send((id, name))


def close_all_the_time(session: Session) -> None:
    while True:
        close_unused(session, settle=False)

"""One daemon per home, by a lock that the kernel releases with its holder."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import stat
import subprocess
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest

import kgd
from kgd.client import start
from kgd.client.connection import Connection
from kgd.config import Home, is_older_version, program_stamp
from kgd.daemon.process import HomeLock, holder
from kgd.errors import Forbidden, Unavailable
from tests.daemon.rehearsal import RehearsalHome
from tests.waiting import until

pytestmark = pytest.mark.slow
VERSIONS = "0.1.0 0.2.0.dev0 0.2.0.dev1 0.2.0a1 0.2.0b1 0.2.0rc1.dev1 0.2.0rc1 0.2.0 0.2.0.post1 0.2.1 0.10"


def starts(home: Home) -> list[str]:
    return (Path(home.state) / "starts").read_text().split()


def pid_of(home: Home) -> int:
    with Connection(home) as connection:
        return int(connection.call("ping", {})["pid"])


@pytest.mark.requirement("B1")
@pytest.mark.parametrize("count", [20, pytest.param(100, marks=pytest.mark.large)])
def test_of_many_daemons_started_at_once_one_survives_and_the_others_name_it(home: RehearsalHome, count: int) -> None:
    racing = [
        subprocess.Popen(home.daemon_command(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    until(lambda: sum(one.poll() is not None for one in racing) >= count - 1, seconds=60)
    survivors = [one for one in racing if one.poll() is None]
    assert [one.pid for one in survivors] == [pid_of(home)]
    for loser in set(racing) - set(survivors):
        said = loser.communicate()[1]
        assert loser.returncode == start.HELD
        assert f"pid {survivors[0].pid}" in said
    survivors[0].terminate()
    survivors[0].communicate()


@pytest.mark.requirement("B1")
def test_a_hundred_clients_that_find_no_daemon_start_one(home: RehearsalHome) -> None:
    found: list[int] = []
    clients = [threading.Thread(target=lambda: found.append(pid_of(home))) for _ in range(100)]
    for client in clients:
        client.start()
    for client in clients:
        client.join(60)
    assert len(found) == 100
    assert {str(pid) for pid in found} == set(starts(home))


@pytest.mark.requirement("B1")
def test_a_second_daemon_is_refused_within_a_second_with_pid_version_and_start(home: RehearsalHome) -> None:
    """A second of processor time, and no wait for the first daemon: the clock of a busy machine proves nothing."""
    pid = pid_of(home)
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    second = subprocess.run(home.daemon_command(), capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert second.returncode == start.HELD
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.0
    assert time.monotonic() - began < start.RETIRE_SECONDS / 2
    known = holder(home.lock)
    assert f"pid {pid}, version {known['version']}, since {known['since']}" in second.stderr


def test_after_kill_9_the_next_call_starts_another_and_works(home: RehearsalHome) -> None:
    first = pid_of(home)
    os.kill(first, signal.SIGKILL)
    until(lambda: not start.running(home))
    assert os.path.exists(home.socket)
    assert pid_of(home) != first


def test_a_socket_without_a_daemon_is_replaced(home: RehearsalHome) -> None:
    home.prepare()
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(home.socket)
    dead.close()
    assert pid_of(home) > 0


def test_files_readable_by_others_are_made_private(home: RehearsalHome) -> None:
    os.makedirs(home.state, mode=0o755)
    pid_of(home)
    assert stat.S_IMODE(os.stat(home.state).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(home.socket).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(home.log).st_mode) == 0o600


def test_a_home_with_a_long_path_has_a_short_socket_that_every_client_finds(
    tmp_path: Path, home: RehearsalHome
) -> None:
    deep = RehearsalHome.at(str(tmp_path / ("d" * 120)))
    assert len(deep.socket) < 100
    pid = pid_of(deep)
    assert pid_of(RehearsalHome.at(deep.config)) == pid
    os.kill(pid, signal.SIGTERM)
    until(lambda: not start.running(deep))
    os.rmdir(os.path.dirname(deep.socket))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_home_of_another_user_is_refused(tmp_path: Path) -> None:
    home = Home.at(str(tmp_path / "theirs"))
    os.mkdir(home.config)
    os.chown(home.config, 65534, 65534)
    with pytest.raises(Forbidden):
        home.prepare()


def test_a_daemon_that_cannot_start_is_answered_with_the_reason_and_the_end_of_its_log(
    home: RehearsalHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REHEARSAL_FAILS", "the stage is on fire")
    with pytest.raises(Unavailable, match="the stage is on fire"):
        pid_of(home)


def test_a_lock_is_free_again_when_it_was_released(tmp_path: Path) -> None:
    first, second = HomeLock(str(tmp_path / "lock")), HomeLock(str(tmp_path / "lock"))
    first.acquire("1", "now")
    with pytest.raises(Unavailable, match=f"pid {os.getpid()}"):
        second.acquire("1", "now", patience=0)
    first.release()
    second.acquire("1", "now", patience=0)
    second.release()


@pytest.mark.requirement("B1")
def test_an_older_daemon_answers_its_calls_and_is_replaced(
    home: RehearsalHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newer client waits for the older daemon's calls; every call is carried out exactly once."""
    monkeypatch.setenv("REHEARSAL_VERSION", "0.0.1")
    subprocess.run([*home.daemon_command(), "--detach"], check=True, stdout=subprocess.DEVNULL)
    until(lambda: os.path.exists(home.socket))
    monkeypatch.delenv("REHEARSAL_VERSION")
    go, record = tmp_path / "go", tmp_path / "record"
    old = [socket.socket(socket.AF_UNIX) for _ in range(8)]
    for number, sock in enumerate(old):
        sock.connect(home.socket)
        args = f'{{"started":"{tmp_path}/s{number}","until":"{go}","record":"{record}","line":"{number}"}}'
        sock.sendall(f'{{"kgd":"call","version":"0.0.1"}}\n{{"id":1,"call":"wait","args":{args}}}\n'.encode())
    until(lambda: all((tmp_path / f"s{number}").exists() for number in range(8)))

    new: list[int] = []
    newer = threading.Thread(target=lambda: new.append(pid_of(home)))
    newer.start()
    until(lambda: not os.path.exists(home.socket))
    go.touch()
    newer.join(30)

    for sock in old:
        heard = b"".join(iter(lambda sock=sock: sock.recv(65536), b""))  # type: ignore[misc]
        assert b'"result":{' in heard
        assert heard.endswith(b'{"kgd":"retired"}\n')
        sock.close()
    assert sorted(record.read_text().split()) == [str(number) for number in range(8)]
    assert [str(pid) for pid in new] == starts(home)[1:]


def start_another(home: RehearsalHome, monkeypatch: pytest.MonkeyPatch, **environment: str) -> int:
    """Start a daemon that differs from this program, and return its pid."""
    with monkeypatch.context() as patched:
        for name, value in environment.items():
            patched.setenv(f"REHEARSAL_{name}", value)
        done = subprocess.run([*home.daemon_command(), "--detach"], check=True, capture_output=True, text=True)
    until(lambda: os.path.exists(home.socket))
    return int(done.stdout)


@pytest.mark.requirement("B1")
@pytest.mark.parametrize("differs", [{"VERSION": "0.0.1"}, {"STAMP": f"{program_stamp().split()[0]} 1 1"}])
def test_no_command_ends_an_older_hub(
    home: RehearsalHome, monkeypatch: pytest.MonkeyPatch, differs: dict[str, str]
) -> None:
    hub = start_another(home, monkeypatch, HUB="1", **differs)
    with Connection(home) as connection:
        assert connection.call("ping", {})["pid"] == hub
        assert connection.older_hub == differs.get("VERSION", kgd.__version__)
    assert starts(home) == [str(hub)]


def test_a_daemon_of_a_replaced_installation_of_the_same_version_is_replaced(
    home: RehearsalHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = start_another(home, monkeypatch, STAMP=f"{program_stamp().split()[0]} 1 1")
    new = pid_of(home)
    assert new != old
    assert pid_of(home) == new


def test_two_installations_of_one_version_use_the_same_daemon(
    home: RehearsalHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = start_another(home, monkeypatch, STAMP="/elsewhere/kgd 1 1")
    assert pid_of(home) == other


def test_a_program_that_is_newer_than_each_new_daemon_reports_that(
    home: RehearsalHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a program that was running before a downgrade."""
    monkeypatch.setattr(start, "__version__", "99.0")
    with pytest.raises(Unavailable, match=r"is older than this program \(99\.0\)") as refused:
        pid_of(home)
    assert "restart this program" in str(refused.value.next)
    assert len(starts(home)) == 1 + start.RETIRED_AT_MOST
    with pytest.raises(Unavailable, match="is older than this program"):
        pid_of(home)
    assert len(starts(home)) == 1 + start.RETIRED_AT_MOST


@pytest.mark.parametrize(
    ("older", "newer"),
    list(pairwise(VERSIONS.split())),
)
def test_versions_are_compared_as_python_packages_compare_them(older: str, newer: str) -> None:
    assert is_older_version(older, newer)
    assert not is_older_version(newer, older)


def test_equal_versions_in_two_spellings_are_not_older() -> None:
    assert not is_older_version("0.2", "0.2.0")
    assert not is_older_version("0.2.0", "0.2")
    assert not is_older_version("0.2.0+local", "0.2.0")


def test_a_connection_follows_a_daemon_that_retires(home: RehearsalHome) -> None:
    with Connection(home) as connection:
        first = connection.call("ping", {})["pid"]
        start.retire(home)
        assert connection.call("ping", {})["pid"] != first


def test_two_homes_have_two_daemons(tmp_path: Path, home: RehearsalHome) -> None:
    other = RehearsalHome.at(str(tmp_path / "other"))
    assert pid_of(home) != pid_of(other)
    os.kill(pid_of(other), signal.SIGTERM)
    until(lambda: not start.running(other))


def test_a_deleted_socket_is_restored(home: RehearsalHome) -> None:
    pid = pid_of(home)
    os.unlink(home.socket)
    until(lambda: os.path.exists(home.socket))
    assert pid_of(home) == pid


def test_a_daemon_whose_home_was_deleted_leaves(home: RehearsalHome) -> None:
    pid = pid_of(home)
    shutil.rmtree(home.config)
    until(lambda: not is_running(pid))


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False

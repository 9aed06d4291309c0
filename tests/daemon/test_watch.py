"""Watching: an event is a hint, a look through everything is the truth, and neither is lost."""

from __future__ import annotations

import errno
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from watchdog.observers import Observer

from kgd.daemon.watch import DEGRADED_SECONDS, Folder, Watch
from tests.waiting import until


class Heard:
    """Records the calls of a watch: all paths, and the number of full scans."""

    def __init__(self) -> None:
        self.paths: set[str] = set()
        self.calls = self.everything = 0
        self.busy = threading.Event()
        self.busy.set()

    def __call__(self, changed: frozenset[str] | None) -> None:
        self.busy.wait(10)
        self.calls += 1
        if changed is None:
            self.everything += 1
        else:
            self.paths |= changed


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("src/deep/er", "node_modules/many", ".git/objects"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def watch(tree: Path, heard: Heard) -> Iterator[Watch]:
    made = Watch([Folder(tree, skip=frozenset({".git", "node_modules"}))], heard, rescan_seconds=60)
    made.start()
    until(lambda: heard.everything)  # the folders that were put under watch
    yield made
    made.close()


@pytest.mark.usefixtures("watch")
def test_created_changed_moved_and_deleted_files_are_reported(tree: Path, heard: Heard) -> None:
    deep = tree / "src" / "deep" / "er"
    (deep / "a").write_text("1")
    until(lambda: str(deep / "a") in heard.paths)
    (deep / "a").rename(tree / "b")
    until(lambda: str(tree / "b") in heard.paths)
    heard.paths.clear()
    (tree / "b").unlink()
    until(lambda: str(tree / "b") in heard.paths)


@pytest.mark.usefixtures("watch")
def test_a_new_folder_is_watched_with_its_content(tree: Path, heard: Heard) -> None:
    before = heard.everything
    (tree / "new" / "er").mkdir(parents=True)
    (tree / "new" / "er" / "early").write_text("1")
    until(lambda: heard.everything > before)  # files created before the folder was watched
    (tree / "new" / "er" / "late").write_text("1")
    until(lambda: str(tree / "new" / "er" / "late") in heard.paths)


@pytest.mark.usefixtures("watch")
def test_a_folder_that_is_removed_and_restored_is_watched_again(tree: Path, heard: Heard) -> None:
    def once(late: Path) -> None:
        before = heard.everything
        shutil.rmtree(tree / "src")
        until(lambda: str(tree / "src") in heard.paths)
        heard.paths.clear()
        late.parent.mkdir(parents=True)
        until(lambda: heard.everything > before)
        late.write_text("1")
        until(lambda: str(late) in heard.paths)

    for again in range(3):
        once(tree / "src" / "deep" / f"late{again}")


@pytest.mark.usefixtures("watch")
def test_skipped_folders_are_not_reported(tree: Path, heard: Heard) -> None:
    (tree / "node_modules" / "many" / "x").write_text("1")
    (tree / ".git" / "objects" / "x").write_text("1")
    (tree / "last").write_text("1")
    until(lambda: str(tree / "last") in heard.paths)
    assert heard.paths == {str(tree / "last")}


@pytest.mark.usefixtures("watch")
def test_reading_is_not_a_change(tree: Path, heard: Heard) -> None:
    (tree / "a").write_text("1")
    until(lambda: heard.paths)
    heard.paths.clear()
    (tree / "a").read_text()
    list(os.walk(tree))
    (tree / "last").write_text("1")
    until(lambda: str(tree / "last") in heard.paths)
    assert heard.paths == {str(tree / "last")}


@pytest.mark.usefixtures("watch")
def test_a_thousand_changes_are_a_few_calls(tree: Path, heard: Heard) -> None:
    before = heard.calls
    for number in range(1000):
        (tree / "src" / f"f{number}").write_text("1")
    until(lambda: len(heard.paths) >= 1000 or heard.everything > 1)
    assert heard.calls - before < 100


def test_changes_during_a_callback_are_reported_afterwards(watch: Watch, tree: Path, heard: Heard) -> None:
    heard.busy.clear()
    watch.hint("/first")
    (tree / "a").write_text("1")
    heard.busy.set()
    until(lambda: {"/first", str(tree / "a")} <= heard.paths)


def test_an_overflow_that_watchdog_only_logs_means_look_through_everything(watch: Watch, heard: Heard) -> None:
    import logging

    before = heard.everything
    logging.getLogger("watchdog.observers.inotify_c").warning("Inotify queue overflowed; filesystem events were lost")
    until(lambda: heard.everything > before)
    assert watch.degraded == ""


def test_everything_is_looked_through_from_time_to_time_without_any_event(tree: Path, heard: Heard) -> None:
    watch = Watch([Folder(tree)], heard, rescan_seconds=0.02)
    watch.start()
    until(lambda: heard.everything >= 3)
    watch.close()


def test_periodic_scans_take_at_most_one_per_cent_of_the_time(tree: Path, heard: Heard) -> None:
    watch = Watch([Folder(tree)], heard, rescan_seconds=0.02, scan_seconds=lambda: 60.0)
    watch.start()
    until(lambda: heard.everything == 1)
    watch.hint("/next")
    until(lambda: "/next" in heard.paths)
    assert heard.everything == 1
    watch.close()


@pytest.mark.slow
def test_after_a_call_that_took_long_the_next_hints_wait_longer(tree: Path) -> None:
    """Otherwise a build that writes files all the time would keep the daemon busy."""
    calls: list[tuple[float, float]] = []

    def slow(changed: object) -> None:
        began, cpu = time.monotonic(), time.thread_time()
        while time.thread_time() < cpu + 0.1:
            pass
        calls.append((began, time.monotonic()))

    watch = Watch([Folder(tree)], slow, rescan_seconds=60)
    watch.start()
    for path in ("/one", "/two"):
        watch.hint(path)
        until(lambda: len(calls) == (1 if path == "/one" else 2))  # noqa: B023  called at once
    (_, first_end), (second, _) = calls
    assert second - first_end >= 0.3
    watch.close()


def test_a_hint_that_fails_does_not_end_the_watch(tree: Path) -> None:
    told: list[object] = []

    def fails(changed: object) -> None:
        told.append(changed)
        raise RuntimeError("on purpose")

    watch = Watch([Folder(tree)], fails, rescan_seconds=60)
    watch.start()
    watch.hint("/one")
    until(lambda: told)
    watch.hint("/two")
    until(lambda: len(told) == 2)
    watch.close()


def test_without_free_kernel_watches_it_is_degraded_and_names_the_limit_to_raise(
    tree: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is the kernel's and shared by the whole machine, so its refusal is played."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "inotify watch limit reached")

    monkeypatch.setattr(Observer, "schedule", refuse)
    watch = Watch([Folder(tree)], heard, rescan_seconds=60)
    watch.start()
    until(lambda: heard.everything)
    assert "sudo sysctl fs.inotify.max_user_watches" in watch.degraded
    assert watch._interval() == DEGRADED_SECONDS
    watch.close()


def test_a_missing_folder_is_not_an_error(tree: Path, heard: Heard) -> None:
    watch = Watch([Folder(tree / "nowhere")], heard, rescan_seconds=60)
    watch.start()
    watch.close()

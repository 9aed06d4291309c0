"""Shared threads: tasks run one step at a time, and their number does not grow with the number of tasks."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from kgd import shared_threads
from kgd.shared_threads import Task, Threads
from tests.waiting import until


def test_a_task_runs_again_for_each_wake_during_its_step_and_never_twice_at_once() -> None:
    threads, running, most, runs = Threads("t-many", 4), 0, 0, 0
    lock = threading.Lock()

    def step() -> None:
        nonlocal running, most, runs
        with lock:
            running += 1
            most = max(most, running)
        runs += 1
        if runs < 50:
            task.wake()
        with lock:
            running -= 1

    task = Task(threads, step)
    for _ in range(20):
        task.wake()
    until(lambda: runs >= 50)
    task.close()
    assert most == 1


def test_many_tasks_share_few_threads_which_end_with_the_last_task() -> None:
    threads, seen, gate = Threads("t-few", 3), Counter[int](), threading.Barrier(3)

    def step(number: int) -> None:
        if number < 3:
            gate.wait(30)  # three run at the same time
        seen[number] += 1

    tasks = [Task(threads, lambda number=number: step(number)) for number in range(100)]  # type: ignore[misc]
    for task in tasks:
        task.wake()
    until(lambda: len(seen) == 100)
    assert sum(thread.name == "t-few" for thread in threading.enumerate()) <= 3
    for task in tasks:
        task.close()
    until(lambda: not any(thread.name == "t-few" for thread in threading.enumerate()))
    assert set(seen.values()) == {1}


def test_a_task_that_is_due_later_does_not_wait_for_a_long_step() -> None:
    threads, release, ran = Threads("t-later", 2), threading.Event(), threading.Event()
    long = Task(threads, lambda: release.wait(60) and None)
    later = Task(threads, lambda: ran.set())
    later.wake(0.05)
    long.wake()
    assert ran.wait(30)
    release.set()
    assert long.close()
    assert later.close()


def test_a_task_that_becomes_due_during_a_long_step_gets_a_thread_of_its_own() -> None:
    threads, begun, release, ran = Threads("t-alone", 2), threading.Event(), threading.Event(), threading.Event()

    def step() -> None:
        begun.set()
        release.wait(60)

    long, later = Task(threads, step), Task(threads, lambda: ran.set())
    until(lambda: threads._free == 1)
    long.wake()
    assert begun.wait(30)
    later.wake(0.05)
    assert ran.wait(30)
    release.set()
    assert long.close()
    assert later.close()


def test_a_thread_that_ends_hands_its_call_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several free threads, the one that is called for a task may have been idle for long enough to end."""
    threads, gate, ran = Threads("t-ends", 3), threading.Barrier(3), threading.Event()

    def step() -> None:
        gate.wait(30)

    tasks, last = [Task(threads, step) for _ in range(3)], Task(threads, lambda: ran.set())
    for task in tasks:
        task.wake()
    until(lambda: threads._free == 3)  # each of them waits for up to ten seconds
    monkeypatch.setattr(shared_threads, "IDLE_SECONDS", 0.0)
    last.wake(0.05)
    assert ran.wait(60)
    for task in (*tasks, last):
        task.close()


def test_closing_waits_for_the_running_step_and_drops_later_ones() -> None:
    threads, begun, release, runs = Threads("t-close", 1), threading.Event(), threading.Event(), 0

    def step() -> float:
        nonlocal runs
        runs += 1
        begun.set()
        release.wait(60)
        return 0.0

    task = Task(threads, step)
    task.wake()
    begun.wait(30)
    assert not task.close(0.01)
    release.set()
    assert task.close()
    task.wake()
    assert runs == 1


@pytest.mark.filterwarnings("ignore")
def test_a_failing_step_does_not_end_the_thread() -> None:
    threads, ran = Threads("t-fail", 1), threading.Event()

    def fail() -> None:
        raise ValueError("a defect")

    failing, other = Task(threads, fail), Task(threads, lambda: ran.set())
    failing.wake()
    other.wake()
    assert ran.wait(30)
    failing.close()
    other.close()


@pytest.mark.filterwarnings("ignore")
def test_a_step_that_failed_runs_again_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_threads, "AGAIN_SECONDS", 0.05)
    runs, again = 0, threading.Event()

    def step() -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            raise ValueError("a defect")
        again.set()

    task = Task(Threads("t-again", 1), step)
    task.wake()
    assert again.wait(30)
    task.close()


def test_a_task_cannot_be_created_without_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError):
        Task(Threads("t-none", 1), lambda: None)

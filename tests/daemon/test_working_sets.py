"""The working set of a conversation."""

from __future__ import annotations

import itertools
import threading

import pytest

from kgd.daemon import calls
from kgd.daemon.calls import ActiveContext, ContextStore
from kgd.model.uri import Uri


def uris(*numbers: int) -> list[Uri]:
    return [Uri(f"concept://w/{n}") for n in numbers]


def store(**kwargs: int) -> ContextStore:
    counter = itertools.count()
    return ContextStore(lambda size: next(counter).to_bytes(size, "big"), **kwargs)


@pytest.mark.requirement("E6")
def test_a_context_holds_a_hundred_nodes_and_drops_the_least_recently_used() -> None:
    context = ActiveContext()
    assert context.touch(uris(*range(100))) == []
    assert context.touch(uris(0)) == []
    assert context.touch(uris(100, 101)) == uris(1, 2)
    assert len(context.uris) == 100
    assert uris(0)[0] in context.uris
    assert context.uris[-3:] == uris(0, 100, 101)


@pytest.mark.requirement("E6")
def test_the_size_of_contexts_can_be_chosen() -> None:
    _, context = store(capacity=2).open()
    assert context.touch(uris(1, 2, 3)) == uris(1)


def test_more_nodes_than_fit_leave_the_last_ones() -> None:
    context = ActiveContext(2)
    context.touch(uris(9))
    assert context.touch(uris(1, 2, 3, 1)) == uris(9, 2)
    assert context.uris == uris(3, 1)


@pytest.mark.requirement("E7")
def test_a_context_reports_once_that_it_started_empty() -> None:
    context = ActiveContext()
    assert [context.take_started_empty(), context.take_started_empty()] == [True, False]


@pytest.mark.requirement("E6")
def test_a_context_is_found_by_its_id_and_forgotten_with_the_daemon() -> None:
    before = store()
    name, context = before.open()
    context.touch(uris(1))
    assert before.open(name) == (name, context)
    after_restart = store()
    again, fresh = after_restart.open(name)
    assert (again, len(fresh.uris), fresh.take_started_empty()) == (name, 0, True)


def test_ids_are_made_of_what_the_random_source_gives() -> None:
    contexts = store()
    assert [contexts.open()[0], contexts.open("")[0]] == ["ctx-" + "0" * 32, "ctx-" + "0" * 31 + "1"]


@pytest.mark.parametrize("strange", ["x" * 129, "a\nb", "\x1b[2J"])
def test_an_id_that_could_not_be_ours_is_replaced(strange: str) -> None:
    assert store().open(strange)[0].startswith("ctx-")


def test_the_least_recently_used_conversation_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "MAX_CONTEXTS", 2)
    contexts = store()
    _, a = contexts.open("a")
    _, b = contexts.open("b")
    contexts.open("a")
    contexts.open("c")
    assert contexts.open("a")[1] is a
    assert contexts.open("b")[1] is not b


def test_threads_that_touch_one_context_lose_nothing() -> None:
    context = ActiveContext(50)
    evicted: list[Uri] = []

    def work(base: int) -> None:
        for n in range(200):
            evicted.extend(context.touch(uris(base + n)))

    threads = [threading.Thread(target=work, args=(1000 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(evicted) + len(context.uris) == 800
    assert not set(evicted) & set(context.uris)

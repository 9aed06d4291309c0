"""Entries of a changelog sort by their time, and are read page by page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgd.codec import paths
from kgd.model.change import Delete, Log, Move, Upsert
from kgd.model.uri import parse
from kgd.tools.areas.changelog import entries, moment_of, new_entry
from kgd.workspace.workspace import Workspace
from tests.builders import change, new_layout
from tests.waiting import until
from tests.workspace.people import git

ATOM = parse("atom://ws/pay/checkout")
DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace.open(new_layout(tmp_path / "knowledge"), publish=False)
    yield workspace
    workspace.close()


@given(st.lists(st.floats(0, 4e9), min_size=2, max_size=8))
@settings(max_examples=25)
def test_ids_sort_by_time_and_within_one_millisecond_by_their_making(times: list[float]) -> None:
    made = [new_entry(ATOM, "t", "s", now) for now in sorted(times)]
    assert [one.id for one in made] == sorted({one.id for one in made})
    for now, one in zip(sorted(times), made, strict=True):
        assert len(one.id) == 26
        number = 0
        for digit in one.id:
            number = number * 32 + DIGITS.index(digit)
        assert number >> 80 == int(now * 1000)
        assert one.created_at == moment_of(now)


@pytest.mark.requirement("A3")
def test_pages_are_the_whole_in_parts_newest_first(ws: Workspace) -> None:
    made = [new_entry(ATOM, "https://t.example/1", f"step {n}", 1_700_000_000 + n // 3) for n in range(25)]
    ws.submit(change(Upsert(ATOM, name="A"), *map(Log, made)))
    assert entries(ws, ATOM, limit=100) == (made[::-1], 25)
    pages = [entries(ws, ATOM, limit=4, offset=start) for start in range(0, 30, 4)]
    assert [one for page, total in pages for one in page] == made[::-1]
    assert {total for _, total in pages} == {25}
    assert entries(ws, parse("atom://ws/pay"), limit=5) == ([], 0)
    ws.submit(change(Move(ATOM, parse("atom://ws/cash"))))
    assert entries(ws, parse("atom://ws/cash"), limit=1)[1] == 25
    ws.submit(change(Delete(parse("atom://ws/cash"))))
    assert entries(ws, parse("atom://ws/cash"), limit=1) == ([], 0)


def test_an_entry_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path) -> None:
    layout = new_layout(tmp_path / "torn")
    ws = Workspace.open(layout)
    good, torn = new_entry(ATOM, "t", "good", 1_700_000_000), new_entry(ATOM, "t", "torn", 1_800_000_000)
    ws.submit(change(Upsert(ATOM, name="A"), Log(good), Log(torn)))
    ws.close()
    path = paths.log_path(ATOM, torn.id)
    (layout.work_tree / path).write_text("id: [unfinished\n")
    git(layout.work_tree, "commit", "-qam", "a person's commit")
    ws = Workspace.open(layout)
    try:
        until(lambda: b"unfinished" in (ws.store.read(blob) if (blob := ws.store.entry(tree(ws), path)) else b""))
        assert entries(ws, ATOM, limit=5) == ([good], 2)
    finally:
        ws.close()


def tree(ws: Workspace) -> bytes:
    return ws.store.tree_of(bytes.fromhex(ws.tip))

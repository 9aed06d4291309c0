"""A page learns of changes that it missed before it listened, regardless of changes elsewhere."""

from __future__ import annotations

import asyncio

import pytest

from kgd.ui.live_updates import CUE, PING_SECONDS, REMEMBERED, Live
from tests.event_loops import apart


@pytest.mark.parametrize("others", [0, 1, REMEMBERED - 1, REMEMBERED, 3 * REMEMBERED])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_change_is_not_forgotten_over_many_in_another_workspace(others: int, *, is_first: bool) -> None:
    async def heard() -> bytes:
        live = Live()
        if not is_first:
            live.announce("mine", ["concept://mine/a"])
            await asyncio.sleep(0)
        mark = live.mark("mine")
        live.announce("mine", ["concept://mine/b"])
        for _ in range(others):
            live.announce("theirs", ["concept://theirs/a"])
        await asyncio.sleep(0)
        return await _first_cue(live, mark)

    assert apart(heard) == CUE


def test_changes_elsewhere_cause_no_cue() -> None:
    async def heard() -> bytes:
        live = Live()
        for _ in range(REMEMBERED - 1):
            live.announce("theirs", ["concept://theirs/a"])
        await asyncio.sleep(0)
        mark = live.mark("mine")
        for _ in range(REMEMBERED):
            live.announce("theirs", ["concept://theirs/a"])
        await asyncio.sleep(0)
        return await _first_cue(live, mark)

    assert apart(heard) == b""


async def _first_cue(live: Live, since: str) -> bytes:
    """Return the first immediate event of a page; empty if there is none."""
    stream = live.stream("mine", "visitor", lambda: None, None, since)
    await anext(stream)
    assert PING_SECONDS > 1
    try:
        return await asyncio.wait_for(anext(stream), 0.5)
    except TimeoutError:
        return b""

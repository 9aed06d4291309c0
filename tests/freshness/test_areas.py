"""An area is stale once its files changed a lot since it was last written or verified."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from kgd.freshness.areas import LEAST, judge
from kgd.freshness.code import Churn
from tests.freshness.conftest import becomes_stale, commit, stale
from tests.surfaces.conftest import Ask, upsert
from tests.waiting import until

AREA = "atom://shop/auth"


def lines(count: int, word: str = "x") -> str:
    return "".join(f"{word}{number} = {number}\n" for number in range(count))


@pytest.fixture
def area(ask: Ask, code: Path) -> Ask:
    commit(code, "src/auth/keys.py", lines(200))
    commit(code, "src/other.py", lines(200))
    ask.ingest()
    ask.put(changes=upsert(AREA, content="Keys rotate daily.\n", data={"paths": ["src/auth/**"]}))
    return ask


def later(code: Path, path: str, text: str, message: str = "code changed") -> str:
    """A commit a minute after the area was written: the clock of commits has seconds."""
    when = f"@{int(time.time()) + 60} +0000"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_AUTHOR_DATE", when)
        patch.setenv("GIT_COMMITTER_DATE", when)
        return commit(code, path, text, message)


@pytest.mark.slow
def test_an_area_is_unverified_once_half_of_its_lines_changed_and_by_which_commit(area: Ask, code: Path) -> None:
    later(code, "src/auth/keys.py", lines(30, "y") + lines(170))
    later(code, "src/other.py", "gone = True\n")
    until(lambda: stale(area) == [])  # the number of lines is unknown while a file is read again
    much = later(code, "src/auth/keys.py", lines(200, "z"))
    found = becomes_stale(area, AREA)["unverified"]
    assert found["commit"] == much
    assert "lines changed in 2 commits since it was last confirmed" in found["reason"]
    assert area.get(uris=AREA)["nodes"][0]["unverified"] == found
    area.put(changes={"op": "verify", "uri": AREA})
    until(lambda: stale(area) == [])
    assert area.get(uris=AREA)["nodes"][0]["data"]["verified"] == {f"@{much[:12]}": True}
    later(code, "src/auth/keys.py", lines(200, "w"))
    becomes_stale(area, AREA)


def test_many_small_changes_add_up(area: Ask, code: Path) -> None:
    text = [f"x{number} = {number}\n" for number in range(200)]
    for number in range(0, 100, 20):
        text[number : number + 20] = [f"small{number + n} = 0\n" for n in range(20)]
        later(code, "src/auth/keys.py", "".join(text), f"step {number}")
    assert "lines changed in 5 commits" in becomes_stale(area, AREA)["unverified"]["reason"]


def test_writing_an_area_confirms_its_knowledge(area: Ask, code: Path) -> None:
    commit(code, "src/auth/keys.py", lines(200, "z"))
    version = area.get(uris=AREA)["nodes"][0]["version"]
    area.put(changes=upsert(AREA, content="Keys rotate hourly.\n", expect_version=version))
    assert stale(area) == []


@pytest.mark.parametrize(
    ("changes", "size", "is_a_lot"),
    [([LEAST - 1], 10, False), ([LEAST], 10, True), ([499], 1_000, False), ([400, 100], 1_000, True), ([], 0, False)],
)
def test_how_much_is_a_lot(changes: list[int], size: int, is_a_lot: bool) -> None:
    churn = [Churn(f"{number}", number, "a", count) for number, count in enumerate(reversed(changes), 1)]
    found: Any = judge(list(reversed(churn)), size)
    assert bool(found) is is_a_lot

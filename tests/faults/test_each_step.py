"""Every system call of a write that changes something, one by one: the process dies there, or the call fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgd.errors import KgdError
from kgd.git.layout import Layout
from kgd.workspace.check import check
from kgd.workspace.workspace import Workspace
from tests.builders import WS, change, new_layout, upsert, uri
from tests.faults.audit import git, requests_in, strays
from tests.faults.one_change import Point, composed, interfere, points
from tests.git.support import fsck
from tests.workspace.people import code_layout

pytestmark = [pytest.mark.needs("strace"), pytest.mark.timeout(240)]
half = pytest.mark.parametrize("half", [0, pytest.param(1, marks=pytest.mark.large)])
"""Every second step, and in `make soak` the others."""


def a_layout(tmp_path: Path, kind: str) -> Layout:
    layout = code_layout(tmp_path / "code") if kind == "publication" else new_layout(tmp_path / "knowledge")
    prepare(layout, "first")
    return layout


def prepare(layout: Layout, request: str) -> None:
    """The node that the next change deletes."""
    ws = Workspace.open(layout, publish=layout.in_code)
    ws.submit(change(upsert("victim", name=request), upsert("log", name="log")))
    ws.close()


def steps(layout: Layout, kind: str, log: Path) -> list[Point]:
    """Of an undisturbed change."""
    told = interfere(layout, kind, "rehearsal", log, "")
    assert told.closed, told
    prepare(layout, "rehearsed")
    return points(layout, log)


def settled(layout: Layout, kind: str, request: str, acknowledged: str | None) -> list[str]:
    """The complaints after a failure. None: nothing lost, nothing half done, no help needed, and writes continue."""
    wrong = [f"fsck before the start: {line}" for line in fsck(layout.git_dir)]
    ws = Workspace.open(layout, publish=layout.in_code)
    try:
        wrong += [f"degraded: {ws.degraded()}"] if ws.degraded() else []
        known = requests_in(layout.git_dir).get(request, [])
        if acknowledged and known != [acknowledged]:
            wrong.append(f"acknowledged as {acknowledged}, in history as {known}")
        again = ws.submit(composed(kind, request))
        if known and (not again.repeated or [again.commit] != known):
            wrong.append(f"done in {known}, and again in {again.commit}")
        if len(requests_in(layout.git_dir)[request]) != 1:
            wrong.append("not once in history")
        log = ws.node(uri("log"))
        if kind != "delete" and (log is None or log.content.count(f"<{request}>") != 1):
            wrong.append("its text is not there once")
        if kind != "delete" and ws.node(uri(f"message://{WS}/talk/{request}")) is None:
            wrong.append("its message is not there")
        if ws.submit(change(upsert("victim", name=request))).commit != ws.tip:
            wrong.append("the next write is not the tip")
        wrong += [f"check: {finding}" for finding in check(ws)]
    finally:
        ws.close()
    if layout.in_code:
        status = git(layout.work_tree, "--no-optional-locks", "status", "--porcelain")
        branch, head = git(layout.git_dir, "rev-parse", layout.branch, "refs/kgd/head").split()
        wrong += [f"not published: {status} {branch} {head}"] if status or branch != head else []
    return wrong + [f"left behind: {name}" for name in strays(layout.git_dir)]


@pytest.mark.slow
@pytest.mark.requirement("B3")
@half
@pytest.mark.parametrize("kind", ["put", "delete", "publication", "index"])
def test_a_kill_at_any_step_leaves_all_of_the_change_or_nothing(tmp_path: Path, kind: str, half: int) -> None:
    layout, log = a_layout(tmp_path, kind), tmp_path / "strace.log"
    found, reached = steps(layout, kind, log), 0
    assert len(found) >= 12, found
    found = found[half::2]
    for number, point in enumerate(found):
        request = f"kill-{number}"
        told = interfere(layout, kind, request, log, f"{point.call}:signal=KILL:when={point.number}")
        reached += told.reached
        assert settled(layout, kind, request, told.answer) == [], f"{kind}: killed at {point}, of {len(found)}"
    print(f"{kind}: {len(found)} steps, {reached} reached")
    assert reached >= len(found) * 0.5, f"{reached} of {found}"


def fails(point: Point) -> bool:
    return point.call in ("write", "pwrite64", "fsync", "fdatasync", "rename", "link", "openat", "mkdir", "unlink")


@pytest.mark.slow
@pytest.mark.parametrize("error", ["ENOSPC", pytest.param("EIO", marks=pytest.mark.large)])
@half
@pytest.mark.parametrize("kind", ["put", "publication", "index"])
def test_an_error_at_any_step_is_never_answered_with_success(tmp_path: Path, kind: str, error: str, half: int) -> None:
    """The process also survives: the graph equals git afterwards, and the workspace can be closed and opened again."""
    layout, log = a_layout(tmp_path, kind), tmp_path / "strace.log"
    found, reached = [point for point in steps(layout, kind, log) if fails(point)][half::2], 0
    for number, point in enumerate(found):
        request = f"{error}-{number}"
        told = interfere(layout, kind, request, log, f"{point.call}:error={error}:when={point.number}")
        case = f"{kind}: {error} at {point}: {told}"
        reached += told.reached
        assert told.closed, case
        assert told.wrong == [], case
        refused = isinstance(told.answer, KgdError)
        assert refused or told.answer == requests_in(layout.git_dir)[request][0], case
        assert settled(layout, kind, request, None if refused else told.answer) == [], case
    print(f"{kind}: {len(found)} steps, {reached} reached")
    assert reached >= len(found) * 0.5, f"{reached} of {found}"


@pytest.mark.slow
@pytest.mark.parametrize("call", ["rename", "link", "unlink"])
def test_a_disk_that_ignores_a_write_is_detected_by_reading_back(tmp_path: Path, call: str) -> None:
    layout, log = a_layout(tmp_path, "put"), tmp_path / "strace.log"
    found = [point for point in steps(layout, "put", log) if point.call == call]
    assert found
    for number, point in enumerate(found):
        request = f"{call}-{number}"
        told = interfere(layout, "put", request, log, f"{call}:retval=0:when={point.number}")
        case = f"{point} did nothing: {told}"
        assert told.reached, case
        assert told.closed, case
        refused = isinstance(told.answer, KgdError)
        assert refused == (call != "unlink"), case
        assert settled(layout, "put", request, None if refused else told.answer) == [], case

"""Many writers on one workspace: no change is lost or repeated, and no unread change is overwritten."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from kgd.errors import InvariantViolation, Stale
from kgd.git.history import versions
from kgd.model.change import Append, Delete, Edit, Move
from kgd.workspace.answers import Outcome
from kgd.workspace.check import check
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.writer import Staged
from tests.builders import change, new_layout, to, upsert, uri
from tests.faults.audit import counted_by_git, git, requests_in
from tests.git.support import fsck

pytestmark = pytest.mark.slow


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    ws = Workspace.open(new_layout(tmp_path / "knowledge"), publish=False)
    yield ws
    ws.close()


def at_once(jobs: Sequence[Callable[[], object]]) -> list[object]:
    """Start all at once; return their answers, with refusals as values."""
    gate = threading.Barrier(len(jobs))
    answers: list[object] = [Missing] * len(jobs)

    def run(number: int) -> None:
        gate.wait()
        _answer(answers, number, jobs[number])

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return answers


def in_one_flush(ws: Workspace, *edits: Sequence[Edit]) -> list[object]:
    """The answers to changes queued one after the other while the writer is busy."""
    entered, release = threading.Event(), threading.Event()

    def busy(staging: object, tip: object) -> Staged[object]:
        entered.set()
        release.wait(60)
        return Staged(None)

    answers: list[object] = [Missing] * len(edits)
    threads = [threading.Thread(target=ws.run, args=(busy,), daemon=True)]
    threads[0].start()
    entered.wait(60)
    for number in range(len(edits)):
        job = (answers, number, lambda number=number: ws.submit(change(*edits[number])))
        threads.append(threading.Thread(target=_answer, args=job, daemon=True))
        threads[-1].start()
        while ws.waiting <= number and answers[number] is Missing:
            time.sleep(0.0005)
    release.set()
    for thread in threads:
        thread.join(60)
    return answers


class Missing:
    """No answer came."""


def _answer(answers: list[object], number: int, job: Callable[[], object]) -> None:
    try:
        answers[number] = job()
    except Exception as refusal:  # noqa: BLE001  the test compares it
        answers[number] = refusal


@pytest.mark.parametrize("round", range(5))
def test_a_request_sent_eight_times_at_once_is_executed_once(ws: Workspace, round: int) -> None:
    asked = change(Append(uri("a"), "only once"), request="the same")
    outcomes = at_once([lambda: ws.submit(asked)] * 8)
    assert {outcome.commit for outcome in outcomes if isinstance(outcome, Outcome)} == {ws.tip}
    node = ws.node(uri("a"))
    assert node is not None
    assert node.content == "only once\n"


def test_of_writers_that_expect_one_version_only_the_first_succeeds(ws: Workspace) -> None:
    ws.submit(change(upsert("a", name="first")))
    outcomes = in_one_flush(ws, *([upsert("a", summary=f"by {n}", expect_version=1)] for n in range(4)))
    assert [type(outcome) for outcome in outcomes] == [Outcome, Stale, Stale, Stale]
    assert [one.current for one in outcomes if isinstance(one, Stale)] == [2, 2, 2]


def test_each_answer_names_the_version_that_its_own_change_made(ws: Workspace) -> None:
    outcomes = in_one_flush(ws, *([Append(uri("a"), f"{n}")] for n in range(4)))
    assert [outcome.nodes for outcome in outcomes if isinstance(outcome, Outcome)] == [
        ((uri("a"), n),) for n in (1, 2, 3, 4)
    ]


def test_expecting_the_version_of_the_answer_works_within_a_flush(ws: Workspace) -> None:
    ws.submit(change(upsert("a", name="first")))
    outcomes = in_one_flush(ws, *([upsert("a", summary=f"{n}", expect_version=n)] for n in (1, 2, 3)))
    assert [type(outcome) for outcome in outcomes] == [Outcome] * 3


def test_a_node_that_is_deleted_in_the_same_flush_is_not_brought_back_by_an_expectation(ws: Workspace) -> None:
    ws.submit(change(upsert("a", name="first")))
    outcomes = in_one_flush(ws, [Delete(uri("a"))], [upsert("a", name="x", expect_version=1)])
    assert [type(outcome) for outcome in outcomes] == [Outcome, Stale]


def test_names_that_differ_by_case_are_refused_within_a_flush_too(ws: Workspace) -> None:
    outcomes = in_one_flush(ws, [upsert("Readme", name="x")], [upsert("README", name="y")])
    assert [type(outcome) for outcome in outcomes] == [Outcome, InvariantViolation]


def test_a_name_that_differs_by_case_is_free_once_the_other_is_deleted_in_the_same_flush(ws: Workspace) -> None:
    ws.submit(change(upsert("Readme", name="x")))
    outcomes = in_one_flush(ws, [Delete(uri("Readme"))], [upsert("README", name="y")])
    assert [type(outcome) for outcome in outcomes] == [Outcome, Outcome]


def test_a_write_to_a_moving_node_reaches_it_under_its_new_name(ws: Workspace) -> None:
    ws.submit(change(upsert("a", name="A")))
    in_one_flush(ws, [Move(uri("a"), uri("b"))], [Append(uri("a"), "late")], [upsert("c", to("a"))])
    assert ws.node(uri("a")) is None
    node = ws.node(uri("b"))
    assert node is not None
    assert (node.content, node.aliases) == ("late\n", (uri("a"),))
    assert ws.broken_links() == []


def test_a_tip_moved_by_another_process_is_followed_and_never_lost(ws: Workspace) -> None:
    ws.submit(change(upsert("a", name="A")))
    made = ["commit-tree", "-p", ws.tip, "-m", "x", f"{ws.tip}^{{tree}}"]
    theirs = git(ws.layout.git_dir, "-c", "user.name=x", "-c", "user.email=x@x", *made).strip()
    git(ws.layout.git_dir, "update-ref", "refs/kgd/head", theirs)
    ws.submit(change(upsert("a", summary="s"), request="r"))
    assert git(ws.layout.git_dir, "merge-base", theirs, "refs/kgd/head").strip() == theirs
    assert check(ws) == []


@pytest.mark.requirement("E14")
@pytest.mark.parametrize("writers", [2, 8])
def test_writers_of_the_same_nodes_lose_nothing_and_overwrite_nothing_unread(ws: Workspace, writers: int) -> None:
    """200 nodes each, half of them shared. On a shared node a writer increments the value it read until it succeeds."""
    mine = 60 if writers == 2 else 25
    commits: dict[str, str] = {}

    def add_one(number: int, n: int, request: str) -> str | None:
        where = uri(f"shared/{n}")
        version, node = ws.node_version(where), ws.node(where)
        data = {"by": [*(node.data["by"] if node else []), number]}
        seen = version.count if version and node else 0
        try:
            return ws.submit(change(upsert(where, data=data, expect_version=seen), request=request)).commit
        except Stale:
            return None

    def write(number: int) -> None:
        for n in range(mine):
            own = change(upsert(f"own/{number}/{n}", name=f"{n}", expect_version=0), request=f"own-{number}-{n}")
            commits[own.request_id] = ws.submit(own).commit or "none"
            request = f"shared-{number}-{n}"
            while (commit := add_one(number, n, request)) is None:
                pass
            commits[request] = commit

    answers = at_once([lambda number=number: write(number) for number in range(writers)])  # type: ignore[misc]
    assert answers == [None] * writers
    assert {request: [commit] for request, commit in commits.items()}.items() <= requests_in(ws.layout.git_dir).items()
    for n in range(mine):
        node = ws.node(uri(f"shared/{n}"))
        assert node is not None
        assert sorted(node.data["by"]) == list(range(writers))
    assert check(ws) == []
    assert fsck(ws.layout.git_dir) == []
    assert int(git(ws.layout.git_dir, "rev-list", "--count", "refs/kgd/head")) == 1 + 2 * mine * writers
    counted = counted_by_git(ws.layout.git_dir)
    rows = {row.path: row.count for row in versions(ws.layout.git_dir, bytes.fromhex(ws.tip))}
    assert {path: rows[path] for path in counted} == dict(counted)

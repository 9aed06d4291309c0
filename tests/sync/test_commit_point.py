"""Several hubs write one workspace; the upstream's ref decides. Each hub has its own repository; git is real."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kgd.config import person_environment
from kgd.errors import Stale, Unavailable
from kgd.git.incoming import Incoming
from kgd.git.objects import ObjectId
from kgd.git.refs import RefUpdate
from kgd.git.remote import GitRemote, Network
from kgd.git.remote_errors import Trouble
from kgd.git.remote_settings import Remote, parse_url
from kgd.model.change import Append
from kgd.sync import round as rounds
from kgd.sync.upstream import UpstreamCommit
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.writer import Undecided
from tests.builders import change, new_layout, upsert, uri
from tests.sync.people import bare, git


class FaultyRemote:
    """A real remote whose connection is lost before or after a push."""

    def __init__(self, real: GitRemote) -> None:
        self.real = real
        self.lose: list[str] = []
        """For the next pushes: `before` or `after` the upstream has accepted it, or `down` for no connection at all."""
        self.down = False
        self.listed = 0
        """How often the refs were listed."""
        self.accepted: Callable[[], object] = lambda: None
        """Called after the upstream has accepted a push, before the hub knows."""

    def ls(self, ref: str, prefix: str = "") -> dict[str, ObjectId]:
        self._check()
        self.listed += 1
        return self.real.ls(ref, prefix)

    def fetch(self, wanted: Mapping[str, ObjectId]) -> Incoming:
        self._check()
        return self.real.fetch(wanted)

    def push(self, ref: str, old: ObjectId | None, new: ObjectId, also: Sequence[RefUpdate] = ()) -> str | None:
        with self._connection():
            return self.real.push(ref, old, new, also)

    def delete(self, ref: str, old: ObjectId) -> None:
        with self._connection():
            self.real.delete(ref, old)

    @contextlib.contextmanager
    def _connection(self) -> Iterator[None]:
        self._check()
        when = self.lose.pop(0) if self.lose else ""
        if when == "before":
            raise Trouble("cut", "the connection was lost")
        yield
        self.accepted()
        if when == "after":
            raise Trouble("cut", "the connection was lost")

    def _check(self) -> None:
        if self.down:
            raise Trouble("unreachable", "the remote's host cannot be reached")


class Hub:
    """A workspace whose commit point is the upstream."""

    def __init__(self, folder: Path, upstream: Path, shared_key: Path | None) -> None:
        folder.mkdir()
        layout = new_layout(folder)
        if shared_key:
            (layout.git_dir / "kgd-seal").write_bytes(shared_key.read_bytes())
        self.workspace = Workspace.open(layout)
        self.settings = remote = Remote("origin", parse_url(str(upstream)), "refs/heads/main")
        self.remote = FaultyRemote(GitRemote(remote.url, self.workspace.store, Network(person_environment())))
        rounds.run(self.workspace, remote, self.remote, chance=Random(1), sleep=lambda seconds: None)
        self.pushed: list[ObjectId] = []
        self.point = UpstreamCommit(
            self.workspace, lambda: (remote, self.remote), turn=contextlib.nullcontext, moved=self.pushed.append
        )
        self.workspace.commit_at(self.point)

    def put(self, path: str, *, request: str = "", **fields: Any) -> str:
        outcome = self.workspace.submit(change(upsert(path, **fields), request=request))
        return str(outcome.commit)

    def summary(self, path: str) -> str | None:
        card = self.workspace.graph.card(uri(path))
        return card.summary if card else None

    @property
    def key(self) -> Path:
        return self.workspace.layout.git_dir / "kgd-seal"

    def close(self) -> None:
        self.workspace.close()


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    return bare(tmp_path / "upstream.git")


@pytest.fixture
def hubs(tmp_path: Path, upstream: Path) -> Iterator[list[Hub]]:
    made: list[Hub] = []
    for number in range(3):
        made.append(Hub(tmp_path / f"hub{number}", upstream, made[0].key if made else None))
    yield made
    for one in made:
        one.close()


def tip(upstream: Path) -> str:
    return git(upstream, "rev-parse", "main")


def subjects(upstream: Path) -> list[str]:
    return git(upstream, "log", "--format=%s", "main").splitlines()


def test_a_change_is_answered_when_the_upstream_has_it(hubs: list[Hub], upstream: Path) -> None:
    commit = hubs[0].put("a", summary="one")
    assert tip(upstream) == commit == hubs[0].workspace.tip
    assert [one.hex() for one in hubs[0].pushed] == [commit]


@pytest.mark.slow
def test_an_overtaken_hub_stages_its_change_on_the_new_tip_and_merges_nothing(hubs: list[Hub], upstream: Path) -> None:
    hubs[0].put("a", summary="one")
    commit = hubs[1].put("b", summary="two")
    assert tip(upstream) == commit == hubs[1].workspace.tip
    assert git(upstream, "log", "--merges", "--format=%H", "main") == ""
    assert (hubs[1].summary("a"), hubs[1].summary("b")) == ("one", "two")


def test_a_hub_catches_up_without_writing(hubs: list[Hub], upstream: Path) -> None:
    hubs[0].put("a", summary="one")
    assert hubs[2].summary("a") is None
    hubs[2].workspace.catch_up()
    assert hubs[2].summary("a") == "one"
    assert hubs[2].workspace.tip == tip(upstream)


def test_a_hub_fetches_a_reported_tip_without_listing_refs(hubs: list[Hub], upstream: Path) -> None:
    told = bytes.fromhex(hubs[0].put("a", summary="one"))
    listed = hubs[2].remote.listed
    hubs[2].workspace.catch_up(told)
    assert (hubs[2].summary("a"), hubs[2].remote.listed) == ("one", listed)
    hubs[2].remote.down = True
    hubs[2].workspace.catch_up(told)  # known already, so nothing is asked


def test_a_reported_tip_that_the_upstream_does_not_have_is_not_followed(hubs: list[Hub], upstream: Path) -> None:
    commit = hubs[0].put("a", summary="one")
    hubs[2].workspace.catch_up(b"\1" * 20)
    assert hubs[2].workspace.tip == commit == tip(upstream)


def test_a_hub_follows_while_another_has_its_turn(hubs: list[Hub]) -> None:
    def no_turn() -> contextlib.AbstractContextManager[object]:
        raise AssertionError("only writers take turns")

    hubs[0].put("a", summary="one")
    hubs[2].point.turn = no_turn
    hubs[2].workspace.catch_up()
    assert hubs[2].summary("a") == "one"


@pytest.mark.slow
def test_the_expected_version_is_checked_on_the_newest_tip(hubs: list[Hub]) -> None:
    """Both a refusal and an acceptance rest on what the other hub wrote."""
    hubs[0].put("a", summary="one")
    hubs[1].workspace.catch_up()
    hubs[0].put("a", summary="two")
    with pytest.raises(Stale):
        hubs[1].put("a", summary="mine", expect_version=1)
    hubs[2].put("a", summary="mine", expect_version=2)


@pytest.mark.slow
def test_a_request_is_applied_once_at_any_hub(hubs: list[Hub], upstream: Path) -> None:
    first = hubs[0].put("a", summary="one", request="r1")
    assert hubs[1].put("a", summary="one", request="r1") == first
    assert hubs[2].put("a", summary="one", request="r1") == first
    assert len(subjects(upstream)) == 2, "the first commit and one change"


@pytest.mark.slow
def test_a_hub_recognises_requests_that_it_read_before_it_had_the_shared_key(
    tmp_path: Path, upstream: Path, hubs: list[Hub]
) -> None:
    first = hubs[0].put("a", summary="one", request="r1")
    late = Hub(tmp_path / "late", upstream, None)
    late.workspace.text()  # history has been read
    late.workspace.share_seal(lambda own: hubs[0].workspace.seal.key())
    assert late.put("a", summary="one", request="r1") == first
    late.close()
    late.workspace = Workspace.open(late.workspace.layout)
    assert late.put("a", summary="one", request="r1") == first, "also after a restart"
    late.close()


@pytest.mark.slow
def test_equal_changes_of_two_hubs_in_the_same_second_are_made_twice(hubs: list[Hub], upstream: Path) -> None:
    """Their commits would be equal: same tip, author, time and message."""
    hubs[0].put("a", content="x")
    hubs[1].workspace.catch_up()
    for hub in hubs[:2]:
        hub.workspace._clock = lambda: 1_800_000_000.0
        hub.workspace.submit(change(Append(uri("a"), "again")))
    assert git(upstream, "show", "main:nodes/concept/a.yaml").count("again") == 2


@pytest.mark.parametrize("when", ["before", "after"])
def test_after_a_lost_connection_a_retry_makes_the_change_once(hubs: list[Hub], upstream: Path, when: str) -> None:
    hubs[0].remote.lose = [when]
    if when == "after":
        assert hubs[0].put("a", summary="one", request="r1") == tip(upstream), "the upstream can still be asked"
    else:
        with pytest.raises(Undecided):
            hubs[0].put("a", summary="one", request="r1")
        assert hubs[0].summary("a") is None, "nothing stays staged"
    assert hubs[1].put("a", summary="one", request="r1") == tip(upstream)
    assert hubs[0].put("a", summary="one", request="r1") == tip(upstream)
    assert len(subjects(upstream)) == 2


@pytest.mark.slow
def test_while_the_upstream_is_down_nothing_is_acknowledged_and_nothing_stays_staged(
    hubs: list[Hub], upstream: Path
) -> None:
    hubs[0].put("a", summary="one")
    hubs[0].remote.down = True
    before = hubs[0].workspace.tip
    with pytest.raises(Unavailable):
        hubs[0].put("a", summary="two")
    with pytest.raises(Unavailable):
        hubs[0].put("a", summary="three", expect_version=9)
    assert (hubs[0].workspace.tip, tip(upstream), hubs[0].summary("a")) == (before, before, "one")
    hubs[0].remote.down = False
    hubs[0].put("a", summary="four")
    hubs[1].workspace.catch_up()
    assert hubs[1].summary("a") == "four"


@pytest.mark.slow
def test_an_upstream_with_content_that_is_refused_is_reported_until_it_is_repaired(
    hubs: list[Hub], upstream: Path, tmp_path: Path
) -> None:
    hubs[0].put("a", summary="one")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(upstream), str(clone))
    (clone / "kgd.yaml").write_text("workspace: other\nformat: 1\n")
    git(clone, "commit", "-qam", "another workspace")
    git(clone, "push", "-q", "origin", "HEAD:main")
    with pytest.raises(Unavailable, match="nothing was written: the remote holds the workspace 'other'"):
        hubs[0].put("a", summary="two")
    git(clone, "revert", "--no-edit", "HEAD")
    git(clone, "push", "-q", "origin", "HEAD:main")
    assert hubs[0].put("a", summary="two") == tip(upstream)


def test_a_hub_that_follows_again_reports_no_failure(hubs: list[Hub]) -> None:
    hubs[1].remote.down = True
    with pytest.raises(Unavailable):
        hubs[1].put("a", summary="one")
    assert hubs[1].workspace.health()["commit"].state != "ok"
    hubs[1].remote.down = False
    hubs[0].put("a", summary="two")
    hubs[1].workspace.catch_up()
    assert hubs[1].workspace.health()["commit"].state == "ok"


@pytest.mark.slow
def test_an_upstream_restored_from_a_backup_gets_back_the_acknowledged_changes(hubs: list[Hub], upstream: Path) -> None:
    hubs[0].put("a", summary="one")
    lost = hubs[0].put("a", summary="two")
    git(upstream, "update-ref", "refs/heads/main", "main~1")
    hubs[0].put("b", summary="three")
    assert lost in git(upstream, "rev-list", "main")


@pytest.mark.slow
def test_while_a_restored_upstream_is_behind_a_refusal_is_answered(hubs: list[Hub], upstream: Path) -> None:
    hubs[0].put("a", summary="one")
    hubs[0].put("a", summary="two")
    git(upstream, "update-ref", "refs/heads/main", "main~1")
    with pytest.raises(Stale):
        hubs[0].put("a", summary="three", expect_version=1)
    assert hubs[0].workspace.submit(change(upsert("b", summary="x")), dry_run=True).would
    assert hubs[0].put("b", summary="x") == tip(upstream)


def test_a_rewritten_upstream_is_reported_and_nothing_is_written(hubs: list[Hub], upstream: Path) -> None:
    hubs[0].put("a", summary="one")
    other = git(upstream, "commit-tree", "-m", "rewritten", "-p", "main~1", "main^{tree}")
    git(upstream, "update-ref", "refs/heads/main", other)
    with pytest.raises(Unavailable, match="does not contain the last commit"):
        hubs[0].put("b", summary="two")
    assert tip(upstream) == other
    assert hubs[0].summary("a") == "one"


def test_commits_from_before_the_hubs_shared_the_workspace_reach_the_upstream(hubs: list[Hub], upstream: Path) -> None:
    point, hubs[0].workspace._writer.commit_point = hubs[0].workspace._writer.commit_point, None
    earlier = hubs[0].put("early", summary="x")
    hubs[0].workspace._writer.commit_point = point
    hubs[0].put("late", summary="y")
    assert earlier in git(upstream, "rev-list", "main")


def test_a_hub_serves_an_adopted_tip_even_if_its_disk_did_not_confirm_the_move(
    hubs: list[Hub], monkeypatch: pytest.MonkeyPatch
) -> None:
    hubs[0].put("a", summary="one")
    moved, fsync = (hubs[1].workspace.layout.git_dir / "refs/kgd").stat().st_ino, os.fsync
    failed: list[int] = []

    def failing_once(fd: int) -> None:
        if not failed and os.fstat(fd).st_ino == moved:
            failed.append(fd)
            raise OSError(errno.EIO, "Input/output error")
        fsync(fd)

    monkeypatch.setattr(os, "fsync", failing_once)
    hubs[1].workspace.catch_up()
    assert failed
    assert hubs[1].summary("a") == "one"


@pytest.mark.slow
def test_a_change_that_only_the_upstream_has_is_not_reported_as_unwritten(hubs: list[Hub], upstream: Path) -> None:
    """The hub's own ref is moved by hand in between, so that it cannot follow what the upstream has accepted."""
    hubs[0].put("a", summary="one")
    git_dir = hubs[0].workspace.layout.git_dir
    hubs[0].remote.accepted = lambda: git(git_dir, "update-ref", "refs/kgd/head", "refs/kgd/head~1")
    with pytest.raises(Unavailable, match="the upstream has accepted the change"):
        hubs[0].put("b", summary="two", request="r1")
    hubs[0].remote.accepted = lambda: None
    assert hubs[0].put("b", summary="two", request="r1") == tip(upstream)
    assert (hubs[0].summary("a"), hubs[0].summary("b"), len(subjects(upstream))) == ("one", "two", 3)


@pytest.mark.slow
def test_concurrent_writers_at_all_hubs_each_find_their_change_in_the_upstream(hubs: list[Hub], upstream: Path) -> None:
    commits: list[str] = []

    def write(hub: Hub, number: int) -> None:
        commits.extend(hub.put(f"n{number}-{count}", summary="x", request=f"{number}/{count}") for count in range(6))

    threads = [threading.Thread(target=write, args=(hubs[n % 3], n)) for n in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    history = set(git(upstream, "rev-list", "main").split())
    assert len(set(commits)) == 54
    assert set(commits) <= history
    assert len(history) == 55
    for one in hubs:
        one.workspace.catch_up()
        assert one.workspace.tip == tip(upstream)
        assert one.summary("n8-5") == "x"

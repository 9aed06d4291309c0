"""The user's git collects garbage during a sync: no merged object is removed with the unused ones."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kgd.errors import Unavailable
from tests.git.support import fsck
from tests.sync.people import Person, git
from tests.waiting import until

pytestmark = pytest.mark.slow


@pytest.fixture
def team(ann: Person, bob: Person, hub: Path) -> tuple[Person, Person]:
    """Two that share a hub and sync by hand alone."""
    ann.put("first", summary="before bob came")
    ann.share(hub, sync=0)
    bob.share(hub, sync=0)
    ann.sync()
    return ann, bob


def brought_without_a_ref(person: Person, hub: Path, what: str = "main") -> None:
    """What a round that was killed before its merge leaves: the remote's objects, and nothing that leads to them."""
    git_dir = person.workspace.layout.git_dir
    git(git_dir, "-c", "fetch.unpackLimit=1", "fetch", "-q", "--no-write-fetch-head", "--refmap=", str(hub), what)


def left_by_a_killed_round(person: Person, hub: Path) -> None:
    """The same, in the very pack that the next round would make."""
    git_dir = person.workspace.layout.git_dir
    brought_without_a_ref(person, hub)
    words = ("pack-objects", "-q", "--revs", "--non-empty", "--threads=1", "--window=0", "objects/pack/pack")
    git(git_dir, *words, input=f"{git(hub, 'rev-parse', 'main')}\n^{person.tip}\n")


def repack_begun(person: Person) -> Callable[[], None]:
    """The first half of ``git repack -ad``, which looks at the refs of this moment; the answer is its second half."""
    packs = person.workspace.layout.git_dir / "objects/pack"
    listed = [path for path in packs.glob("pack-*.idx") if not path.with_suffix(".keep").exists()]
    words = ("pack-objects", "-q", "--all", "--revs", "--honor-pack-keep", "--non-empty", str(packs / "pack"))
    made = git(packs.parent.parent, *words, input="")

    def end() -> None:
        for index in listed:
            if made not in index.name:
                for suffix in (".idx", ".rev", ".pack"):
                    index.with_suffix(suffix).unlink(missing_ok=True)

    return end


def has_all_of_it(person: Person) -> bool:
    """Looked at before the restart too, which fetches missing objects from the remote again."""
    git_dir = person.workspace.layout.git_dir
    is_whole = fsck(git_dir) == []
    person.restart()
    reported = [one for one in person.call("status")["degraded"] if "missing" in one]
    return is_whole and fsck(git_dir) == [] and not reported


@pytest.mark.parametrize("left", [brought_without_a_ref, left_by_a_killed_round])
def test_the_packs_of_a_killed_round_are_not_merged_under_a_running_repack(
    team: tuple[Person, Person], hub: Path, left: Callable[[Person, Path], None]
) -> None:
    ann, bob = team
    bob.put("bobs", summary="by bob")
    bob.sync()
    left(ann, hub)
    end_repack = repack_begun(ann)
    assert ann.sync()["state"] == "ok"
    end_repack()
    assert ann.summary("bobs") == "by bob"
    assert has_all_of_it(ann)
    assert ann.summary("bobs") == "by bob"


def test_a_proposal_that_is_here_already_is_not_listed_from_under_a_running_repack(
    team: tuple[Person, Person], hub: Path
) -> None:
    ann, bob = team
    bob.put("wish", summary="please")
    git(bob.workspace.layout.git_dir, "push", "-q", str(hub), f"{bob.tip}:refs/heads/proposals/wish")
    brought_without_a_ref(ann, hub, "proposals/wish")
    end_repack = repack_begun(ann)
    ann.sync()
    end_repack()
    (proposal,) = ann.call("proposals")["proposals"]
    ann.call("accept", name=proposal["id"])
    assert ann.summary("wish") == "please"
    assert has_all_of_it(ann)


def test_a_commit_whose_files_a_prune_has_taken_is_fetched_again(team: tuple[Person, Person], hub: Path) -> None:
    ann, bob = team
    bob.put("bobs", summary="by bob")
    bob.sync()
    commit = git(hub, "cat-file", "commit", "main") + "\n"
    made = git(ann.workspace.layout.git_dir, "hash-object", "-t", "commit", "-w", "--stdin", input=commit)
    assert made == git(hub, "rev-parse", "main")
    told = ann.sync()
    assert told["state"] == "ok", told
    assert ann.summary("bobs") == "by bob"
    assert has_all_of_it(ann)


# ---- what an older kgd, or a disk, has made


def without(person: Person, object: str) -> str:
    """Take an object out of the repository of a person whose daemon is stopped; its id."""
    git_dir = person.tree / ".git"
    id = git(git_dir, "rev-parse", object)
    packs = [(path, path.read_bytes()) for path in (git_dir / "objects/pack").glob("pack-*.pack")]
    for path in (git_dir / "objects/pack").iterdir():
        path.unlink()
    for _, data in packs:
        subprocess.run(["git", "-C", git_dir, "unpack-objects", "-q"], input=data, check=True)
    (git_dir / "objects" / id[:2] / id[2:]).unlink()
    return id


HOLES = {
    "a file of the tip": "refs/kgd/head:nodes/concept/bobs.yaml",
    "a folder of the tip": "refs/kgd/head:nodes/concept",
    "the tree of the tip": "refs/kgd/head^{tree}",
    "the tip": "refs/kgd/head",
    "an older commit": "refs/kgd/head~3",
    "an older tree": "refs/kgd/head~3^{tree}",
}


@pytest.fixture
def long_team(team: tuple[Person, Person]) -> tuple[Person, Person]:
    ann, bob = team
    for number in range(4):
        bob.put("bobs", summary=f"version {number}")
    bob.call("put", changes=[{"op": "upsert", "uri": "concept://infra/once", "summary": "s"}], request_id="once")
    bob.sync()
    ann.sync()
    ann.call("put", changes=[{"op": "upsert", "uri": "concept://infra/own", "summary": "s"}], request_id="own")
    ann.sync()
    bob.sync()
    return ann, bob


@pytest.mark.parametrize("derived", ["with its index", "without its index"])
@pytest.mark.parametrize("hole", HOLES)
def test_a_hole_is_healed_from_a_remote_by_itself(long_team: tuple[Person, Person], hole: str, derived: str) -> None:
    ann, _ = long_team
    tip = ann.tip
    ann.daemon.close()
    id = without(ann, HOLES[hole])
    if derived == "without its index":
        for path in (ann.tree / ".git/kgd").glob("*.sqlite*"):
            path.unlink()
        for path in (ann.tree / ".git/kgd").glob("*.snapshot"):
            path.unlink()
    (ann.tree / ".git/kgd/history.checked").unlink(missing_ok=True)
    ann.daemon = ann._start()
    ann.daemon.open_shared()
    until(lambda: fsck(ann.tree / ".git") == [], say=lambda: ann.call("status")["degraded"])
    until(lambda: ann.call("status")["degraded"] == [], say=lambda: ann.call("status")["degraded"])
    assert ann.tip == tip
    assert git(ann.tree, "cat-file", "-t", id)
    assert ann.summary("bobs") == "version 3"
    ann.call("put", changes=[{"op": "upsert", "uri": "concept://infra/own", "summary": "s"}], request_id="own")
    assert ann.tip == tip, "a request that was carried out is not carried out again"
    assert ann.sync()["state"] == "ok"
    assert ann.call("search", query="version")["hits"]


def test_with_a_hole_that_no_remote_can_fill_nothing_is_done_twice(long_team: tuple[Person, Person], hub: Path) -> None:
    ann, _ = long_team
    tip = ann.tip
    ann.daemon.close()
    copy = ann.folder / "copy.git"
    git(ann.tree, "clone", "-q", "--mirror", ".git", str(copy))
    without(ann, HOLES["an older commit"])
    shutil.rmtree(ann.tree / ".git/kgd")
    shutil.rmtree(hub)
    ann.daemon = ann._start()
    ann.daemon.open_shared()
    until(lambda: [one for one in ann.call("status")["degraded"] if one.startswith("history:")])
    again = [{"op": "upsert", "uri": "concept://infra/own", "summary": "s"}]
    with pytest.raises(Unavailable, match="may have been used"):
        ann.call("put", changes=again, request_id="own")
    assert ann.summary("bobs") == "version 3"
    ann.put("without-a-request", summary="goes on")
    git(ann.tree, "fetch", "-q", "--refetch", str(copy))
    ann.call("reindex")
    before = ann.tip
    ann.call("put", changes=again, request_id="own")
    assert ann.tip == before != tip

"""A person's git tidies up beside a sync: nothing that the sync merged goes with what nobody needed before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.git.support import fsck
from tests.sync.people import Person, git


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
    git_dir = person.workspace.layout.git_dir
    person.restart()
    return fsck(git_dir) == [] and not [one for one in person.call("status")["degraded"] if "missing" in one]


@pytest.mark.parametrize("left", [brought_without_a_ref, left_by_a_killed_round])
def test_what_a_killed_round_left_is_not_merged_from_under_a_running_repack(
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

"""What people do with a remote: share, work apart, meet; with kgd on both sides, on one, and with plain git beside."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kgd.daemon.watch import Watch
from kgd.errors import Invalid, KgdError
from kgd.git.refs import RefUpdate
from kgd.git.remote import GitRemote, Network
from kgd.git.remote_errors import LostRace, Trouble
from kgd.git.remote_settings import remotes
from kgd.sync import round as rounds
from kgd.tools import call
from tests.sync.people import Person, bare, git
from tests.waiting import WATCHED, until

pytestmark = pytest.mark.slow

People = Callable[..., Person]


def agree(*people: Person) -> None:
    until(lambda: len({one.tip for one in people}) == 1)


def test_nothing_leaves_this_machine_before_the_user_shares_it(ann: Person, hub: Path) -> None:
    git(ann.tree, "remote", "add", "origin", str(hub))
    ann.put("a", summary="private")
    with pytest.raises(KgdError, match="has no remote"):
        ann.call("sync")
    assert git(hub, "for-each-ref") == ""


def test_the_first_share_creates_the_branch_and_the_second_gets_it(ann: Person, bob: Person, hub: Path) -> None:
    ann.put("a", summary="by Ann")
    assert ann.share(hub)["pushed"] == 2
    assert git(hub, "rev-parse", "refs/heads/main") == ann.tip
    bob.put("b", summary="by Bob")
    told = bob.share(hub)
    assert told["pulled"] == 1
    assert told["merged"] == bob.tip
    assert bob.summary("a") == "by Ann"
    until(lambda: ann.has("b"))
    agree(ann, bob)


def test_a_sync_reports_the_steps_of_its_transfers(ann: Person, bob: Person, hub: Path) -> None:
    told: list[tuple[int, int | None, str]] = []

    def steps(verb: str) -> list[tuple[int, int | None]]:
        return [(done, total) for done, total, message in told if message.startswith(verb)]

    ann.put("a", summary="by Ann")
    ann.share(hub, sync=0)
    bob.share(hub, sync=0)
    bob.put("b", summary="by Bob")
    session = replace(bob.session(), progress=lambda *step: told.append(step))
    assert call(session, "sync", {})["ok"]
    (*_, (done, total)) = steps("writing objects")
    assert done == total, "the last step is the whole"
    session = replace(ann.session(), progress=lambda *step: told.append(step))
    assert call(session, "sync", {})["ok"]
    assert ann.summary("b") == "by Bob"
    assert steps("receiving objects") or steps("unpacking objects")


def test_a_branch_that_began_long_ago_counts_as_the_commits_that_are_new(
    ann: Person, bob: Person, hub: Path, tmp_path: Path
) -> None:
    for number in range(5):
        ann.put(f"early-{number}", summary="before the branch")
    ann.share(hub, sync=0)
    bob.share(hub, sync=0)
    cleo = tmp_path / "cleo"
    git(tmp_path, "clone", "-q", str(hub), str(cleo))
    for number in range(5):
        ann.put(f"late-{number}", summary="after the branch")
    ann.sync()
    bob.sync()
    (cleo / "nodes/concept/cleo.yaml").write_text("uri: concept://infra/cleo\nsummary: by Cleo\n")
    git(cleo, "add", "-A")
    git(cleo, "commit", "-qm", "offline")
    git(cleo, "pull", "-q", "--no-rebase", "--no-edit")
    git(cleo, "push", "-q")
    assert bob.sync()["pulled"] == 2, "Cleo's commit and the merge"
    bob.put("b", summary="by Bob")
    told = bob.sync()
    assert (told["pulled"], told["pushed"]) == (0, 1)


def test_a_plain_clone_of_a_shared_workspace_checks_it_out_with_any_default_branch(ann: Person, tmp_path: Path) -> None:
    made = tmp_path / "old-style.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "master", str(made)], check=True)
    ann.put("a", summary="by Ann")
    assert "warnings" not in ann.call("remote", action="add", name="origin", url=str(made))
    git(tmp_path, "clone", "-q", str(made), "cleo")
    assert "by Ann" in (tmp_path / "cleo/nodes/concept/a.yaml").read_text()


def test_if_the_servers_default_branch_cannot_be_set_the_remedy_is_shown(ann: Person, hub: Path) -> None:
    first = git(hub, "commit-tree", "-m", "of others", git(hub, "mktree", input=""))
    git(hub, "update-ref", "refs/heads/docs", first)
    (warning,) = ann.call("remote", action="add", name="origin", url=str(hub), ref="refs/heads/knowledge")["warnings"]
    assert "git symbolic-ref HEAD refs/heads/knowledge" in warning
    assert git(hub, "symbolic-ref", "HEAD") == "refs/heads/main"


def test_a_change_reaches_the_other_within_seconds_without_a_call(ann: Person, bob: Person, hub: Path) -> None:
    ann.share(hub)
    bob.share(hub)
    agree(ann, bob)
    for number in range(3):
        ann.put(f"by-ann/{number}", summary=f"{number}")
        bob.put(f"by-bob/{number}", summary=f"{number}")
    until(lambda: all(ann.has(f"by-bob/{n}") and bob.has(f"by-ann/{n}") for n in range(3)), WATCHED)
    agree(ann, bob)
    assert git(hub, "rev-parse", "main") == ann.tip


def test_edits_of_different_fields_are_both_there_and_of_the_same_field_a_conflict(
    ann: Person, bob: Person, hub: Path
) -> None:
    ann.put("shared", summary="first", content="text\n")
    ann.share(hub, sync=0)
    bob.share(hub, sync=0)
    ann.put("shared", summary="Ann's")
    bob.put("shared", summary="Bob's", tags=["new"])
    ann.sync()
    told = bob.sync()
    ann.sync()
    assert told["merged"]
    assert ann.tip == bob.tip
    assert ann.workspace.conflict_count == bob.workspace.conflict_count == 1
    (conflict,) = ann.workspace.conflicts.find()
    assert set(conflict.conflict.fields["summary"].sides) == {"Ann's", "Bob's"}
    assert bob.call("get", uris=["concept://infra/shared"])["nodes"][0]["tags"] == ["new"]


def test_two_daemons_that_merge_the_same_pair_make_the_same_commit(
    ann: Person, bob: Person, hub: Path, tmp_path: Path
) -> None:
    """Each merges by itself what the other has put elsewhere; neither has seen the other's merge."""
    other = bare(tmp_path / "other.git")
    ann.put("a", summary="a")
    bob.put("b", summary="b")
    ann.share(hub, sync=0)
    bob.share(other, sync=0)
    ann.call("remote", action="add", name="other", url=str(other), direction="pull", sync=0)
    bob.call("remote", action="add", name="hub", url=str(hub), direction="pull", sync=0)
    assert git(hub, "rev-parse", "main") != git(other, "rev-parse", "main")
    assert ann.tip == bob.tip
    assert len(ann.workspace.store.commit(bytes.fromhex(ann.tip)).parents) == 2


def test_a_round_with_nothing_to_do_starts_no_program(ann: Person, hub: Path, tmp_path: Path) -> None:
    """What a directory's refs hold is read, not asked for."""
    ann.share(hub, sync=0)
    (hub / "hooks" / "pre-receive").write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\n")
    (hub / "hooks" / "pre-receive").chmod(0o755)
    told = ann.sync()
    assert (told["pulled"], told["pushed"], told["state"]) == (0, 0, "ok")
    assert not (tmp_path / "asked").exists()
    ann.put("a", summary="a")
    ann.sync()
    assert (tmp_path / "asked").exists(), "the trap works"


@pytest.mark.slow
def test_a_push_that_loses_its_race_merges_and_is_repeated(ann: Person, bob: Person, hub: Path) -> None:
    """The server moves the branch while the first push is under way: three times in a row."""
    ann.share(hub, sync=0)
    bob.share(hub, sync=0)
    tips = []
    for number in range(3):
        bob.put(f"b{number}", summary="b")
        bob.sync()
        tips.append(bob.tip)
    git(hub, "update-ref", "refs/heads/main", git(hub, "rev-parse", f"{tips[0]}^"))
    for tip in tips:
        git(hub, "update-ref", f"refs/held/{tip}", tip)
    hook = hub / "hooks" / "pre-receive"
    moves = "\n".join(
        f"[ -e moved{n} ] || {{ touch moved{n}; git update-ref refs/heads/main {tip}; exit 0; }}"
        for n, tip in enumerate(tips)
    )
    hook.write_text(f"#!/bin/sh\nunset GIT_QUARANTINE_PATH\n{moves}\n")
    hook.chmod(0o755)
    ann.put("a", summary="a")
    told = ann.sync()
    assert told["state"] == "ok", told
    assert told["pulled"] == 3
    assert git(hub, "rev-parse", "main") == ann.tip
    assert all(ann.has(f"b{number}") for number in range(3))


def test_a_person_with_plain_git_pushes_and_pulls_in_the_work_tree(ann: Person, bob: Person, hub: Path) -> None:
    ann.put("a", summary="a")
    ann.share(hub, sync=0)
    bob.share(hub, sync=0)
    ann.published()
    bob.published()
    until(lambda: (ann.tree / "nodes/concept/a.yaml").exists())
    (ann.tree / "nodes/concept/a.yaml").write_text("uri: concept://infra/a\nsummary: by hand\n")
    git(ann.tree, "commit", "-qam", "by hand")
    git(ann.tree, "push", "-q")
    assert git(hub, "rev-parse", "main") == git(ann.tree, "rev-parse", "HEAD")
    until(lambda: git(bob.tree, "rev-parse", "HEAD") == bob.tip)
    git(bob.tree, "pull", "-q", "--no-rebase")
    until(lambda: bob.summary("a") == "by hand")
    assert "main" in git(bob.tree, "rev-parse", "--abbrev-ref", "main@{upstream}")


@pytest.mark.slow
def test_a_colleague_without_kgd_edits_a_clone_and_pushes(ann: Person, hub: Path, tmp_path: Path) -> None:
    ann.put("a", summary="a", content="keep this\n")
    ann.share(hub)
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(hub), str(clone)], check=True)
    file = clone / "nodes/concept/a.yaml"
    file.write_text(file.read_text().replace("summary: a", "summary: edited in an editor"))
    git(clone, "commit", "-qam", "edit")
    git(clone, "push", "-q")
    until(lambda: ann.summary("a") == "edited in an editor")
    assert "keep this" in str(ann.node("a"))


def test_kgd_up_in_a_plain_clone_of_a_workspace_is_that_workspace_and_share_keeps_it_in_step(
    person: People, ann: Person, hub: Path, tmp_path: Path
) -> None:
    ann.share(hub)
    ann.put("a", summary="from ann")
    ann.sync()
    clone = tmp_path / "bob/anything"
    subprocess.run(["git", "clone", "-q", str(hub), str(clone)], check=True)
    bob = person("bob", standalone=False, tree=clone)
    assert bob.work_tree == clone, "a clone of knowledge is no code to be described"
    assert bob.summary("a") == "from ann"
    bob.call("share")
    bob.put("b", summary="from bob")
    until(lambda: ann.has("b"))


def test_a_directory_that_was_away_is_watched_again_after_a_sync_by_hand(ann: Person, bob: Person, hub: Path) -> None:
    ann.share(hub, sync=3600)
    bob.share(hub, sync=0)
    away = hub.rename(hub.with_name("away"))
    assert ann.sync()["state"] != "ok"
    shutil.copytree(away, hub)
    assert ann.sync()["state"] == "ok"
    bob.put("b", summary="by Bob")
    bob.sync()
    until(lambda: ann.has("b"), WATCHED)


def test_a_change_between_a_round_and_its_watch_is_noticed(
    ann: Person, bob: Person, hub: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann.share(hub, sync=3600)
    bob.share(hub, sync=0)
    away, start = hub.rename(hub.with_name("away")), Watch.start
    assert ann.sync()["state"] != "ok"
    shutil.copytree(away, hub)
    bob.put("b", summary="by Bob")

    def start_late(watch: Watch) -> None:
        monkeypatch.undo()
        bob.sync()
        start(watch)

    monkeypatch.setattr(Watch, "start", start_late)
    ann.sync()
    until(lambda: ann.has("b"), WATCHED)


@pytest.mark.slow
def test_an_unreadable_node_file_does_not_stop_the_sync(ann: Person, hub: Path, tmp_path: Path) -> None:
    ann.put("a", summary="a")
    ann.share(hub, sync=0)
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(hub), str(clone)], check=True)
    (clone / "nodes/concept/a.yaml").write_text("uri: [\n")
    (clone / "nodes/concept/b.yaml").write_text("uri: concept://infra/b\nsummary: b\n")
    git(clone, "add", "-A")
    git(clone, "commit", "-qm", "a slip")
    git(clone, "push", "-q")
    assert ann.sync()["state"] == "ok"
    assert ann.has("b")
    assert [one.path for one in ann.workspace.invalid_files()] == ["nodes/concept/a.yaml"]
    assert ann.summary("a") == "a"


@pytest.mark.slow
def test_a_remote_that_is_only_read_gets_nothing(ann: Person, bob: Person, hub: Path) -> None:
    ann.share(hub)
    bob.share(hub, direction="pull")
    bob.put("mine", summary="stays here")
    ann.put("a", summary="a")
    until(lambda: bob.has("a"))
    assert bob.call("sync")["remotes"][0]["pushed"] == 0
    assert not ann.has("mine")
    assert bob.stage("push")["state"] == "off"


@pytest.mark.slow
def test_remotes_are_listed_and_let_go_and_git_knows_them(ann: Person, hub: Path, tmp_path: Path) -> None:
    other = bare(tmp_path / "other.git")
    ann.share(hub)
    ann.call("remote", action="add", name="backup", url=str(other), sync=0)
    listed = ann.call("remote")["remotes"]
    assert [(one["name"], one["url"]) for one in listed] == [("backup", str(other)), ("origin", str(hub))]
    assert git(ann.tree, "remote").split() == ["backup", "origin"]
    assert git(hub, "rev-parse", "main") == git(other, "rev-parse", "main")
    assert {one["name"] for one in ann.call("status")["stages"]} >= {"fetch backup", "push backup", "fetch origin"}
    ann.call("remote", action="remove", name="backup")
    assert git(ann.tree, "remote").split() == ["origin"]
    with pytest.raises(KgdError, match="no remote 'backup'"):
        ann.call("sync", remote="backup")


@pytest.mark.parametrize("sync", [None, 600])
def test_a_removed_remote_of_a_clone_stays_removed(ann: Person, bob: Person, hub: Path, sync: int | None) -> None:
    """`kgd clone` registers the remote, and the daemon adds a registered remote that is missing."""
    registry = Path(bob.daemon.home.registry)
    lines = [f"    remote: {hub}", "    ref: refs/heads/main"] + ([] if sync is None else [f"    sync: {sync}"])
    registry.write_text(registry.read_text().rstrip() + "\n" + "\n".join(lines) + "\n")
    bob.restart()
    until(lambda: git(hub, "branch", "--list", "main"))
    shared = git(hub, "rev-parse", "main")
    bob.call("remote", action="remove", name="origin")
    assert bob.call("remote")["remotes"] == []
    bob.put("mine", summary="stays here")
    bob.restart()
    with pytest.raises(KgdError, match="has no remote"):
        bob.call("sync")
    assert git(hub, "rev-parse", "main") == shared
    assert "remote:" not in registry.read_text()
    assert str(bob.tree) in registry.read_text()


@pytest.mark.slow
def test_a_second_address_under_the_same_name_is_refused(ann: Person, hub: Path, tmp_path: Path) -> None:
    ann.share(hub)
    with pytest.raises(KgdError, match="with another address"):
        ann.share(bare(tmp_path / "other.git"))


def test_a_colleagues_change_arrives_after_a_restart_before_the_first_call(ann: Person, bob: Person, hub: Path) -> None:
    ann.share(hub)
    bob.share(hub)
    bob.daemon.close()
    ann.put("a", summary="a")
    until(lambda: git(hub, "rev-parse", "main") == ann.tip)
    bob.restart()
    opened = bob.daemon.opened()
    assert [one.id for one in opened] == ["infra"]
    until(lambda: opened[0].graph.card("concept://infra/a") is not None)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_commit_that_was_not_pushed_before_the_end_is_pushed_after_the_next_start(ann: Person, hub: Path) -> None:
    ann.share(hub)
    hub.rename(hub.with_name("away"))
    ann.put("a", summary="a")
    tip = ann.tip
    ann.daemon.close()
    hub.with_name("away").rename(hub)
    ann.restart()
    until(lambda: git(hub, "rev-parse", "main") == tip)


@pytest.mark.requirement("B4")
def test_a_registry_that_names_a_remote_shares_through_it(ann: Person, hub: Path) -> None:
    registry = Path(ann.daemon.home.registry)
    registry.write_text(registry.read_text() + f"    remote: {hub}\n    sync: 5\n")
    ann.put("a", summary="a")
    ann.restart()
    until(lambda: git(hub, "for-each-ref", "--format=%(objectname)", "refs/heads/main") == ann.tip)
    assert ann.daemon.registry.problem is None
    assert ann.call("remote")["remotes"][0]["url"] == str(hub)


def code_repository(at: Path, remote: Path) -> Path:
    at.mkdir(parents=True)
    git(at, "init", "-q", "-b", "main")
    git(at, "remote", "add", "origin", str(remote))
    (at / "main.py").write_text("print()\n")
    git(at, "add", ".")
    git(at, "commit", "-qm", "code")
    git(at, "push", "-q", "origin", "main")
    return at


@pytest.mark.parametrize("ref", [pytest.param(None, marks=pytest.mark.slow), "refs/kgd/main"])
def test_a_workspace_in_a_code_repository_goes_to_the_codes_own_remote_after_share(
    person: People, tmp_path: Path, hub: Path, ref: str | None
) -> None:
    code = code_repository(tmp_path / "ann/src/shop", hub)
    ann = person("ann", id="shop", standalone=False, tree=code)
    ann.put("a", summary="a")
    assert git(hub, "for-each-ref", "--format=%(refname)") == "refs/heads/main"
    chosen = {"ref": ref} if ref else {}
    (told,) = ann.call("share", **chosen)["remotes"]
    assert told["pushed"] == 2
    assert git(hub, "rev-parse", ref or "refs/heads/kgd") == ann.tip
    second = tmp_path / "bob/src/shop"
    subprocess.run(["git", "clone", "-q", str(hub), str(second)], check=True)
    bob = person("bob", id="shop", standalone=False, tree=second)
    assert bob.has("a"), "kgd up asked the remote"
    bob.call("share", **chosen)
    bob.put("b", summary="b")
    until(lambda: ann.has("b"))
    # What plain git does in .kgd concerns the knowledge alone.
    ann.published()
    git(ann.work_tree, "fetch", "-q")
    assert "main.py" not in git(ann.work_tree, "ls-tree", "-r", "--name-only", "@{upstream}")
    git(ann.work_tree, "push", "-q")
    assert git(hub, "rev-parse", ref or "refs/heads/kgd") == ann.tip


def test_a_ref_that_holds_the_code_is_refused_and_not_overwritten(person: People, tmp_path: Path, hub: Path) -> None:
    ann = person("ann", id="shop", standalone=False, tree=code_repository(tmp_path / "ann/src/shop", hub))
    with pytest.raises(Trouble, match="does not contain a workspace") as refused:
        ann.call("remote", action="add", name="code", url=str(hub), ref="refs/heads/main")
    assert "remove" not in refused.value.next
    ann.call("share")
    with pytest.raises(Trouble, match="does not contain a workspace"):
        ann.call("share", ref="refs/heads/main")
    assert [(one.name, one.ref) for one in remotes(ann.workspace.layout)] == [("origin", "refs/heads/kgd")]
    ann.put("a", summary="a")
    until(lambda: git(hub, "rev-parse", "refs/heads/kgd") == ann.tip)


@pytest.mark.slow
def test_a_commit_does_not_wait_for_a_remote_that_hangs(ann: Person, hub: Path) -> None:
    ann.share(hub)
    (hub / "hooks" / "pre-receive").write_text("#!/bin/sh\ntouch called\nsleep 60\n")
    (hub / "hooks" / "pre-receive").chmod(0o755)
    ann.put("a", summary="a")
    until(lambda: (hub / "called").exists())
    ann.put("b", summary="b")
    assert ann.has("b")
    ann.daemon.close()  # returns at once


def test_a_push_never_replaces_commits_that_arrived_after_the_listing(ann: Person, bob: Person, hub: Path) -> None:
    """Bob's push falls exactly there; the server would let a forced one of Ann's replace it."""
    ann.share(hub, sync=0)
    bob.share(hub, sync=0)
    network = Network(dict(os.environ))
    between: list[Callable[[], object]] = [lambda: bob.put("between", summary="b"), bob.sync]

    class Slow(GitRemote):
        def push(self, ref: str, old: bytes | None, new: bytes, also: Sequence[RefUpdate] = ()) -> None:
            while between:
                between.pop(0)()
            super().push(ref, old, new, also)

    ann.put("a", summary="a")
    (remote,) = remotes(ann.workspace.layout)
    transport = Slow(remote.url, ann.workspace.store, network)
    slept: list[float] = []
    done = rounds.run(ann.workspace, remote, transport, chance=random.Random(1), sleep=slept.append)
    assert (done.pulled, done.pushed, len(slept)) == (1, 2, 1)
    assert ann.has("between")
    assert git(hub, "rev-parse", "main") == ann.tip


@pytest.mark.slow
def test_a_round_that_always_loses_stops_after_five_pushes(ann: Person, hub: Path) -> None:
    class Beaten(GitRemote):
        def push(self, ref: str, old: bytes | None, new: bytes, also: Sequence[RefUpdate] = ()) -> None:
            raise LostRace("somebody was faster")

    ann.share(hub, sync=0)
    ann.put("a", summary="a")
    (remote,) = remotes(ann.workspace.layout)
    transport = Beaten(remote.url, ann.workspace.store, Network(dict(os.environ)))
    slept: list[float] = []
    with pytest.raises(Trouble, match="others pushed before us 5 times in a row"):
        rounds.run(ann.workspace, remote, transport, chance=random.Random(1), sleep=slept.append)
    assert len(slept) == 4
    assert slept == sorted(slept)


def test_each_side_of_a_conflict_that_both_edited_again_can_be_taken(ann: Person, bob: Person, hub: Path) -> None:
    for one in (ann, bob):
        one.share(hub, sync=0)
        one.sync()
    for values in (("ann", "bob"), ("ann again", "bob again")):
        for one, value in zip((ann, bob), values, strict=True):
            one.put("keys", summary=value)
        for one in (ann, bob, ann):
            one.sync()
    (found,) = ann.call("conflicts")["conflicts"]
    sides = {side["side"]: side["value"] for side in found["fields"]["summary"]["sides"]}
    assert sorted(sides) == ["a", "b", "c"]
    with pytest.raises(Invalid, match="has no side d") as refused:
        ann.call("resolve", resolutions=[{"id": "keys", "take": "d"}])
    assert str(refused.value.next) == "Take a, b, c or base. conflicts shows them."
    with pytest.raises(Invalid, match="has no side ''"):
        ann.call("resolve", resolutions=[{"id": "keys", "take": ""}])
    ann.call("resolve", resolutions=[{"id": "keys", "take": "C"}])
    assert ann.summary("keys") == sides["c"]
    assert ann.call("conflicts")["total"] == 0


def test_conflicting_settings_are_found_and_settled_by_their_subject(ann: Person, bob: Person, hub: Path) -> None:
    about = "kgd://infra/settings"
    ann.share(hub, sync=0)
    bob.share(hub, sync=0)
    ann.sync()
    assert ann.call("conflicts", uri=about)["conflicts"] == []
    assert ann.call("conflicts", uri=about)["workspace"] == "infra"
    with pytest.raises(KgdError, match="'other'"):
        ann.call("conflicts", uri="kgd://other/settings")
    with pytest.raises(KgdError, match="Write the URI of a node"):
        ann.call("conflicts", uri="kgd://infra/elsewhere")
    with pytest.raises(KgdError, match="there is no such conflict"):
        ann.call("conflicts", id="nonsense#x")
    for one, label in ((ann, "Ann's"), (bob, "Bob's")):
        file = one.work_tree / "kgd.yaml"
        one.published()
        file.write_text(f"{file.read_text()}label: {label}\n")
        one.workspace.hint(None)
        until(lambda one=one, label=label: label in git(one.work_tree, "show", f"{one.tip}:kgd.yaml"))  # type: ignore[misc]
    ann.sync()
    bob.sync()
    (found,) = bob.call("conflicts", uri=about)["conflicts"]
    whole = bob.call("conflicts", id=found["id"])["conflicts"][0]["fields"]["label"]
    assert sorted(side["author"] for side in whole["sides"]) == ["Ann Person", "Ann Person"]
    assert sorted(side["value"] for side in whole["sides"]) == ["Ann's", "Bob's"]
    bob.call("resolve", resolutions=[{"id": about, "fields": {"label": "Ours"}}], message="both")
    assert "label: Ours" in git(bob.work_tree, "show", f"{bob.tip}:kgd.yaml")
    again = bob.call("conflicts", id=found["id"])
    assert again["settled"]["uri"] == about
    bob.sync()
    ann.sync()
    assert "label: Ours" in git(ann.work_tree, "show", f"{ann.tip}:kgd.yaml")
    assert ann.call("conflicts", uri=about)["total"] == 0

"""`kgd forget` removes a secret from the whole history, and no old copy brings it back."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kgd.config import Home
from kgd.daemon.jobs import FILE, Job
from kgd.errors import Forbidden, Invalid, KgdError, NotFound, Unavailable
from kgd.git import index_file, refs, rewriting
from kgd.git.layout import Layout
from kgd.git.refs import RefUpdate
from kgd.hooks.push_check import Pushed, check_push
from kgd.model.change import Upsert
from kgd.model.uri import Uri
from kgd.workspace.proposals import proposals
from kgd.workspace.repository import read_settings
from tests.builders import change, commit_file
from tests.daemon.conftest import end_daemon
from tests.ssh_keys import allow, new_key
from tests.sync.people import Person, bare, git
from tests.sync.test_signed_sync import signing
from tests.waiting import until

pytestmark = pytest.mark.requirement("N8")
ROOT = Path(__file__).parents[2]
SECRET = "tok-Zq81xwp3/é"
LONG = "Zq81xwp3-Kx9vQ44-bbTrewq-91" * 3


def forget(person: Person, secret: str = SECRET, **more: Any) -> dict[str, Any]:
    person.published()
    return person.call("forget", secret=secret, reason="it leaked", **more)


def holding(git_dir: Path, secret: str = SECRET) -> list[str]:
    """The objects of a repository that contain the secret, reachable or not, and files outside of `objects`."""
    names = git(git_dir, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split()
    batch = ["git", "-C", str(git_dir), "cat-file", "--batch"]
    bodies = subprocess.run(batch, input="\n".join(names).encode(), capture_output=True, check=True).stdout
    found = ["an object"] if secret.encode() in bodies else []
    files = (path for path in git_dir.rglob("*") if path.is_file() and "objects" not in path.parts)
    return found + [str(path) for path in files if secret.encode() in path.read_bytes()]


def derived(git_dir: Path, parts: list[str]) -> list[str]:
    """The lines of all objects that contain one of these parts of a secret, in upper or lower case.

    Ids and times are left out, since they have any four digits by chance.
    """
    names = git(git_dir, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split()
    shown = [line for name in names for line in git(git_dir, "cat-file", "-p", name).splitlines()]
    return [line for line in shown if any(part in re.sub(r"\b[0-9a-f]{6,}\b", "", line.lower()) for part in parts)]


@pytest.mark.slow
def test_every_trace_is_removed_and_everything_else_stays(ann: Person) -> None:
    ann.put("before", summary="Not affected.")
    kept = ann.tip
    ann.put("a", summary="Billing", content=f'The key is "{SECRET}".\nAsk Bob.', tags=["billing"])
    ann.put("a", content="The key is in the vault.", expect_version=1)
    ann.put(f"{SECRET.split('/')[0]}-usage", summary="named after it")
    ann.call("put", changes=[{"op": "upsert", "uri": "concept://infra/b", "summary": "b"}], message=f"use {SECRET}")
    git_dir = ann.workspace.layout.git_dir
    ann.published()
    git(git_dir, "tag", "-a", "v1", "-m", f"with {SECRET}")
    before, count = ann.tip, int(git(git_dir, "rev-list", "--count", "HEAD"))
    assert holding(git_dir)
    answer = ann.call("forget", secret=f"{SECRET}\ntok-Zq81xwp3", reason="it leaked")
    assert answer["before"] == before
    assert answer["rewritten"] == 4
    assert "nodes/concept/a.yaml" in answer["files"]
    assert holding(git_dir) == []
    assert SECRET not in str(answer)
    assert git(git_dir, "cat-file", "-t", kept) == "commit"
    assert git(git_dir, "merge-base", "--is-ancestor", kept, "HEAD") == ""
    assert int(git(git_dir, "rev-list", "--count", "HEAD")) == count + 1
    assert ann.tip == answer["commit"]
    first = ann.call("history", uri="concept://infra/a")["commits"][-1]["commit"]
    old = ann.call("get", uris=["concept://infra/a"], as_of=first)["nodes"][0]
    assert old["content"] == 'The key is "REMOVED".\nAsk Bob.'
    assert ann.has("REMOVED-usage")
    assert git(ann.work_tree, "status", "--porcelain") == ""
    assert git(git_dir, "fsck", "--strict") == ""
    assert ann.call("fsck")["ok"]
    record = git(git_dir, "show", "--no-patch", "--format=%B", answer["commit"])
    assert record.startswith("forget a secret: it leaked")
    assert f"Kgd-Forgets: {before}" in record


@pytest.mark.slow
@pytest.mark.parametrize(
    ("secret", "parts"),
    [
        ("tr0ub4dor-Horse-77", ["tr0ub4dor", "horse"]),
        ("Kx9vQ-Pull7mZ", ["kx9vq", "pull7mz"]),
        ("Blue.Horse_4471x", ["blue", "horse", "4471"]),
        ("Zq81xwp3Kx9vQ44bbTrewq" * 2, ["zq81xwp3"]),
        ("Trustnoone", ["trustnoone"]),
        ("correct horse battery staple", ["correct", "horse", "battery", "staple"]),
    ],
)
def test_names_tags_and_subjects_that_kgd_made_from_the_secret_are_removed(
    ann: Person, secret: str, parts: list[str]
) -> None:
    for text in (
        f"Staging login is admin / {secret}",
        f"Staging login is admin / {secret} too",
        f"Since the move of the cluster, all of us in the team on duty log in to staging with this text: {secret}",
        secret,
    ):
        ann.call("remember", text=text)
    ann.call("remember", text="Staging login is by key")
    ann.call("remember", text="Login", detail=f"The text is {secret}.")
    ann.published()
    git_dir = ann.workspace.layout.git_dir
    assert derived(git_dir, parts)
    forget(ann, secret)
    assert derived(git_dir, parts) == []
    assert len(ann.call("get", uris=["insight://infra/staging-login-is-by-key"])["nodes"]) == 1
    assert len(ann.workspace.graph) == 6
    assert ann.call("fsck")["ok"]
    assert git(ann.work_tree, "status", "--porcelain") == ""


def test_a_tag_that_has_another_source_than_the_secret_stays(ann: Person) -> None:
    ann.call("remember", text="The stable of the Horse has the code tr0ub4dor-Horse-77")
    ann.call("remember", text="A horse eats hay")
    forget(ann, "tr0ub4dor-Horse-77")
    answer = ann.call("get", uris=["insight://infra/a-horse-eats-hay", "insight://infra/the-stable-of-the-horse-has"])
    assert ["horse" in node["tags"] for node in answer["nodes"]] == [True, True]


@pytest.mark.slow
def test_the_name_of_a_conversation_loses_the_secret(ann: Person, tmp_path: Path) -> None:
    talk = {"messages": [{"role": "user", "content": f"Please log in with {LONG}, and look."}]}
    (tmp_path / "talk.json").write_text(json.dumps(talk))
    ann.call("ingest", source=str(tmp_path / "talk.json"))
    ann.published()
    git_dir = ann.workspace.layout.git_dir
    assert derived(git_dir, ["zq81xwp3"])
    forget(ann, LONG)
    assert derived(git_dir, ["zq81xwp3"]) == []
    assert ann.call("fsck")["ok"]


@pytest.mark.slow
def test_names_that_become_equal_stay_apart(ann: Person) -> None:
    for name in ("first-secret", "other-secret"):
        ann.put(name, summary=name)
    forget(ann, "first-secret")
    forget(ann, "other-secret")
    assert (ann.summary("REMOVED"), ann.summary("REMOVED-2")) == ("REMOVED", "REMOVED")
    assert ann.call("fsck")["ok"]


def test_a_secret_that_its_replacement_would_form_again_is_removed(ann: Person) -> None:
    ann.put("a", summary="k: Daaaaaaaaaaaaaaaa")
    forget(ann, "Daaaaa")
    assert "Daaaaa" not in str(ann.summary("a"))
    record = git(ann.workspace.layout.git_dir, "log", "-1", "--format=%b", ann.tip)
    assert record.startswith("Rewrote 1 commit. The secret was in:\n- nodes/concept/a.yaml")
    assert holding(ann.workspace.layout.git_dir, "Daaaaa") == []


def test_comments_on_a_proposal_stay(ann: Person) -> None:
    ann.put("a", summary=SECRET)
    made = proposals.propose(
        ann.workspace, change(Upsert(Uri("concept://infra/b"), summary=SECRET)), bytes.fromhex(ann.tip), holder="bob"
    )[0]
    ann.call("comment", name=made.name, text=f"why {SECRET}?")
    forget(ann)
    (one,) = ann.call("proposals", name=made.name)["proposals"]
    assert [said["text"] for said in one["discussion"]] == ["why REMOVED?"]
    assert holding(ann.workspace.layout.git_dir) == []


def test_a_rehearsal_changes_nothing(ann: Person) -> None:
    ann.put("a", summary=SECRET)
    tip = ann.tip
    assert forget(ann, dry_run=True)["files"] == ["nodes/concept/a.yaml"]
    assert ann.tip == tip
    assert ann.summary("a") == SECRET


@pytest.mark.slow
def test_an_undo_leaves_the_list_of_removed_commits_alone(ann: Person) -> None:
    ann.put("a", summary=f"The key is {SECRET}.")
    ann.put("b", summary="Newer.")
    removal = forget(ann)["commit"]
    assert "put concept://infra/b" in str(ann.call("undo"))
    assert rewriting.FORGOTTEN in str(ann.call("revert", commit=removal)["warnings"])
    assert rewriting.FORGOTTEN in git(ann.workspace.layout.git_dir, "ls-tree", "--name-only", ann.tip)


def test_an_earlier_request_is_still_applied_only_once(ann: Person) -> None:
    ann.put("a", summary=SECRET)
    change = {"changes": [{"op": "append", "uri": "concept://infra/a", "text": "once"}]}
    ann.call("put", **change, request_id="one")
    forget(ann)
    assert ann.call("put", **change, request_id="one")["repeated"]
    assert (ann.node("a") or {})["content"] == "once\n"


@pytest.mark.slow
def test_an_old_clone_neither_merges_nor_brings_the_secret_back(ann: Person, bob: Person, hub: Path) -> None:
    ann.put("a", summary=SECRET)
    ann.share(hub, sync=0)
    bob.share(hub, sync=0)
    bob.sync()
    bob.put("b", summary="not sent")
    answer = forget(ann, push=True)
    assert answer["remotes"] == [{"name": "origin", "pushed": True}]
    assert git(hub, "rev-parse", "main") == answer["commit"]
    git(hub, "reflog", "expire", "--expire=now", "--all")
    git(hub, "gc", "-q", "--prune=now")
    assert holding(hub) == []
    said = bob.sync(confirm="yes")
    assert said["state"] != "ok"
    assert "removed a secret from its history" in str(said)
    assert git(hub, "rev-parse", "main") == answer["commit"]
    assert bob.summary("b") == "not sent"
    # Bob merges by hand with plain git, and pushes the result past kgd.
    bob.published()
    git(bob.work_tree, "fetch", "-q", "origin", "main")
    git(bob.work_tree, "merge", "-q", "-s", "ort", "-X", "ours", "-m", "both", "FETCH_HEAD")
    until(lambda: bob.stage("publish")["state"] == "blocked")
    assert "kgd forget" in str(bob.stage("publish"))
    git(bob.work_tree, "push", "-q", "origin", "HEAD:main")
    assert "still contains a secret" in str(ann.sync())
    assert holding(ann.workspace.layout.git_dir) == []


@pytest.mark.slow
@pytest.mark.parametrize("in_code", [True, False], ids=["in code", "separate"])
def test_the_command_that_sync_shows_replaces_an_old_clone(tmp_path: Path, hub: Path, in_code: bool) -> None:
    """The command runs in a shell, with real daemons."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/kgd"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m kgd.cli "$@"\n')
    program.chmod(0o755)
    trees = {name: tmp_path / f"its {name}" for name in ("ann", "bob")}

    def run(name: str, script: str, input: str = "") -> str:
        paths = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
        environment = {**os.environ, **paths, "KGD_HOME": str(tmp_path / f"{name}-home")}
        command = ["sh", "-c", script]
        done = subprocess.run(
            command, cwd=trees[name], env=environment, input=input, capture_output=True, text=True, check=False
        )
        assert done.returncode in (0, 12), done.stderr  # 12 if the remote waits for a decision
        return done.stdout + done.stderr

    up = "kgd up --id infra" if in_code else "kgd up --standalone --id infra"
    try:
        for name, tree in trees.items():
            if not in_code:
                tree.mkdir()
            elif name == "ann":
                git(tmp_path, "init", "-q", "-b", "main", str(tree))
                git(tree, "commit", "-q", "--allow-empty", "-m", "code")
                git(tree, "remote", "add", "origin", str(hub))
                git(tree, "push", "-q", "origin", "main")
            else:
                git(tmp_path, "clone", "-q", str(hub), str(tree))
            run(name, "kgd status || kgd status || kgd status; true")  # a busy machine starts a daemon slowly
            run(name, f"{up} && kgd remote add origin '{hub}'" + (" --ref refs/heads/notes" if not in_code else ""))
            if name == "ann":
                run(name, "kgd remember 'Staging is tr0ub4dor-Horse-77' && kgd sync")
        assert "tr0ub4dor" in run("bob", "kgd sync; kgd recall staging")
        assert "REMOVED" in run("ann", "kgd sync; kgd forget --push; kgd recall staging", "tr0ub4dor-Horse-77\n")
        (command,) = re.findall(r"then `([^`]+)`", run("bob", "kgd sync"))[:1]
        run("bob", command)
        said = run("bob", "kgd sync; kgd recall staging; kgd status")
        assert "REMOVED" in said
        assert "removed a secret" not in said
        kept = trees["bob"] / (".git/kgd" if in_code else ".git")
        assert derived(kept, ["tr0ub4dor"]) == []
        assert not list((trees["bob"] / ".git").glob("kgd.removed*"))
        assert "ok" in run("ann", "kgd sync")
    finally:
        for name in trees:
            end_daemon(Home.at(str(tmp_path / f"{name}-home")))


@pytest.mark.slow
def test_a_server_refuses_a_push_that_brings_the_secret_back(ann: Person, tmp_path: Path) -> None:
    ann.put("a", summary=SECRET)
    ann.published()
    copy = bare(tmp_path / "copy.git")
    git(ann.workspace.layout.git_dir, "push", "-q", str(copy), "main")
    forget(ann)
    layout = ann.workspace.layout
    git(layout.git_dir, "fetch", "-q", str(copy), "main:refs/heads/old")
    tree = git(layout.git_dir, "rev-parse", "main^{tree}")
    merged = git(layout.git_dir, "commit-tree", "-p", "main", "-p", "old", "-m", "both", tree)
    store = ann.workspace.store
    update = RefUpdate(layout.branch, bytes.fromhex(ann.tip), bytes.fromhex(merged))
    with pytest.raises(Forbidden, match="which `kgd forget` removed"):
        check_push(Pushed(store, None, read_settings(layout, store), layout.branch), [update])


@pytest.mark.slow
@pytest.mark.parametrize("is_removed", [False, True], ids=["with the removal", "later"])
def test_a_push_drops_no_commit_of_another_clone(ann: Person, bob: Person, hub: Path, is_removed: bool) -> None:
    ann.put("a", summary=SECRET)
    ann.share(hub, sync=0)
    ann.sync()
    if is_removed:
        forget(ann)
    bob.share(hub, sync=0)
    bob.sync()
    bob.put("b", summary="b")
    bob.sync()
    there = git(hub, "rev-parse", "main")
    with pytest.raises(Unavailable, match="does not have the same commits"):
        forget(ann, push=True)
    assert git(hub, "rev-parse", "main") == there
    assert ann.summary("a") == ("REMOVED" if is_removed else SECRET)


@pytest.mark.slow
@pytest.mark.parametrize("with_another", [False, True], ids=["nothing left", "another secret"])
def test_a_removal_is_pushed_by_a_later_call(ann: Person, bob: Person, hub: Path, with_another: bool) -> None:
    ann.put("a", summary=SECRET)
    ann.share(hub, sync=0)
    ann.sync()
    old = git(hub, "rev-parse", "main")
    forget(ann)
    assert "still contains a secret" in str(ann.sync())
    ann.put("b", summary=f"later {LONG}" if with_another else "later")
    answer = forget(ann, LONG if with_another else SECRET, push=True)
    assert answer["remotes"] == [{"name": "origin", "pushed": True}]
    assert answer["rewritten"] == (1 if with_another else 0)
    assert git(hub, "rev-parse", "main") == ann.tip != old
    bob.share(hub, sync=0)
    bob.sync()
    assert (bob.summary("a"), bob.summary("b")) == ("REMOVED", "later REMOVED" if with_another else "later")
    ann.published()
    with pytest.raises(NotFound, match="nothing in this workspace contains"):
        forget(ann, push=True)


@pytest.mark.slow
def test_proposals_and_conflicts_lose_the_secret_and_stay_open(ann: Person, bob: Person, hub: Path) -> None:
    ann.put("a", summary="a")
    ann.share(hub, sync=0)
    bob.share(hub, sync=0)
    bob.sync()
    ann.put("a", summary=f"ours {SECRET}")
    bob.put("a", summary="theirs")
    bob.sync()
    ann.sync()
    assert len(ann.call("conflicts")["conflicts"]) == 1
    ann.published()
    git(ann.work_tree, "branch", "proposals/x", "HEAD~1")
    forget(ann)
    assert holding(ann.workspace.layout.git_dir) == []
    (one,) = ann.call("conflicts")["conflicts"]
    assert {"ours REMOVED", "theirs"} == {side["value"] for side in one["fields"]["summary"]["sides"]}
    assert ann.call("fsck")["ok"]


@pytest.mark.slow
@pytest.mark.parametrize(("room", "step"), [(refs, "move_refs"), (rewriting, "scrub")], ids=["refs", "objects"])
def test_an_interrupted_removal_is_completed_by_the_same_call(
    ann: Person, monkeypatch: pytest.MonkeyPatch, room: ModuleType, step: str
) -> None:
    ann.put("a", summary=SECRET)
    git_dir = ann.workspace.layout.git_dir

    def killed(*arguments: object) -> None:
        raise Unavailable("killed here")

    with monkeypatch.context() as patched:
        patched.setattr(room, step, killed)
        with pytest.raises(Unavailable, match="killed here"):
            forget(ann)
    ann.restart()
    assert holding(git_dir)
    ann.workspace.settle()  # the work tree's files are staged, if the refs had not moved
    until(lambda: ann.summary("a") == "REMOVED")
    forget(ann)
    assert holding(git_dir) == []
    assert ann.summary("a") == "REMOVED"
    assert git(git_dir, "log", "--format=%s").count("forget a secret") == 1


@pytest.mark.slow
@pytest.mark.parametrize("is_killed", [False, True])
def test_an_interrupted_move_of_the_work_tree_deletes_no_nodes(
    ann: Person, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    for name in ("a", "b", f"{SECRET[:11]}-c"):
        ann.put(name, summary=SECRET)
    ann.published()
    run, folder = index_file.run_in_work_tree, ann.work_tree / "nodes/concept"

    def broken(layout: Layout, *arguments: str) -> bytes:
        if arguments[0] == "checkout-index" and is_killed:
            raise Unavailable("killed here")
        if "-m" not in arguments:
            return run(layout, *arguments)
        (folder / "a.yaml").unlink()
        (folder / "b.yaml").write_text("uri: conc")
        (folder / "REMOVED-c.yaml").write_text("uri: concept://infra/REMOVED-c\nsummary: new\n")
        (layout.git_dir / "index.lock").touch()
        raise Unavailable("killed here")

    with monkeypatch.context() as patched:
        patched.setattr(index_file, "run_in_work_tree", broken)
        with pytest.raises(Unavailable, match="killed here"):
            ann.call("forget", secret=f"{SECRET}\n{SECRET[:11]}")
        ann.daemon.close()
    ann.restart()
    assert [ann.summary(name) for name in ("a", "b", f"{SECRET[:11]}-c")] == [SECRET] * 3
    assert git(ann.work_tree, "status", "--porcelain") == ""
    forget(ann, f"{SECRET}\n{SECRET[:11]}")
    assert [ann.summary(name) for name in ("a", "b", "REMOVED-c")] == ["REMOVED"] * 3


@pytest.mark.slow
@pytest.mark.needs("ssh-keygen")
def test_the_record_is_signed_and_vouches_for_what_was_signed(ann: Person, tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    key = new_key(tmp_path / "keys", "ann")
    ann.put("early", summary="nobody signed this")
    ann.put("early", summary=SECRET)
    signing(ann, key)
    commit_file(ann.workspace, "allowed_signers", allow(key))
    commit_file(ann.workspace, "kgd.yaml", (ann.work_tree / "kgd.yaml").read_text() + "signatures: required\n")
    ann.put("a", summary=SECRET)
    ann.published()
    before = ann.call("verify_history")
    assert before["ok"]
    assert forget(ann)["signed"]
    after = ann.call("verify_history", all=True)
    assert after["ok"]
    assert after["counts"]["unsigned"] == before["counts"]["unsigned"]
    assert after["counts"]["attested"] == 3
    assert holding(ann.workspace.layout.git_dir) == []


def dirty(person: Person) -> None:
    commit_file(person.workspace, "README.md", "read me\n")
    person.published()
    (person.work_tree / "README.md").write_text("changed\n")


def stashed(person: Person) -> None:
    dirty(person)
    git(person.work_tree, "stash", "-q")


def importing(person: Person) -> None:
    job = Job("1", "x", "auto", "", ("Ann", "", ""), began=0.0)
    path = person.workspace.layout.derived_dir / FILE
    path.write_text(json.dumps({"jobs": [asdict(job)], "roots": {}}))


def detached(person: Person) -> None:
    person.published()
    git(person.work_tree, "checkout", "-q", "--detach")


@pytest.mark.parametrize(
    ("arrange", "secret", "refusal", "says"),
    [
        (lambda person: None, "REMOVED", Invalid, "which replaces it"),
        (lambda person: None, "workspace", Invalid, "settings need this text"),
        (lambda person: None, "kgd.yaml", Invalid, "settings need this text"),
        (lambda person: None, "concept:", Invalid, "would not be a valid node"),
        (lambda person: None, "summary", Invalid, "kgd's own files need the word"),
        (lambda person: None, "forget a secret", Invalid, "the record of the removal would contain the secret"),
        (lambda person: None, "abc", Invalid, "at least 6 are needed"),
        (lambda person: None, " \n ", Invalid, "the secret is empty"),
        (lambda person: None, "not in here", NotFound, "nothing in this workspace"),
        (dirty, SECRET, Unavailable, "not committed"),
        (stashed, SECRET, Unavailable, "stashed changes"),
        (detached, SECRET, Unavailable, "detached"),
        (importing, SECRET, Unavailable, "an import is running"),
    ],
)
def test_what_cannot_be_removed_safely_is_refused(
    ann: Person, arrange: Callable[[Person], None], secret: str, refusal: type[KgdError], says: str
) -> None:
    ann.put("a", summary=f"forget a secret {SECRET}")
    arrange(ann)
    tip = ann.tip
    with pytest.raises(refusal, match=says):
        ann.call("forget", secret=secret)
    assert ann.tip == tip
    assert ann.summary("a") == f"forget a secret {SECRET}"

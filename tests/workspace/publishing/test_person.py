"""A person and the daemon in one work tree: no edit is lost, and no command fails except where git itself refuses."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kgd.errors import KgdError
from kgd.git.layout import locate
from kgd.model.change import Upsert
from kgd.workspace.publishing.adoption import adopt
from kgd.workspace.workspace import Workspace
from tests.builders import ANN, change, upsert, uri
from tests.waiting import until
from tests.workspace.people import Desk, Watcher, code_layout, git, node_text, open_desk

pytestmark = pytest.mark.slow

NODES = 40
RATE = 30


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    nodes = (upsert(f"n{i}", name=f"N{i}", summary="start", data={"agent": 0}) for i in range(NODES))
    with open_desk(code_layout(tmp_path / "code"), *nodes) as desk:
        watcher = Watcher(desk.ws)
        yield desk
        watcher.stop()


class Agents:
    """Thirty acknowledged writes a second, in fields that the person does not edit."""

    def __init__(self, desk: Desk, seed: int) -> None:
        self.last: dict[int, int] = {}
        self.written = 0
        self._desk, self._random, self._stop = desk, random.Random(seed), threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(1 / RATE):
            node = self._random.randrange(NODES)
            self.written += 1
            self._desk.ws.submit(change(Upsert(uri(f"n{node}"), data={"agent": self.written})))
            self.last[node] = self.written

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def save(desk: Desk, node: int, summary: str, style: int) -> str:
    """Change one field of a file, in one of three ways of saving."""
    path = desk.file(f"n{node}")
    lines = path.read_text().splitlines(keepends=True)
    text = "".join(f"summary: {summary}\n" if line.startswith("summary:") else line for line in lines)
    assert summary in text
    if style == 0:
        with open(path, "r+") as file:  # in place, keeping the inode
            file.write(text)
            file.truncate()
    elif style == 1:
        temporary = path.with_name(f".{path.name}.tmp")
        temporary.write_text(text)
        os.replace(temporary, path)
    else:
        with open(path, "w") as file:  # truncated, half written, then the rest
            file.write(text[:30])
            file.flush()
            time.sleep(0.03)
            file.write(text[30:])
    desk.ws.hint([str(path)])
    return text


def edit_for(desk: Desk, seconds: float, seed: int) -> None:
    print("seed", seed)
    chance, agents = random.Random(seed), Agents(desk, seed)
    wanted: dict[int, str] = {}
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        count += 1
        node = chance.randrange(NODES)
        wanted[node] = f"word{count}"
        try:
            save(desk, node, wanted[node], chance.randrange(3))
        except FileNotFoundError:
            wanted.pop(node)
        time.sleep(chance.uniform(0, 0.2))
    agents.stop()
    desk.published()
    time.sleep(1.5)  # displaced files are examined after a second
    desk.published()
    shown = {
        str(c.uri): c.conflict.fields["summary"].sides
        for c in desk.ws.conflicts.find()
        if "summary" in c.conflict.fields
    }
    for node, word in wanted.items():
        found = desk.ws.node(uri(f"n{node}"))
        assert found is not None
        assert found.summary == word or word in shown.get(str(found.uri), ()), (word, found, shown)
    for node, value in agents.last.items():
        found = desk.ws.node(uri(f"n{node}"))
        assert found is not None
        assert found.data["agent"] == value
    assert len(shown) <= 2 + count / 20, "a save that a publication swapped out is a rare thing"
    assert desk.ws.invalid_files() == ()
    assert desk.fsck() == []


@pytest.mark.requirement("B11")
def test_no_save_in_any_style_is_lost_beside_thirty_writes_a_second(desk: Desk) -> None:
    edit_for(desk, 2, seed=11)


@pytest.mark.slow
def test_no_save_is_lost_in_a_longer_run(desk: Desk) -> None:
    edit_for(desk, 10, seed=time.time_ns() % 100_000)


@pytest.mark.soak
def test_no_save_is_lost_in_a_long_run(desk: Desk) -> None:
    edit_for(desk, 300, seed=time.time_ns() % 100_000)


GIT_REFUSES = ("would be overwritten", "You have unstaged changes", "CONFLICT", "could not apply", "needs merge")
"""Errors of git itself while others write; a second error about kgd's lock is not among them."""


class Script:
    """A person's commands in random order. Each edit has a unique word, which must stay in history."""

    def __init__(self, desk: Desk, seed: int) -> None:
        self.desk, self.chance = desk, random.Random(seed)
        self.done: Counter[str] = Counter()
        self.failed: list[str] = []
        self.commands = self.met = 0
        self.saved: list[tuple[int, str]] = []
        self.committed: set[str] = set()

    def save(self) -> str:
        """A file of the person, which agents do not write, saved the usual way."""
        node, word = self.chance.randrange(NODES, NODES + 8), f"word{len(self.saved)}x"
        path = self.desk.file(f"n{node}")
        path.write_text(node_text(f"n{node}", name="Mine", summary=word))
        self.saved.append((node, word))
        return word

    def git(self, *words: str, env: dict[str, str] | None = None) -> bool:
        self.commands += 1
        said = self.desk.git(*words, check=False, env=env)
        if "index.lock" in said:  # kgd was placing files: git does not wait, and a person repeats the command
            self.met += 1
            until(lambda: not (self.desk.layout.git_dir / "index.lock").exists())
            said = self.desk.git(*words, check=False, env=env)
        if not said.startswith("0"):
            self.failed.append(f"{' '.join(words)}: {said}")
        return said.startswith("0")

    def commit(self) -> None:
        word = self.save()
        if self.git("add", "-A", "nodes") and self.git("commit", "-qm", word, "--allow-empty"):
            self.committed.add(word)

    def commit_all(self) -> None:
        word = self.save()
        if self.git("commit", "-qam", word, "--allow-empty") and not self.desk.git("status", "--porcelain"):
            self.committed.add(word)

    def rebase(self) -> None:
        self.commit()
        self.commit()
        if not self.git("rebase", "-q", "-i", "HEAD~1", env={"GIT_SEQUENCE_EDITOR": "sed -i 's/^pick/reword/'"}):
            self.desk.git("rebase", "--abort", check=False)

    def branch(self) -> None:
        name = f"b{len(self.saved)}"
        self.git("switch", "-qc", name)
        self.commit()
        time.sleep(self.chance.uniform(0, 0.4))
        self.git("switch", "-q", "kgd")
        if not self.git("merge", "-q", "--no-edit", name):
            self.desk.git("merge", "--abort", check=False)
        if self.desk.git("symbolic-ref", "--short", "HEAD").strip() != "kgd":
            self.desk.git("switch", "-qf", "kgd")

    def stash(self) -> None:
        self.save()
        self.git("add", "-A", "nodes")
        if self.git("stash", "-q") and self.desk.git("stash", "list"):
            time.sleep(self.chance.uniform(0, 0.4))
            if not self.git("stash", "pop", "-q"):
                self.desk.git("checkout", "-qf", "stash@{0}", "--", "nodes")
                self.desk.git("stash", "drop", "-q")

    def leave(self) -> None:
        self.save()

    def run(self, seconds: float) -> None:
        acts = [self.commit, self.commit_all, self.rebase, self.branch, self.stash, self.leave]
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            act = self.chance.choice(acts)
            act()
            self.done[act.__name__] += 1
            time.sleep(self.chance.uniform(0.1, 1.0))

    def lost(self, history: str) -> list[str]:
        """Lost words, except for those the person overwrote before they could be seen."""
        missing = []
        for at, (node, word) in enumerate(self.saved):
            saved_over = any(node == other for other, _ in self.saved[at + 1 :])
            if word not in history and (word in self.committed or not saved_over):
                missing.append(word)
        return missing


def work_for(desk: Desk, seconds: float, seed: int) -> None:
    print("seed", seed)
    agents, script = Agents(desk, seed), Script(desk, seed)
    script.run(seconds)
    while agents.written <= 10 * seconds:  # a busy machine writes less often
        script.run(1)
    agents.stop()
    desk.git("reset", "-q")  # unstage what `git stash pop` has staged, so that kgd need not wait for a commit
    desk.published()
    print(
        dict(script.done),
        "agents",
        agents.written,
        "saved",
        len(script.saved),
        "met a lock",
        script.met,
        "refused",
        script.failed,
    )
    assert not script.lost(desk.git("log", "-p", "-m", "--format=%s", "refs/kgd/head", "--", "nodes"))
    assert [line for line in script.failed if not any(reason in line for reason in GIT_REFUSES)] == []
    assert script.met <= 1 + script.commands / 5, "kgd holds git's lock so long that a person notices"
    for number, value in agents.last.items():
        node = desk.ws.node(uri(f"n{number}"))
        assert node is not None
        assert node.data["agent"] == value
    _only_kgd_went_forward(desk)
    assert desk.fsck() == []


def _only_kgd_went_forward(desk: Desk) -> None:
    """Every branch move by kgd led to a descendant of the person's commit."""
    log = (desk.layout.git_dir / "logs" / desk.layout.branch).read_text().splitlines()
    ours = [line.split()[:2] for line in log if line.endswith("kgd: publish")]
    assert ours
    for old, new in ours:
        git(desk.layout.git_dir, "merge-base", "--is-ancestor", old, new)


@pytest.mark.requirement("B11")
@pytest.mark.requirement("E14")
def test_a_persons_git_commands_and_thirty_writes_a_second_do_not_hurt_each_other(desk: Desk) -> None:
    work_for(desk, 3, seed=5)


@pytest.mark.slow
def test_a_persons_git_commands_in_a_longer_run(desk: Desk) -> None:
    work_for(desk, 12, seed=time.time_ns() % 100_000)


@pytest.mark.soak
def test_a_persons_git_commands_in_a_long_run(desk: Desk) -> None:
    work_for(desk, 600, seed=time.time_ns() % 100_000)


@pytest.mark.requirement("E14")
def test_two_people_with_plain_git_edit_different_fields_of_a_hundred_nodes_without_conflict(
    tmp_path: Path,
) -> None:
    """Bob has neither kgd nor a merge driver: files hold nothing volatile, so git's own merge works."""
    ann = Desk(Workspace.open(code_layout(tmp_path / "ann")))
    fields: dict[str, Any] = {"summary": "start", "tags": ("t",), "content": "Prose.\n", "data": {"importance": "low"}}
    ann.ws.submit(change(*(upsert(f"n{i}", name=f"N{i}", **fields) for i in range(100))))
    ann.published()
    bob = tmp_path / "bob"
    git(tmp_path, "clone", "-q", "-b", "kgd", str(ann.layout.git_dir), str(bob))
    for i in range(100):
        file = bob / ann.ws.path(uri(f"n{i}"))
        file.write_text(file.read_text().replace("importance: low", "importance: high"))
    git(bob, "commit", "-qam", "importance")
    ann.ws.submit(change(*(upsert(f"n{i}", summary=f"by Ann {i}") for i in range(100))))
    ann.published()
    assert "CONFLICT" not in _merge_in_plain_git(ann, bob)
    ann.git("pull", "-q", "--no-rebase", str(bob), "trial")
    for i in range(100):
        ann.serves(f"n{i}", "summary", f"by Ann {i}")
        ann.serves(f"n{i}", "data", {"importance": "high"})
    assert ann.ws.conflicts.find() == ()
    assert ann.ws.invalid_files() == ()
    ann.ws.close()


def test_edits_on_neighbouring_lines_that_git_calls_a_conflict_are_none_for_kgd(tmp_path: Path) -> None:
    """Two clones push to one bare repository, the second after a plain fetch."""
    ann = Desk(Workspace.open(code_layout(tmp_path / "ann")))
    ann.ws.submit(change(*(upsert(f"n{i}", name=f"N{i}", summary="start", tags=("t",)) for i in range(100))))
    ann.published()
    middle = tmp_path / "middle.git"
    git(tmp_path, "clone", "-q", "--bare", str(ann.layout.git_dir), str(middle))
    bob = tmp_path / "bob"
    git(tmp_path, "clone", "-q", "-b", "kgd", str(middle), str(bob))
    for i in range(100):
        file = bob / ann.ws.path(uri(f"n{i}"))
        file.write_text(file.read_text().replace("summary: start", f"summary: by Bob {i}"))
    git(bob, "commit", "-qam", "summaries")
    git(bob, "push", "-q", "origin", "kgd")
    for i in range(100):
        file = ann.file(f"n{i}")
        file.write_text(file.read_text().replace(f"name: N{i}", f"name: Ann {i}"))
    ann.git("commit", "-qam", "names")
    ann.git("fetch", "-q", str(middle), "kgd:refs/remotes/bob/kgd")
    theirs = ann.ref("refs/remotes/bob/kgd")
    # Plain git would refuse: every file was edited on neighbouring lines. Merging their branch is kgd's merge.
    assert "CONFLICT" in _merge_in_plain_git(ann, bob)
    _bring_in(ann.ws, theirs)
    for i in range(100):
        ann.serves(f"n{i}", "name", f"Ann {i}")
        ann.serves(f"n{i}", "summary", f"by Bob {i}")
    assert ann.ws.conflicts.find() == ()
    ann.published()
    ann.ws.close()


def _merge_in_plain_git(ann: Desk, bob: Path) -> str:
    git(bob, "fetch", "-q", str(ann.layout.git_dir), "kgd:refs/remotes/ann/kgd")
    git(bob, "switch", "-qc", "trial")
    said = git(bob, "merge", "refs/remotes/ann/kgd", check=False)
    conflicts = git(bob, "diff", "--name-only", "--diff-filter=U").splitlines()
    return said + (" CONFLICT" if conflicts else "")


def _bring_in(ws: Workspace, theirs: str) -> None:
    ws.run(adopt(ws, None, bytes.fromhex(theirs), ANN, 1_700_000_000), alone=True)


def test_a_second_daemon_is_refused_while_a_person_works(desk: Desk) -> None:
    layout = locate(desk.tree)
    assert layout is not None
    with pytest.raises(KgdError):
        Workspace.open(layout)

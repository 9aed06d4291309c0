"""A person and the daemon in one work tree: nothing of either is lost, and no command fails that git would not refuse."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgd.errors import KgdError
from kgd.git.layout import locate
from kgd.model.change import Upsert
from kgd.workspace.workspace import Workspace
from tests.builders import change, upsert, uri
from tests.workspace.people import Desk, Watcher, code_layout, eventually, git, node_text

NODES = 40
RATE = 30


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    ws = Workspace.open(code_layout(tmp_path / "code"))
    ws.submit(change(*(upsert(f"n{i}", name=f"N{i}", summary="start", data={"agent": 0}) for i in range(NODES))))
    desk = Desk(ws)
    desk.published()
    watcher = Watcher(ws)
    yield desk
    watcher.stop()
    ws.close()


class Agents:
    """Thirty acknowledged writes a second, each to a field that the person leaves alone."""

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
    """Set one field of a file as it is now, in one of three ways of saving."""
    path = desk.file(f"n{node}")
    lines = path.read_text().splitlines(keepends=True)
    text = "".join(f"summary: {summary}\n" if line.startswith("summary:") else line for line in lines)
    assert summary in text
    if style == 0:
        with open(path, "r+") as file:  # in place, which leaves the inode
            file.write(text)
            file.truncate()
    elif style == 1:
        temporary = path.with_name(f".{path.name}.tmp")
        temporary.write_text(text)
        os.replace(temporary, path)
    else:
        with open(path, "w") as file:  # truncated, written half, then the rest
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
    for node, word in wanted.items():
        desk.serves(f"n{node}", "summary", word)
    desk.published()
    lost = {
        n: (v, found.data) for n, v in agents.last.items() if (found := desk.ws.node(uri(f"n{n}"))).data["agent"] != v
    }  # type: ignore[union-attr]
    assert not lost
    assert desk.ws.conflicts() == ()
    assert desk.ws.invalid_files() == ()
    assert desk.fsck() == ""


@pytest.mark.requirement("B11")
def test_no_save_in_any_style_is_lost_beside_thirty_writes_a_second(desk: Desk) -> None:
    edit_for(desk, 3, seed=11)


@pytest.mark.slow
def test_no_save_is_lost_in_a_longer_run(desk: Desk) -> None:
    edit_for(desk, 20, seed=time.time_ns() % 100_000)


@pytest.mark.soak
def test_no_save_is_lost_in_a_long_run(desk: Desk) -> None:
    edit_for(desk, 300, seed=time.time_ns() % 100_000)


class Script:
    """A person's commands in an order of chance. Each edit has a word of its own, which must stay in history."""

    def __init__(self, desk: Desk, seed: int) -> None:
        self.desk, self.chance = desk, random.Random(seed)
        self.done: Counter[str] = Counter()
        self.failed: list[str] = []
        self.words: list[str] = []

    def word(self) -> str:
        """An edit of a file that nobody else writes, saved the usual way."""
        self.words.append(f"word{len(self.words)}x")
        self.node = self.chance.randrange(NODES, NODES + 8)
        path = self.desk.file(f"n{self.node}")
        path.write_text(node_text(f"n{self.node}", name="Mine", summary=self.words[-1]))
        return self.words[-1]

    def git(self, *words: str, env: dict[str, str] | None = None) -> bool:
        said = self.desk.git(*words, check=False, env=env)
        if not said.startswith("0"):
            self.failed.append(f"{' '.join(words)}: {said}")
            return False
        return True

    def commit(self) -> None:
        self.word()
        self.git("add", "-A", "nodes")
        self.git("commit", "-qm", self.words[-1], "--allow-empty")

    def rebase(self) -> None:
        for _ in range(2):
            self.commit()
        self.git("rebase", "-q", "-i", "HEAD~1", env={"GIT_SEQUENCE_EDITOR": "sed -i 's/^pick/reword/'"})

    def branch(self) -> None:
        name = f"b{len(self.words)}"
        self.git("switch", "-qc", name)
        self.commit()
        time.sleep(self.chance.uniform(0, 0.4))
        self.git("switch", "-q", "kgd")
        self.git("merge", "-q", "--no-edit", name)

    def stash(self) -> None:
        self.word()
        self.git("add", "-A", "nodes")
        if self.git("stash", "-q"):
            time.sleep(self.chance.uniform(0, 0.4))
            if self.desk.git("stash", "list"):
                self.git("stash", "pop", "-q")

    def leave(self) -> None:
        self.word()

    def run(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            act = self.chance.choice([self.commit, self.rebase, self.branch, self.stash, self.leave])
            act()
            self.done[act.__name__] += 1
            time.sleep(self.chance.uniform(0.3, 1.0))


def work_for(desk: Desk, seconds: float, seed: int) -> None:
    print("seed", seed)
    watching, moves = threading.Event(), list[str]()

    def watch() -> None:
        while not watching.wait(0.02):
            moves.append(desk.ref(desk.layout.branch))

    observer, agents, script = threading.Thread(target=watch), Agents(desk, seed), Script(desk, seed)
    observer.start()
    script.run(seconds)
    agents.stop()
    desk.published()
    watching.set()
    observer.join()
    refused = [line for line in script.failed if "CONFLICT" not in line]
    history = desk.git("log", "-p", "-m", "--format=%s", "refs/kgd/head", "--", "nodes")
    lost = [word for word in script.words if word not in history]
    overwritten = lost and [word for word in lost if not _was_saved_over(script, word)]
    assert not overwritten, (overwritten, script.failed)
    assert not refused, refused
    assert sum(script.done.values()) > 1
    for node, value in agents.last.items():
        assert desk.ws.node(uri(f"n{node}")).data["agent"] == value  # type: ignore[union-attr]
    _only_kgd_went_forward(desk)
    assert desk.fsck() == ""


def _was_saved_over(script: Script, word: str) -> bool:
    """The words of one file follow each other; the person may save a file again before anybody looked."""
    return script.words.index(word) < len(script.words) - 1 and word not in script.words[-1]


def _only_kgd_went_forward(desk: Desk) -> None:
    """Each move of the branch that was ours led to a descendant of what the person had."""
    log = (desk.layout.git_dir / "logs" / desk.layout.branch).read_text().splitlines()
    ours = [line.split()[:2] for line in log if line.endswith("kgd: publish")]
    assert ours
    for old, new in ours:
        git(desk.layout.git_dir, "merge-base", "--is-ancestor", old, new)


@pytest.mark.requirement("B11")
@pytest.mark.requirement("E14")
def test_a_persons_git_commands_and_thirty_writes_a_second_do_not_hurt_each_other(desk: Desk) -> None:
    work_for(desk, 4, seed=5)


@pytest.mark.slow
def test_a_persons_git_commands_in_a_longer_run(desk: Desk) -> None:
    work_for(desk, 30, seed=time.time_ns() % 100_000)


@pytest.mark.soak
def test_a_persons_git_commands_in_a_long_run(desk: Desk) -> None:
    work_for(desk, 600, seed=time.time_ns() % 100_000)


@pytest.mark.requirement("E14")
def test_two_people_with_plain_git_who_edit_different_fields_of_a_hundred_nodes_have_no_conflict(
    tmp_path: Path,
) -> None:
    """Each in a clone of their own; both push to one bare repository, the second after a plain fetch."""
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
    # Plain git would refuse: every file was edited on neighbouring lines. Bringing their branch in is kgd's merge.
    assert "CONFLICT" in _merge_in_plain_git(ann, bob)
    _bring_in(ann.ws, theirs)
    for i in range(100):
        node = ann.ws.node(uri(f"n{i}"))
        assert node is not None
        assert (node.name, node.summary) == (f"Ann {i}", f"by Bob {i}")
    assert ann.ws.conflicts() == ()
    ann.published()
    ann.ws.close()


def _merge_in_plain_git(ann: Desk, bob: Path) -> str:
    git(bob, "fetch", "-q", str(ann.layout.git_dir), "kgd:refs/remotes/ann/kgd")
    git(bob, "switch", "-qc", "trial")
    said = git(bob, "merge", "refs/remotes/ann/kgd", check=False)
    conflicts = git(bob, "diff", "--name-only", "--diff-filter=U").splitlines()
    return said + (" CONFLICT" if conflicts else "")


def _bring_in(ws: Workspace, theirs: str) -> None:
    from kgd.workspace.adoption import adopt
    from tests.builders import ANN

    ws.run(adopt(ws, None, bytes.fromhex(theirs), ANN, 1_700_000_000), alone=True)


def test_a_second_daemon_is_refused_while_a_person_works(desk: Desk) -> None:
    layout = locate(desk.tree)
    assert layout is not None
    with pytest.raises(KgdError):
        Workspace.open(layout)

"""A daemon that writes and syncs until it is killed, and the invariants of two of them afterwards."""

from __future__ import annotations

import contextlib
import itertools
import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from kgd.errors import KgdError
from kgd.git.refs import HEAD
from kgd.model.change import Append
from tests.builders import WS, change, upsert, uri
from tests.faults.audit import requests_in, strays
from tests.faults.nursery import Child
from tests.faults.scribes import Diary, read_diary
from tests.git.support import fsck
from tests.sync.people import Person, bare
from tests.waiting import until

NAMES = ("ann", "bob")
SHARED = 4
"""Nodes that both append to."""
AGREE_SECONDS = 90.0
LOCKED_SECONDS = 10.0
"""A lock of a ref that is older was left by a program that was killed."""
CHORES = (
    ("gc", "--prune=now", "-q"),
    ("repack", "-adq"),
    ("maintenance", "run", "--quiet"),
    ("maintenance", "run", "--quiet", "--task=loose-objects", "--task=incremental-repack", "--task=commit-graph"),
)
"""What a person's git, or their cron, tidies up with."""


@dataclass(slots=True)
class Seen:
    kills: int = 0
    acked: int = 0
    merges: int = 0
    repeated: int = 0
    """Changes that were asked for again after a kill, and had been carried out."""
    chores: Counter[str] = field(default_factory=Counter)
    locks: int = 0
    """Lock files that killed programs left in the repository that both push to."""


def work(line: Connection, folder: str, seed: int) -> None:
    """Open the workspace as a daemon does, which begins to sync, and write with two threads until killed or told."""
    person, diary = Person(Path(folder), id=WS), Diary(Path(folder) / "diary")
    stop = threading.Event()
    for fact in _unanswered(Path(folder) / "diary"):
        _ask(person, diary, fact["asked"], fact["where"], again=True)
    writers = [threading.Thread(target=_write, args=(person, diary, f"{seed}-{n}", stop)) for n in range(2)]
    line.send("ready")
    for writer in writers:
        writer.start()
    line.recv()
    stop.set()
    for writer in writers:
        writer.join()
    person.close()
    line.send("done")


def _write(person: Person, diary: Diary, name: str, stop: threading.Event) -> None:
    dice = random.Random(name)
    for turn in range(1_000_000):
        if stop.wait(dice.uniform(0, 0.03)):
            return
        token = f"<{person.folder.name}-{name}-{turn}>"
        own = f"own/{person.folder.name}-{name}-{turn}"
        where = f"log/{dice.randrange(SHARED)}" if dice.random() < 0.5 else own
        diary.note(asked=token, where=where)
        _ask(person, diary, token, where)


def _ask(person: Person, diary: Diary, token: str, where: str, *, again: bool = False) -> None:
    edit = Append(uri(where), token) if where.startswith("log/") else upsert(where, summary=token)
    try:
        outcome = person.workspace.submit(change(edit, request=token))
    except KgdError as refusal:
        diary.note(refused=token, why=str(refusal))
    else:
        diary.note(acked=token, commit=outcome.commit or "", repeated="again" if again and outcome.repeated else "")


def _unanswered(diary: Path) -> list[dict[str, str]]:
    facts = read_diary(diary)
    answered = {fact.get("acked") or fact.get("refused") for fact in facts}
    return [fact for fact in facts if "asked" in fact and fact["asked"] not in answered]


@contextlib.contextmanager
def tidying(
    git_dirs: Sequence[Path], chores: Sequence[tuple[str, ...]], ran: Counter[str], complaints: list[str]
) -> Iterator[None]:
    """Run the chores in each of the repositories, one after the other, until the block is left."""
    stop = threading.Event()

    def tidy() -> None:
        for chore, git_dir in itertools.cycle(itertools.product(chores, git_dirs)):
            if stop.is_set():
                return
            done = subprocess.run(["git", "-C", git_dir, *chore], capture_output=True, check=False)
            ran[chore[0] + (" failed" if done.returncode else "")] += 1
            if done.returncode:
                complaints.append(f"{' '.join(chore)} in {git_dir}: {done.returncode} {done.stderr.decode()[:300]}")

    worker = threading.Thread(target=tidy)
    if chores:
        worker.start()
    try:
        yield
    finally:
        stop.set()
        if chores:
            worker.join()


def killed_while_syncing(place: Path, kills: int, seed: int, chores: Sequence[tuple[str, ...]] = ()) -> Seen:
    """Kill one daemon or the other at a moment of chance, and start it again; at the end both have to agree.

    Meanwhile git carries out the `chores` in the repositories of both.

    Every acknowledged change is then in a node or a conflict, and in the history.
    """
    dice, hub = random.Random(seed), bare(place / "hub.git")
    people = [Person(place / name, id=WS) for name in NAMES]
    for number in range(SHARED):
        people[0].put(f"log/{number}", summary="both write here")
    for person in people:
        person.share(hub)
        person.close()
    lives, seen, complaints = 0, Seen(kills), list[str]()

    def born(name: str) -> Child:
        nonlocal lives
        lives += 1
        return Child(work, str(place / name), seed * 10_000 + lives)

    git_dirs = [person.tree / ".git" for person in people]
    with tidying(git_dirs, chores, seen.chores, complaints):
        children = {name: born(name) for name in NAMES}
        try:
            for child in children.values():
                child.hear()
            for number in range(kills):
                time.sleep(dice.uniform(0.0, 0.4))
                name = dice.choice(NAMES)
                children[name].kill()
                children[name] = born(name)
                if number % 4:  # else it may meet the next one before it is open
                    children[name].hear()
            for child in children.values():
                child.tell("stop")
                while child.hear() != "done":
                    pass
        finally:
            for child in children.values():
                child.kill()
    try:
        return _audit(place, seen)
    except AssertionError as wrong:
        wrong.add_note("git complained:\n" + "\n".join(complaints))
        raise


def _follow_the_advice_on_locks(place: Path, said: list[Any]) -> int:
    """Remove the lock files that kgd names; the number of them. git that was killed can leave one, and runs no more."""
    reasons = [wait["reason"] for answer in said for remote in answer["remotes"] for wait in remote["waits"]]
    named = {reason.rsplit(" ", 1)[1] for reason in reasons if reason.endswith(".lock")}
    for lock in named:
        (place / "hub.git" / lock).unlink(missing_ok=True)
    return len(named)


def _audit(place: Path, seen: Seen) -> Seen:
    people = [Person(place / name, id=WS) for name in NAMES]
    try:
        began = time.monotonic()
        while len({person.tip for person in people}) > 1:
            waited = time.monotonic() - began
            said = [person.call("sync") for person in people]
            assert waited < AGREE_SECONDS, f"they do not agree: {said}"
            if waited > LOCKED_SECONDS:
                seen.locks += _follow_the_advice_on_locks(place, said)
        store = people[0].workspace.store
        tip = store.ref(HEAD)
        assert tip is not None
        text = b"".join(store.read(file.id) for file in store.files(store.tree_of(tip)))
        for name in NAMES:
            for fact in read_diary(place / name / "diary"):
                if token := fact.get("acked"):
                    seen.acked += 1
                    seen.repeated += bool(fact["repeated"])
                    assert token.encode() in text, f"{token} is in no node and in no conflict"
                    assert store.is_ancestor(bytes.fromhex(fact["commit"]), tip), f"{token} is not in the history"
                else:
                    assert "refused" not in fact, fact
        seen.merges = sum(len(commit.parents) > 1 for commit in store.history([tip]))
        git_dirs = [person.workspace.layout.git_dir for person in people]
        twice = {one: done for one, done in requests_in(git_dirs[0]).items() if one and len(done) > 1}
        assert twice == {}, "applied more than once"
        for person in people:
            until(lambda person=person: person.call("status")["degraded"] == [])  # type: ignore[misc]
    finally:
        for person in people:
            person.close()
    wrong = [one for git_dir in git_dirs for one in fsck(git_dir)]
    assert wrong == [], wrong
    for git_dir in git_dirs:  # a lock of git's own maintenance, which may still run in the background, goes by itself
        until(lambda git_dir=git_dir: strays(git_dir) == [], 60, lambda git_dir=git_dir: strays(git_dir))  # type: ignore[misc]
    return seen

"""A daemon that writes and syncs until it is killed, for the nursery, and what has to hold of two of them later."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from kgd.errors import KgdError
from kgd.git.refs import HEAD
from kgd.model.change import Append
from tests.builders import WS, change, upsert, uri
from tests.faults.audit import strays
from tests.faults.nursery import Child
from tests.faults.scribes import Diary, read_diary
from tests.git.support import fsck
from tests.sync.people import Person, bare

NAMES = ("ann", "bob")
SHARED = 4
"""Nodes that both append to."""
AGREE_SECONDS = 90.0


@dataclass(slots=True)
class Seen:
    kills: int = 0
    acked: int = 0
    merges: int = 0


def work(line: Connection, folder: str, seed: int) -> None:
    """Open the workspace as a daemon does, which begins to sync, and write with two threads until killed or told."""
    person, diary = Person(Path(folder), id=WS), Diary(Path(folder) / "diary")
    stop = threading.Event()
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
    dice, workspace = random.Random(name), person.workspace
    for turn in range(1_000_000):
        if stop.wait(dice.uniform(0, 0.03)):
            return
        token = f"<{person.folder.name}-{name}-{turn}>"
        shared = Append(uri(f"log/{dice.randrange(SHARED)}"), token)
        edit = shared if dice.random() < 0.5 else upsert(f"own/{person.folder.name}-{name}-{turn}", summary=token)
        diary.note(asked=token)
        try:
            outcome = workspace.submit(change(edit))
        except KgdError as refusal:
            diary.note(refused=token, why=str(refusal))
        else:
            diary.note(acked=token, commit=outcome.commit or "")


def killed_while_syncing(place: Path, kills: int, seed: int) -> Seen:
    """Kill one daemon or the other at a moment of chance, and start it again; at the end both have to agree.

    What was acknowledged is in a node or in a conflict then, and in the history.
    """
    dice, hub = random.Random(seed), bare(place / "hub.git")
    people = [Person(place / name, id=WS) for name in NAMES]
    for number in range(SHARED):
        people[0].put(f"log/{number}", summary="both write here")
    for person in people:
        person.share(hub)
        person.close()
    lives = 0

    def born(name: str) -> Child:
        nonlocal lives
        lives += 1
        return Child(work, str(place / name), seed * 10_000 + lives)

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
    return _audit(place, Seen(kills))


def _audit(place: Path, seen: Seen) -> Seen:
    people = [Person(place / name, id=WS) for name in NAMES]
    try:
        end = time.monotonic() + AGREE_SECONDS
        while len({person.tip for person in people}) > 1:
            assert time.monotonic() < end, f"they do not agree: {[person.call('sync') for person in people]}"
            for person in people:
                person.sync()
        store = people[0].workspace.store
        tip = store.ref(HEAD)
        assert tip is not None
        text = b"".join(store.read(file.id) for file in store.files(store.tree_of(tip)))
        for name in NAMES:
            for fact in read_diary(place / name / "diary"):
                if token := fact.get("acked"):
                    seen.acked += 1
                    assert token.encode() in text, f"{token} is in no node and in no conflict"
                    assert store.is_ancestor(bytes.fromhex(fact["commit"]), tip), f"{token} is not in the history"
                else:
                    assert "refused" not in fact, fact
        seen.merges = sum(len(commit.parents) > 1 for commit in store.history([tip]))
        git_dirs = [person.workspace.layout.git_dir for person in people]
    finally:
        for person in people:
            person.close()
    assert [complaint for git_dir in git_dirs for complaint in fsck(git_dir)] == []
    assert [stray for git_dir in git_dirs for stray in strays(git_dir)] == []
    return seen

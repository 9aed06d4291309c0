"""Threads that write into a workspace and keep a diary of its promises. Forked by the nursery.

Every value is unique and every change an addition or an increment, so that lost, doubled and invented values show. The
diary is appended with one write a line, so it is correct after a ``kill -9``.
"""

from __future__ import annotations

import json
import os
import random
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

from kgd.errors import KgdError, NotFound, Stale, Unavailable
from kgd.git.layout import locate
from kgd.model.change import Append, ChangeSet, Delete, Move, Relate
from kgd.workspace.workspace import Workspace
from tests.builders import ANN, change, to, upsert, uri

LOGS = 24
COUNTERS = 4
OWN = 12


class Diary:
    """Requests and answers in order; shared by all threads of all lives of a workspace."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def note(self, **facts: object) -> None:
        os.write(self._file, json.dumps(facts).encode() + b"\n")

    def close(self) -> None:
        os.close(self._file)


def read_diary(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def answers_in(diary: Path) -> int:
    """The number of changes acknowledged so far in all lives; a test waits for it instead of a time."""
    return diary.read_bytes().count(b'"acked"') if diary.exists() else 0


def scribble(
    line: Connection, place: str, diary: str, seed: int, publish: bool, threads: int = 8, count: int = 0
) -> None:
    """Open the workspace at `place`, send the number of changes found, write with `threads` until killed or stopped.

    With `count` each thread writes that many changes and the process ends by itself, cleanly.
    """
    layout = locate(Path(place))
    assert layout is not None
    ws, notes = Workspace.open(layout, publish=publish), Diary(Path(diary))
    stop = threading.Event()
    workers = [threading.Thread(target=_scribe, args=(ws, notes, seed, n, stop, count)) for n in range(threads)]
    line.send("ready")
    for worker in workers:
        worker.start()
    if not count:
        line.recv()
        stop.set()
    for worker in workers:
        worker.join()
    ws.close()
    line.send("done")


def write_until_refused(ws: Workspace, diary: Diary, seed: int, *, threads: int, refusals: int, count: int) -> None:
    """Write until each thread met so many refusals by the disk in a row, or has written `count` changes."""
    arguments = [(ws, diary, seed, number, threading.Event(), count, refusals) for number in range(threads)]
    workers = [threading.Thread(target=_scribe, args=one) for one in arguments]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def _scribe(
    ws: Workspace, diary: Diary, seed: int, number: int, stop: threading.Event, count: int, refusals: int = 0
) -> None:
    dice, in_a_row = random.Random(f"{seed} {number}"), 0
    for turn, kind in enumerate(_turns(dice)):
        if stop.is_set() or (count and turn == count) or (refusals and in_a_row >= refusals):
            return
        request = f"{seed}-{number}-{turn}"
        try:
            changes, text = compose(ws, dice, kind, request, number)
        except KgdError:
            continue  # a reader's error; no change was requested
        diary.note(asked=request, kind=kind, text=text)
        try:
            outcome = ws.submit(changes)
        except (Stale, NotFound) as refusal:
            diary.note(refused=request, why=refusal.code)
        except Unavailable as refusal:
            diary.note(unsure=request, why=str(refusal))
            in_a_row += 1
        except Exception as defect:  # noqa: BLE001  the auditor wants to see it
            diary.note(defect=request, why=repr(defect))
        else:
            diary.note(acked=request, commit=outcome.commit or "")
            in_a_row = 0


def _turns(dice: random.Random) -> Iterator[str]:
    while True:
        yield dice.choices(("append", "count", "own", "delete", "move", "relate"), (40, 20, 20, 6, 6, 8))[0]


def compose(ws: Workspace, dice: random.Random, kind: str, request: str, number: int) -> tuple[ChangeSet, str]:
    """One change and, for an addition to a log, the text by which it can be found again."""
    own = f"own/{number}/{dice.randrange(OWN)}"
    if kind == "append":
        log = f"log/{dice.randrange(LOGS)}"
        return change(Append(uri(log), f"<{request}>"), request=request), f"<{request}>"
    if kind == "count":
        counter = uri(f"counter/{dice.randrange(COUNTERS)}")
        version, node = ws.node_version(counter), ws.node(counter)
        now = int(node.data["n"]) if node else 0
        expected = version.count if version and node else 0
        edit = upsert(counter, data={"n": now + 1}, expect_version=expected)
        return change(edit, request=request), ""
    if kind == "own":
        edit = upsert(own, to(f"log/{dice.randrange(LOGS)}", weight=0.5), summary=request, tags=("own",))
        return change(edit, request=request), ""
    if kind == "delete":
        return change(Delete(uri(own)), request=request), ""
    if kind == "move":
        return change(Move(uri(own), uri(f"moved/{request}")), request=request), ""
    links = [Relate(uri(f"log/{n}"), to(f"moved/{request}", weight=0.25)) for n in dice.sample(range(LOGS), 2)]
    first = [Append(relate.source, f"<{request} {n}>") for n, relate in enumerate(links)]
    return ChangeSet((*first, *links), ANN, "two at once", request), f"<{request} 1>"

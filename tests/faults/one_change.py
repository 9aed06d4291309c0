"""A process that makes one change on command, so that strace can attach to the thread that makes it."""

from __future__ import annotations

import ctypes
import re
import subprocess
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from kgd.errors import KgdError
from kgd.git.layout import Layout, locate
from kgd.model.change import Append, ChangeSet, Delete, Edit
from kgd.workspace.check import check
from kgd.workspace.derived import derived
from kgd.workspace.publishing import publication
from kgd.workspace.workspace import Workspace
from tests.builders import WS, change, to, upsert, uri
from tests.faults.nursery import Child

CALLS = (
    "openat,write,pwrite64,writev,fsync,fdatasync,syncfs,ftruncate,truncate,rename,renameat,renameat2,link,linkat,"
    "symlink,symlinkat,unlink,unlinkat,mkdir,mkdirat,rmdir,chmod,fchmod,fchmodat,utimensat"
)
THREADS = {"put": "MainThread", "delete": "MainThread", "publication": "kgd-publication", "index": "kgd-derived"}
_PR_SET_PTRACER = 0x59616D61


def change_once(line: Connection, place: str, kind: str, request: str) -> None:
    """Send the thread ids; on one command make the change and send the outcome; on another continue normally."""
    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(-1), 0, 0, 0)
    layout = locate(Path(place))
    assert layout is not None
    for threads in (publication.THREADS, derived.THREADS):
        threads.most = 1  # so that strace attaches to the right thread
    ws = Workspace.open(layout, publish=kind == "publication")
    ws.text().count()
    if kind == "publication":
        _wait_until_published(ws)
    line.send({thread.name: thread.native_id for thread in threading.enumerate()})
    line.recv()
    try:
        line.send(ws.submit(composed(kind, request)).commit)
    except KgdError as refusal:
        line.send(refusal)
    if kind == "publication":
        _wait_until_published(ws)
    elif kind == "index":
        ws.text().count()
    line.send("done")
    line.recv()
    ws.submit(change(Append(uri("log"), f"<once more after {request}>")))
    line.send([str(finding) for finding in check(ws)])
    ws.close()
    line.send("closed")


def composed(kind: str, request: str) -> ChangeSet:
    """The changes of each kind of process. A delete needs the node of a put with the same number."""
    if kind == "delete":
        return change(Delete(uri("victim")), request=request)
    edits: list[Edit] = [
        upsert(f"n/{request}", to("log"), name=request, summary="s"),
        Append(uri("log"), f"<{request}>"),
        upsert(f"message://{WS}/talk/{request}", name=request),  # in one part with the messages of all others
    ]
    if kind == "publication":
        edits.append(Delete(uri("victim")))
    return change(*edits, request=request)


def _wait_until_published(ws: Workspace, patience: float = 10) -> None:
    end = time.monotonic() + patience
    while ws.store.ref(ws.layout.branch) != bytes.fromhex(ws.tip) or ws.health()["publish"].state != "ok":
        if time.monotonic() > end:
            return
        time.sleep(0.005)


@dataclass(frozen=True, slots=True)
class Point:
    """The `number`-th `call` of a thread."""

    call: str
    number: int


class Tracer:
    """strace on one thread of a child, from now until the child or the block ends."""

    def __init__(self, thread: int, log: Path, inject: str = "") -> None:
        command = ["strace", "-p", str(thread), "-o", str(log), "-y", "-s", "8", "-e", f"trace={CALLS}"]
        command += ["-e", f"inject={inject}"] if inject else []
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        said = self._process.stderr.readline()
        assert "attached" in said, said

    def detach(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
        self._process.communicate(timeout=60)


def points(layout: Layout, log: Path) -> list[Point]:
    """The calls of a trace that changed something below the workspace's folders, each with its number."""
    counts: Counter[str] = Counter()
    found = []
    for line in log.read_text().splitlines():
        call = re.match(r"\w+", line)
        if call is None or line.startswith(("---", "+++")):
            continue
        counts[call[0]] += 1
        is_ours = str(layout.git_dir) in line or str(layout.work_tree) in line
        if is_ours and " = -1 " not in line and (call[0] != "openat" or "O_CREAT" in line):
            found.append(Point(call[0], counts[call[0]]))
    return found


@dataclass(slots=True)
class Told:
    """The messages of a disturbed child before its end."""

    answer: Any = None
    wrong: list[str] = field(default_factory=list)
    """The findings of a check in that process after one more change."""
    closed: bool = False
    reached: bool = False


def interfere(layout: Layout, kind: str, request: str, log: Path, inject: str, *, patience: float = 30) -> Told:
    """Make one change in a child with strace on the executing thread."""
    told = Told()
    with Child(change_once, str(layout.work_tree), kind, request) as child:
        threads = child.hear()
        tracer = Tracer(threads[THREADS[kind]], log, inject)
        try:
            child.tell("go")
            told.answer = child.hear(patience)
            child.hear(patience)
            tracer.detach()
            told.reached = "INJECTED" in log.read_text()
            child.tell("go on")
            told.wrong = child.hear(patience)
            told.closed = child.hear(patience) == "closed"
        except EOFError:
            told.reached = True  # it died
        finally:
            tracer.detach()
    return told

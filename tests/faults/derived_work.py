"""A daemon that indexes, embeds and reads code while its child processes are killed."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kgd.config import Home
from kgd.daemon.daemon import Daemon
from kgd.git.layout import locate
from kgd.mentions.mentions import Mentions
from kgd.tools import call
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace
from tests.waiting import at_rest, until

PROGRAMS = (
    "kgd.workspace.derived.indexed_text",
    "kgd.workspace.derived.vector_writer",
    "kgd.mentions.writer",
    "kgd.daemon.code_index_process",
)
NODES, FILES = 300, 20
WORDS = ("lease", "kumquat", "quorum", "broker", "ledger", "anchor", "violin", "harvest")


def children(parent: int | None = None) -> dict[int, str]:
    """The processes that write derived data for a process, this one by default: id and program."""
    found = {}
    for place in Path("/proc").iterdir():
        with contextlib.suppress(OSError, IndexError):
            if place.name.isdigit():
                words = (place / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
                above = int((place / "stat").read_text().rpartition(")")[2].split()[1])
                program = next((program for program in PROGRAMS if program in words), None)
                is_child = above == (parent or os.getpid()) and "tests.forked" not in words  # not what forks parsers
                if program and is_child:
                    found[int(place.name)] = program
    return found


@contextlib.contextmanager
def working(place: Path) -> Iterator[Session]:
    """A caller of a daemon in a code repository."""
    code = place / "shop"
    code.mkdir()
    subprocess.run(["git", "init", "-q", str(code)], check=True)
    home = Home.at(str(place / "home"))
    home.prepare()
    daemon = Daemon(home, since="2026-11-21T12:00:00Z", locate=locate, open_workspace=Workspace.open)
    try:
        session = Session(daemon, cwd=code, client="test-client 1.0", context_id="test")
        call(session, "up")
        Mentions.of(daemon.workspace("shop"))
        yield session
    finally:
        daemon.close()


def write(session: Session, turn: int, dice: random.Random) -> None:
    """Add a batch of nodes, and files of code."""
    texts = [" ".join(dice.choices(WORDS, k=12)) for _ in range(NODES)]
    nodes = [
        {
            "op": "upsert",
            "uri": f"concept:t{turn}/n{number}",
            "name": f"{dice.choice(WORDS)} {turn} {number}",
            "content": f"{text}\n",
        }
        for number, text in enumerate(texts)
    ]
    call(session, "put", {"changes": nodes})
    assert session.cwd is not None
    for number in range(FILES):
        lines = [f"def {word}_{number}():\n    '''{word} of turn {turn}'''\n" for word in WORDS]
        (session.cwd / f"turn{turn}_{number}.py").write_text("\n".join(lines))


@contextlib.contextmanager
def killing(dice: random.Random) -> Iterator[dict[str, int]]:
    """Kill children again and again, of the least killed program first; gives the kills so far by program."""
    killed = dict.fromkeys(PROGRAMS, 0)
    done = threading.Event()

    def kill() -> None:
        while not done.wait(dice.uniform(0.02, 0.5)):
            if found := children():
                pid = min(found, key=lambda pid: (killed[found[pid]], dice.random()))
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed[found[pid]] += 1

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        done.set()
        thread.join()


def settled(session: Session) -> None:
    workspace = session.daemon.workspace("shop")
    workspace.text()
    assert workspace.meaning.catch_up(120)
    assert Mentions.of(workspace).settle()
    until(lambda: at_rest(dict(call(session, "status"))), 120, lambda: call(session, "status")["stages"])


def answers(session: Session) -> dict[str, Any]:
    """What clients see of the derived data."""
    workspace = session.daemon.workspace("shop")
    found: dict[str, Any] = {"code": call(session, "status")["code"]}
    for word in WORDS:
        found[word] = [
            [(hit["uri"], hit["score"]) for hit in call(session, "search", {"query": word, "limit": 30})[part]]
            for part in ("hits", "code")
        ]
        found[f"near {word}"] = workspace.meaning.nearest(word, 20).hits
    mentions = Mentions.of(workspace)
    found["mentions"] = {uri: mentions.mentioned(uri) for uri in sorted(workspace.graph.uris())[:50]}
    return found

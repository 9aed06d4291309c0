"""The work of a call does not grow with the workspace, the code tree or their histories, unless its answer does.

Work is counted, not timed: Python functions called, steps of SQLite's virtual machine, statements, and files opened, in
the caller's thread and in those that write, publish and index the change.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from kgd.config import Home
from kgd.daemon.daemon import Daemon
from kgd.git.layout import locate
from kgd.index import database
from kgd.tools import LOCAL, TOOLS, TOOLSETS, call
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace
from tests.faults.derived_work import children
from tests.surfaces.conftest import git
from tests.waiting import at_rest, until

SIZES = (40, 640)
"""Nodes, files of the code and commits of both histories."""
BOUND = 120
"""Commits after which searches of history end; the smallest workspace has as many."""
MORE = 1.2
SLACK = {"functions": 2_500, "steps": 100, "statements": 6, "files": 80}
"""Allowed besides the factor: two passes of the publication more, as on a busy machine, and the segments of a full-text
index, whose number grows with the logarithm. Work for each node or file would be far above."""
REPEATS = 3
"""The least of some calls counts, since a thread may do earlier work in between."""
STEPS = 50
CALLER = "MainThread"
FOLLOWERS = ("kgd-publication", "kgd-derived", "kgd-freshness")

NODE, FILE, AREA = "concept://shop/k0/c1", "src/p0/m1.py", "atom://shop/first"
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("search", {"query": "tokens minutes"}),
    ("search", {"query": "tokens minutes", "author": "ann", "stale": True, "include": ["updated"]}),
    ("recall", {"query": "tokens minutes"}),
    ("retrieve", {"query": "tokens minutes", "limit": 3}),
    ("get", {"uris": [NODE]}),
    ("get", {"uris": [NODE], "include": ["history", "incoming", "mentions"]}),
    ("traverse", {"start": [NODE], "max_nodes": 5}),
    ("traverse", {"start": [NODE], "direction": "both", "max_nodes": 5}),
    ("context", {"paths": [FILE]}),
    ("context", {"question": "how long do tokens last?"}),
    ("context", {"task": "mend the session"}),
    ("query_graph", {"operation": "search", "entityType": "atom", "query": "tokens", "limit": 5}),
    ("history", {"uri": NODE}),
    ("history", {"limit": 5}),
    ("blame", {"uri": NODE}),
    ("diff", {"range": "HEAD~1..HEAD"}),
    ("graph_view", {"group": "area"}),  # without `group` it draws one group for each namespace here, at most 40
    ("graph_view", {"start": [NODE], "max_nodes": 5}),
    ("graph_view", {"types": ["concept"], "max_nodes": 5}),
    ("graph_view", {"group": "type"}),
    ("graph_view", {"group": "type", "colour": "trouble"}),
    ("graph_view", {"group": "type", "colour": "age"}),
    ("edges", {"uri": NODE}),
    ("nodes", {"limit": 5}),
    ("graph_snapshot", {}),
    ("broken", {"limit": 5}),
    ("questions", {"limit": 5}),
    ("conflicts", {}),
    ("coverage", {"limit": 5}),
    ("code_file", {"uri": f"./{FILE}"}),
    ("area_facts", {"area": AREA}),
    ("stale", {"limit": 5}),
    ("review", {"limit": 5}),
    ("author", {"name": "Ann", "limit": 5}),
    ("proposals", {}),
    ("prime", {}),
    ("status", {}),
    ("workspaces", {}),
    ("hub_metrics", {}),
    ("put", {"changes": [{"op": "upsert", "uri": NODE, "summary": "summary #"}]}),
    ("put", {"changes": [{"op": "upsert", "uri": "concept://shop/folder#/new", "name": "New"}]}),
    ("delete_nodes", {"uris": ["concept://shop/folder#/new"]}),
    ("update_node", {"uri": NODE, "summary": "again #"}),
    ("create_nodes", {"nodes": [{"uri": "concept://shop/k0/made#", "name": "Made #"}]}),
    ("create_edges", {"edges": [{"source": NODE, "target": "concept://shop/k0/made#", "type": "uses"}]}),
    ("delete_edges", {"edges": [{"source": NODE, "target": "concept://shop/k0/made#", "type": "uses"}]}),
    ("remember", {"text": "Fact # about the second module.", "about": [FILE]}),
    ("add_task", {"name": "Task #"}),
    ("ingest", {"text": "A document # about things.", "uri": "document://shop/doc#"}),
)
"""`#` is a number that differs in each repetition."""

WHOLE = {
    "doctor forget fsck reindex verify_history": "reads everything",
    "export import bootstrap compress": "reads or writes as much as it is asked to",
    "undo": "looks for files just saved by hand, which it must not overtake, in the whole work tree",
    "up uninstall clone share": "makes or removes a workspace",
    "sync remote join leave submit_subgraph would_submit accept reject comment": "its partner is another repository",
    "manage_graph manage_changelog": "writes as `put` does",
    "revert resolve resolve_conflicts": "writes as `put` does",
    "token_audit token_child token_list token_log token_mint token_revoke token_rotate token_verify browsers ui "
    "hub_migrate": ("asks a hub's state, not a workspace"),
    "notice job whoami complete": "asks no workspace, or the beginning of a sorted list",
}
"""Operations without a call here, and why."""


def test_every_operation_is_called_or_has_a_reason() -> None:
    named = {name for name, _ in CALLS} | {name for names in WHOLE for name in names.split()}
    assert named == {*TOOLS, *LOCAL, *TOOLSETS["apps"]}


class Work:
    """Counts the work of the threads that were started since."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._threads: tuple[str, ...] = ()
        """Those whose work counts now."""
        self._installing = threading.Lock()

    @contextmanager
    def watched(self) -> Iterator[None]:
        work = self

        class Counting(sqlite3.Connection):
            def __init__(self, *place: Any, **options: Any) -> None:
                super().__init__(*place, **options)
                self.set_progress_handler(lambda: work._note("steps"), STEPS)

            def execute(self, sql: str, values: Any = (), /) -> sqlite3.Cursor:
                work._note("statements")
                return super().execute(sql, values)

            def executemany(self, sql: str, values: Any, /) -> sqlite3.Cursor:
                work._note("statements")
                return super().executemany(sql, values)

        def connect(*place: Any, **options: Any) -> sqlite3.Connection:
            return sqlite3.connect(*place, factory=Counting, **options)

        recording = SimpleNamespace(**{**vars(sqlite3), "connect": connect})
        run = threading.Thread.run

        def profiled(thread: threading.Thread) -> None:
            if thread.name in FOLLOWERS:
                self._install(self._profile)
            run(thread)

        sys.addaudithook(self._audit)
        with patch.object(database, "sqlite3", recording), patch.object(threading.Thread, "run", profiled):
            yield

    def of(self, session: Session, name: str, arguments: dict[str, Any], settled: Any) -> dict[str, int]:
        self._counts.clear()
        self._threads = (CALLER, *FOLLOWERS)
        self._install(self._profile)
        try:
            call(session, name, arguments)
        finally:
            self._install(None)
        self._threads = FOLLOWERS
        settled()
        self._threads = ()
        return {kind: self._counts[kind] for kind in SLACK}

    def _install(self, profile: Callable[[FrameType, str, Any], None] | None) -> None:
        with self._installing:  # Python refuses two threads that do it at once, as `threading.setprofile` makes them
            sys.setprofile(profile)

    def _note(self, kind: str) -> int:
        if self._threads and threading.current_thread().name in self._threads:
            self._counts[kind] += 1
        return 0

    def _audit(self, event: str, _: object) -> None:
        if event == "open":
            self._note("files")

    def _profile(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_globals.get("__name__", "").startswith("kgd."):
            self._note("functions")


def made(root: Path, size: int) -> None:
    """A code repository of `size` small modules, each added by a commit of its own."""
    root.mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "user.name", "Ann")
    git(root, "config", "user.email", "ann@example.org")
    stream = []
    for n in range(size):
        text = f"from src.p{(n + 1) % size // 20} import m{(n + 1) % size}\n\n\ndef f{n}(x):\n    return x + {n}\n"
        stream.append(
            f"commit refs/heads/main\ncommitter Ann <ann@example.org> {1_700_000_000 + n} +0000\n"
            f"data 9\nmodule {n % 10} \nM 100644 inline src/p{n // 20}/m{n}.py\ndata {len(text)}\n{text}\n"
        )
    subprocess.run(["git", "-C", root, "fast-import", "--quiet"], input="".join(stream).encode(), check=True)
    git(root, "reset", "-q", "--hard")


def node(n: int, size: int) -> dict[str, Any]:
    following = (n + 1) % size
    return {
        "op": "upsert",
        "uri": f"concept://shop/k{n // 20}/c{n}",
        "name": f"Concept {n}",
        "summary": f"about thing {n}",
        "tags": [f"t{n % 5}"],
        "relations": [{"type": "related_to", "target": f"concept://shop/k{following // 20}/c{following}"}],
    }


def counts(place: Path, size: int) -> list[dict[str, int]]:
    """The work of each of `CALLS` in a workspace of this size."""
    made(place / "shop", size)
    home = Home.at(str(place / "home"))
    home.prepare()
    work = Work()
    with work.watched():
        daemon = Daemon(home, since="2026-11-21T12:00:00Z", locate=locate, open_workspace=Workspace.open)
        try:
            session = Session(daemon, cwd=place / "shop", client="test 1.0", context_id="test")
            call(session, "up")
            workspace = daemon.workspace("shop")

            def settled() -> None:
                until(lambda: at_rest(dict(call(session, "status"))))
                until(lambda: workspace.store.ref(workspace.layout.branch) == bytes.fromhex(workspace.tip))

            for first in range(0, size, 40):
                call(session, "put", {"changes": [node(n, size) for n in range(first, first + 40)]})
            for n in range(BOUND + size):
                call(session, "put", {"changes": [{**node(n % size, size), "summary": f"thing {n} changed"}]})
            call(session, "remember", {"text": "Session tokens last 15 minutes.", "about": [FILE]})
            call(session, "add_task", {"name": "Mend the session"})
            area = {"op": "upsert", "uri": AREA, "data": {"paths": ["src/p0/**"]}}
            call(session, "put", {"changes": [area]})
            settled()
            until(lambda: not children())  # else they would do some of the work
            found = []
            for name, arguments in CALLS:
                text = json.dumps(arguments)
                tries = [
                    work.of(session, name, json.loads(text.replace("#", str(number))), settled)
                    for number in range(1 + REPEATS)
                ]
                found.append({kind: min(one[kind] for one in tries[1:]) for kind in SLACK})
            return found
        finally:
            daemon.close()


Found = list[list[dict[str, int]]]
"""For each size, the work of each of `CALLS`."""


def measured(place: Path) -> Found:
    return [counts(place / str(size), size) for size in SIZES]


def least(one: Found, other: Found) -> Found:
    return [
        [{kind: min(a[kind], b[kind]) for kind in SLACK} for a, b in zip(*of_a_size, strict=True)]
        for of_a_size in zip(one, other, strict=True)
    ]


def growth(found: Found) -> list[str]:
    """The calls whose work grows."""
    return [
        f"{name} {arguments}: {kind} {[one[number][kind] for one in found]}"
        for number, (name, arguments) in enumerate(CALLS)
        for kind, slack in SLACK.items()
        if found[-1][number][kind] > MORE * found[0][number][kind] + slack
    ]


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("unforked")  # it waits for the children
def test_work_does_not_grow_with_the_workspace_the_tree_and_their_histories(tmp_path: Path) -> None:
    found = measured(tmp_path / "first")
    if growth(found):  # on a busy machine, a thread may do the work of an earlier call
        found = least(found, measured(tmp_path / "again"))
    assert growth(found) == [], "\n".join(growth(found))

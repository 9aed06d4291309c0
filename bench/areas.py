"""The cost of an area's history: a page of its changelog, and one more entry.

`python -m bench.areas` prints one JSON object a row.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median

import orjson

from bench.row import Row, compare, value
from kgd.config import Home
from kgd.daemon.daemon import Daemon
from kgd.git.layout import locate
from kgd.model.change import Author, ChangeSet, Log, Upsert
from kgd.model.uri import Uri
from kgd.tools import call
from kgd.tools.areas.changelog import new_entry
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace

SIZES = (100, 10_000)
ROUNDS = 15
AT_ONCE = 2_000
TASK = "https://tracker.example/1"
WHO = Author("Bench", "bench@example.org")


def rows(folder: Path, sizes: Sequence[int] = SIZES) -> Iterator[Row]:
    home = Home.at(str(folder / "home"))
    home.prepare()
    daemon = Daemon(home, since="", locate=locate, open_workspace=Workspace.open)
    try:
        tree = folder / "knowledge"
        tree.mkdir(parents=True)
        session = Session(daemon, cwd=tree, context_id=None)
        call(session, "up", {"directory": str(tree), "standalone": True, "id": "bench"})
        yield from _rows(session, daemon.workspace("bench"), sizes)
    finally:
        daemon.close()


def _rows(session: Session, workspace: Workspace, sizes: Sequence[int]) -> Iterator[Row]:
    first, last = sizes[0], sizes[-1]
    atoms = {size: _filled(workspace, size) for size in sizes}

    def search(size: int, offset: int = 0) -> Callable[[], object]:
        asked = {"operation": "search", "parentType": "atom", "parentId": atoms[size], "offset": offset}
        return lambda: call(session, "manage_changelog", asked)

    def append(size: int) -> Callable[[], object]:
        said = {"operation": "append", "parentType": "atom", "parentId": atoms[size], "taskId": TASK, "summary": "why"}
        return lambda: call(session, "manage_changelog", said)

    newest = _alternating([search(first), search(last)])
    yield compare(f"the newest 20 of {last:,} changelog entries", f"of {first}", "ms", newest[1], newest[0], 2.0)
    (oldest,) = _alternating([search(last, last - 20)])
    yield compare(f"the oldest 20 of {last:,}", "the newest 20", "ms", oldest, newest[1], 2.0)
    added = _alternating([append(first), append(last)])
    yield compare(f"one more entry behind {last:,}", f"behind {first}", "ms", added[1], added[0], None)
    append(last)()
    began = time.perf_counter()
    search(last)()
    yield value(f"the first look at {last:,} entries after one was added", "ms", (time.perf_counter() - began) * 1e3)


def _filled(workspace: Workspace, size: int) -> Uri:
    atom = Uri(f"atom://{workspace.id}/area-{size}")
    workspace.submit(ChangeSet((Upsert(atom, name=f"Area {size}", data={"paths": ["src/**"]}), Upsert(Uri(TASK))), WHO))
    made = [Log(new_entry(atom, TASK, f"Step {n} of many", 1_700_000_000 + n)) for n in range(size)]
    for start in range(0, size, AT_ONCE):
        workspace.submit(ChangeSet(tuple(made[start : start + AT_ONCE]), WHO))
    return atom


def _alternating(runs: Sequence[Callable[[], object]]) -> list[float]:
    """The median of each in milliseconds."""
    taken: list[list[float]] = [[] for _ in runs]
    for _ in range(ROUNDS):
        for run, times in zip(runs, taken, strict=True):
            began = time.perf_counter()
            run()
            times.append((time.perf_counter() - began) * 1e3)
    return [median(times) for times in taken]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="kgd-bench-") as place:
        for row in rows(Path(place)):
            print(orjson.dumps(row).decode(), flush=True)

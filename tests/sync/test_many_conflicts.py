"""Ten thousand open conflicts: they are listed by pages, cost little memory, and hold up nothing that is clean."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from kgd import tools
from kgd.codec.paths import path_of
from kgd.model.access import Principal, Scope, Verb
from kgd.model.conflict import Conflict, FieldConflict
from kgd.model.uri import Uri
from kgd.tools.session import Session
from kgd.workspace.merging.files import record_files
from tests.sync.people import Person, git

pytestmark = pytest.mark.slow
FEW = 400
MORE, UNCERTAIN = 2, 0.03
"""With more conflicts, a call may take this many times as long as with `FEW`, plus this many seconds."""
EXTRA_MEMORY = 200 << 20


def name(number: int) -> Uri:
    return Uri(f"concept://infra/area{number // 200:02}/n{number:05}")


def push(hub: Path, files: dict[str, bytes]) -> None:
    """A colleague's commit on what the hub has."""
    tip = git(hub, "rev-parse", "main")
    stream = [b"commit refs/heads/main\ncommitter Bob <bob@example.org> 1700000000 +0000\ndata 4\nmany\n"]
    stream.append(f"from {tip}\n".encode())
    stream += [b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(data), data) for path, data in files.items()]
    subprocess.run(["git", "-C", str(hub), "fast-import", "--quiet"], input=b"".join(stream), check=True)


def disputed(numbers: Iterable[int]) -> dict[str, bytes]:
    """Nodes, each with a summary that two people wrote differently."""
    files: dict[str, bytes] = {}
    for number in numbers:
        uri = name(number)
        record = Conflict(uri, {"summary": FieldConflict("base", ("by Ann", "by Bob"))}, {"summary": 0})
        files |= {path_of(uri): f"uri: {uri}\nsummary: by Ann\n".encode(), **record_files([record], frozenset())}
    return files


def memory() -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) << 10


def cost(what: Callable[[], Any]) -> float:
    """Seconds of this thread's processor time for the cheapest of three calls: the machine may be busy."""
    seconds = []
    for _ in range(3):
        began = time.thread_time()
        what()
        seconds.append(time.thread_time() - began)
    return min(seconds)


@pytest.mark.parametrize("many", [3_000, pytest.param(10_000, marks=pytest.mark.large)])
def test_thousands_of_conflicts_do_not_slow_down_calls(ann: Person, hub: Path, many: int) -> None:
    ann.share(hub, sync=0)
    ann.published()
    # A git command seems to run, so that kgd does not write thousands of files, which this test does not need.
    (ann.workspace.layout.git_dir / "index.lock").touch()
    calls: list[Callable[[], Any]] = [
        lambda: ann.call("conflicts", limit=200),
        lambda: ann.call("status"),
        lambda: ann.call("traverse", start=[name(FEW - 1)]),
    ]
    push(hub, disputed(range(FEW)))
    assert ann.sync()["state"] == "ok"
    few = [cost(call) for call in calls]
    before = memory()
    push(hub, disputed(range(FEW, many)))
    assert ann.sync()["state"] == "ok"
    assert memory() - before < EXTRA_MEMORY
    for call, seconds in zip(calls, few, strict=True):
        assert cost(call) <= MORE * seconds + UNCERTAIN
    first = ann.call("conflicts", limit=200)
    assert (first["total"], len(first["conflicts"])) == (many, 200)
    second = ann.call("conflicts", limit=200, cursor=first["cursor"])
    seen = {one["uri"] for page in (first, second) for one in page["conflicts"]}
    assert seen == {name(number) for number in range(400)}
    assert ann.call("status")["conflicts"] == many

    # Clean changes still travel both ways, and a new conflict is added.
    clean, first_of_all = Uri("concept://infra/clean/by-bob"), name(0)
    push(
        hub,
        {
            path_of(clean): f"uri: {clean}\nsummary: b\n".encode(),
            path_of(first_of_all): f"uri: {first_of_all}\nname: Bob\nsummary: by Ann\n".encode(),
        },
    )
    ann.put("clean/by-ann", summary="a")
    ann.put("area00/n00000", name="Ann")
    told = ann.sync()
    assert (told["pulled"], told["state"]) == (1, "ok")
    assert ann.summary("clean/by-bob") == "b"
    assert git(hub, "rev-parse", "main") == ann.tip
    assert ann.workspace.conflict_count == many + 1

    # The last of them is as loud as the first, and settled as easily.
    last = name(many - 1)
    assert [one["uri"] for one in ann.call("traverse", start=[last])["conflicts"]] == [last]
    (found,) = ann.call("get", uris=[last])["nodes"][0]["conflicts"]
    ann.call("resolve", resolutions=[{"id": found["id"].rpartition("#")[2], "take": "b"}])
    assert ann.call("get", uris=[last])["nodes"][0]["summary"] == "by Bob"

    # A token finds the conflicts that it may settle among the others, and counts only them.
    rights = [Verb.READ, Verb.WRITE, Verb.RESOLVE]
    holder = Principal("t1", "late", "agent", (Scope.of("infra", rights, [f"/area{many // 200 - 1:02}/**"]),))
    session = Session(ann.daemon, cwd=None, client="test", context_id=None, principal=holder)
    listed = tools.LOCAL["conflicts"].call(session, {"workspace": "infra"})  # the resource of that name
    assert (listed["total"], len(listed["conflicts"])) == (199, 50)
    assert all(f"/area{many // 200 - 1:02}/" in one["uri"] for one in listed["conflicts"])
    handed = tools.call(session, "resolve_conflicts", {"workspace": "infra", "via": "agent"})
    assert handed["open"] == 199
    assert len(handed["remaining"]) == 20

"""Power cuts right after a publication, on ext4, xfs and btrfs; run in a separate mount namespace.

    unshare -m python -m tests.faults.publication_cut PLACE KIND FILE_SYSTEM FIRST CUTS

A writer publishes, and the disk's image is copied up to two seconds later, as in `tests.faults.power_cut`. The
workspace on the copy is then opened and compared with the writer's ledger. With the KIND ``unhealed`` kgd flushes
nothing and forgets its publications; if that damages nothing, this program proves nothing. Prints one JSON object.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from kgd.git.layout import Layout, locate
from kgd.git.objects import FILE
from kgd.model.change import Delete
from kgd.workspace.publishing import flush_and_repair
from kgd.workspace.publishing.publication_plan import PlanFolder
from kgd.workspace.workspace import Workspace
from tests.builders import change, new_layout, upsert, uri
from tests.faults.audit import git
from tests.faults.nursery import Child
from tests.faults.power_cut import copy, mounted, still_copy, unmounted
from tests.waiting import until

SIZES = {"ext4": 48 << 20, "xfs": 300 << 20, "btrfs": 128 << 20}
"""Bytes of an image: about the minimum of each file system. Images are sparse."""
MAKE = {"ext4": ["mkfs.ext4", "-q"], "xfs": ["mkfs.xfs", "-q"], "btrfs": ["mkfs.btrfs", "-q"]}
MOUNTS = {"ext4": ("loop", "loop,commit=1,noauto_da_alloc")}
NODES = 24
FILES = ("nodes/", "kgd.yaml", "memories/", "conflicts/")


@dataclass(slots=True)
class Cut:
    """The state of the disk after the cuts, and the complaints after the next start."""

    acknowledged: int = 0
    absent: int = 0
    empty: int = 0
    other: int = 0
    """Damaged files: cut, zeroed or old; neither the published content nor absent."""
    unreadable_indexes: int = 0
    complaints: list[str] = field(default_factory=list)

    def add(self, more: Cut) -> None:
        for name in ("acknowledged", "absent", "empty", "other", "unreadable_indexes"):
            setattr(self, name, getattr(self, name) + getattr(more, name))
        self.complaints += more.complaints


def main() -> None:
    place, kind, file_system = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    first, cuts = int(sys.argv[4]), int(sys.argv[5])
    ram = place / "ram"
    ram.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1g", "tmpfs", str(ram)], check=True)
    try:
        template = _template(ram, file_system)
        total, damaged, failed = Cut(), 0, 0
        for seed in range(first, first + cuts):
            found = cut_power(ram, template, file_system, seed, healed=kind == "healed")
            found.complaints = [f"seed {seed}: {complaint}" for complaint in found.complaints]
            failed += bool(found.complaints)
            damaged += bool(found.absent + found.empty + found.other + found.unreadable_indexes)
            total.add(found)
        total.complaints = total.complaints[:8]
        print(json.dumps({"cuts": cuts, "damaged": damaged, "failed": failed, "found": asdict(total)}))
    finally:
        subprocess.run(["umount", "-l", str(ram)], check=True)


def _template(ram: Path, file_system: str) -> Path:
    image, disk = ram / "template.img", ram / "disk"
    disk.mkdir()
    with open(image, "wb") as file:
        file.truncate(SIZES[file_system])
    subprocess.run(
        [*MAKE[file_system], str(image)],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin"},
    )
    mounted(image, disk, "loop")
    with Child(_made, str(disk / "knowledge")) as maker:
        maker.hear()
    unmounted(disk)
    return image


def cut_power(ram: Path, template: Path, file_system: str, seed: int, *, healed: bool) -> Cut:
    dice = random.Random(seed)
    running, copied, disk, ledger = ram / "running.img", ram / "cut.img", ram / "disk", ram / "ledger"
    copy(template, running)
    ledger.write_bytes(b"")
    options = MOUNTS.get(file_system, ("loop",))
    device = mounted(running, disk, options[seed % len(options)])
    with Child(_write, str(disk / "knowledge"), str(ledger), seed, healed) as writer:
        writer.hear()
        time.sleep(dice.uniform(0.0, 2.0 if seed % 4 == 0 else 0.5))
        writer.signal(signal.SIGSTOP)
        still_copy(running, copied, device)
        writer.kill_all()
    unmounted(disk)
    mounted(copied, disk, "loop")
    try:
        with Child(_audited, str(disk / "knowledge"), str(ledger), healed) as auditor:
            found: Cut = auditor.hear(60)
            return found
    except (AssertionError, EOFError) as error:  # a hang or a crash is a failure like any other
        return Cut(complaints=[f"the audit ended: {error!r}"])
    finally:
        unmounted(disk)


# ---- in processes of their own


def _made(line: Connection, place: str) -> None:
    ws = Workspace.open(new_layout(Path(place)))
    ws.submit(change(*(upsert(f"group/n{n}", name=f"N{n}", summary="at first") for n in range(NODES))))
    _in_step(ws)
    ws.close()
    os.sync()
    line.send("made")


def _write(line: Connection, place: str, ledger: str, seed: int, flushed: bool) -> None:
    """Write and publish a few times, report it, and in two of three cases continue until the power fails."""
    if not flushed:
        flush_and_repair.AFTER = 1e6
    layout = locate(Path(place))
    assert layout is not None
    ws, dice, notes = Workspace.open(layout), random.Random(seed), os.open(ledger, os.O_WRONLY | os.O_APPEND)
    turn = 0
    for turn in range(dice.randint(1, 4)):
        _change(ws, dice, notes, f"{seed} {turn}")
        _in_step(ws)
    if seed % 2:
        _edit_by_hand(ws, notes, f"{seed} by hand")
    line.send("published")
    while seed % 3:
        turn += 1
        _change(ws, dice, notes, f"{seed} {turn}")
        time.sleep(dice.uniform(0, 0.1))
    threading.Event().wait()


def _change(ws: Workspace, dice: random.Random, notes: int, value: str) -> None:
    """One change of some old and new nodes, and a line in the ledger once it is acknowledged."""
    old = [f"group/n{n}" for n in dice.sample(range(NODES), 5)]
    new = [f"new/{dice.randrange(200)}/x" for _ in range(3)]
    keys = dict.fromkeys((*old[:4], *new), value)
    edits = [upsert(name, summary=value, data={"log": f"{value} " * dice.choice((1, 400))}) for name in keys]
    gone = [name for name in old[4:] if ws.node(uri(name))]
    line = {**keys, **dict.fromkeys(gone, "")}
    _note(notes, asked=line)
    ws.submit(change(*edits, *(Delete(uri(name)) for name in gone)))
    _note(notes, acked=line)


def _edit_by_hand(ws: Workspace, notes: int, value: str) -> None:
    """Save a file as editors do, without a flush, and wait until that is served."""
    at = uri("by/hand")
    path = ws.layout.work_tree / ws.path(at)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"uri: {at}\nname: Hand\nsummary: {value}\n")
    ws.hint(None)
    until(lambda: (node := ws.node(at)) and node.summary == value, say=ws.health)
    _note(notes, acked={"by/hand": value})


def _note(notes: int, **line: dict[str, str]) -> None:
    os.write(notes, json.dumps(line).encode() + b"\n")


def _in_step(ws: Workspace) -> None:
    until(lambda: _is_in_step(ws), say=ws.health)


def _is_in_step(ws: Workspace) -> bool:
    branch = ws.store.ref(ws.layout.branch)
    return branch is not None and branch.hex() == ws.tip and ws.health()["publish"].state == "ok"


def _audited(line: Connection, place: str, ledger: str, healed: bool) -> None:
    found = Cut()
    try:
        if not healed:
            PlanFolder.load = lambda self: None  # type: ignore[method-assign]
        layout = locate(Path(place))
        assert layout is not None
        _look_at_disk(layout, found)
        _compare(layout, Path(ledger), found)
    except Exception as error:  # noqa: BLE001  any error breaks the promise about the disk
        found.complaints.append(repr(error)[:500])
    line.send(found)


def _look_at_disk(layout: Layout, found: Cut) -> None:
    """The damage by the cut, before kgd opens the workspace."""
    store = layout.open()
    branch = store.ref(layout.branch)
    assert branch is not None
    for entry in store.files(store.tree_of(branch)):
        path = layout.work_tree / entry.path
        if entry.mode != FILE or not entry.path.startswith(FILES):
            continue
        if not path.exists():
            found.absent += 1
        elif not path.stat().st_size:
            found.empty += 1
        elif path.read_bytes() != store.read(entry.id):
            found.other += 1
    try:
        git(layout.work_tree, "ls-files")
        found.unreadable_indexes += not (layout.git_dir / "index").exists()
    except AssertionError:
        found.unreadable_indexes += 1


def _compare(layout: Layout, ledger: Path, found: Cut) -> None:
    """Open it without any help: the tip, the files and the index hold every acknowledged change, also after a write."""
    lines = [json.loads(line) for line in ledger.read_bytes().splitlines()]
    promised: dict[str, str] = {name: value for line in lines for name, value in line.get("acked", {}).items()}
    unanswered: dict[str, str] = lines[-1].get("asked", {}) if lines else {}  # it may be durable, or not
    found.acknowledged = len(promised)
    complain = found.complaints.append
    ws = Workspace.open(layout)
    try:
        for _ in range(2):
            _settled(ws, complain)
            for name, value in promised.items():
                node = ws.node(uri(name))
                if (node.summary if node else "") not in (value, unanswered.get(name, value)):
                    complain(f"{name} is {node and node.summary!r} in the tip, and {value!r} was acknowledged")
            ws.submit(change(*(upsert(name, data={"after": 1}) for name in promised if ws.node(uri(name)))))
    finally:
        ws.close()
    by_hand = git(layout.git_dir, "log", "--format=%an %s", "--grep=^Kgd-Op: hand-edit", "refs/kgd/head")
    if by_hand.count("\n") > ("by/hand" in promised):
        complain(f"taken for a hand edit: {by_hand.splitlines()[:3]}")


def _settled(ws: Workspace, complain: object) -> None:
    """Wait until git finds the work tree clean, and compare each file with the tip byte by byte."""
    assert callable(complain)
    try:
        until(lambda: _is_in_step(ws) and not _status(ws), say=lambda: (ws.health(), _status(ws)))
    except AssertionError as error:
        complain(f"not settled: {error}"[:400])
    for invalid in ws.invalid_files():
        complain(f"invalid: {invalid}")
    for entry in ws.store.files(ws.store.tree_of(bytes.fromhex(ws.tip))):
        path = ws.layout.work_tree / entry.path
        if entry.mode == FILE and (not path.exists() or path.read_bytes() != ws.store.read(entry.id)):
            complain(
                f"{entry.path} is not as published: {path.read_bytes()[:40]!r}" if path.exists() else f"no {entry.path}"
            )


def _status(ws: Workspace) -> str:
    try:
        return git(ws.layout.work_tree, "--no-optional-locks", "status", "--porcelain")
    except AssertionError as unreadable:
        return str(unreadable)


if __name__ == "__main__":
    main()

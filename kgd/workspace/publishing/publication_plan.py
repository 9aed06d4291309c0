"""Publication plans: a record of the files of each publication, and the files that it moved aside, until they are
examined.

A plan is stored next to the files that its publication moves aside ("displaced files"). Until the last of them is
examined, the plan distinguishes known content from a person's edits. After a crash, the newest plan must be finished if
kgd's own index lock still exists. An abandoned plan stays until the next plan, because only this plan lists the
unpublished files in the work tree.

A plan also stays until its files are flushed: after an unclean stop, the plans list the files that may be damaged.

`Unpublished` has the known differences between work tree and published tree, and their authors. A person's edit is
committed before it is published, and an abandoned publication leaves files behind. kgd does not treat either of them as
a new edit. A person may undo a committed edit, but not an abandoned publication.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import signal
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from kgd.errors import MALFORMED, Damaged, KgdError, Limit
from kgd.git import files
from kgd.git.files import replace, sync_folder, write_new
from kgd.git.objects import Object, ObjectId, object_id
from kgd.git.refs import HEAD
from kgd.git.store import ObjectStore
from kgd.git.walk import Lookup
from kgd.workspace.parts import FILE_LIMIT
from kgd.workspace.publishing.work_tree import Found, WorkTree, is_owned

QUIET = 1.0
"""Seconds without a change before a displaced file is examined: an editor may still write to it."""
PLAN, DONE = "plan", "done"
"""The file of a plan, and its name after publication: a rename needs no space."""
FLUSHED = "flushed"
"""Marks a plan that is kept for another reason although its files are flushed."""
FORMER_INDEX = "index"
"""A second link to the replaced index, needed because the new index is not flushed."""
PATIENCE = 600.0
"""Maximum seconds to wait for another program that still has a file open for writing."""


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Placement:
    """One file of a plan: its published version, its new version, and content that the workspace already has.

    Args:
        taken: The last known unpublished version at the path, if there is one.
        back: Whether `taken` is a person's edit of `old`; finding `old` then means that they undid the edit.
    """

    path: str
    old: ObjectId | None
    new: ObjectId | None
    taken: frozenset[ObjectId | None] = frozenset()
    back: bool = False

    @property
    def known(self) -> frozenset[ObjectId | None]:
        """Versions that may be replaced; any other version is a person's edit."""
        return self.taken | {self.new} if self.back else self.taken | {self.old, self.new}

    @property
    def base(self) -> ObjectId | None:
        """The version that a person's edit at the path started from."""
        return next(iter(self.taken), self.old)


@dataclass(slots=True)
class Plan:
    """One publication: its two commits and its files. Displaced files go to the folder `place`."""

    place: Path
    before: ObjectId
    after: ObjectId
    files: tuple[Placement, ...]
    lock: int = 0
    """Inode number of its index lock, which becomes the index; 0 if it takes none."""
    written: int = 0
    """When it was written, in nanoseconds by the clock of the disk, for a plan found at startup."""
    is_of_this_boot: bool = True
    """Whether the machine was not restarted since."""
    is_done: bool = False
    """Whether it was published, or a newer plan includes it."""
    at: float = field(default_factory=time.monotonic)
    """When the plan ended, by the monotonic clock; for a plan found at startup, the time of startup."""
    is_flushed: bool = False
    """Whether its files are flushed to the disk."""
    has_slots: bool = True
    """Whether displaced files may still have to be examined."""

    def slot(self, number: int) -> Path:
        return self.place / str(number)


@dataclass(frozen=True, slots=True)
class LateEdit:
    """A person's edit in a file that a publication moved aside, including anything an editor wrote to it afterwards."""

    path: str
    data: bytes
    base: ObjectId | None
    slot: Path


class PlanFolder:
    """The folder of all plans in progress."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._waiting: list[Plan] = []

    @property
    def is_empty(self) -> bool:
        """Whether all displaced files have been examined."""
        return not any(plan.is_done and plan.has_slots for plan in self._waiting)

    @property
    def unflushed(self) -> list[Plan]:
        """Plans whose files may not have reached the disk, oldest first."""
        return [plan for plan in self._waiting if not plan.is_flushed]

    def flushed(self, until: float) -> None:
        """Record a finished flush that began at `until`, by the monotonic clock. Plans that only waited for a flush are
        removed."""
        for plan in self.unflushed:
            if plan.at <= until:
                plan.is_flushed = True
                # On a full disk, and while the repository is being deleted, the next start finds the plan unflushed.
                with contextlib.suppress(OSError):
                    if not self._forgotten(plan):
                        (plan.place / FLUSHED).touch()

    def load(self) -> Plan | None:
        """Read the plans of a former process and return the newest, if any. An incomplete plan was never begun."""
        self._waiting = []
        for place in sorted(self.folder.iterdir(), key=lambda entry: entry.name):
            plan = _read(place)
            if plan is None:
                _remove(place)
            else:
                self._waiting.append(plan)
        return self._waiting[-1] if self._waiting else None

    @property
    def unfinished(self) -> Plan | None:
        """The newest loaded plan of a publication, if that publication was not completed and is therefore abandoned."""
        newest = next((plan for plan in reversed(self._waiting) if not _puts_back(plan)), None)
        return None if newest is None or newest.is_done else newest

    def took(self, lock: Path) -> bool:
        """Whether an unflushed plan took this index lock, which a power cut left or brought back.

        A later file may have the inode number of the lock, but is younger than the plan.
        """
        try:
            found = os.stat(lock)
        except FileNotFoundError:
            return False
        return any(plan.lock == found.st_ino and found.st_mtime_ns <= plan.written for plan in self.unflushed)

    @property
    def restoring(self) -> tuple[Placement, ...]:
        """Files of unfinished plans that restore missing files."""
        return tuple(file for plan in self._waiting if _puts_back(plan) and not plan.is_done for file in plan.files)

    def begin(self, before: ObjectId, after: ObjectId, files: Iterable[Placement], lock: int = 0) -> Plan:
        """Write a plan durably before any of it is carried out. `lock` is the inode number of its index lock."""
        place = self.folder / f"{time.time_ns():020d}"
        place.mkdir()
        plan = Plan(place, before, after, tuple(files), lock)
        rows = [[f.path, hex_of(f.old), hex_of(f.new), [hex_of(id) for id in f.taken], f.back] for f in plan.files]
        values = {"before": before.hex(), "after": after.hex(), "files": rows, "lock": lock, "boot": _boot()}
        text = json.dumps(values)
        try:
            write_new(place / PLAN, text.encode())
            sync_folder(place)
            sync_folder(self.folder)
        except BaseException:
            _remove(place)
            raise
        if not _puts_back(plan):  # the new plan includes the abandoned ones
            self._finish(former for former in self._waiting if not former.is_done)
        return plan

    def end(self, plan: Plan, *, is_abandoned: bool = False) -> None:
        """End a plan; its displaced files are examined after a while.

        Args:
            is_abandoned: Whether its files are in the work tree but not published. The plan then stays until the next
                plan; a plan that restores missing files stays until a later plan has restored them.
        """
        plan.at = time.monotonic()
        if not is_abandoned:
            finished(plan)
            self._finish(filter(_puts_back, self._waiting if _puts_back(plan) else ()))
        plan.has_slots = not _is_empty(plan.place)
        self._waiting.append(plan)

    def late_edits(self) -> Iterator[LateEdit]:
        """A person's edits in displaced files, once these files have stopped changing. Pass each edit to `done` once it
        is durable elsewhere."""
        now = time.monotonic()
        for plan in list(self._waiting):
            if not plan.has_slots or now - plan.at < QUIET:
                continue
            for slot, file in slots(plan):
                yield from _examine(slot, file, now - plan.at)
            plan.has_slots = not _is_empty(plan.place)
            self._forgotten(plan)

    def _finish(self, plans: Iterable[Plan]) -> None:
        for plan in list(plans):
            finished(plan)
            self._forgotten(plan)

    def _forgotten(self, plan: Plan) -> bool:
        """Remove a plan if it is no longer needed; returns whether it was removed."""
        if is_over := plan.is_done and plan.is_flushed and not plan.has_slots:
            self._waiting.remove(plan)
            _remove(plan.place)
        return is_over

    def done(self, late: LateEdit) -> None:
        late.slot.unlink(missing_ok=True)

    def keep(self, late: LateEdit) -> None:
        """Keep bytes that can be neither committed nor restored, and log where they are."""
        _keep(late.slot)


def finished(plan: Plan) -> None:
    """Mark a plan whose files are all published; its displaced files are still examined."""
    with contextlib.suppress(FileNotFoundError):
        os.rename(plan.place / PLAN, plan.place / DONE)
    plan.is_done = True


def slots(plan: Plan) -> Iterator[tuple[Path, Placement]]:
    """Displaced files, and prepared files that were not used, each with its entry in the plan."""
    for entry in sorted(plan.place.iterdir(), key=lambda entry: entry.name):
        number = entry.name.partition(".")[0]
        if number.isdigit() and int(number) < len(plan.files):
            yield entry, plan.files[int(number)]


def is_being_written(fd: int) -> bool:
    """Whether another program has the file open for writing. False if the system does not support the check.

    Takes a lease and returns it at once: Linux grants a read lease only on a file without writers.
    """
    try:
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)  # a broken lease sends this signal, which is ignored
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except BlockingIOError:
        return True
    except (OSError, AttributeError):
        return False
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


def _examine(slot: Path, file: Placement, age: float) -> Iterator[LateEdit]:
    """Remove a file with known content at once; yield any other file as a late edit, once no program writes to it."""
    try:
        fd = os.open(slot, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        _keep(slot)
        return
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > FILE_LIMIT:
            _keep(slot)
            return
        if age < PATIENCE and (is_being_written(fd) or time.time() - found.st_mtime < QUIET):
            return
        data = b"".join(iter(lambda: os.read(fd, 1 << 16), b""))
    finally:
        os.close(fd)
    if object_id("blob", data) in file.known:
        slot.unlink(missing_ok=True)
    else:
        yield LateEdit(file.path, data, file.base, slot)


def _keep(slot: Path) -> None:
    """Move an unexpected file out of the way without deleting it."""
    kept = slot.parent.parent.parent / "kept"
    kept.mkdir(exist_ok=True)
    target = kept / f"{slot.parent.name}-{slot.name}"
    os.rename(slot, target)
    log.warning("kept unknown bytes that have no place in the work tree", extra={"path": str(target)})


def _read(place: Path) -> Plan | None:
    try:
        is_done = (place / DONE).exists()
        file = place / (DONE if is_done else PLAN)
        values, written = json.loads(file.read_bytes()), file.stat().st_mtime_ns
        files = tuple(
            Placement(path, id_of(old), id_of(new), frozenset(map(id_of, taken)), *map(bool, back))
            for path, old, new, taken, *back in values["files"]  # an older plan has no `back`
        )
        before, after = bytes.fromhex(values["before"]), bytes.fromhex(values["after"])
        lock = int(values.get("lock", 0))  # an older plan has none
        is_of_this_boot, is_flushed = values.get("boot", "") == _boot(), (place / FLUSHED).exists()
        return Plan(place, before, after, files, lock, written, is_of_this_boot, is_done, is_flushed=is_flushed)
    except (OSError, *MALFORMED):
        return None


@cache
def _boot() -> str:
    """An identifier of the machine's present boot; empty if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _puts_back(plan: Plan) -> bool:
    return plan.before == plan.after


def _is_empty(place: Path) -> bool:
    """Whether the folder has no displaced files."""
    return all(entry.name in (PLAN, DONE, FLUSHED, FORMER_INDEX) for entry in place.iterdir())


def hex_of(id: ObjectId | None) -> str | None:
    return None if id is None else id.hex()


def id_of(text: str | None) -> ObjectId | None:
    return bytes.fromhex(text) if text else None


def _remove(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        for entry in place.iterdir():
            entry.unlink(missing_ok=True)
        place.rmdir()
    else:
        place.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class _Content:
    """The known content of a path. `before` is the version that was published when a person wrote the content; None if
    kgd wrote it."""

    id: ObjectId | None
    data: bytes | None
    before: Found | None = None


class Unpublished:
    """Paths of one work tree that differ from the published tree. Used only in the publication's thread.

    Args:
        memory: The file that keeps a person's edits across a restart.
    """

    def __init__(self, store: ObjectStore, tree: WorkTree, memory: Path) -> None:
        self._store, self._tree, self._memory = store, tree, memory
        self._published: Lookup | None = None
        self.bases, self._contents = _load(memory, store)
        """For each file published without touching a person's waiting version: the version that the person started
        from."""
        self._saved = self._persons()
        self._is_loaded = True

    # ---- notes

    def set_published(self, tree: ObjectId) -> None:
        """Set the published tree."""
        self._published = Lookup(self._store.tree, tree)
        if self._is_loaded:  # an entry that was published after it was saved, before a kill, is obsolete
            self._is_loaded = False
            for path, known in list(self._contents.items()):
                if known.before not in (None, Found(self._published_blob(path))) and path not in self.bases:
                    del self._contents[path]

    def record_edit(self, path: str, id: ObjectId | None, data: bytes | None) -> None:
        """Record a person's edit that is now part of the workspace."""
        if id is not None and data is not None and not self._store.exists(id):
            with contextlib.suppress(OSError, KgdError):  # after a merge, the edit's own bytes are not in any commit
                self._store.release(self._store.write([Object(id, "blob", data)]))
        self._contents[path] = _Content(id, data, Found(self._published_blob(path)))
        self.end_skip(path)

    def record_own(self, path: str, blob: ObjectId | None) -> None:
        """Record kgd's own unpublished bytes at a path, left by an abandoned publication.

        If a person wrote the same bytes, they remain recorded as the person's.
        """
        known = self._contents.get(path)
        if known is None or known.before is None or known.id != blob:
            self._contents[path] = _Content(blob, None if blob is None else self._store.read(blob))

    def forget(self, path: str) -> None:
        """Record that the path matches the published tree, and that no version of a person is waiting there."""
        self._contents.pop(path, None)
        self.end_skip(path)

    def skip(self, path: str, old: ObjectId | None) -> None:
        """Record that the path was published without touching a person's file, which started from `old`."""
        if path not in self.bases:
            self.bases[path] = old
            self._save()

    def end_skip(self, path: str) -> None:
        """Record that no version of a person is waiting at the path any longer."""
        if path in self.bases:
            del self.bases[path]
            self._save()

    def save_edits(self) -> None:
        """Save a person's committed but unpublished edits, so that kgd recognises an edit that is undone while kgd is
        not running."""
        if self._saved != self._persons():
            self._save()

    # ---- reads

    def paths(self) -> list[str]:
        """Paths that may differ from the published tree."""
        return list(self._contents)

    def differing(self) -> dict[str, ObjectId | None]:
        """Paths with known unpublished content, with the published blob of each. Checks each candidate in the work
        tree.

        Paths that match the published tree are forgotten.
        """
        found: dict[str, ObjectId | None] = {}
        for path, known in list(self._contents.items()):
            there, published = self._tree.look(path), self._published_blob(path)
            if there == Found(published) and not self.is_undone(path, there):
                del self._contents[path]
            elif there == Found(known.id):
                found[path] = published
        return found

    def ids(self, path: str) -> frozenset[ObjectId | None]:
        """Known unpublished content of the path, as blob ids; None means absent."""
        known = self._contents.get(path)
        return frozenset([known.id]) if known else frozenset()

    def is_committed(self, path: str, found: Found) -> bool:
        """Whether the content of the path is already committed, so that it may be replaced."""
        known = self._contents.get(path)
        return not found.odd and known is not None and known.id == found.id

    def is_undone(self, path: str, found: Found) -> bool:
        """Whether a person undid an edit that is committed but not published."""
        known = self._contents.get(path)
        return known is not None and known.before == found != Found(known.id)

    def latest(self, path: str) -> bytes | None:
        """The version from which a person's next edit starts: their last version, the version from which that one
        started, or the published version."""
        if path in self._contents:
            return self._contents[path].data
        return self.text(self.bases[path] if path in self.bases else self._published_blob(path))

    def text(self, id: ObjectId | None) -> bytes | None:
        """A blob's bytes; None if it cannot be read."""
        try:
            return self._store.read(id, FILE_LIMIT) if id else None
        except (Damaged, Limit):
            return None

    # ---- inside

    def _published_blob(self, path: str) -> ObjectId | None:
        return self._published.entry(path) if self._published else None

    def _persons(self) -> dict[str, tuple[ObjectId | None, ObjectId | None]]:
        return {path: (known.id, known.before.id) for path, known in self._contents.items() if known.before is not None}

    def _save(self) -> None:
        persons = self._persons()
        bases = {path: hex_of(id) for path, id in self.bases.items()}
        taken = {path: [hex_of(id), hex_of(before)] for path, (id, before) in persons.items()}
        tip = hex_of(self._store.ref(HEAD))
        replace(self._memory, json.dumps({"bases": bases, "taken": taken, "tip": tip}).encode())
        self._saved = persons


def _load(memory: Path, store: ObjectStore) -> tuple[dict[str, ObjectId | None], dict[str, _Content]]:
    """The saved bases and edits, without unreadable entries."""
    bases, contents = dict[str, ObjectId | None](), dict[str, _Content]()
    found, taken, at = files.read_state(memory, _parse) or ([], [], None)
    try:
        tip = store.ref(HEAD)
        if not (at and tip and store.exists(at) and store.is_ancestor(at, tip)):
            taken = []  # the tip was reset to an earlier commit, so no version has the user's text
    except (ValueError, KgdError):
        return bases, contents
    for path, base in found:
        with contextlib.suppress(KgdError, ValueError):
            _bytes_of(store, base)
            if _is_a_file(path):
                bases[path] = base
    for path, id, before in taken:
        with contextlib.suppress(KgdError, ValueError):
            _bytes_of(store, before)
            if _is_a_file(path):
                contents[path] = _Content(id, _bytes_of(store, id), Found(before))
    return bases, contents


def _parse(
    saved: Any,
) -> tuple[list[tuple[str, ObjectId | None]], list[tuple[str, ObjectId | None, ObjectId | None]], ObjectId | None]:
    """The bases, the edits and the tip of a state file; a file of another shape raises."""
    bases = [(str(path), id_of(base)) for path, base in saved["bases"].items()]
    taken = [(str(path), id_of(id), id_of(before)) for path, (id, before) in saved["taken"].items()]
    return bases, taken, id_of(saved.get("tip"))


def _is_a_file(path: str) -> bool:
    """Whether a file of the workspace can have this path. Raises ValueError if the path is not UTF-8."""
    return bool(path.encode()) and is_owned(path)


def _bytes_of(store: ObjectStore, id: ObjectId | None) -> bytes | None:
    return None if id is None else store.read(id, FILE_LIMIT)

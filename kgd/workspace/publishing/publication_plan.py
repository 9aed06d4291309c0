"""Publication plans: each publication's files on record, and the files it displaced, until they are examined.

A plan lies beside the files that it displaces. Until the last of them is examined, it tells known bytes from a
person's. After a crash, the newest plan under kgd's own index lock must be finished. An abandoned plan stays until the
next one: it alone names unpublished files in the work tree.

A plan also stays until its files are flushed: after an unclean stop the plans name the files that may be damaged.
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
from pathlib import Path

from kgd.git.files import sync_folder, write_new
from kgd.git.objects import ObjectId, object_id
from kgd.workspace.files.parts import FILE_LIMIT

QUIET = 1.0
"""Seconds without a change before a displaced file is examined: an editor may still write to it."""
PLAN, DONE = "plan", "done"
"""The file of a plan, and its name after publication: a rename needs no space."""
FLUSHED = "flushed"
"""Marks a plan whose files are flushed but that stays for another reason."""
FORMER_INDEX = "index"
"""A second link to the replaced index, because the new one is not flushed."""
PATIENCE = 600.0
"""Seconds to keep a file that another program still has open for writing."""


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Placement:
    """One file of a plan: its published and its new version, and bytes that the workspace already has.

    Args:
        taken: The last known unpublished version at the path; empty, or one.
        back: `taken` is a person's edit of `old`, so `old` in its place means that they undid the edit.
    """

    path: str
    old: ObjectId | None
    new: ObjectId | None
    taken: frozenset[ObjectId | None] = frozenset()
    back: bool = False

    @property
    def known(self) -> frozenset[ObjectId | None]:
        """Versions that may be replaced; any other is a person's."""
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
    is_done: bool = False
    """It was published, or a newer plan includes it."""
    at: float = field(default_factory=time.monotonic)
    """When it ended, by the monotonic clock; a plan found at a start ends then."""
    is_flushed: bool = False
    """Its files are on the disk."""
    has_slots: bool = True
    """Displaced files may wait to be examined."""

    def slot(self, number: int) -> Path:
        return self.place / str(number)


@dataclass(frozen=True, slots=True)
class LateEdit:
    """Bytes of a person that a publication displaced, or that an editor wrote afterwards."""

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
        """Whether no displaced file waits to be examined."""
        return not any(plan.is_done and plan.has_slots for plan in self._waiting)

    @property
    def unflushed(self) -> list[Plan]:
        """Plans whose files may not be on the disk, oldest first."""
        return [plan for plan in self._waiting if not plan.is_flushed]

    def flushed(self, until: float) -> None:
        """Note a finished flush that began at `until`, by the monotonic clock. Plans that only waited for it go."""
        for plan in self.unflushed:
            if plan.at <= until:
                plan.is_flushed = True
                if not self._forgotten(plan):
                    with contextlib.suppress(OSError):  # on a full disk a crash finds it unflushed
                        (plan.place / FLUSHED).touch()

    def load(self) -> Plan | None:
        """Read the plans of a former process; the newest one, if any. An incomplete plan never began."""
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
        """The newest loaded plan that publishes, if it is not done: it was abandoned."""
        newest = next((plan for plan in reversed(self._waiting) if not _puts_back(plan)), None)
        return None if newest is None or newest.is_done else newest

    @property
    def restoring(self) -> tuple[Placement, ...]:
        """Files of unfinished plans that put back missing files."""
        return tuple(file for plan in self._waiting if _puts_back(plan) and not plan.is_done for file in plan.files)

    def begin(self, before: ObjectId, after: ObjectId, files: Iterable[Placement]) -> Plan:
        """Write a plan durably before any of it is carried out."""
        place = self.folder / f"{time.time_ns():020d}"
        place.mkdir()
        plan = Plan(place, before, after, tuple(files))
        rows = [[f.path, hex_of(f.old), hex_of(f.new), [hex_of(id) for id in f.taken], f.back] for f in plan.files]
        text = json.dumps({"before": before.hex(), "after": after.hex(), "files": rows})
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
            is_abandoned: Its files are in the work tree and not published. It stays until the next plan; a plan that
                puts back files stays until a further plan has done so.
        """
        plan.at = time.monotonic()
        if not is_abandoned:
            finished(plan)
            self._finish(filter(_puts_back, self._waiting if _puts_back(plan) else ()))
        plan.has_slots = not _is_empty(plan.place)
        self._waiting.append(plan)

    def late_edits(self, quiet: float = QUIET) -> Iterator[LateEdit]:
        """A person's displaced bytes, once they are quiet. Pass each to `done` after it is durable elsewhere."""
        now = time.monotonic()
        for plan in list(self._waiting):
            if not plan.has_slots or now - plan.at < quiet:
                continue
            for slot, file in slots(plan):
                yield from _examine(slot, file, quiet, now - plan.at)
            plan.has_slots = not _is_empty(plan.place)
            self._forgotten(plan)

    def _finish(self, plans: Iterable[Plan]) -> None:
        for plan in list(plans):
            finished(plan)
            self._forgotten(plan)

    def _forgotten(self, plan: Plan) -> bool:
        """Remove a plan that is no longer needed."""
        if is_over := plan.is_done and plan.is_flushed and not plan.has_slots:
            _remove(plan.place)
            self._waiting.remove(plan)
        return is_over

    def done(self, late: LateEdit) -> None:
        late.slot.unlink(missing_ok=True)

    def keep(self, late: LateEdit) -> None:
        """Keep bytes that can be neither committed nor put back, and log their place."""
        _keep(late.slot)


def finished(plan: Plan) -> None:
    """Mark a plan whose files are all published; its displaced files are still examined."""
    with contextlib.suppress(FileNotFoundError):
        os.rename(plan.place / PLAN, plan.place / DONE)
    plan.is_done = True


def slots(plan: Plan) -> Iterator[tuple[Path, Placement]]:
    """Displaced and unused prepared files of the plan, each with its entry."""
    for entry in sorted(plan.place.iterdir(), key=lambda entry: entry.name):
        number = entry.name.partition(".")[0]
        if number.isdigit() and int(number) < len(plan.files):
            yield entry, plan.files[int(number)]


def is_being_written(fd: int) -> bool:
    """Whether another program has the file open for writing. False where the system cannot tell.

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


def _examine(slot: Path, file: Placement, quiet: float, age: float) -> Iterator[LateEdit]:
    """Remove a known file at once; yield any other as a late edit, as soon as no program writes to it."""
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
        if age < PATIENCE and (is_being_written(fd) or time.time() - found.st_mtime < quiet):
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
        values = json.loads((place / (DONE if is_done else PLAN)).read_bytes())
        files = tuple(
            Placement(path, id_of(old), id_of(new), frozenset(map(id_of, taken)), *map(bool, back))
            for path, old, new, taken, *back in values["files"]  # an older plan has no `back`
        )
        before, after = bytes.fromhex(values["before"]), bytes.fromhex(values["after"])
        return Plan(place, before, after, files, is_done, is_flushed=(place / FLUSHED).exists())
    except (OSError, ValueError, KeyError, TypeError):
        return None


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
            entry.unlink()
        place.rmdir()
    else:
        place.unlink()

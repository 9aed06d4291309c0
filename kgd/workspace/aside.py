"""This file is where what a publication is about to do is written down, and what it swapped out is kept and looked at.

The plan of a publication lies beside the files it swaps out: until the last of them was looked at, the plan tells which
bytes are known and which are a person's. After a crash the newest plan, under an index lock that is ours, is what has
to be finished. The plan of a publication that was given up stays until the next one: it alone tells what lies in the
work tree without being published.

A plan also stays until what it placed was flushed: after an unclean stop the plans tell which files may be damaged.
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
from kgd.workspace.work_tree import FILE_LIMIT

QUIET = 1.0
"""Seconds for which what was swapped out must not have changed before it is looked at: an editor may be at work."""
PLAN, DONE = "plan", "done"
"""The file of a plan, and its name once that was published: a rename needs no space."""
FLUSHED = "flushed"
"""Marks a plan whose files were flushed, and that stays for another reason."""
FORMER_INDEX = "index"
"""A second name of the index that a publication replaced: the new one is not flushed."""
PATIENCE = 600.0
"""Seconds for which a file is kept because some program still has it open for writing."""


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Placement:
    """One file of a plan: what it was published as, what it becomes, and bytes that are in the workspace already.

    Args:
        taken: What was last known to be at the path though it was not published; empty, or one.
        back: `taken` is a person's edit of `old`: `old` in its place is that edit taken back.
    """

    path: str
    old: ObjectId | None
    new: ObjectId | None
    taken: frozenset[ObjectId | None] = frozenset()
    back: bool = False

    @property
    def known(self) -> frozenset[ObjectId | None]:
        """What may be replaced; all else at the path is a person's."""
        return self.taken | {self.new} if self.back else self.taken | {self.old, self.new}

    @property
    def base(self) -> ObjectId | None:
        """What a person started from whose bytes are at the path."""
        return next(iter(self.taken), self.old)


@dataclass(slots=True)
class Plan:
    """One publication: from which commit to which, and its files. The folder `place` is where they are swapped out."""

    place: Path
    before: ObjectId
    after: ObjectId
    files: tuple[Placement, ...]
    is_done: bool = False
    """It was published, or a newer plan has all of it."""
    at: float = field(default_factory=time.monotonic)
    """When it ended, by the monotonic clock; a plan that was found at start-up ends then."""
    is_flushed: bool = False
    """What it placed is on the disk."""
    has_slots: bool = True
    """Something that was swapped out may wait to be looked at."""

    def slot(self, number: int) -> Path:
        return self.place / str(number)


@dataclass(frozen=True, slots=True)
class Late:
    """Bytes of a person that a publication swapped out, or that an editor wrote afterwards."""

    path: str
    data: bytes
    base: ObjectId | None
    slot: Path


class Aside:
    """The folder of all plans that are not done with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._waiting: list[Plan] = []

    @property
    def is_empty(self) -> bool:
        """Whether nothing that was swapped out waits to be looked at."""
        return not any(plan.is_done and plan.has_slots for plan in self._waiting)

    @property
    def unflushed(self) -> list[Plan]:
        """Plans that may not be on the disk with what they placed, the oldest first."""
        return [plan for plan in self._waiting if not plan.is_flushed]

    def flushed(self, until: float) -> None:
        """A flush that began at `until`, by the monotonic clock, is over. Plans that only waited for it go."""
        for plan in self.unflushed:
            if plan.at <= until:
                plan.is_flushed = True
                if not self._forgotten(plan):
                    with contextlib.suppress(OSError):  # a full disk: then a crash finds it unflushed
                        (plan.place / FLUSHED).touch()

    def load(self) -> Plan | None:
        """Read what a former process left; the newest plan, if there is one. One that is not whole never began."""
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
        """Of what was loaded the newest plan that publishes something, unless it is done: then it was given up."""
        newest = next((plan for plan in reversed(self._waiting) if not _puts_back(plan)), None)
        return None if newest is None or newest.is_done else newest

    @property
    def restoring(self) -> tuple[Placement, ...]:
        """What was to be put back, by this process or a former one that did not come to the end of it."""
        return tuple(file for plan in self._waiting if _puts_back(plan) and not plan.is_done for file in plan.files)

    def begin(self, before: ObjectId, after: ObjectId, files: Iterable[Placement]) -> Plan:
        """Write a plan down, durably, before any of it is done."""
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
        if not _puts_back(plan):  # it has all that a plan has which was given up
            self._finish(former for former in self._waiting if not former.is_done)
        return plan

    def end(self, plan: Plan, *, given_up: bool = False) -> None:
        """The publication is over: what lies in its folder is looked at after a while.

        Args:
            given_up: What it placed is in the work tree and not published. Then it is kept until the next plan; one
                that puts back what was missing, until another has done that.
        """
        plan.at = time.monotonic()
        if not given_up:
            finished(plan)
            self._finish(filter(_puts_back, self._waiting if _puts_back(plan) else ()))
        plan.has_slots = not _is_empty(plan.place)
        self._waiting.append(plan)

    def late(self, quiet: float = QUIET) -> Iterator[Late]:
        """What a person wrote there, once it is quiet. Each must be given to `done` when it is durable elsewhere."""
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
        """Remove a plan that tells nothing any more."""
        if is_over := plan.is_done and plan.is_flushed and not plan.has_slots:
            _remove(plan.place)
            self._waiting.remove(plan)
        return is_over

    def done(self, late: Late) -> None:
        late.slot.unlink(missing_ok=True)

    def keep(self, late: Late) -> None:
        """It can neither be taken nor put back: keep it in the folder beside, and say so."""
        _keep(late.slot)


def finished(plan: Plan) -> None:
    """Nothing of it lies in the work tree without being published; what it swapped out is still looked at."""
    with contextlib.suppress(FileNotFoundError):
        os.rename(plan.place / PLAN, plan.place / DONE)
    plan.is_done = True


def slots(plan: Plan) -> Iterator[tuple[Path, Placement]]:
    """What was swapped out by the plan, or prepared and not placed, each with the file it belongs to."""
    for entry in sorted(plan.place.iterdir(), key=lambda entry: entry.name):
        number = entry.name.partition(".")[0]
        if number.isdigit() and int(number) < len(plan.files):
            yield entry, plan.files[int(number)]


def is_being_written(fd: int) -> bool:
    """Whether some program has the file open for writing. False where the system cannot tell.

    By a lease that is given back at once: Linux grants a read lease only where nobody can write.
    """
    try:
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)  # were the lease broken: a signal that does nothing
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except BlockingIOError:
        return True
    except (OSError, AttributeError):
        return False
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


def _examine(slot: Path, file: Placement, quiet: float, age: float) -> Iterator[Late]:
    """A file that is known goes at once; one that is not is a late edit, as soon as nobody writes to it."""
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
        yield Late(file.path, data, file.base, slot)


def _keep(slot: Path) -> None:
    """Somebody put it there, so it is kept out of the way and not deleted."""
    kept = slot.parent.parent.parent / "kept"
    kept.mkdir(exist_ok=True)
    target = kept / f"{slot.parent.name}-{slot.name}"
    os.rename(slot, target)
    log.warning("kept what somebody wrote and nobody can place", extra={"path": str(target)})


def _read(place: Path) -> Plan | None:
    try:
        is_done = (place / DONE).exists()
        values = json.loads((place / (DONE if is_done else PLAN)).read_bytes())
        files = tuple(
            Placement(path, id_of(old), id_of(new), frozenset(map(id_of, taken)), *map(bool, back))
            for path, old, new, taken, *back in values["files"]  # an older plan does not say `back`
        )
        before, after = bytes.fromhex(values["before"]), bytes.fromhex(values["after"])
        return Plan(place, before, after, files, is_done, is_flushed=(place / FLUSHED).exists())
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _puts_back(plan: Plan) -> bool:
    return plan.before == plan.after


def _is_empty(place: Path) -> bool:
    """Whether nothing lies there that was swapped out."""
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

"""Refs: read and moved with git's own protocol.

libgit2 does not distinguish a held lock from a stale value, and flushes refs only if a process-wide switch was set
before the first repository was opened. Here a move is a compare-and-swap under ``<ref>.lock``. The lock is a ``link()``
to a flushed file that kgd wrote, so it is complete as soon as it exists, and after a crash its inode proves that it is
kgd's.
"""

from __future__ import annotations

import errno
import itertools
import os
import re
import shlex
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

from kgd.errors import Damaged, Unavailable
from kgd.git import program
from kgd.git.files import replace, same_file, sync_folder, write_new
from kgd.git.objects import ObjectId, moment, parse_id, raw, text, words

HEAD = "refs/kgd/head"
"""The ref that the writer moves; the visible branch follows it."""
PROPOSALS = "refs/heads/proposals/"
"""Prefix of refs of changes that wait for approval."""
REJECTED = "refs/kgd/rejected/"
"""Prefix of refs that keep rejected proposals."""
ACCEPTED = "refs/kgd/accepted/"
"""Prefix of refs that keep accepted proposals for some time."""
INCOMING = "refs/kgd/in/"
"""Prefix of refs that hold the last state of each remote, followed by the remote's name."""
KGD = "kgd <kgd@kgd.invalid>"
"""The identity in reflog lines that kgd writes."""
PENDING = "refs/kgd/pending/"
"""Prefix of refs of the proposals that several hubs share, followed by the workspace's id; see
`kgd.workspace.proposals.records`."""
NOTES = "refs/notes/kgd"
"""Git notes that record which token pushed which commit; see `kgd.workspace.history.pushers`."""
REVOKED = "refs/kgd/revoked"
"""The list of revoked tokens in an upstream of several hubs; see `kgd.daemon.shared_state`."""
LOCK_DEADLINE = 5.0
_LARGEST_FILE = 64 << 20

_ZERO = bytes(20)
_PACKED_LINE = re.compile(
    rb"# pack-refs with:[ -~]*|\^[0-9a-f]{40}|[0-9a-f]{40} refs/[^\0-\x20\x7f~^:?*\[\\]+"
).fullmatch
"""Valid lines of packed-refs: the header comment, the target of a tag, or a ref."""
_serial = itertools.count()


class RefMoved(Exception):
    """The ref did not hold the expected value; `found` is its value."""

    def __init__(self, name: str, found: ObjectId | None) -> None:
        super().__init__(f"{name} holds {found.hex() if found else 'nothing'}")
        self.name, self.found = name, found


class RefUpdate(NamedTuple):
    """A move of a ref by compare-and-swap; None is an absent ref."""

    name: str
    old: ObjectId | None
    new: ObjectId | None


class LogLine(NamedTuple):
    old: ObjectId | None
    new: ObjectId
    who: str
    time: int
    note: str


def read_ref(git_dir: Path, name: str) -> ObjectId | None:
    """The value of a ref; None if it does not exist. About 20 us. The repository may be another program's.

    Raises:
        Damaged: The file is empty, full of zero bytes or malformed; see `repair_ref`.
    """
    for _ in range(5):
        content = _loose(git_dir, name)
        if content is None:
            return _packed(git_dir, name)
        if not content.startswith(b"ref: "):
            return _value(content, name)
        name = text(content[5:].strip())
    raise Damaged("a symbolic ref points to itself, directly or through others", at=name)


def value_of(git_dir: Path, name: str) -> ObjectId | None:
    """`read_ref`, with None for a damaged ref."""
    try:
        return read_ref(git_dir, name)
    except Damaged:
        return None


def checked_out(git_dir: Path) -> str | None:
    """The full name of the branch that HEAD points to, or None if HEAD is detached.

    Raises:
        Damaged: HEAD is missing or malformed.
    """
    content = _loose(git_dir, "HEAD")
    if content is None:
        raise Damaged("HEAD is missing", at="HEAD")
    if content.startswith(b"ref: refs/"):
        return text(content[5:].strip())
    _value(content, "HEAD")
    return None


def list_refs(git_dir: Path, prefix: str = "refs/") -> dict[str, ObjectId]:
    """All refs with this prefix, by name. Damaged and symbolic refs are left out."""
    found: dict[str, ObjectId | None] = {}
    top = f"{git_dir}/"
    for folder, _, files in os.walk(top + prefix.rpartition("/")[0]):
        inside = folder.removeprefix(top)
        for file in files:
            name = f"{inside}/{file}"
            if name.startswith(prefix) and not name.endswith(".lock"):
                try:
                    if (content := _loose(git_dir, name)) is not None:
                        found[name] = _value(content, name)
                except Damaged:
                    found[name] = None
    # Read last: a ref that git packs in the meantime is in its own file before, and here afterwards.
    for name, id in _packed_lines(git_dir):
        if name.startswith(prefix) and name not in found:
            found[name] = _value(id, "packed-refs")
    return {name: value for name, value in sorted(found.items()) if value}


def move_ref(
    git_dir: Path,
    scratch_dir: Path,
    name: str,
    old: ObjectId | None,
    new: ObjectId,
    *,
    note: str = "kgd",
    notes: Sequence[tuple[str, int]] = (),
    deadline: float = LOCK_DEADLINE,
) -> None:
    """Move `name` from `old` (None: must not exist) to `new`, durably, and write a line of its reflog.

    `notes` are several lines to write instead of `note`, each with its time in Unix seconds.

    On return the move is durable and was read back; another process may already have moved the ref further. After an
    OSError the outcome is unknown: read the ref again.

    Raises:
        RefMoved: The ref held another value; nothing was changed, or another process reset it to `old`.
        Unavailable: Another process held the lock until the deadline; nothing was changed.
        Damaged: The value of the ref cannot be read.
    """
    path, lock = git_dir / name, git_dir / f"{name}.lock"
    mine = scratch_dir / f"ref,{quote(name, safe='')},{os.getpid()}-{next(_serial)}"
    mine.unlink(missing_ok=True)
    write_new(mine, new.hex().encode() + b"\n")
    try:
        _link(mine, lock, time.monotonic() + min(deadline, LOCK_DEADLINE))
        found = read_ref(git_dir, name)
        if found != old:
            raise RefMoved(name, found)
        _log(git_dir, name, old, new, notes or [(note, int(time.time()))])
        os.rename(lock, path)
        sync_folder(path.parent)
        found = read_ref(git_dir, name)
        if found != new and found in (old, None):  # any other value was set after ours, by a move like this one
            raise RefMoved(name, found)
    finally:
        if same_file(mine, lock):
            lock.unlink(missing_ok=True)
        mine.unlink(missing_ok=True)


def move_refs(git_dir: Path, moved: Mapping[str, tuple[ObjectId, ObjectId | None]]) -> None:
    """Move refs from their first value to the second (None: remove them), all or none. Runs git (some ms).

    Raises:
        Unavailable: A ref changed in the meantime, or cannot be written; no ref was moved.
    """
    lines = [
        f"update {name} {new.hex()} {old.hex()}\n" if new else f"delete {name} {old.hex()}\n"
        for name, (old, new) in moved.items()
    ]
    try:
        program.run(git_dir, ["update-ref", "--no-deref", "--stdin"], input=raw("".join(lines)))
    except program.GitFailed as error:
        raise Unavailable(f"the refs cannot be moved: {error.said}", next="Try again.") from error


def delete_refs(git_dir: Path, known: Mapping[str, ObjectId]) -> None:
    """Delete refs that have these values, all or none. Raises as `move_refs`."""
    if known:
        move_refs(git_dir, {name: (old, None) for name, old in known.items()})


def drop_stale_locks(git_dir: Path, scratch_dir: Path) -> list[str]:
    """Remove ref locks that a killed process of kgd left, and no others; returns the names of their refs.

    Call it only under the workspace's own lock, when no other kgd process is using the repository.
    """
    freed = []
    for mine in scratch_dir.glob("ref,*,*"):
        name = unquote(mine.name.split(",")[1])
        lock = git_dir / f"{name}.lock"
        if same_file(mine, lock):
            lock.unlink()
            freed.append(name)
        mine.unlink()
    return freed


def read_log(git_dir: Path, name: str) -> list[LogLine]:
    """The ref's reflog, oldest first; unreadable lines are left out."""
    try:
        lines = (git_dir / "logs" / name).read_bytes().split(b"\n")
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [parsed for line in lines if (parsed := _log_line(line))]


def repair_ref(
    git_dir: Path,
    scratch_dir: Path,
    name: str,
    usable: Callable[[ObjectId], bool],
    *,
    known_good: tuple[ObjectId, ...] = (),
) -> ObjectId | None:
    """Restore the newest usable value of a lost or damaged ref and return it; None if there is no such value.

    Sources are tried in this order: the reflog from its end, `known_good`, packed-refs. The bad bytes are kept in
    ``broken/`` of the scratch folder. A readable ref is returned unchanged.
    """
    try:
        if (value := read_ref(git_dir, name)) is not None:
            return value
    except Damaged:
        pass
    if os.path.lexists(git_dir / name) and not os.path.isdir(git_dir / name):
        _set_aside(git_dir, scratch_dir, name)
    mend_packed_refs(git_dir, scratch_dir)
    packed = _packed(git_dir, name)
    logged = [line.new for line in reversed(read_log(git_dir, name))]
    for candidate in (*logged, *known_good, *([packed] if packed else [])):
        if usable(candidate):
            if candidate != packed:
                move_ref(git_dir, scratch_dir, name, packed, candidate, note="kgd: repaired")
            return candidate
    return None


def mend_packed_refs(git_dir: Path, scratch_dir: Path) -> bool:
    """Remove lines of packed-refs that would make git refuse the whole repository, or a pipe, a device or a link to
    itself in its place; True if there was anything to remove. The old file is kept in ``broken/`` of the scratch
    folder."""
    try:
        is_plain = stat.S_ISREG(os.stat(git_dir / "packed-refs").st_mode)
    except OSError as error:
        is_plain = error.errno != errno.ELOOP
    if not is_plain:
        _set_aside(git_dir, scratch_dir, "packed-refs")
        return True
    content = _loose(git_dir, "packed-refs") or b""
    *lines, rest = content.split(b"\n")
    if not rest and all(map(_PACKED_LINE, lines)):
        return False
    kept = scratch_dir / "broken"
    kept.mkdir(parents=True, exist_ok=True)
    write_new(kept / f"packed-refs.{time.time_ns()}", content)
    replace(git_dir / "packed-refs", b"".join(line + b"\n" for line in lines if _PACKED_LINE(line)))
    return True


def _set_aside(git_dir: Path, scratch_dir: Path, name: str) -> None:
    kept = scratch_dir / "broken"
    kept.mkdir(parents=True, exist_ok=True)
    os.replace(git_dir / name, kept / f"{quote(name, safe='')}.{time.time_ns()}")


def _link(mine: Path, lock: Path, end: float) -> None:
    wait = 0.001
    while True:
        try:
            os.link(mine, lock)
            return
        except FileNotFoundError:
            if not mine.exists():  # the whole repository was moved or deleted
                raise
            # git pack-refs removes the folders it empties; the new folder has to be flushed as well
            lock.parent.mkdir(parents=True, exist_ok=True)
            sync_folder(lock.parent.parent)
        except FileExistsError:
            if time.monotonic() > end:
                message, command = _held(lock)
                raise Unavailable(message, at=lock.name, next=command) from None
            time.sleep(wait)
            wait = min(wait * 1.5, 0.02)


def _held(lock: Path) -> tuple[str, str]:
    try:
        age = f"{max(0, int(time.time() - lock.lstat().st_mtime))} s old"
    except FileNotFoundError:
        age = "gone a moment ago"
    command = f"rm {shlex.quote(str(lock))}"
    return f"another program holds the lock {lock} ({age})", f"If no git command is running: `{command}`"


def _loose(git_dir: Path, name: str) -> bytes | None:
    """The content of a file of refs; None if there is none.

    The directory may be another program's, so only plain files of bounded size are read, which cannot block.
    """
    try:
        fd = os.open(f"{git_dir}/{name}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno not in (errno.ENXIO, errno.ELOOP):  # a socket, or a link to itself
            raise
        raise Damaged("the file of a ref is not a plain file", at=name) from None
    try:
        found = os.fstat(fd)
        if stat.S_ISDIR(found.st_mode):
            return None
        if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST_FILE:
            raise Damaged("the file of a ref is not a plain file, or too large", at=name)
        return os.read(fd, found.st_size)
    finally:
        os.close(fd)


def _value(content: bytes, name: str) -> ObjectId:
    try:
        return parse_id(content.strip(b"\n \t\r"))
    except Damaged:
        state = "empty" if not content.strip(b"\0\n ") else "malformed"
        raise Damaged(f"the file of a ref is {state}", at=name, next="Run `kgd doctor --fix`.") from None


def _packed(git_dir: Path, name: str) -> ObjectId | None:
    return next((_value(id, "packed-refs") for found, id in _packed_lines(git_dir) if found == name), None)


def _packed_lines(git_dir: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the name of each packed ref, and its value in hex digits."""
    content = _loose(git_dir, "packed-refs")
    if content is not None and b"\0" in content:
        raise Damaged("packed-refs holds zero bytes", at="packed-refs", next="Run `kgd doctor --fix`.")
    for line in (content or b"").split(b"\n"):
        if line and line[:1] not in b"#^":
            yield text(line[41:]), line[:40]


def _log(git_dir: Path, name: str, old: ObjectId | None, new: ObjectId, notes: Sequence[tuple[str, int]]) -> None:
    """Write the undo log before the move, so that the log contains every tip that the ref ever had. The log is not
    flushed, but the ref is."""
    path = git_dir / "logs" / name
    head = f"{(old or _ZERO).hex()} {new.hex()} {KGD}"
    lines = "".join(f"{head} {at} +0000\t{' '.join(note.split())}\n" for note, at in notes)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.write(fd, raw(lines))
    finally:
        os.close(fd)


def _log_line(line: bytes) -> LogLine | None:
    head, _, note = line.partition(b"\t")
    try:
        old, new = parse_id(head[:40]), parse_id(head[41:81])
        who, when, _ = head[82:].rsplit(b" ", 2)
        return LogLine(None if old == _ZERO else old, new, words(who), moment(when), words(note))
    except (Damaged, ValueError):
        return None

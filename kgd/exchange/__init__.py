"""Import from and export to other programs' files: a small registry of formats.

A format reads files into a `Plan` and writes files, an `Export`, from a `View`. Neither changes a workspace or a file;
that is left to `kgd.tools.exchange`. A user's folder is read within bounds, in order, and without following links out
of it.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from kgd.errors import Limit
from kgd.model.conflict import canonical_json
from kgd.model.escaping import printable
from kgd.model.fields import plain
from kgd.model.node import NODE_BYTES, Json, Node, cut_at_word
from kgd.model.uri import Uri, is_text_name, scheme_of

IMPORTED = "imported"
"""Data key for the digest of an imported node at the time of its import."""
PLACE = "added"
"""Data key for the order number of an entity or of its relation."""
NAMED_FILE = "file"
"""Data key for the name of a node's memory file."""
REASON = 240
"""Largest length of a reason in a report, in characters."""

MOST_BYTES = 2**30
"""Largest number of bytes read from one source."""
MOST_FILES = 200_000
"""Largest number of files listed in a folder."""
PRUNED = frozenset({"node_modules", "__pycache__", "venv", "target", "dist", "build"})


@dataclass(frozen=True, slots=True)
class Trouble:
    """A part of a source that was left out or changed. `at` is ``path:line`` within the source."""

    at: str
    reason: str

    def __post_init__(self) -> None:
        reason = " ".join(self.reason.split())
        object.__setattr__(self, "reason", reason if len(reason) <= REASON else cut_at_word(reason, REASON))


@dataclass(frozen=True, slots=True)
class Wanted:
    """A node of the source: its complete content, and the prose of its memory file if it has one.

    `file` is the name of that file in the source; `at` is the node's place there. If kgd wrote the source, `base` is
    the digest of the written state, so the node need not store a digest.
    """

    node: Node
    detail: str = ""
    file: str = ""
    at: str = ""
    base: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """The content of a source, before anything is written.

    `wanted` nodes keep their order. They are compared with the stored ones, so a second import changes nothing and
    users' edits stay. `counts` has totals such as ``{"notes": 12}``.
    """

    wanted: tuple[Wanted, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reading:
    """The target of an import.

    Args:
        workspace: Its id, used in URIs.
        below: Path prefix of the URIs; may be empty.
        code_tree: Root of the described code, if any.
        keywords: Returns tags for a text.
        check_pattern: Returns the normalised form of an area's path pattern, or raises Invalid.
    """

    workspace: str
    below: str = ""
    code_tree: Path | None = None
    check_pattern: Callable[[str, str], str] = lambda text, at: text
    keywords: Callable[[str], Sequence[str]] = lambda text: ()


@dataclass(frozen=True, slots=True)
class Output:
    """A file to write: its path below the target (empty for the target itself) and its bytes.

    A `block` is inserted between kgd's two marker lines in an existing file.
    """

    path: str
    data: bytes
    block: bool = False


@dataclass(frozen=True, slots=True)
class Export:
    """The files of an export, totals, and the parts that the format cannot express."""

    files: tuple[Output, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


def digest(node: Node, detail: str = "") -> str:
    """Digest of a node's knowledge, independent of its URI and source; 16 hex digits."""
    apart = (IMPORTED, NAMED_FILE, *_places(node))
    data = {key: value for key, value in node.data.items() if key not in apart}
    relations = tuple(replace(one, data=_without(one.data, _places(node))) for one in node.relations)
    values: dict[str, Any] = plain(replace(node, data=data, relations=relations, source=None, aliases=()))
    values["uri"] = values["detail"] = ""
    if detail:
        values["detail"] = detail.strip("\n")
    return hashlib.sha256(canonical_json(values).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _places(node: Node) -> tuple[str, ...]:
    """Keys that are not knowledge: for example, an entity's number changes if a line is added before the entity's
    line."""
    return (PLACE,) if scheme_of(node.uri) == "entity" else ()


def _without(data: Mapping[str, Json], keys: Sequence[str]) -> Mapping[str, Json]:
    return {key: value for key, value in data.items() if key not in keys} if keys else data


def without_nulls(data: Mapping[str, Json]) -> dict[str, Json]:
    """The data without null values, which a write leaves out."""
    return {
        key: without_nulls(value) if isinstance(value, Mapping) else value
        for key, value in data.items()
        if value is not None
    }


def filled(values: Mapping[str, Json]) -> dict[str, Json]:
    """The values that are neither empty nor null."""
    return {key: value for key, value in values.items() if value}


def noted(wanted: Wanted) -> Wanted:
    """The node, with the digest by which a later import detects changes on either side."""
    node = replace(wanted.node, data=without_nulls(wanted.node.data))
    if not wanted.base:
        node = replace(node, data={**node.data, IMPORTED: digest(node, wanted.detail)})
    return replace(wanted, node=node)


def sub_mapping(node: Node, key: str) -> Mapping[str, Json]:
    """The mapping under a data key; empty if the value is not a mapping."""
    value = node.data.get(key)
    return value if isinstance(value, Mapping) else {}


def unused(name: str, taken: set[str], ending: str = "") -> str:
    """`name` with its ending, numbered if already taken; marks the result as taken."""
    found, number = f"{name}{ending}", 2
    while found in taken:
        found, number = f"{name}-{number}{ending}", number + 1
    taken.add(found)
    return found


class Store(Protocol):
    """The part of a workspace that an export needs; implemented by `kgd.workspace.workspace.Workspace`."""

    @property
    def id(self) -> str: ...
    def is_broken(self, target: Uri) -> bool: ...
    def node(self, uri: Uri) -> Node | None: ...
    def resolve(self, uri: Uri) -> Uri: ...


@dataclass(frozen=True, slots=True)
class View:
    """The stored nodes to export, in order.

    Args:
        chosen: Their URIs; sorted, or in the order of a walk.
        detail: Returns the prose of a node's memory file, or None.
        stamps: Returns when a node was created and last changed, in Unix seconds.
        cut: Number of other nodes that were not chosen.
    """

    store: Store
    chosen: Sequence[Uri]
    detail: Callable[[Node], str | None] = lambda node: None
    stamps: Callable[[Uri], tuple[int, int]] = lambda uri: (0, 0)
    cut: int = 0

    @property
    def workspace(self) -> str:
        return self.store.id

    def nodes(self) -> Iterator[Node]:
        """The chosen nodes that are stored, each read on demand."""
        for uri in self.chosen:
            node = self.store.node(uri)
            if node is not None:
                yield node


@dataclass(slots=True)
class Folder:
    """The files below a folder, by relative paths with ``/``; `left` counts unwanted files by suffix."""

    root: Path
    troubles: list[Trouble] = field(default_factory=list)
    left: dict[str, int] = field(default_factory=dict)
    taken: int = 0

    def paths(self, wants: Callable[[str], bool], enters: Callable[[str], bool]) -> Iterator[str]:
        """The wanted files in order. Folders that `enters` refuses are skipped.

        Raises:
            Limit: The folder has more than 200,000 files.
        """
        looked = 0
        for base, folders, names in os.walk(self.root, onerror=self._unread):
            where = os.path.relpath(base, self.root).replace(os.sep, "/")
            before = "" if where == "." else where + "/"
            for name in [n for n in folders if os.path.islink(os.path.join(base, n))]:
                folders.remove(name)
                if enters(before + name):
                    self.troubles.append(Trouble(before + name, "a symbolic link is not followed"))
            folders[:] = sorted(name for name in folders if enters(before + name))
            for name in sorted(names):
                looked += 1
                if looked > MOST_FILES:
                    raise Limit(
                        f"a folder has at most {MOST_FILES:,} files",
                        at=str(self.root)[-80:],
                        next="Import a part of it.",
                    )
                if wants(before + name):
                    yield before + name
                elif not name.startswith("."):
                    suffix = os.path.splitext(name)[1].lower()
                    self.left[suffix] = self.left.get(suffix, 0) + 1

    def texts(self, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
        """The files with their texts. A file without a name or text in UTF-8 is reported."""
        for path in paths:
            if not is_text_name(path):
                self._skip(path, "the name is not UTF-8; skipped")
            elif (text := self.text(path)) is not None:
                yield path, text

    def read(self, path: str) -> bytes | None:
        """The bytes of a file. If the file cannot be read, report it and return None.

        Raises:
            Limit: More than 1 GiB was read in all.
        """
        full = self.root / path
        try:
            fd = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            self._skip(path, "a symbolic link is not followed" if full.is_symlink() else _unreadable(error))
            return None
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            self._skip(path, "not a regular file; skipped")
            return None
        try:
            with os.fdopen(fd, "rb") as file:
                data = file.read(NODE_BYTES + 1)
        except OSError as error:
            self._skip(path, _unreadable(error))
            return None
        if len(data) > NODE_BYTES:
            self._skip(path, f"larger than {NODE_BYTES // 1024} KiB; skipped")
            return None
        self.taken += len(data)
        if self.taken > MOST_BYTES:
            raise Limit("the source has more than 1 GiB of text", at=str(self.root)[-80:], next="Import a part of it.")
        return data

    def leads_out(self, path: str) -> bool:
        """Whether a folder on this path is a symbolic link. Walks do not follow links, but a name in a file may."""
        return any((self.root / "/".join(path.split("/")[:n])).is_symlink() for n in range(1, path.count("/") + 1))

    def text(self, path: str) -> str | None:
        """The text of a file. If the file is not text, report it and return None."""
        data = self.read(path)
        if data is None:
            return None
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            self._skip(path, "not UTF-8; skipped", f":{line}")
            return None

    def _skip(self, path: str, reason: str, line: str = "") -> None:
        self.troubles.append(Trouble(printable(path) + line, reason))

    def _unread(self, error: OSError) -> None:
        path = os.path.relpath(error.filename or self.root, self.root)
        self._skip(path, f"the folder {_unreadable(error)}")


def _unreadable(error: OSError) -> str:
    return f"cannot be read: {error.strerror}"

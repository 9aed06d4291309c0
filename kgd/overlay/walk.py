"""This file is where a tree is walked: the directories of the last state in, those of the next one out."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from kgd.model.uri import MAX_BYTES, MAX_SEGMENTS
from kgd.overlay.facts import read, unread
from kgd.overlay.listing import TOO_LONG, Rules, fits, look_into
from kgd.overlay.tree import Directory, name_bytes

Progress = Callable[[int, int], None]
"""Called with (files looked into, files to look into), now and then and at the end."""

_EVERY = 128


class Stopped(Exception):
    """Somebody asked the walk to stop."""


class Pending(NamedTuple):
    """The files of one directory whose content has to be read; `prefix` is the directory's path with its slash."""

    directory: Directory
    prefix: str
    names: list[str]


class Walk:
    """One pass over a tree: first `list` it, then `read` what changed. Touches nothing that a reader can see."""

    def __init__(self, root: str, workspace: str, rules: Rules, stop: threading.Event) -> None:
        self.skipped: Counter[str] = Counter()
        self._root, self._workspace, self._rules, self._stop = root, workspace, rules, stop
        self._pending: list[Pending] = []

    def list(self, known: Directory | None) -> Directory | None:
        """The tree's directories with the facts of every file that `known` has unchanged; the others are unread.

        Raises:
            Stopped: Between two directories.
        """
        return self._list("", 0, known)

    def read(self, now: Callable[[], int], progress: Progress | None) -> None:
        """Reads the files that `list` left unread. After `Stopped` the tree keeps what was read up to there."""
        total, done = sum(len(pending.names) for pending in self._pending), 0
        for directory, prefix, names in self._pending:
            for name in names:
                if done % _EVERY == 0:
                    self._check()
                    if progress and done:
                        progress(done, total)
                directory.files[name] = read(f"{self._root}/{prefix}{name}", name, directory.files[name], now())
                done += 1
        if progress:
            progress(total, total)

    def _list(self, path: str, depth: int, known: Directory | None) -> Directory | None:
        self._check()
        folder = look_into(self._root, path, self._rules, self.skipped)
        if folder is None:
            return None
        made = Directory(note=folder.note)
        prefix = f"{path}/" if path else ""
        # The longest spelling has three characters a byte; only near the limit is it worth finding out.
        room = MAX_BYTES - 3 * len(name_bytes(prefix)) - len(self._workspace) - 8
        pending: list[str] = []
        for name, found in folder.files:
            if not self._has_uri("file", prefix + name, depth, room):
                continue
            file = known.files.get(name) if known else None
            if file is None or not file.has_stamps_of(found):
                file = unread(found)
                if not file.file_type:
                    pending.append(name)
            made.files[name] = file
        for name in folder.folders:
            if not self._has_uri("dir", prefix + name, depth, room):
                continue
            inner = self._list(prefix + name, depth + 1, known.folders.get(name) if known else None)
            if inner is not None:
                made.folders[name] = inner
        if known is not None and not pending and _is_same(known, made):
            return known
        made.add_up()
        if pending:
            self._pending.append(Pending(made, prefix, pending))
        return made

    def _has_uri(self, scheme: str, path: str, depth: int, room: int) -> bool:
        if depth < MAX_SEGMENTS and room > 3 * 255:
            return True
        if fits(scheme, self._workspace, path):
            return True
        self.skipped[TOO_LONG] += 1
        return False

    def _check(self) -> None:
        if self._stop.is_set():
            raise Stopped


def settle(known: Directory | None, new: Directory) -> Directory:
    """`new` with each directory replaced by `known`'s where both say the same after all (files read again for nothing).

    So that a reader's caches and the next difference see that nothing changed there.
    """
    if known is None or known is new:
        return new
    for name, inner in new.folders.items():
        new.folders[name] = settle(known.folders.get(name), inner)
    return known if _is_same(known, new) else new


def _is_same(one: Directory, two: Directory) -> bool:
    return (
        one.note == two.note
        and one.files == two.files
        and one.folders.keys() == two.folders.keys()
        and all(folder is two.folders[name] for name, folder in one.folders.items())
    )

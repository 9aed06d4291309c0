"""This file is where it is defined what is taken in, and what a kind of thing is that can be.

Every kind does the same three steps: it is read, what it says becomes nodes that are compared with what is stored, and
the difference is written. `kgd.ingest.kinds` lists them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kgd.ingest import formats
from kgd.ingest.reading import Reading
from kgd.model.change import Edit
from kgd.model.node import Source
from kgd.model.uri import Uri
from kgd.model.wiki_links import Names

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

SNIFFED = 64 << 10
"""Bytes of a file that tell its kind."""
FILE_LIMIT = 64 << 20
"""Bytes of one file, where its kind does not say otherwise."""


@dataclass(frozen=True, slots=True)
class Given:
    """One thing that is to be taken in.

    `name` is where it was found: a path such as ``handbook/rules/leave.md``, which never begins above the folder that
    was named. `uri` is the node that it shall become, if somebody said so, and `url` where it is to be had.
    """

    name: str
    data: bytes
    source: Source
    uri: Uri | None = None
    url: str = ""
    digest: str = ""
    """SHA-256 of the data, in hex."""

    def __post_init__(self) -> None:
        if not self.digest:
            object.__setattr__(self, "digest", hashlib.sha256(self.data).hexdigest())


@dataclass(slots=True)
class Around:
    """What taking in may look at besides: the workspace, a reader, and the names of all that comes with it."""

    workspace: Workspace
    reading: Reading
    names: Names = field(default_factory=Names)
    paths: set[str] = field(default_factory=set)
    """Names of all that is taken in with it, as `Given` has them."""
    sees: Callable[[Uri], bool] = lambda uri: True
    """Whether who asks may know that a node is there."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What one document or thread changes. Each of `commits` is written as one commit, in this order.

    After any of them the workspace is sound, and taking in the same again gives those that are left. Without any it is
    stored already. `counts` says how many nodes of which kind are new, changed and gone, such as ``chunks_new``.
    """

    uri: Uri
    commits: tuple[tuple[Edit, ...], ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    trouble: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """How one kind of thing is taken in.

    Args:
        recognises: Whether this is one, by its name and its first 64 KiB.
        take: What it changes, for each document or thread in it. Each is compared with what is stored when it is asked
            for, and is written before the next one is.
        is_current: Whether the very same bytes were taken in before, so that it need not be read at all.
        together: What all files of a folder change as one, where a folder may be that, in the order of their names.
        limit: Bytes of one file.
        from_tree: Whether files of the code tree are taken in too; otherwise they are served as they are.
        in_folder: Which files of a folder are meant, by their names, where a folder is taken in as this kind.
        names_itself: Whether what a file holds says what it is called, by its first 64 KiB. Otherwise it goes by the
            name of the file, and another file of that name is another thing.
        scheme: What its nodes' URIs begin with.
    """

    name: str
    about: str
    recognises: Callable[[str, bytes], bool]
    take: Callable[[Given, Around], Iterable[Taken]]
    is_current: Callable[[Given, Around], bool] = lambda given, around: False
    together: Callable[[Iterable[Given], Around], Iterable[Taken]] | None = None
    limit: int = FILE_LIMIT
    from_tree: bool = True
    in_folder: Callable[[str], bool] = formats.is_document
    names_itself: Callable[[bytes], bool] = lambda head: False
    scheme: str = "document"

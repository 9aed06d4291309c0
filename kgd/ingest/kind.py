"""Kinds of things that can be ingested, and the input and result of an ingest.

Every kind works in three steps: read the source, compare its nodes with the stored ones, write the difference.
`kgd.ingest.kinds` lists them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from kgd.ingest import document_reader
from kgd.ingest.document_reader import DocumentReader
from kgd.model.change import Edit
from kgd.model.node import Source
from kgd.model.uri import Uri
from kgd.model.wiki_links import Names
from kgd.workspace.workspace import Workspace

SNIFFED = 64 << 10
"""Number of bytes at the beginning of a file that determine its kind."""
FILE_LIMIT = 64 << 20
"""Largest size of a file in bytes, unless its kind has another limit."""


@dataclass(frozen=True, slots=True)
class Given:
    """A source to ingest.

    `name` is its path, such as ``handbook/rules/leave.md``, relative to the folder to ingest. `uri` is the node to
    create, if the caller chose one; `url` is its address on the web.
    """

    name: str
    data: bytes
    source: Source
    uri: Uri | None = None
    url: str = ""

    @property
    def digest(self) -> str:
        """SHA-256 of the data, in hex. O(data)."""
        return hashlib.sha256(self.data).hexdigest()


@dataclass(slots=True)
class Around:
    """Context of an ingest: the workspace, a reader, and the names of all sources of the same run."""

    workspace: Workspace
    reading: DocumentReader
    names: Names = field(default_factory=Names)
    paths: set[str] = field(default_factory=set)
    """Names of all sources of the same run, in the form of `Given.name`."""
    sees: Callable[[Uri], bool] = lambda uri: True
    """Whether the caller may know that a node exists."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The changes of one document or thread. Each of `commits` is written as one commit, in order.

    After each commit the workspace is consistent, and ingesting the source again returns the remaining changes. If
    there are no commits, the source is already stored. `counts` has numbers of nodes by kind and change, such as
    ``chunks_new``.
    """

    uri: Uri
    commits: tuple[tuple[Edit, ...], ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    trouble: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of source.

    Args:
        recognises: Whether a file is of this kind, judged by its name and its first 64 KiB.
        take: The changes for each document or thread in a source. Each is compared with the stored nodes when it is
            requested, and is written before the next one is requested.
        is_current: Whether exactly these bytes were ingested before and need not be read again.
        together: The changes for all files of a folder as one source, given in the order of their names.
        limit: Largest size of one file in bytes.
        from_tree: Whether files of the code tree are also ingested, although they are served anyway.
        in_folder: Whether a file of a folder is ingested, judged by its name.
        names_itself: Whether the content, judged by its first 64 KiB, names the source. If not, the file's name
            identifies it.
        scheme: Scheme of the URIs of its nodes.
    """

    name: str
    about: str
    recognises: Callable[[str, bytes], bool]
    take: Callable[[Given, Around], Iterable[Taken]]
    is_current: Callable[[Given, Around], bool] = lambda given, around: False
    together: Callable[[Iterable[Given], Around], Iterable[Taken]] | None = None
    limit: int = FILE_LIMIT
    from_tree: bool = True
    in_folder: Callable[[str], bool] = document_reader.is_document
    names_itself: Callable[[bytes], bool] = lambda head: False
    scheme: str = "document"

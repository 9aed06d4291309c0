"""This file is where what an export is made of is read: the chosen nodes, one by one, and what they lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from kgd.model.node import Node
from kgd.model.uri import Uri


class Store(Protocol):
    """As much of a workspace as an export needs; `kgd.workspace.workspace.Workspace` is one."""

    @property
    def id(self) -> str: ...
    def is_broken(self, target: Uri) -> bool: ...
    def node(self, uri: Uri) -> Node | None: ...
    def resolve(self, uri: Uri) -> Uri: ...


@dataclass(frozen=True, slots=True)
class View:
    """The stored nodes that are to be exported, in order.

    Args:
        chosen: The URIs; sorted, or in the order of the walk that found them.
        detail: The prose of a node's memory file, or None.
        stamps: When a node was created and last changed, in seconds since 1970.
        cut: How many more nodes there are than were chosen.
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
        """Each chosen node that is stored, read when it is its turn."""
        for uri in self.chosen:
            node = self.store.node(uri)
            if node is not None:
                yield node

    def is_missing(self, target: Uri) -> bool:
        """Whether a relation to this is a broken link."""
        return self.store.is_broken(target)

"""This file is where it is defined what every source becomes: nodes, and the hash of what was read."""

from __future__ import annotations

from dataclasses import dataclass

from kgd.model.node import Node, Source


@dataclass(frozen=True, slots=True)
class Extracted:
    """What one source became. Its nodes replace those that the same `source` had brought before.

    Every node carries `source`. `digest` is SHA-256 (hex) of what was read: equal digests need no second look.
    `trouble` has a line for each part that could not be taken in; the rest is here nevertheless.
    """

    source: Source
    digest: str
    nodes: tuple[Node, ...]
    trouble: tuple[str, ...] = ()

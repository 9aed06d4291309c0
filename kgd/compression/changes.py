"""This file is where a change is described that would make a workspace smaller or truer, before anybody is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kgd.model.change import Edit
from kgd.model.uri import Uri

Kind = Literal["merge", "mark", "prune", "summary"]
KINDS: tuple[Kind, ...] = ("mark", "merge", "prune", "summary")
"""In the order in which they are looked for: a node is in one change of a proposal only."""


@dataclass(frozen=True, slots=True)
class Change:
    """What is proposed of a few nodes, to be taken as a whole or not at all.

    `nodes` are those whose files it changes, the one that matters most first. `evidence` is what it follows from beside
    these nodes as they are: with both the same, it is the same change.
    """

    kind: Kind
    nodes: tuple[Uri, ...]
    reason: str
    edits: tuple[Edit, ...]
    evidence: str = ""

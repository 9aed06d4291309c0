"""A proposed change that makes a workspace smaller or more accurate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kgd.model.change import Edit
from kgd.model.uri import Uri

Kind = Literal["merge", "mark", "prune", "summary"]
KINDS: tuple[Kind, ...] = ("mark", "merge", "prune", "summary")
"""Kinds of change, in search order: a node is in only one change of a proposal."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a few nodes, accepted or rejected as a whole.

    `nodes` are the nodes whose files change, the most important first. `evidence` identifies the change together with
    the state of these nodes.
    """

    kind: Kind
    nodes: tuple[Uri, ...]
    reason: str
    edits: tuple[Edit, ...]
    evidence: str = ""

"""This file is where a proposal says which of its nodes are one change: a few lines each, in its commit's message.

A node of such a change is not accepted without the others: a double that goes while nothing took its place over would
be lost, and one that stays while the other took its URI would be two.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from kgd.model.fence import fenced_line
from kgd.model.uri import Uri

LONGEST_REASON = 400
_LINE = re.compile(r"^\[([0-9a-f]{16})\] ([a-z]+) (\S+://\S+(?: \S+://\S+)*)$")


@dataclass(frozen=True, slots=True)
class Bundle:
    """One change of several. `id` follows from what it changes and from how that was: it is the same for the same."""

    id: str
    kind: str
    nodes: tuple[Uri, ...]
    reason: str


def bundle_id(*evidence: str) -> str:
    return hashlib.sha256("\n".join(evidence).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def written(bundle: Bundle) -> str:
    """As it stands in a message; `read` finds it again."""
    return f"[{bundle.id}] {bundle.kind} {' '.join(bundle.nodes)}\n  {fenced_line(bundle.reason, LONGEST_REASON)}"


def read(message: str) -> list[Bundle]:
    """The changes that a message tells of, in its order; none for one that tells of none."""
    lines = message.splitlines()
    return [
        Bundle(found[1], found[2], tuple(map(Uri, found[3].split())), reason.strip())
        for line, reason in zip(lines, [*lines[1:], ""], strict=True)
        if (found := _LINE.match(line))
    ]


def incomplete(told: Iterable[Bundle], chosen: Iterable[Uri], left: Iterable[Uri]) -> Uri | None:
    """A node that is still to be taken and belongs to a chosen one without being chosen; None where all is whole."""
    wanted, waiting = set(chosen), set(left)
    for bundle in told:
        missing = [uri for uri in bundle.nodes if uri in waiting and uri not in wanted]
        if missing and wanted.intersection(bundle.nodes):
            return missing[0]
    return None

"""This file is where the reflog of a proposal tells whose it is: a commit's author is whatever its maker wrote.

Its owner is a token, by its identity: names can be chosen. The line that the token is from is noted as well, since
proposals are bounded by it. A proposal without an owner is nobody's but the keeper's.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kgd.git.refs import read_log
from kgd.model.access import Principal
from kgd.model.fence import fenced_line
from kgd.model.uri import Uri

LONGEST_REASON = 400
_BUNDLE = re.compile(r"^\[([0-9a-f]{16})\] ([a-z]+) (\S+://\S+(?: \S+://\S+)*)$")

_PUSHED = "kgd: pushed by "
_LINE = re.compile(r"kgd: (?:pushed|proposed) by (.*) \[([0-9A-Za-z]*) ([0-9A-Za-z]*)\]").fullmatch


@dataclass(frozen=True, slots=True)
class Origin:
    """Who put a proposal up: `Principal.identity` and `Principal.line`, and as ``holder (id)`` who pushed it, if so."""

    owner: str = ""
    line: str = ""
    pusher: str = ""

    def is_of(self, who: Principal) -> bool:
        """Whether they, or a token made from theirs, put it up."""
        return who.identity in (self.owner, self.line)


NOBODY = Origin()


def pushed(holder: Principal) -> str:
    """The line that a push with this holder's token leaves."""
    return f"{_PUSHED}{holder.name} ({holder.id}) [{holder.identity} {holder.line}]"


def proposed(name: str, holder: Principal | None) -> str:
    """The line that a submission leaves; None is a person of this machine."""
    owner = f"{holder.identity} {holder.line}" if holder else " "
    return f"kgd: proposed by {name[:100]} [{owner}]"


def origin(git_dir: Path, ref: str) -> Origin:
    """What the reflog tells of a proposal of this repository."""
    for line in reversed(read_log(git_dir, ref)):
        if found := _LINE(line.note):
            return Origin(found[2], found[3], found[1] if line.note.startswith(_PUSHED) else "")
    return NOBODY


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
        if (found := _BUNDLE.match(line))
    ]


def incomplete(told: Iterable[Bundle], chosen: Iterable[Uri], left: Iterable[Uri]) -> Uri | None:
    """A node that is still to be taken and belongs to a chosen one without being chosen; None where all is whole."""
    wanted, waiting = set(chosen), set(left)
    for bundle in told:
        missing = [uri for uri in bundle.nodes if uri in waiting and uri not in wanted]
        if missing and wanted.intersection(bundle.nodes):
            return missing[0]
    return None

"""Records about a proposal apart from its content: the owner in its reflog, and bundles of nodes in its commit message.

The author of a commit can be anything that its creator chose, so the owner is recorded as the identity of a token. The
token's line is recorded as well, since the limit on open proposals applies to it. A proposal without an owner
belongs to the user of this machine.

The nodes of a bundle are accepted together; otherwise a duplicate could be deleted without its replacement.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kgd.git.refs import read_log
from kgd.model.access import Principal
from kgd.model.escaping import fenced_line
from kgd.model.uri import Uri

LONGEST_REASON = 400
_BUNDLE = re.compile(r"^\[([0-9a-f]{16})\] ([a-z]+) (\S+://\S+(?: \S+://\S+)*)$")

_PUSHED = "kgd: pushed by "
_LINE = re.compile(r"kgd: (?:pushed|proposed) by (.*) \[([0-9A-Za-z]*) ([0-9A-Za-z]*)( agent)?\]").fullmatch


@dataclass(frozen=True, slots=True)
class Origin:
    """The proposer: `Principal.identity` and `Principal.line`, and ``holder (id)`` of a pusher."""

    owner: str = ""
    line: str = ""
    pusher: str = ""
    pushed_by_agent: bool = False

    def is_of(self, who: Principal) -> bool:
        """Whether this principal, or a token derived from its own, made the proposal."""
        return who.identity in (self.owner, self.line)


NOBODY = Origin()


def pushed(holder: Principal) -> str:
    """The reflog message of a push with this holder's token."""
    kind = "" if holder.kind == "person" else " agent"
    return f"{_PUSHED}{holder.name} ({holder.id}) [{holder.identity} {holder.line}{kind}]"


def proposed(name: str, holder: Principal | None) -> str:
    """The reflog message of a submission; a holder of None is a person on this machine."""
    owner = f"{holder.identity} {holder.line}" if holder else " "
    return f"kgd: proposed by {name[:100]} [{owner}]"


def origin(git_dir: Path, ref: str) -> Origin:
    """The origin of this repository's proposal, from its reflog."""
    for line in reversed(read_log(git_dir, ref)):
        if found := _LINE(line.note):
            return Origin(found[2], found[3], found[1] if line.note.startswith(_PUSHED) else "", bool(found[4]))
    return NOBODY


@dataclass(frozen=True, slots=True)
class Bundle:
    """A change of several nodes. `id` is a hash of the change and its evidence, so equal changes have equal ids."""

    id: str
    kind: str
    nodes: tuple[Uri, ...]
    reason: str


def bundle_id(*evidence: str) -> str:
    return hashlib.sha256("\n".join(evidence).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def written(bundle: Bundle) -> str:
    """The bundle as text for a message; `read` parses it."""
    return f"[{bundle.id}] {bundle.kind} {' '.join(bundle.nodes)}\n  {fenced_line(bundle.reason, LONGEST_REASON)}"


def read(message: str) -> list[Bundle]:
    """The bundles in a message, in order."""
    lines = message.splitlines()
    return [
        Bundle(found[1], found[2], tuple(map(Uri, found[3].split())), reason.strip())
        for line, reason in zip(lines, [*lines[1:], ""], strict=True)
        if (found := _BUNDLE.match(line))
    ]


def incomplete(told: Iterable[Bundle], chosen: Iterable[Uri], left: Iterable[Uri]) -> Uri | None:
    """An open node of a bundle of which only a part was chosen; None if all bundles are complete."""
    wanted, waiting = set(chosen), set(left)
    for bundle in told:
        missing = [uri for uri in bundle.nodes if uri in waiting and uri not in wanted]
        if missing and wanted.intersection(bundle.nodes):
            return missing[0]
    return None

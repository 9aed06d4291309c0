"""Decided proposals, kept with the decision and the comments.

A rejected proposal stays under ``refs/kgd/rejected/``, an accepted one under ``refs/kgd/accepted/``. The reflog of the
ref has the name of the proposal, its proposer and its comments; the last line is the decision. Of several hubs, each
keeps the proposals that it had a copy of.

Each acceptance removes the accepted proposals that are older than `DAYS` days and, if there are more than `MOST`, the
oldest ones. Rejected proposals stay, so that they are not proposed again.
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Literal, cast

from kgd.errors import KgdError, Unavailable
from kgd.git import program
from kgd.git.objects import ObjectId, trailers
from kgd.git.refs import ACCEPTED, PROPOSALS, REJECTED, delete_refs, list_refs, move_ref, read_log
from kgd.model.uri import Uri
from kgd.workspace.proposals import records
from kgd.workspace.proposals.proposals import Proposal, is_name, read_at
from kgd.workspace.proposals.records import shared
from kgd.workspace.workspace import Workspace

DAYS = 90
"""Days for which `listed` returns a decided proposal."""
MOST = 500
"""Maximum number of accepted proposals that are kept."""
ROOM = 100
"""Number of places that a removal leaves free: each removal runs git, so it removes many at once."""
ORIGIN = "Kgd-Origin"
LONGEST_NOTE = 500

How = Literal["accepted", "partly accepted", "rejected", "withdrawn"]

_NAMED = "kgd: proposal "
_ORIGIN_OF = f"%H %(trailers:key={ORIGIN},valueonly,separator=%x20)"
_NAME = r'"(?:[^"\\]|\\.)*"(?= in |: |$)|.+?'
_DECISION = re.compile(
    rf"kgd: (accepted|rejected|withdrawn)(?: by ({_NAME}))?(?: in ([0-9a-f]{{40}}))?(?:: (.*))?"
).fullmatch


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on a proposal, who made it (empty if unknown), and when; `commit` and `nodes` if it was accepted."""

    how: How
    by: str
    at: int
    commit: str = ""
    reason: str = ""
    nodes: tuple[Uri, ...] = ()

    def note(self) -> str:
        """The decision as the last line of a reflog; `_decision_in` parses it."""
        name = json.dumps(self.by, ensure_ascii=False) if ":" in self.by or self.by[:1] == '"' else self.by
        by, where = f" by {name}" if name else "", f" in {self.commit}" if self.commit else ""
        return (f"kgd: {self.how}{by}{where}" + (f": {self.reason}" if self.reason else ""))[:LONGEST_NOTE]


def _decision_in(notes: list[tuple[str, int]]) -> Decision | None:
    for note, at in reversed(notes):
        if found := _DECISION(note):
            how, by, commit, reason = (part or "" for part in found.groups())
            if how != "accepted" and any(map(records.is_partial, (note for note, _ in notes))):
                how = "partly accepted"
            with contextlib.suppress(ValueError):  # a name that is not quoted
                by = str(json.loads(by)) if by[:1] == '"' else by
            return Decision(cast(How, how), by, at, commit, reason)
    return None


def archive(workspace: Workspace, name: str, commit: ObjectId, decision: Decision) -> str:
    """Keep a decided proposal, before its own ref is removed; return the full name of the ref that keeps it. Has no
    effect the second time, or for an acceptance that is too old to be kept."""
    git_dir = workspace.layout.git_dir
    prefix = ACCEPTED if decision.how == "accepted" else REJECTED
    flat = prefix + name.replace("/", ".")
    known = list_refs(git_dir, prefix)
    kept = flat if known.get(flat, commit) == commit else f"{flat}-{commit.hex()[:10]}"
    if kept not in known and (prefix == REJECTED or decision.at >= _since(workspace)):
        notes = [(_NAMED + name, decision.at), *_notes(workspace, name), (decision.note(), decision.at)]
        move_ref(git_dir, workspace.layout.derived_dir, kept, None, commit, notes=notes)
        if prefix == ACCEPTED:
            _remove_old(workspace)
    return kept


def _since(workspace: Workspace) -> int:
    """The time `DAYS` days ago."""
    return workspace.now() - DAYS * 86_400


def _notes(workspace: Workspace, name: str) -> list[tuple[str, int]]:
    """The notes of an open proposal: its origin, its comments and its partial acceptances."""
    notes = [(line.note, line.time) for line in read_log(workspace.layout.git_dir, PROPOSALS + name)]
    if hubs := shared(workspace):
        notes = [one for one in notes if records.is_origin(one[0])] + list(hubs.comments(name))
    kept = (records.is_origin, records.is_comment, records.is_partial)
    return [one for one in notes if any(is_kept(one[0]) for is_kept in kept)]


def _remove_old(workspace: Workspace) -> None:
    """Remove accepted proposals that are old or too many."""
    kept = _kept(workspace, ACCEPTED)
    ended = {one: found.decision.at if found else 0 for one, found in kept.items()}
    newest = sorted(ended, key=lambda one: -ended[one])
    since = _since(workspace)
    gone = {one for one in newest if ended[one] < since} | set(newest[MOST - ROOM :] if len(newest) > MOST else ())
    with contextlib.suppress(Unavailable):  # the next acceptance tries again
        delete_refs(workspace.layout.git_dir, dict(gone))


@dataclass(slots=True)
class Decided:
    """A proposal, with its origin, and the decision on it."""

    proposal: Proposal
    decision: Decision
    nodes: frozenset[Uri] | None = None
    """The answer of `deciding.nodes_of`, once it was asked."""


_Kept = dict[tuple[str, ObjectId], Decided | None]
"""Decided proposals by ref and commit; None for those without a decision."""


@dataclass(slots=True)
class _Known:
    """The decided proposals that were read, by the prefix of their refs. They never change."""

    read: dict[str, _Kept] = field(default_factory=dict)


def listed(workspace: Workspace) -> list[Decided]:
    """The proposals that were decided in the last `DAYS` days, newest decision first."""
    since = _since(workspace)
    every = [*_kept(workspace, REJECTED).values(), *_kept(workspace, ACCEPTED).values()]
    found = [one for one in every if one and one.decision.at >= since]
    return sorted(found, key=lambda one: (-one.decision.at, one.proposal.name))


def _kept(workspace: Workspace, prefix: str) -> _Kept:
    """The decided proposals below a prefix. Each is read once."""
    known = workspace.beside(_Known, lambda _: _Known()).read
    before, refs = known.get(prefix, {}), list_refs(workspace.layout.git_dir, prefix)
    known[prefix] = {one: before[one] if one in before else _read(workspace, *one) for one in refs.items()}
    return known[prefix]


def _read(workspace: Workspace, ref: str, tip: ObjectId) -> Decided | None:
    notes = [(line.note, line.time) for line in read_log(workspace.layout.git_dir, ref)]
    named = (note.removeprefix(_NAMED) for note, _ in notes if note.startswith(_NAMED))
    name = next(named, ref.removeprefix(REJECTED).removeprefix(ACCEPTED))
    proposal, decision = read_at(workspace, ref, name, "", tip), _decision_in(notes)
    return Decided(proposal, decision) if proposal and decision else None


def decision(workspace: Workspace, id: str) -> Decision | None:
    """The last decision on a proposal with this name (and this commit, if given); None if no decision is known.

    The first call may read the messages of the whole history.
    """
    name, _, commit = id.removeprefix(PROPOSALS).removeprefix("proposals/").partition("@")
    if not is_name(name):
        return None
    return _rejection(workspace, name, commit) or acceptance(workspace, name, commit)


def _rejection(workspace: Workspace, name: str, commit: str) -> Decision | None:
    if hubs := shared(workspace):
        with contextlib.suppress(Unavailable):
            found = hubs.rejection(name, commit)
            return rejected(*found) if found else None
    git_dir, flat = workspace.layout.git_dir, REJECTED + name.replace("/", ".")
    for ref, tip in list_refs(git_dir, flat).items():
        if ref in (flat, f"{flat}-{tip.hex()[:10]}") and tip.hex().startswith(commit):
            return _decision_in([(line.note, line.time) for line in read_log(git_dir, ref)])
    return None


def rejected(by: str, at: int, reason: str, withdrawn: bool) -> Decision:
    return Decision("withdrawn" if withdrawn else "rejected", by, at, reason=reason)


def accepted(workspace: Workspace, name: str, commit: ObjectId, by: str = "") -> Decision:
    """The acceptance of a proposal that is in the workspace, however it arrived there; `by` a pusher, if given."""
    found = acceptance(workspace, name, commit.hex())
    return replace(found, by=by or found.by) if found else Decision("accepted", by, workspace.now())


@dataclass(slots=True)
class _Acceptances:
    """The acceptances in the history of the tip that was read last."""

    tip: ObjectId | None = None
    made: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """By the name of the proposal, oldest first: the beginning of the proposed commit's id, and the acceptance's id.
    Acceptances of a proposal `REMOTE/NAME` are also below `/NAME`."""
    lock: Lock = field(default_factory=Lock)

    def of(self, workspace: Workspace, name: str) -> list[tuple[str, str]]:
        """The acceptances of a proposal. The first call reads the messages of the whole history, a later call those of
        the commits since then.

        Raises:
            GitFailed, KgdError: The history cannot be read.
        """
        with self.lock:
            tip, store = bytes.fromhex(workspace.tip), workspace.store
            if self.tip != tip:
                read = self.tip if self.tip and store.exists(self.tip) and store.is_ancestor(self.tip, tip) else None
                commits = [tip.hex(), f"^{read.hex()}"] if read else [tip.hex()]
                arguments = [f"--format={_ORIGIN_OF}", "--fixed-strings", f"--grep={ORIGIN}: proposals/", *commits]
                said = program.run(workspace.layout.git_dir, ["log", *arguments]).decode("utf-8", "replace")
                made = self.made if read else {}
                for line in reversed(said.splitlines()):
                    id, _, origin = line.partition(" ")
                    proposal, _, commit = origin.removeprefix("proposals/").partition("@")
                    _, remote, own = proposal.partition("/")
                    for called in (proposal, *([f"/{own}"] if remote else [])):
                        made.setdefault(called, []).append((commit, id))
                self.tip, self.made = tip, made
            return list(self.made.get(name, ()))


def acceptance(workspace: Workspace, name: str, commit: str) -> Decision | None:
    """The last acceptance of a proposal with this name at a commit with this prefix; None if there is none.

    A clone calls the proposal `REMOTE/NAME`. That acceptance is found too, but only by the proposal's commit.
    """
    names = [f"/{name}", name] if commit else [name]
    try:
        known = workspace.beside(_Acceptances, lambda _: _Acceptances())
        every = [one for called in names for one in known.of(workspace, called)]
        found = next((id for proposed, id in reversed(every) if proposed.startswith(commit[:10])), None)
        if found is None:
            return None
        made = workspace.past.commit(bytes.fromhex(found))
        entry = workspace.past.entry(made, limit=2_000)
    except (KgdError, program.GitFailed):
        return None
    origin, id = dict(trailers(made.message)).get(ORIGIN, "").removeprefix("proposals/"), f"{name}@{commit[:10]}"
    if not (origin.startswith(id) or (commit and origin.partition("/")[2].startswith(id))):
        return None  # the message only resembles one of an acceptance
    # A pusher may have written any author. For a part, the commit's author is the proposal's author.
    by = entry.accepted_by or entry.pushed_by or (entry.author if len(made.parents) > 1 else "")
    return Decision("accepted", by, entry.at, found, nodes=entry.nodes)

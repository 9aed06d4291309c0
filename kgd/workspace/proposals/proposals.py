"""Proposals: changes that wait for acceptance, as separate commits.

A proposal is a commit, or a chain of them, at ``refs/heads/proposals/<name>``; a remote's proposal is at
``refs/kgd/in/<remote>/proposals/<name>``. It has no effect until it is accepted: as a whole by kgd's own merge, or in
part as one commit with the chosen nodes and fields (`kgd.workspace.proposals.deciding`). Decided proposals are kept for
their authors (`kgd.workspace.proposals.decided`). Several hubs share their proposals through the upstream
(`kgd.workspace.proposals.records`).

`marks` tells which nodes open proposals change: bounded work for each request, and no merge. A proposal changes the
files that differ from its merge base; they are computed once for each of its commits. A large or broken proposal is
left out.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import threading
import unicodedata
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, Literal

from kgd.codec import documents, paths
from kgd.codec.settings import PATH as SETTINGS
from kgd.errors import Advice, Do, Invalid, KgdError, Limit, NotFound, Stale, Unavailable, reason_of
from kgd.git.objects import FILE, ObjectId
from kgd.git.refs import ACCEPTED, INCOMING, PROPOSALS, REJECTED, RefMoved, list_refs
from kgd.git.staging import Staging
from kgd.model.access import Principal
from kgd.model.change import ChangeSet
from kgd.model.fields import with_field
from kgd.model.node import Node, default_type
from kgd.model.uri import Uri
from kgd.workspace.answers import NodeChange, Outcome
from kgd.workspace.history.commits import field_diff
from kgd.workspace.memory_files import Home
from kgd.workspace.merging.histories import merge_commits, new_twins
from kgd.workspace.merging.trees import MergedTree
from kgd.workspace.parts import FILE_LIMIT, node_in
from kgd.workspace.proposals import records
from kgd.workspace.proposals.records import NOBODY, Bundle, Origin, shared, turn
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.admission import check, twins_among
from kgd.workspace.writing.touched_nodes import Permit, of_files, touched_by
from kgd.workspace.writing.transaction import Transaction

NAME_LIMIT = 200
LONGEST_HOLDER = 60
"""Largest number of characters of a holder's name in a ref, without its hash."""
LIST_OPEN = Advice("List the open proposals with ", Do("proposals"), ".")
State = Literal["open", "conflicts", "merged", "broken"]

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*(?:[./][A-Za-z0-9_][A-Za-z0-9_-]*){0,7}").fullmatch
_making = threading.Lock()
"""Held while a proposal is made: if two calls have the same request id, the second finds the first one's proposal."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """One proposal, read from the commit at its tip. `remote` is empty for this repository's own.

    `request` is the request id for which the proposal was made here; a request id in a commit made elsewhere proves
    nothing. The author of a pushed commit is only what the pusher claims; `pusher` is the token that pushed it. The
    owner in `origin` may withdraw or continue it.
    """

    name: str
    ref: str
    remote: str
    commit: str
    author: str
    email: str
    at: int
    subject: str
    request: str
    origin: Origin = NOBODY

    @property
    def pusher(self) -> str:
        return self.origin.pusher

    @property
    def id(self) -> str:
        """Name and commit: a decision that gives this id is refused once the proposal has changed."""
        return f"{self.name}@{self.commit[:10]}"


@dataclass(frozen=True, slots=True)
class Look:
    """The effect of a proposal on the tip.

    `base` is its merge base; `conflicts` are nodes that have since been changed differently at the tip.
    """

    state: State
    base: str
    changes: tuple[NodeChange, ...]
    conflicts: tuple[Uri, ...] = ()
    why: str = ""


def listed(workspace: Workspace) -> tuple[Proposal, ...]:
    """All open proposals, oldest first: first this repository's own, then proposals of remotes."""
    found = (
        read_at(workspace, ref, name, remote, tip)
        for ref, tip, name, remote in _open_refs(workspace)
        if not remote or not _is_ancestor(workspace, tip)
    )
    return tuple(sorted((one for one in found if one), key=lambda one: (bool(one.remote), one.at, one.name)))


def _open_refs(workspace: Workspace) -> Iterator[tuple[str, ObjectId, str, str]]:
    """The refs of open proposals, each with its commit, name and remote: first this repository's own. Reads no commits,
    so a remote's proposal may be in the tip."""
    git_dir = workspace.layout.git_dir
    for ref, tip in list_refs(git_dir, PROPOSALS).items():
        yield ref, tip, ref.removeprefix(PROPOSALS), ""
    incoming = [one for one in list_refs(git_dir, INCOMING).items() if "/proposals/" in one[0]]
    refused = {*list_refs(git_dir, REJECTED).values()} if incoming else set()
    for ref, tip in incoming:
        remote, _, name = ref.removeprefix(INCOMING).partition("/proposals/")
        if tip not in refused:
            yield ref, tip, f"{remote}/{name}", remote


def count(workspace: Workspace) -> int:
    """The number of open proposals; does not read the commits of this repository's own proposals."""
    found = ((tip, remote) for _, tip, _, remote in _open_refs(workspace))
    return sum(1 for tip, remote in found if not remote or not _is_ancestor(workspace, tip))


def named(workspace: Workspace, id: str, known: Callable[[Proposal], bool] = lambda one: True) -> Proposal:
    """The proposal with a name or an id of `listed`, among those `known` to the caller.

    Raises:
        NotFound: There is no proposal of that name.
        Stale: The proposal is no longer at the commit in the id.
    """
    name, _, commit = id.removeprefix(PROPOSALS).removeprefix("proposals/").partition("@")

    def found_here() -> list[Proposal]:
        return [one for one in listed(workspace) if one.name == name and known(one)]

    found, here = found_here(), shared(workspace)
    if here and not (found and found[0].commit.startswith(commit)):  # another hub may have just made or decided it
        with contextlib.suppress(KgdError):
            workspace.catch_up()
            here.refresh()
        found = found_here()
    if not found:
        raise NotFound("no open proposal has that name", at=id[:80], next=LIST_OPEN)
    if commit and not found[0].commit.startswith(commit):
        raise Stale("this proposal has changed since it was listed", current=0, at=id[:80], next="Look at it again.")
    return found[0]


def look(workspace: Workspace, proposal: Proposal) -> Look:
    """The effect of a proposal. Costs a merge in memory.

    A proposal with content that is not valid in a workspace is `broken`, with the reason in `why`.
    """
    store, tip, commit = workspace.store, bytes.fromhex(workspace.tip), bytes.fromhex(proposal.commit)
    try:
        bases = store.merge_bases(tip, commit)
        if not bases:
            raise Invalid("it shares no history with this workspace")
        base = bases[0]
        if base == commit:
            return Look("merged", base.hex(), ())
        vet(workspace, base, commit)
        merged = merge_commits(store, tip, commit, workspace.sharded)
        left = left_of(workspace, store.tree_of(tip), merged)
        changes = workspace.past.changes_between(base, commit)
    except KgdError as error:
        return Look("broken", "", (), why=str(error))
    staging = Staging(store, store.tree_of(tip))
    uris = touched_by(staging, left, workspace.id, workspace.sharded).uris
    shown = tuple(
        undecided(change, node_in("", staging.read(workspace.path(change.uri))))
        for change in changes
        if change.uri in uris
    )
    state: State = "merged" if not left else "conflicts" if merged.conflicts else "open"
    return Look(state, base.hex(), shown, tuple(sorted({one.uri for one in merged.conflicts})))


def propose(
    workspace: Workspace,
    changes: ChangeSet,
    base: ObjectId,
    *,
    holder: str,
    owner: Principal | None = None,
    permit: Permit | None = None,
    most: int | None = None,
) -> tuple[Proposal, Outcome]:
    """Propose a ChangeSet made against `base`; return when the proposal is durable. The tip does not move.

    Args:
        holder: The proposer's name as it appears in a ref; see `holder_name`.
        owner: The owner; None for a person of this machine.
        most: The limit on open proposals from the owner's line of tokens (`Principal.line`).

    Raises:
        Limit: The limit is reached.
        Invalid: The changes have no effect.
        KgdError: As `Workspace.submit`.
    """
    if workspace.read_only:
        raise Unavailable(f"this workspace is read-only: {workspace.read_only}", next="Propose it to another copy.")
    store = workspace.store
    with turn(workspace) as hubs, contextlib.nullcontext() if hubs else _making:
        known = by_request(workspace, changes.request_id)
        if known:
            return known, Outcome(known.commit, repeated=True)
        if most is not None and of_line(workspace, owner.line if owner else "") >= most:
            raise Limit(
                f"{most} proposals of '{holder}' are open already",
                at="proposals",
                next="Wait until some are accepted or rejected, or withdraw one.",
            )
        staging = Staging(store, store.tree_of(base), workspace.signing)
        around = workspace.surroundings_at(base)
        staged = Transaction(changes, around, workspace.now(), permit=permit, seal=workspace.seal).stage(staging, base)
        if staged.commit is None:
            raise Invalid(
                "the proposal would change nothing", at="changes", next="The workspace already has these values."
            )
        name, commit = free_name(workspace, holder), staged.commit
        note = records.proposed(changes.author.name, owner)
        put = partial(hubs.put, name, commit, note) if hubs else None
        keep(workspace, staging, PROPOSALS + name, commit, note, agree=put)
    made = read_at(workspace, PROPOSALS + name, name, "", staged.commit)
    assert made is not None
    return made, staged.answer


def why_not(workspace: Workspace, changes: ChangeSet, base: ObjectId) -> str:
    """The reason why a ChangeSet cannot be applied to `base`; empty if it can. Nothing is written."""
    store = workspace.store
    try:
        around = workspace.surroundings_at(base)
        Transaction(changes, around, workspace.now()).stage(Staging(store, store.tree_of(base)), base)
    except KgdError as refusal:
        return str(refusal)
    return ""


def by_request(workspace: Workspace, request: str) -> Proposal | None:
    """The open proposal with this request id."""
    if not request:
        return None
    return next((one for one in listed(workspace) if not one.remote and one.request == request), None)


def left_of(workspace: Workspace, tree: ObjectId, merged: MergedTree) -> dict[str, bytes | None]:
    """The files of a merge that differ from a tree."""
    store = workspace.store
    left = {}
    for path, data in merged.files.items():
        blob = store.entry(tree, path)
        if (store.read(blob) if blob else None) != data:
            left[path] = data
    return left


def vet(workspace: Workspace, base: ObjectId, commit: ObjectId) -> None:
    """Refuse content that is not valid in a workspace, in the proposal and in each of its commits.

    Raises:
        Invalid, Refused, Limit, Damaged: The content is not valid; the error's place is the file.
    """
    store = workspace.store
    before, after = store.tree_of(base), store.tree_of(commit)
    store.check_history(commit, [base])

    def read(path: str) -> bytes | None:
        blob = store.entry(after, path)
        return store.read(blob, FILE_LIMIT) if blob else None

    home = Home(workspace.id, workspace.sharded, read)
    for path, entry in store.changed_entries(before, after):
        if entry is None:
            if path == SETTINGS:
                raise Invalid("a proposal cannot remove the settings", at=path)
            continue
        mode, id = entry
        if mode != FILE:
            raise Invalid("only plain files can be in a workspace", at=path)
        old = store.entry(before, path)
        check(path, store.read(id, FILE_LIMIT), store.read(old) if old else None, home)
    for twin in twins_among(new_twins(store, base, commit, workspace.sharded), store, before, workspace.sharded):
        raise twin


def keep(
    workspace: Workspace,
    staging: Staging,
    ref: str,
    commit: ObjectId,
    note: str,
    *,
    agree: Callable[[], None] | None = None,
) -> None:
    """Create a ref for a staged commit; return when it is durable. `agree` as in `Staging.advance`.

    Raises:
        Unavailable: The ref already exists, or could not be written.
    """
    try:
        staging.advance(workspace.layout.derived_dir, ref, None, commit, note, agree=agree)
        workspace.tell_uncommitted()
    except RefMoved:
        raise Unavailable("another proposal just took that name", next="Ask again.") from None
    except OSError as error:
        raise Unavailable(
            f"nothing was written: {reason_of(error)}", next="Free or repair the disk, then ask again."
        ) from None


def is_name(name: str) -> bool:
    """Whether this is a valid name. It becomes a path below refs, and must not end in ``.lock``."""
    return len(name) <= NAME_LIMIT and not name.endswith(".lock") and _NAME(name) is not None


def holder_name(name: str) -> str:
    """A holder's name as it appears in the ref of a proposal, whose log names its owner. A hash follows a long
    name, or one with characters beyond ASCII.

    >>> holder_name("Ann Person"), holder_name("王伟"), holder_name("José")
    ('Ann-Person', 'someone-x0c6e5fe8', 'Jos-x24c2ab65')
    """
    even = unicodedata.normalize("NFC", name)
    short = re.sub(r"[^A-Za-z0-9_]+", "-", even).strip("-")
    if not even or (even.isascii() and 0 < len(short) <= LONGEST_HOLDER):
        return short or "someone"
    told_apart = hashlib.sha256(even.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{short[:LONGEST_HOLDER].strip('-') or 'someone'}-x{told_apart}"


def open_proposals(workspace: Workspace) -> dict[str, tuple[ObjectId, Origin]]:
    """Open proposals of this repository: full refs with tips and origins."""
    git_dir = workspace.layout.git_dir
    return {ref: (tip, records.origin(git_dir, ref)) for ref, tip in list_refs(git_dir, PROPOSALS).items()}


def of_line(workspace: Workspace, line: str) -> int:
    """The number of open proposals from one line of tokens; see `Principal.line`."""
    return sum(1 for _, origin in open_proposals(workspace).values() if origin.line == line)


def is_called_after(ref: str, holder: str) -> bool:
    """Whether a ref is named after a holder: ``<holder>-<number>``, or below ``<holder>/``."""
    rest = ref.removeprefix(PROPOSALS + holder)
    return ref.startswith(PROPOSALS + holder) and (rest.startswith("/") or bool(re.fullmatch(r"-\d+", rest)))


def free_name(workspace: Workspace, holder: str) -> str:
    """A name with the next free number. Decided proposals keep their numbers, so that their names stay unambiguous."""
    git_dir, hubs = workspace.layout.git_dir, shared(workspace)
    taken = [hubs.last_number(holder) if hubs else 0]
    for prefix in (PROPOSALS, REJECTED, ACCEPTED):
        for ref in list_refs(git_dir, prefix + holder):
            number = re.match(r"-(\d{1,9})(?:/|$)", ref.removeprefix(prefix + holder))
            taken += [int(number[1])] if number else []
    return f"{holder}-{max(taken) + 1}"


def read_at(workspace: Workspace, ref: str, name: str, remote: str, tip: ObjectId) -> Proposal | None:
    """The proposal in a commit; None if the commit is missing."""
    try:
        commit = workspace.store.commit(tip)
    except KgdError:
        return None
    request = workspace.seal.request(workspace.store, tip, commit.message) if not remote else ""
    origin = records.origin(workspace.layout.git_dir, ref) if not remote else NOBODY
    return Proposal(
        name,
        ref,
        remote,
        tip.hex(),
        commit.author.name,
        commit.author.email,
        commit.author.time,
        commit.subject,
        request,
        origin,
    )


def _is_ancestor(workspace: Workspace, commit: ObjectId) -> bool:
    try:
        return workspace.store.is_ancestor(commit, bytes.fromhex(workspace.tip))
    except KgdError:
        return False


SEE_CHANGES = Advice("See its changes with ", Do("proposals", name="NAME"), ".")
Files = dict[str, bytes | None]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Whole nodes, and of other nodes only the named fields. Without any, the whole proposal is chosen."""

    nodes: frozenset[Uri] = frozenset()
    fields: Mapping[Uri, Collection[str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.nodes or self.fields)


def files_of(
    workspace: Workspace, staging: Staging, left: Files, chosen: Chosen, told: Sequence[Bundle]
) -> dict[str, bytes | None]:
    """The files of the chosen part, out of the files `left` to accept.

    Raises:
        Invalid: A node or field cannot be accepted alone.
        NotFound: The proposal does not change a chosen node or field.
    """
    files, found, waiting = Files(), set[Uri](), set[Uri]()
    wanted = chosen.nodes | chosen.fields.keys()
    for path, data in left.items():
        touched = touched_by(staging, {path: data}, workspace.id, workspace.sharded)
        waiting |= touched.uris
        if not touched.uris & wanted:
            continue
        if missing := sorted(touched.uris - wanted):
            raise _incomplete(missing[0])
        for uri in sorted(touched.uris - chosen.nodes):
            data = _with_fields(workspace, staging, path, data, uri, chosen.fields[uri])
        files[path] = data
        found |= touched.uris
    if absent := sorted(wanted - found):
        raise NotFound("the proposal does not change this node", at=absent[0], next=SEE_CHANGES)
    if (other := records.incomplete(told, wanted, waiting)) is not None:
        raise _incomplete(other)
    return files


def _with_fields(
    workspace: Workspace, staging: Staging, path: str, data: bytes | None, uri: Uri, names: Collection[str]
) -> bytes:
    """The node's file at the tip with these fields of the merged file."""
    old = staging.read(path)
    if path != paths.path_of(uri, workspace.sharded):
        raise Invalid(
            "this node also has a conflict or another file", at=uri, next="Accept all changes to this node together."
        )
    if old is None or data is None:
        what = "creates" if old is None else "deletes"
        raise Invalid(f"the proposal {what} this node", at=uri, next="Accept the whole node.")
    node = before = documents.decode(old, at=path)
    values = {one.field: one.after for one in field_diff(before, documents.decode(data, at=path))}
    for name in names:
        if name not in values:
            told = f"the proposal does not change the field '{name[:60]}'"
            raise NotFound(told, at=uri, next=SEE_CHANGES)
        node = _with_value(node, name, values[name])
    made = documents.rewrite(old, node)
    check(path, made, old, Home(workspace.id, workspace.sharded, staging.read))
    return made


def undecided(change: NodeChange, present: Node | None) -> NodeChange:
    """The change without the fields that the node already has."""
    if change.before is None or change.after is None or present is None:
        return change
    here = {one.field: one.after for one in field_diff(change.before, present)}
    before = change.before
    for one in field_diff(change.before, change.after):
        if one.field in here and here[one.field] == one.after:
            before = _with_value(before, one.field, one.after)
    return replace(change, before=before)


def _with_value(node: Node, name: str, value: Any) -> Node:
    if name == "type" and value is None:
        value = default_type(node.uri)
    return with_field(node, name, value)


def _incomplete(other: Uri) -> Invalid:
    return Invalid(
        "one of these nodes cannot be accepted alone", at="only", next=f"Accept {other[:160]} too; both are one change."
    )


LISTED = 500
"""Largest number of open proposals that marks consider."""
COMPARED = 20
"""Largest number of proposals that one request compares with their merge bases; later requests compare others."""
LONGEST = 200
"""Largest number of characters of an author or a subject."""
LARGEST = 200
"""Largest number of changed files of a proposal that marks consider."""


@dataclass(frozen=True, slots=True)
class _Changed:
    """The nodes that a commit of a proposal changes, and the blobs of its node files; no blobs if it also changes other
    files. `author` and `subject` are the beginnings of the commit's."""

    at: int
    author: str
    subject: str
    uris: frozenset[Uri]
    blobs: Mapping[str, ObjectId | None]


_Proposal = tuple[str, ObjectId, _Changed]
"""The id of a proposal, its commit and what it changes."""


@dataclass(slots=True)
class _Known:
    """The compared proposals by commit. `failed` has the tip at which a commit could not be compared."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    changed: dict[ObjectId, _Changed] = field(default_factory=dict)
    failed: dict[ObjectId, ObjectId] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Marks:
    """The open proposals that change nodes. `left_out` is the number of proposals that were not compared."""

    workspace: Workspace
    tip: ObjectId
    found: tuple[_Proposal, ...] = ()
    left_out: int = 0

    merged: dict[ObjectId, bool] = field(default_factory=dict)
    """Whether the tip contains a proposal, once it was asked for."""

    def changed(self, among: Container[Uri]) -> set[Uri]:
        """Select the nodes that the proposals change, as in `of`. Reads each proposal once."""
        met: dict[Uri, list[_Proposal]] = {}
        for one in self.found:
            for uri in one[2].uris:
                if uri in among:
                    met.setdefault(uri, []).append(one)
        return {uri for uri, changing in met.items() if self._still_changing(uri, changing)}

    def of(self, uri: Uri) -> list[str]:
        """The ids of the proposals that change this node, oldest first.

        A proposal does not count if the tip has its version of the node's file.
        """
        changing = [one for one in self.found if uri in one[2].uris]
        return self._still_changing(uri, changing) if changing else []

    def _still_changing(self, uri: Uri, changing: Sequence[_Proposal]) -> list[str]:
        store, path = self.workspace.store, self.workspace.path(uri)
        try:
            here = store.entry(store.tree_of(self.tip), path)
            return [
                id
                for id, commit, changed in changing
                if not (path in changed.blobs and changed.blobs[path] == here) and not self._is_merged(commit)
            ]
        except KgdError:
            return [id for id, _, _ in changing]

    def _is_merged(self, commit: ObjectId) -> bool:
        if commit not in self.merged:
            self.merged[commit] = self.workspace.store.is_ancestor(commit, self.tip)
        return self.merged[commit]


def marks(workspace: Workspace) -> Marks:
    """Compare at most `COMPARED` new proposals with their merge bases. Concurrent calls wait for each other."""
    known = workspace.beside(_Known, lambda _: _Known())
    with known.lock:
        tip = bytes.fromhex(workspace.tip)
        every = dict[ObjectId, str]()
        for _, commit, name, _ in _open_refs(workspace):
            every.setdefault(commit, f"{name}@{commit.hex()[:10]}")
        ids = dict(islice(every.items(), LISTED))
        known.changed = {commit: one for commit, one in known.changed.items() if commit in ids}
        known.failed = {commit: at for commit, at in known.failed.items() if commit in ids}
        new = [commit for commit in ids if commit not in known.changed and known.failed.get(commit) != tip]
        for commit in sorted(new, key=known.failed.__contains__)[:COMPARED]:
            try:
                known.changed[commit] = _compared(workspace, tip, commit)
            except KgdError:  # perhaps only now, so it is tried again at the next tip, after the others
                known.failed[commit] = tip
        found = [(ids[commit], commit, one) for commit, one in known.changed.items()]
    found.sort(key=lambda one: (one[2].at, one[0]))
    return Marks(workspace, tip, tuple(found), len(every) - len(found))


def _compared(workspace: Workspace, tip: ObjectId, commit: ObjectId) -> _Changed:
    """Raises KgdError if the proposal cannot be compared, or has too many files."""
    store, own = workspace.store, workspace.store.commit(commit)
    base = store.merge_base(tip, commit)
    if base is None:
        raise Invalid("the proposal shares no history with the workspace", at=commit.hex())
    files = list(islice(store.diff(store.tree_of(base), own.tree), LARGEST + 1))
    if len(files) > LARGEST:
        raise Limit(f"a proposal of more than {LARGEST} files is not compared")
    # Without the old tree: only it would be searched for the nodes that name a changed memory.
    uris = of_files(files, store, None, workspace.id, workspace.sharded).uris
    is_plain = all(path.startswith("nodes/") for path, _, _ in files)
    subject = own.message.partition("\n")[0]
    blobs = {path: new for path, _, new in files} if is_plain else {}
    return _Changed(own.author.time, own.author.name[:LONGEST], subject[:LONGEST], uris, blobs)

"""A transaction: turning a ChangeSet into a commit, in steps of staging, validation, encoding and message.

Runs in the thread that flushes, against a tip that includes every earlier change of the flush.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from kgd.codec import bulk, paths
from kgd.codec.settings import PATH as SETTINGS
from kgd.codec.settings import policy_in
from kgd.errors import Invalid, KgdError, Limit
from kgd.git.objects import ObjectId, Signature, signature, with_trailers
from kgd.git.staging import Staging
from kgd.model.change import (
    VERIFY,
    Append,
    ChangeSet,
    Delete,
    Edit,
    Log,
    Move,
    Relate,
    Revert,
    Settle,
    Unrelate,
    Untag,
    Upsert,
    subject_from,
)
from kgd.model.node import NODE_BYTES
from kgd.model.uri import Uri
from kgd.workspace.answers import FileChange, NodeChange, Outcome, Would
from kgd.workspace.history.commits import ACCEPTED_BY
from kgd.workspace.parts import node_in
from kgd.workspace.writing import edits
from kgd.workspace.writing.draft import Draft
from kgd.workspace.writing.secrets import refuse_secret_text
from kgd.workspace.writing.signing import REQUEST, Seal
from kgd.workspace.writing.surroundings import Surroundings
from kgd.workspace.writing.touched_nodes import Permit, touched_by
from kgd.workspace.writing.writer import Staged

NODES_SHOWN = 200

MAX_EDITS = 2_000
MAX_MESSAGE = 8_000
RESOLVED_BY = "Kgd-Resolved-By"
NODES_IN_TRAILER = 20
SAID_IN_SUBJECT = 60
"""Maximum number of characters of a node's text in a generated subject."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """One ChangeSet, ready to be staged.

    Args:
        now: Unix seconds for author and committer.
        permit: Called before anything is staged; see `touched.Permit`.
        seal: Lets a later retry of the request return this commit; see `Seal`.
    """

    changes: ChangeSet
    around: Surroundings
    now: int
    dry_run: bool = False
    permit: Permit | None = None
    seal: Seal | None = None

    def stage(self, staging: Staging, parent: ObjectId) -> Staged[Outcome]:
        """Stage the commit on `parent`. An error leaves the staging area unchanged.

        Raises:
            KgdError: An edit is refused; `at` names the edit, such as ``changes[2]``.
        """
        refuse_secret_text(self.changes.message, "the message", at="message")
        draft = Draft(staging, self.around, self.now)
        self._apply(draft)
        edits.check_links(draft)
        draft.warnings += edits.doubled_relations(self.changes.edits)
        draft.warnings += edits.misspelt_keys(draft)
        files = draft.finish()
        if self.permit:
            workspace = self.around.workspace
            self.permit(
                touched_by(staging, files, workspace, self.around.sharded, self.around.memory_names),
                policy_in(staging.read(SETTINGS), workspace),
            )
        touched, created, written = draft.touched(), draft.created(), draft.written()
        message = message_of(self.changes, {*touched, *written}, draft.settled)
        versions = tuple((uri, self.around.version(draft.path(uri)) + 1) for uri in written)
        if self.dry_run or not files:
            would = dry_run_effect(message, self.changes.author.name, files, staging.read) if self.dry_run else None
            return Staged(
                Outcome(
                    None,
                    versions,
                    tuple(created),
                    warnings=tuple(draft.warnings),
                    deleted=_deleted(draft, touched),
                    would=would,
                )
            )
        changed = staging.write(files)
        author = signature(self.changes.author, self.now)
        commit = commit_of(staging, parent, author, self.changes.request_id, message, self.seal)
        answer = Outcome(
            commit.hex(), versions, tuple(created), warnings=tuple(draft.warnings), deleted=_deleted(draft, touched)
        )
        nodes = {uri: draft.node(uri) for uri in (*touched, *written)}
        verifies = self.changes.operation == VERIFY
        return Staged(answer, commit, changed, author, self.changes.request_id, nodes, verifies=verifies)

    def _apply(self, draft: Draft) -> None:
        if not self.changes.edits:
            raise Invalid("there is nothing to change", at="changes", next="Give at least one change.")
        if len(self.changes.edits) > MAX_EDITS:
            raise Limit(
                f"one call takes at most {MAX_EDITS} changes", at="changes", next="Split them into several calls."
            )
        for number, edit in enumerate(self.changes.edits):
            try:
                edits.apply(edit, draft)
            except KgdError as refusal:
                if len(self.changes.edits) > 1 and not refusal.at.startswith("changes["):
                    refusal.at = f"changes[{number}] {refusal.at}".strip()[:80]
                raise


def _deleted(draft: Draft, touched: Iterable[Uri]) -> tuple[Uri, ...]:
    return tuple(uri for uri in touched if draft.node(uri) is None)


def commit_of(
    staging: Staging, parent: ObjectId, author: Signature, request: str, message: str, seal: Seal | None
) -> ObjectId:
    """Commit the staged files, sealed if the request may be repeated."""
    tree = staging.write_tree()
    if request and seal is not None:
        return seal.commit(staging, tree, [parent], author, message)
    return staging.commit(tree, [parent], author, message)


def message_of(changes: ChangeSet, touched: Iterable[Uri], settled: Iterable[str] = ()) -> str:
    """The commit message: the caller's subject or a generated subject, with trailers as in docs/format.md."""
    uris = sorted({*touched, *(edit.entry.parent for edit in changes.edits if isinstance(edit, Log))})
    text = changes.message.strip()[:MAX_MESSAGE] or subject_of(changes.edits, uris)
    named = " ".join(uris[:NODES_IN_TRAILER]) + (
        f" +{len(uris) - NODES_IN_TRAILER}" if len(uris) > NODES_IN_TRAILER else ""
    )
    trailers = [
        ("Kgd-Op", changes.operation),
        ("Kgd-Actor", changes.author.client),
        (REQUEST, changes.request_id),
        ("Kgd-Nodes", named),
        ("Kgd-Origin", changes.origin),
        (RESOLVED_BY, changes.resolved_by),
        (ACCEPTED_BY, changes.accepted_by),
        *(("Kgd-Resolves", path.rpartition("/")[2].removesuffix(".yaml")) for path in sorted(set(settled))),
    ]
    return with_trailers(text, [(key, value) for key, value in trailers if value])


def subject_of(changes: Iterable[Edit], uris: list[Uri]) -> str:
    """A subject for a change without a message."""
    edits = list(changes)
    match edits:
        case [Move(uri, to)]:
            return subject_from("move", uri, "to", to)
        case [Relate(source, relation)]:
            return subject_from(source, relation.type, relation.target)
        case [Unrelate(source, target, kind)]:
            return subject_from("unlink", source, kind, target)
    kinds = {type(edit) for edit in edits}
    verbs = {
        Upsert: "put",
        Append: "append to",
        Delete: "delete",
        Relate: "relate",
        Untag: "untag",
        Move: "move",
        Revert: "revert",
        Settle: "resolve",
        Log: "log",
    }
    verb = verbs.get(kinds.pop(), "change") if len(kinds) == 1 else "change"
    uris = uris or sorted({Uri(edit.conflict.rpartition("#")[0]) for edit in edits if isinstance(edit, Settle)})
    if not uris:
        return verb
    if len(edits) == 1 and isinstance(edits[0], Upsert | Append):
        uri, said = edits[0].uri if edits[0].uri in uris else uris[0], _said(edits[0])
        return subject_from(verb, f"{uri}:" if said else uri, *filter(None, [said]), more=len(uris) - 1)
    return subject_from(verb, uris[0], more=len(uris) - 1)


def _said(edit: Upsert | Append) -> str:
    """The beginning of the text that an edit writes. Only whole words, so that no part of a secret is left in the
    message after the secret has been removed."""
    text = edit.text if isinstance(edit, Append) else edit.summary or edit.name or edit.content or ""
    shown = ""
    text = text[:1_000]
    if not text.isprintable():
        text = "".join(char if char.isprintable() else " " for char in text)
    for word in text.split():
        if len(shown) + len(word) >= SAID_IN_SUBJECT:
            return f"{shown} …" if shown else ""
        shown = f"{shown} {word}".strip()
    return shown


Data = bytes | None
"""None means absent."""


def dry_run_effect(message: str, author: str, files: Mapping[str, Data], read: Callable[[str], Data]) -> Would:
    """The effect of a commit with this message.

    Args:
        files: The files to write or remove, by path.
        read: Reads the current file at a path.
    """
    nodes: list[NodeChange] = []
    others: list[FileChange] = []
    left = 0
    for path, data in sorted(files.items()):
        if path.startswith("conflicts/"):
            continue
        if not (paths.is_node_path(path) or paths.is_part_path(path)):
            others.append(FileChange(path, _text(read(path)), _text(data)))
            continue
        for uri, before, after in entries_of(path, read(path), data):
            if len(nodes) >= NODES_SHOWN:
                left += 1
            else:
                nodes.append(NodeChange(uri, node_in(path, before), node_in(path, after)))
    return Would(message, author, tuple(nodes), tuple(others), left, not files)


def entries_of(path: str, before: Data, after: Data) -> Iterator[tuple[Uri, Data, Data]]:
    """The changed nodes of a file with their bytes before and after: one for a node's file, several for a part."""
    if not paths.is_part_path(path):
        node = node_in(path, after) or node_in(path, before)
        if node is not None:
            yield node.uri, before, after
        return
    was, now = _inside(path, before), _inside(path, after)
    for uri in sorted({*was, *now}):
        if was.get(uri) != now.get(uri):
            yield uri, was.get(uri), now.get(uri)


def _inside(path: str, data: Data) -> Mapping[Uri, bytes]:
    try:
        return bulk.read(data, path).nodes if data is not None else {}
    except KgdError:
        return {}


def _text(data: Data) -> str | None:
    return data[:NODE_BYTES].decode("utf-8", "backslashreplace") if data is not None else None

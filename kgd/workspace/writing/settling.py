"""Open conflicts: finding and counting them with few reads, and settling them on a draft. Reverts on a draft.

A conflict is about a field, a name, a file, or two nodes. A revert applies the inverse of a commit and names it in the
message.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import islice

from kgd.codec import documents, front_matter, paths
from kgd.codec.settings import PATH as SETTINGS
from kgd.codec.settings import decode_settings, plain_settings, rewrite_settings, settings_from_plain
from kgd.errors import Advice, Do, Invalid, InvariantViolation, KgdError, NotFound
from kgd.git.incoming import OWNED_FOLDERS
from kgd.git.objects import trailers
from kgd.git.rewriting import FORGOTTEN
from kgd.git.store import ObjectStore
from kgd.model.change import ChangeSet, Revert
from kgd.model.conflict import PLACE, TWIN, Conflict, by_field
from kgd.model.fields import split, with_value
from kgd.model.merge import Merged, is_of_node, merge
from kgd.model.merge_graph import combined, renamed, with_decision
from kgd.model.node import Json, Node
from kgd.model.uri import Uri, is_settings_uri, parse
from kgd.workspace import memory_files
from kgd.workspace.answers import OpenConflict
from kgd.workspace.history.commits import NodeVersion, Past
from kgd.workspace.history.history import ACCEPT, REVERT, UNDO, Reverted, lines_of_reverts, subject_of_revert
from kgd.workspace.merging.files import MEMORIES, merge_file
from kgd.workspace.served import Served
from kgd.workspace.writing.admission import check
from kgd.workspace.writing.draft import Draft

READ_TO_COUNT = 20
"""If more records than this are about some nodes, only their paths are counted."""
SUBJECTS = 20_000
"""Maximum number of cached subjects of records."""

Counts = Callable[[Uri], bool]


class OpenConflicts:
    """The open conflicts of a workspace, as served."""

    def __init__(self, store: ObjectStore, served: Served, workspace: str, sharded: frozenset[str]) -> None:
        self._store, self._served, self._workspace, self._sharded = store, served, workspace, sharded

    def find(
        self,
        uri: Uri | None = None,
        *,
        limit: int = 200,
        after: str = "",
        digest: str = "",
        about: Counts | None = None,
    ) -> tuple[OpenConflict, ...]:
        """Open conflicts of one node, or all, in the order of their records, starting after the record `after`.

        Args:
            digest: Find only the record with this name; no other record is read.
            about: Predicate for nodes; a record is included if it holds for all nodes that the record mentions. Records
                are read only until `limit` is reached.
        """
        chosen = (path for path in self._paths(uri) if path > after)
        if digest:
            chosen = (path for path in chosen if path.endswith(f"/{digest}.yaml"))
        if about is not None:
            chosen = (path for path in chosen if (named := self._subject(path)) is None or about(named))
        found = (one for path in chosen if (one := self._read(path)))
        return tuple(islice((one for one in found if _is_told(one, about)), limit))

    def nodes(self, *, reads: int, about: Counts | None = None) -> tuple[set[Uri], bool]:
        """The nodes with open conflicts, and whether these are all: at most `SUBJECTS` records are looked at, and only
        `reads` of them are read. Without `about`, a record whose path identifies its node is not read."""
        found, is_all = set[Uri](), self._served.conflict_count <= SUBJECTS
        for path in self._paths(None)[:SUBJECTS]:
            named = self._subject(path)
            if named and about is None:
                found.add(named)
            elif named and about and not about(named):
                continue
            elif not reads:
                is_all = False
            else:
                reads -= 1
                if (one := self._read(path)) and _is_told(one, about):
                    found.add(one.uri)
        return found, is_all

    def count(self, uri: Uri | None = None, *, about: Counts | None = None) -> int:
        """The number of open conflicts of one node, or of nodes for which `about` holds. Reads a record only if its
        path does not identify its node.

        If there are many records, other nodes mentioned in a record are ignored, so that ten thousand records can be
        counted quickly.
        """
        if about is not None and len(few := self.find(uri, limit=READ_TO_COUNT, about=about)) < READ_TO_COUNT:
            return len(few)
        found = self._paths(uri)
        if about is None:
            return len(found)
        named = ((path, self._subject(path)) for path in found)
        return sum(
            about(one) if one else (read := self._read(path)) is not None and about(read.uri) for path, one in named
        )

    def of(self, uris: Collection[Uri], *, about: Counts | None = None) -> tuple[OpenConflict, ...]:
        """Open conflicts about these nodes. Costs one look-up for each node."""
        if not self._served.conflict_count:
            return ()
        return tuple(one for uri in sorted(uris) for one in self.find(uri, about=about) if one.uri == uri)

    def _paths(self, uri: Uri | None) -> list[str]:
        folder = paths.conflict_path(uri, "x", self._sharded).rpartition("/")[0] if uri else None
        return self._served.conflict_paths(folder)

    def _subject(self, path: str) -> Uri | None:
        """The node of a record, from the record's path if possible, because reading thousands of records would be
        slow."""
        return _subject_in(path, self._workspace, self._sharded)

    def _read(self, path: str) -> OpenConflict | None:
        tree = self._served.tree
        blob = self._store.entry(tree, path) if tree else None
        try:
            conflict = (
                documents.read_record(self._store.read(blob), path, self._sharded, self._workspace) if blob else None
            )
        except KgdError:
            return None
        return OpenConflict(conflict.id, path, conflict) if conflict else None


def _is_told(one: OpenConflict, about: Counts | None) -> bool:
    return about is None or (about(one.uri) and all(map(about, one.conflict.mentioned_uris())))


@lru_cache(maxsize=SUBJECTS)
def _subject_in(path: str, workspace: str, sharded: frozenset[str]) -> Uri | None:
    folder, _, name = path.removeprefix("conflicts/").rpartition("/")
    try:
        uri = paths.uri_of(f"nodes/{folder}.yaml", workspace, sharded)
    except KgdError:
        return None
    told = uri is not None and paths.conflict_path(uri, name.removesuffix(".yaml"), sharded) == path
    return uri if told else None


def settle(draft: Draft, conflict: Conflict, uri: Uri, fields: Mapping[str, Json]) -> None:
    """Give each of these fields its decided value. `uri` is the node's current name.

    Raises:
        Invalid: A value is not valid for its field.
        InvariantViolation: Another node has the chosen name.
    """
    for name, value in fields.items():
        if is_settings_uri(conflict.uri):
            _settle_setting(draft, name, value)
        elif split(name)[0] == MEMORIES:
            _settle_memory(draft, name, value)
        elif name == TWIN:
            _settle_twin(draft, conflict, value)
        elif name == PLACE:
            uri = _settle_place(draft, uri, value)
        else:
            node = with_decision(draft.node(uri), uri, name, value)
            if node is None:
                draft.remove(uri)
            else:
                draft.put(node)
                draft.restored.update((uri, relation.key) for relation in node.relations)


def is_about_node(conflict: Conflict) -> bool:
    """Whether the conflict is about the node's own file, and not about settings, a memory file or two nodes.

    Models decide only such conflicts: the others need more than the record.
    """
    return not is_settings_uri(conflict.uri) and all(is_of_node(name) or name == PLACE for name in conflict.fields)


def carry(draft: Draft, old: Uri, node: Node) -> None:
    """Move the open conflicts of a node to its new name."""
    for path in draft.conflict_records(old):
        if (conflict := _record(draft, path)) is not None:
            draft.files[path] = None
            draft.carried.add(path)
            draft.record(conflict.at(node.uri))


def _record(draft: Draft, path: str) -> Conflict | None:
    """The record at a path; None for any other file there, which must not be rewritten."""
    data = draft.read_file(path)
    try:
        if data is not None:
            return documents.read_record(data, path, draft.around.sharded, draft.around.workspace)
    except KgdError:
        pass
    return None


def _settle_place(draft: Draft, uri: Uri, value: Json) -> Uri:
    to = parse(str(value)) if value else uri
    node = draft.node(uri)
    if node is None:
        raise NotFound("the node no longer exists", at=uri, next="Delete the conflict's record.")
    if to == uri:
        return uri
    if draft.node(to) is not None:
        raise InvariantViolation(
            "there is already a node with this URI", at=to, next="Choose another URI, or delete that node."
        )
    draft.remove(uri)
    there = renamed(node, to)
    draft.put(there)
    carry(draft, uri, there)
    return to


def _settle_twin(draft: Draft, conflict: Conflict, value: Json) -> None:
    """Keep both nodes (None), or combine them under the given name."""
    sides = [Uri(str(side)) for side in conflict.fields[TWIN].sides]
    if value is None:
        return
    if value not in sides:
        raise Invalid("choose one of the two names, or null to keep both", at="fields")
    kept = draft.node(Uri(str(value)))
    others = [node for side in sides if side != value and (node := draft.node(side)) is not None]
    if kept is None:
        raise NotFound("this node no longer exists", at=str(value), next="Choose the other node.")
    for other in others:
        joined = combined(Merged(kept, _withdrawn(draft, kept.uri)), Merged(other, _withdrawn(draft, other.uri)))
        assert joined.node is not None
        draft.remove(other.uri)
        carry(draft, other.uri, joined.node)
        kept = joined.node
        draft.put(kept)
        for record in joined.records.values():
            draft.record(record)


def _withdrawn(draft: Draft, uri: Uri) -> dict[str, Conflict]:
    """The open conflicts about the node's fields, removed from the draft to be rewritten."""
    found = []
    for path in draft.conflict_records(uri):
        conflict = _record(draft, path)
        if conflict and all(map(is_of_node, conflict.fields)):
            draft.files[path] = None
            draft.carried.add(path)
            found.append(conflict)
    return by_field(found)


def _settle_setting(draft: Draft, name: str, value: Json) -> None:
    data = draft.read_file(SETTINGS)
    if data is None:
        raise NotFound("the workspace has no settings", at=SETTINGS)
    old = decode_settings(data)
    new = settings_from_plain(with_value(plain_settings(old), split(name), value))
    if new.workspace != old.workspace or new.sharded != old.sharded:
        raise Invalid("the workspace's id and its sharded schemes cannot be changed", at=SETTINGS)
    draft.files[SETTINGS] = rewrite_settings(data, new)


def _settle_memory(draft: Draft, name: str, value: Json) -> None:
    _, file, *rest = split(name)
    path = f"{MEMORIES}/{file}"
    if not rest:
        draft.files[path] = str(value).encode() if value is not None else None
        return
    data = draft.read_file(path)
    if data is None:
        raise NotFound("this memory no longer exists", at=path)
    memory = front_matter.decode(data, at=path)
    if rest == ["prose"]:
        draft.files[path] = front_matter.with_head(memory.head, str(value or ""))
    else:
        draft.files[path] = front_matter.encode(with_value(memory.front, rest, value), memory.prose)


def revert(edit: Revert, draft: Draft) -> None:
    """Merge the inverse of a commit into the draft; later changes are kept.

    For an accepted proposal, this is the inverse of everything that it brought in.

    Raises:
        Invalid: The commit is another kind of merge, or the first commit; these have no inverse.
        NotFound: There is no such commit.
    """
    past = draft.around.past
    commit = past.commit(past.commit_id(edit.commit))
    is_accepted = len(commit.parents) == 2 and dict(trailers(commit.message)).get("Kgd-Op") == ACCEPT
    if len(commit.parents) != 1 and not is_accepted:
        what = "a merge" if commit.parents else "the first commit"
        raise Invalid(f"{what} cannot be reverted", at=edit.commit[:60], next="Revert the changes that it brought in.")
    store = past.nodes()
    for path, old, new in store.diff(store.tree_of(commit.parents[0]), commit.tree):
        if edit.only and past.about(path, new or old, store) not in edit.only:
            continue
        if paths.is_node_path(path):
            was, now = past.version(path, old, commit.parents[0], store), past.version(path, new, commit.id, store)
            if was.node or not now.unreadable:
                _revert_node(path, was.node, now, draft)
                continue
            if not draft.around.invalid_file(path):
                continue  # a later version can be read, and is kept
        before, after = (store.read(blob) if blob else None for blob in (old, new))
        if paths.is_memory_path(path):
            _revert_memory(path, before, after, draft)
        elif path == FORGOTTEN:
            draft.warnings.append(f"{path} is kept: it keeps removed commits from coming back")
        elif not _can_be_opened_with(path, before, draft):
            draft.warnings.append(f"{path} is kept: the workspace could not be opened with its former version")
        elif draft.read_file(path) == after:
            draft.files[path] = before
        else:
            draft.warnings.append(f"{path} has changed since and was not reverted")


def _can_be_opened_with(path: str, data: bytes | None, draft: Draft) -> bool:
    """Whether a file of the top folder may have this content, or be removed (None). The history may have a version that
    a user broke with git and then repaired."""
    if path != SETTINGS:
        return data is None or path not in OWNED_FOLDERS
    around = draft.around
    try:
        check(path, data or b"", None, memory_files.Home(around.workspace, around.sharded, draft.read_file))
    except KgdError:
        return False
    return True


def _revert_node(path: str, before: Node | None, after: NodeVersion, draft: Draft) -> None:
    """Revert a node from the version after the commit to the version before it.

    If the commit left an unreadable file, it changed nothing that is served. The file is replaced if it still cannot be
    read; a later readable version is kept.
    """
    if after.unreadable and before:
        if draft.around.invalid_file(path):
            draft.replace_unreadable(before)
            draft.restored.update((before.uri, relation.key) for relation in before.relations)
        return
    if (known := before or after.node) is None:
        return  # the commit removed a file that was never readable
    uri = known.uri
    merged = merge(after.node, draft.node(uri), before)
    if merged.node is None:
        draft.remove(uri)
    else:
        draft.put(merged.node)
        draft.restored.update((uri, relation.key) for relation in (before.relations if before else ()))
    if merged.conflict:
        draft.record(merged.conflict)
        draft.warnings.append(_kept_both(uri))


def _revert_memory(path: str, before: bytes | None, after: bytes | None, draft: Draft) -> None:
    merged = merge_file(path, after, draft.read_file(path), before)
    draft.files |= {path: merged.data, **merged.beside}
    for conflict in merged.conflicts:
        draft.record(conflict)
        draft.warnings.append(_kept_both(path))


def _kept_both(changed: str) -> Advice:
    shown = Do("conflicts"), " shows both"
    return Advice(f"{changed} has changed since, and both versions are kept as a conflict: ", *shown)


def named_in_message(changes: ChangeSet, past: Past) -> ChangeSet:
    """The ChangeSet with a message that names the commits that it reverts, for people and for `undo`. There must be at
    least one.

    Raises:
        NotFound: There is no such commit.
    """
    named = next(edit.commit for edit in changes.edits if isinstance(edit, Revert))
    (first,) = past.without_nodes([past.commit_id(named).hex()])
    subject = changes.message.strip() or subject_of_revert(first.subject, first.operation)
    edits = tuple(
        replace(edit, commit=past.commit_id(edit.commit).hex()) if isinstance(edit, Revert) else edit
        for edit in changes.edits
    )
    nodes = {edit.commit: edit.only for edit in edits if isinstance(edit, Revert)}
    body = lines_of_reverts([Reverted(id, only, not only) for id, only in nodes.items()])
    operation = UNDO if changes.operation == UNDO else REVERT
    return replace(changes, message=f"{subject}\n\n{body}", edits=edits, operation=operation)

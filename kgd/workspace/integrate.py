"""This file is where two trees are merged: node by node, never line by line across a node file.

Pure over stored objects: the result depends on the three trees alone, not on which side is called ours, so two
replicas that merge the same pair write the same bytes. Only subtrees that changed on both sides are visited.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kgd.codec import documents, paths
from kgd.codec.settings import PATH as SETTINGS
from kgd.codec.settings import decode_settings
from kgd.errors import Invalid, KgdError, Limit, Refused, Unavailable
from kgd.git.objects import ObjectId, object_id
from kgd.git.staging import Staging
from kgd.git.store import ObjectStore
from kgd.git.unwritten import Unwritten
from kgd.model.ancestry import in_common
from kgd.model.conflict import WHOLE, Conflict, FieldConflict, canonical_json
from kgd.model.fields import plain
from kgd.model.merge import KNOWN_RULES, RULES_VERSION, merge
from kgd.model.node import Json, Node
from kgd.model.prose import merge_text

TEXT_LIMIT = 1024 * 1024
"""Bytes of a file that is no node; a larger one is not merged by lines."""


@dataclass(frozen=True, slots=True)
class MergedFile:
    """What one path holds after a merge; None is absence. `beside` are further files, such as a kept variant."""

    data: bytes | None
    conflict: Conflict | None = None
    beside: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MergedTree:
    """What has to be written onto `ours` to hold both sides."""

    files: dict[str, bytes | None]
    conflicts: tuple[Conflict, ...]


class ReadableTree(NamedTuple):
    """A tree that may not be written anywhere, and a store that reads it all the same (`diff`, `read`, `entry`)."""

    store: ObjectStore
    id: ObjectId


def merge_commits(store: ObjectStore, ours: ObjectId, theirs: ObjectId, sharded: frozenset[str]) -> MergedTree:
    """Merge what two commits hold, against what they have in common: one ancestor, several, or none.

    Nothing is written. The tree that results is the same whichever is called ours.

    Raises:
        Unavailable: One of them follows merge rules that this kgd does not know; it can only fast-forward.
        Damaged: An object is missing or broken.
    """
    check_rules(store, (ours, theirs))
    view = Unwritten(store)
    return merge_trees(view, base_tree(view, ours, theirs, sharded), view.tree_of(ours), view.tree_of(theirs), sharded)


def merged_tree(store: ObjectStore, parents: Sequence[ObjectId], sharded: frozenset[str]) -> ReadableTree:
    """The tree that kgd's own merge of these commits has, in memory: what a merge commit is compared with.

    Raises:
        Invalid: There are not two of them.
        Unavailable, Damaged: As `merge_commits`.
    """
    if len(parents) != 2:
        raise Invalid("kgd merges two commits at a time", at="merge")
    ours, theirs = sorted(parents)
    merged = merge_commits(store, ours, theirs, sharded)
    view = Unwritten(store)
    return ReadableTree(view, _written(view, store.tree_of(ours), merged))


def base_tree(view: Unwritten, a: ObjectId, b: ObjectId, sharded: frozenset[str]) -> ObjectId | None:
    """The tree of what two commits have in common; where that had to be made, `view` can read it."""

    def merge_held(base: ObjectId | None, ours: ObjectId, theirs: ObjectId) -> ObjectId:
        return _written(view, ours, merge_trees(view, base, ours, theirs, sharded))

    return in_common(a, b, bases=view.merge_bases, held=view.tree_of, merge=merge_held)


def check_rules(store: ObjectStore, commits: Iterable[ObjectId]) -> int:
    """The version of the merge rules to follow: the lowest of those that the commits name.

    Raises:
        Unavailable: This kgd does not know it.
    """
    rules = min(_rules_of(store, commit) for commit in commits)
    if rules not in KNOWN_RULES:
        raise Unavailable(
            f"the workspace merges by rules of version {rules}, this kgd knows {max(KNOWN_RULES)}",
            at=SETTINGS, next="Upgrade kgd; until then it only follows what others have merged.",
        )  # fmt: skip
    return rules


def _rules_of(store: ObjectStore, commit: ObjectId) -> int:
    blob = store.entry(store.tree_of(commit), SETTINGS)
    try:
        return decode_settings(store.read(blob), newer=True).merge_rules if blob else RULES_VERSION
    except (Invalid, Refused, Limit):
        return RULES_VERSION


def _written(view: Unwritten, ours: ObjectId, merged: MergedTree) -> ObjectId:
    staging = Staging(view, ours)
    for path, data in sorted(merged.files.items()):
        if data is None:
            staging.remove(path)
        else:
            staging.put(path, data)
    made = staging.write_tree()
    view.add(staging.objects)
    return made


def merge_trees(
    store: ObjectStore, base: ObjectId | None, ours: ObjectId, theirs: ObjectId, sharded: frozenset[str]
) -> MergedTree:
    """Merge `theirs` into `ours`; cost follows the number of changed files, not the size of the trees."""
    our_changes = {path: new for path, _, new in store.diff(base, ours)} if base != ours else {}
    files: dict[str, bytes | None] = {}
    conflicts: list[Conflict] = []
    for path, old, new in store.diff(base, theirs):
        if path not in our_changes:
            files[path] = store.read(new) if new else None
            continue
        if our_changes[path] == new:
            continue
        current = our_changes[path]
        three = tuple(store.read(blob) if blob else None for blob in (old, current, new))
        merged = merge_file(path, *three)
        files[path] = merged.data
        files.update(merged.beside)
        if merged.conflict:
            conflicts.append(merged.conflict)
            record = paths.conflict_path(merged.conflict.uri, merged.conflict.digest, sharded)
            files[record] = documents.encode_conflict(merged.conflict)
    return MergedTree(files, tuple(conflicts))


def merge_file(path: str, base: bytes | None, ours: bytes | None, theirs: bytes | None) -> MergedFile:
    """Merge three versions of one file, by what the path says it is. Total: no content makes it raise."""
    if ours == theirs or theirs == base:
        return MergedFile(ours)
    if ours == base:
        return MergedFile(theirs)
    if paths.is_node_path(path):
        return _merge_node_file(path, base, ours, theirs)
    return _merge_other(path, base, ours, theirs)


def _merge_node_file(path: str, base: bytes | None, ours: bytes | None, theirs: bytes | None) -> MergedFile:
    a, b = _decoded(path, ours), _decoded(path, theirs)
    if isinstance(a, str) or isinstance(b, str):
        return _merge_unreadable(path, ours, theirs, a, b)
    old = _decoded(path, base)
    merged = merge(None if isinstance(old, str) else old, a, b)
    if merged.node is None:
        return MergedFile(None)
    return MergedFile(_bytes_of(merged.node, (ours, a), (theirs, b)), merged.conflict)


def _bytes_of(node: Node, *sides: tuple[bytes | None, Node | None]) -> bytes:
    """The file of a merged node; a side that says exactly this keeps its bytes, and its comments."""
    same = [data for data, side in sides if data is not None and side == node]
    if same:
        return min(same)
    written = [data for data, side in sides if data is not None and side is not None]
    # Which side's comments are kept must not depend on who is called ours.
    by_hand = [data for data in written if documents.encode(documents.decode(data)) != data]
    return documents.rewrite(min(by_hand) if by_hand else None, node)


def _merge_unreadable(
    path: str, ours: bytes | None, theirs: bytes | None, a: Node | str | None, b: Node | str | None
) -> MergedFile:
    """At least one side is no node: the readable one is served, and the text of the other stays in the conflict."""
    uri = next((side.uri for side in (a, b) if isinstance(side, Node)), None)
    if uri is None:
        # Neither can be read, or one was deleted: keep the text that is there for the person who wrote it.
        return MergedFile(max(data for data in (ours, theirs) if data is not None))
    sides = tuple(sorted((_side_of(ours, a), _side_of(theirs, b)), key=canonical_json))
    readable, data = (a, ours) if isinstance(a, Node) else (b, theirs)
    assert isinstance(readable, Node)
    shown = sides.index(plain(readable))
    return MergedFile(data, Conflict(uri, {WHOLE: FieldConflict(None, sides)}, {WHOLE: shown}))


def _side_of(data: bytes | None, side: Node | str | None) -> Json:
    if isinstance(side, Node):
        return plain(side)
    return {"unreadable": (data or b"").decode("utf-8", "backslashreplace")[:60_000]} if data is not None else None


def _decoded(path: str, data: bytes | None) -> Node | str | None:
    """The node in these bytes; the reason as text where there is none in them."""
    if data is None:
        return None
    try:
        return documents.decode(data, at=path)
    except KgdError as refusal:
        return str(refusal)


def _merge_other(path: str, base: bytes | None, ours: bytes | None, theirs: bytes | None) -> MergedFile:
    """Anything that is no node: by lines where it is text, else both are kept side by side."""
    if ours is None or theirs is None:
        # Deleting a conflict's record settles it; for every other file an edit beats a deletion.
        return MergedFile(None if path.startswith("conflicts/") else ours or theirs)
    try:
        text = merge_text((base or b"").decode(), ours.decode(), theirs.decode()) if _mergeable(ours, theirs) else None
    except UnicodeDecodeError:
        text = None
    if text is not None and not path.endswith((".yaml", ".yml")):
        return MergedFile(text.encode())
    kept, other = sorted((ours, theirs), reverse=True)
    if path.startswith("conflicts/"):
        return MergedFile(kept)
    stem, dot, extension = path.rpartition(".")
    variant = f"{stem or path}.variant-{_short_hash(other)}{dot}{extension if stem else ''}"
    return MergedFile(kept, beside={variant: other})


def _mergeable(*texts: bytes) -> bool:
    return all(len(text) <= TEXT_LIMIT for text in texts)


def _short_hash(data: bytes) -> str:
    return object_id("blob", data).hex()[:8]

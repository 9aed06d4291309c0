"""Merging three versions of one file, by the kind that its path indicates; and names that collide after a merge.

Every input gives a result. Content that cannot be merged goes into a conflict or into a second file next to the first.
The result is the same for both sides.

*Colliding names* are nodes that some file systems cannot tell apart, found when a merge brings them together. Both
nodes stay in their files, and a conflict records the collision (docs/merge.md, section 8). Only the folders above new
nodes are read; for a sharded scheme, all of its folders are read, because two colliding names are then in different
folders.
"""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kgd.codec import bulk, documents, front_matter, paths
from kgd.codec.front_matter import Memory
from kgd.codec.settings import PATH as SETTINGS
from kgd.codec.settings import decode_settings, plain_settings, rewrite_settings, settings_from_plain
from kgd.errors import Invalid, KgdError
from kgd.git.objects import FOLDER, ObjectId, Tree, object_id, raw, text
from kgd.git.store import ObjectStore
from kgd.model.conflict import (
    WHOLE,
    Conflict,
    FieldConflict,
    canonical_json,
    conflict_of,
    disagreement,
    held,
    merge_held,
)
from kgd.model.fields import join, plain
from kgd.model.merge import NOTHING_OPEN, Three, either, merge, merge_sets, merge_values, same
from kgd.model.merge_graph import twin
from kgd.model.node import Json, Node
from kgd.model.text_merge import merge_text
from kgd.model.uri import OWNED, Uri, collision_key, decode_segment, parse, settings_uri
from kgd.workspace.parts import node_of

log = logging.getLogger(__name__)

TEXT_LIMIT = 1024 * 1024
"""Maximum bytes of an ordinary file that is merged by lines."""
MEMORIES = "memories"
"""The first segment of the name of a field in a memory file: ``memories/<file>/prose``."""

Data = bytes | None
"""None means absent."""


@dataclass(frozen=True, slots=True)
class MergedFile:
    """The content of one path after a merge. `beside` are additional files, such as a variant that was kept."""

    data: Data
    conflicts: tuple[Conflict, ...] = ()
    beside: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def conflict(self) -> Conflict | None:
        """The conflict, if there is one; only a bulk part can have several."""
        return self.conflicts[0] if self.conflicts else None


def merge_file(path: str, base: Data, ours: Data, theirs: Data, records: Three = NOTHING_OPEN) -> MergedFile:
    """Merge three versions of one file; never raises, for any content.

    Moves and other changes across files are merged in `kgd.workspace.merging.histories`. `records` are the open
    conflicts about fields of settings and memories; if given, `conflicts` contains all conflicts that remain open.
    """
    acted = records != NOTHING_OPEN
    if ours == theirs and not acted:
        return MergedFile(ours)
    if not acted and theirs == base:
        return MergedFile(ours)
    if not acted and ours == base:
        return MergedFile(theirs)
    try:
        if paths.is_node_path(path):
            return _merge_node_file(path, base, ours, theirs)
        if path == SETTINGS and ours is not None and theirs is not None:
            return _merge_settings(base, ours, theirs, records)
        if path.startswith(f"{MEMORIES}/"):
            return _merge_memory(path, base, ours, theirs, records)
        if path.startswith("bulk/") and ours is not None and theirs is not None:
            return _merge_bulk(path, base, ours, theirs)
    except KgdError:
        pass  # malformed, or too large together: keep both
    except Exception:  # a defect in kgd: one file must not stop the merge of all others
        log.exception("a file could not be merged by its kind", extra={"path": path})
    if ours in (base, theirs):
        return MergedFile(theirs)
    return MergedFile(ours) if theirs == base else merge_unknown(path, base, ours, theirs)


def record_files(conflicts: Iterable[Conflict], sharded: frozenset[str]) -> dict[str, bytes]:
    """The files of these conflicts, one for each field. A value too large for a record goes into a separate file."""
    files: dict[str, bytes] = {}
    for conflict in conflicts:
        for one in conflict.by_field():
            try:
                files[paths.conflict_path(one.uri, one.digest, sharded)] = documents.encode_conflict(one)
            except KgdError:
                files.update(_large_record(one, sharded))
    return files


def _large_record(conflict: Conflict, sharded: frozenset[str]) -> dict[str, bytes]:
    """The record without the base or, if it is still too large, with file names instead of the sides.

    Its name is the digest of its content, as for every record.
    """
    path = paths.conflict_path(conflict.uri, conflict.digest, sharded)
    ((name, disputed),) = conflict.fields.items()
    smaller = FieldConflict(None, disputed.sides, disputed.round)
    try:
        told = Conflict(conflict.uri, {name: smaller}, conflict.shown)
        return {paths.conflict_path(told.uri, told.digest, sharded): documents.encode_conflict(told)}
    except KgdError:
        pass
    files: dict[str, bytes] = {}
    sides: list[Json] = []
    for side in disputed.sides:
        data = (
            side.encode("utf-8", "replace")
            if isinstance(side, str)
            else canonical_json(side).encode("utf-8", "replace")
        )
        kept = f"kept/{path.removeprefix('conflicts/').removesuffix('.yaml')}-{_short_hash(data)}.txt"
        files[kept] = data
        sides.append({"kept": kept})
    told = Conflict(conflict.uri, {name: FieldConflict(None, tuple(sides), disputed.round)}, conflict.shown)
    files[paths.conflict_path(told.uri, told.digest, sharded)] = documents.encode_conflict(told)
    return files


# ---- nodes


def _merge_node_file(path: str, base: Data, ours: Data, theirs: Data) -> MergedFile:
    a, b = decoded(path, ours), decoded(path, theirs)
    if isinstance(a, str) or isinstance(b, str):
        return merge_unreadable(ours, theirs, a, b)
    old = decoded(path, base)
    old = None if isinstance(old, str) else old
    merged = merge(old, a, b)
    if merged.node is None:
        return MergedFile(None)
    try:
        data = bytes_of(merged.node, [(ours, a), (theirs, b)])
    except KgdError:  # the sides may each be small enough, but too large together
        if a is None or b is None:
            raise
        merged = either(old, a, b)
        data = bytes_of(merged.node or a, [(ours, a), (theirs, b)])
    return MergedFile(data, (merged.conflict,) if merged.conflict else ())


def bytes_of(node: Node, sides: Iterable[tuple[Data, Node | None]]) -> bytes:
    """The file of a merged node; a side equal to the result keeps its bytes and its comments.

    Raises:
        Invalid, Limit: The node cannot be stored in a file.
    """
    written = [(data, side) for data, side in sides if data is not None and side is not None]
    same_bytes = [data for data, side in written if same(side, node)]
    if same_bytes:
        return min(same_bytes)
    # The choice of comments must not depend on which side is ours.
    by_hand = [data for data, side in written if b"#" in data and documents.encode(side) != data]
    return documents.rewrite(min(by_hand) if by_hand else None, node)


def merge_unreadable(ours: Data, theirs: Data, a: Node | str | None, b: Node | str | None) -> MergedFile:
    """Merge with an unreadable side: serve the readable side, and keep the text of the other side in the conflict."""
    uri = next((side.uri for side in (a, b) if isinstance(side, Node)), None)
    if uri is None:
        # Neither is readable, or one was deleted: keep a text for its author.
        kept, *other = sorted((data for data in (ours, theirs) if data is not None), reverse=True)
        return MergedFile(kept, beside={f"kept/unreadable-{_short_hash(data)}.txt": data for data in other})
    sides = tuple(sorted((_side_of(ours, a), _side_of(theirs, b)), key=canonical_json))
    readable, data = (a, ours) if isinstance(a, Node) else (b, theirs)
    assert isinstance(readable, Node)
    return MergedFile(
        data, (Conflict(uri, {WHOLE: FieldConflict(None, sides)}, {WHOLE: sides.index(plain(readable))}),)
    )


def _side_of(data: Data, side: Node | str | None) -> Json:
    if isinstance(side, Node):
        return plain(side)
    return {"unreadable": (data or b"").decode("utf-8", "backslashreplace")} if data is not None else None


def decoded(path: str, data: Data) -> Node | str | None:
    """The node in these bytes, or the reason why they are not a node."""
    if data is None:
        return None
    try:
        return documents.decode(data, at=path)
    except KgdError as refusal:
        return str(refusal)


# ---- settings, memories, bulk


def _merge_settings(base: Data, ours: bytes, theirs: bytes, records: Three) -> MergedFile:
    """Merge settings by key. A conflict is recorded under the URI of the settings."""
    a, b = (decode_settings(data, newer=True) for data in (ours, theirs))
    try:
        old = plain_settings(decode_settings(base, newer=True)) if base else {}
    except KgdError:
        old = {}
    values, clashes = merge_values(old, plain_settings(a), plain_settings(b), (), records)
    settings = settings_from_plain(values)
    wanted = canonical_json(values)
    equal = [data for data, side in ((ours, a), (theirs, b)) if canonical_json(plain_settings(side)) == wanted]
    data = min(equal) if equal else rewrite_settings(min(ours, theirs), settings)
    return MergedFile(data, (conflict_of(settings_uri(settings.workspace), clashes),) if clashes else ())


def _merge_memory(path: str, base: Data, ours: Data, theirs: Data, records: Three) -> MergedFile:
    """Merge front matter by field, prose by line. A conflict is recorded under the node named in the front matter."""
    name = path.removeprefix(f"{MEMORIES}/")
    sides = [front_matter.decode(data, at=path) for data in (ours, theirs) if data is not None]
    if not sides:
        return MergedFile(None)
    uri = max(parse(str(side.front.get("id"))) for side in sides)
    whole = join(MEMORIES, name)
    old = front_matter.memory_in(base, path) or Memory({}, "", "")
    if len(sides) == 1 and records == NOTHING_OPEN and sides[0].prose == old.prose and base is not None:
        return MergedFile(None)  # only mirrored fields were edited, and these are in the node's own file
    if len(sides) == 1 or any(whole in each for each in records):
        return _merge_whole_memory(uri, whole, (base, ours, theirs), records)
    a, b = sides
    front, clashes = merge_values(_without_tags(old), _without_tags(a), _without_tags(b), (MEMORIES, name), records)
    if tags := merge_sets(old.tags, a.tags, b.tags):
        front["tags"] = sorted(tags)
    front.pop("prose", None)
    field = join(MEMORIES, name, "prose")
    clashes.pop(field, None)
    open_prose = any(field in each for each in records)
    prose = None if open_prose else merge_text(old.prose, a.prose, b.prose)
    if prose is None:
        was, one, two = (held(field, side.prose, each) for side, each in zip((old, a, b), records, strict=True))
        decided = merge_held(was, one, two)
        prose = str(decided.value or "")
        clashes |= {field: decided.conflict} if decided.conflict else {}
    tagged = ({**side.front, "tags": sorted(set(side.tags))} if side.tags else side.front for side in (a, b))
    heads = [
        side.head for side, has in zip((a, b), tagged, strict=True) if canonical_json(has) == canonical_json(front)
    ]
    data = front_matter.with_head(min(heads), prose) if heads else front_matter.encode(front, prose)
    return MergedFile(data, (conflict_of(uri, clashes),) if clashes else ())


def _merge_whole_memory(uri: Uri, field: str, versions: tuple[Data, Data, Data], records: Three) -> MergedFile:
    """Merge an edit with a deletion: the edit survives."""
    was, ours, theirs = (held(field, _text(data), each) for data, each in zip(versions, records, strict=True))
    decided = merge_held(was, ours, theirs)
    if decided.conflict is None:
        return MergedFile(decided.value.encode() if decided.value is not None else None)
    clash = disagreement(_text(versions[0]), decided.conflict.sides, decided.conflict.round)
    return MergedFile(str(decided.value).encode(), (conflict_of(uri, {field: clash}),))


def _without_tags(memory: Memory) -> dict[str, Json]:
    return {key: value for key, value in memory.front.items() if key != "tags"}


def _text(data: Data) -> str | None:
    return data.decode("utf-8", "backslashreplace") if data is not None else None


def _merge_bulk(path: str, base: Data, ours: bytes, theirs: bytes) -> MergedFile:
    """Merge a part node by node; if the chunks come from two versions of a document, all chunks are taken from one
    version."""
    a, b = (bulk.decode(data, at=path) for data in (ours, theirs))
    if not all(bulk.belongs(node.uri, path) for side in (a, b) for node in side.nodes):
        raise Invalid("this part contains nodes that belong in another file", at=path)  # a conflict would name those
    if path.startswith("bulk/chunk/") and a.source != b.source:
        return MergedFile(max((a.source, ours), (b.source, theirs))[1])
    old = {node.uri: node for node in bulk.decode(base, at=path).nodes} if base else {}
    one, two = ({node.uri: node for node in side.nodes} for side in (a, b))
    merged = [merge(old.get(uri), one.get(uri), two.get(uri)) for uri in sorted({*old, *one, *two})]
    nodes = tuple(each.node for each in merged if each.node)
    data = bulk.encode(bulk.Part(nodes, max(a.source, b.source)), at=path)
    return MergedFile(data, tuple(each.conflict for each in merged if each.conflict))


# ---- everything else


def merge_unknown(path: str, base: Data, ours: Data, theirs: Data) -> MergedFile:
    """Merge any other file: text by lines; if that is not possible, keep both versions."""
    if ours is None or theirs is None:
        # Deleting a conflict's record settles it. For every other file an edit beats a deletion.
        return MergedFile(None if path.startswith("conflicts/") else ours if ours is not None else theirs)
    try:
        is_short = max(len(ours), len(theirs)) <= TEXT_LIMIT
        text = merge_text((base or b"").decode(), ours.decode(), theirs.decode()) if is_short else None
    except UnicodeDecodeError:
        text = None
    if text is not None and not path.endswith((".yaml", ".yml")) and not path.startswith("memories/"):
        return MergedFile(text.encode())
    kept, other = sorted((ours, theirs), reverse=True)
    if path.startswith("conflicts/"):
        return MergedFile(kept)
    return MergedFile(kept, beside={variant_of(path, other): other})


def variant_of(path: str, data: bytes) -> str:
    """The path for a variant of a file that is kept in addition, with a name derived from its bytes."""
    folder, slash, name = path.rpartition("/")
    stem, dot, extension = name.rpartition(".")
    if not stem:
        stem, dot, extension = name, "", ""
    made = f"{stem}.variant-{_short_hash(data)}{dot}{extension}"
    if path.startswith(("nodes/", "bulk/", "log/")):  # files there must match their path
        return f"kept/{folder}{slash}{made}"
    return f"{folder}{slash}{made}"


def _short_hash(data: bytes) -> str:
    return object_id("blob", data).hex()[:8]


EverOpen = Callable[[int, str], bool]
"""Whether side 0 (ours) or 1 (theirs) ever had the conflict's record at this path since the base."""
Trees = tuple[ObjectId | None, ObjectId, ObjectId]


def colliding(
    store: ObjectStore,
    trees: Trees,
    added: tuple[Sequence[str], Sequence[str]],
    result: Mapping[str, bytes | None],
    sharded: frozenset[str],
    ever_open: EverOpen,
) -> list[Conflict]:
    """Conflicts for pairs of nodes with colliding names that meet for the first time, or whose conflict one side never
    recorded.

    Args:
        trees: Base, ours and theirs.
        added: Paths of the new nodes on each side.
        result: The files that the merge writes onto ours.
    """
    if not any(added):
        return []
    base, *sides = (None if tree is None else Names(store, tree, sharded) for tree in trees)
    found: dict[str, Conflict] = {}

    def stays(path: str) -> bool:
        ours = sides[0]
        return result[path] is not None if path in result else ours is not None and ours.has(path)

    for path in sorted({*added[0], *added[1]}):
        for other in sorted({name for side in sides if side for name in side.alike(path)} - {path}):
            if not all(stays(name) for name in (path, other)):
                continue
            together = [bool(side and side.has(path) and side.has(other)) for side in sides]
            if base is not None and base.has(path) and base.has(other):
                continue
            pair = _pair(path, other, [side for side in sides if side])
            if pair is None:
                continue
            record = paths.conflict_path(pair.uri, pair.digest, sharded)
            if not any(both and ever_open(n, record) for n, both in enumerate(together)):
                found[pair.id] = pair
    return [found[id] for id in sorted(found)]


def _pair(path: str, other: str, sides: Sequence[Names]) -> Conflict | None:
    """The conflict about two paths; None if they are not nodes or their names do not collide."""
    uris = [next((uri for side in sides if (uri := side.uri(name))), None) for name in (path, other)]
    if uris[0] is None or uris[1] is None or collision_key(uris[0]) != collision_key(uris[1]):
        return None
    one, two = sorted(uri for uri in uris if uri)
    return twin(one, two)


class Names:
    """The names in one tree; each folder is read only once."""

    def __init__(self, store: ObjectStore, tree: ObjectId, sharded: frozenset[str]) -> None:
        self._store, self._tree = store, tree
        self._sharded = paths.ALWAYS_SHARDED | sharded
        self._folders: dict[ObjectId, tuple[Tree, dict[str, list[bytes]]]] = {}

    def has(self, path: str) -> bool:
        return self._entry(path) is not None

    def uri(self, path: str) -> Uri | None:
        node = node_of(path, self._entry(path), self._store.read)
        return node.uri if node else None

    def alike(self, path: str) -> list[str]:
        """The files whose paths are equal to this one except for letter case and normal form, including the file
        itself."""
        _, scheme, *names = path.split("/")
        if scheme not in OWNED:
            return []  # an external resource with a different spelling is a different resource
        found: list[tuple[str, ObjectId]] = [("", self._tree)]
        shard = len(names) if scheme in self._sharded else 0
        for depth, name in enumerate(("nodes", scheme, *names)):
            last = depth == len(names) + 1
            level = []
            for prefix, folder in found:
                entries, by_key = self._folder(folder)
                here = list(entries) if shard and depth == shard else by_key.get(_key(raw(name)), [])
                for spelled in here:
                    mode, id = entries[spelled]
                    if (mode == FOLDER) != last:
                        level.append((f"{prefix}{text(spelled)}{'' if last else '/'}", id))
            found = level
        return [name for name, _ in found]

    def _entry(self, path: str) -> ObjectId | None:
        folder = self._tree
        *above, last = path.split("/")
        for name in above:
            found = self._folder(folder)[0].get(raw(name))
            if found is None or found[0] != FOLDER:
                return None
            folder = found[1]
        file = self._folder(folder)[0].get(raw(last))
        return file[1] if file and file[0] != FOLDER else None

    def _folder(self, id: ObjectId) -> tuple[Tree, dict[str, list[bytes]]]:
        known = self._folders.get(id)
        if known is None:
            entries = self._store.tree(id)
            by_key: dict[str, list[bytes]] = {}
            for name in entries:
                by_key.setdefault(_key(name), []).append(name)
            known = self._folders[id] = entries, by_key
        return known


def _key(name: bytes) -> str:
    """A key that is equal for colliding names; escapes are decoded first."""
    if name.isascii() and b"%" not in name:
        return name.decode("ascii").lower()
    try:
        plain = decode_segment(text(name))
    except KgdError:
        plain = name
    return unicodedata.normalize("NFKC", plain.decode("utf-8", "replace")).casefold()

"""Authors of the sides of a conflict, looked up in the history that led to its record."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, islice
from typing import NamedTuple

from kgd.codec import memories
from kgd.codec.documents import read_record
from kgd.codec.paths import conflict_path
from kgd.codec.settings import PATH as SETTINGS
from kgd.codec.settings import decode_settings, plain_settings
from kgd.errors import KgdError
from kgd.git.objects import FOLDER, Commit, ObjectId, text
from kgd.model.conflict import PLACE, TWIN, WHOLE, Conflict, canonical_json
from kgd.model.fields import field_of, plain, split, value_at
from kgd.model.merge import is_of_node
from kgd.model.node import Json, Node
from kgd.model.uri import Uri, is_settings_uri
from kgd.tools import visibility
from kgd.tools.nodes import ConflictField, SideAnswer, disputed, made_at
from kgd.workspace.answers import Entry, OpenConflict
from kgd.workspace.history.history import reverted_by
from kgd.workspace.merging.files import MEMORIES
from kgd.workspace.workspace import Workspace

VERSIONS_READ = 5_000
"""Largest number of commits that are searched for each disputed node, back from the commit that recorded the conflict.
Only a side that no commit wrote to its node reaches it, after a second or two."""
RECORDS_READ = 8
"""Largest number of earlier records of the same dispute that are followed back before the search begins."""
KEPT = 512
"""Largest number of nodes, of files and of folders that are kept while thousands of commits are searched."""
ABSENT, PRESENT = "", "present"
is_digest = re.compile("[0-9a-f]{16}").fullmatch


@dataclass(frozen=True, slots=True)
class _Trace:
    """A value in history: the files to follow, the value's text, and a function that reads this text from a commit."""

    files: tuple[str, ...]
    text: str
    text_in: Callable[[ObjectId], str]

    def is_written_by(self, commit: Commit) -> bool:
        """Whether the commit gave the field this value; a merge never did."""
        if len(commit.parents) > 1 or self.text_in(commit.id) != self.text:
            return False
        return not commit.parents or self.text_in(commit.parents[0]) != self.text


class _Named(NamedTuple):
    """The current and former names of a node, beginning with the name in the record, and the places of these names."""

    uris: tuple[Uri, ...]
    files: tuple[str, ...]
    records: tuple[str, ...]
    """Folders of conflict records."""


class _History:
    """The workspace's history for one answer. What was read last is kept: all sides ask about the same commits."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace, self.past = workspace, workspace.past
        self._files = self.past.nodes()
        keep = lru_cache(maxsize=KEPT)
        self.named, self.records_at = keep(self._named), keep(self._records_at)
        self.node_at, self.bytes_at = keep(self._node_at), keep(self._bytes_at)

    def _named(self, uri: Uri) -> _Named:
        node = None if is_settings_uri(uri) else self.workspace.readable(self.workspace.graph.resolve(uri))
        uris = tuple(dict.fromkeys((uri, *((node.uri, *node.aliases) if node else ()))))
        return _Named(
            uris,
            tuple(dict.fromkeys(file for one in uris for file in self.workspace.history.files_of(one))),
            tuple(conflict_path(one, "", self.workspace.sharded).rpartition("/")[0] for one in uris),
        )

    def _node_at(self, uri: Uri, commit: ObjectId) -> Node | None:
        return self.past.node_at(uri, commit, self._files)

    def _bytes_at(self, file: str, commit: ObjectId) -> bytes | None:
        try:
            blob = self._files.entry(self._files.tree_of(commit), file)
            return self._files.read(blob) if blob else None
        except KgdError:
            return None

    def _records_at(self, folder: str, commit: ObjectId) -> list[tuple[str, Conflict]]:
        """The paths and the readable records of a folder of conflicts."""
        found = self._files.lookup(self._files.tree_of(commit), folder)
        names = self._files.tree(found[1]) if found and found[0] == FOLDER else ()
        records = []
        for path in (f"{folder}/{text(name)}" for name in names if name.endswith(b".yaml")):
            with suppress(KgdError):
                data = self.bytes_at(path, commit)
                records += [(path, read_record(data, path, self.workspace.sharded))] if data else []
        return records


def with_authors(
    workspace: Workspace, found: Sequence[OpenConflict], *, sees: visibility.Sees | None = None
) -> list[dict[str, ConflictField]]:
    """The fields of each conflict, with their sides and, if history has them, the sides' authors.

    Costs one git process for all records, and one for each commit that recorded some of them; each stops at the last
    commit that it looks for.

    Args:
        sees: Predicate for readable nodes, or None if unrestricted. The authors of other nodes are left out.
    """
    answers = [{name: disputed(one.conflict, name) for name in one.conflict.fields} for one in found]
    history = _History(workspace)
    sought: dict[Commit, list[tuple[SideAnswer, _Trace]]] = {}
    try:
        records = _recorded(history, [one.path for one in found], bytes.fromhex(workspace.tip))
        for one, answer in zip(found, answers, strict=True):
            if (commit := records.get(one.path)) is None:
                continue
            for name, field in answer.items():
                for side in field["sides"]:
                    if name in (PLACE, TWIN) and not (sees is None or sees(Uri(str(side["value"])))):
                        continue
                    origin = _first_recorded(history, one, name, canonical_json(side["value"]), commit)
                    sought.setdefault(origin, []).append((side, _trace(history, one, name, side["value"])))
        for origin, sides in sought.items():
            _find_writers(history, origin, sides)
    except KgdError:  # part of the history is missing: show the sides that need it without their authors
        if len(found) > 1:
            return [with_authors(workspace, [one], sees=sees)[0] for one in found]
    return answers


def _recorded(history: _History, paths: Sequence[str], tip: ObjectId) -> dict[str, Commit]:
    """The commits that added conflict records, by the paths of the records."""
    added: dict[str, Commit] = {}
    for one in history.past.walk((tip,), paths) if paths else ():
        added = {change.path: one.commit for change in one.changes} | added
        if len(added) == len(paths):
            break
    return added


def _first_recorded(history: _History, found: OpenConflict, name: str, side: str, commit: Commit) -> Commit:
    """The commit of the first record of this dispute that had the side."""
    for _ in range(RECORDS_READ):
        earlier = _recorded_before(history, found, name, side, commit)
        if earlier is None:
            break
        commit = earlier
    return commit


def _recorded_before(history: _History, found: OpenConflict, name: str, side: str, commit: Commit) -> Commit | None:
    """The commit that added the record from which this record took a side, if there was such a record."""
    folders = history.named(found.uri).records
    for parent in chain(commit.parents, _before_reverted(history, commit)):
        for path, record in chain.from_iterable(history.records_at(folder, parent) for folder in folders):
            if name in record.fields and side in map(canonical_json, record.fields[name].sides):
                return _recorded(history, [path], parent).get(path)
    return None


def _before_reverted(history: _History, commit: Commit) -> Iterator[ObjectId]:
    """The parents of the commits that a commit reverts. Undoing a resolution restores a record that they have."""
    for one in reverted_by(history.past.entry(commit, ())):
        with suppress(KgdError):
            yield from history.past.commit(bytes.fromhex(one.commit)).parents


def _find_writers(history: _History, origin: Commit, sides: list[tuple[SideAnswer, _Trace]]) -> None:
    """Add to each side the commit that gave the node this value, otherwise the commit that put it into the record.

    Stale puts, submissions and reverts write their side only into the record.
    """
    past, merged = history.past, len(origin.parents) > 1
    files = list(dict.fromkeys(file for _, trace in sides for file in trace.files))
    log = past.walk(origin.parents if merged else (origin.id,), files) if files else iter(())
    for one in islice(log, VERSIONS_READ * len({trace.files for _, trace in sides})):
        changed, left = {change.path for change in one.changes}, []
        for side, trace in sides:
            if not changed.isdisjoint(trace.files) and trace.is_written_by(one.commit):
                _sign(side, past.entry(one.commit, ()))  # without its nodes, which may be many
            else:
                left.append((side, trace))
        sides = left
        if not any(trace.files for _, trace in sides):
            break
    for side, _ in sides if not merged else ():
        _sign(side, past.entry(origin, ()))


def _sign(side: SideAnswer, entry: Entry) -> None:
    side["author"], side["commit"], side["at"] = entry.author, entry.commit, made_at(entry)


def _trace(history: _History, found: OpenConflict, name: str, side: Json) -> _Trace:
    if name in (PLACE, TWIN):
        uri = Uri(str(side))
        return _Trace((history.workspace.path(uri),), PRESENT, partial(_presence, history, uri))
    if is_of_node(name) and not is_settings_uri(found.uri):
        named = history.named(found.uri)
        return _Trace(named.files, canonical_json(side), partial(_field_at, history, named.uris, name))
    if (file := _file_of(found, name)) is None:
        return _Trace((), "", lambda commit: ABSENT)
    return _Trace(
        (file,),
        canonical_json(side),
        lambda commit: canonical_json(_value_in(history.bytes_at(file, commit), file, name)),
    )


def _presence(history: _History, uri: Uri, commit: ObjectId) -> str:
    try:
        return PRESENT if history.node_at(uri, commit) else ABSENT
    except KgdError:
        return ABSENT


def _field_at(history: _History, uris: Sequence[Uri], field: str, commit: ObjectId) -> str:
    """The field under the first of the node's names that the commit has."""
    try:
        node = next(filter(None, (history.node_at(uri, commit) for uri in uris)), None)
        return canonical_json((plain(node) if node else None) if field == WHOLE else field_of(node, field))
    except KgdError:
        return ABSENT


def present(workspace: Workspace, found: OpenConflict, name: str) -> Json:
    """The current value of a field: the side in use, or a later write."""
    if name == TWIN:
        return None
    uri = workspace.graph.resolve(found.uri)
    if name == PLACE:
        return uri
    if is_of_node(name) and not is_settings_uri(found.uri):
        try:
            node = workspace.node(uri)
            return (plain(node) if node else None) if name == WHOLE else field_of(node, name)
        except KgdError:
            return None
    file = _file_of(found, name)
    data = _History(workspace).bytes_at(file, bytes.fromhex(workspace.tip)) if file else None
    return _value_in(data, file, name) if file else None


def is_written_since(workspace: Workspace, found: OpenConflict, name: str) -> bool:
    """Whether a field of a node has another value than the side in use, because of a later write."""
    if not is_of_node(name) or is_settings_uri(found.uri):
        return False
    in_use = found.conflict.fields[name].sides[found.conflict.shown[name]]
    return canonical_json(present(workspace, found, name)) != canonical_json(in_use)


def _file_of(found: OpenConflict, name: str) -> str | None:
    """The file of a disputed value that is not in a node; None for a field of a node."""
    if is_settings_uri(found.uri):
        return SETTINGS
    head, *rest = split(name)
    return f"{MEMORIES}/{rest[0]}" if head == MEMORIES and rest else None


def _value_in(data: bytes | None, file: str, name: str) -> Json:
    if data is None:
        return None
    try:
        if file == SETTINGS:
            return value_at(plain_settings(decode_settings(data)), split(name))
        _, _, *rest = split(name)
        if not rest:
            return data.decode("utf-8", "replace")
        memory = memories.decode(data, at=file)
        return memory.prose if rest == ["prose"] else value_at(dict(memory.front), rest)
    except KgdError:
        return None

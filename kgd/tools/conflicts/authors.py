"""Authors of the sides of a conflict, looked up in the history that led to its record."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING

from kgd.codec import memories
from kgd.codec.documents import read_record
from kgd.codec.paths import conflict_path
from kgd.codec.settings import PATH as SETTINGS
from kgd.codec.settings import decode_settings, plain_settings
from kgd.errors import KgdError
from kgd.git.objects import Commit, ObjectId, text
from kgd.model.conflict import PLACE, TWIN, WHOLE, canonical_json
from kgd.model.fields import field_of, plain, split, value_at
from kgd.model.merge import is_of_node
from kgd.model.node import Json
from kgd.model.uri import Uri, is_settings_uri
from kgd.tools import visibility
from kgd.tools.nodes import ConflictField, SideAnswer, disputed, made_at
from kgd.workspace.answers import OpenConflict
from kgd.workspace.merging.files import MEMORIES

if TYPE_CHECKING:
    from kgd.workspace.answers import Entry
    from kgd.workspace.workspace import Workspace

VERSIONS_READ = 5_000
"""Largest number of a node's versions searched for the writers of its sides, back from the commit that recorded the
conflict. Only a side that no commit wrote to the node reaches it, after a second or two."""
RECORDS_READ = 8
"""Largest number of earlier records of the same dispute that are followed back before the search begins."""
ABSENT, PRESENT = "", "present"
is_digest = re.compile("[0-9a-f]{16}").fullmatch


@dataclass(frozen=True, slots=True)
class _Trace:
    """A value in history: the files to follow, the value's text, and a function that reads this text from a commit."""

    files: tuple[str, ...]
    text: str
    text_in: Callable[[str], str]

    def is_written_by(self, commit: Commit) -> bool:
        """Whether the commit gave the field this value; a merge never did."""
        if len(commit.parents) > 1 or self.text_in(commit.id.hex()) != self.text:
            return False
        return not commit.parents or self.text_in(commit.parents[0].hex()) != self.text


def with_authors(
    workspace: Workspace, found: OpenConflict, *, sees: visibility.Sees | None = None
) -> dict[str, ConflictField]:
    """The fields of a conflict, with their sides and, if history has them, the sides' authors.

    Costs a few git processes, each of which stops at the last writer.

    Args:
        sees: Predicate for readable nodes, or None if unrestricted. The authors of other nodes are left out.
    """
    answer = {name: disputed(found, name) for name in found.conflict.fields}
    sought: dict[tuple[Commit, tuple[str, ...]], list[tuple[SideAnswer, _Trace]]] = {}
    try:
        commit = _recorded(workspace, found.path, bytes.fromhex(workspace.tip))
        if commit is None:
            return answer
        for name, field in answer.items():
            for side in field["sides"]:
                if name in (PLACE, TWIN) and not (sees is None or sees(Uri(str(side["value"])))):
                    continue
                trace = _trace(workspace, found, name, side["value"])
                origin = _first_recorded(workspace, found, name, canonical_json(side["value"]), commit)
                sought.setdefault((origin, trace.files), []).append((side, trace))
        for (origin, files), sides in sought.items():
            _find_writers(workspace, origin, files, sides)
    except KgdError:  # part of the history is missing: show the sides without their authors
        pass
    return answer


def _recorded(workspace: Workspace, path: str, tip: ObjectId) -> Commit | None:
    """The commit that added a conflict record."""
    log = workspace.past.log(tip, (path,), limit=1)
    return log[0].commit if log else None


def _first_recorded(workspace: Workspace, found: OpenConflict, name: str, side: str, commit: Commit) -> Commit:
    """The commit of the first record of this dispute that had the side."""
    for _ in range(RECORDS_READ):
        earlier = _recorded_before(workspace, found, name, side, commit)
        if earlier is None:
            break
        commit = earlier
    return commit


def _find_writers(
    workspace: Workspace, origin: Commit, files: tuple[str, ...], sides: list[tuple[SideAnswer, _Trace]]
) -> None:
    """Add to each side the commit that gave the node this value, otherwise the commit that put it into the record.

    Stale puts, submissions and reverts write their side only into the record.
    """
    past, merged = workspace.past, len(origin.parents) > 1
    if files:
        log = past.walk(origin.parents if merged else (origin.id,), files)
        for one in islice(log, VERSIONS_READ):
            written = [pair for pair in sides if pair[1].is_written_by(one.commit)]
            for side, _ in written:
                _sign(side, past.entry(one.commit, ()))  # without its nodes, which may be many
            sides = [pair for pair in sides if pair not in written]
            if not sides:
                break
    for side, _ in sides if not merged else ():
        _sign(side, past.entry(origin, ()))


def _sign(side: SideAnswer, entry: Entry) -> None:
    side["author"], side["commit"], side["at"] = entry.author, entry.commit, made_at(entry)


def _recorded_before(workspace: Workspace, found: OpenConflict, name: str, side: str, commit: Commit) -> Commit | None:
    """The commit that added the record from which this record took a side, if there was such a record."""
    folders = [conflict_path(uri, "", workspace.sharded).rpartition("/")[0] for uri in _names(workspace, found.uri)]
    for parent in commit.parents:
        for path in (path for folder in folders for path in _records_in(workspace, parent, folder)):
            data = _read(workspace, parent.hex(), path)
            try:
                fields = read_record(data, path, workspace.sharded).fields if data else {}
            except KgdError:
                continue
            if name in fields and side in map(canonical_json, fields[name].sides):
                return _recorded(workspace, path, parent)
    return None


def _records_in(workspace: Workspace, commit: ObjectId, folder: str) -> list[str]:
    store = workspace.store
    found = store.entry(store.tree_of(commit), folder)
    return [f"{folder}/{text(name)}" for name in store.tree(found) if name.endswith(b".yaml")] if found else []


def _trace(workspace: Workspace, found: OpenConflict, name: str, side: Json) -> _Trace:
    if name in (PLACE, TWIN):
        uri = Uri(str(side))
        return _Trace((workspace.path(uri),), PRESENT, cache(partial(_presence, workspace, uri)))
    if is_of_node(name) and not is_settings_uri(found.uri):
        uris = _names(workspace, found.uri)
        files = tuple(dict.fromkeys(file for uri in uris for file in workspace.history.files_of(uri)))
        return _Trace(files, canonical_json(side), cache(partial(_field_at, workspace, uris, name)))
    if (file := _file_of(found, name)) is None:
        return _Trace((), "", lambda commit: ABSENT)
    return _Trace(
        (file,),
        canonical_json(side),
        cache(lambda commit: canonical_json(_value_in(_read(workspace, commit, file), file, name))),
    )


def _names(workspace: Workspace, uri: Uri) -> tuple[Uri, ...]:
    """The current and former names of a node, beginning with the name in the record."""
    if is_settings_uri(uri):
        return (uri,)
    node = workspace.readable(workspace.graph.resolve(uri))
    return tuple(dict.fromkeys((uri, *((node.uri, *node.aliases) if node else ()))))


def _presence(workspace: Workspace, uri: Uri, commit: str) -> str:
    try:
        return PRESENT if workspace.node(uri, commit) else ABSENT
    except KgdError:
        return ABSENT


def _field_at(workspace: Workspace, uris: Sequence[Uri], field: str, commit: str) -> str:
    """The field under the first of the node's names that the commit has."""
    try:
        node = next(filter(None, (workspace.node(uri, commit) for uri in uris)), None)
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
    return _value_in(_read(workspace, workspace.tip, file), file, name) if file else None


def _file_of(found: OpenConflict, name: str) -> str | None:
    """The file of a disputed value that is not in a node; None for a field of a node."""
    if is_settings_uri(found.uri):
        return SETTINGS
    head, *rest = split(name)
    return f"{MEMORIES}/{rest[0]}" if head == MEMORIES and rest else None


def _read(workspace: Workspace, commit: str, file: str) -> bytes | None:
    try:
        store = workspace.store
        blob = store.entry(store.tree_of(bytes.fromhex(commit)), file)
        return store.read(blob) if blob else None
    except KgdError:
        return None


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

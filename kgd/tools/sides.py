"""This file is where it is looked up who wrote each side of a conflict, as far as a short look into history tells."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NotRequired

from typing_extensions import TypedDict

from kgd.codec import memories
from kgd.codec.settings import PATH as SETTINGS
from kgd.codec.settings import decode_settings, plain_settings
from kgd.errors import KgdError
from kgd.model.conflict import PLACE, TWIN, WHOLE, canonical_json
from kgd.model.fields import field_of, plain, split, value_at
from kgd.model.merge import is_of_node
from kgd.model.node import Json, Node
from kgd.model.uri import Uri, is_settings_uri
from kgd.resolution.prompts import sides_of
from kgd.tools import sight
from kgd.tools.nodes import Writer, moment
from kgd.workspace.merge_files import MEMORIES
from kgd.workspace.outcome import OpenConflict

if TYPE_CHECKING:
    from kgd.workspace.outcome import Entry
    from kgd.workspace.workspace import Workspace

COMMITS_READ = 30
"""Of a node's history: a side that is older stays without a name."""
ABSENT, PRESENT = "", "present"
is_digest = re.compile("[0-9a-f]{16}").fullmatch


class SideAnswer(TypedDict):
    """One version, with the commit that wrote it where that was found."""

    side: str
    value: Any
    author: NotRequired[str]
    commit: NotRequired[str]
    at: NotRequired[str]


class SidesOfField(TypedDict):
    """`shown` is the side that is served meanwhile."""

    base: Any
    sides: list[SideAnswer]
    shown: str


def with_authors(workspace: Workspace, found: OpenConflict, *, look: bool = True) -> dict[str, SidesOfField]:
    """Each field of the conflict with its sides. One git process, and a few reads for each of the newest commits.

    Args:
        look: Whether history is asked at all.
    """
    answer: dict[str, SidesOfField] = {}
    past = _Past(workspace, found.uri) if look else None
    for name, field in found.conflict.fields.items():
        letters = sides_of(found.conflict, name)
        told = writers(workspace, found, name, past=past) if past else [Writer()] * len(letters)
        sides: list[SideAnswer] = [
            {"side": letter, "value": value, **by} for (letter, value), by in zip(letters.items(), told, strict=False)
        ]
        shown = found.conflict.shown.get(name, 0)
        answer[name] = {"base": field.base, "sides": sides, "shown": list(letters)[shown]}
    return answer


def writers(
    workspace: Workspace, found: OpenConflict, name: str, sees: sight.Sees | None = None, past: _Past | None = None
) -> list[Writer]:
    """Who wrote each side of a field, in the order of the sides.

    Args:
        sees: What the caller may read of; another node's history is not told otherwise.
    """
    sides = found.conflict.fields[name].sides
    if name in (PLACE, TWIN):
        named = [Uri(str(side)) for side in sides]
        return [_writer(_Past(workspace, uri).maker()) if sees is None or sees(uri) else Writer() for uri in named]
    if is_of_node(name) and not is_settings_uri(found.uri):
        past = past or _Past(workspace, found.uri)
        return [_writer(past.writer_of(name, side)) for side in sides]
    file = _file_of(found, name)
    if file is None:
        return [Writer()] * len(sides)
    log = workspace.past.log(bytes.fromhex(workspace.tip), (file,), limit=COMMITS_READ)
    entries = [workspace.past.entry(one.commit, one.changes) for one in log]
    return [_writer(_first(entries, canonical_json(side), _reader(workspace, file, name))) for side in sides]


def present(workspace: Workspace, found: OpenConflict, name: str) -> Json:
    """What counts for a field at this moment: the side that is shown, or what somebody wrote since."""
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
    """The file that a disputed value is in, where it is no node's."""
    if is_settings_uri(found.uri):
        return SETTINGS
    head, *rest = split(name)
    return f"{MEMORIES}/{rest[0]}" if head == MEMORIES and rest else None


def _reader(workspace: Workspace, file: str, name: str) -> Callable[[str], str]:
    known: dict[str, str] = {}

    def value(commit: str) -> str:
        if commit not in known:
            known[commit] = canonical_json(_value_in(_read(workspace, commit, file), file, name))
        return known[commit]

    return value


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


def _first(entries: Sequence[Entry], wanted: str, value: Callable[[str], str]) -> Entry | None:
    """The newest commit with one parent that made this the value."""
    for entry in entries:
        if len(entry.parents) == 1 and value(entry.commit) == wanted and value(entry.parents[0]) != wanted:
            return entry
    return None


def _writer(entry: Entry | None) -> Writer:
    return {"author": entry.author, "commit": entry.commit, "at": moment(entry.at)} if entry else {}


class _Past:
    """The node at each of its newest commits and at their parents, read once."""

    def __init__(self, workspace: Workspace, uri: Uri) -> None:
        self._workspace, self._uri = workspace, uri
        self._nodes: dict[str, Node | None] = {}
        try:
            self._entries = workspace.history.entries(uri=uri, limit=COMMITS_READ)
        except KgdError:
            self._entries = ()

    def writer_of(self, field: str, value: Json) -> Entry | None:
        """The newest commit with one parent that gave the field this value."""
        return _first(self._entries, canonical_json(value), lambda commit: self._value(commit, field))

    def maker(self) -> Entry | None:
        """The newest commit with one parent by which there was such a node."""
        return _first(self._entries, PRESENT, lambda commit: PRESENT if self._node(commit) else ABSENT)

    def _node(self, commit: str) -> Node | None:
        if commit not in self._nodes:
            try:
                self._nodes[commit] = self._workspace.node(self._uri, commit)
            except KgdError:
                self._nodes[commit] = None
        return self._nodes[commit]

    def _value(self, commit: str, field: str) -> str:
        node = self._node(commit)
        try:
            value = (plain(node) if node else None) if field == WHOLE else field_of(node, field)
        except KgdError:
            return ABSENT
        return canonical_json(value)

"""The `conflicts` tool: a list of open conflicts, or one conflict in full, open or settled, with the authors of its
sides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, islice
from typing import Annotated, NamedTuple, NotRequired
from urllib.parse import urlsplit

from pydantic import Field
from typing_extensions import TypedDict

from kgd.codec import front_matter
from kgd.codec.documents import read_record
from kgd.codec.paths import conflict_path
from kgd.codec.settings import PATH as SETTINGS
from kgd.codec.settings import decode_settings, plain_settings
from kgd.errors import KgdError, NotFound
from kgd.git.objects import FOLDER, Commit, ObjectId, text
from kgd.model.access import Verb
from kgd.model.conflict import PLACE, TWIN, WHOLE, Conflict, canonical_json
from kgd.model.fields import field_of, plain, split, value_at
from kgd.model.merge import is_of_node
from kgd.model.node import Json
from kgd.model.uri import Uri, is_settings_uri, parse_subject, settings_uri
from kgd.tools import addressing, nodes, paging, visibility
from kgd.tools.model_decisions import PROVIDER, Resolved, askable
from kgd.tools.nodes import ConflictAnswer, ConflictField, SideAnswer, disputed, made_at
from kgd.tools.operation import CURSOR, LIMIT, Command, Hints, Operation, Reflects, option
from kgd.tools.parameters import WorkspaceParams
from kgd.tools.session import Session
from kgd.tools.suggestions import suggestions
from kgd.tools.suggestions.suggestions import SuggestionAnswer
from kgd.workspace.answers import Entry, OpenConflict
from kgd.workspace.history.history import reverted_by
from kgd.workspace.merging.files import MEMORIES
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.edits import LIST_CONFLICTS


class ConflictsParams(WorkspaceParams):
    uri: str | None = None
    id: Annotated[str | None, Field(description="only this one, with the authors of its sides; or its resolution")] = (
        None
    )
    suggestions: bool = False
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    cursor: str | None = None


class ModelAnswer(TypedDict):
    """The model at `host` that `resolve_conflicts` asks with ``via="provider"``, and any reason not to ask it."""

    name: str
    at: str
    why_not: NotRequired[str]


class NamedConflict(ConflictAnswer):
    """A conflict with the name of its node."""

    name: str


class ConflictsResult(TypedDict):
    """`settled` is set if the requested `id` is no longer open; `conflicts` then lists the open ones of its node."""

    workspace: str
    total: int
    conflicts: list[NamedConflict]
    suggestions: NotRequired[list[SuggestionAnswer]]
    settled: NotRequired[Resolved]
    model: NotRequired[ModelAnswer]
    cursor: NotRequired[str]


def conflicts(session: Session, params: ConflictsParams) -> ConflictsResult:
    """List open conflicts with both sides of each field, or return the conflict with the given `id`.

    Raises:
        NotFound: The node or conflict does not exist, or the caller may not read it.
        KgdError: The address is wrong, or the cursor belongs to another call.
    """
    about = params.uri or (params.id or "").rpartition("#")[0]
    workspace = addressing.choose(session, params.workspace, [about] if about else [])
    if params.id is not None:
        return _one(session, workspace, params.id)
    uri = subject_of(session, workspace, params.uri) if params.uri else None
    after = str(paging.read("conflicts", uri, params.cursor)[0]) if params.cursor else ""
    sees = session.sight(workspace.id)
    found = workspace.conflicts.find(uri, limit=params.limit + 1, after=after, about=sees)
    if uri is not None and not found:
        check_subject(workspace, uri, sees)
    answer: ConflictsResult = {
        "workspace": workspace.id,
        "total": workspace.conflicts.count(uri, about=sees),
        "conflicts": _with_authors(workspace, found[: params.limit], sees),
    }
    if params.suggestions:
        answer["suggestions"] = suggestions.listed(session, workspace)
    if len(found) > params.limit:
        answer["cursor"] = paging.write("conflicts", uri, [found[params.limit - 1].path])
    return answer


def check_subject(workspace: Workspace, uri: Uri, sees: visibility.Sees | None) -> None:
    """Raise NotFound unless there is a node at the URI that the caller may read; it may have moved to a hidden URI."""
    here = workspace.graph.resolve(uri)
    if not (is_settings_uri(uri) or ((sees is None or sees(here)) and workspace.exists(here))):
        raise addressing.missing_node(workspace, uri, sees)


def subject_of(session: Session, workspace: Workspace, text: str, *, at: str = "uri") -> Uri:
    """The subject of a conflict: a node in any spelling, or this workspace's settings. Raises as `resolve` does."""
    return Uri(text) if text == settings_uri(workspace.id) else addressing.resolve(session, workspace, text, at=at)


def _one(session: Session, workspace: Workspace, id: str) -> ConflictsResult:
    """One conflict with the author of each side, or the settlement of a conflict that is no longer open.

    Raises:
        NotFound: There never was such a conflict, or the caller may not read its node.
    """
    subject, _, digest = id.rpartition("#")
    if not subject or not is_digest(digest):
        raise _none(id)
    uri, sees = parse_subject(subject), session.sight(workspace.id)
    answer: ConflictsResult = {"workspace": workspace.id, "total": 0, "conflicts": []}
    if sees is not None and not sees(uri):
        raise _none(id)
    found = workspace.conflicts.find(uri, digest=digest, limit=1, about=sees)
    if found:
        answer |= {"total": 1, "conflicts": [_whole(workspace, found[0], sees)]}
        answer |= paging.present(model=_model(session, workspace, found[0]))
        return answer
    settled = settled_before(workspace, id)
    if settled is None:
        raise _none(id)
    answer["settled"] = settled
    here = workspace.graph.resolve(uri)
    if sees is None or sees(here):
        answer["conflicts"] = [_named(workspace, one) for one in workspace.conflicts.find(here, limit=20, about=sees)]
        answer["total"] = len(answer["conflicts"])
    return answer


def _none(id: str) -> NotFound:
    return NotFound("there is no such conflict", at=id[-80:], next=LIST_CONFLICTS)


def _whole(workspace: Workspace, found: OpenConflict, sees: visibility.Sees | None) -> NamedConflict:
    (answer,) = _with_authors(workspace, [found], sees)
    if _is_seen(workspace, found, sees):
        for name, field in answer["fields"].items():
            field["now"] = _value_now(workspace, found, name)
    return answer


def _is_seen(workspace: Workspace, found: OpenConflict, sees: visibility.Sees | None) -> bool:
    """Whether the caller may read the node, which may have moved to a hidden URI since."""
    return sees is None or sees(workspace.graph.resolve(found.uri))


def _with_authors(
    workspace: Workspace, found: Sequence[OpenConflict], sees: visibility.Sees | None
) -> list[NamedConflict]:
    fields = with_authors(workspace, found, sees=sees)
    for one, named in zip(found, fields, strict=True):
        for name, field in named.items():
            if _is_seen(workspace, one, sees) and _is_written_since(workspace, one, name):
                field["shown"] = ""
    return [{**_named(workspace, one), "fields": named} for one, named in zip(found, fields, strict=True)]


def _named(workspace: Workspace, one: OpenConflict) -> NamedConflict:
    return {**nodes.conflict(one), "name": nodes.title_of(workspace, one.uri)}


def _model(session: Session, workspace: Workspace, found: OpenConflict) -> ModelAnswer | None:
    """The model of the user's settings, with any reason not to ask it; None if the settings have no model."""
    settings = session.daemon.registry.current().settings
    if not settings.resolver_url or not settings.resolver_model:
        return None
    answer: ModelAnswer = {"name": settings.resolver_model, "at": urlsplit(settings.resolver_url).netloc}
    _, left = askable(workspace, [found])
    why_not = left.get(found.id) or session.daemon.attempts.why_not(found.conflict.digest, PROVIDER)
    answer |= paging.present(why_not=why_not)
    return answer


def settled_before(workspace: Workspace, id: str) -> Resolved | None:
    """The settlement of a conflict that is no longer open; None if no conflict of that id was ever settled."""
    entry = settled_in(workspace, id)
    if entry is None:
        return None
    return {
        "id": id,
        "uri": id.rpartition("#")[0],
        "already": True,
        "commit": entry.commit,
        "author": entry.author,
        "at": nodes.moment(entry.at),
    }


def settled_in(workspace: Workspace, id: str) -> Entry | None:
    """The commit that settled a conflict, or moved it with its node to another URI; None if there is no such commit."""
    uri, _, digest = id.rpartition("#")
    if not uri or not is_digest(digest):
        return None
    try:
        record = conflict_path(parse_subject(uri), digest, workspace.sharded)
    except KgdError:
        return None
    return workspace.past.removal_of(record, bytes.fromhex(workspace.tip))


CONFLICTS = Operation(
    name="conflicts",
    page="the page Conflicts",
    title="Open conflicts",
    description="Conflicting values from two people: each side with its letter, author and commit.",
    hints=Hints(read_only=True, idempotent=True),
    run=conflicts,
    scope=Verb.READ,
    reflects=Reflects.NOW,
    commands=(
        Command(
            "Care",
            "list the open conflicts, with both sides",
            (
                option("uri", "only conflicts of this node", "URI", nargs="?"),
                option("--suggestions", "list suggestions too: new nodes, duplicates, relations and weights"),
                LIMIT,
                CURSOR,
            ),
            place=100,
            examples=(("kgd conflicts services/auth", "the sides of the conflicts of one node"),),
            print="printing_history.conflicts",
        ),
    ),
)


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
        self.node_at, self.bytes_at = keep(partial(self.past.node_at, nodes=self._files)), keep(self._bytes_at)

    def _named(self, uri: Uri) -> _Named:
        node = None if is_settings_uri(uri) else self.workspace.readable(self.workspace.graph.resolve(uri))
        uris = tuple(dict.fromkeys((uri, *((node.uri, *node.aliases) if node else ()))))
        return _Named(
            uris,
            tuple(dict.fromkeys(file for one in uris for file in self.workspace.history.files_of(one))),
            tuple(conflict_path(one, "", self.workspace.sharded).rpartition("/")[0] for one in uris),
        )

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


def _value_now(workspace: Workspace, found: OpenConflict, name: str) -> Json:
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


def _is_written_since(workspace: Workspace, found: OpenConflict, name: str) -> bool:
    """Whether a field of a node has another value than the side in use, because of a later write."""
    if not is_of_node(name) or is_settings_uri(found.uri):
        return False
    in_use = found.conflict.fields[name].sides[found.conflict.shown[name]]
    return canonical_json(_value_now(workspace, found, name)) != canonical_json(in_use)


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
        memory = front_matter.decode(data, at=file)
        return memory.prose if rest == ["prose"] else value_at(dict(memory.front), rest)
    except KgdError:
        return None

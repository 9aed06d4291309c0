"""The `code_file` tool: the text of a file of the code tree, with the knowledge about its lines.

The user of this machine sees the work tree. The holder of a token sees the checked-out commit, and only if the policy
shows the history of the code to them: other lines of the work tree are not shared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.errors import Advice, Do, Invalid, NotFound
from kgd.freshness.code import spans_of
from kgd.freshness.freshness import Freshness
from kgd.git import code_log
from kgd.git.discovery import Place, find_place
from kgd.graph.succession import Chains
from kgd.memories.tasks import TERMINAL, status_of
from kgd.model.access import Verb
from kgd.model.escaping import printable
from kgd.model.node import Node
from kgd.model.uri import CODE_TREE, Uri, from_path, name_of, path_of, scheme_of, uri_at
from kgd.tools import addressing, file_paths
from kgd.tools.code_facts import TaskFiles
from kgd.tools.context.past import history_of, is_served
from kgd.tools.file_paths import above
from kgd.tools.nodes import Brief, LastChange, Standing, catch_up, moment, overlay_of, title_of, updated
from kgd.tools.operation import ADDRESS, Hints, Operation, Reflects
from kgd.tools.origins import mark
from kgd.tools.paging import present
from kgd.tools.parameters import WorkspaceParams
from kgd.tools.session import Session
from kgd.tools.visibility import Sees
from kgd.workspace.workspace import Workspace

NOTES = 100
PLACES = 20
"""Largest number of places that one node cites in one file."""
SYMBOLS = 300
READ_WITHIN = 2.0
"""Seconds to wait for the symbols of a new file; the text alone is useful too."""

State = Literal["text", "binary", "large", "link", "absent", "unreadable", "ignored", "deleted", "withheld"]


class CodeParams(WorkspaceParams):
    uri: Annotated[str, Field(description=f"a file of the code tree: {ADDRESS}")]
    first: Annotated[int, Field(ge=1, description="number of the first line")] = 1
    limit: Annotated[int, Field(ge=0, le=10_000, description="number of lines; 0: only the nodes about the file")] = 500


class CodeCommitAnswer(TypedDict):
    commit: str
    at: str
    what: str


class PlaceAnswer(TypedDict):
    """A definition that a node cites, with its lines if the text is shown and contains the definition."""

    symbol: str
    first: NotRequired[int]
    last: NotRequired[int]


class NoteAnswer(Brief, Standing):
    """A node about the file: it cites the file, is related to it or to a folder above it, or is an open task that lists
    the file under Context Files. Without `places` it is about the whole file."""

    why: str
    places: list[PlaceAnswer]
    updated: NotRequired[LastChange]


class SymbolAnswer(TypedDict):
    uri: str
    name: str
    kind: str
    first: int
    last: int


class CodeResult(TypedDict):
    """`text` starts at line `first`; the file has `lines` lines. `commit` is the checked-out commit; with `changed`,
    the text differs from it. `notes` are the facts about the file.

    `state` is ``withheld`` if the policy does not show the code to the caller. A ``deleted`` file has the text of its
    last version; `commit` deleted it, or is still to come. A ``link`` has its target as text.
    """

    workspace: str
    uri: str
    path: str
    state: State
    commit: NotRequired[CodeCommitAnswer]
    changed: NotRequired[bool]
    size: NotRequired[int]
    lines: NotRequired[int]
    first: NotRequired[int]
    text: NotRequired[str]
    notes: list[NoteAnswer]
    more_notes: NotRequired[int]
    symbols: NotRequired[list[SymbolAnswer]]
    more_symbols: NotRequired[int]


@dataclass(frozen=True, slots=True)
class _Shown:
    """A version of a file. `commit` is the checked-out commit or, for a deleted file, the commit that deleted it."""

    state: State
    data: bytes = b""
    size: int = 0
    commit: str = ""
    changed: bool = False

    @property
    def text(self) -> str | None:
        if self.state not in ("text", "link", "deleted"):
            return None
        return self.data.decode("utf-8", "replace").replace("\r\n", "\n").removesuffix("\n")


def code_text(session: Session, params: CodeParams) -> CodeResult:
    """A part of the file's text, and the nodes about the file; nodes about its lines come first, in their order.

    Costs one reading of the file and a run of git for each version that is compared. Without lines, the file's
    definitions are not read: facts about them are left out, and `places` have no lines.

    Raises:
        Invalid: This is not a file of the code tree.
        NotFound: The caller may not read it.
    """
    workspace = addressing.choose(session, params.workspace, [params.uri])
    uri = addressing.resolve(session, workspace, params.uri)
    if scheme_of(uri) != "file":
        raise Invalid("this is not a file of the code tree", at="uri", next="Give a path, such as ./src/main.py.")
    sees = session.sight(workspace.id)
    if sees is not None and not sees(uri):
        raise NotFound("there is no such file", at=uri, next=Advice("Find it with ", Do("search"), "."))
    path, root = path_of(uri), workspace.layout.code_tree
    place = find_place(root) if root is not None else None
    shown = _shown(session, workspace, place, path)
    answer: CodeResult = {
        "workspace": workspace.id,
        "uri": uri,
        "path": printable(path),
        "state": shown.state,
        "notes": [],
    }
    if place is not None and shown.commit:
        at, told = code_log.message(place, shown.commit)
        subject = " ".join(told.strip().partition("\n\n")[0].splitlines())
        answer["commit"] = {"commit": shown.commit[:12], "at": moment(at), "what": subject}
    answer |= present(changed=shown.changed, size=shown.size)
    text = shown.text if params.limit else None
    if text is not None:
        lines = text.split("\n") if text else []
        answer["lines"], answer["first"] = len(lines), params.first
        answer["text"] = printable("\n".join(lines[params.first - 1 : params.first - 1 + params.limit]))
    if text is not None and session.principal is None:
        catch_up(workspace, path, READ_WITHIN)
    symbols = _symbols(workspace, path) if text is not None else []
    others = [(one.path, f" {one.label}") for one in file_paths.other_paths(session, workspace, [path]).get(path, ())]
    about = [_about(workspace, one, label, symbols) for one, label in ((path, ""), *others)]
    about.append(_around(workspace, path))
    _add_notes(answer, workspace, path, text, _with_successors(workspace, chain.from_iterable(about), sees), sees)
    if text is not None and shown.state == "text" and session.principal is None:
        answer["symbols"] = [_symbol(one) for one in symbols[:SYMBOLS]]
        answer |= present(more_symbols=max(0, len(symbols) - SYMBOLS))
    return answer


# ---- the text


def _shown(session: Session, workspace: Workspace, place: Place | None, path: str) -> _Shown:
    if not session.sees_code_history(workspace):
        return _Shown("withheld")
    root = workspace.layout.code_tree
    tip = code_log.head(place) if place is not None else ""
    committed = code_log.in_commit(place, tip, path) if place is not None and tip else code_log.Content("absent")
    if session.principal is not None or root is None:
        found, changed = committed, False
    else:
        found = code_log.in_work_tree(root, path)
        if found.state != "absent" and not is_served(workspace, path):
            return _Shown("ignored")
        changed = bool(tip) and _even(found.data) != _even(committed.data)
    if found.state == "absent":
        return _deleted(session, workspace, place, path, committed)
    kept = found.data if found.state in ("text", "link") else b""
    return _Shown(found.state, kept, found.size, tip, changed)


def _deleted(
    session: Session, workspace: Workspace, place: Place | None, path: str, committed: code_log.Content
) -> _Shown:
    """The last version of a file that is not in the work tree."""
    history = history_of(session, workspace)
    if committed.state == "text":
        return _Shown("deleted", committed.data, committed.size, changed=True)
    for gone in history.lately([path], 1) if history is not None and place is not None else ():
        assert place is not None
        last = code_log.in_commit(place, f"{gone.id}^", path)
        if last.state == "text":
            return _Shown("deleted", last.data, last.size, gone.id)
    return _Shown("absent")


def _even(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n")


# ---- the knowledge


def _add_notes(
    answer: CodeResult,
    workspace: Workspace,
    path: str,
    text: str | None,
    about: Iterable[tuple[Uri, str, list[str]]],
    sees: Sees | None,
) -> None:
    found: dict[Uri, NoteAnswer] = {}
    more = set[Uri]()
    for uri, why, cited in about:
        if scheme_of(uri) in CODE_TREE or (sees is not None and not sees(uri)):
            continue
        if uri not in found and len(found) == NOTES:
            more.add(uri)
            continue
        card = workspace.graph.card(uri)
        if card is None:
            continue
        note = found.setdefault(
            uri, {"uri": uri, "type": card.type, "name": card.name or name_of(uri), "why": why, "places": []}
        )
        note |= present(summary=card.summary)
        known = {one["symbol"] for one in note["places"]}
        new: list[PlaceAnswer] = [{"symbol": one} for one in cited if one not in known]
        note["places"] += new[: PLACES - len(known)]
    places = [place for note in found.values() for place in note["places"]]
    spans = spans_of(text, {one["symbol"] for one in places}, path) if text and places else {}
    for one in places:
        if span := spans.get(one["symbol"]):
            one["first"], one["last"] = span[0] + 1, span[1]
    for uri, note in found.items():
        note["places"].sort(key=lambda one: one.get("first", 0))
        if version := workspace.node_version(uri):
            note["updated"] = updated(version)
    answer["notes"] = sorted(found.values(), key=_in_order)
    mark(workspace, answer["notes"], sees)
    answer |= present(more_notes=len(more))


def _with_successors(
    workspace: Workspace, about: Iterable[tuple[Uri, str, list[str]]], sees: Sees | None
) -> Iterator[tuple[Uri, str, list[str]]]:
    """These nodes; after each superseded node comes its last successor, with the same citations."""
    chains = Chains(workspace.graph, sees)
    for uri, why, cited in about:
        yield uri, why, cited
        if last := chains.newest(uri):
            yield last, f"supersedes {title_of(workspace, uri)}", cited


def _about(
    workspace: Workspace, path: str, label: str, symbols: Sequence[Node]
) -> Iterator[tuple[Uri, str, list[str]]]:
    """Yield the nodes that cite a path of the file, then those related to it or its definitions, each with the reason,
    which ends with `label`, and the cited definitions. A node may be repeated."""
    freshness = Freshness.of(workspace)
    for uri in freshness.citing(path):
        if cited := [one.symbol for one in freshness.citations(uri) if one.path == path]:
            yield uri, f"cites{label}", [*filter(None, cited)]
    at: list[tuple[Uri | None, list[str]]] = [(uri_at("file", workspace.id, path), [])]
    at += [(file_paths.symbol_in(workspace, path, symbol.uri), [name_of(symbol.uri)]) for symbol in symbols]
    for target, named in at:
        for edge in workspace.graph.into(target) if target else ():
            yield edge.target, f"{edge.type}{label}", named


def _around(workspace: Workspace, path: str) -> Iterator[tuple[Uri, str, list[str]]]:
    """Yield the nodes related to the folders above the file, except the top, then the open tasks that list the file."""
    for folder in filter(None, above(path)):
        for edge in workspace.graph.into(from_path("dir", workspace.id, folder)):
            yield edge.target, f"{edge.type} {folder}/", []
    for uri in TaskFiles.of(workspace).listing([path]).get(path, ()):
        if (node := workspace.readable(uri)) and status_of(node) not in TERMINAL:
            yield uri, "lists the file under Context Files", []


def _in_order(note: NoteAnswer) -> tuple[int, str]:
    lines = [one["first"] for one in note["places"] if "first" in one]
    return (min(lines) if lines else code_log.LARGEST, note["uri"])


def _symbols(workspace: Workspace, path: str) -> list[Node]:
    """The definitions of the file in the work tree, by line."""
    overlay = overlay_of(workspace)
    if overlay is None or overlay.inside is None:
        return []
    return [one for one in overlay.inside.nodes(path) if scheme_of(one.uri) == "symbol"]


def _symbol(one: Node) -> SymbolAnswer:
    first, last = one.data.get("line"), one.data.get("end_line")
    first = first if isinstance(first, int) else 1
    return {
        "uri": one.uri,
        "name": name_of(one.uri),
        "kind": str(one.data.get("kind", "")),
        "first": first,
        "last": last if isinstance(last, int) else first,
    }


CODE_FILE = Operation(
    name="code_file",
    title="Code of a file",
    description="Lines of a file of the code tree, and the nodes that cite them or are about the file.",
    hints=Hints(read_only=True, idempotent=True),
    run=code_text,
    reflects=Reflects.WORKSPACE | Reflects.NOW,
    forwards=True,
    scope=Verb.READ,
)

"""The `area_facts` tool: the facts about an area and its files, and their authors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.areas.atlas import ATOM, MOLECULE, Atlas
from kgd.errors import Advice, Do, Forbidden
from kgd.freshness.freshness import Freshness
from kgd.model.change import Author
from kgd.model.uri import CODE_TREE, Uri, name_of, scheme_of, uri_at
from kgd.overlay.facts import readable
from kgd.tools import addressing, paging
from kgd.tools.areas import ids
from kgd.tools.nodes import Stamp, UnverifiedAnswer, moment, overlay_of, stamp
from kgd.tools.operation import Hints, Operation
from kgd.tools.origins import marks
from kgd.tools.parameters import Params

if TYPE_CHECKING:
    from kgd.tools.session import Session
    from kgd.workspace.answers import Version
    from kgd.workspace.workspace import Workspace

FILES = 10_000
"""Largest number of files of one area whose facts are looked up."""
FACTS = 2_000
"""Largest number of facts that are dated and attributed."""
NAMED = 3
"""Largest number of files named per fact."""
AUTHORS = 10


class AreaFactsParams(Params):
    area: Annotated[str, Field(description="an atom")]
    limit: Annotated[int, Field(ge=1, le=200)] = 30
    cursor: str | None = None
    workspace: str | None = None


class FactAnswer(TypedDict):
    """A node that cites files of the area, or is related to them or to the area itself."""

    uri: str
    type: str
    name: str
    summary: NotRequired[str]
    files: list[str]
    more_files: NotRequired[int]
    updated: NotRequired[Stamp]
    unverified: NotRequired[UnverifiedAnswer]


class AuthorAnswer(TypedDict):
    """An author, with the number of facts whose newest version they wrote, and the time of the last one."""

    name: str
    facts: int
    last: str


class AreaFactsResult(TypedDict):
    """The facts, stale ones first, then the newest. `stale` counts stale facts, `known_files` the files with a fact.

    `more_files` counts the files that were not examined, `more_facts` the facts without date and author.
    """

    workspace: str
    area: str
    facts: list[FactAnswer]
    total: int
    stale: int
    files: int
    known_files: int
    authors: list[AuthorAnswer]
    more_files: NotRequired[int]
    more_facts: NotRequired[int]
    cursor: NotRequired[str]


@dataclass(slots=True)
class _Facts:
    """The facts by URI, each with its files; `known` are the files that have one."""

    paths: dict[Uri, list[str]] = field(default_factory=dict)
    known: int = 0


def area_facts(session: Session, params: AreaFactsParams) -> AreaFactsResult:
    """The facts about an area. Takes time in proportion to its files and facts.

    Raises:
        Forbidden: The caller holds a token; the answer would reveal names of files.
        NotFound: There is no such area.
    """
    if session.principal is not None:
        raise Forbidden(
            "only the machine with the code tree can list the facts about its files",
            next=Advice("Look for facts with ", Do("context"), "."),
        )
    workspace = addressing.choose(session, params.workspace, [params.area])
    area = ids.area(session, workspace, "atom", params.area, at="area")
    start = paging.index(paging.read("area_facts", area, params.cursor), 0) if params.cursor else 0
    paths, total = _files(workspace, area)
    found = _found(workspace, area, paths)
    uris = list(islice(found.paths, FACTS))
    versions = {uri: version for uri in uris if (version := workspace.node_version(uri))}
    doubts = marks(workspace, uris)
    uris.sort(key=lambda uri: (uri not in doubts, -versions[uri].updated_at if uri in versions else 0, uri))
    answer: AreaFactsResult = {
        "workspace": workspace.id,
        "area": area,
        "facts": [_fact(workspace, uri, found, versions.get(uri)) for uri in uris[start : start + params.limit]],
        "total": len(found.paths),
        "stale": len(doubts),
        "files": total,
        "known_files": found.known,
        "authors": _authors(versions.values()),
    }
    for one in answer["facts"]:
        if doubt := doubts.get(Uri(one["uri"])):
            one["unverified"] = doubt
    if total > len(paths):
        answer["more_files"] = total - len(paths)
    if len(found.paths) > FACTS:
        answer["more_facts"] = len(found.paths) - FACTS
    if start + params.limit < len(uris):
        answer["cursor"] = paging.write("area_facts", area, [start + params.limit])
    return answer


def facts_of(workspace: Workspace, path: str) -> list[Uri]:
    """The nodes that cite a file or are related to it, without areas and nodes of the code tree. Costs two look-ups."""
    uri = uri_at("file", workspace.id, path)
    related = [edge.target for edge in workspace.graph.into(uri)] if uri is not None else []
    return [one for one in dict.fromkeys([*Freshness.of(workspace).citing(path), *related]) if _is_fact(one)]


def _files(workspace: Workspace, area: Uri) -> tuple[Sequence[str], int]:
    """The first files of an area, and the number of all; none before the code tree has been read."""
    overlay = overlay_of(workspace)
    top = overlay.view.root if overlay is not None else None
    if top is None:
        return (), 0
    with Atlas.of(workspace).coverage(top) as known:
        return known.files_of(area, 0, FILES), known.top.files_of(area)


def _found(workspace: Workspace, area: Uri, paths: Iterable[str]) -> _Facts:
    """The facts related to the area itself, then those about its files."""
    found = _Facts({edge.target: [] for edge in workspace.graph.into(area) if _is_fact(edge.target)})
    for path in paths:
        mine = facts_of(workspace, path)
        found.known += bool(mine)
        for uri in mine:
            found.paths.setdefault(uri, []).append(path)
    return found


def _is_fact(uri: Uri) -> bool:
    return scheme_of(uri) not in (ATOM, MOLECULE, *CODE_TREE)


def _fact(workspace: Workspace, uri: Uri, found: _Facts, version: Version | None) -> FactAnswer:
    card, paths = workspace.graph.card(uri), found.paths[uri]
    answer: FactAnswer = {
        "uri": uri,
        "type": card.type if card else "",
        "name": (card.name if card else "") or name_of(uri),
        "files": [readable(path) for path in paths[:NAMED]],
    }
    if card is not None and card.summary:
        answer["summary"] = card.summary
    if len(paths) > NAMED:
        answer["more_files"] = len(paths) - NAMED
    if version is not None:
        answer["updated"] = stamp(version.updated_at, version.updated_by)
    return answer


def _authors(versions: Iterable[Version]) -> list[AuthorAnswer]:
    """The authors of the facts as they are now, without their programs; most facts first."""
    count: dict[str, int] = {}
    last: dict[str, int] = {}
    for one in versions:
        name = Author.of(one.updated_by).name
        count[name] = count.get(name, 0) + 1
        last[name] = max(last.get(name, 0), one.updated_at)
    ordered = sorted(count, key=lambda name: (-count[name], -last[name], name))[:AUTHORS]
    return [{"name": name, "facts": count[name], "last": moment(last[name])} for name in ordered]


AREA_FACTS = Operation(
    name="area_facts",
    title="Facts of an area",
    description="Facts about an area of the code and its files, stale ones first, and who wrote them.",
    Params=AreaFactsParams,
    Result=AreaFactsResult,
    hints=Hints(read_only=True, idempotent=True),
    run=area_facts,
)

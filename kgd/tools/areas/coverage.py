"""The tools `coverage` and `area_facts`: the share of the code that areas cover, and the facts about an area."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.areas.atlas import ATOM, MOLECULE, STEPS, Atlas
from kgd.areas.coverage import Coverage, Tally
from kgd.errors import Advice, Do, Invalid, Limit, NotFound
from kgd.freshness.freshness import Freshness
from kgd.model.change import Author
from kgd.model.uri import CODE_TREE, Uri, from_path, path_of, scheme_of, uri_at
from kgd.overlay.facts import readable
from kgd.tools import addressing, code_facts, file_paths, paging
from kgd.tools.areas import ids
from kgd.tools.code_facts import TaskFiles
from kgd.tools.nodes import (
    Brief,
    LastChange,
    Standing,
    brief,
    moment,
    overlay_of,
    title_of,
    updated,
)
from kgd.tools.operation import CURSOR, LIMIT, Command, Hints, Operation, option
from kgd.tools.origins import mark_superseded, marks
from kgd.tools.parameters import Paged
from kgd.tools.session import Session
from kgd.workspace.answers import Version
from kgd.workspace.workspace import Workspace

NAMED = 3
"""Largest number of areas named per folder or file, beginning with the areas with the most files."""
OVERLAPS = 20
MOVED = 20

FILES = 10_000
"""Largest number of files of one area whose facts are looked up."""
FACTS = 2_000
"""Largest number of facts that are dated and attributed."""
NAMED_FILES = 3
"""Largest number of files named per fact."""
AUTHORS = 10


class CoverageParams(Paged):
    path: Annotated[str, Field(description="a folder of the code tree; default: its top")] = ""
    area: Annotated[str | None, Field(description="instead: the files of this atom")] = None
    order: Annotated[
        Literal["name", "gaps", "covered"],
        Field(description="gaps: lowest coverage first; covered: entries with an area first"),
    ] = "name"
    limit: Annotated[int, Field(ge=1, le=500)] = 50


class AreaShare(TypedDict):
    """An area, and its number of files in this answer's scope."""

    uri: str
    name: str
    files: int


class Shares(TypedDict):
    """The areas with the most files, and the number of the others."""

    areas: list[AreaShare]
    more_areas: NotRequired[int]


class FolderAnswer(Shares):
    """`covered` files have an area, `shared` files have several."""

    path: str
    name: str
    uri: str
    files: int
    covered: int
    shared: int


class FileAnswer(Shares):
    """`facts` is the number of nodes about the file, if the call is about an area."""

    path: str
    name: str
    uri: str
    facts: NotRequired[int]


class OverlapAnswer(Shares):
    """Areas with common files, the number of these files, and a folder that contains some of them."""

    files: int
    folder: str


class MovedAnswer(TypedDict):
    """An area, and the number of lines of its code that have changed since its knowledge was written or verified."""

    uri: str
    name: str
    changed: int
    commits: int
    lines: int
    last: str
    unverified: NotRequired[str]


class CoverageResult(TypedDict):
    """`folders` and `files` are direct children of the folder; with `area`, `files` are the area's files.

    The top folder also has the `overlap` of areas, and the areas whose code `moved` most.
    """

    workspace: str
    state: Literal["ready", "waiting", "absent"]
    folder: NotRequired[FolderAnswer]
    area: NotRequired[AreaShare]
    total: int
    folders: list[FolderAnswer]
    files: list[FileAnswer]
    overlaps: NotRequired[list[OverlapAnswer]]
    more_overlaps: NotRequired[int]
    moved: NotRequired[list[MovedAnswer]]
    more_moved: NotRequired[int]
    next: NotRequired[str]
    cursor: NotRequired[str]


def coverage(session: Session, params: CoverageParams) -> CoverageResult:
    """Answer about a folder or an area from cached counts. A change of files or patterns causes a recount."""
    workspace = addressing.choose(session, params.workspace, [params.area] if params.area else [])
    overlay = overlay_of(workspace)
    if overlay is None or workspace.layout.code_tree is None:
        raise Invalid("this workspace has no code tree", next="Run `kgd up` in a code repository.")
    area = ids.area(session, workspace, "atom", params.area, at="area") if params.area else None
    path = _path(session, params.path, workspace)
    top = overlay.view.root
    answer: CoverageResult = {"workspace": workspace.id, "state": "ready", "total": 0, "folders": [], "files": []}
    if top is None:
        report = overlay.report()
        answer["state"] = "absent" if report.mode == "absent" else "waiting"
        answer["next"] = report.reason or "The code tree is being read for the first time; ask again in a moment."
        return answer
    question = [workspace.id, path, area, params.order]
    start = paging.index(paging.read("coverage", question, params.cursor), 0) if params.cursor else 0
    atlas = Atlas.of(workspace)
    with atlas.coverage(top) as known:
        told = _Told(session, workspace, known)
        if area is not None:
            told.files_of(answer, area, start, params.limit)
        else:
            told.folder(answer, path, params, start)
            if not path and not start:
                told.overlaps(answer)
    if area is None and not path and not start:
        _add_moved(answer, workspace)
    shown = start + len(answer["folders"]) + len(answer["files"])
    if shown < answer["total"] and shown > start:
        answer["cursor"] = paging.write("coverage", question, [shown])
    return answer


class _Told:
    """Answers about one state of the code tree, which other threads do not change."""

    def __init__(self, session: Session, workspace: Workspace, known: Coverage) -> None:
        self._session, self._workspace, self._known = session, workspace, known

    def folder(self, answer: CoverageResult, path: str, params: CoverageParams, start: int) -> None:
        """A page of the entries of a folder: its folders, then its files."""
        here = self._known.at(path)
        if here is None:
            raise self._no_folder(path)
        answer["folder"] = self._folder(path, here)
        entries = self._entries(here, params.order)
        answer["total"] = len(entries)
        above = f"{path}/" if path else ""
        for name, is_file in entries[start : start + params.limit]:
            if is_file:
                answer["files"].append(self._file(above + name, sorted(self._known.owners(here, name))))
            else:
                answer["folders"].append(self._folder(above + name, self._known.below(here, name)))

    def _no_folder(self, path: str) -> NotFound:
        above, _, name = path.rpartition("/")
        beside = self._known.at(above)
        if beside is not None and name in beside.of.files:
            advice = Advice(Do("context", paths=path), " shows its areas and facts.")
            return NotFound("this is a file, not a folder", at=path, next=advice)
        close = file_paths.similar(self._workspace, path, None).removeprefix("; similar: ")
        advice = Advice(Do("coverage"), " lists the folders at the top.")
        next = f"Did you mean {close}?" if close else advice
        return NotFound("there is no such folder in the code tree", at=path, next=next)

    def _entries(self, here: Tally, order: str) -> list[tuple[str, bool]]:
        """Return the entries of a folder, and whether each is a file. The order `gaps` mixes folders and files."""
        known, ranked = self._known, []
        for name in here.of.folders:
            tally = known.below(here, name)
            share = tally.covered / tally.files if tally.files else 1.0
            ranked.append(((share, -tally.files), not tally.covered, False, name))
        for name in here.of.files:
            share = 1.0 if known.owners(here, name) else 0.0
            ranked.append(((share, -1), not share, True, name))
        if order == "gaps":
            ranked.sort(key=lambda one: (one[0], one[2], one[3]))
        else:
            ranked.sort(key=lambda one: (one[2], order == "covered" and one[1], one[3]))
        return [(name, is_file) for _, _, is_file, name in ranked]

    def files_of(self, answer: CoverageResult, area: Uri, start: int, limit: int) -> None:
        """A page of the files of an area."""
        answer["total"] = self._known.top.files_of(area)
        answer["area"] = self._share(area, answer["total"])
        paths = self._known.files_of(area, start, limit)
        facts = _facts_of(self._session, self._workspace, paths)
        for path in paths:
            folder, _, name = path.rpartition("/")
            tally = self._known.at(folder)
            file = self._file(path, sorted(self._known.owners(tally, name)) if tally else [area])
            answer["files"].append({**file, "facts": len(facts[path])})

    def overlaps(self, answer: CoverageResult) -> None:
        found = self._known.overlaps()
        answer["overlaps"] = []
        for owners, files, folder in found[:OVERLAPS]:
            one: OverlapAnswer = {"areas": self._named(owners, files), "files": files, "folder": readable(folder)}
            answer["overlaps"].append(one | paging.present(more_areas=max(0, len(owners) - NAMED)))
        answer |= paging.present(more_overlaps=max(0, len(found) - OVERLAPS))

    def _folder(self, path: str, tally: Tally) -> FolderAnswer:
        told, name, uri = self._place("dir", path)
        found: FolderAnswer = {
            "path": told,
            "name": name,
            "uri": uri,
            "files": tally.files,
            "covered": tally.covered,
            "shared": tally.shared,
            "areas": [self._share(area, count) for area, count in tally.largest(NAMED)],
        }
        found |= paging.present(more_areas=max(0, tally.areas - NAMED))
        return found

    def _file(self, path: str, owners: list[Uri]) -> FileAnswer:
        told, name, uri = self._place("file", path)
        found: FileAnswer = {"path": told, "name": name, "uri": uri, "areas": self._named(owners, 1)}
        found |= paging.present(more_areas=max(0, len(owners) - NAMED))
        return found

    def _place(self, scheme: str, path: str) -> tuple[str, str, Uri]:
        """The path and name to show, and the URI. Names may have bytes that are not valid text; the URI keeps them."""
        told = readable(path)
        return told, told.rpartition("/")[2], from_path(scheme, self._workspace.id, path)

    def _named(self, owners: Iterable[Uri], files: int) -> list[AreaShare]:
        return [self._share(uri, files) for uri in sorted(owners)[:NAMED]]

    def _share(self, uri: Uri, files: int) -> AreaShare:
        return {"uri": uri, "name": title_of(self._workspace, uri), "files": files}


def _add_moved(answer: CoverageResult, workspace: Workspace) -> None:
    freshness = Freshness.of(workspace)
    moved = sorted(freshness.moved().items(), key=lambda one: (-one[1].changed / max(1, one[1].lines), one[0]))
    doubted = freshness.unverified(uri for uri, _ in moved[:MOVED])
    answer["moved"] = []
    for uri, one in moved[:MOVED]:
        told: MovedAnswer = {
            "uri": uri,
            "name": title_of(workspace, uri),
            "changed": one.changed,
            "commits": one.commits,
            "lines": one.lines,
            "last": moment(one.last),
        }
        if uri in doubted:
            told["unverified"] = doubted[uri].reason
        answer["moved"].append(told)
    answer |= paging.present(more_moved=max(0, len(moved) - MOVED))


def _path(session: Session, text: str, workspace: Workspace) -> str:
    """The path of a folder in the tree, from any spelling; it does not end in a slash."""
    if not text.strip(" /"):
        return ""
    found = file_paths.locate(session, workspace, text)
    if found is None:
        raise Invalid(
            "this path is outside the code tree", at="path", next="Name a folder inside it, such as src/auth."
        )
    return found.rstrip("/")


COVERAGE = Operation(
    name="coverage",
    title="What areas cover",
    description="Coverage of the code tree by areas, per folder; overlapping areas; the files of an area.",
    hints=Hints(read_only=True, idempotent=True),
    run=coverage,
    commands=(
        Command(
            "Reading",
            "show how much of the code has an area, by folder",
            (
                option("path", "a folder of the code tree (default: its top)", "FOLDER", nargs="?"),
                option("--area", "instead: the files of this area", "AREA"),
                option("--order", "gaps: lowest coverage first; covered: folders with an area first"),
                LIMIT,
                CURSOR,
            ),
            place=80,
            print="printing_context.coverage",
            examples=(("kgd coverage --order gaps", "first the folders and files with the lowest coverage"),),
        ),
    ),
)


class AreaFactsParams(Paged):
    area: Annotated[str, Field(description="an atom")]
    limit: Annotated[int, Field(ge=1, le=200)] = 30


class FactAnswer(Brief, Standing):
    """A node that cites files of the area, or is related to them, to its folders or to the area itself; or a task that
    lists them."""

    files: list[str]
    more_files: NotRequired[int]
    updated: NotRequired[LastChange]


class AuthorAnswer(TypedDict):
    """An author, with the number of facts whose newest version they wrote, and the time of the last one."""

    name: str
    facts: int
    last: str


class AreaFactsResult(TypedDict):
    """The facts, stale ones first, then the newest. `stale` counts stale facts, `conflicts` their open conflicts, and
    `known_files` the files with a fact.

    `more_files` counts the files that were not examined, `more_facts` the facts without date and author.
    """

    workspace: str
    area: str
    facts: list[FactAnswer]
    total: int
    stale: int
    conflicts: int
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
        NotFound: There is no such area.
    """
    workspace = addressing.choose(session, params.workspace, [params.area])
    area = ids.area(session, workspace, "atom", params.area, at="area")
    start = paging.index(paging.read("area_facts", area, params.cursor), 0) if params.cursor else 0
    paths, total = _files(workspace, area)
    found = _found(session, workspace, area, paths)
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
        "conflicts": len(workspace.conflicts.of(uris)),
        "files": total,
        "known_files": found.known,
        "authors": _authors(versions.values()),
    }
    mark_superseded(workspace, answer["facts"])
    for one in answer["facts"]:
        if doubt := doubts.get(Uri(one["uri"])):
            one["unverified"] = doubt
    answer |= paging.present(more_files=total - len(paths), more_facts=max(0, len(found.paths) - FACTS))
    if start + params.limit < len(uris):
        answer["cursor"] = paging.write("area_facts", area, [start + params.limit])
    return answer


def _facts_of(session: Session, workspace: Workspace, paths: Sequence[str]) -> dict[str, list[Uri]]:
    """The nodes about each file, also under its other paths, and the tasks that list it, without areas. Costs two
    look-ups for each of these paths, one for the tasks, and one call of `other_paths`."""
    others, tasks = file_paths.other_paths(session, workspace, paths), TaskFiles.of(workspace).listing(paths)
    found = dict[str, list[Uri]]()
    for path in paths:
        places = (path, *(one.path for one in others.get(path, ())))
        uris = filter(None, (uri_at("file", workspace.id, one) for one in places))
        about = (one for uri in uris for one in code_facts.about_code(workspace, uri))
        found[path] = [one for one in dict.fromkeys([*about, *tasks.get(path, ())]) if _is_fact(one)]
    return found


def _files(workspace: Workspace, area: Uri) -> tuple[Sequence[str], int]:
    """The first files of an area, and the number of all; none before the code tree has been read."""
    overlay = overlay_of(workspace)
    top = overlay.view.root if overlay is not None else None
    if top is None:
        return (), 0
    with Atlas.of(workspace).coverage(top) as known:
        return known.files_of(area, 0, FILES), known.top.files_of(area)


def _found(session: Session, workspace: Workspace, area: Uri, paths: Sequence[str]) -> _Facts:
    """The facts related to the area or its folders and the tasks that list these folders, then the facts about its
    files."""
    folders = _folders(workspace, area, paths)
    related = [edge.target for one in (area, *folders) for edge in workspace.graph.into(one)]
    tasks = TaskFiles.of(workspace).listing([f"{path_of(one)}/" for one in folders])
    found = _Facts({one: [] for one in (*related, *chain.from_iterable(tasks.values())) if _is_fact(one)})
    for path, mine in _facts_of(session, workspace, paths).items():
        found.known += bool(mine)
        for uri in mine:
            found.paths.setdefault(uri, []).append(path)
    return found


def _folders(workspace: Workspace, area: Uri, paths: Iterable[str]) -> list[Uri]:
    """The folders of an area that contain its files, and have incoming relations or are listed by a task."""
    above = {""}
    for path in paths:
        while (path := path.rpartition("/")[0]) not in above:
            above.add(path)
    listed = TaskFiles.of(workspace).listing([f"{path}/" for path in above])
    related = [
        one
        for path in sorted(above)
        if (one := uri_at("dir", workspace.id, path)) and (f"{path}/" in listed or workspace.graph.into(one))
    ]
    with suppress(Limit):
        matches = Atlas.of(workspace).matching(related, sees=lambda one: one == area, most=STEPS)
        return [Uri(one) for one in matches.by_atom.get(area, ())]
    return []


def _is_fact(uri: Uri) -> bool:
    return scheme_of(uri) not in (ATOM, MOLECULE, *CODE_TREE)


def _fact(workspace: Workspace, uri: Uri, found: _Facts, version: Version | None) -> FactAnswer:
    paths = found.paths[uri]
    files = [readable(path) for path in paths[:NAMED_FILES]]
    answer: FactAnswer = {**brief(workspace, uri), "files": files}  # type: ignore[typeddict-item]
    answer |= paging.present(more_files=max(0, len(paths) - NAMED_FILES))
    if version is not None:
        answer["updated"] = updated(version)
    return answer


def _authors(versions: Iterable[Version]) -> list[AuthorAnswer]:
    """The authors of the facts as they are now, without their programs; most facts first."""
    count: dict[str, int] = {}
    last: dict[str, int] = {}
    for one in versions:
        name = Author.of(one.author).name
        count[name] = count.get(name, 0) + 1
        last[name] = max(last.get(name, 0), one.updated_at)
    ordered = sorted(count, key=lambda name: (-count[name], -last[name], name))[:AUTHORS]
    return [{"name": name, "facts": count[name], "last": moment(last[name])} for name in ordered]


AREA_FACTS = Operation(
    name="area_facts",
    title="Facts of an area",
    description="Facts about an area of the code and its files, stale ones first, and who wrote them.",
    hints=Hints(read_only=True, idempotent=True),
    run=area_facts,
)

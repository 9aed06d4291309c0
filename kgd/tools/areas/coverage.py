"""The `coverage` tool: the share of the code that areas cover, per folder, and the areas of each file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.areas import paths
from kgd.areas.atlas import Atlas
from kgd.errors import Advice, Do, Forbidden, Invalid, NotFound
from kgd.freshness.freshness import Freshness
from kgd.model.uri import Uri, from_path, name_of
from kgd.overlay.facts import readable
from kgd.tools import addressing, paging
from kgd.tools.areas import ids
from kgd.tools.areas.facts import facts_of
from kgd.tools.nodes import moment, overlay_of
from kgd.tools.operation import CURSOR, LIMIT, Command, Hints, Operation, option
from kgd.tools.parameters import Params

if TYPE_CHECKING:
    from kgd.areas.coverage import Coverage, Tally
    from kgd.tools.session import Session
    from kgd.workspace.workspace import Workspace

NAMED = 3
"""Largest number of areas named per folder or file, beginning with the areas with the most files."""
OVERLAPS = 20
MOVED = 20


class CoverageParams(Params):
    path: Annotated[str, Field(description="a folder of the code tree; default: its top")] = ""
    area: Annotated[str | None, Field(description="instead: the files of this atom")] = None
    order: Annotated[Literal["name", "gaps"], Field(description="gaps: most uncovered files first")] = "name"
    limit: Annotated[int, Field(ge=1, le=500)] = 50
    cursor: str | None = None
    workspace: str | None = None


class AreaShare(TypedDict):
    """An area, and its number of files in this answer's scope."""

    uri: str
    name: str
    files: int


class FolderAnswer(TypedDict):
    """`covered` files have an area, `shared` files have several; only the areas with the most files are listed."""

    path: str
    name: str
    uri: str
    files: int
    covered: int
    shared: int
    areas: list[AreaShare]
    more_areas: NotRequired[int]


class FileAnswer(TypedDict):
    """`facts` is the number of nodes about the file, if the call is about an area."""

    path: str
    name: str
    uri: str
    areas: list[AreaShare]
    more_areas: NotRequired[int]
    facts: NotRequired[int]


class OverlapAnswer(TypedDict):
    """Areas with common files, the number of these files, and a folder that contains some of them."""

    areas: list[AreaShare]
    more_areas: NotRequired[int]
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
    if session.principal is not None:
        raise Forbidden(
            "only the machine with the code tree can report its coverage",
            next=Advice("Look for areas with ", Do("search", types="atom"), "."),
        )
    workspace = addressing.choose(session, params.workspace, [params.area] if params.area else [])
    overlay = overlay_of(workspace)
    if overlay is None or workspace.layout.code_tree is None:
        raise Invalid("this workspace has no code tree", next="Run `kgd up` in a code repository.")
    area = ids.area(session, workspace, "atom", params.area, at="area") if params.area else None
    path = _path(params.path, workspace)
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
        told = _Told(workspace, known)
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

    def __init__(self, workspace: Workspace, known: Coverage) -> None:
        self._workspace, self._known = workspace, known

    def folder(self, answer: CoverageResult, path: str, params: CoverageParams, start: int) -> None:
        """A page of the entries of a folder: its folders, then its files."""
        here = self._known.at(path)
        if here is None:
            raise NotFound(
                "there is no such folder in the code tree", at=path, next="List the folders from the top down."
            )
        answer["folder"] = self._folder(path, here)
        if params.order == "gaps":
            tallies = {name: self._known.below(here, name) for name in here.of.folders}
            folders = sorted(tallies, key=lambda name: (-tallies[name].uncovered, name))
            files = sorted(here.of.files, key=lambda name: (bool(self._known.owners(here, name)), name))
        else:
            folders, files = sorted(here.of.folders), sorted(here.of.files)
        answer["total"] = len(folders) + len(files)
        above = f"{path}/" if path else ""
        for name in folders[start : start + params.limit]:
            answer["folders"].append(self._folder(above + name, self._known.below(here, name)))
        first = max(0, start - len(folders))
        for name in files[first : first + params.limit - len(answer["folders"])]:
            answer["files"].append(self._file(above + name, sorted(self._known.owners(here, name))))

    def files_of(self, answer: CoverageResult, area: Uri, start: int, limit: int) -> None:
        """A page of the files of an area."""
        answer["total"] = self._known.top.files_of(area)
        answer["area"] = self._share(area, answer["total"])
        for path in self._known.files_of(area, start, limit):
            folder, _, name = path.rpartition("/")
            tally = self._known.at(folder)
            file = self._file(path, sorted(self._known.owners(tally, name)) if tally else [area])
            answer["files"].append({**file, "facts": len(facts_of(self._workspace, path))})

    def overlaps(self, answer: CoverageResult) -> None:
        found = self._known.overlaps()
        answer["overlaps"] = []
        for owners, files, folder in found[:OVERLAPS]:
            one: OverlapAnswer = {"areas": self._named(owners, files), "files": files, "folder": readable(folder)}
            if len(owners) > NAMED:
                one["more_areas"] = len(owners) - NAMED
            answer["overlaps"].append(one)
        if len(found) > OVERLAPS:
            answer["more_overlaps"] = len(found) - OVERLAPS

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
        if tally.areas > NAMED:
            found["more_areas"] = tally.areas - NAMED
        return found

    def _file(self, path: str, owners: list[Uri]) -> FileAnswer:
        told, name, uri = self._place("file", path)
        found: FileAnswer = {"path": told, "name": name, "uri": uri, "areas": self._named(owners, 1)}
        if len(owners) > NAMED:
            found["more_areas"] = len(owners) - NAMED
        return found

    def _place(self, scheme: str, path: str) -> tuple[str, str, Uri]:
        """The path and name to show, and the URI. Names may have bytes that are not valid text; the URI keeps them."""
        told = readable(path)
        return told, told.rpartition("/")[2], from_path(scheme, self._workspace.id, path)

    def _named(self, owners: Iterable[Uri], files: int) -> list[AreaShare]:
        return [self._share(uri, files) for uri in sorted(owners)[:NAMED]]

    def _share(self, uri: Uri, files: int) -> AreaShare:
        return {"uri": uri, "name": _name(self._workspace, uri), "files": files}


def _add_moved(answer: CoverageResult, workspace: Workspace) -> None:
    freshness = Freshness.of(workspace)
    moved = sorted(freshness.moved().items(), key=lambda one: (-one[1].changed / max(1, one[1].lines), one[0]))
    doubted = freshness.unverified(uri for uri, _ in moved[:MOVED])
    answer["moved"] = []
    for uri, one in moved[:MOVED]:
        told: MovedAnswer = {
            "uri": uri,
            "name": _name(workspace, uri),
            "changed": one.changed,
            "commits": one.commits,
            "lines": one.lines,
            "last": moment(one.last),
        }
        if uri in doubted:
            told["unverified"] = doubted[uri].reason
        answer["moved"].append(told)
    if len(moved) > MOVED:
        answer["more_moved"] = len(moved) - MOVED


def _name(workspace: Workspace, uri: Uri) -> str:
    card = workspace.graph.card(uri)
    return (card.name if card else "") or name_of(uri)


def _path(text: str, workspace: Workspace) -> str:
    """The path of a folder in the tree, from any spelling; it does not end in a slash."""
    if not text.strip(" /."):
        return ""
    found = paths.normalise(text, workspace.layout.code_tree, workspace=workspace.id)
    if found is None:
        raise Invalid(
            "this path is outside the code tree", at="path", next="Name a folder inside it, such as src/auth."
        )
    return found.rstrip("/")


COVERAGE = Operation(
    name="coverage",
    title="What areas cover",
    description="Coverage of the code tree by areas, per folder; overlapping areas; the files of an area.",
    Params=CoverageParams,
    Result=CoverageResult,
    hints=Hints(read_only=True, idempotent=True),
    run=coverage,
    commands=(
        Command(
            "Reading",
            "show how much of the code has an area, by folder",
            (
                option("path", "a folder of the code tree (default: its top)", "FOLDER", nargs="?"),
                option("--area", "instead: the files of this area", "AREA"),
                option("--order", "gaps: folders with the most files without an area first"),
                LIMIT,
                CURSOR,
            ),
            place=80,
            print="printing_context.coverage",
            examples=(("kgd coverage --order gaps", "first the folders with the most files without an area"),),
        ),
    ),
)

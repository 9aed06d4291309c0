"""The tools `stale` and `broken`: nodes whose code has changed, to be verified; and relations to missing nodes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.code_history.history import CodeHistory
from kgd.errors import Advice, Do
from kgd.freshness.freshness import Freshness
from kgd.graph.edges import BrokenLink
from kgd.model.change import VERIFY, ChangeSet, subject_from
from kgd.model.escaping import printable
from kgd.model.fields import plain_weight
from kgd.model.uri import IN_CODE, Uri, from_path, path_of, scheme_of, workspace_of
from kgd.tools import addressing, file_paths, paging, worktrees
from kgd.tools.nodes import Brief, UnverifiedAnswer, brief
from kgd.tools.operation import CURSOR, LIMIT, Command, Hints, Operation, option
from kgd.tools.origins import unverified_answer, verified
from kgd.tools.parameters import Many, Paged
from kgd.tools.session import Session
from kgd.tools.write.code_moves import after_rename, with_folders
from kgd.tools.write.put import PutResult, answer_of
from kgd.workspace.workspace import Workspace

MOVED = 3
"""Largest number of renamed files and folders in the next step."""


class StaleParams(Paged):
    verify: Annotated[Many[str], Field(max_length=200, description="nodes that still hold")] = Field(
        default_factory=list
    )
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    dry_run: bool = False


class StaleNode(Brief):
    unverified: UnverifiedAnswer


class StaleResult(TypedDict):
    """Unverified nodes, latest code change first. `verified` are the nodes that `verify` marked. `note` names the code
    that was compared if the caller is in another work tree."""

    workspace: str
    total: int
    nodes: list[StaleNode]
    next: str
    note: NotRequired[str]
    verified: NotRequired[PutResult]
    cursor: NotRequired[str]


def stale(session: Session, params: StaleParams) -> StaleResult:
    """Mark the nodes in `verify` as verified, then list the nodes whose code has changed since their last
    verification."""
    workspace = addressing.choose(session, params.workspace, params.verify, writing=bool(params.verify))
    written = _verify(session, workspace, params) if params.verify else None
    freshness = Freshness.of(workspace)
    freshness.look_through()
    freshness.settle()
    found = freshness.unverified(freshness.doubted)
    ordered = sorted(found, key=lambda uri: (-(found[uri].since or 0), uri))
    start = paging.index(paging.read("stale", workspace.id, params.cursor), 0) if params.cursor else 0
    page = ordered[start : start + params.limit]
    answer: StaleResult = {
        "workspace": workspace.id,
        "total": len(ordered),
        "nodes": [{**brief(workspace, uri), "unverified": unverified_answer(found[uri])} for uri in page],
        "next": _next_step(workspace, freshness, ordered, page),
    }
    if told := worktrees.note(workspace, session.own_cwd, "this list compares facts with"):
        answer["note"] = told
    if written is not None:
        answer["verified"] = written
    if start + len(page) < len(ordered):
        answer["cursor"] = paging.write("stale", workspace.id, [start + len(page)])
    return answer


def _verify(session: Session, workspace: Workspace, params: StaleParams) -> PutResult:
    """Verify all given nodes in one commit, or none."""
    uris = [addressing.resolve(session, workspace, text, at=f"verify[{n}]") for n, text in enumerate(params.verify)]
    edits = tuple(verified(session, workspace, uri) for uri in uris)
    subject = subject_from("verify", edits[0].uri, more=len(edits) - 1)
    changes = ChangeSet(edits, session.author(workspace), subject, operation=VERIFY)
    return answer_of(workspace, session.submit(workspace, changes, dry_run=params.dry_run), dry_run=params.dry_run)


def _next_step(workspace: Workspace, freshness: Freshness, found: list[Uri], page: list[Uri]) -> str:
    if freshness.code is None:
        return "This workspace has no code tree here, so nothing can be checked."
    if not found:
        return "no stale facts"
    verify, put = Do("stale", verify="URI"), Do("put")
    told = ("Read the code. If a node still holds, run ", verify, "; if not, correct it with ", put, ".")
    moved = with_folders(workspace, {was: now for uri in page for was, now in freshness.renamed(uri).items()})
    return Advice(*told, *(part for one in list(moved.items())[:MOVED] for part in (" ", *after_rename(*one))))


STALE = Operation(
    name="stale",
    title="Unverified nodes",
    description="Nodes whose cited code or area changed since their last verification; `verify` renews it.",
    hints=Hints(),
    run=stale,
    commits={VERIFY: "verified"},
    commands=(
        Command(
            "Care",
            ("list facts whose code has changed, or mark them as verified"),
            (option("--verify", "mark these nodes as still true", "URI", nargs="+", action="extend"), LIMIT, CURSOR),
            place=80,
            print="printing.stale",
            examples=(("kgd stale", "facts whose code has changed, with the reason"),),
        ),
    ),
)


class BrokenParams(Paged):
    uri: Annotated[str | None, Field(description="only relations to this missing node")] = None
    limit: Annotated[int, Field(ge=1, le=500)] = 50


class MissingLink(TypedDict):
    source: str
    type: str
    weight: float


class MissingNode(TypedDict):
    """A missing node to which relations lead. `moved` is the new path of a renamed file or folder of the code; `next`,
    in the first node of each rename, moves the facts there. `former` is the path that the checked-out code still has,
    if the facts were moved after a later rename."""

    uri: str
    links: list[MissingLink]
    moved: NotRequired[str]
    former: NotRequired[str]
    next: NotRequired[str]


class BrokenResult(TypedDict):
    workspace: str
    links: int
    broken: list[MissingNode]
    uri: NotRequired[str]
    """The node that the call named."""
    cursor: NotRequired[str]


def broken(session: Session, params: BrokenParams) -> BrokenResult:
    """List broken relations, sorted by missing node, source and type. Takes time linear in the number of missing nodes;
    with `uri`, of relations to that node.

    Raises:
        KgdError: The workspace is unknown, or the cursor belongs to another call.
    """
    workspace = addressing.choose(session, params.workspace)
    question = [workspace.id, params.uri]
    if params.uri is None:
        found = workspace.broken_links()
    else:
        target = _missing(session, workspace, params.uri)
        edges = workspace.graph.into(target) if workspace.is_broken(target) else ()
        found = sorted(BrokenLink(edge.target, edge.type, target, edge.weight) for edge in edges)
    after = paging.read("broken", question, params.cursor) if params.cursor else []
    rest = [one for one in found if [one.target, one.source, one.type] > after] if after else found
    answer: BrokenResult = {"workspace": workspace.id, "links": len(found), "broken": []}
    if params.uri is not None:
        answer["uri"] = target
    for one in rest[: params.limit]:
        if not answer["broken"] or answer["broken"][-1]["uri"] != one.target:
            answer["broken"].append({"uri": one.target, "links": []})
        answer["broken"][-1]["links"].append(
            {"source": one.source, "type": one.type, "weight": plain_weight(one.weight)}
        )
    if session.principal is None:
        _note_renames(workspace, answer["broken"])
        _note_later_renames(session, workspace, answer["broken"])
    if len(rest) > params.limit:
        last = rest[params.limit - 1]
        answer["cursor"] = paging.write("broken", question, [last.target, last.source, last.type])
    return answer


def _missing(session: Session, workspace: Workspace, text: str) -> Uri:
    """The node that a text names. A path without a scheme is code if relations lead to missing code there: a terminal
    lists a missing file as a path, which would otherwise be the name of a concept."""

    def has_links(uri: Uri) -> bool:
        return workspace.is_broken(uri) and any(workspace.graph.into(uri))

    uri = addressing.resolve(session, workspace, text)
    place = "" if ":" in text or has_links(uri) else file_paths.locate(session, workspace, text) or ""
    codes = (from_path(scheme, workspace.id, place.rstrip("/")) for scheme in ("file", "dir") if place)
    return next(filter(has_links, codes), uri)


def _note_renames(workspace: Workspace, broken: Sequence[MissingNode]) -> None:
    """Set `moved` in the missing nodes of renamed code, and `next` in the first one of each rename."""
    renamed = cache(CodeHistory.of(workspace).renamed)
    paths = ((one, _path(workspace, Uri(one["uri"]))) for one in broken)
    moved = [(one, path, now) for one, path in paths if path and (now := renamed(path))]
    left = with_folders(workspace, {path: now for _, path, now in moved})
    for one, path, now in moved:
        one["moved"] = now
        if was := next((was for was in left if path == was or path.startswith(f"{was}/")), ""):
            one["next"] = Advice(*after_rename(was, left.pop(was)))


def _note_later_renames(session: Session, workspace: Workspace, broken: Sequence[MissingNode]) -> None:
    """Set `former` and `next` in the missing nodes of code that the checked-out commit has under a former path."""
    freshness = Freshness.of(workspace)
    for one in broken:
        path = _path(workspace, Uri(one["uri"])) if "moved" not in one else ""
        renames = (freshness.renames_of(Uri(link["source"])) for link in one["links"] if path)
        former = (was for some in renames for was, now in some.items() if now == path)
        if was := next((was for was in former if file_paths.is_known(session, workspace, was)), ""):
            one["former"] = printable(was)
            one["next"] = f"The checked-out code still has it as {printable(was)}; update the code."


def _path(workspace: Workspace, uri: Uri) -> str:
    """The path of a file, a folder or the file of a symbol of this workspace; empty for other nodes."""
    if scheme_of(uri) not in IN_CODE or workspace_of(uri) != workspace.id:
        return ""
    return path_of(uri).rpartition("/")[0] if scheme_of(uri) == "symbol" else path_of(uri)


BROKEN = Operation(
    name="broken",
    title="Broken links",
    description="Relations to missing nodes, by missing node.",
    hints=Hints(read_only=True, idempotent=True),
    run=broken,
    commands=(
        Command(
            "Care",
            "list broken links, by missing node",
            (option("uri", value="URI", nargs="?"), LIMIT, CURSOR),
            place=90,
            print="printing_context.broken",
        ),
    ),
)

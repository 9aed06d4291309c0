"""This file is where a workspace's own business is: how it is, and the code tree behind it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.errors import Forbidden, Invalid, NotFound
from kgd.freshness.freshness import Freshness
from kgd.model.change import ChangeSet
from kgd.model.uri import path_of, scheme_of
from kgd.overlay.storing import store_changes
from kgd.tools import addressing, nodes, sight
from kgd.tools.nodes import InvalidAnswer, moment, overlay_of
from kgd.tools.parameters import Params
from kgd.tools.session import Session
from kgd.tools.tool import Hints, Tool
from kgd.workspace import proposals

if TYPE_CHECKING:
    from kgd.workspace.outcome import Stage
    from kgd.workspace.workspace import Workspace

BROKEN_COUNTED = 1_000
INVALID_SHOWN = 20
BROKEN_SHOWN = 20
CONFLICTS_COUNTED = 10_000


class Nothing(Params):
    workspace: str | None = None


class DaemonAnswer(TypedDict):
    pid: int
    version: str
    since: str
    log: str
    workspaces: list[str]
    listening: NotRequired[str]


class WorkspaceAnswer(TypedDict):
    id: str
    path: str
    branch: str
    tip: str
    code_tree: NotRequired[str]
    read_only: NotRequired[str]


class StageAnswer(TypedDict):
    """One step of the work. `state` is ok, waiting, blocked, degraded or off; `age`: seconds since `last_success`."""

    name: str
    state: str
    about: NotRequired[str]
    last_success: NotRequired[str]
    age: NotRequired[int]
    blocker: NotRequired[str]
    blocked_for: NotRequired[int]


class BrokenLinkAnswer(TypedDict):
    """A relation to what nobody has written."""

    source: str
    type: str
    target: str


class StatusResult(TypedDict):
    daemon: DaemonAnswer
    health: Literal["ok", "waiting", "degraded", "blocked"]
    workspace: NotRequired[WorkspaceAnswer]
    stages: list[StageAnswer]
    degraded: list[str]
    conflicts: int
    invalid_files: list[InvalidAnswer]
    broken_links: list[BrokenLinkAnswer]
    proposals: int
    jobs: list[Any]
    counts: dict[str, int]
    next: NotRequired[str]


def status(session: Session, params: Nothing) -> StatusResult:
    """How the daemon and a workspace are; without a workspace, how the daemon is."""
    daemon = session.daemon
    answer: StatusResult = {
        "daemon": {
            "pid": daemon.pid, "version": daemon.version, "since": daemon.since, "log": daemon.home.log,
            "workspaces": daemon.workspace_ids(),
        },
        "health": "ok", "stages": [], "degraded": [], "conflicts": 0, "invalid_files": [],
        "broken_links": [], "proposals": 0, "jobs": [], "counts": {},
    }  # fmt: skip
    if daemon.listening:
        answer["daemon"]["listening"] = daemon.listening
    if session.principal is None:
        answer["degraded"] += daemon.troubles()
    try:
        workspace = addressing.choose(session, params.workspace)
    except NotFound as none:
        if params.workspace:
            raise
        answer["next"] = none.next
        if session.principal is not None:
            answer["daemon"] = _known_to(session, answer["daemon"])
            answer["degraded"] = []
    else:
        _add_workspace(answer, workspace, daemon.stages(workspace))
        answer["degraded"] += daemon.degraded(workspace)
        if session.principal is not None:
            return _for_holder(session, workspace, answer)
    states = {stage["state"] for stage in answer["stages"]} | ({"degraded"} if answer["degraded"] else set())
    answer["health"] = next((s for s in ("blocked", "degraded", "waiting") if s in states), "ok")
    return answer


def _for_holder(session: Session, workspace: Workspace, answer: StatusResult) -> StatusResult:
    """What is no business of the holder of a token is left out: paths here, other workspaces, hidden nodes."""
    assert session.principal is not None
    sees = sight.sight(session, workspace.id)
    conflicts = workspace.conflict_count if sees is None else len(
        workspace.conflicts(limit=CONFLICTS_COUNTED, about=sees)
    )  # fmt: skip
    return {
        "daemon": _known_to(session, answer["daemon"]),
        "health": "ok",
        "workspace": {"id": workspace.id, "path": "", "branch": workspace.layout.branch, "tip": workspace.tip},
        "stages": [], "degraded": [], "conflicts": conflicts, "invalid_files": [],
        "broken_links": [], "proposals": answer["proposals"] if sees is None else 0,
        "jobs": [], "counts": {"nodes": answer["counts"]["nodes"]} if sees is None else {},
    }  # fmt: skip


def _known_to(session: Session, known: DaemonAnswer) -> DaemonAnswer:
    assert session.principal is not None
    own = {scope.workspace for scope in session.principal.scopes}
    workspaces = [id for id in known["workspaces"] if id in own]
    return {"pid": 0, "version": known["version"], "since": known["since"], "log": "", "workspaces": workspaces}


def _add_workspace(answer: StatusResult, workspace: Workspace, stages: list[Stage]) -> None:
    layout = workspace.layout
    here: WorkspaceAnswer = {
        "id": workspace.id, "path": str(layout.work_tree), "branch": layout.branch, "tip": workspace.tip,
    }  # fmt: skip
    if layout.code_tree is not None:
        here["code_tree"] = str(layout.code_tree)
    if workspace.read_only:
        here["read_only"] = workspace.read_only
    answer["workspace"] = here
    answer["stages"] = [_stage(stage) for stage in stages]
    answer["degraded"] += workspace.degraded()
    answer["conflicts"] = workspace.conflict_count
    answer["proposals"] = proposals.count(workspace)
    invalid = workspace.invalid_files()
    answer["invalid_files"] = [nodes.invalid(workspace, one) for one in invalid[:INVALID_SHOWN]]
    broken = workspace.broken_links(BROKEN_COUNTED)
    answer["broken_links"] = [
        {"source": one.source, "type": one.type, "target": one.target} for one in broken[:BROKEN_SHOWN]
    ]
    counts = {
        "nodes": len(workspace.graph),
        "broken_links": len(broken),
        "invalid_files": len(invalid),
    }
    if doubted := Freshness.of(workspace).doubted:
        counts["unverified"] = len(doubted)
    answer["counts"] = counts | tree_counts(workspace)
    if absent := _absence(workspace):
        answer["degraded"].append(absent)
    if workspace.conflict_count:
        answer["next"] = "Settle the open conflicts: `kgd conflicts` shows both sides of each."


def tree_counts(workspace: Workspace) -> dict[str, int]:
    """What the code tree serves and what it leaves out; nothing where there is none."""
    overlay = overlay_of(workspace)
    report = overlay.report() if overlay is not None else None
    if report is None:
        return {}
    counted = {"files": report.files, "directories": report.directories, "bytes": report.bytes, "text": report.text,
               "binary": report.binary, "large": report.large, "unreadable": report.unreadable,
               "symlinks": report.symlinks, "ignored": report.ignored}  # fmt: skip
    return counted | {f"skipped_{why.replace(' ', '_')}": count for why, count in sorted(report.skipped.items())}


def _absence(workspace: Workspace) -> str:
    overlay = overlay_of(workspace)
    report = overlay.report() if overlay is not None else None
    return f"code tree: {report.reason}" if report is not None and report.reason else ""


def _stage(stage: Stage) -> StageAnswer:
    now = time.time()
    answer: StageAnswer = {"name": stage.name, "state": stage.state}
    if stage.last_success is not None:
        answer["last_success"] = moment(stage.last_success)
        answer["age"] = max(0, int(now - stage.last_success))
    if stage.about:
        answer["about"] = stage.about
    if stage.blocker:
        answer["blocker"] = stage.blocker
    if stage.since is not None:
        answer["blocked_for"] = max(0, int(now - stage.since))
    return answer


class IngestParams(Params):
    source: Annotated[str | None, Field(description="a directory of the code tree")] = None
    text: str | None = None
    kind: Annotated[str, Field(description="tree: walk the code tree anew")] = "tree"
    uri: str | None = None
    dry_run: bool = False
    workspace: str | None = None


class BootstrapParams(IngestParams):
    store: bool = False


class IngestResult(TypedDict):
    workspace: str
    kind: str
    source: str
    counts: dict[str, int]
    stored: NotRequired[int]
    commits: NotRequired[list[str]]
    dry_run: NotRequired[bool]


def ingest(session: Session, params: IngestParams) -> IngestResult:
    """Looks at the code tree as it is now. Nothing is stored: the tree itself is where its facts live."""
    if params.kind != "tree" or params.text is not None or params.uri is not None:
        raise Invalid(
            "this version takes in directories of the code tree only", at="kind",
            next='Leave out text and uri, with kind "tree"; write what a document says with put.',
        )  # fmt: skip
    if session.principal is not None:
        raise Forbidden("the code tree is looked at by the machine that has it", next="Write what you know with put.")
    workspace = addressing.choose(session, params.workspace, [params.source] if params.source else [])
    overlay, root = overlay_of(workspace), workspace.layout.code_tree
    if overlay is None or root is None:
        raise Invalid("this workspace has no code tree", at="source", next="Run `kgd up` in a code repository.")
    below = _inside(session, workspace, root, params.source)
    found = overlay.scan(lambda done, total: session.progress(done, total, "reading"))
    moved = (*found.added, *found.changed, *found.removed)
    Freshness.of(workspace).files_changed(path_of(uri) for uri in moved if scheme_of(uri) == "file")
    counts = {**tree_counts(workspace), "added": len(found.added), "changed": len(found.changed),
              "removed": len(found.removed)}  # fmt: skip
    answer: IngestResult = {"workspace": workspace.id, "kind": "tree", "source": str(root / below), "counts": counts}
    if params.dry_run:
        answer["dry_run"] = True
    return answer


def _inside(session: Session, workspace: Workspace, root: Path, source: str | None) -> str:
    """The directory of the code tree that `source` means, relative to its root."""
    if source is None:
        return ""
    uri = addressing.resolve(session, workspace, source if "://" in source else f"./{source.lstrip('/')}"
                             if not Path(source).is_absolute() else source, at="source")  # fmt: skip
    if scheme_of(uri) != "dir" or not (root / path_of(uri)).is_dir():
        raise Invalid(
            "this is no directory of the code tree, and this version takes in nothing else", at="source",
            next="Name a directory of the code tree, or none for all of it; a file is served as a node by itself.",
        )  # fmt: skip
    return path_of(uri)


def bootstrap(session: Session, params: BootstrapParams) -> IngestResult:
    """The same; with `store` it also writes every file and directory as a node, for a tree that others do not have."""
    if not session.trusted:
        raise Forbidden("only this machine's own command line stores a code tree", next="Use ingest without store.")
    answer = ingest(session, IngestParams(**params.model_dump(exclude={"store"})))
    if not params.store or params.dry_run:
        return answer
    workspace = addressing.choose(session, params.workspace, [params.source] if params.source else [], writing=True)
    overlay = overlay_of(workspace)
    assert overlay is not None
    stored, commits, author = 0, [], session.author(workspace)
    total = sum(1 for _ in overlay.uris())
    for edits in store_changes(overlay):
        changes = ChangeSet(edits, author, "bootstrap: store the code tree", operation="bootstrap")
        outcome = session.submit(workspace, changes)
        stored += len(edits)
        if outcome.commit:
            commits.append(outcome.commit)
        session.progress(stored, total, "storing")
    answer["stored"], answer["commits"] = stored, commits
    return answer


STATUS = Tool(
    name="status",
    title="How things are",
    description=(
        "The daemon, and each stage of a workspace with what blocks it; open conflicts, invalid files, counts, among "
        "them of nodes that are unverified since the code changed."
    ),
    Params=Nothing,
    Result=StatusResult,
    hints=Hints(read_only=True, idempotent=True),
    run=status,
)
INGEST = Tool(
    name="ingest",
    title="Look at the code tree",
    description=(
        "Walk the code tree anew and count what is served as file:// and dir:// nodes. Rarely needed: changes are "
        "followed by themselves."
    ),
    Params=IngestParams,
    Result=IngestResult,
    hints=Hints(idempotent=True, open_world=True),
    run=ingest,
)
BOOTSTRAP = Tool(
    name="bootstrap",
    title="Walk the code tree",
    description="Counts what the code tree serves; with store writes it down once.",
    Params=BootstrapParams,
    Result=IngestResult,
    hints=Hints(idempotent=True),
    run=bootstrap,
)

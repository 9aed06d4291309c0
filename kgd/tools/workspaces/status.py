"""The `status` tool: health of the daemon, its home and a workspace, running jobs, and a remedy for every failed state.

docs/recovery.md lists the same remedies. A test compares both lists and finds states without a remedy.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib import metadata
from typing import Annotated, Literal, NamedTuple, NotRequired, cast

from pydantic import Field
from typing_extensions import TypedDict

from kgd.code_history.history import CodeHistory
from kgd.config.entries import Entry
from kgd.daemon.daemon import Daemon
from kgd.daemon.jobs import Job, Jobs
from kgd.errors import Advice, Do, KgdError, NotFound, Unavailable
from kgd.freshness.freshness import Freshness
from kgd.git.discovery import check_configuration
from kgd.model.access import Verb
from kgd.model.browser_state import Pages
from kgd.model.escaping import printable
from kgd.tools import addressing, nodes, worktrees
from kgd.tools.nodes import InvalidAnswer, moment, overlay_of
from kgd.tools.operation import USUAL, Command, Hints, Operation, Reflects, flag
from kgd.tools.paging import present
from kgd.tools.parameters import WorkspaceParams
from kgd.tools.proposals.seen import DecidedAnswer, decided_answer, decided_lately
from kgd.tools.session import Session
from kgd.workspace.answers import Stage
from kgd.workspace.proposals import proposals
from kgd.workspace.workspace import Workspace

RESOLVE_OPEN = Advice("Resolve the open conflicts: ", Do("conflicts"), " shows the sides of each.")
BROKEN_COUNTED = 1_000
INVALID_SHOWN = 20
BROKEN_SHOWN = 20
DECIDED_SHOWN = 10
COMMENTS_SHOWN = 3

BY_ITSELF = "Nothing is lost; kgd tries again by itself."

STAGE_REMEDIES = {
    "commit": "Make room on the disk, or make it writable; the next change is then written.",
    "publish": "Finish the named operation in .kgd; kgd then continues by itself.",
    "integrate": "Fix the named problem in .kgd; kgd then continues by itself.",
    "index": "Run `kgd doctor --fix`, which rebuilds the index.",
    "embedding": "Free a full disk, or check `embedder` in workspaces.yaml; `kgd reindex` rebuilds the vectors.",
    "mentions": "kgd tries again by itself; `kgd reindex` rebuilds them. Until then, searches use words only.",
    "code": "kgd tries again by itself. Until then, search finds stored nodes, and code only by file names.",
    "upkeep": "Nothing is lost; kgd tries again with the next changes.",
    "fetch": "Nothing is lost here; kgd tries again by itself, or at once with `kgd sync`.",
    "push": "Nothing is lost here; kgd tries again by itself, or at once with `kgd sync`.",
}
"""Remedy by failed stage, for a stage whose blocker names no command."""

REMEDIES = {
    "read-only: its disk": "Make the disk writable, then `kgd down`: the next command reopens it. Reads still work.",
    "read-only: it has": "Install the newer kgd that wrote it. Reads still work.",
    "registry entry ": "Correct its path, or set its id to that of the workspace there. Until then it is not used.",
    "program:": "Run `kgd down`, then any command; on a hub, `kgd serve --listen`, or restart its service.",
    "settings:": "Run `kgd down`: the next command starts a daemon with the new value.",
    "registry:": "Fix the named line in workspaces.yaml. Until then the last valid registry applies.",
    "organisation's registry:": "Fix the named line, or ask its maintainers to. Until then the last valid one applies.",
    "clone ": "Fix `remote`, `ref` or `token` of its entry in workspaces.yaml; the next traversal to it tries again.",
    "hub ": "Until it answers, relations to its workspaces are broken. `kgd whoami` checks the hub and your token.",
    "remotes:": "Run `kgd remote remove NAME`, and add it again.",
    "signing:": "Correct `signing_key` in workspaces.yaml, or git's user.signingkey. Until then, changes are refused.",
    "code tree:": "Run the command in the line, or move the code tree back. Stored nodes are still served.",
    "code history:": "Run the named command, or wait some minutes. Until then, answers lack past commits.",
    "stale nodes:": "kgd tries again with the next change. Until then, facts about changed code may not be marked.",
    "derived data:": "Nothing is lost; the next large change starts a process again. Until then, calls may be slower.",
    "too few file descriptors:": "Close some clients, or raise the limit: `ulimit -n 65536`, then `kgd down`.",
    "too many folders": "Changes are noticed within seconds; the named command makes that immediate.",
    "changes cannot be watched": "kgd still sees changes within seconds. To watch again: `kgd down`, then any command.",
    "refs/kgd/head was moved": "Restore the commits, or drop them, with one of the two commands in the line.",
    "history:": "kgd gets the objects from a remote that has them; or fetch them from another clone, as the line says.",
    "refs/": "In the workspace's repository: `git update-ref NAME VALUE`, with VALUE from this line or another copy.",
}
"""Remedy by the first words of any other sentence in `kgd status`."""


class PagesAnswer(TypedDict):
    """The address of the pages, and the number of signed-in browsers."""

    url: str
    browsers: int


class DaemonAnswer(TypedDict):
    pid: int
    version: str
    since: str
    log: str
    workspaces: list[str]
    open: NotRequired[int]
    listening: NotRequired[str]
    pages: NotRequired[PagesAnswer]


class WorkspaceAnswer(TypedDict):
    id: str
    path: str
    branch: str
    tip: str
    code_tree: NotRequired[str]
    note: NotRequired[str]
    read_only: NotRequired[str]


class StageAnswer(TypedDict):
    """One stage. `state` is ok, waiting, blocked, degraded or off; `age` is in seconds since `last_success`.
    `next` is the remedy for a failed stage whose blocker names no command."""

    name: str
    state: str
    about: NotRequired[str]
    last_success: NotRequired[str]
    age: NotRequired[int]
    blocker: NotRequired[str]
    blocked_for: NotRequired[int]
    next: NotRequired[str]


class BrokenLinkAnswer(TypedDict):
    """A relation to a missing node."""

    source: str
    type: str
    target: str


class WorkAnswer(TypedDict):
    """Work for a person, as in ``2 open conflicts``, and the operation that shows it."""

    what: str
    next: str


class StatusResult(TypedDict):
    daemon: DaemonAnswer
    health: Literal["ok", "waiting", "degraded", "blocked"]
    workspace: NotRequired[WorkspaceAnswer]
    unavailable: NotRequired[str]
    stages: list[StageAnswer]
    degraded: list[str]
    conflicts: int
    invalid_files: list[InvalidAnswer]
    misspelt_keys: NotRequired[list[str]]
    broken_links: list[BrokenLinkAnswer]
    proposals: int
    decided_proposals: NotRequired[list[DecidedAnswer]]
    """For the holder of a token: their proposals that others decided in the last 14 days, newest first."""
    jobs: list[JobAnswer]
    counts: dict[str, int]
    code: NotRequired[CodeAnswer]
    findings: NotRequired[list[FindingAnswer]]
    to_do: NotRequired[list[WorkAnswer]]
    next: NotRequired[str]


def status(session: Session, params: WorkspaceParams) -> StatusResult:
    """Report the state of the daemon and of a workspace; of the daemon alone if no workspace can be chosen. If the
    workspace of the caller's directory cannot be opened, `unavailable` is the reason.

    The holder of a token gets no local paths, other workspaces or hidden nodes.

    Raises:
        NotFound: The named workspace is unknown.
        Unavailable: The named workspace cannot be opened.
    """
    daemon = session.daemon
    answer: StatusResult = {
        "daemon": {
            "pid": daemon.pid,
            "version": daemon.version,
            "since": daemon.since,
            "log": daemon.home.log,
            "workspaces": daemon.workspace_ids(),
            "open": len(daemon.open_workspaces),
        },
        "health": "ok",
        "stages": [],
        "degraded": [],
        "conflicts": 0,
        "invalid_files": [],
        "broken_links": [],
        "proposals": 0,
        "jobs": [],
        "counts": {},
    }
    answer["daemon"] |= present(listening=daemon.listening)
    if session.principal is None:
        answer["daemon"] |= present(pages=_pages(daemon.pages))
        daemon.elsewhere.ask_hubs()
        answer["degraded"] += daemon.troubles()
    here = ""
    try:
        workspace = addressing.choose(session, params.workspace)
        here = workspace.id
    except (NotFound, Unavailable) as none:
        if params.workspace:
            raise
        answer["next"] = none.next
        if isinstance(none, Unavailable) and session.principal is None:
            answer["unavailable"] = f"{none.message}: {none.at}" if none.at else none.message
        if session.principal is not None:
            answer["daemon"] = _known_to(session, answer["daemon"])
            answer["degraded"] = []
    else:
        if session.principal is not None:
            return _for_holder(session, workspace, answer)
        _add_workspace(answer, workspace, daemon.stages(workspace))
        answer["workspace"] |= present(note=worktrees.note(workspace, session.own_cwd, "kgd serves"))
        answer["degraded"] += daemon.degraded(workspace)
        answer["jobs"] = _jobs_listed(daemon.jobs(workspace))
    if session.principal is None:
        answer["degraded"][:0] = [f"{one.name}: {one.detail}" for one in home_problems(daemon, here)]
    states = {stage["state"] for stage in answer["stages"]} | ({"degraded"} if answer["degraded"] else set())
    states |= {"blocked"} if "unavailable" in answer else set()
    answer["health"] = next((s for s in ("blocked", "degraded", "waiting") if s in states), "ok")
    if answer["health"] in ("blocked", "degraded"):
        answer.setdefault("next", Advice(Do("doctor"), " shows a remedy for each."))
    return answer


def _pages(pages: Pages | None) -> PagesAnswer | None:
    if pages is None or not pages.url:
        return None
    try:
        count = len(pages.browsers())
    except Unavailable:  # reported as a problem of the shared state
        count = 0
    return {"url": pages.url, "browsers": count}


def _for_holder(session: Session, workspace: Workspace, answer: StatusResult) -> StatusResult:
    """The part of a status that the holder of a token may see: no local paths, other workspaces or hidden nodes."""
    assert session.principal is not None
    sees, decided = session.sight(workspace.id), decided_lately(session, workspace)[:DECIDED_SHOWN]
    told: StatusResult = {
        "daemon": _known_to(session, answer["daemon"]),
        "health": "ok",
        "workspace": {"id": workspace.id, "path": "", "branch": workspace.layout.branch, "tip": workspace.tip},
        "stages": [],
        "degraded": [],
        "conflicts": workspace.conflicts.count(about=sees),
        "invalid_files": [],
        "broken_links": [],
        "proposals": proposals.count(workspace) if sees is None else 0,
        "jobs": [],
        "counts": {"nodes": len(workspace.graph)} if sees is None else {},
    }
    told |= present(decided_proposals=[decided_answer(workspace, one, COMMENTS_SHOWN) for one in decided])
    return told


def _known_to(session: Session, known: DaemonAnswer) -> DaemonAnswer:
    workspaces = addressing.visible(session)
    return {"pid": 0, "version": known["version"], "since": known["since"], "log": "", "workspaces": workspaces}


def _add_workspace(answer: StatusResult, workspace: Workspace, stages: list[Stage]) -> None:
    layout = workspace.layout
    here: WorkspaceAnswer = {
        "id": workspace.id,
        "path": str(layout.folder),
        "branch": layout.branch,
        "tip": workspace.tip,
    }
    here |= present(code_tree=str(layout.code_tree or ""), read_only=workspace.read_only)
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
    counts = {"nodes": len(workspace.graph), "broken_links": len(broken), "invalid_files": len(invalid)}
    counts |= present(unverified=len(Freshness.of(workspace).doubted))
    answer["counts"] = counts | tree_counts(workspace)
    answer["degraded"] += filter(None, [absence(workspace)])
    answer |= present(
        misspelt_keys=workspace.misspelt_keys()[:INVALID_SHOWN],
        code=code(workspace),
        findings=code_findings(workspace),
        to_do=open_work(workspace, answer["proposals"]),
        next=RESOLVE_OPEN if workspace.conflict_count else "",
    )


def open_work(workspace: Workspace, proposed: int) -> list[WorkAnswer]:
    """Decisions that need a person, given the number of open proposals. None of them is a defect."""
    doubted, disputed = len(Freshness.of(workspace).doubted), workspace.conflict_count
    counted: tuple[tuple[int, str, str, Advice], ...] = (
        (proposed, "proposal to decide", "proposals to decide", Advice(Do("proposals"), " lists them.")),
        (doubted, "stale node", "stale nodes", Advice(Do("stale"), " shows what changed.")),
        (disputed, "open conflict", "open conflicts", Advice(Do("conflicts"), " shows the sides of each.")),
    )
    return [{"what": f"{n:,} {one if n == 1 else many}", "next": then} for n, one, many, then in counted if n]


def absence(workspace: Workspace) -> str:
    """The reason why the code tree cannot be served in full; empty if it can."""
    overlay = overlay_of(workspace)
    report = overlay.report() if overlay is not None else None
    return f"code tree: {report.reason}" if report is not None and report.reason else ""


def _stage(stage: Stage) -> StageAnswer:
    now = time.time()
    answer: StageAnswer = {"name": stage.name, "state": stage.state}
    if stage.last_success is not None:
        answer["last_success"], answer["age"] = moment(stage.last_success), max(0, int(now - stage.last_success))
    if stage.since is not None:
        answer["blocked_for"] = max(0, int(now - stage.since))
    answer |= present(about=stage.about, blocker=stage.blocker, next=remedy_of_stage(stage))
    return answer


STATUS = Operation(
    name="status",
    title="Health",
    description=(
        "Health of the daemon and a workspace: stages and their blockers, conflicts, invalid files, counts, stale "
        "nodes."
    ),
    hints=Hints(read_only=True, idempotent=True),
    run=status,
    offered=USUAL,
    place=100,
    scope=Verb.READ,
    reflects=Reflects.NOW,
    commands=(
        Command(
            "Running",
            "show the workspace, what needs attention, and whether it is shared",
            (flag("-v --verbose", "also show the daemon, its log, and every stage"),),
            place=50,
            print="printing_running.status",
            before_setup="local.status_before_setup",
        ),
    ),
)


class LanguageAnswer(TypedDict):
    files: int
    symbols: int


class MissingAnswer(TypedDict):
    """A language with files but without a grammar; `install` names the package to install."""

    language: str
    files: int
    install: str


class CodeAnswer(TypedDict):
    """Contents of the code files. `waiting` means that the tree is not listed yet. `left` is the number of files that
    are still to be read; `left_out` counts the skipped files by reason."""

    state: Literal["waiting", "reading", "ready"]
    left: int
    symbols: int
    languages: dict[str, LanguageAnswer]
    documents: int
    chunks: int
    left_out: dict[str, int]
    missing: list[MissingAnswer]
    trouble: NotRequired[str]


def code(workspace: Workspace) -> CodeAnswer | None:
    """The contents of the code files, or None without a code tree. O(files), from memory and the derived index."""
    overlay = overlay_of(workspace)
    report = overlay.inside.report() if overlay is not None and overlay.inside is not None else None
    return cast("CodeAnswer", report) if report else None


NAMED = 20
"""Largest number of commits to name for a finding, newest first."""


class FindingAnswer(TypedDict):
    """A sentence about files in the code's newest commits. `kind` is ``together``, ``reverted`` or ``fixes``; `commits`
    are some of the `count` commits that support it.

    `chance` is the probability that chance alone gives this result (Fisher's exact test, before correction).
    """

    kind: str
    what: str
    paths: list[str]
    count: int
    commits: list[str]
    chance: float


def code_findings(workspace: Workspace) -> list[FindingAnswer]:
    """Up to three findings. Takes up to a second for a newly checked-out commit; later calls take no time."""
    return [
        {
            "kind": one.kind,
            "what": printable(one.text),
            "paths": [printable(path) for path in one.paths],
            "count": len(one.commits),
            "commits": [id[:12] for id in one.commits[:NAMED]],
            "chance": float(f"{one.chance:.2g}"),
        }
        for one in CodeHistory.of(workspace).findings()
    ]


def remedy_of_stage(stage: Stage) -> str:
    """The remedy for a stage; empty if the stage is healthy or its blocker names a command."""
    if stage.state not in ("blocked", "degraded") or "`" in stage.blocker:
        return ""
    return STAGE_REMEDIES.get(stage.name.partition(" ")[0], BY_ITSELF)


def remedy(sentence: str) -> str:
    """The remedy for a state that `kgd status` describes in one sentence."""
    return next((found for start, found in REMEDIES.items() if sentence.startswith(start)), BY_ITSELF)


def tree_counts(workspace: Workspace) -> dict[str, int]:
    """Counts of the files that the code tree serves and skips; empty without a code tree."""
    overlay = overlay_of(workspace)
    report = overlay.report() if overlay is not None else None
    if report is None:
        return {}
    counted = {
        "files": report.files,
        "directories": report.directories,
        "bytes": report.bytes,
        "text": report.text,
        "binary": report.binary,
        "large": report.large,
        "unreadable": report.unreadable,
        "symlinks": report.symlinks,
        "ignored": report.ignored,
    }
    return counted | {f"skipped_{why.replace(' ', '_')}": count for why, count in sorted(report.skipped.items())}


JOBS_LISTED = 10
"""Largest number of jobs that `status` lists: unfinished jobs, then the latest finished ones."""
TROUBLES_LISTED = 3
TROUBLES_SHOWN = 50


class JobAnswer(TypedDict):
    """`state` is running, done or failed. A queued job is reported as running with nothing done."""

    id: str
    kind: str
    source: str
    state: str
    done: int
    total: NotRequired[int]
    counts: dict[str, int]
    nodes: list[str]
    trouble: list[str]
    more_trouble: NotRequired[int]
    began: str
    ended: NotRequired[str]
    failure: NotRequired[str]


class JobParams(WorkspaceParams):
    id: str
    wait: Annotated[float, Field(ge=0, le=60, description="seconds to wait for its end")] = 0


def job(session: Session, params: JobParams) -> JobAnswer:
    """The state of a job. With `wait`, returns when the job has ended, or after that many seconds."""
    workspace = addressing.choose(session, params.workspace)
    jobs = session.daemon.jobs(workspace)
    return job_answer(jobs.wait(params.id, params.wait, lambda one: session.progress(one.done, one.total, one.source)))


def _jobs_listed(jobs: Jobs) -> list[JobAnswer]:
    """Unfinished jobs, then the newest finished jobs, each with a few problems."""
    found = jobs.all()
    chosen = [one for one in found if not one.is_over] + [one for one in found if one.is_over]
    return [job_answer(one, TROUBLES_LISTED, nodes=3) for one in chosen[:JOBS_LISTED]]


def job_answer(job: Job, troubles: int = TROUBLES_SHOWN, *, nodes: int = 100) -> JobAnswer:
    answer: JobAnswer = {
        "id": job.id,
        "kind": job.kind,
        "source": job.source,
        "state": job.state,
        "done": job.done,
        "counts": {name: count for name, count in sorted(job.counts.items()) if count},
        "nodes": job.uris[:nodes],
        "trouble": job.trouble[:troubles],
        "began": moment(job.began),
    }
    answer |= {"total": job.total} if job.total is not None else {}
    answer |= present(
        more_trouble=job.more_trouble + len(job.trouble[troubles:]),
        ended=moment(job.ended) if job.ended is not None else "",
        failure=job.failure,
    )
    return answer


JOB = Operation(
    name="job",
    title="Progress of a job",
    description="The progress of an ingestion.",
    hints=Hints(read_only=True, idempotent=True),
    run=job,
)


class HomeProblem(NamedTuple):
    """`name` is the part with the problem, `next` the remedy."""

    name: str
    detail: str
    next: str


def home_problems(daemon: Daemon, only: str = "") -> Iterator[HomeProblem]:
    """An unrelated package with the same import name, and registered paths without a workspace that kgd can read: all
    of them, or the path of the workspace `only`."""
    try:
        other = metadata.version("kgd")
    except metadata.PackageNotFoundError:
        pass
    else:
        yield HomeProblem(
            "program",
            f"another package, kgd {other}, is installed over kgd-daemon",
            "Run `pip uninstall kgd`, then install kgd-daemon again: both use the import name kgd.",
        )
    for id, entry in sorted(daemon.registry.current().entries.items()):
        if only in ("", id) and (told := problem_of(daemon, entry)):
            yield HomeProblem(id, f"{told.message}: {told.at}", told.next)


def problem_of(daemon: Daemon, entry: Entry) -> KgdError | None:
    """The reason why the workspace at a registered path cannot be opened. Does not open it."""
    try:
        if entry.path:
            layout = daemon.places.layout(entry)
            check_configuration(layout.git_dir, layout.work_tree)
    except KgdError as error:
        return error
    except OSError as error:
        return Unavailable(str(error.strerror), at=entry.path)
    return None

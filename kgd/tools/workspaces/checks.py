"""The `fsck`, `doctor`, `reindex` and `verify_history` tools: checks of a workspace, its home and its signatures, and
automatic repairs.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.errors import Advice, Do, KgdError, NotFound, Unavailable
from kgd.model.escaping import printable
from kgd.tools import addressing, nodes
from kgd.tools.operation import Command, Hints, Operation, option
from kgd.tools.paging import present
from kgd.tools.parameters import WorkspaceParams
from kgd.tools.session import Session
from kgd.tools.workspaces import status
from kgd.tools.workspaces.status import absence
from kgd.workspace.answers import Finding, Stage
from kgd.workspace.check import check
from kgd.workspace.history.pushers import SignedHistory, Verdict
from kgd.workspace.proposals import proposals
from kgd.workspace.workspace import Workspace

REPORT_SECONDS = 0.2
"""Seconds between two reports of progress."""
LOOK_AGAIN = 2.0
"""Seconds to wait after a repair for blocked or waiting stages to continue."""

HUB_IDS = 8
HEALTHY = ("ok", "fixed", "waiting", "off", "to do")
"""States of checks that found no defect."""


class Problem(TypedDict):
    """One problem; `next` is the remedy."""

    level: str
    path: str
    reason: str
    next: NotRequired[str]


class FsckResult(TypedDict):
    ok: bool
    workspace: str
    nodes: int
    problems: list[Problem]


def fsck(session: Session, params: WorkspaceParams) -> FsckResult:
    """Check that all stored data can be read, and that all derived data matches it. Reads the whole tip.

    Raises:
        KgdError: The workspace is unknown or cannot be opened.
    """
    workspace = addressing.choose(session, params.workspace)
    found = [_problem(one) for one in check(workspace, session.progress)]
    return {"ok": not found, "workspace": workspace.id, "nodes": len(workspace.graph), "problems": found}


def _problem(one: Finding) -> Problem:
    answer: Problem = {"level": one.level, "path": printable(one.where), "reason": one.message}
    answer |= present(next=one.fix)
    return answer


class DoctorParams(WorkspaceParams):
    fix: bool = False
    confirm_deletions: bool = False


class Check(TypedDict):
    """One check. `state` is ok, fixed, waiting, off, to do (work for a person), warning, error or damage."""

    name: str
    state: str
    detail: str
    next: NotRequired[str]


class DoctorResult(TypedDict):
    ok: bool
    checks: list[Check]


def doctor(session: Session, params: DoctorParams) -> DoctorResult:
    """Report problems of the home and its workspaces; with `fix`, make the repairs that lose no data.

    Checks the workspace of the call, or all open workspaces if the call names no workspace. Reads the whole tip of
    each, and asks every hub. `confirm_deletions` deletes the nodes of files that are missing in the work tree; without
    it, kgd keeps those nodes if many files are missing.

    Raises:
        KgdError: The workspace is unknown, cannot be opened, or cannot be written. Without a named workspace only
            `confirm_deletions` needs one.
    """
    checks = [_registry(session), _pages(session), *_around(session)]
    try:
        chosen = [addressing.choose(session, params.workspace, writing=params.confirm_deletions)]
    except (NotFound, Unavailable) as none:
        if params.workspace or params.confirm_deletions:
            raise
        if isinstance(none, Unavailable) and not any(none.message in one["detail"] for one in checks):
            checks.append(_unavailable("workspace", none))
        chosen = [one for one in session.daemon.opened() if session.daemon.use(one)]
    for workspace in chosen:
        checks += _looked_at(session, workspace, params)
        checks += [_stage(workspace, stage, stage) for stage in session.daemon.syncing(workspace).stages()]
        checks += [_told(workspace, "warning", text) for text in session.daemon.degraded(workspace)]
        checks += _open_work(workspace)
    return {"ok": all(one["state"] in HEALTHY for one in checks), "checks": checks}


def _open_work(workspace: Workspace) -> Iterator[Check]:
    """The work that `status` lists."""
    if broken := len(workspace.broken_links(status.BROKEN_COUNTED)):
        detail = f"{broken:,} broken link{'s' if broken > 1 else ''}"
        yield {"name": workspace.id, "state": "to do", "detail": detail, "next": Advice(Do("status"), " lists them.")}
    for one in status.open_work(workspace, proposals.count(workspace)):
        yield {"name": workspace.id, "state": "to do", "detail": one["what"], "next": one["next"]}


def _registry(session: Session) -> Check:
    problem = session.daemon.registry.problem
    if problem is None:
        count, opened = len(session.daemon.workspace_ids()), len(session.daemon.open_workspaces)
        detail = f"{count} workspaces, {opened} open" if count != 1 else "1 workspace"
        return {"name": "registry", "state": "ok", "detail": detail}
    then = problem.next or status.remedy("registry:")
    return {"name": "registry", "state": "error", "detail": problem.message, "next": then}


def _pages(session: Session) -> Check:
    pages = session.daemon.pages
    if pages is None or not pages.url:
        return {"name": "pages", "state": "off", "detail": "not opened yet", "next": "`kgd ui` opens them."}
    count = len(pages.browsers())
    who = "one browser" if count == 1 else f"{count} browsers"
    return {"name": "pages", "state": "ok", "detail": f"at {pages.url}, for {who}"}


def _around(session: Session) -> Iterator[Check]:
    """Problems of the home, the state of every hub, and the daemon's other problems.

    Asks every hub, which takes some seconds for a hub that hangs.
    """
    for one in status.home_problems(session.daemon):
        yield {"name": one.name, "state": "error", "detail": one.detail, "next": one.next}
    elsewhere = session.daemon.elsewhere
    for url, ids in elsewhere.hubs():
        found: Check = {"name": f"hub {url}"[:120], "state": "ok", "detail": f"has {', '.join(ids[:HUB_IDS])}"}
        try:
            elsewhere.who(ids[0])
        except KgdError as error:
            then = error.next or status.remedy(f"hub {url}")
            found |= {"state": "warning", "detail": error.message, "next": then}
        yield found
    for text in session.daemon.troubles():
        if not text.startswith(("registry: ", "hub ")):
            name = "daemon" if text.startswith(("program: ", "too few file")) else "elsewhere"
            yield {"name": name, "state": "warning", "detail": text, "next": status.remedy(text)}


def _unavailable(name: str, error: KgdError) -> Check:
    return {"name": name, "state": "error", "detail": f"{error.message}: {error.at}", "next": error.next}


def _looked_at(session: Session, workspace: Workspace, params: DoctorParams) -> list[Check]:
    before = workspace.health()
    if params.confirm_deletions:
        workspace.confirm_deletions()
    found, mended = check(workspace, session.progress), list[Finding]()
    if params.fix:
        workspace.hint(None)
        if before["index"].state == "degraded" or any("reindex" in one.fix for one in found):
            workspace.reindex()
            after = check(workspace)
            found, mended = after, [one for one in found if one not in after]
    if params.fix or params.confirm_deletions:
        _wait_until_it_goes_on(workspace)
    return [
        *(_stage(workspace, stage, before[stage.name]) for stage in workspace.health().values()),
        *(_finding(workspace, one, "fixed") for one in mended),
        *(_finding(workspace, one, one.level) for one in found),
        *_unread(workspace, {one.where for one in found}),
        *_others(workspace),
    ] + ([] if found else [_told(workspace, "ok", "all stored data can be read")])


def _wait_until_it_goes_on(workspace: Workspace) -> None:
    deadline = time.monotonic() + LOOK_AGAIN
    while any(one.state in ("blocked", "waiting") for one in workspace.health().values()):
        if time.monotonic() > deadline:
            return
        time.sleep(0.05)


def _stage(workspace: Workspace, stage: Stage, before: Stage) -> Check:
    levels = {"blocked": "error", "degraded": "warning"}
    was_wrong = before.state in levels
    state = levels.get(stage.state) or ("fixed" if was_wrong and stage.state == "ok" else stage.state)
    answer: Check = {"name": f"{workspace.id} {stage.name}", "state": state, "detail": stage.blocker}
    answer |= {"detail": before.blocker} if state == "fixed" else present(next=status.remedy_of_stage(stage))
    return answer


def _finding(workspace: Workspace, one: Finding, state: str) -> Check:
    name = f"{workspace.id} {printable(one.where)}"[:120]
    answer: Check = {"name": name, "state": state, "detail": one.message}
    answer |= present(next=one.fix.replace("`kgd reindex`", "`kgd doctor --fix`") if state != "fixed" else "")
    return answer


def _unread(workspace: Workspace, known: set[str]) -> Iterator[Check]:
    """Unreadable files that need a repair by hand, except the `known` paths."""
    for one in workspace.invalid_files():
        if one.path not in known:
            told = nodes.invalid(workspace, one)
            name = f"{workspace.id} {told['path']}:{told['line']}"
            yield {"name": name, "state": "warning", "detail": told["reason"], "next": told["next"]}


def _others(workspace: Workspace) -> Iterator[Check]:
    stages = {f"{stage.name}: {stage.blocker}" for stage in workspace.health().values()}
    for text in (*workspace.degraded(), *filter(None, [absence(workspace)])):
        if text not in stages:
            yield _told(workspace, "warning", text)


def _told(workspace: Workspace, state: str, text: str) -> Check:
    told: Check = {"name": workspace.id, "state": state, "detail": text}
    told |= present(next=status.remedy(text) if state != "ok" else "")
    return told


class ReindexResult(TypedDict):
    workspace: str
    nodes: int


def reindex(session: Session, params: WorkspaceParams) -> ReindexResult:
    """Delete all derived data of a workspace and build it again. Answers stay the same.

    Raises:
        KgdError: The workspace is unknown or cannot be opened.
    """
    workspace = addressing.choose(session, params.workspace)
    with ThreadPoolExecutor(1, "kgd-reindex") as thread:
        running = thread.submit(workspace.reindex)
        while not wait([running], REPORT_SECONDS).done:
            doing, done, total = workspace.index_work
            session.progress(done, total or None, doing or "rebuilding the index")
        running.result()
    return {"workspace": workspace.id, "nodes": len(workspace.graph)}


FSCK = Operation(
    name="fsck",
    title="Check a workspace",
    description="Reads all stored data and compares the derived data with it.",
    hints=Hints(read_only=True, idempotent=True),
    run=fsck,
    commands=(Command("Care", "check every stored object and node", place=60, print="printing_running.fsck"),),
)
DOCTOR = Operation(
    name="doctor",
    title="Find problems",
    description="Checks the home and its workspaces, and repairs with `fix`.",
    hints=Hints(idempotent=True),
    run=doctor,
    commands=(
        Command(
            "Running",
            "check everything, and suggest repairs",
            (
                option("--fix", "make the repairs that lose no data"),
                option("--confirm-deletions", "delete the nodes of the many files missing in .kgd"),
            ),
            place=60,
            examples=(("kgd doctor --fix", "make the repairs that lose no data"),),
            print="printing_running.doctor",
        ),
    ),
)
REINDEX = Operation(
    name="reindex",
    title="Rebuild derived data",
    description="Deletes the text index, versions and snapshot, and builds them again.",
    hints=Hints(idempotent=True),
    run=reindex,
    commands=(
        Command("Care", "delete all derived data and build it again", place=50, print="printing_running.reindex"),
    ),
)


PROBLEMS = 100
"""Largest number of problems in an answer."""
LISTED = 100_000
BEAT = 500
"""Number of commits between two reports of progress."""


class VerifyHistoryParams(WorkspaceParams):
    since: Annotated[str | None, Field(description="check only commits that this commit does not contain")] = None
    all: Annotated[bool, Field(description="list every commit")] = False


class SignedCommit(TypedDict):
    """A commit with the state of its signature."""

    commit: str
    state: str
    author: str
    by: NotRequired[str]
    reason: NotRequired[str]


class Signer(TypedDict):
    by: str
    commits: int


class VerifyHistoryResult(TypedDict):
    """`problems` are bad signatures, and commits without an allowed signature where the settings require one."""

    ok: bool
    workspace: str
    commits: int
    counts: dict[str, int]
    signers: list[Signer]
    required: bool
    problems: list[SignedCommit]
    more_problems: int
    warnings: list[str]
    listed: NotRequired[list[SignedCommit]]


def verify_history(session: Session, params: VerifyHistoryParams) -> VerifyHistoryResult:
    """Check the signature of each commit in the history of the tip, with the keys in `allowed_signers`.

    Raises:
        NotFound: There is no such commit.
        KgdError: The workspace is unknown or cannot be opened, or its history cannot be read.
    """
    workspace = addressing.choose(session, params.workspace)
    since = bytes.fromhex(session.commit(workspace, params.since)) if params.since else None
    tip = bytes.fromhex(workspace.tip)
    history = SignedHistory(workspace.store, tip, workspace.sharded)
    states, signers = Counter[str](), Counter[str]()
    problems, listed, total = list[SignedCommit](), list[SignedCommit](), 0
    for number, found in enumerate(history.walk(since), 1):
        states[found.state] += 1
        signers.update([found.by] if found.state in ("signed", "attested") else [])
        if not found.is_accepted:
            total += 1
            problems += [_commit(found)] if total <= PROBLEMS else []
        if params.all and number <= LISTED:
            listed.append(_commit(found))
        if number % BEAT == 0:
            session.progress(number, 0, "checking signatures")
    answer: VerifyHistoryResult = {
        "ok": not total,
        "workspace": workspace.id,
        "commits": states.total(),
        "counts": dict(states),
        "signers": [{"by": by, "commits": count} for by, count in signers.most_common()],
        "required": history.requires(tip),
        "problems": problems,
        "more_problems": total - len(problems),
        "warnings": [*history.signers(tip).problems, *_missing(history, workspace)],
    }
    return {**answer, "listed": listed} if params.all else answer


def _commit(found: Verdict) -> SignedCommit:
    answer: SignedCommit = {"commit": found.commit.id.hex(), "state": found.state, "author": found.commit.author.name}
    answer |= present(by=found.by, reason=found.reason)
    return answer


def _missing(history: SignedHistory, workspace: Workspace) -> list[str]:
    if history.signers(bytes.fromhex(workspace.tip)).lines:
        return []
    return ["allowed_signers at the tip lists no keys, so no signature is accepted"]


VERIFY_HISTORY = Operation(
    name="verify_history",
    title="Check signatures",
    description="Reports the signer of each commit, and commits without a signature.",
    hints=Hints(read_only=True, idempotent=True),
    run=verify_history,
    commands=(
        Command(
            "Care",
            "check the signatures of all commits",
            (
                option("--since", "only commits that COMMIT does not contain", "COMMIT"),
                option("--all", "list every commit"),
            ),
            name="verify-history",
            place=65,
            examples=(("kgd verify-history --all", "each commit with the state of its signature"),),
            print="printing_running.verify_history",
        ),
    ),
)

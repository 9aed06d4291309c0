"""The `verify_history` tool: the signer of each commit."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.tools import addressing
from kgd.tools.operation import Command, Hints, Operation, option
from kgd.tools.session import Session
from kgd.tools.workspaces.status import WorkspaceParams
from kgd.workspace.history.signed_history import SignedHistory, Verdict
from kgd.workspace.workspace import Workspace

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
    answer: SignedCommit = {"commit": found.commit.id.hex(), "state": found.state, "author": found.commit.author_name}
    if found.by:
        answer["by"] = found.by
    if found.reason:
        answer["reason"] = found.reason
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
            print="printing_running.verify_history",
        ),
    ),
)

"""Administration of a hub: mint, list, narrow, rotate and revoke tokens, read the audit log and the metrics, and move
the state of a single hub into PostgreSQL, before several hubs share it.

For this machine's own command line only. The text of a token appears in one answer and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.daemon import metrics
from kgd.daemon.tokens import Minted, Tokens
from kgd.errors import Invalid, KgdError, Unavailable
from kgd.model.access import Principal, Scope, Verb, check_reach
from kgd.model.token import AuditEntry, ChainCheck, Quota, TokenRecord
from kgd.tools import addressing
from kgd.tools.nodes import moment
from kgd.tools.operation import Hints, Operation
from kgd.tools.paging import present
from kgd.tools.parameters import Many, Params, WorkspaceParams
from kgd.tools.session import Session

LONGEST_DAYS = 366
QUOTA = Quota()
_SPAN = re.compile(r"(\d{1,6})([smhdw])").fullmatch
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


class ScopeParams(Params):
    """The parts of a token's scopes."""

    verbs: Many[str] = Field(default_factory=lambda: ["read"])
    paths: Many[str] = Field(default_factory=lambda: ["/**"])
    also: Annotated[Many[str], Field(description="further scopes, as VERBS:PATHS, such as read:/**")] = Field(
        default_factory=list
    )
    expires: Annotated[str, Field(description="30d, 12h, or a date")] = "30d"
    kind: Literal["person", "agent"] = "agent"


class MintParams(ScopeParams):
    workspace: str
    name: str
    requests_per_minute: Annotated[int, Field(ge=1, le=1_000_000)] = QUOTA.requests_per_minute
    bytes_per_day: Annotated[int, Field(ge=1)] = QUOTA.bytes_per_day
    nodes_per_day: Annotated[int, Field(ge=0)] = QUOTA.nodes_per_day
    pending_proposals: Annotated[int, Field(ge=0)] = QUOTA.pending_proposals


class ChildParams(ScopeParams):
    id: Annotated[str, Field(description="the parent token")]
    name: str
    workspace: str | None = None
    expires: str = "1d"


class TokenParams(WorkspaceParams):
    id: str


class RotateParams(TokenParams):
    expires: str = "30d"


class LogParams(WorkspaceParams):
    id: str | None = None
    limit: Annotated[int, Field(ge=1, le=10_000)] = 50


class AuditParams(WorkspaceParams):
    after: Annotated[int, Field(ge=0, description="the number of the last line already seen")] = 0
    limit: Annotated[int, Field(ge=1, le=1_000)] = 1_000


class VerifyParams(WorkspaceParams):
    number: Annotated[int, Field(ge=0, description="number of a line in an earlier export, or 0")] = 0
    hash: Annotated[str, Field(description="the hash of that line")] = ""


class MintResult(TypedDict):
    token: str
    id: str
    expires: str
    warnings: list[str]
    revoked: NotRequired[list[str]]


class ScopeAnswer(TypedDict):
    workspace: str
    verbs: list[str]
    paths: list[str]


class TokenAnswer(TypedDict):
    """One token without its text, which is not stored. `state` is live, expired or revoked."""

    id: str
    name: str
    kind: str
    state: str
    scopes: list[ScopeAnswer]
    created: str
    expires: str
    last_used: NotRequired[str]
    parent: NotRequired[str]


class ListResult(TypedDict):
    tokens: list[TokenAnswer]


class RevokeResult(TypedDict):
    revoked: list[str]


class TrailAnswer(TypedDict):
    at: str
    token: str
    action: str
    workspace: NotRequired[str]
    detail: NotRequired[str]


class LogResult(TypedDict):
    entries: list[TrailAnswer]


class AuditLine(TrailAnswer):
    """A line. `hash` chains it to the line before; it is missing until the line is a few minutes old."""

    number: int
    hash: NotRequired[str]


class AuditResult(TypedDict):
    """The next lines of the audit log, oldest first; empty at the end of the log."""

    lines: list[AuditLine]


class VerifyResult(TypedDict):
    """The chain from the line `first` to the line `last`, whose hash is `hash`. `open` counts the newer lines."""

    ok: bool
    first: int
    last: int
    hash: str
    open: int
    problems: list[str]


def mint(session: Session, params: MintParams) -> MintResult:
    tokens = session.daemon.tokens
    workspace = addressing.choose(session, params.workspace)
    scopes = _scopes(workspace.id, params)
    quota = Quota(params.requests_per_minute, params.bytes_per_day, params.nodes_per_day, params.pending_proposals)
    made = tokens.mint(
        params.name,
        params.kind,
        scopes,
        _end(params.expires, tokens.now()),
        quota=quota,
        by=session.author(workspace).name,
    )
    warnings = []
    for scope in (one for one in scopes if not one.is_whole):  # a whole scope is valid even in an empty workspace
        try:
            check_reach(scope, workspace.graph.uris())
        except KgdError as none_yet:
            warnings.append(str(none_yet))
    return _minted(made, warnings)


def child(session: Session, params: ChildParams) -> MintResult:
    """Mint a token with at most the permissions of its parent. It becomes invalid together with its parent."""
    tokens = session.daemon.tokens
    return _minted(mint_child(tokens, tokens.record(params.id).holder, params))


def mint_child(tokens: Tokens, parent: Principal, params: ScopeParams) -> Minted:
    """As `Tokens.mint_child`. The workspace may be omitted if the parent has only one."""
    workspace = getattr(params, "workspace", None)
    own = sorted({scope.workspace for scope in parent.scopes})
    if workspace is None and len(own) == 1:
        workspace = own[0]
    if workspace is None:
        raise Invalid("the token has several workspaces", at="workspace", next=f"Name one: {', '.join(own)}.")
    now = tokens.now()
    end = _end(params.expires, now)
    if parent.expires is not None and "expires" not in params.model_fields_set:
        end = min(end, int(parent.expires))
    return tokens.mint_child(parent.id, getattr(params, "name", ""), params.kind, _scopes(workspace, params), end)


def listed(session: Session, params: WorkspaceParams) -> ListResult:
    """List the tokens, oldest first."""
    tokens = session.daemon.tokens
    now = tokens.now()
    return {
        "tokens": [
            describe(one, now)
            for one in tokens.state.all()
            if not params.workspace or any(scope.workspace == params.workspace for scope in one.holder.scopes)
        ]
    }


def revoke(session: Session, params: TokenParams) -> RevokeResult:
    return {"revoked": session.daemon.tokens.revoke(params.id)}


def rotate(session: Session, params: RotateParams) -> MintResult:
    tokens = session.daemon.tokens
    made = tokens.rotate(params.id, _end(params.expires, tokens.now()))
    return {**_minted(made), "revoked": [params.id]}


def trail(session: Session, params: LogParams) -> LogResult:
    tokens = session.daemon.tokens
    if params.id:
        tokens.record(params.id)
    return {"entries": list(map(_trail_answer, tokens.trail(params.id, params.limit)))}


def audit(session: Session, params: AuditParams) -> AuditResult:
    """List audit lines after a number, oldest first, including lines moved to files."""
    found = session.daemon.tokens.lines(params.after, params.limit)
    return {
        "lines": [
            {"number": number, **_trail_answer(one), **present(hash=one.hash)}  # type: ignore[typeddict-item]
            for number, one in found
        ]
    }


def verify(session: Session, params: VerifyParams) -> VerifyResult:
    """Check the chain of hashes over the whole audit log, and that it contains a line of an earlier export."""
    tokens, found, after, hash = session.daemon.tokens, ChainCheck(), 0, ""
    while lines := tokens.lines(after, 1_000):
        for number, one in lines:
            found.add(number, one)
            hash = one.hash if number == params.number else hash
        after = lines[-1][0]
        session.progress(after, 0, "checking the audit log")
    if params.number >= max(found.first, 1) and hash != params.hash:
        found.problems.append(f"line {params.number} is missing, or differs from the export")
    return {
        "ok": not found.problems,
        "first": found.first,
        "last": found.last,
        "hash": found.hash,
        "open": found.open,
        "problems": found.problems,
    }


def _trail_answer(one: AuditEntry) -> TrailAnswer:
    entry: TrailAnswer = {"at": moment(one.at), "token": one.token, "action": one.action}
    entry |= present(workspace=one.workspace, detail=one.detail)
    return entry


def describe(record: TokenRecord, now: float) -> TokenAnswer:
    """A token as lists show it."""
    holder = record.holder
    state = "revoked" if record.revoked else "live" if record.is_live(now) else "expired"
    answer: TokenAnswer = {
        "id": holder.id,
        "name": holder.name,
        "kind": holder.kind,
        "state": state,
        "scopes": [scope.as_dict() for scope in holder.scopes],  # type: ignore[misc]
        "created": moment(record.created),
        "expires": moment(int(holder.expires or 0)),
    }
    answer |= present(last_used=moment(record.last_used) if record.last_used else "", parent=holder.parent)
    return answer


def _minted(made: Minted, warnings: Sequence[str] = ()) -> MintResult:
    holder = made.record.holder
    expires = moment(int(holder.expires or 0))
    return {"token": made.text, "id": holder.id, "expires": expires, "warnings": list(warnings)}


def _scopes(workspace: str, params: ScopeParams) -> tuple[Scope, ...]:
    scopes = [Scope.of(workspace, _split(params.verbs), _split(params.paths))]
    for text in params.also:
        verbs, colon, paths = text.partition(":")
        if not colon:
            raise Invalid("a further scope must have the form VERBS:PATHS", at="also", next="For example read:/** .")
        scopes.append(Scope.of(workspace, _split([verbs]), _split([paths])))
    for scope in scopes:
        if Verb.ADMIN in scope.verbs and not scope.is_whole:
            raise Invalid(
                "'admin' needs a whole workspace: with only a part of it, 'admin' allows nothing",
                at="verbs",
                next="Leave it out, or add it as a scope of its own: --also 'admin:/**'.",
            )
    return tuple(scopes)


def _split(texts: Iterable[str]) -> list[str]:
    return [part.strip() for text in texts for part in text.split(",") if part.strip()]


def _end(text: str, now: float) -> int:
    """The expiry of a token in epoch seconds, from a duration or a date.

    Raises:
        Invalid: The text is neither, or the expiry is in the past or more than a year away.
    """
    if span := _SPAN(text.strip()):
        end = int(now) + int(span[1]) * _SECONDS[span[2]]
    else:
        try:
            found = datetime.fromisoformat(text.strip())
        except ValueError:
            raise Invalid("an expiry must be a duration such as 30d or 12h, or a date", at="expires") from None
        end = int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp())
    if not now < end <= now + LONGEST_DAYS * 86_400:
        raise Invalid(
            f"a token must expire within the next {LONGEST_DAYS} days", at="expires", next="Rotate it before then."
        )
    return end


TOKEN_MINT = Operation(
    name="token_mint",
    title="Mint a token",
    description="Creates a token for one workspace of this hub; shown once.",
    hints=Hints(),
    run=mint,
)
TOKEN_CHILD = Operation(
    name="token_child",
    title="Narrow a token",
    description="Creates a token with at most the permissions of another.",
    hints=Hints(),
    run=child,
)
TOKEN_LIST = Operation(
    name="token_list",
    title="Tokens",
    description="Lists the tokens of this hub, without their text.",
    hints=Hints(read_only=True, idempotent=True),
    run=listed,
)
TOKEN_REVOKE = Operation(
    name="token_revoke",
    title="Revoke a token",
    description="Revokes a token and all tokens made from it, at once.",
    hints=Hints(destructive=True, idempotent=True),
    run=revoke,
)
TOKEN_ROTATE = Operation(
    name="token_rotate",
    title="Replace a token",
    description="Creates a token for the same holder; revokes the old.",
    hints=Hints(destructive=True),
    run=rotate,
)
TOKEN_LOG = Operation(
    name="token_log",
    title="Token activity",
    description="The audit trail of this hub, newest first.",
    hints=Hints(read_only=True, idempotent=True),
    run=trail,
)
TOKEN_AUDIT = Operation(
    name="token_audit",
    title="Audit log",
    description="The audit log of this hub, oldest first, page by page.",
    hints=Hints(read_only=True, idempotent=True),
    run=audit,
)
TOKEN_VERIFY = Operation(
    name="token_verify",
    title="Check the audit log",
    description="Checks that no line of the audit log was changed, removed or moved.",
    hints=Hints(read_only=True, idempotent=True),
    run=verify,
)


class MigrateParams(WorkspaceParams):
    state: Annotated[str, Field(description="postgres://…")]


class MigrateResult(TypedDict):
    """Counts of this call; an earlier call may have moved more."""

    database: str
    tokens: int
    answers: int
    lines: int


def migrate(session: Session, params: MigrateParams) -> MigrateResult:
    """Move tokens, quotas, answers and the audit log of this home's hub, which must not be running."""
    daemon = session.daemon
    if daemon.listening or daemon.shared:
        raise Unavailable("a hub serves this home", at=daemon.listening, next="Stop it, and repeat the command.")
    from kgd.daemon.shared_state import move  # psycopg is optional

    with daemon.tokens.set_aside():
        moved, name = move(Path(daemon.home.state) / "hub.db", params.state, daemon.tokens.now)
    return {"database": name, "tokens": moved.tokens, "answers": moved.answers, "lines": moved.lines}


HUB_MIGRATE = Operation(
    name="hub_migrate",
    title="Move a hub's state",
    description="Moves this hub's tokens and audit log into PostgreSQL.",
    hints=Hints(destructive=True, idempotent=True),
    run=migrate,
)


class MetricsResult(TypedDict):
    text: str


def hub_metrics(session: Session, params: WorkspaceParams) -> MetricsResult:
    """All metrics of the daemon."""
    return {"text": metrics.text(session.daemon, {params.workspace} if params.workspace else None)}


HUB_METRICS = Operation(
    name="hub_metrics",
    title="Metrics",
    description="Metrics of this daemon in the Prometheus format.",
    hints=Hints(read_only=True, idempotent=True),
    run=hub_metrics,
)

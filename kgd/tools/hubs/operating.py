"""The operations of `kgd hub`: metrics of this daemon, and the move of a single hub's state into PostgreSQL, before
several hubs share it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from kgd.daemon.metrics import text
from kgd.errors import Unavailable
from kgd.tools.operation import Hints, Operation
from kgd.tools.parameters import Params
from kgd.tools.session import Session


class MigrateParams(Params):
    state: Annotated[str, Field(description="postgres://…")]
    workspace: str | None = None


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


class MetricsParams(Params):
    workspace: str | None = None


class MetricsResult(TypedDict):
    text: str


def hub_metrics(session: Session, params: MetricsParams) -> MetricsResult:
    """All metrics of the daemon."""
    return {"text": text(session.daemon, {params.workspace} if params.workspace else None)}


HUB_METRICS = Operation(
    name="hub_metrics",
    title="Metrics",
    description="Metrics of this daemon in the Prometheus format.",
    hints=Hints(read_only=True, idempotent=True),
    run=hub_metrics,
)

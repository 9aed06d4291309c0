"""Metrics of this daemon, for `kgd hub top`."""

from __future__ import annotations

from typing_extensions import TypedDict

from kgd.daemon.metrics import text
from kgd.errors import Forbidden
from kgd.tools.operation import Hints, Operation
from kgd.tools.parameters import Params
from kgd.tools.session import Session


class MetricsParams(Params):
    workspace: str | None = None


class MetricsResult(TypedDict):
    text: str


def hub_metrics(session: Session, params: MetricsParams) -> MetricsResult:
    """All metrics of the daemon. For this machine's own command line only."""
    if not session.trusted or session.principal is not None:
        raise Forbidden("metrics of all workspaces are for the hub's own machine", next="Use /metrics with a token.")
    return {"text": text(session.daemon, {params.workspace} if params.workspace else None)}


HUB_METRICS = Operation(
    name="hub_metrics",
    title="Metrics",
    description="Metrics of this daemon in the Prometheus format.",
    Params=MetricsParams,
    Result=MetricsResult,
    hints=Hints(read_only=True, idempotent=True),
    run=hub_metrics,
)

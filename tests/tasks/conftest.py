"""A workspace with a daemon in this process, and shared helpers for tests of tasks."""

from __future__ import annotations

from typing import Any

from tests.surfaces.conftest import Ask, ask, code, daemon, session, ws

__all__ = ["Ask", "ask", "code", "daemon", "session", "ws"]

Data = dict[str, Any]

WEBHOOK = [
    {"title": "Objective", "content": "Make the Stripe webhook handlers idempotent: Stripe delivers events twice."},
    {"title": "Acceptance Criteria", "content": "- a repeated event changes nothing\n- the signature is checked first"},
    {"title": "Context Files", "content": "- `src/checkout.py` - the handlers\n- src/auth/keys.py, src/auth/new.py"},
]


def put_task(ask: Ask, name: str = "Idempotent webhooks", sections: Any = WEBHOOK, **fields: Any) -> Data:
    """Create a pending task and return it as `query_container` does."""
    data = {"sections": sections} if sections is not None else {}
    ask.put(changes=[{"op": "upsert", "type": "task", "name": name, "data": data, **fields}])
    return dict(got(ask, name)["task"])


def got(ask: Ask, id: str, **more: Any) -> Data:
    return dict(ask.query_container(operation="get", id=id, **more)["data"])


def moved(ask: Ask, id: str, **more: Any) -> Data:
    """Advance the task by one step from its current version."""
    version = got(ask, id)["task"]["version"]
    return dict(ask.advance(id=id, version=version, **more)["data"])


def completed(ask: Ask, id: str, **more: Any) -> Data:
    moved(ask, id, to="in-progress")
    return moved(ask, id, to="completed", **more)

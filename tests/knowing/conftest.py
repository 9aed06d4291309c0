"""A workspace over a small code tree with two areas, and memories about its files and areas."""

from __future__ import annotations

import pytest

from tests.surfaces.conftest import Ask, ask, code, daemon, session, upsert, ws

__all__ = ["ask", "code", "daemon", "session", "ws"]

KNOWLEDGE = "Sessions are signed with rotating keys.\n\nNever log a token."


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def known(ask: Ask) -> Ask:
    """`Security` with the area `Auth`, the area `Everything`, and a memory of each kind."""
    ask.put(
        changes=[
            upsert("molecule:security", name="Security", content="Secrets stay in memory."),
            upsert(
                "atom:auth",
                name="Auth",
                content=KNOWLEDGE,
                data={"paths": ["src/auth/**"], "moleculeId": "molecule://shop/security"},
            ),
            upsert(
                "atom:everything",
                name="Everything",
                content="Python 3.11.",
                data={"paths": ["src/**"]},
                relations=[{"type": "related_to", "target": "atom:auth", "data": {"reason": "asks it who may"}}],
            ),
            upsert(
                "gotcha:skew",
                name="Clocks differ",
                summary="Token times differ by up to 5 s.",
                relations=[{"type": "about", "target": "./src/auth/session.py"}],
            ),
            upsert(
                "decision:jwt",
                name="JWT",
                summary="JWT instead of opaque tokens.",
                relations=[{"type": "about", "target": "./src/auth/"}],
            ),
            upsert(
                "pattern:keys",
                name="Keys",
                summary="Keys come from KEYS only.",
                content="As ADR 7 says.",
                relations=[{"type": "applies_to", "target": "atom:auth"}],
            ),
            upsert("insight:latency", summary="Signing takes 2 ms.", content="Measured on src/auth/session.py in May."),
            upsert(
                "services/gateway",
                name="Gateway",
                summary="Lets people in.",
                relations=[{"type": "depends_on", "target": "decision:jwt", "weight": 0.5}],
            ),
            upsert(
                "gotcha:elsewhere", summary="Nothing to do with it.", relations=[{"type": "about", "target": "./docs/"}]
            ),
        ]
    )
    return ask

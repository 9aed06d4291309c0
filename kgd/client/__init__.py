"""Clients of the daemon's socket; standard library only, to keep their start fast."""

from __future__ import annotations

REPLAY = "kgd-replay-"
"""Prefix of the ids of repeated requests, whose answers are not passed on."""
EARLY = f"{REPLAY}first-"
"""Prefix of the ids of requests whose answers the host already has."""


def renamed(line: bytes, key: str) -> bytes:
    """The request under another id."""
    import json

    return json.dumps({**json.loads(line), "id": key}).encode() + b"\n"

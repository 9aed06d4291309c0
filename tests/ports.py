"""Ports for servers that must be told theirs, which nobody else comes to have between the asking and the listening.

A port that the system hands out may be handed out again before it is listened on, to a connection of anybody. These lie
below those, and every worker of the tests has its own.
"""

from __future__ import annotations

import itertools
import os
import socket

FIRST, OF_A_WORKER = 12_000, 1_000
"""Where a worker's ports begin, and how many are its own. What the system hands out begins at 32,768."""

_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % 20
_turns = itertools.count(os.getpid())


def free_port() -> int:
    while True:
        port = FIRST + _worker * OF_A_WORKER + next(_turns) % OF_A_WORKER
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port

"""Ports for servers that need a fixed one, without a race between choosing and listening.

The system may assign a port of its own range again before the server listens on it. These ports are below that range,
and every test worker has its own.
"""

from __future__ import annotations

import itertools
import os
import socket

FIRST, OF_A_WORKER = 12_000, 1_000
"""The first port, and the number of ports per worker. The system's own range begins at 32,768."""

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

"""This file is where a connection is let go of whose client does not say what it wants.

The server's own time limit begins after a first answer alone: without this, who sends half a header would keep their
connection for as long as they like.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_LIMIT = 64 << 10
"""Bytes of a request's header, its address among them: a picture with many types switched off has a long one."""
HEADER_SECONDS = 15.0
"""From the first byte of a request, or the connection's start, to the end of its header."""


class Connection(H11Protocol):
    """HTTP/1.1 with an end to waiting for a header."""

    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_header()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._wait_for_header()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait_for_header(is_between=True)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait_for_header(self, *, is_between: bool = False) -> None:
        """Between two requests the server's own patience holds, which is longer."""
        under_way = self.cycle is not None and not self.cycle.response_complete
        if under_way or is_between:
            self._stop_waiting()
        elif self._patience is None and not self.transport.is_closing():
            self._patience = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        self._patience = None
        if not self.transport.is_closing():
            self.transport.close()

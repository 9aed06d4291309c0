"""A stand-in for a misbehaving hub: a server whose answers a test chooses."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable


class Counter:
    """Listens on loopback; `serve` handles every connection in its own thread, until `close`."""

    def __init__(self, serve: Callable[[socket.socket, Counter], None]) -> None:
        self.seen: list[bytes] = []
        self.closing = threading.Event()
        self._serve = serve
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._peers: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> Counter:
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for peer in self._peers:
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)

    def read(self, peer: socket.socket) -> bytes:
        """One request: head and body. Empty if the client has disconnected."""
        data = b""
        while b"\r\n\r\n" not in data:
            part = peer.recv(1 << 16)
            if not part:
                return b""
            data += part
        head, _, body = data.partition(b"\r\n\r\n")
        wanted = next((int(line[15:]) for line in head.lower().splitlines() if line.startswith(b"content-length:")), 0)
        while len(body) < wanted:
            body += peer.recv(1 << 16)
        self.seen.append(head + b"\r\n\r\n" + body)
        return self.seen[-1]

    def _accept(self) -> None:
        while not self.closing.is_set():
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            self._peers.append(peer)
            thread = threading.Thread(target=self._run, args=(peer,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _run(self, peer: socket.socket) -> None:
        with peer:
            try:
                self._serve(peer, self)
            except OSError:
                return


def http(status: str, body: bytes, *headers: str, length: int | None = None) -> bytes:
    lines = [
        f"HTTP/1.1 {status}",
        "Content-Type: application/json",
        f"Content-Length: {len(body) if length is None else length}",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def always(answer: bytes) -> Callable[[socket.socket, Counter], None]:
    """The same answer to every request, over connections that stay open."""

    def serve(peer: socket.socket, counter: Counter) -> None:
        while counter.read(peer):
            peer.sendall(answer)

    return serve

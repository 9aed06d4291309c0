"""A TCP relay between one hub and a server, which can be cut like a network."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


class Relay:
    """Copies bytes between its port and another port of this machine. Thread-safe."""

    def __init__(self, port: int) -> None:
        self._to = ("127.0.0.1", port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._lock, self._open, self._is_cut = threading.Lock(), set[socket.socket](), False
        threading.Thread(target=self._accept, daemon=True).start()

    @contextlib.contextmanager
    def cut(self) -> Iterator[None]:
        """Within the context, open connections are reset and new ones are closed at once."""
        with self._lock:
            self._is_cut = True
        self._close_all()
        try:
            yield
        finally:
            with self._lock:
                self._is_cut = False

    def close(self) -> None:
        self._listening.close()
        self._close_all()

    def _close_all(self) -> None:
        with self._lock:
            for one in self._open:
                with contextlib.suppress(OSError):  # the other side has closed it
                    one.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client = self._listening.accept()[0]
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError), socket.create_connection(self._to) as server:
            with self._lock:
                if self._is_cut:
                    return
                self._open |= {client, server}
            back = threading.Thread(target=_copy, args=(server, client), daemon=True)
            back.start()
            _copy(client, server)
            back.join()
            with self._lock:
                self._open -= {client, server}


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):  # cut, or closed by one side
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)

"""This file is where the operator's own endpoint is asked: `/chat/completions`, as OpenAI and many others speak it.

Off unless the person's settings name one; nothing in a workspace can. A request ends at its deadline however slowly the
other side sends, reads a bounded answer, follows no redirect and uses no proxy.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from kgd.resolution.prompts import Prompt, Reply

AT_ONCE = 4
ANSWER_LIMIT = 2**20
"""Bytes of one answer."""


@dataclass(frozen=True, slots=True)
class Provider:
    """One endpoint. `url` is its base, such as ``https://llm.example.org/v1``; `seconds` bound each question."""

    url: str
    model: str
    token: str = field(default="", repr=False)
    seconds: float = 60.0

    def ask(self, prompts: Mapping[str, Prompt]) -> dict[str, Reply]:
        """A reply for every prompt; never raises, and takes a few times `seconds` at most."""
        with ThreadPoolExecutor(AT_ONCE, "kgd-provider") as threads:
            return dict(zip(prompts, threads.map(self._ask_one, prompts.values()), strict=True))

    def _ask_one(self, prompt: Prompt) -> Reply:
        late = threading.Event()
        try:
            status, body = self._post(self._question(prompt), late)
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = f"no answer within {self.seconds:g} seconds" if _was_late(error, late) else "it cannot be reached"
            return Reply(problem=reason)
        if status != 200:
            return Reply(problem=f"it answered with HTTP status {status}")
        if len(body) > ANSWER_LIMIT:
            return Reply(problem="its answer is too long")
        return self._reply(body)

    def _question(self, prompt: Prompt) -> bytes:
        messages = [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}]
        wanted = {"model": self.model, "messages": messages, "max_tokens": prompt.max_tokens, "stream": False}
        return json.dumps(wanted).encode()

    def _post(self, body: bytes, late: threading.Event) -> tuple[int, bytes]:
        parts = urlsplit(self.url)
        is_safe = parts.scheme == "https"
        host, port = parts.hostname or "", parts.port or (443 if is_safe else 80)
        headers = {"Content-Type": "application/json", "Accept": "application/json", "Connection": "close"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        sock = socket.create_connection((host, port), timeout=self.seconds)
        if is_safe:
            context = ssl.create_default_context()
            sock = context.wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)
        # Made here and not by the connection, which lets go of its socket before the answer was read.
        connection = http.client.HTTPConnection(host, port)
        connection.sock = sock
        deadline = threading.Timer(self.seconds, _cut, (sock, late))
        deadline.daemon = True
        deadline.start()
        try:
            if isinstance(sock, ssl.SSLSocket):
                sock.do_handshake()
            connection.request("POST", f"{parts.path.rstrip('/')}/chat/completions", body, headers)
            answer = connection.getresponse()
            read = answer.read(ANSWER_LIMIT + 1)
            if late.is_set():
                raise TimeoutError
            return answer.status, read
        finally:
            deadline.cancel()
            connection.close()
            sock.close()

    def _reply(self, body: bytes) -> Reply:
        try:
            found: Any = json.loads(body)
            (choice,) = found["choices"]
            text, reason = choice["message"]["content"], choice.get("finish_reason")
            model = str(found.get("model") or self.model)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return Reply(model=self.model, problem="its answer is not one of this protocol")
        if reason == "length":
            return Reply(model=model, problem="the answer was cut at the token limit")
        if not isinstance(text, str):
            return Reply(model=model, problem="the answer is not text")
        return Reply(text, model)


def _cut(sock: socket.socket, late: threading.Event) -> None:
    """Ends whatever is waited for: a timeout of a socket begins anew with every byte."""
    late.set()
    with contextlib.suppress(OSError):
        socket.socket.shutdown(sock, socket.SHUT_RDWR)  # of TLS too: its own would take the session from its reader


def _was_late(error: Exception, late: threading.Event) -> bool:
    return late.is_set() or isinstance(error, TimeoutError)

"""The operator's own model endpoint, `/chat/completions` as in OpenAI's protocol, and the limits on asking any model.

Off unless the user's settings name an endpoint; a workspace cannot. A request ends at its deadline however slowly the
answer comes, reads a bounded answer, follows no redirect and uses no proxy.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from kgd.errors import KgdError
from kgd.http_client import Address, HttpClient
from kgd.resolution.prompts import Prompt, Reply

AT_ONCE = 4
ANSWER_LIMIT = 2**20
"""Bytes of one answer."""
STRIKES = 3
"""Bad or missing answers of one client within an hour, after which it is not asked about that conflict."""
AN_HOUR = 3600.0
PER_HOUR = 120
"""Prompts per hour from one daemon to all models together."""


class Attempts:
    """Counts prompts and their outcomes, for the lifetime of the daemon. Safe for threads.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._failed: dict[tuple[str, str], deque[float]] = {}
        self._unanswered: dict[tuple[str, str], deque[float]] = {}
        self._asked: deque[float] = deque()

    def why_not(self, conflict: str, client: str) -> str:
        """The reason not to ask this client about this conflict now; empty if there is none."""
        with self._lock:
            since = self._clock() - AN_HOUR
            key = client, conflict
            failures = [*self._unanswered.get(key, ()), *self._failed.get(key, ())]
            if sum(at > since for at in failures) >= STRIKES:
                return f"this model gave no usable answer {STRIKES} times within an hour"
            while self._asked and self._asked[0] <= since:
                self._asked.popleft()
            return f"{PER_HOUR} questions were asked within the hour" if len(self._asked) >= PER_HOUR else ""

    def asked(self, conflicts: Iterable[str], client: str) -> None:
        """Record a prompt for each conflict. It counts as unanswered for an hour, or until `answered`."""
        with self._lock:
            for conflict in conflicts:
                self._asked.append(self._clock())
                self._unanswered.setdefault((client, conflict), deque(maxlen=STRIKES)).append(self._clock())

    def answered(self, conflict: str, client: str) -> None:
        """Record the answer to the last prompt about a conflict."""
        with self._lock:
            if waiting := self._unanswered.get((client, conflict)):
                waiting.pop()

    def failed(self, conflict: str, client: str) -> None:
        """Record an answer that was useless or could not be written; it counts for an hour."""
        with self._lock:
            self._failed.setdefault((client, conflict), deque(maxlen=STRIKES)).append(self._clock())


@dataclass(frozen=True, slots=True)
class Provider:
    """One endpoint. `url` is its base, such as ``https://llm.example.org/v1``; `seconds` limits each request."""

    url: str
    model: str
    token: str = field(default="", repr=False)
    seconds: float = 60.0

    def ask(self, prompts: Mapping[str, Prompt]) -> dict[str, Reply]:
        """A reply for every prompt; never raises, and takes at most a few times `seconds`."""
        with ThreadPoolExecutor(AT_ONCE, "kgd-provider") as threads:
            return dict(zip(prompts, threads.map(self._ask_one, prompts.values()), strict=True))

    def _ask_one(self, prompt: Prompt) -> Reply:
        headers = {"Content-Type": "application/json", "Accept": "application/json", "Connection": "close"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        question = self._question(prompt)
        try:
            with contextlib.closing(HttpClient(Address.parse(self.url, of="model"), called="it")) as client:
                response = client.request(
                    "POST", "/chat/completions", question, headers, deadline=self.seconds, limit=ANSWER_LIMIT
                )
        except KgdError as error:
            return Reply(problem=error.message)
        if response.status != 200:
            return Reply(problem=f"it answered with HTTP status {response.status}")
        return self._reply(response.body)

    def _question(self, prompt: Prompt) -> bytes:
        messages = [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}]
        wanted = {"model": self.model, "messages": messages, "max_tokens": prompt.max_tokens, "stream": False}
        return json.dumps(wanted).encode()

    def _reply(self, body: bytes) -> Reply:
        try:
            found: Any = json.loads(body)
            (choice,) = found["choices"]
            text, reason = choice["message"]["content"], choice.get("finish_reason")
            model = str(found.get("model") or self.model)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return Reply(model=self.model, problem="its answer does not follow the protocol")
        if reason == "length":
            return Reply(model=model, problem="the answer was cut at the token limit")
        if not isinstance(text, str):
            return Reply(model=model, problem="the answer is not text")
        return Reply(text, model)

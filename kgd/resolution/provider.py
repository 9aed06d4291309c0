"""This file is where the operator's own endpoint is asked: `/chat/completions`, as OpenAI and many others speak it.

Off unless the person's settings name one; nothing in a workspace can. A request ends at its deadline however slowly the
other side sends, reads a bounded answer, follows no redirect and uses no proxy.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from kgd.errors import KgdError
from kgd.http_client import Address, HttpClient
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
            return Reply(model=self.model, problem="its answer is not one of this protocol")
        if reason == "length":
            return Reply(model=model, problem="the answer was cut at the token limit")
        if not isinstance(text, str):
            return Reply(model=model, problem="the answer is not text")
        return Reply(text, model)

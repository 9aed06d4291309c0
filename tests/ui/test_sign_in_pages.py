"""Browsers that wait for an organisation's sign-in server leave the threads of other requests alone."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response

from kgd.model.token import TokenRecord
from kgd.ui.sessions import Place, Sessions
from kgd.ui.sign_in import SignInPages
from tests.event_loops import apart

MANY = 60
"""More than the threads that all requests share."""


class Hanging:
    """A sign-in server that does not answer until it is told to."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()

    def choices(self) -> list[tuple[str, str]]:
        return []

    def begin(self, name: str, to: str) -> tuple[str, str]:
        self.goes_on.wait(60)
        return "https://login.example.org/", "sealed"

    def finish(self, cookie: str, answer: Mapping[str, str]) -> tuple[TokenRecord, str]:
        raise NotImplementedError

    def leave(self, id: str) -> None:
        raise NotImplementedError


def asked() -> Request:
    scope = {"type": "http", "method": "GET", "headers": [], "query_string": b"", "path_params": {"name": "company"}}
    return Request(scope)


def test_strangers_who_begin_sign_ins_do_not_take_the_threads_of_other_requests(tmp_path: Path) -> None:
    server = Hanging()
    place = Place(lambda host: True, lambda origin, host: True, True, "kgd", "/")
    pages = SignInPages(server, Sessions(tmp_path / "sessions", lambda: 0.0), place, lambda name, told: Response())

    async def run() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(MANY):
                group.start_soon(pages.begin, asked())
            await anyio.wait_all_tasks_blocked()
            with anyio.fail_after(30):
                await anyio.to_thread.run_sync(server.goes_on.set)

    apart(run)
    assert server.goes_on.is_set()

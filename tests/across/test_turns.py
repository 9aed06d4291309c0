"""Reads that only compute take turns on a hub; other calls do not wait for them."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kgd.hub.authentication import Holder
from kgd.hub.v1 import COMPUTING
from tests.across.sites import Hub, Site, node
from tests.waiting import until


def test_few_reads_that_only_compute_run_at_once_and_other_calls_do_not_wait_for_them(
    site: Callable[[str], Site], hub: Callable[[Site], Hub], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = site("there")
    there.up("infra", node("concept://infra/keys", name="Keys"))
    served = hub(there)
    token, begun, may_end = served.token(["infra"]), list[str](), threading.Event()
    answered = Holder.call

    def call(self: Holder, session: Any, name: str, arguments: Mapping[str, Any]) -> Any:
        if name in ("get", "traverse", "search"):
            begun.append(name)
            may_end.wait(60)
        return answered(self, session, name, arguments)

    def post(tool: str, body: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
        sent = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        connection.request("POST", f"/v1/infra/{tool}", body, sent)
        status = connection.getresponse().status
        connection.close()
        return status

    monkeypatch.setattr(Holder, "call", call)
    asked = [
        ("get", '{"uris": ["concept://infra/keys"]}'),
        ("traverse", '{"start": "concept://infra/keys"}'),
        ("search", '{"query": "keys"}'),
    ] * COMPUTING
    with ThreadPoolExecutor(len(asked)) as pool:
        reads = [pool.submit(post, *one) for one in asked]
        try:
            until(lambda: len(begun) == COMPUTING)
            assert [post("history", "{}") for _ in range(COMPUTING)] == [200] * COMPUTING
            assert len(begun) == COMPUTING
        finally:
            may_end.set()
        assert {one.result() for one in reads} == {200}
    assert sorted(begun) == sorted(name for name, _ in asked)

"""`kgd hub migrate` as an operator runs it, before several hubs replace a single one."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from tests import forked
from tests.hub.conftest import Hub
from tests.hub.conftest import own_hub as own_hub
from tests.postgres_server import Server

pytestmark = [pytest.mark.needs("postgres"), pytest.mark.slow]


def kgd(hub: Hub, state: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return forked.run(arguments, hub.folder, {**hub.environment, "KGD_STATE": state})


def test_a_single_hubs_tokens_are_used_at_hubs_with_shared_state(own_hub: Callable[..., Hub], postgres: Server) -> None:
    with postgres.schema() as state:
        hub = own_hub().start()
        token = hub.mint("read")
        refused = kgd(hub, state, "hub", "migrate", "--state", "env:KGD_STATE")
        assert (refused.returncode, "a hub serves this home" in refused.stderr) == (9, True), refused
        hub.stop()
        moved = kgd(hub, state, "hub", "migrate", "--state", "env:KGD_STATE")
        assert "moved 1 token, 0 answers and 1 line" in moved.stdout, moved
        again = kgd(hub, state, "hub", "migrate", "--state", "env:KGD_STATE")
        assert "already has everything" in again.stdout, again
        lost = kgd(hub, state, "token", "list")
        assert "moved to another database" in lost.stderr, lost
        kgd(hub, state, "down")
        hub.arguments += ("--state", state)
        assert hub.start().post(token, "infra/status").status == 200

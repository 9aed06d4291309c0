"""A token is looked at once more in the moment before its change is written."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from kgd.config import Home
from kgd.config.entries import Entry
from kgd.config.registry import RegistryFile
from kgd.daemon.daemon import Daemon
from kgd.errors import KgdError, Unauthorized
from kgd.git.layout import locate
from kgd.model.access import Scope
from kgd.tools import TOOLS
from kgd.tools.hubs import token_calls
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.writer import Staged
from tests.builders import new_layout


@pytest.fixture
def daemon(tmp_path: Path) -> Daemon:
    home = Home.at(str(tmp_path / "home"))
    home.prepare()
    new_layout(tmp_path / "infra", "infra")
    RegistryFile(home).register(Entry("infra", str(tmp_path / "infra"), standalone=True))
    return Daemon(home, since="2026-11-21T12:00:00Z", locate=locate, open_workspace=Workspace.open)


def test_a_change_that_waits_while_its_token_is_revoked_is_not_written(daemon: Daemon) -> None:
    workspace = daemon.workspace("infra")
    now = int(daemon.tokens.now())
    minted = daemon.tokens.mint("late", "agent", [Scope.of("infra", ["read", "write"], ["/**"])], now + 1000)
    record = daemon.tokens.recognise(minted.text)
    session = Session(
        daemon,
        principal=record.holder,
        context_id=None,
        still_live=lambda: daemon.tokens.still_live(record.holder.id),
    )
    blocked, go_on = threading.Event(), threading.Event()

    def hold(staging: object, tip: object) -> Staged[object]:
        blocked.set()
        assert go_on.wait(60)
        return Staged(None)

    holding = threading.Thread(target=lambda: workspace.run(hold, alone=True))
    holding.start()
    assert blocked.wait(60)
    heard: list[KgdError] = []

    def write() -> None:
        try:
            change = {"op": "upsert", "uri": "concept://infra/late", "summary": "x"}
            token_calls.call(session, record, TOOLS, "put", {"workspace": "infra", "changes": [change]})
        except KgdError as error:
            heard.append(error)

    writing = threading.Thread(target=write)
    writing.start()
    while not workspace.waiting:
        writing.join(0.01)
        assert writing.is_alive()
    daemon.tokens.revoke(record.holder.id)
    go_on.set()
    for thread in (holding, writing):
        thread.join(60)
    assert isinstance(heard[0], Unauthorized)
    assert workspace.node("concept://infra/late") is None  # type: ignore[arg-type]
    daemon.close()

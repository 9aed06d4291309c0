"""`kgd clone` of a workspace that a hub serves, through the hub's own git."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgd.daemon.daemon import Daemon
from kgd.errors import KgdError
from kgd.tools.session import Session
from tests.hub.conftest import new_hub
from tests.surfaces.conftest import Ask, upsert
from tests.surfaces.test_submitting_to_a_hub import join
from tests.waiting import until

pytestmark = pytest.mark.slow


def test_a_workspace_of_a_hub_is_cloned_and_written_with_the_token_that_joined_it(
    session: Session, tmp_path: Path
) -> None:
    hub = new_hub(tmp_path / "hub").start()
    try:
        hub.put("concept://infra/infra/known", summary="s")
        join(session, hub, tmp_path, "read,write", paths="/**")
        ask = Ask(Session(session.daemon, cwd=tmp_path, client="cli"))
        made = ask.clone(source="infra")
        assert (made["path"], made["counts"]["nodes"]) == (str(tmp_path / "infra"), 1)
        entry = session.daemon.registry.current().entries["infra"]
        assert (entry.hub, entry.remote, entry.token) == ("", f"{hub.url}/git/infra", f"file:{tmp_path / 'token'}")
        ask.put(workspace="infra", changes=upsert("concept://infra/infra/mine", summary="from the clone"))
        until(lambda: bool(hub.call("get", workspace="infra", uris=["concept://infra/infra/mine"])["nodes"]))
    finally:
        hub.stop()


def test_the_only_workspace_is_read_on_its_hub_from_any_directory(daemon: Daemon, tmp_path: Path) -> None:
    session = Session(daemon, cwd=tmp_path, client="cli")
    hub = new_hub(tmp_path / "hub").start()
    try:
        hub.put("concept://infra/infra/known", summary="the only one")
        join(session, hub, tmp_path, "read", paths="/**")
        ask = Ask(session)
        assert ask.get(uris="infra/known")["nodes"][0]["summary"] == "the only one"
        assert ask.traverse(start="infra/known")["nodes"]
        assert ask.search(query="only")["hits"][0]["uri"] == "concept://infra/infra/known"
        assert ask.history(limit=1)["commits"]
        assert ask.proposals()["proposals"] == []
        with pytest.raises(KgdError, match="workspace 'infra' is on a hub, not on this machine"):
            ask.conflicts()
        with pytest.raises(KgdError, match="workspace 'infra' is on a hub, not on this machine"):
            ask.put(changes=upsert("mine"))
    finally:
        hub.stop()

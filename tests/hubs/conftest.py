"""Hubs of one team: processes with a home each, one PostgreSQL, one upstream."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgd.config.entries import Entry
from kgd.config.registry import RegistryFile
from tests import forked
from tests.hub.conftest import ROOT, Hub, new_hub
from tests.postgres_server import Server
from tests.sync.people import bare, git


class Team:
    """The hubs, and what they share."""

    def __init__(self, folder: Path, state: str) -> None:
        self.folder, self.state = folder, state
        self.upstream = bare(folder / "infra.git")
        git(self.upstream, "config", "http.receivepack", "true")
        self.address = str(self.upstream)
        """As the hubs reach it."""
        self.hubs: list[Hub] = []
        self.more: tuple[str, ...] = ()
        """Further options of the hubs that are started from now on."""

    def start(
        self, count: int = 1, *, cloned: bool = False, more: tuple[str, ...] = (), code: Path = ROOT
    ) -> list[Hub]:
        """Start more hubs and return them; they share the workspace `infra`, which has no work tree. A `cloned` hub has
        it before it starts; `more` are further options."""
        for _ in range(count):
            folder = self.folder / f"hub{len(self.hubs)}"
            folder.mkdir()
            options = ("--listen", "127.0.0.1:0", "--state", self.state, *self.more, *more)
            made = new_hub(folder, *options, workspaces=() if cloned else ("infra",))
            if cloned:
                words = ["clone", "--bare", self.address, str(folder / "infra")]
                assert forked.run(words, folder, made.environment).returncode == 0
            else:
                git(folder / "infra", "config", "core.bare", "true")
            made.environment["PYTHONPATH"] = str(code)
            RegistryFile(made.home).register(
                Entry("infra", str(folder / "infra"), standalone=True, remote=self.address), replace=True
            )
            self.hubs.append(made.start())
        return self.hubs[-count:]


@pytest.fixture
def team(tmp_path: Path, postgres: Server) -> Iterator[Team]:
    with postgres.schema() as url:
        made = Team(tmp_path, url)
        yield made
        for hub in made.hubs:
            hub.stop(signal.SIGKILL)

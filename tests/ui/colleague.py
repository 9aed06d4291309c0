"""A colleague with a copy of the workspace on another machine, whose changes arrive by a real sync."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.sync.people import Person, bare
from tests.ui.conftest import Desk


class Colleague(Person):
    """Bob, who shares the desk's workspace by a repository that both reach."""

    def __init__(self, desk: Desk, folder: Path) -> None:
        server = bare(folder / "server.git")
        desk.call("remote", action="add", name="origin", url=str(server), sync=0, ref="refs/heads/main")
        super().__init__(folder / "bob", id="shop")
        with open(self.workspace.layout.git_dir / "config", "a") as config:
            config.write("[user]\n\tname = Bob Builder\n\temail = bob@example.org\n")
        self.share(server, sync=0)
        self._desk = desk

    def agree(self) -> None:
        """Both have what the other one has."""
        self._desk.call("sync")
        self.sync()
        self._desk.call("sync")

    def disagree(self, uri: str, field: str, ours: Any, theirs: Any, was: Any = None) -> str:
        """Change one field on both sides, then sync. Returns the id of the new conflict."""
        if was is not None:
            self._desk.put(uri, **{field: was})
            self.agree()
        seen = {"expect_version": self._desk.node(uri)["version"]} if field == "content" and was is not None else {}
        self._desk.put(uri, **{field: ours}, **seen)
        self.put_whole(uri, **{field: theirs}, **seen)
        self.agree()
        return self.open_about(uri)[-1]

    def put_whole(self, uri: str, **fields: Any) -> None:
        self.call("put", changes=[{"op": "upsert", "uri": uri, **fields}])

    def open_about(self, uri: str) -> list[str]:
        """Return the ids of a node's open conflicts at the desk."""
        return [one["id"] for one in self._desk.call("conflicts", uri=uri)["conflicts"]]

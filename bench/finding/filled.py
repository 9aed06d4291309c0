"""One workspace for one tree: its code, the team's nodes, and as many chunks of prose as wanted."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.finding.prose import write_prose
from bench.finding.trees import Tree, unpack, unpack_beside
from kgd.config import Home
from kgd.daemon.daemon import Daemon
from kgd.git.layout import locate
from kgd.mentions.mentions import Mentions
from kgd.model.uri import Uri
from kgd.tools import TOOLS, call
from kgd.tools.operation import as_json
from kgd.tools.session import Session
from kgd.tools.workspaces import status
from kgd.workspace.workspace import Workspace

PATIENCE = 1800.0
Answer = dict[str, Any]


class Filled:
    """A daemon with the workspace, asked through tool calls. If `documented`, the tree has documentation and tests."""

    def __init__(
        self, folder: Path, tree: Tree, archive: Path, embedder: str = "builtin", *, documented: bool = False
    ) -> None:
        self.code, self._folder, self._tree = folder / tree.name, folder, tree
        unpack(tree, archive, self.code)
        if documented:
            unpack_beside(tree, archive.parent, self.code)
        subprocess.run(["git", "init", "-q", self.code], check=True)
        home = Home.at(str(folder / "home"))
        home.prepare()
        Path(home.registry).write_text(f"settings:\n  embedder: {embedder}\n")
        self._daemon = Daemon(home, since="2026-01-01T00:00:00Z", locate=locate, open_workspace=Workspace.open)
        self._session = Session(self._daemon, cwd=self.code, client="bench", context_id=None)
        self.id = self.call("up", {"id": tree.name})["workspace"]

    @property
    def ws(self) -> Workspace:
        return self._daemon.workspace(self.id)

    def call(self, tool: str, arguments: Answer) -> Answer:
        return dict(call(self._session, tool, arguments))

    def uri(self, short: str) -> str:
        """The full URI of `atom:sessions`."""
        scheme, _, name = short.partition(":")
        return f"{scheme}://{self.id}/{name}"

    def content(self, uri: str) -> str:
        node = self.ws.node(Uri(uri))
        return node.content if node else ""

    def write(self, nodes: Sequence[dict[str, Any]]) -> None:
        """Put the nodes of a set in one commit."""
        self.call("put", {"changes": [self._change(node) for node in nodes], "message": "the team's notes"})

    def _change(self, node: dict[str, Any]) -> dict[str, Any]:
        data: dict[str, Any] = {key: node[key] for key in ("paths", "cites") if key in node}
        if "molecule" in node:
            data["moleculeId"] = self.uri(node["molecule"])
        kept = {"name": node["name"], "content": node["content"].strip(), "tags": node.get("tags", [])}
        return {
            "op": "upsert",
            "uri": self.uri(node["uri"]),
            "type": node["uri"].partition(":")[0],
            **kept,
            "data": data,
        }

    def ingest_prose(self, pages: dict[str, str], chunks: int) -> int:
        """Ingest documents until there are that many chunks; the number that there are."""
        there = round = 0
        while there < chunks:
            folder = self._folder / "prose" / f"{round}"
            write_prose(folder, pages, chunks - there, round)
            what = {"source": str(folder), "kind": "document"}
            while (answer := self.call("ingest", what)).get("state") in ("waiting", "running"):
                time.sleep(1)
            if answer.get("state") == "failed":
                raise SystemExit(answer["failure"])
            there, round = sum(1 for _ in self.ws.graph.uris(scheme="chunk")), round + 1
        return there

    def settle(self) -> None:
        """Wait until the code is read, and all texts are scanned and embedded."""
        end = time.monotonic() + PATIENCE
        while (code := status.code(self.ws)) is None or code["state"] != "ready":
            if time.monotonic() > end:
                raise SystemExit(f"the code was not read in time: {code}")
            time.sleep(0.5)
        if not (Mentions.of(self.ws).settle(PATIENCE) and self.ws.meaning.catch_up(PATIENCE)):
            raise SystemExit("not all texts were scanned and embedded in time")

    def close(self) -> None:
        self._daemon.close()


def as_sent(tool: str, answer: Answer) -> str:
    """All that a client receives: the text, and the structured content as JSON."""
    operation = TOOLS[tool]
    kept = {key: value for key, value in answer.items() if key not in operation.for_app}
    return operation.text(kept) + as_json(kept)

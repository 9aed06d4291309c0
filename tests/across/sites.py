"""Users with one home each, in this process: daemons, workspaces, and listening hubs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kgd.config import Home
from kgd.daemon.daemon import Daemon
from kgd.git.layout import locate
from kgd.hub.app import HubServer, application
from kgd.hub.authentication import Gate
from kgd.hub.listen import Listen
from kgd.hub.operating import Operating, Readiness
from kgd.hub.v1 import Api
from kgd.tools import call
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace
from tests.waiting import until


def node(uri: str, *links: tuple[str, float], **fields: Any) -> dict[str, Any]:
    """A change that creates a node with relations ``uses`` to these targets at these weights."""
    relations = [{"type": "uses", "target": target, "weight": weight} for target, weight in links]
    return {"op": "upsert", "uri": uri, "relations": relations, **fields}


class Site:
    """One person's home: a daemon with standalone workspaces, and the answers of its tools."""

    def __init__(self, root: Path, name: str) -> None:
        self.root = root / name
        self.root.mkdir()
        self.home = Home.at(str(self.root / "home"))
        self.home.prepare()
        self.daemon = self._daemon()

    def _daemon(self) -> Daemon:
        return Daemon(self.home, since="", locate=locate, open_workspace=Workspace.open)

    def restart(self) -> None:
        self.daemon.close()
        self.daemon = self._daemon()

    def up(self, id: str, *changes: Mapping[str, Any]) -> Workspace:
        """Create a workspace with these nodes."""
        folder = self.root / id
        folder.mkdir()
        call(self.session(folder), "up", {"standalone": True, "id": id})
        if changes:
            self.ask("put", workspace=id, changes=list(changes))
        return self.daemon.workspace(id)

    def session(self, folder: Path | None = None) -> Session:
        return Session(self.daemon, cwd=folder, client="test", context_id=None)

    def ask(self, tool: str, **arguments: Any) -> Any:
        return call(self.session(), tool, arguments)

    def know(self, id: str, **fields: str) -> None:
        """Write an entry into the registry by hand."""
        path = Path(self.home.registry)
        text = path.read_text() if path.exists() else "workspaces:\n"
        path.write_text(text + f"  {id}:\n" + "".join(f"    {name}: {value}\n" for name, value in fields.items()))

    def know_hub(self, hub: Hub, *ids: str, token: str = "") -> None:
        """Register workspaces of a hub, with a token in a file."""
        secret = self.root / f"token-{hub.port}"
        secret.write_text(token or hub.token(ids))
        secret.chmod(0o600)
        for id in ids:
            self.know(id, hub=hub.url, token=f"file:{secret}")

    def close(self) -> None:
        self.daemon.close()


class Hub:
    """A site that others can ask over HTTP; it can be stopped and started again at the same port."""

    def __init__(self, site: Site) -> None:
        self.site, self.port = site, 0
        self._server: HubServer | None = None
        self._thread: threading.Thread | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        listen = Listen("127.0.0.1", self.port)
        listening = listen.open()
        self.port = listening.getsockname()[1]
        daemon = self.site.daemon
        gate = Gate(daemon, listen)
        app = application(listen, Api(daemon, gate.caller), Operating(daemon, gate, Readiness(daemon)))
        server = self._server = HubServer(app, listen, listening, lambda: None)
        self._thread = threading.Thread(target=lambda: asyncio.run(server.run_here()), daemon=True)
        self._thread.start()
        until(lambda: server.started)

    def stop(self) -> None:
        if self._server and self._thread:
            self._server.stop()
            self._thread.join(10)
            self._server = self._thread = None

    def token(self, ids: Sequence[str], verbs: Sequence[str] = ("read",), paths: Sequence[str] = ("/**",)) -> str:
        made = self.site.ask("token_mint", workspace=ids[0], name="reader", verbs=list(verbs), paths=list(paths))
        return str(made["token"])


def names(answer: Mapping[str, Any]) -> list[str]:
    return [one["uri"].rpartition("://")[2] for one in answer["nodes"]]

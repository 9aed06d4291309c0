"""haproxy in front of several hubs: MCP sessions stay at one hub, every other request goes to the next hub."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kgd.config.entries import Entry
from kgd.config.registry import RegistryFile
from kgd.git.refs import HEAD, read_ref
from tests.hub.conftest import Answer, Hub, new_hub
from tests.hubs.balancer import balancer
from tests.sync.people import bare
from tests.waiting import until

_BACKEND = """
    balance roundrobin
    http-response set-header x-hub %s
    option httpchk
    http-check send meth GET uri /health ver HTTP/1.1 hdr Host localhost
    default-server check inter 500ms fall 2 rise 1
"""
CONFIGURATION = """
defaults
    mode http
    timeout connect 2s
    timeout client 600s
    timeout server 600s
    option redispatch 1
    retry-on conn-failure
frontend clients
    bind "${BIND}"
    use_backend mcp if { path /mcp }
    default_backend all
"""


def round_robin(count: int) -> str:
    """The configuration for this number of hubs."""
    servers = "".join(f'    server hub{number} "${{HUB{number}}}"\n' for number in range(1, count + 1))
    sticky = """
    stick-table type string len 64 size 100k expire 1h
    stick store-response res.hdr(mcp-session-id)
    stick match req.hdr(mcp-session-id)
"""
    return f"{CONFIGURATION}backend mcp{_BACKEND}{sticky}{servers}backend all{_BACKEND}{servers}"


@dataclass
class Spread(Hub):
    """Several hubs over one PostgreSQL, used like one: clients call the balancer, the keeper calls the first hub."""

    hubs: list[Hub] = field(default_factory=list)
    upstreams: dict[str, Path] = field(default_factory=dict)
    ended: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    @classmethod
    def made(cls, folder: Path, state: str, *arguments: str, workspaces: Sequence[str], count: int = 3) -> Spread:
        """Running hubs. Each workspace has an upstream of its own."""
        upstreams = {id: bare(folder / f"{id}.git") for id in workspaces}
        options = (*(arguments or ("--listen", "127.0.0.1:0")), "--state", state)
        hubs = list[Hub]()
        with contextlib.ExitStack() as undo:
            for number in range(count):
                place = folder / f"hub{number}"
                place.mkdir()
                hub = new_hub(place, *options, workspaces=tuple(workspaces))
                for id, upstream in upstreams.items():
                    entry = Entry(id, str(place / id), standalone=True, remote=str(upstream))
                    RegistryFile(hub.home).register(entry, replace=True)
                hubs.append(hub.start())
                undo.callback(hub.stop, signal.SIGKILL)
                for id in workspaces:  # opened, so that each hub publishes to or follows the upstream
                    hub.call("status", workspace=id)
            url = undo.enter_context(balancer(hubs, folder, round_robin(count)))
            first = hubs[0]
            return cls(
                first.home,
                first.folder,
                first.arguments,
                url,
                environment=first.environment,
                hubs=hubs,
                upstreams=upstreams,
                ended=undo.pop_all(),
            )

    def stop(self, number: int = signal.SIGTERM) -> float:
        seconds = max(hub.stop(number) for hub in self.hubs)
        self.ended.close()
        return seconds

    def call(self, name: str, /, **args: Any) -> dict[str, Any]:
        """Call the first hub once it has caught up with the others, and return when they have caught up with it."""
        self.settle()
        answer = super().call(name, **args)
        self.settle()
        return answer

    def ask(
        self, method: str, path: str, token: str = "", body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> Answer:
        """Ask through the balancer, with the newest position."""
        newest = self.newest(path.split("/")[2]) if path.startswith("/v1/") else ""
        return super().ask(method, path, token, body, {**({"X-Kgd-At": newest} if newest else {}), **(headers or {})})

    def newest(self, workspace: str) -> str:
        """The upstream's tip; empty for other names."""
        upstream = self.upstreams.get(workspace)
        tip = read_ref(upstream, "refs/heads/main") if upstream else None
        return tip.hex() if tip else ""

    def settle(self) -> None:
        """Return when every hub has the upstreams' tips."""
        for id in self.upstreams:
            for hub in self.hubs:
                until(lambda hub=hub, id=id: _head(hub, id) == self.newest(id))  # type: ignore[misc]


def _head(hub: Hub, workspace: str) -> str:
    """The served commit of a workspace."""
    tip = read_ref(hub.workspace(workspace) / ".git", HEAD)
    return tip.hex() if tip else ""

"""kgd's MCP server over HTTP without a token, for the conformance tool, which cannot send one, with its fixtures.

``python -m tests.surfaces.open_server DIRECTORY PORT``: a workspace below the directory; ends with SIGTERM.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import uvicorn

from kgd.config import Home
from kgd.daemon.daemon import Daemon
from kgd.git.layout import locate
from kgd.mcp.http import security
from kgd.mcp.server import Surface
from kgd.tools import TOOLS, call
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace
from tests.surfaces import conformance_fixtures


def main(directory: Path, port: int) -> None:
    home = Home.at(str(directory / "home"))
    home.prepare()
    daemon = Daemon(home, since="2026-11-21T12:00:00Z", locate=locate, open_workspace=Workspace.open)
    call(Session(daemon, cwd=directory), "up", {"directory": str(directory / "notes"), "standalone": True})
    logging.getLogger("kgd").setLevel(logging.INFO)
    surface = Surface(daemon, {**TOOLS, **conformance_fixtures.TOOLSET})
    conformance_fixtures.add_to(surface)
    app = surface.server.streamable_http_app(transport_security=security(port))
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", timeout_graceful_shutdown=1)
    daemon.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

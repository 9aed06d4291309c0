"""HAProxy in front of a team's hubs, with the configuration that kgd ships, or with another."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from tests.conftest import ROOT
from tests.hub.conftest import Hub
from tests.ports import free_port
from tests.waiting import until

SHIPPED = (ROOT / "deploy/haproxy.cfg").read_text()
PROGRAM = shutil.which("haproxy", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@contextlib.contextmanager
def balancer(hubs: Sequence[Hub], folder: Path, text: str = "") -> Iterator[str]:
    """The URL of HAProxy with this configuration, in front of up to three hubs."""
    assert PROGRAM is not None, "run `make test-deps`"
    port, configuration = free_port(), folder / "haproxy.cfg"
    configuration.write_text(text or SHIPPED)
    places = {f"HUB{number}": "127.0.0.1:1" for number in (1, 2, 3)}
    places |= {f"HUB{number}": urlsplit(hub.url).netloc for number, hub in enumerate(hubs, 1)}
    process = subprocess.Popen(
        [PROGRAM, "-n", "300", "-f", str(configuration)],
        env={**os.environ, **places, "BIND": f"127.0.0.1:{port}"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        until(lambda: _answers(Hub(hubs[0].home, folder, url=url)))
        yield url
    finally:
        process.kill()
        process.wait()


def _answers(hub: Hub) -> bool:
    with contextlib.suppress(OSError):
        return hub.ask("GET", "/health").status == 200
    return False

"""A hub as it runs for a team: a process of its own, with its own home, workspaces, tokens and git."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from kgd.client.connection import Connection
from kgd.config import Home
from kgd.config.entries import Entry
from kgd.config.registry import RegistryFile
from tests import forked
from tests.builders import new_layout

ROOT = Path(__file__).resolve().parent.parent.parent
SEVERAL = int(os.environ.get("KGD_HUBS", "0"))
"""Number of hubs behind a balancer that take the place of one hub; see tests/hubs/test_balancer.py."""


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        found = json.loads(self.body)
        assert isinstance(found, dict)
        return found


@dataclass
class Hub:
    """A hub's process and what its keeper does with it."""

    home: Home
    folder: Path
    arguments: tuple[str, ...] = ("--listen", "127.0.0.1:0")
    url: str = ""
    process: subprocess.Popen[str] | forked.Process | None = None
    environment: dict[str, str] = field(default_factory=dict)
    before: tuple[str, ...] = ()
    """A program that runs the process, such as a tracer."""
    printed: list[str] = field(default_factory=list)
    """The lines of its start."""

    def start(self, limits: Callable[[], None] | None = None) -> Hub:
        """`limits` sets the limits of the process."""
        if self.before or limits or not forked.has_usual_start(self.environment):
            command = [*self.before, sys.executable, "-P", "-m", "kgd.serve", "--foreground", *self.arguments]
            self.process = subprocess.Popen(
                command, env=self.environment, stderr=subprocess.PIPE, text=True, cwd="/", preexec_fn=limits
            )
        else:
            self.process = forked.hub(self.arguments, self.environment)
        assert self.process.stderr is not None
        self.printed = []
        for line in self.process.stderr:
            self.printed.append(line)
            if line.startswith("kgd: serving "):
                self.url = line.split()[2]
                return self
        self.stop()
        raise AssertionError("the hub did not start: " + "".join(self.printed[-5:]))

    def stop(self, number: int = signal.SIGTERM) -> float:
        """Seconds until it was gone."""
        if self.process is None:
            return 0.0
        began = time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)
        self.process.wait(60)
        assert self.process.stderr is not None
        self.process.stderr.close()
        self.process = None
        return time.monotonic() - began

    def workspace(self, id: str) -> Path:
        return self.folder / id

    def call(self, name: str, /, **args: Any) -> dict[str, Any]:
        """What the keeper's own command line asks the daemon for."""
        with Connection(self.home, start=False) as connection:
            return connection.call(name, args)

    def mint(self, verbs: str = "read", paths: str = "/**", name: str = "billing-agent", **more: Any) -> str:
        more = {"workspace": "infra", "expires": "1d", **more}
        token = self.call("token_mint", verbs=[verbs], paths=[paths], name=name, **more)["token"]
        assert isinstance(token, str)
        return token

    def put(self, uri: str, **fields: Any) -> None:
        workspace = uri.split("/")[2]
        self.call("put", workspace=workspace, changes=[{"op": "upsert", "uri": uri, **fields}])

    def ask(
        self, method: str, path: str, token: str = "", body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> Answer:
        place = urlsplit(self.url)
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
        sent = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
        try:
            connection.request(method, path, body, {**sent, **(headers or {})})
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def post(self, token: str, path: str, arguments: Any = None, **headers: str) -> Answer:
        """`path` is ``<workspace>/<tool>``, or anything below /v1."""
        body = json.dumps(arguments if arguments is not None else {}).encode()
        return self.ask("POST", f"/v1/{path}", token, body, {k.replace("_", "-"): v for k, v in headers.items()})

    def git_url(self, token: str, workspace: str = "infra") -> str:
        place = urlsplit(self.url)
        return f"http://anybody:{token}@{place.netloc}/git/{workspace}"


def new_hub(folder: Path, *arguments: str, workspaces: tuple[str, ...] = ("infra",)) -> Hub:
    """A hub that has not been started, with empty workspaces of these ids."""
    home = Home.at(str(folder / "home"))
    home.prepare()
    for id in workspaces:
        new_layout(folder / id, id)
        RegistryFile(home).register(Entry(id, str(folder / id), standalone=True))
    kept = {name: os.environ[name] for name in ("PATH", "LC_ALL", "COVERAGE_PROCESS_START") if name in os.environ}
    person = folder / "person"
    person.mkdir()
    (person / ".gitconfig").write_text("[user]\n\tname = Keeper\n\temail = keeper@example.org\n")
    environment = {
        **kept,
        "HOME": str(person),
        "KGD_HOME": home.config,
        "GIT_CONFIG_NOSYSTEM": "1",
        "PYTHONPATH": str(ROOT),
    }
    return Hub(home, folder, arguments or ("--listen", "127.0.0.1:0"), environment=environment)


@pytest.fixture(scope="session")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """One hub for all tests of this folder; it serves `infra` and `shop`, and does not serve `private`."""
    yield from filled_hub(tmp_path_factory.mktemp("hub"))


def filled_hub(folder: Path) -> Iterator[Hub]:
    """A hub with four nodes in three workspaces, until the iterator ends."""
    with contextlib.ExitStack() as ended:
        found = _started(folder, ended)
        found.put("concept://infra/services/auth", summary="Issues tokens", content="Signed by the key service.")
        found.put("concept://infra/app/checkout", summary="The way to pay")
        found.put("concept://shop/cart", summary="What a person wants to buy")
        found.put("concept://private/diary", summary="Nobody's business")
        yield found
        found.stop()


def _started(folder: Path, ended: contextlib.ExitStack) -> Hub:
    workspaces = ("infra", "shop", "private")
    arguments = ("--listen", "127.0.0.1:0", "--workspace", "infra", "--workspace", "shop")
    if not SEVERAL:
        return new_hub(folder, *arguments, workspaces=workspaces).start()
    from tests.hubs.spread import Spread
    from tests.postgres_server import server

    url = ended.enter_context(ended.enter_context(server()).schema())
    return Spread.made(folder, url, *arguments, workspaces=workspaces, count=SEVERAL)


@pytest.fixture
def own_hub(tmp_path: Path) -> Iterator[Callable[..., Hub]]:
    """Makes hubs that a test may stop and break."""
    made: list[Hub] = []

    def make(*arguments: str, workspaces: tuple[str, ...] = ("infra",)) -> Hub:
        folder = tmp_path / f"hub{len(made)}"
        folder.mkdir()
        made.append(new_hub(folder, *arguments, workspaces=workspaces))
        return made[-1]

    yield make
    for one in made:
        one.stop(signal.SIGKILL)

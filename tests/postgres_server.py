"""A real PostgreSQL server for tests, with a schema for each test."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg

from kgd.postgres.database import Database
from kgd.postgres.hub_state import PostgresHubState
from tests.waiting import until

USER = "kgd"


class HubState(PostgresHubState):
    """A hub's state with a database of its own."""

    def __init__(self, url: str) -> None:
        super().__init__(Database(url))

    def close(self) -> None:
        super().close()
        self._database.close()


def programs() -> Path | None:
    """The folder of the server's programs. Distributions keep it out of PATH."""
    found = shutil.which("postgres")
    beside = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return Path(found).resolve().parent if found else beside[-1].parent if beside else None


class Server:
    """One server over a Unix socket. It refuses to run as root, so there it runs as `nobody`."""

    def __init__(self, folder: Path) -> None:
        found = programs()
        assert found is not None, "run `make test-deps`"
        self._programs, self._folder = found, folder
        self._as = {"user": "nobody", "group": "nogroup"} if os.geteuid() == 0 else {}
        if self._as:
            shutil.chown(folder, **self._as)
        self._run("initdb", "-D", str(folder / "data"), "-U", USER, "-A", "trust", "-E", "UTF8", "--no-sync")
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        # Each test has its own schema, so no later test sees leftovers.
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self._folder),
            "fsync": "off",
            "autovacuum": "off",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with open(self._folder / "log", "ab") as log:
            command = [str(self._programs / "postgres"), "-D", str(self._folder / "data"), *options]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder, **self._as)  # type: ignore[call-overload]
        until(self._answers)

    def stop(self) -> None:
        """End it and all connections at once."""
        if self._process:
            self._process.send_signal(2)
            self._process.wait(20)
            self._process = None

    def crash(self) -> None:
        """End it without a checkpoint: it loses what it has not yet written to its log."""
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(20)
        self._process = None

    @contextlib.contextmanager
    def standing_still(self) -> Iterator[None]:
        """Stop the server's processes within the context; its connections stay open."""
        assert self._process is not None
        listed = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(self._process.pid)], check=True, capture_output=True, text=True
        )
        processes = [self._process.pid, *map(int, listed.stdout.split())]
        for one in processes:
            os.kill(one, signal.SIGSTOP)
        try:
            yield
        finally:
            for one in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one, signal.SIGCONT)

    @contextlib.contextmanager
    def schema(self) -> Iterator[str]:
        """The URL of an empty schema."""
        name = f"t{secrets.token_hex(6)}"
        with psycopg.connect(self._url(), autocommit=True) as connection:
            connection.execute(f'CREATE SCHEMA "{name}"')
        yield f"{self._url()}&options={quote(f'-csearch_path={name}')}"

    def _answers(self) -> bool:
        with contextlib.suppress(psycopg.OperationalError), psycopg.connect(self._url()):
            return True
        return False

    def _url(self) -> str:
        return f"postgresql://{USER}@/postgres?host={quote(str(self._folder), safe='')}"

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        subprocess.run(command, check=True, capture_output=True, cwd=self._folder, **self._as)  # type: ignore[call-overload]


@contextlib.contextmanager
def server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="kgd-pg-", ignore_cleanup_errors=True) as folder:  # a short path: a socket
        made = Server(Path(folder))
        try:
            yield made
        finally:
            made.stop()

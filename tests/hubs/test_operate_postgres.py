"""The manual page for operators, where it backs up PostgreSQL and recovers a point in time: its commands, executed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from kgd.model.access import Principal, Scope
from kgd.model.token import AuditEntry, TokenRecord
from tests.conftest import ROOT
from tests.postgres_server import USER, HubState, programs
from tests.waiting import until

pytestmark = [pytest.mark.needs("postgres"), pytest.mark.slow]

PAGE = "docs/guides/operate.md"
Run = Callable[..., str]


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="kgd-pitr-", ignore_cleanup_errors=True) as made:  # a short path: a socket
        yield Path(made)


@pytest.fixture
def run(folder: Path) -> Iterator[Run]:
    """Runs commands as the user of the server, beside a running server."""
    as_user = {"user": "nobody", "group": "nogroup"} if os.geteuid() == 0 else {}
    if as_user:
        shutil.chown(folder, **as_user)
    environment = {
        "PATH": f"{programs()}:{os.environ['PATH']}",
        "LC_ALL": "C.UTF-8",
        "PGHOST": str(folder),
        "PGUSER": USER,
        "PGDATABASE": "postgres",
        **{name: str(folder / name.lower()) for name in ("PGDATA", "ARCHIVE", "BACKUP")},
    }

    def run(script: str, moment: str = "") -> str:
        done = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", script],
            env={**environment, "TIME": moment},
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            **as_user,  # type: ignore[call-overload]
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}"
        return str(done.stdout)

    run(f"""
    initdb --username {USER} --auth trust --encoding UTF8 --no-sync >/dev/null
    for setting in "listen_addresses = ''" "unix_socket_directories = '$PGHOST'" "fsync = off"; do
        echo "$setting" >>"$PGDATA/postgresql.conf"
    done
    mkdir "$ARCHIVE"
    pg_ctl start --silent --wait --log "$PGDATA.log"
    """)
    yield run
    run("pg_ctl stop --silent --mode immediate || true")


def record(id: str) -> TokenRecord:
    holder = Principal(id, id, "agent", (Scope.of("infra", ["read"], ["/**"]),), 4e9)
    return TokenRecord(holder, b"x" * 32, 1)


@pytest.mark.timeout(120)
def test_the_state_of_a_moment_is_recovered_from_the_archive(folder: Path, run: Run) -> None:
    back_up, recover = re.findall(r"^```sh walk postgres\n(.*?)^```$", (ROOT / PAGE).read_text(), re.M | re.S)
    url = f"postgresql://{USER}@/postgres?host={quote(str(folder), safe='')}"
    state = HubState(url)
    state.add(record("first"))
    state.close()
    run(back_up)
    state = HubState(url)
    state.add(record("second"))
    state.note(AuditEntry(2, "second", "mint", "infra", ""))
    with psycopg.connect(url, autocommit=True) as connection:
        [(moment,)] = connection.execute("SELECT now()::text")
    state.add(record("third"))
    state.revoke("first", 3)
    state.close()
    with psycopg.connect(url, autocommit=True) as connection:
        [(segment,)] = connection.execute("SELECT pg_walfile_name(pg_switch_wal())")
    until(lambda: (folder / "archive" / segment).exists())
    run(recover, moment)
    state = HubState(url)
    assert [one.holder.id for one in state.all()] == ["first", "second"]
    found = state.find("first")
    assert found is not None
    assert found.revoked == 0
    assert [entry.action for _, entry in state.lines(0, 10)] == ["mint"]
    state.close()

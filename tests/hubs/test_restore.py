"""Restoring an older backup of PostgreSQL never revives a revoked token."""

from __future__ import annotations

import signal
import subprocess
from urllib.parse import parse_qs, unquote, urlsplit

import psycopg
import pytest

from kgd.config.entries import Entry
from kgd.config.registry import RegistryFile
from kgd.errors import Unavailable
from tests.builders import new_layout
from tests.hub.conftest import Hub
from tests.hubs.conftest import Team
from tests.postgres_server import programs
from tests.sync.people import git

pytestmark = [pytest.mark.needs("postgres"), pytest.mark.slow]
LIST = "refs/kgd/revoked"


class Backup:
    """A dump of the schema of one test, made and restored by PostgreSQL's own programs."""

    def __init__(self, url: str) -> None:
        options = parse_qs(urlsplit(url).query)
        self._url, self._schema = url, options["options"][0].partition("=")[2]
        self._server = ("-h", unquote(options["host"][0]), "-U", "kgd", "-d", "postgres")
        self._dump = self._run("pg_dump", "-n", self._schema)

    def restore(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(f'DROP SCHEMA "{self._schema}" CASCADE')
        self._run("psql", "-q", "-v", "ON_ERROR_STOP=1", sent=self._dump)

    def _run(self, program: str, *arguments: str, sent: bytes = b"") -> bytes:
        found = programs()
        assert found
        command = [str(found / program), *self._server, *arguments]
        return subprocess.run(command, input=sent, stdout=subprocess.PIPE, check=True).stdout


def status(hub: Hub, token: str) -> int:
    return hub.post(token, "infra/status").status


def id_of(token: str) -> str:
    return token.split("_")[2]


@pytest.mark.requirement("N6")
def test_a_backup_from_before_a_revocation_revives_no_token_at_any_hub(team: Team) -> None:
    """One hub that is running, and one with a new home: neither has seen the revocation."""
    first, running = team.start(2)
    kept, gone = first.mint("read", name="ann"), first.mint("read", name="bob")
    child = first.call("token_child", id=id_of(gone), name="cat", verbs=["read"])["token"]
    assert {status(hub, token) for hub in (first, running) for token in (kept, gone, child)} == {200}
    backup = Backup(team.state)
    first.call("token_revoke", id=id_of(gone))
    first.stop(signal.SIGKILL)
    backup.restore()
    (new,) = team.start(1)
    for hub in (running, new):
        assert [status(hub, token) for token in (child, gone, kept)] == [401, 401, 200]


def test_without_its_upstream_a_hub_trusts_no_unchecked_token_and_reports_a_missing_record(team: Team) -> None:
    (hub,) = team.start(1)
    token, other = hub.mint("read", name="ann"), hub.mint("read", name="bob")
    away = team.upstream.rename(team.upstream.with_name("away"))
    answer = hub.post(token, "infra/status")
    assert (answer.status, "list of revoked tokens" in answer.json["detail"]) == (503, True)
    with pytest.raises(Unavailable, match="is revoked, but the upstream has no record"):
        hub.call("token_revoke", id=id_of(token))
    assert status(hub, token) == 401
    away.rename(team.upstream)
    assert hub.call("token_revoke", id=id_of(token))["revoked"] == []
    assert recorded(team) == {id_of(token)}
    assert status(hub, other) == 200
    git(team.upstream, "update-ref", "-d", LIST)  # as if the upstream was restored from a backup
    hub.call("token_revoke", id=id_of(other))
    assert recorded(team) == {id_of(token), id_of(other)}


def test_the_list_of_a_workspace_revokes_no_token_of_another(team: Team) -> None:
    (hub,) = team.start(1)
    new_layout(hub.folder / "shop", "shop")
    RegistryFile(hub.home).register(Entry("shop", str(hub.folder / "shop"), standalone=True))
    own, other = hub.mint("read"), hub.mint("read", workspace="shop")
    listed = team.folder / "listed"
    git(team.folder, "init", "-q", str(listed))
    for token in (own, other):
        file = listed / id_of(token)[:2] / id_of(token)[2:]
        file.parent.mkdir(exist_ok=True)
        file.write_text("1900000000\n")
    (listed / "strange").write_text("not a token\n")
    git(listed, "add", "-A")
    git(listed, "-c", "user.name=Eve", "-c", "user.email=eve@example.org", "commit", "-qm", "revoke all")
    git(listed, "push", "-q", str(team.upstream), f"HEAD:{LIST}")
    assert [status(hub, own), hub.post(other, "shop/status").status] == [401, 200]


def recorded(team: Team) -> set[str]:
    return set(git(team.upstream, "ls-tree", "-r", "--name-only", LIST).replace("/", "").split())

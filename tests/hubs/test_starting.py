"""A hub that cannot share its state says why, in one line, and does not start without it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.hub.conftest import new_hub
from tests.postgres_server import Server

pytestmark = [pytest.mark.needs("postgres"), pytest.mark.slow]

AWAY, WRONG = 9, 2
"""Exit codes: only after the second does a service manager give up."""


def refusal(folder: Path, *options: str) -> tuple[int, str]:
    done = started(folder, *options)
    assert done.stderr.count("\n") == 1, done.stderr
    return done.returncode, done.stderr


def started(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    hub = new_hub(folder, workspaces=())
    command = [sys.executable, "-P", "-m", "kgd.cli", "serve", *options]
    return subprocess.run(command, env=hub.environment, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(
    ("state", "code", "reason"),
    [
        ("postgres://ann:geheim@127.0.0.1:1/kgd", AWAY, "refused"),
        ("postgres://ann:geheim@no.such.host.invalid/kgd", AWAY, "no.such.host.invalid"),
        ("postgres://ann:geheim@127.0.0.1/kgd?nosuch=1", WRONG, "nosuch"),
        ("postgrse://ann:geheim@127.0.0.1/kgd", WRONG, "a PostgreSQL URL"),
        ("env:NO_SUCH_VARIABLE", WRONG, "NO_SUCH_VARIABLE"),
    ],
)
def test_the_reason_is_named_and_never_the_password(tmp_path: Path, state: str, code: int, reason: str) -> None:
    ended, said = refusal(tmp_path, "--listen", "127.0.0.1:0", "--state", state)
    assert ended == code
    assert reason in said
    assert "geheim" not in said


def test_an_empty_address_of_the_state_is_refused(tmp_path: Path) -> None:
    done = started(tmp_path, "--listen", "127.0.0.1:0", "--state", "")
    assert (done.returncode, "the value of --state is empty" in done.stderr) == (WRONG, True)


def test_a_user_that_the_server_does_not_know_is_named(tmp_path: Path, postgres: Server) -> None:
    with postgres.schema() as url:
        ended, said = refusal(tmp_path, "--listen", "127.0.0.1:0", "--state", url.replace("kgd@", "nosuch@"))
    assert ended == AWAY
    assert 'role "nosuch" does not exist' in said


def test_a_daemon_that_is_no_hub_shares_nothing(tmp_path: Path) -> None:
    ended, said = refusal(tmp_path, "--state", "postgres://127.0.0.1/kgd")
    assert ended == WRONG
    assert "--listen" in said

"""Two teams with four people share a workspace by the guide's script: through a directory, ssh, or a hub."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hub.conftest import new_hub
from tests.sshd import Sshd
from tests.sync.people import bare

SCRIPT = Path(__file__).with_name("two_teams.sh")

pytestmark = [pytest.mark.slow, pytest.mark.requirement("B8")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A place without a repository in any parent folder."""
    made = tmp_path / "teams"
    made.mkdir()
    return made


def played(folder: Path, *arguments: str, **environment: str) -> None:
    programs = str(Path(sys.executable).parent)
    known = {name: os.environ[name] for name in ("HOME", "LC_ALL", "XDG_CONFIG_HOME") if name in os.environ}
    done = subprocess.run(
        ["sh", str(SCRIPT), str(folder), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=220,
        env={**known, "PATH": f"{programs}:{os.environ['PATH']}", "GIT_CONFIG_NOSYSTEM": "1", **environment},
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    assert "nothing is lost" in done.stdout


def test_over_a_directory(folder: Path) -> None:
    played(folder)


@pytest.mark.large
@pytest.mark.needs("sshd")
def test_over_ssh(folder: Path, tmp_path: Path) -> None:
    server = Sshd(tmp_path / "sshd")
    try:
        played(folder, server.url(bare(tmp_path / "server.git")), GIT_SSH_COMMAND=server.command)
    finally:
        server.stop()


@pytest.mark.requirement("B5")
def test_over_a_hub(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "hub").mkdir()
    hub = new_hub(tmp_path / "hub").start()
    try:
        token = hub.call(
            "token_mint",
            workspace="infra",
            verbs=["read", "write"],
            paths=["/**"],
            name="teams",
            kind="person",
            expires="1d",
        )["token"]
        kept = tmp_path / "token"
        kept.touch(0o600)
        kept.write_text(f"{token}\n")
        played(folder, f"{hub.url}/git/infra", TOKEN=str(kept), PLAIN_URL=hub.git_url(token))
    finally:
        hub.stop()

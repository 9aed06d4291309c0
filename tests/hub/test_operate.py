"""The manual pages about a hub, executed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgd.config import Home
from tests.daemon.conftest import end_daemon
from tests.ports import free_port
from tests.test_docs import ROOT, Session, session, shows, steps

__all__ = ["session"]


@pytest.fixture
def keeper(session: Session) -> Iterator[Session]:
    session.environment.pop("KGD_TOKEN", None)
    yield session
    above = session.directory.parent
    for home in ("home", "anns-home", "billings-home", "restored-home"):
        end_daemon(Home.at(str(above / home)))


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize(("page", "least"), [("docs/guides/operate.md", 10), ("docs/hub.md", 3)])
def test_a_hub_is_run_as_the_page_shows(keeper: Session, page: str, least: int) -> None:
    port = str(free_port())
    walk = steps(page)
    assert len(walk) >= least
    for step in walk:
        done = keeper.run(step.script.replace("7601", port))
        shown = (step.shown or "").replace("7601", port)
        assert done.returncode == 0, f"{page}:{step.line} ended with {done.returncode}:\n{done.stdout}"
        assert step.shown is None or shows(shown, done.stdout), f"{page}:{step.line} prints:\n{done.stdout}"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="MISSING PROGRAM systemd-analyze")
def test_the_unit_is_sound(tmp_path: Path) -> None:
    text = (ROOT / "deploy/kgd-hub.service").read_text()
    unit = tmp_path / "kgd-hub.service"
    unit.write_text(text.replace("/opt/kgd/bin/kgd", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (0, "")

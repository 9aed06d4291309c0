"""One daemon for each file of attacks: what one attack left behind meets the next one, as it would outside."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.daemon.conftest import ROOT, end_daemon
from tests.hostile.target import Target


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with pytest.MonkeyPatch.context() as world:
        home = tmp_path_factory.mktemp("person")
        for name in [n for n in os.environ if n.startswith(("GIT_", "KGD_", "XDG_"))]:
            world.delenv(name)
        world.setenv("HOME", str(home))
        world.setenv("GIT_CONFIG_NOSYSTEM", "1")
        world.setenv("PYTHONPATH", str(ROOT))
        (home / ".gitconfig").write_text("[user]\n\tname = Ann\n\temail = ann@example.org\n[init]\n\tdefaultBranch = main\n")
        made = Target(tmp_path_factory.mktemp("hostile"))
        yield made
        end_daemon(made.home)

"""One daemon for each file of attacks: the remains of one attack meet the next, as in real use."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.daemon.conftest import ROOT, end_daemon
from tests.hostile.target import Target


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The environment in which the daemons of these tests start."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [n for n in os.environ if n.startswith(("GIT_", "KGD_", "XDG_")) and n != "KGD_SOAK"]:
            patch.delenv(name)
        home = tmp_path_factory.mktemp("person")
        name = "[user]\n\tname = Ann\n\temail = ann@example.org\n[init]\n\tdefaultBranch = main\n"
        # Filters, hooks and drivers of the repository all lead here, so running one leaves a trace.
        traps = f'[filter "evil"]\n\tclean = touch {home}/ran\n\tsmudge = touch {home}/ran\n\trequired = true\n'
        (home / ".gitconfig").write_text(name + traps)
        patch.setenv("HOME", str(home))
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        patch.setenv("PYTHONPATH", str(ROOT))
        yield


@pytest.fixture(scope="module")
def target(world: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    made = Target(tmp_path_factory.mktemp("hostile"))
    yield made
    end_daemon(made.home)


@pytest.fixture
def fresh_target(world: None, tmp_path: Path) -> Iterator[Callable[[], Target]]:
    """Targets for attacks after which a person has to repair the workspace."""
    made: list[Target] = []

    def make() -> Target:
        made.append(Target(tmp_path / str(len(made))))
        return made[-1]

    yield make
    for one in made:
        end_daemon(one.home)

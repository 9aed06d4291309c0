"""Sites and hubs that end with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.across.sites import Hub, Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Callable[[str], Site]]:
    made: list[Site] = []

    def make(name: str) -> Site:
        made.append(Site(tmp_path, name))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def hub() -> Iterator[Callable[[Site], Hub]]:
    made: list[Hub] = []

    def make(site: Site) -> Hub:
        made.append(Hub(site))
        return made[-1]

    yield make
    for one in made:
        one.stop()

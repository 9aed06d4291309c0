"""People with a daemon each, in this process: what one of them does reaches the others through a real remote alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sync.people import Person, bare


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Callable[..., Person]]:
    made: list[Person] = []

    def make(name: str, **more: Any) -> Person:
        made.append(Person(tmp_path / name, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def ann(person: Callable[..., Person]) -> Person:
    return person("ann")


@pytest.fixture
def bob(person: Callable[..., Person]) -> Person:
    return person("bob")


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    """An empty repository that everybody reaches."""
    return bare(tmp_path / "hub.git")

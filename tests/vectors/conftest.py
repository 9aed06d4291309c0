"""A workspace of its own for each test, with vectors, closed at the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kgd.vectors.choosing import Choice
from kgd.workspace.workspace import Workspace
from tests.builders import new_layout


class Desk:
    """One workspace that can be closed and opened again, and whose person may choose another embedder at any time."""

    def __init__(self, directory: Path) -> None:
        self.layout = new_layout(directory)
        self.choice = Choice()
        self.secrets: dict[str, str] = {}
        self._open: Workspace | None = None

    @property
    def file(self) -> Path:
        return self.layout.derived_dir / "vectors.sqlite"

    def open(self, *, follow: bool = True) -> Workspace:
        self.close()
        self._open = Workspace.open(self.layout, publish=False)
        if follow:
            self._open.meaning.follow(lambda: self.choice, self.secrets.__getitem__)
        return self._open

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path / "knowledge")
    yield desk
    desk.close()


@pytest.fixture
def ws(desk: Desk) -> Workspace:
    return desk.open()

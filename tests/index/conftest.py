from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kgd.index.database import Database


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "index.db")
    yield database
    database.close()

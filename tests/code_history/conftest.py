"""A code repository for each test, beside its index."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.code_history.support import Code


@pytest.fixture
def code(tmp_path: Path) -> Code:
    return Code(tmp_path / "code")

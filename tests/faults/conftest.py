"""Programs that are killed, and cut off from their disk."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _unforked(unforked: None) -> None:
    """The tests look for parsers among the children of a daemon."""

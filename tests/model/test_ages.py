"""Ages in words."""

from __future__ import annotations

import pytest

from kgd.model.escaping import ago


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (5, "just now"),
        (60, "1 minute ago"),
        (7_300, "2 hours ago"),
        (3 * 86_400 + 5, "3 days ago"),
        (20 * 86_400, "2 weeks ago"),
        (100 * 86_400, "3 months ago"),
        (800 * 86_400, "2 years ago"),
    ],
)
def test_an_age_is_shown_in_its_largest_unit(seconds: int, shown: str) -> None:
    assert ago(seconds) == shown

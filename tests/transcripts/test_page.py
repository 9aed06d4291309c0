"""The transcripts in the manual show kgd's present answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.transcripts.page import lines

PAGE = Path(__file__).parents[2] / "docs/transcripts.md"


@pytest.mark.slow
def test_the_manual_shows_todays_answers(tmp_path: Path) -> None:
    again = "Regenerate the page: python -m tests.transcripts > docs/transcripts.md"
    assert "\n".join(lines(tmp_path)) + "\n" == PAGE.read_text(), again

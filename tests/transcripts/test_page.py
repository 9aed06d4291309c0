"""The transcripts in the manual and in README show kgd's present answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kgd.tools.session import Session
from tests.transcripts.page import asked, lines, warning

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with asked(tmp_path_factory.mktemp("example")) as made:
        yield made


def test_the_manual_shows_todays_answers(session: Session) -> None:
    again = "Regenerate the page: python -m tests.transcripts > docs/transcripts.md"
    assert "\n".join(lines(session)) + "\n" == (ROOT / "docs/transcripts.md").read_text(), again


def test_the_readme_shows_how_an_agent_is_warned(session: Session) -> None:
    shown = "\n".join(warning(session))
    assert "our own check prevents that." in shown
    assert shown in (ROOT / "README.md").read_text(), f"Put this into README.md:\n{shown}"

"""Notes about a file whose comments have the words of the question."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.conftest import Ask, upsert
from tests.waiting import until

Note = Callable[[str], None]
LEDGER = '''"""The ledger."""

def close(book):
    # Whoever restarts the development server
    return book

def open(book):
    # loses the pages that were open
    return book
'''


@pytest.fixture
def note(ask: Ask, code: Path) -> Note:
    """Writes a note about `src/ledger.py`, and waits until search knows both."""

    def write(summary: str) -> None:
        meaning = ask.session.daemon.workspace("shop").meaning
        meaning.follow()
        (code / "src" / "ledger.py").write_text(LEDGER)
        ask.put(
            changes=upsert(
                "gotcha:ledger",
                name="Ledger",
                summary=summary,
                relations=[{"type": "about", "target": "./src/ledger.py"}],
            )
        )
        assert meaning.catch_up(30)
        until(lambda: "ledger.py" in str(ask.search(query="restarts the development server")["code"]))

    return write


def found(answer: dict[str, Any]) -> list[str]:
    return [hit["uri"] for hit in answer.get("hits", answer.get("items", []))]


QUESTION = "who loses pages when the development server restarts"


@pytest.mark.slow
def test_a_note_is_no_answer_only_because_its_file_has_the_words_of_the_question(ask: Ask, note: Note) -> None:
    note("Amounts are whole cents.")
    assert found(ask.search(query=QUESTION)) == []
    assert found(ask.context(question=QUESTION)) == []


@pytest.mark.slow
def test_a_question_without_words_finds_nothing(ask: Ask, note: Note) -> None:
    note("Amounts are whole cents.")
    answer = ask.search(query="????")
    assert (answer["hits"], answer["code"]) == ([], [])


@pytest.mark.slow
def test_a_note_in_other_words_than_the_question_is_found_by_meaning(ask: Ask, note: Note) -> None:
    note("Unsaved documents vanish if a web host is relaunched.")
    hit = ask.search(query=QUESTION)["hits"][0]
    assert hit["uri"] == "gotcha://shop/ledger"
    assert "meaning alone" in hit["why"]

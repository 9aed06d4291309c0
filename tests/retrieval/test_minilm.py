"""A real transformer in an ONNX folder, as `scripts/minilm.sh` downloads it."""

from __future__ import annotations

import pytest

from kgd.vectors.choosing import Choice
from kgd.workspace.workspace import Workspace
from tests.builders import change, upsert, uri
from tests.conftest import ROOT
from tests.retrieval.conftest import Asked, uris

pytest.importorskip("onnxruntime")
pytestmark = [pytest.mark.needs("minilm"), pytest.mark.requirement("N1", "U6")]

SOON = 60.0
NOTES = {
    "invoices": "Invoices are sent on the first day of each month, by post.",
    "sessions": "A session ends after thirty minutes without a request.",
    "backups": "The database is copied to another building every night.",
    "scrolling": "Long lists keep only the visible rows in memory.",
    "keyboard": "Composed Korean and Japanese input must not be replaced while it is being written.",
    "broker": "Messages that fail five times go to the dead letter queue.",
    "holidays": "Nothing is deployed between Christmas and New Year.",
    "images": "Pictures are resized on upload and kept in three formats.",
    "licences": "Dependencies under the AGPL are not allowed.",
    "support": "Customers write to the help desk, which answers within a day.",
    "lunch": "The canteen serves vegetarian dishes on Thursdays.",
    "hiring": "Candidates talk to two engineers and one designer.",
}


@pytest.fixture
def embedded(ws: Workspace) -> Workspace:
    ws.meaning.follow(lambda: Choice("onnx", dir=str(ROOT / ".minilm")))
    ws.submit(change(*(upsert(name, name=name, content=text) for name, text in NOTES.items())))
    assert ws.meaning.catch_up(SOON), ws.meaning.stage()
    return ws


@pytest.mark.slow
@pytest.mark.parametrize(
    ("question", "note"),
    [
        ("typing in Seoul scrambles characters", "keyboard"),
        ("when are clients billed", "invoices"),
        ("how long until a user is logged out", "sessions"),
        ("may we release software at the end of December", "holidays"),
    ],
)
def test_a_question_without_a_common_word_finds_its_note(
    embedded: Workspace, asked: Asked, question: str, note: str
) -> None:
    assert uris(asked(question, max_depth=0))[0] == uri(note)


@pytest.mark.slow
def test_a_question_about_something_else_finds_nothing(embedded: Workspace, asked: Asked) -> None:
    assert uris(asked("glaciers of the Himalaya melting quickly", max_depth=0)) == []


@pytest.mark.slow
def test_status_names_the_model(embedded: Workspace) -> None:
    assert embedded.meaning.stage().about == f"onnx .minilm: {len(NOTES)} of {len(NOTES)} texts"

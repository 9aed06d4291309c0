"""What means alike is found in a workspace, and its vectors follow its texts."""

from __future__ import annotations

from kgd.model.change import Delete
from kgd.workspace.workspace import Workspace
from tests.builders import change, upsert, uri
from tests.vectors.conftest import Desk

SOON = 60.0
TEXTS = {
    "cat": "The kitten sleeps on a warm sofa next to the fireplace.",
    "money": "Quarterly revenue grew because of subscriptions and pricing.",
    "deploy": "Releases roll out to production servers after a canary.",
}


def fill(ws: Workspace, texts: dict[str, str] = TEXTS) -> None:
    ws.submit(change(*[upsert(name, content=text) for name, text in texts.items()]))
    assert ws.meaning.catch_up(SOON)


def best(ws: Workspace, question: str) -> str:
    return ws.meaning.nearest(question, 3).hits[0][0].rpartition("/")[2]


def test_a_question_finds_what_means_alike_in_other_words(ws: Workspace) -> None:
    fill(ws)
    assert best(ws, "a pet cat resting on the couch") == "cat"
    assert best(ws, "company income and finances") == "money"
    assert best(ws, "shipping software") == "deploy"


def test_vectors_follow_what_is_written_and_forget_what_is_deleted(ws: Workspace) -> None:
    fill(ws)
    edited = upsert("money", content="A dog barks at the postman.", expect_version=1)
    ws.submit(change(edited, Delete(uri("cat"))))
    assert ws.meaning.catch_up(SOON)
    assert best(ws, "puppy") == "money"
    assert {hit for hit, _ in ws.meaning.nearest("kitten", 9).hits} == {uri("money"), uri("deploy")}
    assert ws.meaning.similarity("kitten", [uri("cat")]) == {}


def test_a_restart_goes_on_where_it_was_and_embeds_nothing_twice(desk: Desk) -> None:
    ws = desk.open()
    fill(ws)
    before = ws.meaning.nearest("income", 3)
    ws = desk.open()
    assert ws.meaning.nearest("income", 3) == before
    ws.submit(change(upsert("new", content="Something else entirely.")))
    assert ws.meaning.catch_up(SOON)
    assert ws.meaning.embedded == 1

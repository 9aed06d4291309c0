"""Search by meaning in a workspace, whose vectors follow its texts through all events."""

from __future__ import annotations

import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgd.index.text import Doc, FileDoc
from kgd.model.change import Delete, Edit
from kgd.model.uri import Uri
from kgd.vectors.builtin import SCALE
from kgd.vectors.choosing import Choice
from kgd.workspace.derived import embedding
from kgd.workspace.derived.embedding import SAMPLE
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.transaction import MAX_EDITS
from tests.builders import change, upsert, uri
from tests.vectors.conftest import Desk
from tests.vectors.models import Endpoint, answering, by_words, failing, serving, write_onnx
from tests.waiting import until

SOON = 60.0
TEXTS = {
    "cat": "The kitten sleeps on a warm sofa next to the fireplace.",
    "money": "Quarterly revenue grew because of subscriptions and pricing.",
    "deploy": "Releases roll out to production servers after a canary.",
}


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    yield from serving()


def write(ws: Workspace, *edits: Edit) -> None:
    ws.submit(change(*edits))
    assert ws.meaning.catch_up(SOON), ws.meaning.stage()


def fill(ws: Workspace, texts: dict[str, str] = TEXTS) -> None:
    some = [upsert(name, content=text) for name, text in texts.items()]
    for start in range(0, len(some), MAX_EDITS):
        ws.submit(change(*some[start : start + MAX_EDITS]))
    assert ws.meaning.catch_up(SOON), ws.meaning.stage()


def best(ws: Workspace, question: str) -> str:
    return ws.meaning.nearest(question, 3).hits[0][0].rpartition("/")[2]


def found(ws: Workspace, question: str = "anything at all") -> set[str]:
    return {hit.rpartition("/")[2] for hit, _ in ws.meaning.nearest(question, 999).hits}


def git_state(ws: Workspace) -> tuple[str, set[str]]:
    """Every ref, and every file of the repository except derived ones."""
    refs = subprocess.run(
        ["git", "--git-dir", ws.layout.git_dir, "for-each-ref"], check=True, capture_output=True, text=True
    ).stdout
    derived = ws.layout.derived_dir
    files = {str(path) for path in Path(ws.layout.git_dir).rglob("*") if path.is_file() and derived not in path.parents}
    return refs, files


@pytest.mark.requirement("U6")
def test_a_question_finds_what_means_alike_in_other_words(ws: Workspace) -> None:
    fill(ws)
    assert best(ws, "a pet cat resting on the couch") == "cat"
    assert best(ws, "company income and finances") == "money"
    assert best(ws, "shipping software") == "deploy"
    hits, floor = ws.meaning.nearest("shipping software", 3)
    assert floor == hits[-1][1]
    assert ws.meaning.similarity("shipping software", [uri("cat"), uri("none")]) == {
        hit: value for hit, value in hits if hit == uri("cat")
    }
    assert [hit for hit, _ in ws.meaning.nearest("kitten", 9, [uri("money"), uri("none")]).hits] == [uri("money")]
    assert 0 < ws.meaning.share < 1


def test_a_question_that_says_nothing_finds_nothing(ws: Workspace) -> None:
    fill(ws)
    assert ws.meaning.nearest("", 5) == ([], 0.0)
    assert ws.meaning.similarity("", [uri("cat")]) == {}


def test_vectors_follow_writes_and_deletions(ws: Workspace) -> None:
    fill(ws)
    write(ws, upsert("money", content="A dog barks at the postman.", expect_version=1), Delete(uri("cat")))
    assert best(ws, "puppy") == "money"
    assert found(ws) == {"money", "deploy"}
    assert ws.meaning.similarity("kitten", [uri("cat")]) == {}
    assert "2 of 2" in ws.meaning.stage().about


def test_only_changed_texts_are_embedded(ws: Workspace) -> None:
    fill(ws)
    before = ws.meaning.embedded
    write(ws, upsert("cat", tags=("pets",)), upsert("money", data={"importance": "high"}))
    assert ws.meaning.embedded == before
    write(ws, upsert("cat", summary="A cat"))
    assert ws.meaning.embedded == before + 1


def test_texts_of_the_code_tree_are_embedded_and_bare_files_never(ws: Workspace) -> None:
    file = Uri("file://ws/docs/pets.md")
    chunk = Doc(Uri("chunk://ws/docs/pets.md/1"), "chunk", "Pets", content="The kitten sleeps on a sofa.")
    ws.note_files([FileDoc(file, "docs/pets.md", "markdown"), FileDoc(Uri("file://ws/cat.py"), "cat.py", "python")])
    ws.note_tree(file, [chunk])
    assert ws.meaning.catch_up(SOON)
    assert [hit for hit, _ in ws.meaning.nearest("cat", 9).hits] == [chunk.uri]
    ws.note_tree(file, [])
    assert ws.meaning.catch_up(SOON)
    assert not ws.meaning.nearest("cat", 9).hits


def test_a_restart_goes_on_where_it_was_and_embeds_nothing_twice(desk: Desk) -> None:
    ws = desk.open()
    fill(ws)
    before = ws.meaning.nearest("income", 3)
    ws = desk.open()
    assert ws.meaning.nearest("income", 3) == before
    write(ws, upsert("new", content="Something else entirely."))
    assert ws.meaning.embedded == 1


def test_changes_from_before_the_start_are_caught_up(desk: Desk) -> None:
    fill(desk.open())
    ws = desk.open(follow=False)
    ws.submit(change(upsert("new", content="A dog."), Delete(uri("cat"))))
    assert ws.meaning.share == 0.0
    ws = desk.open()
    assert ws.meaning.catch_up(SOON)
    assert ws.meaning.embedded == 1
    assert found(ws) == {"new", "money", "deploy"}


def test_an_index_that_is_made_anew_claims_the_vectors_of_the_same_texts(desk: Desk) -> None:
    fill(desk.open())
    desk.close()
    (desk.layout.derived_dir / "index.sqlite").unlink()
    ws = desk.open()
    assert ws.meaning.catch_up(SOON)
    assert ws.meaning.embedded == 0
    assert found(ws) == set(TEXTS)
    write(ws, Delete(uri("cat")))
    assert found(ws) == {"money", "deploy"}


@pytest.mark.requirement("U6")
def test_nothing_of_it_is_in_git(ws: Workspace) -> None:
    ws.submit(change(*[upsert(name, content=text) for name, text in TEXTS.items()]))
    before = git_state(ws)
    assert ws.meaning.catch_up(SOON)
    assert best(ws, "income") == "money"
    assert git_state(ws) == before


@pytest.mark.parametrize("damage", ["gone", "garbage", "torn", "other"])
def test_a_file_that_is_damaged_or_deleted_is_made_anew(desk: Desk, damage: str) -> None:
    ws = desk.open()
    fill(ws)
    if damage in ("gone", "other"):  # while it is in use
        if damage == "gone":
            desk.file.unlink()
        else:
            with sqlite3.connect(desk.file) as connection:
                connection.execute("DROP TABLE vectors")
            connection.close()
        assert best(ws, "income") == "money"
    else:
        desk.close()
        data = desk.file.read_bytes()
        desk.file.write_bytes(b"x" * len(data) if damage == "garbage" else data[: len(data) // 2])
        ws = desk.open()
    write(ws, upsert("new", content="A dog."))
    assert found(ws) == {*TEXTS, "new"}
    ws = desk.open()
    assert ws.meaning.catch_up(SOON)
    assert (found(ws), ws.meaning.embedded) == ({*TEXTS, "new"}, 0)


@pytest.mark.parametrize("type", ["BLOB", "TEXT"])
def test_vectors_of_another_size_are_computed_again(desk: Desk, type: str) -> None:
    fill(desk.open())
    desk.close()
    spoiled = f"UPDATE vectors SET vector = CAST(x'ff' || substr(vector, 3) AS {type}) WHERE uri LIKE '%cat'"
    with sqlite3.connect(desk.file) as connection:
        connection.execute(spoiled)
    connection.close()
    ws = desk.open()
    assert ws.meaning.catch_up(SOON)
    assert best(ws, "kitten") == "cat"
    assert ws.meaning.embedded == len(TEXTS)


def test_reindex_makes_them_anew_while_the_old_ones_answer(desk: Desk, endpoint: Endpoint) -> None:
    desk.choice = Choice("openai", url=endpoint.url, model="m")
    ws = desk.open()
    fill(ws)
    held, asked = threading.Event(), threading.Event()

    def slow(handler: object, body: object) -> None:
        asked.set()
        held.wait(SOON)
        answering(by_words)(handler, body)  # type: ignore[arg-type]

    before = ws.meaning.nearest("kitten sofa", 3)
    endpoint.behave = slow
    ws.reindex()
    assert asked.wait(SOON)
    assert ws.meaning.nearest("kitten sofa", 3) == before
    held.set()
    assert ws.meaning.catch_up(SOON)
    assert ws.meaning.nearest("kitten sofa", 3) == before
    assert ws.meaning.embedded == 2 * len(TEXTS)


def test_another_embedder_takes_over_when_it_has_all_and_the_old_one_answers_till_then(
    desk: Desk, endpoint: Endpoint, tmp_path: Path
) -> None:
    ws = desk.open()
    fill(ws)
    assert best(ws, "income") == "money"
    endpoint.behave = failing(503)
    desk.choice = Choice("openai", url=endpoint.url, model="m")
    assert not ws.meaning.catch_up(SOON)
    assert best(ws, "income") == "money"
    ws = desk.open()  # and after a restart
    assert not ws.meaning.catch_up(SOON)
    assert best(ws, "income") == "money"
    endpoint.behave = answering(by_words)
    assert ws.meaning.catch_up(SOON)
    assert ws.meaning.stage().about.startswith("openai m at ")
    assert best(ws, "canary") == "deploy"
    assert ws.meaning.share == 0.5
    desk.choice = Choice("onnx", dir=str(write_onnx(tmp_path / "model")))
    assert ws.meaning.catch_up(SOON)
    assert best(ws, "cat") == "cat"
    desk.choice = Choice()
    assert ws.meaning.catch_up(SOON)
    assert best(ws, "income") == "money"
    with sqlite3.connect(desk.file) as connection:
        assert connection.execute("SELECT count(*) FROM vectors").fetchone() == (len(TEXTS),)
    connection.close()


def test_off_is_off_at_once_and_says_so(desk: Desk) -> None:
    ws = desk.open()
    fill(ws)
    desk.choice = Choice("off")
    assert ws.meaning.nearest("income", 3) == ([], 0.0)
    assert not ws.meaning.catch_up(SOON)
    assert (ws.meaning.share, ws.meaning.nearest("income", 3)) == (0.0, ([], 0.0))
    assert ws.meaning.stage().state == "off"
    assert "words" in ws.meaning.stage().blocker
    assert not ws.degraded()
    desk.choice = Choice()
    assert ws.meaning.catch_up(SOON)
    assert (best(ws, "income"), ws.meaning.embedded) == ("money", len(TEXTS))


@pytest.mark.requirement("U6")
def test_no_text_and_no_question_goes_to_an_endpoint_that_was_taken_out(desk: Desk, endpoint: Endpoint) -> None:
    def taken_out_meanwhile(handler: object, body: object) -> None:
        desk.choice = Choice()
        answering(by_words)(handler, body)  # type: ignore[arg-type]

    desk.choice = Choice("openai", url=endpoint.url, model="m", batch=2)
    ws = desk.open()
    fill(ws)
    before = len(endpoint.asked)
    endpoint.behave = taken_out_meanwhile
    ws.submit(change(*[upsert(f"n{n}", content=f"text {n}") for n in range(10)]))
    assert ws.meaning.catch_up(SOON)
    assert len(endpoint.asked) == before + 1
    assert ws.meaning.nearest("sofa", 3).hits
    assert ws.meaning.stage().about == "builtin: 13 of 13 texts"
    desk.choice = Choice("openai", url=endpoint.url, model="m")
    endpoint.behave = answering(by_words)
    assert ws.meaning.catch_up(SOON)
    before = len(endpoint.asked)
    desk.choice = Choice()
    assert ws.meaning.nearest("another question", 3) == ([], 0.0)
    assert len(endpoint.asked) == before


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        (failing(503), "503"),
        (failing(401), "key"),
        (answering(lambda text: by_words(text, 5)), "5 numbers instead of 16"),
        (answering(lambda text: [float("nan")] * 16), "v1"),
    ],
    ids=["down", "no key", "another size", "no numbers"],
)
def test_trouble_is_shown_in_status_and_search_continues_without_vectors(
    desk: Desk, endpoint: Endpoint, trouble: object, said: str
) -> None:
    desk.choice = Choice("openai", url=endpoint.url, model="m")
    ws = desk.open()
    fill(ws)
    endpoint.behave = trouble  # type: ignore[assignment]
    ws.submit(change(upsert("new", content="A dog.")))
    assert not ws.meaning.catch_up(SOON)
    stage = ws.health()["embedding"]
    assert stage.state == "degraded"
    assert said in stage.blocker
    assert any(line.startswith("embedding: ") for line in ws.degraded())
    assert ws.meaning.nearest("kitten sofa", 3) == ([], 0.0)
    assert ws.text().search("dog")
    endpoint.behave = answering(by_words)
    assert ws.meaning.catch_up(SOON)
    assert found(ws, "dog") == {*TEXTS, "new"}
    assert (ws.health()["embedding"].state, ws.degraded()) == ("ok", ())


def test_one_text_that_an_endpoint_refuses_does_not_hold_the_others_up(desk: Desk, endpoint: Endpoint) -> None:
    def picky(handler: object, body: dict[str, list[str]]) -> None:
        bad = any("forbidden" in text or len(text) > 2_000 for text in body["input"])
        (failing(400, {"error": "too long"}) if bad else answering(by_words))(handler, body)  # type: ignore[arg-type]

    endpoint.behave = picky
    desk.choice = Choice("openai", url=endpoint.url, model="m")
    ws = desk.open()
    fill(ws, {**TEXTS, "long": "word " * 1_000, "bad": "forbidden words"})
    assert found(ws) == {*TEXTS, "long"}
    asked = len(endpoint.asked)
    write(ws, upsert("bad", tags=("x",)))
    assert len(endpoint.asked) == asked
    endpoint.behave = failing(400)  # for every request, so it is unrelated to the text
    ws.submit(change(upsert("new", content="A dog.")))
    assert not ws.meaning.catch_up(SOON)
    endpoint.behave = answering(by_words)
    assert ws.meaning.catch_up(SOON)
    assert found(ws) == {*TEXTS, "long", "new"}


@pytest.mark.slow
def test_an_endpoint_that_hangs_holds_neither_a_question_nor_a_close(desk: Desk, endpoint: Endpoint) -> None:
    desk.choice = Choice("openai", url=endpoint.url, model="m", seconds=60)
    ws = desk.open()
    fill(ws)
    reached = threading.Event()

    def hang(handler: object, body: object) -> None:
        reached.set()
        endpoint.stopped.wait(SOON)

    endpoint.behave = hang
    ws.submit(change(upsert("new", content="A dog.")))
    ws.meaning.wake()
    assert reached.wait(SOON)
    start = time.monotonic()
    assert ws.meaning.nearest("kitten", 3) == ([], 0.0)
    assert ws.meaning.nearest("sofa", 3) == ([], 0.0)  # it is not asked again at once
    desk.close()
    assert time.monotonic() - start < 20
    size = desk.file.stat().st_size
    endpoint.stopped.set()
    assert desk.file.stat().st_size == size


def test_a_workspace_without_texts_loads_nothing(desk: Desk) -> None:
    ws = desk.open()
    assert ws.meaning.catch_up(SOON)
    assert ws.meaning.share == 0.0
    assert ws.meaning.stage().state == "ok"
    assert not desk.file.exists()


def test_rare_words_weigh_more_independent_of_history(desk: Desk, tmp_path: Path) -> None:
    texts = {f"n{n}": f"the server says {('apple', 'lamp', 'river')[n % 3]} number {n}" for n in range(45)}
    ws = desk.open()
    fill(ws, texts)
    question = "the server says lamp"
    at_once = ws.meaning.nearest(question, 5)
    other = Desk(tmp_path / "other")
    try:
        again = other.open()
        fill(again, dict.fromkeys(list(texts)[::2], "something else first"))
        fill(again, {name: text for name, text in texts.items() if not again.exists(uri(name))})
        write(again, *[upsert(n, content=texts[n], expect_version=1) for n in list(texts)[::2]])
        assert again.meaning.nearest(question, 5) == at_once
        assert other.open().meaning.nearest(question, 5) == at_once
    finally:
        other.close()


@pytest.mark.slow
def test_the_sample_for_rarity_is_independent_of_history(desk: Desk, tmp_path: Path) -> None:
    texts = {f"n{n}": f"{('apple', 'lamp', 'river')[n % 3]} {n}" for n in range(SAMPLE + 700)}
    ws = desk.open()
    fill(ws, texts)
    write(ws, *[Delete(uri(name)) for name in list(texts)[:500]], upsert("x", content="the lamp"))
    other = Desk(tmp_path / "other")
    try:
        again = other.open()
        fill(again, {"x": "the lamp"} | dict(list(texts.items())[:499:-1]))
        assert again.meaning.nearest("the lamp", 5) == ws.meaning.nearest("the lamp", 5)
    finally:
        other.close()


def test_similarities_mean_the_same_after_a_restart(desk: Desk, endpoint: Endpoint) -> None:
    desk.choice = Choice("openai", url=endpoint.url, model="any")
    ws = desk.open()
    fill(ws, {name: f"{name} is drunk in {place}" for name, place in zip("abcdefghijkl", "mnopmnopmnop", strict=True)})
    scale = ws.meaning.scale
    assert scale is not None
    ws = desk.open()
    assert ws.meaning.nearest("tea", 1).hits
    assert ws.meaning.scale == scale
    desk.choice = Choice()
    assert ws.meaning.catch_up(SOON)
    assert ws.meaning.scale == SCALE


@pytest.mark.slow
def test_many_that_go_at_once_are_forgotten_and_their_places_used_again(ws: Workspace) -> None:
    fill(ws, {f"n{n}": f"text number {n}" for n in range(100)})
    write(ws, *[Delete(uri(f"n{n}")) for n in range(0, 100, 2)])
    assert found(ws) == {f"n{n}" for n in range(1, 100, 2)}
    fill(ws, {f"m{n}": f"other text {n}" for n in range(60)})
    assert found(ws) == {f"n{n}" for n in range(1, 100, 2)} | {f"m{n}" for n in range(60)}


def test_memory_is_returned_to_the_system_after_many_texts_and_not_after_few(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_back: list[int] = []
    monkeypatch.setattr(embedding, "MANY", 30)
    monkeypatch.setattr(embedding, "give_memory_back", lambda: given_back.append(1))
    fill(ws, {f"n{n}": f"text number {n}" for n in range(50)})
    before = len(given_back)
    assert before
    fill(ws)
    assert len(given_back) == before


@pytest.mark.slow
def test_status_shows_the_current_number_of_waiting_texts(desk: Desk, endpoint: Endpoint) -> None:
    held = threading.Event()

    def slowly(handler: object, body: object) -> None:
        held.wait(SOON)
        answering(by_words)(handler, body)  # type: ignore[arg-type]

    def is_told(words: str) -> None:
        until(lambda: ws.meaning.stage().about.endswith(words), SOON, ws.meaning.stage)

    endpoint.behave = slowly
    desk.choice = Choice("openai", url=endpoint.url, model="m")
    ws = desk.open()
    try:
        assert ws.meaning.stage().about == "begins in a moment"
        ws.submit(change(*(upsert(name, content=text) for name, text in TEXTS.items())))
        is_told(": 0 of 3 texts, 3 wait to be embedded")
        ws.submit(change(upsert("more", content="one more")))
        is_told(": 0 of 4 texts, 4 wait to be embedded")
    finally:
        held.set()
    assert ws.meaning.catch_up(SOON)
    is_told(": 4 of 4 texts")
    ws.submit(change(upsert("last", content="the last")))
    is_told(": 5 of 5 texts")

"""What a question finds: by words, by meaning, and by the edges between what it found."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from kgd.errors import Unavailable
from kgd.index.text import Doc
from kgd.model.change import Delete
from kgd.model.uri import Uri
from kgd.retrieval.query import Question
from kgd.retrieval.retrieve import retrieve
from kgd.workspace.workspace import Workspace
from tests.builders import change, to, upsert, uri
from tests.retrieval.conftest import Asked, in_code, uris


def document(ws: Workspace, name: str, *texts: str) -> None:
    chunks = [f"chunk://ws/{name}/{number:04d}" for number in range(1, len(texts) + 1)]
    ws.submit(
        change(
            upsert(f"document://ws/{name}", to(chunks[0], "has_chunk", 0.5), name=name.title()),
            *(
                upsert(at, to(f"document://ws/{name}", "part_of", 0.5), name=f"{name.title()} › {number}", content=text)
                for number, (at, text) in enumerate(zip(chunks, texts, strict=True))
            ),
        )
    )


def thread(ws: Workspace, name: str, *said: tuple[str, str]) -> list[str]:
    ids = [f"message://ws/{name}/{number:026d}" for number in range(len(said))]
    ws.submit(
        change(
            *(
                upsert(
                    at,
                    *([to(ids[n + 1], "REPLIED_BY", 0.5)] if n + 1 < len(ids) else []),
                    name=f"user:{n}",
                    content=text,
                    data={"senderId": who, "senderType": "user"},
                )
                for n, (at, (who, text)) in enumerate(zip(ids, said, strict=True))
            )
        )
    )
    return ids


@pytest.mark.requirement("U7")
def test_nodes_mentioned_by_a_good_hit_are_found_with_their_path(ws: Workspace, asked: Asked) -> None:
    ws.submit(
        change(
            upsert(
                "outage", name="Outage in May", content="Checkout stood still since Harbour Gate refused all sessions."
            ),
            upsert("gate", name="Harbour Gate", content="Written in Go. Rate limits are in its configuration."),
            upsert("menu", name="Canteen", content="Soup on Mondays."),
        )
    )
    found = asked("why did checkout stand still in that outage")
    assert uris(found)[:2] == [uri("outage"), uri("gate")]
    reached = found.hits[1]
    assert reached.path == (uri("outage"), uri("gate"))
    assert any(reason == f"via MENTIONS <- {uri('outage')}" for reason in reached.why)
    assert [(edge.source, edge.target, edge.type, edge.derived) for edge in found.edges] == [
        (uri("outage"), uri("gate"), "MENTIONS", True)
    ]
    assert found.hits[0].path == (uri("outage"),)
    alone = asked("why did checkout stand still in that outage", max_depth=0)
    assert uris(alone) == [uri("outage")]
    assert alone.edges == ()
    assert uris(asked("why did checkout stand still in that outage", edge_types=("about",))) == [uri("outage")]


def test_a_hit_that_owes_its_place_to_an_edge_says_so(ws: Workspace, asked: Asked) -> None:
    ws.submit(
        change(
            upsert(
                "outage", name="Outage in May", content="Checkout stood still since Harbour Gate refused all sessions."
            ),
            upsert("gate", name="Harbour Gate", content="The May outage: why checkout stood still that night."),
            upsert("note", name="Canteen", content="The May outage: why checkout stood still that night."),
        )
    )
    found = asked("why did checkout stand still in the outage in May")
    gate, note = (next(hit for hit in found.hits if hit.uri == uri(name)) for name in ("gate", "note"))
    assert (uris(found)[:2], gate.path) == ([uri("outage"), uri("gate")], (uri("gate"),))
    assert f"helped by MENTIONS <- {uri('outage')}" in gate.why
    assert not any("helped" in reason for hit in (note, found.hits[0]) for reason in hit.why)
    plain = asked("why did checkout stand still in the outage in May", max_depth=0)
    assert not any("MENTIONS" in reason for hit in plain.hits for reason in hit.why)


def test_a_bare_address_is_found_once_it_has_a_name(ws: Workspace, asked: Asked) -> None:
    page = Uri("https://example.org/docs/explicit-locking.html#LOCKING-ROWS")
    text = "Rows stay locked until the transaction ends; who wants to change one of the locked rows waits for it."
    ws.submit(
        change(upsert("manual", to(page, "links_to"), content=text), upsert(page), upsert("else", content="Rows."))
    )
    assert uris(asked("locking of the rows in a transaction")) == [uri("manual"), uri("else")]
    ws.submit(change(upsert(page, name="Explicit locking of rows in a transaction")))
    assert uris(asked("locking of the rows in a transaction"))[0] == page


@pytest.mark.requirement("U4")
def test_relations_add_their_targets_and_depth_adds_further_nodes(ws: Workspace, asked: Asked) -> None:
    ws.submit(
        change(
            upsert("rotation", to("keys", "about", 0.2), name="Rotation at midnight"),
            upsert("keys", to("vault", "kept_in")),
            upsert("vault", to("rack", "stands_in")),
            upsert("rack", name="R"),
            upsert("else", name="Other"),
        )
    )
    assert uris(asked("rotation midnight")) == [uri("rotation"), uri("keys")]
    found = asked("rotation midnight", max_depth=3)
    assert uris(found) == [uri("rotation"), uri("keys"), uri("vault"), uri("rack")]
    assert found.hits[3].path == (uri("rotation"), uri("keys"), uri("vault"), uri("rack"))
    assert uris(asked("rotation midnight", max_depth=2)) == [uri("rotation"), uri("keys"), uri("vault")]
    assert uris(asked("rotation midnight", max_depth=3, edge_types=("about",))) == [uri("rotation"), uri("keys")]
    scores = [hit.score for hit in found.hits]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)
    assert uris(asked("rotation midnight", max_depth=3, min_score=scores[1])) == [uri("rotation"), uri("keys")]


def test_a_document_is_one_hit_and_it_is_the_chunk_that_fits_best(ws: Workspace, asked: Asked) -> None:
    document(ws, "manual", "A lease is granted by the broker.", "Who renews a lease twice is warned.", "Nothing else.")
    document(ws, "soup", "Soup is served with bread.", "The lease of the canteen ends in June.")
    question = "when is a lease renewed twice"
    assert uris(asked(question)) == ["chunk://ws/manual/0002", "chunk://ws/soup/0002"]
    chunks = uris(asked(question, types=("chunk",)))
    assert chunks[0] == "chunk://ws/manual/0002"
    assert {"chunk://ws/manual/0001", "chunk://ws/soup/0002"} <= set(chunks)
    assert uris(asked(question, types=("document",))) == ["document://ws/manual", "document://ws/soup"]
    assert uris(asked("manual"))[0] == "document://ws/manual"


def test_a_document_with_all_words_in_its_parts_ranks_before_a_partial_match(ws: Workspace, asked: Asked) -> None:
    document(ws, "whole", "The broker grants leases.", "Quorum is three nodes.", "Fencing tokens grow.")
    document(ws, "part", "Quorum is what a broker needs.", "Bread is baked.", "Windows are cleaned.")
    document(ws, "noise", *(f"Filler number {number} about nothing." for number in range(8)))
    assert uris(asked("how do broker, quorum, fencing and leases go together"))[0].startswith("chunk://ws/whole/")


def test_an_answer_is_found_by_the_question_before_it(ws: Workspace, asked: Asked) -> None:
    ids = thread(
        ws,
        "talk",
        ("Ann", "Which database shall we take for the ledger?"),
        ("Bob", "Postgres, we know it."),
        ("Ann", "Fine."),
        ("Bob", "Lunch?"),
        ("Ann", "Pizza."),
        ("Bob", "Good."),
    )
    found = uris(asked("which database did they take for the ledger"))
    assert found[:2] == ids[:2]
    assert ids[4] not in found[:3]
    assert ids[1] not in uris(asked("which database did they take for the ledger", max_depth=0))


def test_texts_of_a_speaker_named_in_the_query_rank_higher(ws: Workspace, asked: Asked) -> None:
    ids = thread(
        ws,
        "talk",
        ("Ann", "My trip to the mountains was wonderful."),
        ("Eve", "Nice."),
        ("Eve", "Well."),
        ("Bob", "My trip to the mountains was wonderful."),
        ("Eve", "Ah."),
    )
    assert uris(asked("what did Ann say about the mountains trip"))[0] == ids[0]
    assert uris(asked("what did Bob say about the mountains trip"))[0] == ids[3]


def test_short_queries_rank_all_words_first_then_a_prefix_of_the_last(ws: Workspace, asked: Asked) -> None:
    ws.submit(
        change(
            upsert("all", content="On a long way the session and then its token."),
            upsert("some", name="session session"),
            upsert("begun", content="session tokenxyz"),
            upsert("other", name="bread"),
        )
    )
    assert uris(asked("session token"))[0] == uri("all")
    assert uris(asked("session tokenx"))[0] == uri("begun")
    assert uri("other") not in uris(asked("session token"))


@pytest.mark.requirement("U4")
def test_a_name_leads_to_what_belongs_to_it_and_not_to_what_belongs_to_its_like(ws: Workspace, asked: Asked) -> None:
    ws.submit(
        change(
            upsert("disk-0042", to(uri("rack"), "stands_in", 0.5), name="Storage of the archive"),
            upsert("disk-0007", to(uri("shelf"), "stands_in", 0.5), name="Storage of the mail"),
            upsert("rack", name="North"),
            upsert("shelf", name="South"),
        )
    )
    assert set(uris(asked("disk-0042"))) == {uri("disk-0042"), uri("disk-0007"), uri("rack")}
    assert {uri("rack"), uri("shelf")} < set(uris(asked("disk 0099")))  # without an owner only similar nodes match


@pytest.mark.slow
@pytest.mark.parametrize("query", ["lease broker", "lease brok", "lease", "what does the lease of a broker mean here"])
def test_pages_of_any_size_have_one_order_even_far_down(ws: Workspace, asked: Asked, query: str) -> None:
    chance = random.Random(1)
    ws.submit(
        change(
            *(
                upsert(
                    f"n{n:03d}",
                    *([to(f"n{n - 1:03d}")] if n % 3 else []),
                    name=f"note {n}",
                    content="lease " * chance.randint(1, 5) + "broker " * chance.randint(1, 3),
                )
                for n in range(320)
            )
        )
    )
    whole = asked(query, limit=400)
    assert len(whole.hits) == len(set(uris(whole)))
    assert len(whole.hits) == 320 or len(query.split()) > 3
    assert len(whole.hits) >= 200
    assert not whole.more
    pages = [hit for start in range(0, 320, 40) for hit in asked(query, offset=(start, 0), limit=40).hits]
    assert [(hit.uri, hit.score) for hit in pages] == [(hit.uri, hit.score) for hit in whole.hits]
    scores = [hit.score for hit in whole.hits]
    assert scores == sorted(scores, reverse=True)


HOSTILE = [
    "the of and",
    "AND OR NOT",
    '"unclosed',
    "NEAR(a b)",
    "content : x",
    "*",
    "()",
    "x" * 100_000,
    " ".join(f"w{n}" for n in range(17_000)),
    "数据库 " * 9_000,
    "\ud800",
    "\x00",
    "-",
    "Ñandú größer ярус",
]


@pytest.mark.slow
@pytest.mark.parametrize("query", HOSTILE, ids=lambda text: repr(text[:12]))
def test_any_text_is_a_question(ws: Workspace, asked: Asked, query: str) -> None:
    ws.submit(change(upsert("a", name="lease of the broker", content="数据库 Ñandú w12")))
    assert len(asked(query).hits) <= 1


def test_nodes_of_a_code_file_are_found_until_the_file_is_removed(ws: Workspace, asked: Asked) -> None:
    file, chunk = Uri("file://ws/docs/manual.md"), Uri("chunk://ws/docs/manual.md/0001")

    def said(text: str) -> list[Doc]:
        return [Doc(chunk, "chunk", "Manual", content=text)]

    ws.submit(change(upsert("note", name="A note on quorum")))
    ws.note_tree(file, said("Brokers grant leases."))
    assert in_code(asked("who grants leases")) == [chunk]
    ws.note_tree(file, said("Quorum is three nodes."))
    assert (in_code(asked("who grants leases")), ws.text().tree_origins()) == ([], {file})
    ws.code_docs = lambda: [(file, said("Quorum is three nodes."))]
    ws.reindex()
    found = asked("quorum nodes")
    assert (uris(found), in_code(found)) == ([uri("note")], [chunk])
    ws.note_tree(file, [])
    found = asked("quorum nodes")
    assert (uris(found), in_code(found), ws.text().tree_origins()) == ([uri("note")], [], set())


@pytest.mark.slow
def test_a_rebuild_knows_how_many_files_it_has_read(ws: Workspace) -> None:
    reports: list[tuple[str, int, int]] = []

    class Files(list[tuple[Uri, list[Doc]]]):
        def __iter__(self) -> Iterator[tuple[Uri, list[Doc]]]:
            for one in super().__iter__():
                yield one
                reports.append(ws.index_work)

    texts = [[Doc(Uri(f"chunk://ws/{n}.md/{m:04d}"), "chunk", "Manual") for m in range(500)] for n in range(3)]
    ws.code_docs = lambda: Files((Uri(f"file://ws/{n}.md"), docs) for n, docs in enumerate(texts))
    ws.reindex()
    assert reports == [("indexing code and documents", done, 3) for done in (1, 2, 3)]


def test_unreadable_nodes_are_neither_hits_nor_path_nor_reason(ws: Workspace) -> None:
    ws.submit(
        change(
            upsert("open/a", to("secret/b"), name="Lease of the broker"),
            upsert("secret/b", to("open/c"), name="Lease, too"),
            upsert("open/c", name="Reached through a hidden node"),
        )
    )

    def sees(node: Uri) -> bool:
        return "/secret/" not in node

    found = retrieve(ws, Question("lease of the broker", max_depth=3), sees=sees)
    assert "secret" not in str(found)
    assert uris(found) == [uri("open/a")]


def test_similarity_is_refused_where_nothing_is_known_of_it(ws: Workspace, asked: Asked) -> None:
    ws.submit(change(upsert("a", name="lease")))
    with pytest.raises(Unavailable):
        asked("lease", min_similarity=0.2)


@pytest.mark.requirement("U7")
def test_a_text_with_the_words_is_found_even_if_its_vector_is_far(ws: Workspace, asked: Asked) -> None:
    ws.meaning.follow()
    far = "Disk space: 20 GB. Memory: 4 GB. Disk space: 20 GB. Memory: 4 GB. Disk space: 20 GB."
    ws.submit(change(upsert("auth", summary="who may", content=far, tags=("core", "new")), upsert("b", summary="z")))
    assert ws.meaning.catch_up(30)
    assert ws.meaning.similarity("who", [uri("auth")])[uri("auth")] < 0
    assert uris(asked("who"))[0] == uri("auth")
    assert uri("auth") not in uris(asked("who", min_similarity=0.01))


@pytest.mark.requirement("U7")
def test_a_hit_by_meaning_ranks_before_its_targets_and_other_units_add_none(ws: Workspace, asked: Asked) -> None:
    ws.meaning.follow()
    ws.submit(
        change(
            upsert("postgres", to("orders"), summary="We chose Postgres over MySQL because of transactional DDL."),
            upsert("orders", name="Orders", summary="What people bought."),
            upsert("auth", to("keys"), name="Auth", summary="Issues tokens"),
            upsert("keys", name="Keys", summary="Holds keys"),
        )
    )
    assert ws.meaning.catch_up(30)
    found = uris(asked("database"))
    assert found[0] == uri("postgres")
    assert not {uri("auth"), uri("keys")} & set(found)


def test_the_first_fact_of_all_is_found_in_other_words(ws: Workspace, asked: Asked) -> None:
    ws.meaning.follow()
    ws.submit(change(upsert("deploy", name="We release on Tuesdays")))
    assert ws.meaning.catch_up(30)
    assert uris(asked("when do we publish?")) == [uri("deploy")]
    assert uris(asked("zygomorphic quux?")) == []


def test_meaning_finds_texts_without_any_of_the_words(ws: Workspace, asked: Asked) -> None:
    ws.meaning.follow()
    ws.submit(
        change(
            upsert("garage", name="Garage", content="The automobile was repaired by a mechanic."),
            upsert("soup", name="Canteen", content="Soup is served with bread on Mondays."),
            upsert("tax", name="Taxes", content="Value added tax is due every quarter."),
        )
    )
    assert ws.meaning.catch_up(30)
    found = asked("who fixed our broken car and truck engine")
    assert uris(found)[0] == uri("garage")
    by_uri = {hit.uri: hit for hit in found.hits}
    assert by_uri[uri("garage")].lex == 0 < by_uri[uri("garage")].vec
    nearest = by_uri[uri("garage")].similarity or 0.0
    assert uris(asked("who fixed our broken car and truck engine", min_similarity=nearest))[0] == uri("garage")
    assert uri("soup") not in uris(asked("who fixed our broken car and truck engine", min_similarity=nearest))


def test_answers_do_not_depend_on_the_order_of_writing(ws: Workspace, asked: Asked) -> None:
    nodes = [upsert(f"n{n}", to(f"n{(n * 7) % 12}"), name="Lease", content=f"broker {n % 3}") for n in range(1, 12)]
    ws.submit(change(*nodes))
    before = asked("lease of a broker and more words", limit=20)
    ws.submit(change(*(Delete(node.uri) for node in nodes)))
    for some in (nodes[6:], nodes[3:6], nodes[:3]):
        ws.submit(change(*reversed(some)))
    after = asked("lease of a broker and more words", limit=20)
    assert [(hit.uri, hit.score) for hit in after.hits] == [(hit.uri, hit.score) for hit in before.hits]

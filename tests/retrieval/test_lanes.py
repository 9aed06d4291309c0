"""Knowledge and code in two lists, and exact names first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kgd.index.code_index import FileHit
from kgd.index.ranking import SOME, Found
from kgd.index.text import Doc, FileDoc
from kgd.model.uri import KNOWLEDGE, Lane, Uri
from kgd.retrieval.candidates import Pool
from kgd.retrieval.query import Question
from kgd.retrieval.retrieve import retrieve
from kgd.workspace.workspace import Workspace
from tests.builders import change, new_layout, to, upsert, uri
from tests.retrieval.conftest import Asked, in_code, uris

SAID = "The session cookie expires after a migration of the cache."


def symbols(ws: Workspace, path: str, *names: str, doc: str = "") -> list[Uri]:
    """Serve symbols of one file of the code tree."""
    found = [Uri(f"symbol://ws/{path}/{name}") for name in names]
    ws.note_tree(Uri(f"file://ws/{path}"), [Doc(at, "symbol", at.rpartition("/")[2], summary=doc) for at in found])
    return found


def files(ws: Workspace, *paths: str) -> list[Uri]:
    found = [Uri(f"file://ws/{path}") for path in paths]
    ws.text().apply_files([FileDoc(at, path, "python") for at, path in zip(found, paths, strict=True)])
    return found


def chunks(ws: Workspace, document: str, *texts: str) -> list[Uri]:
    found = [Uri(f"chunk://ws/{document}/{number:04d}") for number in range(1, len(texts) + 1)]
    ws.submit(
        change(
            upsert(f"document://ws/{document}", name=document),
            *(
                upsert(at, to(f"document://ws/{document}", "part_of"), content=text)
                for at, text in zip(found, texts, strict=True)
            ),
        )
    )
    return found


@pytest.mark.slow
@pytest.mark.requirement("N1", "U11")
@pytest.mark.parametrize("query", ["session", "session migration", "when does the session cookie expire"])
def test_symbols_with_the_same_words_never_displace_a_note(ws: Workspace, asked: Asked, query: str) -> None:
    ws.submit(change(upsert("cookie", summary=SAID)))
    for module in range(30):
        names = [f"session_migration_{module}_{n}" for n in range(10)]
        symbols(ws, f"src/sessions{module}.py", *names, doc="The session cookie expires, session by session.")
    found = asked(query, limit=5)
    assert uris(found) == [uri("cookie")]
    assert len(in_code(found)) == 5
    assert all(one.startswith("symbol://") for one in in_code(found))


@pytest.mark.requirement("N1")
def test_a_common_word_alone_finds_no_code(ws: Workspace, asked: Asked) -> None:
    (money,) = symbols(ws, "src/money.py", "minus", doc="Currencies must agree.")
    (cookie,) = symbols(ws, "src/cookie.py", "expire", doc="The session cookie expires after a week.")
    assert in_code(asked("what must I know before changing the session cookie of guests")) == [cookie]
    assert money in in_code(asked("must"))


def test_a_part_that_is_only_similar_does_not_make_a_common_word_count() -> None:
    """Similarity adds parts without words of the query to a document that has only a common word."""
    first, second = (Uri(f"chunk://ws/guide/000{number}") for number in (1, 2))
    pool = Pool(Question("what must I know"), ["must"], ["must"], is_short=False)
    pool.covered, pool.weak = {1: 0.3}, {1}
    unit = pool.take(Found(-1.0, first, 1, SOME, lane=Lane.SOURCES), words=1.0)
    assert not pool.speaks_of(unit)
    assert pool.take(Found(0.0, second, 2, SOME, lane=Lane.SOURCES)) is unit
    assert not pool.speaks_of(unit)


def test_a_symbol_named_by_a_common_word_is_found_beside_its_kind(ws: Workspace, asked: Asked) -> None:
    (app,) = symbols(ws, "src/start.py", "App", doc="The entry.")
    assert app in in_code(asked("class App"))


def test_a_file_with_more_of_the_words_ranks_before_one_that_repeats_a_word(ws: Workspace, asked: Asked) -> None:
    part, all = files(ws, "src/a.py", "src/b.py")
    ws.files_with = lambda query, limit: ([FileHit("src/a.py", 1.0, 0.2), FileHit("src/b.py", 0.9, 0.9)], frozenset())
    assert in_code(asked("when does the session cookie expire")) == [all, part]


def test_the_order_of_files_does_not_depend_on_the_size_of_a_page(ws: Workspace) -> None:
    ws.submit(change(*(upsert(f"note{n}", summary=f"A lease of the broker{' again' * n}.") for n in range(3))))
    a, b = files(ws, "src/a.py", "src/b.py")
    ws.files_with = lambda query, limit: ([FileHit("src/a.py", 1.0, 0.0), FileHit("src/b.py", 1.0, 0.0)], frozenset())

    def asked(limit: int, offset: int = 0) -> list[str]:
        about = {b: [uri("note2")]}
        return in_code(
            retrieve(ws, Question("lease of the broker", limit=limit), about=lambda _: about, offset=(offset, offset))
        )

    assert asked(10) == [b, a]
    assert [*asked(1), *asked(1, 1)] == [b, a]


@pytest.mark.slow
@pytest.mark.requirement("N1", "U11")
def test_ingested_documents_follow_the_notes(ws: Workspace, asked: Asked) -> None:
    ws.submit(change(upsert("cookie", summary=SAID), upsert("soup", summary="Soup is served on Mondays.")))
    for number in range(30):
        chunks(ws, f"guide{number}", *(f"{SAID} Session {n}, session by session." for n in range(10)))
    found = asked("when does the session cookie expire", limit=5)
    assert uris(found)[0] == uri("cookie")
    assert len(uris(found)) == 5
    assert all(one.startswith("chunk://") for one in uris(found)[1:])
    assert uri("soup") not in uris(asked("when does the session cookie expire", limit=50))


def test_the_limit_applies_to_each_list_and_pages_of_both_follow_one_another(ws: Workspace, asked: Asked) -> None:
    ws.submit(change(*(upsert(f"note{n:02}", summary=f"A lease of the broker, number {n}.") for n in range(11))))
    for n in range(7):
        symbols(ws, f"src/lease{n}.py", f"lease_of_broker_{n}")
    whole = asked("lease broker", limit=20)
    assert (len(uris(whole)), len(in_code(whole)), whole.more, whole.more_code) == (11, 7, False, False)
    first = asked("lease broker", limit=4)
    assert (uris(first), in_code(first)) == (uris(whole)[:4], in_code(whole)[:4])
    assert (first.more, first.more_code) == (True, True)
    second = asked("lease broker", limit=4, offset=(4, 4))
    assert (uris(second), in_code(second)) == (uris(whole)[4:8], in_code(whole)[4:8])
    assert (second.more, second.more_code) == (True, False)
    uneven = asked("lease broker", limit=4, offset=(8, 2))
    assert (uris(uneven), in_code(uneven)) == (uris(whole)[8:], in_code(whole)[2:6])


def test_without_the_lane_of_code_only_knowledge_is_answered(ws: Workspace, asked: Asked) -> None:
    ws.submit(change(upsert("note", summary="A lease of the broker.")))
    symbols(ws, "src/lease.py", "lease_of_broker")
    found = asked("lease broker", lanes=KNOWLEDGE)
    assert (uris(found), found.code) == ([uri("note")], ())


@pytest.mark.requirement("N1")
def test_a_node_without_any_text_of_its_own_is_in_no_list(ws: Workspace, asked: Asked) -> None:
    ws.submit(change(upsert("broker-lease"), upsert("note", summary="A lease of the broker.")))
    assert uris(asked("broker lease")) == [uri("note")]
    assert uris(asked("broker-lease")) == [uri("note")]
    ws.submit(change(upsert("broker-lease", tags=("kept",))))
    assert uris(asked("broker lease"))[0] == uri("broker-lease")


def test_keys_addresses_and_ids_are_not_text(ws: Workspace, asked: Asked) -> None:
    data = {
        "quartz": "tungsten",
        "link": "https://tracker.example/zirconium/1",
        "taskId": "beryllium-17",
        "commit": "vanadium",
        "parts": {"gypsum": ["marble"]},
    }
    ws.submit(change(upsert("stone", name="Stone", data=data), upsert("other", name="Other")))
    for word in ("tungsten", "marble"):
        assert uris(asked(word)) == [uri("stone")]
    for word in ("quartz", "zirconium", "beryllium", "vanadium", "gypsum"):
        assert uris(asked(word)) == [], word


@pytest.mark.slow
def test_a_note_is_found_although_its_words_were_asked_for_before_it_was_written(ws: Workspace, asked: Asked) -> None:
    ws.submit(change(*(upsert(f"note{n}", name=f"Note {n}", summary="A lease.") for n in range(200))))
    assert uris(asked("where is the zebra kept")) == []
    ws.submit(change(upsert("zebra", summary="The zebra is kept in the stable.")))
    assert uris(asked("where is the zebra kept")) == [uri("zebra")]


# Exact names

NAMES = ["getUserName", "get_user_name", "GetUserName", "get-user-name", "getUserName()", "`getUserName`"]


@pytest.mark.slow
@pytest.mark.requirement("N2")
@pytest.mark.parametrize("query", NAMES)
def test_a_symbol_is_first_in_any_case_style(ws: Workspace, asked: Asked, query: str) -> None:
    [wanted] = symbols(ws, "src/users.py", "getUserName")
    for n in range(80):
        symbols(ws, f"src/a{n}.py", f"get_user_name_{n}", doc="get_user_name, get the user's name, getUserName")
    assert in_code(asked(query, limit=3))[0] == wanted


@pytest.mark.slow
@pytest.mark.requirement("N2")
def test_a_name_that_is_one_common_word_is_first(ws: Workspace, asked: Asked) -> None:
    [wanted] = symbols(ws, "django/db/models/base.py", "Model")
    for n in range(80):
        symbols(ws, f"django/a{n}.py", f"ModelForm{n}", doc="Model of a model, a Model that models a model.")
    assert in_code(asked("Model", limit=3))[0] == wanted
    assert in_code(asked("model", limit=3))[0] == wanted


@pytest.mark.requirement("N2")
@pytest.mark.parametrize(
    "query",
    [
        "QuerySet.get_or_create",
        "query.QuerySet.get_or_create",
        "models/query.py::QuerySet.get_or_create",
        "QuerySet#getOrCreate",
        "QuerySet::get_or_create",
    ],
)
def test_a_qualified_name_is_first_and_only_where_it_is_defined(ws: Workspace, asked: Asked, query: str) -> None:
    [other] = symbols(ws, "contrib/manager.py", "Manager.get_or_create")
    [wanted] = symbols(ws, "db/models/query.py", "QuerySet.get_or_create")
    assert in_code(asked(query, limit=3))[0] == wanted
    assert set(in_code(asked("get_or_create"))[:2]) == {wanted, other}


@pytest.mark.requirement("N2")
@pytest.mark.parametrize(
    "query", ["session.py", "src/auth/session.py", "auth/session.py", "SESSION.py", "auth.session"]
)
def test_a_file_is_first_by_its_name_path_or_module(ws: Workspace, asked: Asked, query: str) -> None:
    [wanted, *_] = files(ws, "src/auth/session.py", "src/auth/keys.py", "docs/session.py.md", "src/sessions.py")
    assert in_code(asked(query))[0] == wanted


@pytest.mark.requirement("N2")
@pytest.mark.parametrize("query", ["Harbour Gate", "harbour-gate", "HarbourGate", "harbourGate", "HG-2", "hg2"])
def test_a_node_is_first_by_its_name_and_by_an_alias(ws: Workspace, asked: Asked, query: str) -> None:
    ws.submit(
        change(
            upsert("gate", name="Harbour Gate", data={"aliases": ["HG-2"]}, content="Written in Go."),
            *(
                upsert(
                    f"note{n}", name=f"Harbour note {n}", content="The harbour gate, hg-2, and the gate of the harbour."
                )
                for n in range(40)
            ),
        )
    )
    assert uris(asked(query, limit=3))[0] == uri("gate")


@pytest.mark.requirement("N2")
@pytest.mark.parametrize(
    "query",
    [
        "why does get_or_create raise IntegrityError twice",
        "what calls QuerySet.get_or_create in a loop",
        "is getOrCreate() atomic",
        "the `get_or_create` of a manager is slow",
    ],
)
def test_a_name_inside_a_sentence_counts(ws: Workspace, asked: Asked, query: str) -> None:
    [wanted] = symbols(ws, "db/query.py", "QuerySet.get_or_create")
    for n in range(40):
        symbols(ws, f"db/a{n}.py", f"raise_twice_{n}", doc="Why does it raise twice in a loop, atomic and slow.")
    assert in_code(asked(query, limit=3))[0] == wanted


def test_the_definition_with_more_uses_comes_first_and_a_definition_in_a_test_last(ws: Workspace, asked: Asked) -> None:
    [in_test] = symbols(ws, "tests/forms.py", "Form")
    [plain] = symbols(ws, "a/forms.py", "Form")
    [used] = symbols(ws, "z/forms.py", "Form")
    ws.submit(change(*(upsert(f"note{n}", to(used, "about"), name=f"Note {n}") for n in range(9))))
    assert in_code(asked("Form"))[:3] == [used, plain, in_test]


def test_a_definition_in_a_test_is_last_whatever_the_name_of_the_workspace(tmp_path: Path) -> None:
    docs = Workspace.open(new_layout(tmp_path / "docs", "docs"), publish=False)
    try:
        for path in ("a/test_forms.py", "src/forms.py"):
            docs.note_tree(Uri(f"file://docs/{path}"), [Doc(Uri(f"symbol://docs/{path}/Form"), "symbol", "Form")])
        found = in_code(retrieve(docs, Question("Form")))
        assert found == ["symbol://docs/src/forms.py/Form", "symbol://docs/a/test_forms.py/Form"]
    finally:
        docs.close()


# Nothing known


def test_a_query_without_an_answer_has_no_hits_and_names_near_nodes(ws: Workspace, asked: Asked) -> None:
    ws.submit(
        change(
            upsert("garage", name="Garage", content="The automobile was repaired by a mechanic on Tuesday."),
            upsert("soup", name="Canteen", content="Soup is served with bread on Mondays."),
        )
    )
    found = asked("zygomorphic quux of the upper plonk, and mechanic")
    assert (uris(found), set(found.nearest)) == ([], {uri("garage")})
    found = asked("zygomorphic quux")
    assert (uris(found), found.code, found.nearest) == ([], (), ())


@pytest.mark.requirement("N1")
def test_a_word_that_no_text_has_finds_only_very_similar_code(ws: Workspace, asked: Asked) -> None:
    ws.meaning.follow()
    ws.submit(change(upsert("cents", summary="Amounts are whole cents.")))
    symbols(ws, "src/numbers.py", "ZERO", "SIZES", "_ALPHABET", "REQUIRED")
    (delete,) = symbols(ws, "src/store.py", "delete")
    assert ws.meaning.catch_up(30)
    found = asked("zzzqqq")
    assert (uris(found), found.code) == ([], ())
    assert in_code(asked("erase")) == [delete]


# Restricted callers


@pytest.fixture
def mine(ws: Workspace) -> Callable[[str], tuple[list[str], list[str], str]]:
    """Ask as a caller who may not read `secret/`; returns both lists and the rest of the answer."""

    def ask(query: str) -> tuple[list[str], list[str], str]:
        found = retrieve(ws, Question(query, limit=20, edges=True), sees=lambda node: "/secret/" not in node)
        return uris(found), in_code(found), str(found)

    return ask


@pytest.mark.slow
@pytest.mark.requirement("N1", "B5")
def test_a_restricted_caller_sees_no_hidden_code_nor_its_influence(
    ws: Workspace, mine: Callable[[str], tuple[list[str], list[str], str]]
) -> None:
    ws.files_with = lambda query, limit: pytest.fail("whole files may reveal hidden ones")
    ws.submit(change(upsert("note", name="Lease Book", summary="A lease of the broker.")))
    [shown] = symbols(ws, "src/lease.py", "grant_lease", doc="grants a lease")
    files(ws, "src/lease.py", "src/broker/lease.py")
    queries = ("lease", "grant_lease", "lease.py", "Lease Book", "where is a lease of the broker granted", "grant_le")
    before = [mine(query)[:2] for query in queries]
    assert before[1][1][0] == shown
    for n in range(450):  # more nodes of one name than are considered, and first by URI
        symbols(ws, f"a/secret/{n}/lease.py", "grant_lease", "Lease Book", doc="grants a lease of the broker")
    files(ws, *(f"a/secret/{n}/lease.py" for n in range(450)))
    ws.submit(
        change(
            *(
                upsert(f"secret/{n}", to(shown, "about"), name="Lease Book", summary="A lease, hidden.")
                for n in range(20)
            )
        )
    )
    for query, answer in zip(queries, before, strict=True):
        now = mine(query)
        assert now[:2] == answer, query
        assert "secret" not in now[2]


def test_nearest_of_a_restricted_caller_names_nothing_hidden(
    ws: Workspace, mine: Callable[[str], tuple[list[str], list[str], str]]
) -> None:
    ws.submit(change(upsert("secret/plan", name="Quartz", content="Zirconium and quartz, by the tonne.")))
    assert mine("quartz zirconium plonk")[:2] == ([], [])
    assert "secret" not in mine("quartz zirconium plonk")[2]


@pytest.mark.requirement("N1")
def test_a_rare_word_of_the_question_outweighs_common_ones_that_another_note_repeats(
    ws: Workspace, asked: Asked
) -> None:
    padding = "The team agreed on this in spring and wrote it down for everyone who joins later. " * 4
    crowd = [
        upsert(f"crowd-{n}", name=f"Tenant exports {n}", content="Tenant exports, exports of a tenant.")
        for n in range(6)
    ]
    others = [upsert(f"other-{n}", name=f"Subject {n}", content=f"Text {n} about tea.") for n in range(30)]
    right = upsert("limits", name="Limits", content=f"{padding} The quota of each tenant is a gigabyte. {padding}")
    ws.submit(change(*crowd, *others, right))
    assert uris(asked("which quota do tenant exports have"))[0] == uri("limits")


TEA = [upsert(f"note-{n}", name=f"Tea {n}", content=f"Tea number {n} is drunk in the garden.") for n in range(220)]
"""Enough texts for a missing word to mean something."""


@pytest.mark.slow
@pytest.mark.requirement("N1")
def test_a_note_with_one_common_word_does_not_answer_a_question_about_something_unknown(
    ws: Workspace, asked: Asked
) -> None:
    ws.meaning.follow()
    locks = [upsert(f"row-{n}", name=f"Row {n}", content=f"The lock of row {n} is kept.") for n in range(14)]
    ws.submit(change(*TEA, *locks))
    assert ws.meaning.catch_up(30)
    assert uris(asked("which lock is kept")) != []
    assert uris(asked("terraform lock")) == []


@pytest.mark.requirement("N1", "U7")
def test_one_sentence_of_a_note_answers_in_other_words(ws: Workspace, asked: Asked) -> None:
    ws.meaning.follow()
    around = "Invoices are numbered by year. Every report is signed by two people. The printer needs paper. "
    right = upsert("house", name="House rules", content=f"{around * 2} The kitten sleeps on the sofa. {around * 2}")
    ws.submit(change(*TEA[:10], right))
    assert ws.meaning.catch_up(30)
    assert uris(asked("where does our cat nap"))[:1] == [uri("house")]


@pytest.mark.slow
def test_only_the_best_notes_are_hits(ws: Workspace, asked: Asked) -> None:
    ws.meaning.follow()
    best = upsert("lease", name="Broker lease", content="The lease of the message broker expires after an hour.")
    ws.submit(change(*TEA, best, upsert("hour", name="Lunch", content="Lunch takes an hour.")))
    assert ws.meaning.catch_up(30)
    assert uris(asked("when does the lease of the message broker expire, after which hour")) == [uri("lease")]


def test_the_file_of_a_path_or_name_is_the_first_hit_in_the_code(ws: Workspace, asked: Asked) -> None:
    (own,) = files(ws, "src/sync/round.py")
    symbols(ws, "src/sync/round.py", "round", doc="A round of src sync.")
    symbols(ws, "src/turns.py", "py", doc="Src sync: a round.")
    inside = "When does round.py give up?", "What does src/sync/round.py do if its remote does not answer?"
    for query in ("src/sync/round.py", "sync/round.py", "./src/sync/round.py", "`round.py`", "Round.py", *inside):
        assert in_code(asked(query, max_depth=0))[0] == own
        assert in_code(asked(query))[0] == own
    assert asked("src/sync/round.py").code[0].why == ("name or path",)
    assert own not in in_code(asked("src/sync/round.py", types=("symbol",)))
    assert own not in in_code(asked("other/round.py", max_depth=0))[:1]


def test_a_name_of_many_files_inside_a_sentence_does_not_fill_the_code(ws: Workspace, asked: Asked) -> None:
    many = files(ws, *(f"src/p{number}/models.py" for number in range(9)))
    (clock,) = symbols(ws, "src/clock.py", "clock", doc="The clock of the lease.")
    assert in_code(asked("models.py"))[0] in many
    assert in_code(asked("Which clock of the lease does models.py read?"))[0] == clock

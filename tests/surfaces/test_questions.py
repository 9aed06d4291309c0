"""Questions that found nothing are kept on this machine, without secrets, until they are answered or dismissed."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest

from kgd.daemon.daemon import Daemon
from kgd.errors import NotFound
from kgd.model.access import Principal, Scope
from kgd.tools.read import questions
from kgd.tools.read.questions import Questions
from kgd.workspace.workspace import Workspace
from tests.surfaces.conftest import Ask, upsert
from tests.waiting import until

DAY = 86_400
SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"


@pytest.fixture
def ask(ask: Ask, ws: Workspace) -> Ask:
    """A workspace whose texts are embedded; before that, a question may find nothing for that reason."""
    ask.put(changes=[upsert("bakery", summary="where bread is baked")])
    until(lambda: not ws.meaning.is_partial and not ws.is_text_partial)
    return ask


def texts(ask: Ask) -> list[str]:
    return [one["text"] for one in ask.questions()["questions"]]


def test_a_question_that_found_nothing_is_kept_with_its_count_until_it_is_dismissed(ask: Ask) -> None:
    for query in ("zeppelin mooring?", "qwxv uvq", "Zeppelin  mooring"):
        assert ask.search(query=query)["hint"]
    first, second = ask.questions()["questions"]
    assert (first["text"], first["count"], first["client"]) == ("Zeppelin mooring", 2, "test-client")
    assert second["text"] == "qwxv uvq"
    assert ask.questions(dismiss=first["id"])["total"] == 1
    with pytest.raises(NotFound, match="no such question"):
        ask.questions(dismiss=first["id"])


def test_a_question_that_now_has_an_answer_is_forgotten(ask: Ask) -> None:
    ask.search(query="zeppelin mooring")
    assert texts(ask) == ["zeppelin mooring"]
    ask.put(changes=[upsert("zeppelins", name="Zeppelin mooring", summary="at forty metres")])
    assert ask.search(query="zeppelin mooring")["hits"]
    assert texts(ask) == []


def test_a_question_to_context_without_an_answer_is_kept_once_until_it_has_one(ask: Ask) -> None:
    ask.context(question="zeppelin mooring")
    ask.context(question="zeppelin landing", since="2020-01-01")
    assert [(one["text"], one["count"]) for one in ask.questions()["questions"]] == [("zeppelin mooring", 1)]
    ask.put(changes=[upsert("zeppelins", name="Zeppelin mooring", summary="at forty metres")])
    assert ask.context(question="zeppelin mooring")["items"]
    assert texts(ask) == []


def test_narrowed_searches_addresses_and_long_texts_are_not_kept(ask: Ask) -> None:
    for query in (
        {"query": "zeppelin", "types": ["insight"]},
        {"query": "zeppelin", "max_depth": 0},
        {"query": "a/b.py"},
        {"query": "qwxv " * 60},
    ):
        ask.search(**query)
    assert texts(ask) == []


def test_a_question_is_not_counted_again_when_its_answer_is_refreshed(ask: Ask) -> None:
    ask.search(query="zeppelin mooring")
    Ask(replace(ask.session, is_refresh=True)).search(query="zeppelin mooring")
    (question,) = ask.questions()["questions"]
    assert question["count"] == 1


def test_a_question_replaces_its_own_beginning_which_was_still_being_typed(ask: Ask) -> None:
    for query in ("qwxv", "qwxv uv", "qwxv uvqa"):
        ask.recall(query=query)
    assert texts(ask) == ["qwxv uvqa"]


def test_a_secret_in_a_question_is_not_stored(ask: Ask, ws: Workspace) -> None:
    ask.search(query=f"qwxv {SECRET}")
    assert texts(ask) == ["qwxv …"]
    file = ws.layout.derived_dir / "questions.json"
    assert SECRET not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_questions_of_tokens_are_not_kept_and_tokens_see_none(ask: Ask) -> None:
    holder = Principal("k1", "guest", "agent", (Scope.of("shop", ["read", "write"], ["/**"]),))
    guest = Ask(replace(ask.session, principal=holder))
    guest.search(query="zeppelin mooring")
    assert texts(ask) == []
    with pytest.raises(NotFound):
        guest.questions()


def test_the_setting_turns_questions_off(ask: Ask, daemon: Daemon) -> None:
    with open(daemon.registry.path, "a") as registry:
        registry.write("settings:\n  question_days: 0\n")
    until(lambda: daemon.registry.current().settings.question_days == 0)
    ask.search(query="zeppelin mooring")
    answer = ask.questions()
    assert answer["questions"] == []
    assert "question_days" in answer["hint"]


@pytest.mark.slow
def test_old_questions_and_those_above_the_limit_are_removed(ask: Ask, ws: Workspace) -> None:
    kept = Questions.of(ws)
    for number in range(questions.MOST + 5):
        kept.note(f"number {number} of many", "", number * DAY // 10, 30)
    found = kept.listed(questions.MOST * DAY // 10, 30)
    assert len(found) <= questions.MOST
    assert found[0].text == f"number {questions.MOST + 4} of many"
    assert kept.listed(found[0].at + 31 * DAY, 30) == []


def test_questions_survive_a_restart_and_a_damaged_file_starts_again(ask: Ask, ws: Workspace) -> None:
    ask.search(query="zeppelin mooring")
    assert [one.text for one in Questions(ws).listed(ws.now(), 30)] == ["zeppelin mooring"]
    (ws.layout.derived_dir / "questions.json").write_text('[{"text": 1')
    assert Questions(ws).listed(ws.now(), 30) == []


def test_a_question_from_outside_the_workspace_is_kept_only_if_it_names_the_workspace(ask: Ask, tmp_path: Path) -> None:
    outside = Ask(replace(ask.session, cwd=tmp_path, found=None))
    for one in (outside, ask):
        assert one.search(query=f"zeppelin mooring {one is ask}")["hint"]
        one.context(question=f"where is the zeppelin {one is ask}")
    assert texts(ask) == ["where is the zeppelin True", "zeppelin mooring True"]
    outside.search(query="airship mast", workspace="shop")
    assert texts(ask)[0] == "airship mast"

"""`get`: nodes in full with their problems, and long ones in parts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import orjson
import pytest

from kgd.errors import KgdError, NotFound, Stale
from kgd.tools.paging import HARD_LIMIT
from tests.surfaces.conftest import Ask, git, upsert
from tests.waiting import until


@pytest.mark.requirement("E1")
def test_a_node_comes_with_version_stamps_and_origin(ask: Ask) -> None:
    commit = ask.put(
        changes=upsert(
            "auth",
            name="Auth",
            summary="s",
            content="c\n",
            tags=["b", "a"],
            data={"k": [1, None]},
            source={"type": "doc", "id": "7"},
        )
    )["commit"]
    (node,) = ask.get(uris="auth")["nodes"]
    by, at = node["created"]["by"], node["created"]["at"]
    assert "Ann Person" in by
    assert at.endswith("Z")
    assert node == {
        "uri": "concept://shop/auth",
        "type": "concept",
        "name": "Auth",
        "version": 1,
        "summary": "s",
        "tags": ["a", "b"],
        "data": {"k": [1, None]},
        "source": {"type": "doc", "id": "7"},
        "content": "c\n",
        "created": {"by": by, "at": at},
        "updated": {"by": by, "at": at},
        "origin": {"workspace": "shop", "commit": commit, "author": by, "trust": "local"},
    }


def test_the_origin_names_the_commit_of_the_last_change_after_a_rebuild_too(ask: Ask, ws: Any) -> None:
    ask.put(changes=[upsert("a", summary="one"), upsert("b", summary="one")])
    last = ask.put(changes=upsert("a", summary="two"))["commit"]
    for _ in range(2):
        a, b = ask.get(uris=["a", "b"])["nodes"]
        assert (a["origin"]["commit"], b["origin"]["commit"]) == (last, ask.history()["commits"][1]["commit"])
        ws.reindex()


def test_a_file_of_the_code_tree_is_a_node_without_being_stored(ask: Ask) -> None:
    (node,) = ask.get(uris="src/auth/session.py", include=["content", "relations", "incoming"])["nodes"]
    assert (node["type"], node["version"]) == ("resource", 0)
    assert node["data"]["line_count"] == 2
    assert node["incoming"] == [{"source": "dir://shop/src/auth", "type": "contains", "weight": 1}]


@pytest.mark.requirement("E10")
def test_stored_fields_of_a_file_are_merged_with_the_fields_of_the_tree(ask: Ask) -> None:
    ask.put(changes=upsert("src/auth/session.py", tags=["hot"], data={"owner": "ann"}))
    (node,) = ask.get(uris="src/auth/session.py")["nodes"]
    assert node["version"] == 1
    assert node["tags"] == ["hot"]
    assert (node["data"]["owner"], node["data"]["line_count"]) == ("ann", 2)


def test_incoming_relations_and_history_come_on_request(ask: Ask) -> None:
    ask.put(
        changes=[upsert("a", relations={"type": "uses", "target": "b", "weight": 0.2}), upsert("b", summary="b")],
        message="first",
    )
    ask.put(changes=upsert("b", summary="bb"), message="second")
    (node,) = ask.get(uris="b", include=["incoming", "history"])["nodes"]
    assert node["incoming"] == [{"source": "concept://shop/a", "type": "uses", "weight": 0.2}]
    assert [line["message"] for line in node["history"]] == ["second", "first"]


@pytest.mark.requirement("E14")
def test_a_node_as_of_a_commit_has_its_former_content(ask: Ask) -> None:
    first = ask.put(changes=upsert("a", summary="then"))["commit"]
    ask.put(changes=[upsert("a", summary="now"), upsert("b", summary="new")])
    answer = ask.get(uris=["a", "b"], as_of=first[:12])
    assert [node["summary"] for node in answer["nodes"]] == ["then"]
    assert answer["missing"] == [{"uri": "concept://shop/b", "similar": [], "reason": "not_then"}]
    assert answer["as_of"] == first
    with pytest.raises(NotFound):
        ask.get(uris="a", as_of="no-such-commit")


def test_a_node_as_of_a_commit_has_its_former_version(ask: Ask) -> None:
    commits = [ask.put(changes=[upsert("a", summary=f"{n}"), upsert(f"b{n}")])["commit"] for n in range(3)]
    versions = [ask.get(uris=["a", "b0"], as_of=commit)["nodes"] for commit in commits]
    assert [[node["version"] for node in nodes] for nodes in versions] == [[1, 1], [2, 1], [3, 1]]
    ask.put(changes=upsert("a", summary="later"))
    assert ask.get(uris="a", as_of=commits[1])["nodes"][0]["version"] == 2


def test_as_of_a_proposal_the_versions_of_its_own_history_count(ask: Ask) -> None:
    base = ask.put(changes=upsert("a", summary="was"))["commit"]
    for summary in ("is", "is more"):
        ask.put(changes=upsert("a", summary=summary))
    proposed = ask.submit_subgraph(changes=[upsert("a", summary="proposed")], base=base, message="p")["commit"]
    (node,) = ask.get(uris="a", as_of=proposed)["nodes"]
    assert (node["summary"], node["version"]) == ("proposed", 2)


def test_a_missing_node_is_answered_with_similar_names(ask: Ask) -> None:
    ask.put(changes=upsert("services/auth", name="Auth service", summary="s"))
    (missing,) = ask.get(uris="concept://shop/service/auth")["missing"]
    assert missing["similar"][0] == "concept://shop/services/auth"
    (missing,) = ask.get(uris="./src/nosuch.py")["missing"]
    assert missing["similar"] == [], "an extension alone makes no names similar"


@pytest.mark.slow
def test_a_broken_hand_edit_is_named_while_the_last_good_value_is_served(ask: Ask, ws: Any) -> None:
    ask.put(changes=upsert("auth", summary="good"))
    path = ws.layout.work_tree / "nodes/concept/auth.yaml"
    until(path.exists)
    path.write_text("uri: concept://shop/auth\nsummary: [never closed\n")
    ws.hint(None)
    until(lambda: "invalid_file" in ask.get(uris="auth")["nodes"][0])
    (node,) = ask.get(uris="auth")["nodes"]
    assert node["summary"] == "good"
    assert node["invalid_file"]["path"].endswith("nodes/concept/auth.yaml")
    assert node["invalid_file"]["line"] >= 2
    assert node["invalid_file"]["reason"]
    assert node["invalid_file"]["next"]
    assert ask.status()["invalid_files"][0]["uri"] == "concept://shop/auth"


@pytest.mark.slow
def test_an_unreadable_new_file_is_named_in_the_answer_about_its_missing_node(ask: Ask, ws: Any) -> None:
    ask.put(changes=upsert("auth", summary="good"))
    path = ws.layout.work_tree / "nodes/concept/never.yaml"
    until(path.parent.exists)
    path.write_text("uri: concept://shop/never\nsummary: [never closed\n")
    ws.hint(None)
    until(lambda: "invalid_file" in ask.get(uris="never")["missing"][0])
    invalid = ask.get(uris="never")["missing"][0]["invalid_file"]
    assert (invalid["path"], invalid["line"]) == ("nodes/concept/never.yaml", 3)
    assert "it is served as soon as it can be read" in invalid["next"]


@pytest.mark.slow
@pytest.mark.parametrize("text", ["word " * 30_000, "é" * 60_000, '"\\\n' * 30_000], ids=["ascii", "wide", "escaped"])
def test_a_long_content_comes_in_parts_that_make_up_the_whole(ask: Ask, text: str) -> None:
    ask.put(changes=[upsert("long", content=text), upsert("next", summary="n")])
    parts, answer = [], ask.get(uris=["long", "next"], budget=100_000)
    while True:
        assert len(orjson.dumps(answer)) <= HARD_LIMIT
        parts += [node["content"] for node in answer["nodes"] if "content" in node]
        if "cursor" not in answer:
            break
        answer = ask.get(uris=["long", "next"], budget=100_000, cursor=answer["cursor"])
    assert "".join(parts).rstrip("\n") == text.rstrip("\n")
    assert answer["nodes"][-1]["uri"] == "concept://shop/next"


@pytest.mark.slow
def test_a_long_list_of_relations_comes_in_parts(ask: Ask) -> None:
    targets = [f"https://example.org/{n:04}" for n in range(600)]
    ask.put(changes=upsert("hub", relations=[{"type": "see", "target": target} for target in targets]))
    found, cursor, calls = [], None, 0
    while calls == 0 or cursor:
        answer = ask.get(uris="hub", budget=2_000, **({"cursor": cursor} if cursor else {}))
        assert len(orjson.dumps(answer)) <= 8_000
        found += [relation["target"] for relation in answer["nodes"][0]["relations"]]
        cursor, calls = answer.get("cursor"), calls + 1
    assert found == targets
    assert calls > 2


@pytest.mark.parametrize("budget", [1, 100, 1_000])
def test_even_a_tiny_budget_reaches_the_end(ask: Ask, budget: int) -> None:
    names = [f"n{number}" for number in range(5)]
    ask.put(changes=[upsert(name, content="text " * 50) for name in names])
    found, cursor = [], None
    for _ in range(200):
        answer = ask.get(uris=names, budget=budget, **({"cursor": cursor} if cursor else {}))
        found += [node["uri"] for node in answer["nodes"]]
        cursor = answer.get("cursor")
        if not cursor:
            break
    assert list(dict.fromkeys(found)) == [f"concept://shop/{name}" for name in names]
    assert cursor is None


@pytest.mark.slow
def test_an_open_conflict_is_shown_with_both_sides_and_settled(ask: Ask, ws: Any) -> None:
    ask.put(changes=upsert("auth", summary="base"))
    path = ws.layout.work_tree / "nodes/concept/auth.yaml"
    until(path.exists)
    published = path.read_text()
    until(lambda: not (ws.layout.git_dir / "index.lock").exists() and ws.health()["publish"].state == "ok")
    git(ws.layout.work_tree, "checkout", "-q", "--detach")  # blocks publication, like any unfinished git operation
    ask.put(changes=upsert("auth", summary="the agent's"))
    path.write_text(published.replace("base", "the person's"))
    git(ws.layout.work_tree, "checkout", "-q", "-")
    os.utime(path)
    ws.hint(None)
    until(lambda: ask.conflicts()["total"] == 1)
    (node,) = ask.get(uris="auth")["nodes"]
    (conflict,) = node["conflicts"]
    sides = {side["side"]: side["value"] for side in conflict["fields"]["summary"]["sides"]}
    assert sorted(sides.values()) == ["the agent's", "the person's"]
    assert sides[conflict["fields"]["summary"]["shown"]] == node["summary"]
    assert conflict["next"]
    assert ask.traverse(start="auth")["conflicts"][0]["id"] == conflict["id"]
    ask.resolve(resolutions={"id": conflict["id"], "take": "b"})
    assert ask.conflicts()["conflicts"] == []
    assert ask.get(uris="auth")["nodes"][0]["summary"] == sides["b"]


@pytest.mark.parametrize("between", ["node", "node_version"])
def test_a_value_read_before_a_write_is_never_sent_under_the_later_version(
    ask: Ask, ws: Any, monkeypatch: pytest.MonkeyPatch, between: str
) -> None:
    ask.put(changes=upsert("count", data={"n": 1}))
    real = getattr(ws, between)

    def somebody_is_faster(*arguments: Any) -> Any:
        found = real(*arguments)
        monkeypatch.undo()
        ask.put(changes=upsert("count", data={"n": 2}))
        return found

    monkeypatch.setattr(ws, between, somebody_is_faster)
    (node,) = ask.get(uris="count")["nodes"]
    assert (node["data"]["n"], node["version"]) in ((2, 1), (2, 2), (1, 1))
    if node["version"] == 1:
        with pytest.raises(Stale):
            ask.put(changes=upsert("count", data={"n": node["data"]["n"] + 1}, expect_version=1))


@pytest.mark.parametrize(
    ("bad", "reason"),
    [("concept://", "invalid"), ("/etc/passwd", "invalid"), ("concept://nowhere/x", "unknown_workspace")],
)
@pytest.mark.parametrize("first", [True, False])
def test_one_bad_address_is_missing_and_the_others_are_answered(ask: Ask, bad: str, reason: str, first: bool) -> None:
    ask.put(changes=[upsert("a", relations=[{"type": "uses", "target": "b"}]), upsert("b")])
    texts = [bad, "concept://shop/a"] if first else ["concept://shop/a", bad]
    found, walked = ask.get(uris=texts), ask.traverse(start=texts)
    assert [node["uri"] for node in found["nodes"]] == ["concept://shop/a"]
    assert [(one["uri"], one["reason"]) for one in found["missing"]] == [(bad, reason)]
    assert [node["uri"][-1] for node in walked["nodes"]] == ["a", "b"]
    assert walked["missing"] == [bad]
    assert [(one["uri"], one["reason"]) for one in walked["absent"]] == [(bad, reason)]
    for alone in ({"uris": bad}, {"uris": [bad, bad]}):
        with pytest.raises(KgdError):
            ask.get(**alone)


def test_a_misspelled_name_is_answered_with_its_neighbours(ask: Ask) -> None:
    ask.put(changes=[upsert("services/auth", name="Auth"), upsert("services/keys", name="Keys of auth, autth")])
    (missing,) = ask.get(uris="services/autth")["missing"]
    assert missing["similar"][0] == "concept://shop/services/auth"
    until(lambda: not ask.get(uris="./src/auth/session.py")["missing"])
    (missing,) = ask.get(uris="./src/auth/sesion.py")["missing"]
    assert missing["similar"][0] == "file://shop/src/auth/session.py"
    (missing,) = ask.get(uris="src/auth/sesion.py")["missing"]
    assert missing["similar"][0] == "file://shop/src/auth/session.py", "a bare path is a concept until it exists"
    commit = ask.put(changes=upsert("later", summary="s"))["commit"]
    (missing,) = ask.get(uris="./src/auth/session.py", as_of=commit)["missing"]
    assert missing["uri"] not in missing["similar"], "a node of the code tree is in no commit of knowledge"


def test_only_near_names_are_suggested_for_a_missing_node(ask: Ask) -> None:
    ask.put(changes=[upsert("services/login-session", name="Sign-in"), upsert("services/clock", name="Time source")])

    def suggested(uri: str) -> list[str]:
        (missing,) = ask.get(uris=uri)["missing"]
        return list(missing["similar"])

    for far in ("services/zebra", "concept://shop/quagga-of-services", "decision://shop/services"):
        assert suggested(far) == []
    assert suggested("sessions") == ["concept://shop/services/login-session"]
    assert suggested("gotcha://shop/login-sesion") == ["concept://shop/services/login-session"]
    assert suggested("time-sources") == ["concept://shop/services/clock"]


@pytest.mark.parametrize(("name", "like"), [("nope", []), ("ndoe", ["services/node"]), ("nodes", ["services/node"])])
def test_a_short_name_is_near_only_with_its_own_letters(ask: Ask, name: str, like: list[str]) -> None:
    ask.put(changes=[upsert("services/node", name="Node"), upsert("services/tool", name="A node of services")])
    (missing,) = ask.get(uris=[f"services/{name}", "services/tool"])["missing"]
    assert missing["similar"][:1] == [f"concept://shop/{one}" for one in like]


def test_chunks_are_suggested_only_for_a_missing_chunk(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/keys.md").write_text("# Services\n\nThe services keys3 and keys4 rotate.\n")
    ask.ingest(source=str(tmp_path / "notes"))
    ask.put(changes=upsert("services/keys", summary="signs"))
    (missing,) = ask.get(uris="concept://shop/services/keys3")["missing"]
    assert missing["similar"] == ["concept://shop/services/keys", "document://shop/notes/keys.md"]
    (missing,) = ask.get(uris="chunk://shop/notes/keys.md/0002")["missing"]
    assert "chunk://shop/notes/keys.md/0001" in missing["similar"]

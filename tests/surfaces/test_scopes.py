"""Reading and writing by token holders, tool by tool; nodes outside the scope seem absent."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kgd.errors import Forbidden, Invalid, InvariantViolation, KgdError, Limit, NotFound, Unauthorized
from kgd.mentions.mentions import Mentions
from kgd.model.access import Principal, Scope
from kgd.tools import EVERY, LOCAL, call
from kgd.tools.history import history
from kgd.tools.history.blame import BlameParams, blame
from kgd.tools.session import Session
from kgd.ui.pages import history as history_pages
from kgd.ui.sessions import Visitor
from kgd.ui.visit import Visit
from kgd.workspace.workspace import Workspace
from tests.surfaces.conftest import Ask, upsert
from tests.surfaces.test_conflicts import disagree

As = Callable[..., Ask]
SECRET = "zebra"


@pytest.fixture
def holds(session: Session) -> As:
    """`holds("read,write", "/infra/**")`: the tools for the holder of such a token."""

    def make(verbs: str, *paths: str, **known: Any) -> Ask:
        scope = Scope.of("shop", verbs.split(","), paths)
        principal = Principal("tok00001", "billing-agent", "agent", (scope,), **known)
        return Ask(Session(session.daemon, client="claude", principal=principal))

    return make


@pytest.fixture
def filled(ask: Ask) -> Ask:
    ask.put(
        changes=[
            upsert(
                "infra/a",
                summary="public",
                content="apples\n",
                relations=[
                    {"type": "uses", "target": "infra/b", "weight": 0.1},
                    {"type": "uses", "target": "secret/x", "weight": 0.1},
                    {"type": "uses", "target": "secret/gone"},
                ],
            ),
            upsert("infra/b", summary="also public"),
            upsert(
                "secret/x",
                summary=f"the {SECRET}",
                content=f"{SECRET} apples\n",
                relations=[
                    {"type": "uses", "target": "infra/a", "weight": 0.1},
                    {"type": "uses", "target": "infra/c", "weight": 0.1},
                ],
            ),
            upsert("infra/c", summary="behind a secret"),
        ],
        message=f"about the {SECRET}",
    )
    return ask


@pytest.mark.slow
def test_a_holder_learns_that_the_text_index_is_degraded_without_the_error(
    filled: Ask, holds: As, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Workspace, "text_problem", "nodes/secret/x.yaml cannot be read")
    mine, hint = holds("read", "/infra/**"), "The text index is degraded, so a search may miss texts"
    assert mine.search(query="giraffe")["hint"] == mine.context(question="giraffe")["missing"]["message"] == f"{hint}."
    assert filled.search(query="giraffe")["hint"] == f"{hint}: nodes/secret/x.yaml cannot be read."


def test_get_answers_readable_nodes_only(filled: Ask, holds: As) -> None:
    mine = holds("read", "/infra/**")
    (node,) = mine.get(uris="concept://shop/infra/a", include=["content", "relations", "incoming", "history"])["nodes"]
    assert node["content"] == "apples\n"
    assert "incoming" not in node
    assert not any("broken" in relation for relation in node["relations"])
    assert node["history"][0]["message"] == "(this commit changed other nodes too)"
    for name in ("secret/x", "secret/never-was"):
        with pytest.raises(Forbidden, match="may not read"):
            mine.get(uris=f"concept://shop/{name}")
    with pytest.raises(Forbidden, match="may not read"):
        mine.get(uris=["concept://shop/infra/a", "concept://shop/secret/x"])


def test_a_missing_node_is_not_compared_with_hidden_ones(filled: Ask, holds: As) -> None:
    filled.put(changes=upsert("secret/rotation-plan", name="Rotation plan"))
    mine = holds("read", "/infra/**")
    with pytest.raises(NotFound) as refused:
        mine.traverse(start="concept://shop/infra/rotation-plan")
    assert "secret" not in str(refused.value)
    (missing,) = mine.get(uris="concept://shop/infra/rotation-plan")["missing"]
    assert not [uri for uri in missing["similar"] if "secret" in uri]


def test_the_types_of_hidden_nodes_are_not_shown(filled: Ask, holds: As) -> None:
    filled.put(changes=upsert("secret/plan", type="rotation-plan", name="Rotation"))
    mine = holds("read", "/infra/**")
    told = [mine.search(query="zebra", types=[type])["hint"] for type in ("rotation-plan", "unheard-of")]
    assert told[0].replace("rotation-plan", "unheard-of") == told[1]
    assert mine.search(query="zebra", types=["gotcha"])["hint"] == "Nothing is known about this."


def test_an_alias_does_not_bypass_the_scope(filled: Ask, holds: As) -> None:
    filled.put(changes={"op": "move", "uri": "infra/b", "to": "secret/b"})
    mine, gone = holds("read,write", "/infra/**"), "concept://shop/infra/b"
    found = mine.get(uris=gone)
    assert [one["uri"] for one in found["missing"]] == [gone]
    assert "secret" not in json.dumps(found)
    for change in (
        upsert(gone, content="new"),
        upsert(gone, summary="new", expect_version=1),
        {"op": "append", "uri": gone, "text": "t"},
        {"op": "delete", "uri": gone},
    ):
        for dry_run in (True, False):
            with pytest.raises(Forbidden) as refused:
                mine.put(changes=change, dry_run=dry_run)
            assert "secret" not in json.dumps(refused.value.as_dict())


def test_a_clash_with_a_hidden_node_does_not_name_it(filled: Ask, holds: As) -> None:
    mine = holds("read,write", "/secret/X*")
    with pytest.raises(InvariantViolation) as refused:
        mine.put(changes=upsert("concept://shop/secret/X", summary="s"))
    assert "secret/x" not in json.dumps(refused.value.as_dict())


def test_a_revert_of_a_hidden_commit_names_nothing(filled: Ask, holds: As) -> None:
    hidden = filled.put(changes=upsert("secret/y", summary="more"))["commit"]
    mine = holds("read,write,propose", "/infra/**")
    for dry_run in (True, False):
        with pytest.raises(Forbidden) as refused:
            mine.put(changes={"op": "revert", "commit": hidden}, dry_run=dry_run)
        assert "secret" not in json.dumps(refused.value.as_dict())
    with pytest.raises(Forbidden) as refused:
        mine.submit_subgraph(changes={"op": "revert", "commit": hidden})
    assert "secret" not in json.dumps(refused.value.as_dict())


def test_the_page_of_a_hidden_commit_is_that_of_a_missing_commit(filled: Ask, session: Session) -> None:
    hidden = filled.put(changes=upsert("secret/y", summary="more"))["commit"]
    made = call(session, "token_mint", {"workspace": "shop", "name": "bob", "paths": ["/infra/**"]})
    record = session.daemon.tokens.record(made["id"])
    for commit in (hidden, "f" * 40):
        visit = Visit(
            session.daemon, Visitor(), "shop", {"commit": commit}, {}, lambda _: [], {}, "/ui/", record=record
        )
        with pytest.raises(NotFound) as refused:
            history_pages.change(visit)
        assert str(refused.value).replace(commit, "") == "there is no such commit (). Find one with history."


def test_a_deletion_counts_readable_relations_only(filled: Ask, holds: As) -> None:
    mine = holds("read,write", "/infra/**")
    filled.put(changes=upsert("secret/x", relations=[{"type": "uses", "target": "infra/b"}]))
    (warning,) = mine.put(changes={"op": "delete", "uri": "concept://shop/infra/b"}, dry_run=True)["warnings"]
    assert warning.startswith("1 relation of")
    assert mine.put(changes={"op": "delete", "uri": "concept://shop/infra/c"}, dry_run=True)["warnings"] == []
    (warning,) = filled.put(changes={"op": "delete", "uri": "infra/b"}, dry_run=True)["warnings"]
    assert warning.startswith("2 relations of")


@pytest.mark.slow
def test_a_search_finds_and_counts_nothing_hidden(filled: Ask, holds: As) -> None:
    mine = holds("read", "/infra/**")
    assert mine.search(query=SECRET)["hits"] == []
    assert "cursor" not in mine.search(query=SECRET, limit=1)
    found = mine.search(query="apples", limit=1, max_depth=0)
    assert [hit["uri"] for hit in found["hits"]] == ["concept://shop/infra/a"]
    assert "cursor" not in found
    assert SECRET not in json.dumps(found)
    assert "secret" not in json.dumps(mine.search(query="public", include="edges"))


def test_a_walk_goes_around_hidden_nodes(filled: Ask, holds: As) -> None:
    mine = holds("read", "/infra/**")
    walked = mine.traverse(start="concept://shop/infra/a", max_cost=1, direction="both")
    assert [node["uri"] for node in walked["nodes"]] == ["concept://shop/infra/a", "concept://shop/infra/b"]
    assert SECRET not in json.dumps(walked)
    assert all("secret" not in edge["source"] + edge["target"] for edge in walked["edges"])
    with pytest.raises(KgdError):
        mine.traverse(start="concept://shop/secret/x")


def test_history_lists_changes_of_readable_nodes_only(filled: Ask, holds: As) -> None:
    filled.put(changes=upsert("secret/y", summary="more"), message="hidden words")
    mine = holds("read", "/infra/**")
    commits = mine.history(diff=True)["commits"]
    assert [set(commit["nodes"]) for commit in commits] == [
        {"concept://shop/infra/a", "concept://shop/infra/b", "concept://shop/infra/c"}
    ]
    text = json.dumps(commits)
    assert SECRET not in text
    assert "hidden words" not in text
    with pytest.raises(Forbidden):
        mine.history(uri="concept://shop/secret/x")


def test_history_answers_alike_for_hidden_and_nonexistent_nodes(filled: Ask, holds: As) -> None:
    mine = holds("read", "/infra/**")
    filled.put(changes=upsert("secret/plan", name="Rotation plan", aliases=["concept://shop/infra/plan"]))
    for never in ("concept://shop/infra/plan", "concept://shop/infra/none"):
        with pytest.raises(NotFound, match="there is no such node") as refused:
            mine.history(uri=never)
        assert "secret" not in json.dumps(refused.value.as_dict())
    told = []
    for hidden in ("concept://shop/secret/plan", "concept://shop/secret/none"):
        with pytest.raises(Forbidden) as forbidden:
            mine.history(uri=hidden)
        told.append(str(forbidden.value.as_dict()).replace("plan", "none"))
    assert told[0] == told[1]


@pytest.mark.slow
def test_a_page_of_history_neither_ends_at_nor_counts_hidden_commits(
    filled: Ask, holds: As, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "LOOKED_THROUGH", 3)
    for number in range(4):
        filled.put(changes=upsert("infra/a", summary=f"visible {number}"))
        for _ in range(2 * number):
            filled.put(changes={"op": "append", "uri": "secret/x", "text": "more"})
    hidden = [one["commit"] for one in filled.history(uri="concept://shop/secret/x", limit=50)["commits"]][:-1]
    mine, found, cursor = holds("read", "/infra/**"), list[str](), None
    while True:
        page = mine.history(limit=1, **({"cursor": cursor} if cursor else {}))
        found += [one["commit"] for one in page["commits"]]
        cursor = page.get("cursor")
        if cursor is None:
            break
        position = base64.urlsafe_b64decode(cursor + "==").decode()
        assert not any(commit in position for commit in hidden)
    assert found == [one["commit"] for one in filled.history(uri="concept://shop/infra/a")["commits"]]
    assert len(found) == 5


def test_status_says_nothing_of_the_machine(filled: Ask, holds: As, ws: Workspace) -> None:
    text = json.dumps(holds("read", "/infra/**").status())
    assert str(ws.layout.work_tree.parent) not in text
    assert "counts" in text


def test_a_write_is_held_to_the_scope(filled: Ask, holds: As, ws: Workspace) -> None:
    mine, tip = holds("read,write", "/infra/**"), ws.tip
    for change in (
        upsert("concept://shop/secret/x", summary="s"),
        upsert("concept://shop/secret/never", summary="s"),
        {"op": "append", "uri": "concept://shop/secret/x", "text": "t"},
        {"op": "delete", "uri": "concept://shop/secret/x"},
        {"op": "move", "uri": "concept://shop/infra/b", "to": "concept://shop/secret/b"},
        {"op": "move", "uri": "concept://shop/secret/x", "to": "concept://shop/infra/x"},
        {"op": "relate", "source": "concept://shop/secret/x", "target": "concept://shop/infra/a", "type": "t"},
        upsert("concept://shop/infra/b", aliases=["concept://shop/secret/new"]),
        upsert("concept://shop/infra/b", relations=[{"type": "t", "target": "https://example.com/"}]),
    ):
        with pytest.raises(Forbidden):
            mine.put(changes=[upsert("concept://shop/infra/z", summary="z"), change])
        with pytest.raises(Forbidden):
            mine.put(changes=change, dry_run=True)
    assert ws.tip == tip
    done = mine.put(changes=upsert("concept://shop/infra/b", relations=[{"type": "t", "target": "secret/x"}]))
    (commit,) = filled.history(commit=done["commit"])["commits"]
    assert (commit["author"], commit["client"]) == ("billing-agent", "claude")
    assert done["warnings"] == []


def test_a_refusal_does_not_reveal_whether_the_node_exists(filled: Ask, holds: As) -> None:
    mine = holds("read,write,propose", "/infra/**")
    said = set()
    for name in ("secret/x", "secret/q"):
        for change in (
            upsert(f"concept://shop/{name}", content="new"),
            {"op": "delete", "uri": f"concept://shop/{name}"},
            {"op": "untag", "uri": f"concept://shop/{name}", "tags": "t"},
        ):
            for tool in ("put", "submit_subgraph"):
                with pytest.raises(Forbidden) as caught:
                    call(mine.session, tool, {"changes": [change]})
                said.add(str(caught.value).replace(name, "N"))
    assert len(said) == 2  # one sentence for writing, one for proposing


def test_a_token_reaches_its_own_workspace_and_no_local_path(filled: Ask, holds: As, ws: Workspace) -> None:
    session = holds("read", "/**").session
    other = replace(session.principal, scopes=(Scope.of("other", ["read"], ["/**"]),))  # type: ignore[type-var]
    stranger = Ask(Session(session.daemon, principal=other))
    with pytest.raises((Forbidden, NotFound)):
        stranger.get(uris="concept://shop/infra/a")
    with pytest.raises((Forbidden, NotFound)):
        stranger.status(workspace="shop")
    mine = Ask(session)
    for place in (str(ws.layout.work_tree), "./src", "/etc"):
        with pytest.raises(KgdError) as caught:
            mine.get(uris=place)
        assert str(ws.layout.work_tree.parent) not in str(caught.value)
        with pytest.raises(KgdError):
            mine.search(query="x", workspace=place)


def test_a_token_cannot_call_local_tools(filled: Ask, holds: As) -> None:
    mine = holds("read,write,resolve,admin", "/**")
    for name in LOCAL:
        with pytest.raises(NotFound, match="there is no tool"):
            call(mine.session, name, {})
    for operation in (one for one in EVERY.values() if one.scope is None):
        with pytest.raises(Forbidden, match="only the user of this machine"):
            operation.answer(mine.session, None)
    with pytest.raises(Forbidden):
        mine.ingest()


def test_an_expired_or_revoked_token_changes_nothing(filled: Ask, holds: As, ws: Workspace) -> None:
    tip = ws.tip
    late = holds("read,write", "/**", expires=1_700_000_000.0)
    questions: list[Callable[[], object]] = [
        lambda: late.get(uris="concept://shop/infra/a"),
        lambda: late.put(changes=upsert("x", summary="s")),
    ]
    for question in questions:
        with pytest.raises(Unauthorized, match="expired"):
            question()
    revoked = holds("write", "/**")

    def gone() -> None:
        raise Unauthorized("this token was revoked")

    revoked.session.still_live = gone
    with pytest.raises(Unauthorized, match="revoked"):
        revoked.put(changes=upsert("concept://shop/x", summary="s"))
    assert ws.tip == tip


def test_a_holder_does_not_learn_how_many_hidden_nodes_lead_to_deleted_ones(ask: Ask, holds: As) -> None:
    names = [f"concept://shop/infra/n{number}" for number in range(22)]
    links = [{"type": "uses", "target": name} for name in names]
    ask.put(changes=[*map(upsert, names), upsert("secret/x", relations=links)])
    mine, changes = holds("read,write", "/infra/**"), [{"op": "delete", "uri": name} for name in names]
    assert len(ask.put(changes=changes, dry_run=True)["warnings"]) == 21
    assert mine.put(changes=changes, dry_run=True)["warnings"] == []
    assert mine.put(changes=changes)["warnings"] == []


def test_a_holder_is_warned_of_readable_relations_that_the_change_breaks(ask: Ask, holds: As) -> None:
    to_b = [{"type": "uses", "target": "infra/b"}]
    ask.put(changes=[upsert("infra/a", relations=to_b), upsert("infra/b"), upsert("secret/x", relations=to_b)])
    mine = holds("read,write", "/infra/**")
    gone = [{"op": "delete", "uri": f"concept://shop/infra/{name}"} for name in "ab"]
    assert len(ask.put(changes=gone, dry_run=True)["warnings"]) == 1
    assert mine.put(changes=gone, dry_run=True)["warnings"] == [], "the only readable source is deleted too"
    ask.put(changes={"op": "move", "uri": "infra/b", "to": "infra/c"})
    for dry_run in (True, False):  # the relation leads to the former name
        told = mine.put(changes={"op": "delete", "uri": "concept://shop/infra/c"}, dry_run=dry_run)["warnings"]
        assert told == ["1 relation of another node leads to concept://shop/infra/c and is now a broken link"]


def test_two_holders_may_choose_the_same_request_id(filled: Ask, holds: As) -> None:
    one = holds("write", "/infra/**")
    other = Ask(replace(one.session, principal=replace(one.session.principal, id="tok00002")))  # type: ignore[type-var]
    first = one.put(changes=upsert("concept://shop/infra/r", summary="1"), request_id="r")
    second = other.put(changes=upsert("concept://shop/infra/s", summary="2"), request_id="r")
    assert first["commit"] != second["commit"]
    assert one.put(changes=upsert("concept://shop/infra/r", summary="1"), request_id="r")["commit"] == first["commit"]


def test_conflicts_are_settled_with_resolve_and_only_where_it_reaches(filled: Ask, holds: As) -> None:
    disagree(filled, "infra/b", "summary")
    disagree(filled, "secret/x", "summary")
    mine = holds("read,resolve", "/infra/**")
    left = mine.resolve_conflicts(via="agent")
    assert [one["uri"] for one in left["remaining"]] == ["concept://shop/infra/b"]
    assert left["open"] == 1
    (id,) = (one["id"] for one in left["remaining"])
    with pytest.raises(Forbidden, match="may not resolve"):
        holds("read,write", "/infra/**").resolve_conflicts(resolutions={"id": id, "take": "a"})
    with pytest.raises(Forbidden, match="secret/x"):
        mine.resolve_conflicts(resolutions={"id": "concept://shop/secret/x", "take": "a"})
    done = mine.resolve_conflicts(resolutions={"id": id, "take": "a"}, via="agent")
    assert [one["uri"] for one in done["resolved"]] == ["concept://shop/infra/b"]
    assert filled.conflicts()["total"] == 1


def test_admin_on_a_part_of_a_workspace_is_refused_where_a_token_is_minted(ask: Ask) -> None:
    for given in ({"verbs": ["read,admin"], "paths": ["/services/**"]}, {"also": ["admin:/services/**"]}):
        with pytest.raises(Invalid, match="a whole workspace"):
            ask.token_mint(workspace="shop", name="keeper", **given)
    made = ask.token_mint(workspace="shop", name="keeper", paths=["/services/**"], also=["admin:/**"])
    assert [text for text in made["warnings"] if "/services/**" not in text] == [], "an empty workspace is no slip"


@pytest.mark.slow
def test_search_results_do_not_depend_on_unreadable_nodes(
    ask: Ask, holds: As, ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Order and scores do not depend on them either: the weights of word prefixes would reveal hidden texts."""
    mine = holds("read,write", "/infra/**")
    mine.put(
        changes=[
            upsert("infra/quartz", name="Quartz Gate", content="quartz rotates leases here\n", tags=["rock"]),
            upsert("infra/lease", name="Lease Book", content="the leases of quartz gate\n", tags=["rock"]),
            upsert("infra/both", name="Getter Unit", content="getUserName leases quartz gates\n"),
            upsert("infra/names", name="Other Thing", content="Quartz Gate, Lease Book quartzes\n"),
        ]
    )
    asked: list[dict[str, Any]] = [
        {"query": text}
        for text in (
            "quartz leases",
            "quar",
            "leases quartz gat",
            "getUserName lease",
            "Lease Book",
            "which leases of the quartz gate rotate here",
            "zebra quartz",
            "zebr",
        )
    ]
    asked += [{"query": "", "tags": ["rock"]}, {"query": "quartz leases", "limit": 2}]
    monkeypatch.setattr(
        type(ws.meaning), "share", 0.0
    )  # a model derives the weights of word pieces from a sample of all texts

    def found(one: dict[str, Any]) -> tuple[tuple[Any, ...], list[float]]:
        answer = mine.search(**one, include="edges")
        every = [*answer["hits"], *answer["code"]]
        hits = [(hit["uri"], hit["why"][:1], hit.get("path"), hit.get("snippet")) for hit in every]
        rest = (answer["edges"], answer.get("hint"), answer.get("nearest"), "cursor" in answer)
        return (one, hits, *rest), [hit["score"] for hit in every]

    assert Mentions.of(ws).settle()
    before = [found(one) for one in asked]
    hidden = [
        upsert(
            f"secret/{n}",
            name=f"Quartz Gate {n % 3}",
            tags=["rock"],
            content=f"zebra quartz leases quartzite gateway{n}\n",
        )
        for n in range(600)
    ]
    ask.put(changes=hidden)
    assert Mentions.of(ws).settle()
    for one, (answer, scores) in zip(asked, before, strict=True):
        told, now = found(one)
        assert told == answer
        # Nearly the same: the average length of all texts affects every score.
        assert now == pytest.approx(scores, abs=0.05)


def test_blame_of_a_node_that_moved_out_of_scope_answers_as_for_a_missing_node(filled: Ask, holds: As) -> None:
    filled.put(changes=[{"op": "move", "uri": "infra/b", "to": "secret/b"}])
    mine = holds("read", "/infra/**")
    told = []
    for path in ("infra/b", "infra/none"):
        with pytest.raises(NotFound) as refused:
            blame(mine.session, BlameParams(uri=f"concept://shop/{path}"))
        told.append((refused.value.message, refused.value.next, refused.value.at == f"concept://shop/{path}"))
    assert told[0] == told[1] == (told[0][0], told[0][1], True)


def test_a_path_that_no_uri_can_have_is_refused_and_does_not_list_everything(filled: Ask, holds: As) -> None:
    for one in (filled, holds("read", "/**")):
        with pytest.raises(Limit, match="at most 64 segments"):
            one.history(path="a/" * 70)

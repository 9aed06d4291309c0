"""Lists of proposals: foreign ones never displace those for the caller to decide, filters, and comments to answer."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest

from kgd.errors import Damaged, Invalid, Limit
from kgd.git import program
from kgd.git.store import ObjectStore
from kgd.model.access import Principal, Scope
from kgd.model.uri import Uri
from kgd.tools import paging
from kgd.tools.proposals.proposals import COMMENT, LISTED, PROPOSALS
from kgd.tools.read.graph_view import groups
from kgd.tools.read.grouping import proposed_of_walk
from kgd.tools.session import Session
from kgd.workspace.proposals import proposals, records
from kgd.workspace.workspace import Workspace
from tests.surfaces.conftest import Ask, git, upsert

As = Callable[..., Ask]


@pytest.fixture
def holds(session: Session) -> As:
    def make(verbs: str, *paths: str, name: str = "billing-agent", id: str = "tok00001") -> Ask:
        principal = Principal(id, name, "agent", (Scope.of("shop", verbs.split(","), paths),))
        return Ask(Session(session.daemon, client="claude", principal=principal))

    return make


@pytest.mark.slow
def test_proposals_of_another_scope_hide_none_of_the_callers(ask: Ask, holds: As) -> None:
    other = holds("propose", "/other/**", name="other", id="tok00009")
    for n in range(LISTED + 2):
        other.submit_subgraph(changes=upsert(f"other/{n}", name="N"))
    for n in range(2):
        holds("propose", "/infra/**").submit_subgraph(changes=upsert(f"infra/{n}", name="N"))
    decides, reads = holds("read,write", "/infra/**", id="tok00002"), holds("read", "/infra/**", id="tok00003")
    waiting = decides.resolve_conflicts(via="agent")["proposals"]
    assert [one["nodes"] for one in waiting] == [["concept://shop/infra/0"], ["concept://shop/infra/1"]]
    assert "proposals" not in reads.resolve_conflicts(via="agent"), "seen, and not for this caller to decide"
    listed = PROPOSALS.call(reads.session, {"limit": 1})
    assert (len(listed["proposals"]), listed["total"]) == (1, 2)
    assert listed["proposals"][0]["nodes"] == ["concept://shop/infra/0"]


def test_a_proposal_that_also_touches_foreign_nodes_cannot_be_decided(ask: Ask, holds: As) -> None:
    changes = [upsert(f"infra/{n:02}", name="N") for n in range(30)] + [upsert("zoo/x", name="N")]
    holds("propose", "/**").submit_subgraph(changes=changes)
    both = Principal(
        "tok00004",
        "both",
        "agent",
        (
            Scope.of("shop", ["read"], ["/**"]),
            Scope.of("shop", ["write", "resolve"], ["/infra/**"]),
        ),
    )
    some = Ask(Session(ask.session.daemon, client="claude", principal=both))
    assert PROPOSALS.call(some.session, {})["total"] == 1
    assert "proposals" not in some.resolve_conflicts(via="agent")


def listed(caller: Ask, **filters: Any) -> list[str]:
    """The first node of each proposal that the caller finds."""
    answer = PROPOSALS.call(caller.session, filters)
    assert answer["total"] == len(answer["proposals"])
    return [one["nodes"][0].removeprefix("concept://shop/") for one in answer["proposals"]]


@pytest.mark.slow
def test_proposals_are_filtered_by_author_path_and_date(ask: Ask, holds: As) -> None:
    ann = Ask(replace(ask.session, client="kgd-cli"))
    base = ann.put(changes=upsert("infra/ann", name="A"))["commit"]
    ann.put(changes=upsert("infra/ann", name="B"))
    ann.submit_subgraph(changes=upsert("infra/ann", name="C"), base=base)
    holds("propose", "/**").submit_subgraph(changes=upsert("infra/bot", name="N"))
    holds("propose", "/**", name="other", id="tok00009").submit_subgraph(changes=upsert("zoo/other", name="N"))
    assert listed(ask, by="person") == ["infra/ann"]
    assert listed(ask, by="agents") == ["infra/bot", "zoo/other"]
    assert listed(ask, by="BILLING") == ["infra/bot"]
    assert listed(ask, path=["/zoo/**"]) == listed(ask, path=["zoo"]) == ["zoo/other"]
    assert listed(ask, path=["/infra/**"], by="agent") == ["infra/bot"]
    assert listed(ask, since="today", until="today") == ["infra/ann", "infra/bot", "zoo/other"]
    assert listed(ask, since="2099-01-01") == listed(ask, until="yesterday") == []
    reader = holds("read", "/zoo/**", id="tok00003")
    assert (listed(reader), listed(reader, path=["/infra/**"])) == (["zoo/other"], [])
    for filters, reason in (
        ({"since": "soon"}, "not a date"),
        ({"until": "soon"}, "not a date"),
        ({"path": ["a//b"]}, "matches nothing"),
        ({"path": ["../a"]}, "outside the code tree"),
    ):
        with pytest.raises(Invalid, match=reason):
            ask.proposals(**filters)


def test_filtered_proposals_have_pages_of_their_own(ask: Ask, holds: As) -> None:
    for n in range(3):
        for name, id in (("one", "tok00001"), ("two", "tok00002")):
            holds("propose", "/**", name=name, id=id).submit_subgraph(changes=upsert(f"{name}/{n}", name="N"))
    first = ask.proposals(by="two", limit=2)
    rest = ask.proposals(by="two", limit=2, cursor=first["cursor"])
    found = [one["nodes"] for one in (*first["proposals"], *rest["proposals"])]
    assert found == [[f"concept://shop/two/{n}"] for n in range(3)]
    assert (first["total"], rest["total"], "cursor" in rest) == (3, 3, False)
    with pytest.raises(Invalid, match="cursor"):
        ask.proposals(by="one", limit=2, cursor=first["cursor"])


def test_a_comment_reaches_the_author_of_a_proposal_until_the_author_answers(ask: Ask, holds: As) -> None:
    mine, other = holds("read,propose", "/infra/**"), holds("read,propose", "/infra/**", name="other", id="tok00009")
    id = mine.submit_subgraph(changes=upsert("infra/a", name="N"))["proposal"]
    assert listed(mine, unanswered=True) == []
    ask.comment(name=id, text="Why N?")
    COMMENT.call(other.session, {"name": id, "text": "And not O?"})
    (one,) = PROPOSALS.call(mine.session, {"unanswered": True})["proposals"]
    assert [(said["author"], said["text"]) for said in one["discussion"]] == [
        ("Ann Person", "Why N?"),
        ("other", "And not O?"),
    ]
    assert listed(other, unanswered=True) == listed(ask, unanswered=True) == []
    later = mine.submit_subgraph(changes=upsert("infra/b", name="N"))
    assert "your proposals have comments to answer" in later["warnings"][0]
    COMMENT.call(mine.session, {"name": id, "text": "N is shorter."})
    assert listed(mine, unanswered=True) == []
    assert "warnings" not in mine.submit_subgraph(changes=upsert("infra/c", name="N"))
    ask.comment(name=id, text="Fine.")
    assert listed(mine, unanswered=True) == ["infra/a"]
    ask.accept(name=id)
    assert listed(mine, unanswered=True) == []


def test_a_change_that_an_agents_token_pushed_is_an_agents_under_any_name_in_its_commit(
    ask: Ask, ws: Workspace
) -> None:
    ask.put(changes=upsert("a", name="A"))
    git_dir, tip = ws.layout.git_dir, ws.tip
    who = ["-c", "user.name=Ann Person", "-c", "user.email=ann@example.org"]
    made = git(git_dir, *who, "commit-tree", f"{tip}^{{tree}}", "-p", tip, "-m", "by Ann").strip()
    for kind in ("agent", "person"):
        pusher = Principal("tok00001", "bot", kind, (Scope.of("shop", ["read", "propose"], ["/**"]),))
        note = ["--create-reflog", "-m", records.pushed(pusher)]
        git(git_dir, *who, "update-ref", *note, f"refs/heads/proposals/{kind}-1", made)
    for kind in ("agent", "person"):
        assert [one["id"].partition("@")[0] for one in ask.proposals(by=kind)["proposals"]] == [f"{kind}-1"]


def test_comments_do_not_wait_for_an_answer_that_no_longer_fits(
    ask: Ask, holds: As, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MOST_COMMENTS", 2)
    mine = holds("read,propose", "/infra/**")
    id = mine.submit_subgraph(changes=upsert("infra/a", name="N"))["proposal"]
    ask.comment(name=id, text="Why N?")
    assert listed(mine, unanswered=True) == ["infra/a"]
    ask.comment(name=id, text="And not O?")
    with pytest.raises(Limit):
        COMMENT.call(mine.session, {"name": id, "text": "N is shorter."})
    assert listed(mine, unanswered=True) == []


@pytest.mark.parametrize("position", [[None], [False, "1", "a"], [False, 1, 2]])
def test_a_cursor_that_kgd_did_not_write_is_refused(ask: Ask, position: list[Any]) -> None:
    ask.submit_subgraph(changes=upsert("a", name="A"))
    question: list[Any] = [None, [], None, None, False]
    with pytest.raises(Invalid) as refused:
        ask.proposals(cursor=paging.write("proposals", question, position))
    assert refused.value.at == "cursor"


@pytest.mark.parametrize("list", ["proposals", "review"])
def test_a_bad_pattern_is_refused_by_the_name_of_its_parameter(ask: Ask, list: str) -> None:
    with pytest.raises(Invalid) as refused:
        getattr(ask, list)(path="[")
    assert refused.value.at == "path"


def test_get_names_the_open_proposals_that_change_a_node(ask: Ask, holds: As) -> None:
    for name in ("one", "two", "three"):
        ask.put(changes=upsert(f"infra/{name}", name=name))
    changes = [upsert(f"infra/{name}", summary="proposed") for name in ("one", "two")]
    id = holds("propose", "/infra/**").submit_subgraph(changes=changes)["proposal"]
    uris = [f"concept://shop/infra/{name}" for name in ("one", "two", "three")]

    def proposed(by: Ask) -> dict[str, list[str]]:
        nodes = by.get(uris=uris, include="proposals")["nodes"]
        return {one["name"]: one["proposals"] for one in nodes if "proposals" in one}

    def in_pictures() -> tuple[set[Uri], int]:
        walk = ask.traverse(start=uris)
        counted = groups(ask.session.daemon.workspace("shop"), ["type"], [], None)["groups"]
        return proposed_of_walk(ask.session, walk), sum(one.get("proposed", 0) for one in counted)

    assert in_pictures() == (set(uris[:2]), 2)
    assert proposed(ask) == {"one": [id], "two": [id]}
    assert proposed(holds("read", "/infra/**", id="tok00002")) == {}, "a restricted caller learns nothing"
    assert "proposals" not in ask.get(uris=uris[:1])["nodes"][0]
    ask.put(changes=upsert("infra/one", summary="proposed"))
    assert proposed(ask) == {"two": [id]}, "nothing is left to accept for the other node"
    assert in_pictures() == ({uris[1]}, 1)


def lost_parent(ws: Workspace, name: str = "lost") -> str:
    """Make an open proposal whose commit has a parent that the repository does not have; return its name."""
    git_dir = ws.layout.git_dir
    who = "Ann Person <ann@example.org> 1700000000 +0000"
    tree = git(git_dir, "rev-parse", f"{ws.tip}^{{tree}}").strip()
    text = f"tree {tree}\nparent {'1' * 40}\nauthor {who}\ncommitter {who}\n\nlost\n"
    made = subprocess.run(
        ["git", "-C", str(git_dir), "hash-object", "-t", "commit", "-w", "--literally", "--stdin"],
        input=text,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    (git_dir / "refs/heads/proposals").mkdir(parents=True, exist_ok=True)
    (git_dir / "refs/heads/proposals" / name).write_text(f"{made}\n")
    return name


@pytest.mark.slow
def test_many_proposals_are_compared_a_few_at_a_time_without_git_and_once(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = ask.put(changes=upsert("busy", name="Busy"))["commit"]
    ask.put(changes=upsert("busy", name="Busier"))
    for n in range(proposals.COMPARED + 3):
        ask.submit_subgraph(changes=upsert("busy", name=f"Busy {n}"), base=base)
    asked = {"uris": ["concept://shop/busy"], "include": ["proposals"]}
    monkeypatch.setattr(program, "run", lambda *_, **__: pytest.fail("a process of git"))
    monkeypatch.setattr(proposals, "merge_commits", lambda *_: pytest.fail("a merge"))
    first = ask.get(**asked)
    assert first["proposals_left_out"] == 3
    assert first["nodes"][0]["more_proposals"] == proposals.COMPARED - 3
    monkeypatch.setattr(proposals, "COMPARED", 3)
    assert ask.get(**asked)["nodes"][0]["more_proposals"] == 20
    monkeypatch.setattr(proposals, "COMPARED", 0)
    ask.put(changes=upsert("other", name="Other"))
    after = ask.get(**asked)
    assert after["nodes"][0]["more_proposals"] == 20, "a new tip needs no new comparison"
    assert "proposals_left_out" not in after


@pytest.mark.slow
def test_the_ids_of_proposals_share_the_room_of_the_answer(ask: Ask) -> None:
    bases = [ask.put(changes=upsert(f"full/{n}", name="N"))["commit"] for n in range(9)]
    ask.put(changes=[upsert(f"full/{n}", name="M") for n in range(9)])
    for n in range(5):
        ask.submit_subgraph(changes=[upsert(f"full/{m}", name=f"N{n}") for m in range(9)], base=bases[-1])
    answer = ask.get(uris=[f"concept://shop/full/{n}" for n in range(9)], include=["proposals"], budget=600)
    assert {(len(one["proposals"]), one["more_proposals"]) for one in answer["nodes"]} == {(3, 2)}
    assert len(orjson.dumps(answer)) <= 600 * 4
    assert "cursor" in answer


def test_a_proposal_with_a_lost_commit_is_broken_and_hides_no_other(ask: Ask, holds: As, ws: Workspace) -> None:
    base = ask.put(changes=upsert("infra/held", name="Held"))["commit"]
    ask.put(changes=upsert("infra/held", name="Held here"))
    id = ask.submit_subgraph(changes=upsert("infra/held", name="Held there"), base=base, message="there first")[
        "proposal"
    ]
    name = lost_parent(ws)
    answer = ask.get(uris=["concept://shop/infra/held"], include=["proposals"])
    assert answer["nodes"][0]["proposals"] == [id]
    (told,) = answer["proposed"]
    assert (told["id"], told["message"]) == (id, "there first")
    assert told["author"].startswith(ask.session.author(ws).name)
    assert answer["proposals_left_out"] == 1
    states = {one["id"].partition("@")[0]: one["state"] for one in ask.proposals()["proposals"]}
    assert states[name] == "broken"
    reader = holds("read,write", "/infra/**", id="tok00002")
    assert [one["id"] for one in reader.resolve_conflicts(via="agent")["proposals"]] == [id]


def test_a_failed_comparison_is_repeated_at_the_next_tip(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    base = ask.put(changes=upsert("shaky", name="Shaky"))["commit"]
    ask.put(changes=upsert("shaky", name="Shaky here"))
    id = ask.submit_subgraph(changes=upsert("shaky", name="Shaky there"), base=base)["proposal"]
    asked = {"uris": ["concept://shop/shaky"], "include": ["proposals"]}

    def fails(*_: Any) -> None:
        raise Damaged("the disk does not answer")

    with monkeypatch.context() as broken:
        broken.setattr(ObjectStore, "merge_base", fails)
        answer = ask.get(**asked)
        assert answer["proposals_left_out"] == 1
        assert "proposals" not in answer["nodes"][0]
    ask.put(changes=upsert("other", name="Other"))
    assert ask.get(**asked)["nodes"][0]["proposals"] == [id]


@pytest.mark.slow
def test_a_long_description_is_cut_visibly_and_takes_room_from_the_differences(ask: Ask, ws: Workspace) -> None:
    base = ask.put(changes=[upsert(f"long/{n}", name="N") for n in range(60)])["commit"]
    ask.put(changes=upsert("long/0", name="M"))
    changes = [upsert(f"long/{n}", name="O", content="word " * 190) for n in range(60)]
    short = ask.proposals(name=ask.submit_subgraph(changes=changes, base=base, message="s")["proposal"])
    commit = short["proposals"][0]["commit"]
    who = ["-c", "user.name=Ann Person", "-c", "user.email=ann@example.org"]
    text = f"long\n\n{'é' * 5_000}"
    made = git(ws.layout.git_dir, *who, "commit-tree", f"{commit}^{{tree}}", "-p", base, "-m", text).strip()
    git(ws.layout.git_dir, "update-ref", "refs/heads/proposals/long", made)
    long = ask.proposals(name="long")
    assert long["proposals"][0]["description"] == f"{'é' * 4_000}… (5000 characters)"
    assert 0 < len(long["proposals"][0]["diff"]) < len(short["proposals"][0]["diff"]) < 60
    assert len(orjson.dumps(long)) <= paging.HARD_LIMIT

"""History, diff, revert and undo."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kgd import tools
from kgd.errors import Invalid, KgdError, Limit, NotFound
from kgd.model.change import Author
from kgd.tools.history import history
from kgd.workspace.proposals import proposals
from tests import builders
from tests.surfaces.conftest import Ask, git, upsert
from tests.waiting import until


@pytest.fixture
def told(ask: Ask) -> Ask:
    ask.put(changes=upsert("a", summary="one", tags=["x"]), message="first")
    ask.put(changes=upsert("a", summary="two", data={"k": 1}), message="second")
    ask.put(changes=upsert("b", summary="b"), message="third")
    return ask


def subjects(answer: dict) -> list[str]:  # type: ignore[type-arg]
    return [commit["message"].partition("\n")[0] for commit in answer["commits"]]


@pytest.mark.requirement("E14")
@pytest.mark.requirement("E15")
def test_history_is_newest_first_of_all_or_of_one_node(told: Ask) -> None:
    assert subjects(told.history())[:3] == ["third", "second", "first"]
    assert subjects(told.history(uri="a")) == ["second", "first"]
    assert subjects(told.history(author="nobody")) == []
    assert told.history(author="nobody")["next"] == "No author's name contains 'nobody'. The authors are 'Ann Person'."
    with pytest.raises(Limit, match="`author` must have at most 200 characters"):
        told.history(author="n" * 100_000)
    assert subjects(told.history(since="2000-01-01", until="2001-01-01T00:00:00Z")) == []


def test_a_relative_path_of_a_list_has_one_place_even_without_a_file(told: Ask, code: Path) -> None:
    told.put(changes=[upsert("file://shop/src/gone.py")], message="gone")
    told.put(changes=[upsert("file://shop/gone.py")], message="other")
    inner = Ask(replace(told.session, cwd=code / "src"))
    assert subjects(inner.history(path="./gone.py")) == ["gone"]
    assert "src/new.py" in str(inner.context(paths=["./new.py"])), "a file that is not written yet"
    assert subjects(inner.history(path="../gone.py")) == ["other"]
    with pytest.raises(Invalid, match="outside the code tree"):
        inner.history(path="../../gone.py")


def test_history_below_a_path_lists_only_its_commits_and_nodes(told: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    told.put(changes=[upsert("services/auth/keys"), upsert("elsewhere")], message="both")
    told.put(changes=[upsert("services/mail"), upsert("services-old")], message="mail")
    below = told.history(path="services/auth")
    assert subjects(below) == ["both"]
    assert below["commits"][0]["nodes"] == ["concept://shop/services/auth/keys"]
    assert subjects(told.history(path=["/services/auth/", "/*/mail"])) == ["mail", "both"]
    assert subjects(told.history(path="nothing")) == []
    with pytest.raises(Invalid, match="this is a URI, not a path"):
        told.history(path="concept://shop/services/auth")
    monkeypatch.setattr(history, "LOOKED_THROUGH", 2)
    first = told.history(path="a")
    assert subjects(first) == [], "it stops after two commits"
    assert subjects(told.history(path="a", cursor=first["cursor"])) == ["second", "first"]


def test_history_below_a_path_of_the_code_lists_the_facts_about_it(told: Ask) -> None:
    for name, about in (("expiry", "file://shop/src/auth/session.py"), ("rules", "dir://shop/src/auth")):
        relation = {"op": "relate", "source": name, "target": about, "type": "about"}
        told.put(changes=[upsert(name), relation], message=name)
    assert subjects(told.history(path="src/auth")) == ["rules", "expiry"]
    assert subjects(told.history(path="./src/auth/session.py")) == ["expiry"]


@pytest.mark.requirement("E15")
def test_the_diff_names_each_changed_field_with_before_and_after(told: Ask) -> None:
    newest = told.history(uri="a", diff=True)["commits"][0]
    assert newest["diff"] == [
        {
            "uri": "concept://shop/a",
            "change": "changed",
            "fields": {"summary": {"before": "one", "after": "two"}, "data/k": {"before": None, "after": 1}},
        }
    ]
    assert told.diff(range=newest["commit"])["diff"] == newest["diff"]
    first, last = (told.history()["commits"][n]["commit"] for n in (2, 0))
    changed = told.diff(range=f"{first}..{last}")["diff"]
    assert [(one["uri"][-1], one["change"]) for one in changed] == [("a", "changed"), ("b", "created")]


@pytest.mark.parametrize("date", ["2099-11-20", "yesterday", "2 days ago", "2099"])
def test_a_date_instead_of_a_commit_is_answered_with_the_way_to_the_commit(told: Ask, date: str) -> None:
    asked: list[Callable[[], object]] = [
        lambda: told.get(uris="a", as_of=date),
        lambda: told.traverse(start="a", as_of=date),
        lambda: told.diff(range=date),
        lambda: told.revert(commit=date),
    ]
    for ask in asked:
        with pytest.raises(NotFound, match="this is a date, but a commit is needed") as refused:
            ask()
        assert refused.value.next == f"Take the first commit of history with until={date}."
    assert subjects(told.history(until="2099-11-20"))[0] == "third"


def test_history_continues_by_cursor(told: Ask) -> None:
    first = told.history(limit=2)
    assert subjects(told.history(limit=2, cursor=first["cursor"]))[0] == "first"


def test_the_history_of_a_nonexistent_node_is_not_found_and_suggests_similar_names(told: Ask) -> None:
    told.put(changes=upsert("services/payment", summary="Takes money"))
    with pytest.raises(NotFound) as refused:
        told.history(uri="service/payment", since="2000-01-01")
    assert refused.value.at == "concept://shop/service/payment"
    assert "concept://shop/services/payment" in refused.value.next


def test_deleted_and_served_and_then_unchanged_nodes_have_a_history(told: Ask) -> None:
    told.put(changes={"op": "delete", "uri": "b"}, message="fourth")
    assert subjects(told.history(uri="b")) == ["fourth", "third"]
    assert subjects(told.history(uri="./src/checkout.py")) == []
    assert subjects(told.history(uri="a", until="2001-01-01")) == []
    told.put(changes=upsert("message://shop/talk/01", content="hello"), message="fifth")
    told.put(changes={"op": "delete", "uri": "message://shop/talk/01"}, message="sixth")
    assert subjects(told.history(uri="message://shop/talk/01")) == ["sixth", "fifth"]


@pytest.mark.requirement("E14")
def test_revert_keeps_later_changes(told: Ask) -> None:
    second = told.history(uri="a")["commits"][0]["commit"]
    told.put(changes=upsert("a", tags=["y"]))
    told.revert(commit=second[:10])
    (node,) = told.get(uris="a")["nodes"]
    assert (node["summary"], node["tags"]) == ("one", ["x", "y"])
    assert "data" not in node


def test_undo_reverts_one_change_after_the_other(told: Ask) -> None:
    told.undo()
    assert told.get(uris="b")["nodes"] == []
    told.undo()
    assert told.get(uris="a")["nodes"][0]["summary"] == "one"


def by_another(ask: Ask, name: str, **fields: Any) -> str:
    """The id of a commit of another author, as it comes by sync."""
    edits = builders.upsert("concept://shop/other", **fields)
    ws = ask.session.daemon.workspace("shop")
    return str(ws.submit(builders.change(edits, author=Author(name, f"{name}@example.org"))).commit)


@pytest.mark.parametrize("tool", ["undo", "revert"])
def test_the_revert_of_an_undone_commit_names_the_commit_that_undid_it(ask: Ask, tool: str) -> None:
    done = ask.put(changes=upsert("a", summary="one"))["commit"]
    by = ask.undo(commit=done[:7])["commit"]
    again = getattr(ask, tool)(commit=done)
    assert (again["commit"], again["warnings"]) == (
        None,
        [f"{by[:10]} has reverted it already; undo with commit={by[:10]} restores it"],
    )
    assert ask.put(changes={"op": "revert", "commit": done})["warnings"] == again["warnings"]
    ask.undo(commit=by[:10])
    assert ask.get(uris="a")["nodes"]


def test_a_put_that_reverts_answers_as_revert_does(ask: Ask) -> None:
    ask.put(changes=[upsert("a", summary="one"), upsert("b", relations=[{"type": "uses", "target": "a"}])])
    done = ask.put(changes=[upsert("a", summary="two"), upsert("c")], message="second")["commit"]
    ask.put(changes=upsert("b", relations=[{"type": "uses", "target": "c"}]))
    by_revert = ask.revert(commit=done)
    assert (by_revert["deleted"], len(by_revert["warnings"])) == (["concept://shop/c"], 1)
    assert by_revert["reverted"]["message"] == "second"
    ask.undo()
    by_put = ask.put(changes={"op": "revert", "commit": "HEAD~3"}, request_id="once")
    (node,) = by_put["nodes"]
    assert by_put == {**by_revert, "commit": by_put["commit"], "nodes": [{**by_revert["nodes"][0], "version": 5}]}
    assert node["uri"] == "concept://shop/a"
    again = ask.put(changes={"op": "revert", "commit": "HEAD~3"}, request_id="once")
    assert (again["repeated"], again["commit"], again["reverted"]) == (True, by_put["commit"], by_revert["reverted"])


def test_the_revert_of_a_commit_whose_changes_are_gone_reports_it(ask: Ask) -> None:
    done = ask.put(changes=upsert("a", tags=["x"]))["commit"]
    ask.put(changes={"op": "delete", "uri": "a"})
    assert ask.undo(commit=done)["warnings"] == [f"nothing that {done[:10]} changed is left to revert"]


def test_a_history_of_a_commit_instead_of_a_node_names_the_call_that_shows_it(ask: Ask) -> None:
    done = ask.put(changes=upsert("a", summary="one"))["commit"]
    for name in ("HEAD", done[:7]):
        with pytest.raises(NotFound, match="this is a commit, not a node") as refused:
            ask.history(uri=name)
        assert refused.value.next == f"history with commit={done[:10]}, diff=true shows it."


def test_the_undo_of_a_creation_keeps_a_later_change_and_names_the_command_that_shows_both(told: Ask) -> None:
    created = told.history(uri="a")["commits"][-1]["commit"]
    advice = "conflicts shows both"
    warning = f"concept://shop/a has changed since, and both versions are kept as a conflict: {advice}"
    assert warning in told.undo(commit=created)["warnings"]
    assert [one["uri"] for one in told.conflicts()["conflicts"]] == ["concept://shop/a"]


def test_undo_leaves_newer_changes_of_others_alone(told: Ask) -> None:
    by_another(told, "Omar", summary="one")
    newer = by_another(told, "Bob", summary="two")
    assert told.undo(dry_run=True)["reverted"]["message"] == "third"
    undone = told.undo()
    assert undone["reverted"]["message"] == "third"
    assert f"newer changes by others remain: {newer[:10]} by Bob, and 1 more" in undone["warnings"]
    assert told.get(uris="other")["nodes"][0]["summary"] == "two"
    assert [told.undo()["reverted"]["message"] for _ in range(2)] == ["second", "first"]
    with pytest.raises(NotFound, match=f"nothing of yours left to undo; the newest change is {newer[:10]} by Bob") as e:
        told.undo()
    assert e.value.next == "Name a commit: undo with commit=COMMIT."
    assert told.undo(commit=newer)["reverted"]["commit"] == newer
    assert told.get(uris="other")["nodes"][0]["summary"] == "one"


def test_undo_by_a_person_covers_their_agents_and_undo_by_an_agent_only_its_own_changes(told: Ask) -> None:
    agent = Ask(replace(told.session, client="codex 1.0", by_agent=True))
    with pytest.raises(NotFound, match="nothing of yours"):
        agent.undo()
    agent.put(changes=upsert("c"), message="by an agent")
    told.put(changes=upsert("d"), message="by hand")
    assert agent.undo()["reverted"]["message"] == "by an agent"
    agent.put(changes=upsert("e"), message="by an agent again")
    assert [told.undo()["reverted"]["message"] for _ in range(2)] == ["by an agent again", "by hand"]


def test_a_revert_of_a_revert_names_the_original_change_once(told: Ask) -> None:
    for expected in ("revert: third", "restore: third", "revert: third", "restore: third"):
        told.revert(commit=told.history(limit=1)["commits"][0]["commit"])
        assert subjects(told.history(limit=1)) == [expected]
    told.put(changes=upsert("e"), message="revert: the old plan")
    told.revert(commit="HEAD")
    assert subjects(told.history(limit=1)) == ["revert: revert: the old plan"], "a subject that its author wrote"


def test_undo_reverts_a_revert_and_then_continues_before_the_reverted_change(told: Ask) -> None:
    third, second = (one["commit"] for one in told.history(limit=2)["commits"])
    taken_back = told.revert(commit=second)["commit"]
    assert told.undo()["reverted"]["commit"] == taken_back
    assert told.get(uris="a")["nodes"][0]["summary"] == "two"
    assert [told.undo()["reverted"]["commit"] for _ in range(2)] == [third, second]


def test_undo_reverts_a_commit_that_restored_an_undone_change(told: Ask) -> None:
    back = told.revert(commit=told.undo()["commit"])["commit"]
    assert [node["uri"] for node in told.get(uris="b")["nodes"]] == ["concept://shop/b"]
    assert told.undo()["reverted"]["commit"] == back
    assert told.undo()["reverted"]["message"] == "second"


@pytest.mark.slow
def test_undo_skips_a_change_without_remaining_effect(told: Ask) -> None:
    ws = told.session.daemon.workspace("shop")
    tree = ws.layout.work_tree
    until(lambda: (tree / "nodes/concept/b.yaml").exists() and not git(tree, "status", "--porcelain"))
    git(tree, "checkout", "-q", "-b", "side")
    (tree / "nodes/concept/b.yaml").write_text("uri: concept://shop/b\nsummary: same\n")
    git(tree, "commit", "-qam", "theirs")
    git(tree, "checkout", "-q", "-")
    told.put(changes=upsert("b", summary="same"), message="ours")
    until(lambda: "same" in (tree / "nodes/concept/b.yaml").read_text() and not git(tree, "status", "--porcelain"))
    git(tree, "merge", "-q", "--no-ff", "-m", "both", "side")
    until(lambda: subjects(told.history())[0] == "both")
    reverted = [told.undo()["reverted"]["message"]]
    foretold = told.undo(dry_run=True)["reverted"]["message"]
    reverted += [told.undo()["reverted"]["message"] for _ in range(3)]
    assert foretold == reverted[1]
    assert reverted[0] in ("ours", "theirs")
    assert reverted[1:] == ["third", "second", "first"]
    with pytest.raises(NotFound, match="nothing left to undo"):
        told.undo()


def test_a_dry_run_of_a_revert_with_conflicts_leaves_nothing_behind(told: Ask) -> None:
    told.put(changes=[upsert("c", summary="one")], message="fourth")
    told.put(changes=[upsert("c", summary="two")], message="fifth")
    fifth = told.history(limit=1)["commits"][0]["commit"]
    told.put(changes=[upsert("c", summary="three")], message="sixth")
    told.revert(commit=fifth, message="seventh")
    assert told.undo(dry_run=True)["reverted"] == told.undo()["reverted"]


def test_each_change_is_in_the_plain_git_log(told: Ask) -> None:
    ws = told.session.daemon.workspace("shop")
    log = git(ws.layout.git_dir, "log", "--format=%an|%s", "refs/kgd/head").splitlines()
    assert [line.split("|")[1] for line in log[:3]] == ["third", "second", "first"]
    assert all("Ann Person" in line for line in log[:3])


@pytest.mark.parametrize("arguments", [{"since": "yesterday-ish"}, {"limit": 0}, {"cursor": "x"}])
def test_contradictory_arguments_are_refused(told: Ask, arguments: dict) -> None:  # type: ignore[type-arg]
    with pytest.raises(Invalid):
        told.history(**arguments)


def test_an_unknown_commit_is_not_found(told: Ask) -> None:
    for call in (told.history, told.revert):
        with pytest.raises(NotFound):
            call(commit="0" * 40)


def proposed(ask: Ask) -> str:
    """The id of Bob's proposal of two commits, whose node changed meanwhile."""
    ask.put(changes=upsert("p", summary="was", tags=["x"]), message="before")
    ws, bob = ask.session.daemon.workspace("shop"), Author("Bob", "bob@example.org", "tests")
    p, q, base = "concept://shop/p", "concept://shop/q", ws.tip
    for edits in (
        [builders.upsert(p, summary="draft")],
        [builders.upsert(p, summary="proposed"), builders.upsert(q, summary="new")],
    ):
        made, *_ = proposals.propose(ws, builders.change(*edits, author=bob), bytes.fromhex(base), holder="bob")
        base = made.commit
    ask.put(changes=upsert("p", tags=["y"]), message="meanwhile")
    return str(made.id)


@pytest.mark.slow
def test_undo_reverts_a_fully_accepted_proposal_and_continues_before_it(told: Ask) -> None:
    accepted = told.accept(name=proposed(told))["commit"]
    assert len(told.get(uris=["p", "q"])["nodes"]) == 2
    assert told.undo(dry_run=True)["reverted"]["commit"] == accepted
    undone = told.undo()
    assert (undone["reverted"]["commit"], undone["reverted"]["author"]) == (accepted, "Ann Person")
    (left,) = told.get(uris=["p", "q"])["nodes"]
    assert (left["summary"], left["tags"]) == ("was", ["x", "y"])
    assert [told.undo()["reverted"]["message"] for _ in range(3)] == ["meanwhile", "before", "third"]


@pytest.mark.slow
def test_an_accepted_proposal_is_reverted_by_name_and_later_changes_are_kept(told: Ask) -> None:
    accepted = told.accept(name=proposed(told))["commit"]
    told.put(changes=upsert("p", tags=["z"]), message="since")
    back = told.revert(commit=accepted)["commit"]
    (left,) = told.get(uris=["p", "q"])["nodes"]
    assert (left["summary"], left["tags"]) == ("was", ["x", "y", "z"])
    assert told.undo()["reverted"]["commit"] == back
    assert len(told.get(uris=["p", "q"])["nodes"]) == 2
    assert told.undo()["reverted"]["message"] == "since"


def test_the_first_commit_is_listed_without_a_time(ask: Ask) -> None:
    ask.put(changes=upsert("a", summary="one"))
    first, second = ask.history()["commits"][::-1]
    assert (first["operation"], first["at"]) == ("init", "")
    assert second["at"]


@pytest.mark.slow
def test_a_null_byte_in_any_argument_of_a_read_is_answered_or_refused(told: Ask) -> None:
    for name, one in tools.EVERY.items():
        required = set(one.Params.model_json_schema().get("required", ()))
        for field in one.Params.model_fields if one.hints.read_only else ():
            with contextlib.suppress(KgdError):
                tools.call(told.session, name, dict.fromkeys(required, "a") | {field: "a\0b"})

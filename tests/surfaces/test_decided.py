"""Decided proposals: their authors and reviewers read the decision, the reason and the comments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kgd.errors import NotFound
from kgd.model.access import Principal, Scope
from kgd.tools import SERVED
from kgd.tools.proposals import seen
from kgd.tools.session import Session
from kgd.workspace.proposals import decided
from tests.surfaces.conftest import Ask, upsert


class Holder(Ask):
    """Calls operations that tokens may call, as over HTTP."""

    def __getattr__(self, name: str) -> Any:
        return lambda **arguments: SERVED[name].call(self.session, arguments)


As = Callable[..., Holder]


@pytest.fixture
def holds(session: Session) -> As:
    def make(verbs: str, *paths: str, name: str = "billing-agent", id: str = "tok00001") -> Holder:
        principal = Principal(id, name, "agent", (Scope.of("shop", verbs.split(","), paths),))
        return Holder(Session(session.daemon, client="claude", principal=principal))

    return make


def submit(ask: Ask, *names: str) -> Any:
    return ask.submit_subgraph(changes=[upsert(name, name="N") for name in names])


def propose(ask: Ask, *names: str) -> str:
    return str(submit(ask, *names)["proposal"])


def lines(answer: Any) -> list[tuple[str, str]]:
    return [(one["id"], one["decision"]) for one in answer["decided"]]


def test_the_author_reads_why_a_proposal_was_rejected(ask: Ask, holds: As) -> None:
    bot = holds("propose", "/infra/**")
    id = propose(bot, "infra/a")
    ask.comment(name=id, text="Is it not called b?")
    bot.comment(name=id, text="Not here.")
    ask.reject(name=id, reason="b is the name")
    listed = bot.proposals()
    assert (listed["proposals"], listed["decided_lately"]) == ([], 1)
    assert listed["next"] == "1 of your proposals was decided lately: see proposals with decided=true."
    (told,) = bot.status()["decided_proposals"]
    assert (told["reason"], told["discussion"][-1]["text"]) == ("b is the name", "Not here.")
    assert any(
        "1 of your proposals lately: `kgd proposals --decided -w shop`" in said
        for said in submit(bot, "infra/b")["warnings"]
    )
    (one,) = bot.proposals(decided=True)["decided"]
    told = (one["id"], one["decision"], one["decided_by"], one["reason"], one["comments"])
    assert told == (id, "rejected", "Ann Person", "b is the name", 2)
    assert (one["nodes"], "discussion" in one) == (["concept://shop/infra/a"], False)
    (whole,) = bot.proposals(decided=True, name=id.partition("@")[0])["decided"]
    assert [said["text"] for said in whole["discussion"]] == ["Is it not called b?", "Not here."]
    assert [(row["uri"], row["change"]) for row in whole["diff"]] == [("concept://shop/infra/a", "created")]
    with pytest.raises(NotFound, match=r"Ann Person rejected it at .*: b is the name") as gone:
        bot.proposals(name=id)
    assert "proposals with name=NAME, decided=true" in gone.value.next


@pytest.mark.parametrize("decision", ["accept", "reject"])
def test_a_decided_proposal_shows_its_description_and_its_changes_as_proposed(
    ask: Ask, holds: As, decision: str
) -> None:
    bot = holds("read,propose", "/infra/**")
    ask.put(changes=upsert("infra/a", summary="before"))
    id = bot.submit_subgraph(changes=[upsert("infra/a", summary="proposed")], message="Say more\n\nAs agreed.")[
        "proposal"
    ]
    ask.put(changes=upsert("infra/a", tags=["meanwhile"]))
    getattr(ask, decision)(name=id)
    ask.put(changes=upsert("infra/a", summary="later"))
    for caller in (ask, bot):
        (one,) = caller.proposals(decided=True, name=id)["decided"]
        assert one["description"] == "As agreed."
        (row,) = one["diff"]
        assert (row["uri"], row["change"]) == ("concept://shop/infra/a", "changed")
        assert row["fields"] == {"summary": {"before": "before", "after": "proposed"}}
        assert "diff" not in caller.proposals(decided=True)["decided"][0]


@pytest.mark.parametrize("name", ["CI: nightly", '"Bob" the Builder', 'Ann "A: B" in the team'])
def test_any_name_is_distinguished_from_the_reason_of_its_decision(ask: Ask, holds: As, name: str) -> None:
    bot = holds("read,propose", "/infra/**", name=name)
    kept, back = propose(bot, "infra/a"), propose(bot, "infra/b")
    holds("read,write", "/infra/**", name=name, id="tok00002").reject(name=kept, reason="too early: not before May")
    bot.reject(name=back)
    found = {one["id"]: (one["decided_by"], one.get("reason")) for one in ask.proposals(decided=True)["decided"]}
    assert found == {kept: (name, "too early: not before May"), back: (name, None)}


def test_each_kind_of_decision_is_listed_newest_first(ask: Ask, holds: As) -> None:
    bot = holds("propose", "/infra/**")
    whole, part, back, both = (
        propose(bot, *names)
        for names in (("infra/a", "infra/b"), ("infra/c", "infra/d"), ("infra/e",), ("infra/f", "infra/g"))
    )
    commit = ask.accept(name=whole)["commit"]
    ask.accept(name=part, only=["infra/c"])
    ask.reject(name=part, reason="d is wrong")
    bot.reject(name=back)
    ask.accept(name=both, only=["infra/f"])
    ask.accept(name=both, only=["infra/g"])
    answer = bot.proposals(decided=True)
    kinds = {whole: "accepted", part: "partly accepted", back: "withdrawn", both: "accepted"}
    assert dict(lines(answer)) == kinds
    found = {one["id"]: one for one in answer["decided"]}
    assert (found[whole]["commit"], found[whole]["decided_by"]) == (commit, "Ann Person")
    assert found[whole]["nodes"] == ["concept://shop/infra/a", "concept://shop/infra/b"]
    assert found[both]["decided_by"] == "Ann Person"
    assert found[back]["decided_by"] == "billing-agent"
    assert bot.proposals()["decided_lately"] == 3, "the author knows of the withdrawal"
    first = bot.proposals(decided=True, limit=3)
    rest = bot.proposals(decided=True, limit=3, cursor=first["cursor"])
    assert lines(first) + lines(rest) == lines(answer)
    assert (first["total"], "cursor" in rest) == (4, False)


def test_others_see_a_decided_proposal_only_if_they_may_read_its_nodes(ask: Ask, holds: As) -> None:
    bot = holds("propose", "/infra/**")
    rejected, accepted = propose(bot, "infra/a"), propose(bot, "infra/b")
    ask.reject(name=rejected, reason="secret reason")
    ask.accept(name=accepted)
    every = {rejected, accepted}
    assert {id for id, _ in lines(ask.proposals(decided=True))} == every
    reader = holds("read", "/infra/**", name="reader", id="tok00002")
    assert {id for id, _ in lines(reader.proposals(decided=True))} == every
    assert "decided_lately" not in reader.proposals()
    stranger = holds("read,propose", "/other/**", name="billing-agent", id="tok00003")
    assert (stranger.proposals(decided=True)["total"], stranger.proposals()["total"]) == (0, 0)
    for name in every:
        with pytest.raises(NotFound) as told:
            stranger.proposals(decided=True, name=name)
        assert "secret" not in str(told.value)


def test_decided_proposals_are_filtered_by_author_path_and_date(ask: Ask, holds: As) -> None:
    one, two = (
        propose(holds("propose", "/infra/**"), "infra/a"),
        propose(holds("propose", "/zoo/**", name="z"), "zoo/b"),
    )
    ask.reject(name=one)
    ask.accept(name=two)
    assert lines(ask.proposals(decided=True, path=["/infra"])) == [(one, "rejected")]
    assert lines(ask.proposals(decided=True, path=["/zoo"])) == [(two, "accepted")]
    assert lines(ask.proposals(decided=True, by="z (")) == [(two, "accepted")]
    assert len(lines(ask.proposals(decided=True, since="today"))) == 2
    assert lines(ask.proposals(decided=True, until="yesterday")) == []
    assert ask.proposals(decided=True, since="2999-01-01")["next"].startswith("'2999-01-01' is in the future")


def test_an_open_proposal_among_the_decided_ones_is_called_open(ask: Ask, holds: As) -> None:
    id = propose(holds("propose", "/infra/**"), "infra/a", "infra/b")
    ask.accept(name=id, only=["infra/a"])
    with pytest.raises(NotFound, match="the proposal is still open") as refused:
        ask.proposals(decided=True, name=id)
    assert refused.value.next == f"Show it with proposals with name={id.partition('@')[0]}."
    stranger = holds("read,propose", "/other/**", name="stranger", id="tok00003")
    with pytest.raises(NotFound, match="no proposal of that name"):
        stranger.proposals(decided=True, name=id)


def test_old_decisions_are_not_listed_and_their_acceptances_are_removed(
    ask: Ask, holds: As, monkeypatch: pytest.MonkeyPatch
) -> None:
    bot = holds("propose", "/infra/**")
    ask.accept(name=propose(bot, "infra/a"))
    ask.reject(name=propose(bot, "infra/b"))
    assert bot.proposals()["decided_lately"] == 2
    with monkeypatch.context() as later:
        later.setattr(seen, "LATELY", -1)
        assert "decided_lately" not in bot.proposals()
        assert "decided_proposals" not in bot.status()
    monkeypatch.setattr(decided, "DAYS", -1)
    assert ask.proposals(decided=True)["decided"] == []
    monkeypatch.setattr(decided, "MOST", 2)
    monkeypatch.setattr(decided, "ROOM", 1)
    monkeypatch.setattr(decided, "DAYS", 90)
    newest = [propose(bot, f"infra/{name}") for name in "cd"]
    for id in newest:
        ask.accept(name=id)
    found = ask.proposals(decided=True)["decided"]
    assert [one["decision"] for one in found].count("accepted") == 1
    assert [one["decision"] for one in found].count("rejected") == 1


def test_an_acceptance_that_is_no_longer_kept_is_found_by_its_name(
    ask: Ask, holds: As, monkeypatch: pytest.MonkeyPatch
) -> None:
    bot = holds("propose", "/infra/**")
    monkeypatch.setattr(decided, "DAYS", -1)  # each acceptance is removed at once
    ids = []
    for name in "abc":
        ids.append(propose(bot, f"infra/{name}"))
        commit = ask.accept(name=ids[-1])["commit"]
        ask.put(changes={"op": "upsert", "uri": f"notes/{name}", "summary": f"Kgd-Origin: proposals/{ids[-1]}"})
        for one in (ids[-1], ids[-1].partition("@")[0]):
            with pytest.raises(NotFound, match=f"no longer open: Ann Person accepted it .*, in commit {commit[:10]}"):
                ask.proposals(name=one)
    with pytest.raises(NotFound, match="no longer open"):
        ask.proposals(name=ids[0])
    with pytest.raises(NotFound, match="no open proposal has that name"):
        ask.proposals(name=f"{ids[0].partition('@')[0]}@{'f' * 10}")
